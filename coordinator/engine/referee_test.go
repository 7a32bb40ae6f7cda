package engine_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"taskbus/coordinator"
)

var (
	update = flag.Bool("update", false, "write testdata/referee.txt anew: only where a change of behaviour is meant")
	trace  = flag.String(
		"referee.trace", "",
		"write all that the referee sees into this directory, a file for each seed, to compare it with another version's",
	)
)

const (
	refereeSeeds  = 24
	refereeEvents = 1500 // of which something follows, of each seed
	refereeEvery  = 50   // events of one line of the golden file
	refereeFile   = "testdata/referee.txt"
)

// TestReferee holds what follows from fixed histories against testdata/referee.txt: effects, records,
// images and what readers are told. A change of the code that is not meant to change what the engine
// does changes none of it. It depends on what the engine exports and on the vocabulary: on the order of the
// fields of effects, records and answers, not on their names; a field more, at the end, that is zero
// changes nothing. CONTRIBUTING.md tells when the file may be written anew.
func TestReferee(t *testing.T) {
	golden := readGolden(t)
	var all []*protocol
	t.Run("histories", func(t *testing.T) {
		play := func(name string, play func(*testing.T, *protocol)) {
			p := &protocol{name: name}
			all = append(all, p)
			first := !t.Failed()
			t.Run(name, func(t *testing.T) { p.run(t, golden[name], first, play) })
		}
		for i := range refereeSeeds {
			play(fmt.Sprintf("seed-%02d", i), func(_ *testing.T, p *protocol) {
				newWorld(uint64(i), nil, p.event).play(refereeEvents)
			})
		}
		play("recording", playRecording)
		for _, s := range specials {
			for i := range s.seeds {
				play(fmt.Sprintf("%s-%d", s.name, i), func(_ *testing.T, p *protocol) {
					w := newWorld(uint64(i), &s, p.event)
					w.play(w.events + s.events)
				})
			}
		}
	})
	if *update && !t.Failed() {
		writeGolden(t, all, golden)
	}
}

// protocol is what was seen of one history.
type protocol struct {
	name         string
	facts, texts digest
	checks       strings.Builder
	lines        []string // of the golden file
	events       int

	show func(n int) bool // which events to show, nil: none
	out  strings.Builder
}

// event takes note of what followed from one event.
func (p *protocol) event(n int, now time.Time, ev coordinator.Event, write func(*encoder)) {
	var e encoder
	e.values(now)
	write(&e)
	p.facts.add(e.facts.Bytes())
	p.texts.add(e.texts.Bytes())
	fmt.Fprintf(&p.checks, "%04x", p.facts.check())
	if p.events = n; n%refereeEvery == 0 {
		p.line()
	}
	if p.show != nil && p.show(n) {
		e := encoder{named: true}
		write(&e)
		fmt.Fprintf(&p.out, "== %d at %s: %s\n", n, now.UTC().Format("2006-01-02T15:04:05.999999999"), eventText(ev))
		p.out.Write(e.facts.Bytes())
	}
}

func (p *protocol) line() {
	p.lines = append(p.lines, fmt.Sprintf("%s %d %v %v %s", p.name, p.events, &p.facts, &p.texts, p.checks.String()))
	p.checks.Reset()
}

// run plays a history and holds it against the lines of the golden file. Of the first that differs it shows what
// follows now.
func (p *protocol) run(t *testing.T, want []string, first bool, play func(*testing.T, *protocol)) {
	if *trace != "" {
		p.show = func(int) bool { return true }
	}
	play(t, p)
	if p.checks.Len() > 0 {
		p.line()
	}
	if *trace != "" {
		if err := os.MkdirAll(*trace, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(*trace, p.name+".txt"), []byte(p.out.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if *update || slices.Equal(p.lines, want) {
		return
	}
	const advice = "To see what it was: -referee.trace DIR here and at the commit before, then diff -r. " +
		"Where it is meant: \"The referee\" in CONTRIBUTING.md."
	n := p.firstFact(want)
	if n == 0 {
		t.Fatalf(
			"only texts for people differ, from the events %d to %d on. %s", p.firstText(want)-refereeEvery+1,
			p.firstText(want), advice,
		)
	}
	if !first {
		t.Fatalf("event %d of %d is the first from which something else follows", n, p.events)
	}
	again := &protocol{name: p.name, show: func(at int) bool { return at == n }}
	play(t, again)
	t.Fatalf(
		"event %d of %d is the first from which something else follows, now:\n%s\n%s", n, p.events,
		again.out.String(), advice,
	)
}

// firstFact is the first event from which other effects, records or answers follow than the golden lines say,
// or the one behind the last of either; 0: none, but for texts.
func (p *protocol) firstFact(want []string) int {
	checks := func(lines []string) (all string) {
		for _, line := range lines {
			if f := strings.Fields(line); len(f) == 5 {
				all += f[4]
			}
		}
		return all
	}
	got, golden := checks(p.lines), checks(want)
	if got == golden {
		return 0
	}
	at := 0
	for at < min(len(got), len(golden)) && got[at] == golden[at] {
		at++
	}
	return at/4 + 1
}

// firstText is the event at the end of the first line that differs.
func (p *protocol) firstText(want []string) int {
	for i, line := range p.lines {
		if line != want[i] {
			return (i + 1) * refereeEvery
		}
	}
	return 0
}

func readGolden(t *testing.T) map[string][]string {
	golden := make(map[string][]string)
	b, err := os.ReadFile(refereeFile)
	if err != nil && !*update {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		name, _, _ := strings.Cut(line, " ")
		golden[name] = append(golden[name], strings.TrimSuffix(line, "\n"))
	}
	return golden
}

// writeGolden writes what was played; what -run has left out stays as it was.
func writeGolden(t *testing.T, all []*protocol, golden map[string][]string) {
	var b strings.Builder
	for _, p := range all {
		lines := p.lines
		if p.events == 0 {
			lines = golden[p.name]
		}
		for _, line := range lines {
			b.WriteString(line + "\n")
		}
	}
	if err := os.WriteFile(refereeFile, []byte(b.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}

// eventText writes an event for people, of a policy its version alone.
func eventText(ev coordinator.Event) string {
	if p, ok := ev.(coordinator.PolicyChanged); ok {
		return "PolicyChanged " + p.Policy.Version
	}
	e := encoder{named: true}
	e.values(ev)
	return fmt.Sprintf(
		"%s %s", strings.TrimPrefix(fmt.Sprintf("%T", ev), "coordinator."), strings.TrimSuffix(e.facts.String(), "\n"),
	)
}
