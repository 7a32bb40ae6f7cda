package engine_test

import (
	"bytes"
	"testing"
	"time"

	"taskbus/coordinator"
)

// TestQuestionsChangeNothing plays the referee's worlds twice, and the second time asks all that readers ask before
// every event, at its time: no effect, record, answer or byte of an image is another.
func TestQuestionsChangeNothing(t *testing.T) {
	play := func(seed int, s *special, events int, asks bool) (all [][]byte) {
		w := newWorld(uint64(seed), s, func(_ int, _ time.Time, _ coordinator.Event, write func(*encoder)) {
			var e encoder
			write(&e)
			all = append(all, append(e.facts.Bytes(), e.texts.Bytes()...))
		})
		if asks {
			others := chance{uint64(seed)}
			w.before = func() {
				w.chance, others = others, w.chance
				w.answers(false)
				w.chance, others = others, w.chance
			}
		}
		w.play(w.events + events)
		return all
	}
	same := func(name string, seed int, s *special, events int) {
		t.Run(name, func(t *testing.T) {
			quiet, asked := play(seed, s, events, false), play(seed, s, events, true)
			for i := range quiet {
				if !bytes.Equal(quiet[i], asked[i]) {
					t.Fatalf("seed %d: what followed %d of %d events is another after questions:\n%s\nnot asked:\n%s", seed, i,
						len(quiet), asked[i], quiet[i])
				}
			}
		})
	}
	for seed := range 6 {
		same("any", seed, nil, []int{400, 60}[seed%2]) // where it is wild, a question may take 100 ms
	}
	for i := range specials {
		same(specials[i].name, 0, &specials[i], 100)
	}
}
