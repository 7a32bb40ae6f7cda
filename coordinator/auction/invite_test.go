package auction

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"taskbus/coordinator"
)

func TestInvitations(t *testing.T) {
	for n, want := range map[int]int{
		-1: 0, 0: 0, 1: 1, 7: 7, 8: 8,
		9:      8,  // 2·⌈3.17⌉ = 8
		16:     8,  // 2·4
		17:     10, // 2·⌈4.09⌉
		100:    14, // 2·⌈6.64⌉
		1024:   20, // 2·10
		1025:   22, // 2·⌈10.001⌉
		10_000: 28, // 2·⌈13.29⌉
	} {
		if got := Invitations(n); got != want {
			t.Errorf("of %d: %d, want %d", n, got, want)
		}
	}
}

// TestInviteNever: the invited are different candidates, as many as there should be,
// and the same ones each time.
func TestInviteNever(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.OneOf(rapid.IntRange(0, 40), rapid.IntRange(0, math.MaxInt)).Draw(t, "n")
		task := coordinator.TaskID(rapid.StringN(0, 10, -1).Draw(t, "task"))
		seed := rapid.Uint64().Draw(t, "seed")
		var score func(int) float64
		if rapid.Bool().Draw(t, "scored") {
			score = func(i int) float64 { return float64(i % 3) }
		}
		before := []int{-7}
		got := Invite(before, n, task, seed, score)
		if got[0] != -7 || len(got)-1 != Invitations(n) {
			t.Fatalf("%v of %d, want %d behind what was there", got, n, Invitations(n))
		}
		got = got[1:]
		for at, i := range got {
			if i < 0 || i >= n || slices.Contains(got[:at], i) {
				t.Fatalf("%d of %d in %v", i, n, got)
			}
			if score != nil && at > 0 && score(i) > score(got[at-1]) {
				t.Fatalf("%v is not ordered by score", got)
			}
		}
		if again := Invite(nil, n, task, seed, score); !slices.Equal(got, again) {
			t.Fatalf("%v, then %v", got, again)
		}
	})
}

// TestInviteBest: the best are kept of those that were drawn, and no agent is asked that
// cannot be.
func TestInviteBest(t *testing.T) {
	// 10 are asked of 20, twice as many are drawn: all.
	got := Invite(nil, 20, "task", 1, func(i int) float64 { return float64(i) })
	if want := []int{19, 18, 17, 16, 15, 14, 13, 12, 11, 10}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v: 10 of the 20 drawn", got, want)
	}
	got = Invite(nil, 20, "task", 1, func(i int) float64 {
		if i >= 3 {
			return math.NaN()
		}
		return float64(i)
	})
	if !slices.Equal(got, []int{2, 1, 0}) {
		t.Errorf("%v, want those that can be asked", got)
	}
}

// TestInviteUniform: of 100 equal candidates each is asked about equally often in
// 10,000 tasks. 14 of 100 each time: 1,400 expected for each. The counts of draws
// without replacement vary less than independent ones, by (1 − 14/100)·100/99; Σ(count
// − 1400)²/1400, divided by that, is χ² with 99 degrees of freedom, which is above
// 148.2 once in a thousand.
func TestInviteUniform(t *testing.T) {
	for name, score := range map[string]func(int) float64{"no scores": nil,
		"equal scores": func(int) float64 { return 1 }} {
		t.Run(name, func(t *testing.T) {
			var counts [100]int
			var got []int
			for task := range 10_000 {
				got = Invite(got[:0], 100, coordinator.TaskID(fmt.Sprint("task ", task)), 42, score)
				for _, i := range got {
					counts[i]++
				}
			}
			chi := 0.0
			for _, count := range counts {
				chi += float64((count-1400)*(count-1400)) / 1400
			}
			if chi /= (1 - 0.14) * 100 / 99; chi > 148.2 {
				t.Errorf("χ² = %.1f: %v", chi, counts)
			} else {
				t.Logf("χ² = %.1f", chi)
			}
		})
	}
}

func BenchmarkInvite(b *testing.B) {
	var got []int
	b.ReportAllocs()
	for b.Loop() {
		got = Invite(got[:0], 10_000, "task", 1, func(i int) float64 { return float64(i & 7) })
	}
}
