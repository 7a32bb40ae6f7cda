package simulator

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestQuantiles(t *testing.T) {
	tests := []struct {
		name string
		d    Distribution
		u    float64
		want float64
	}{
		{"a constant has one value", Distribution{Constant, 10, 0}, 0.01, 10},
		// 1 − e^(−x/10) = 1/2 at x = 10·ln 2 = 6.931.
		{"exponential, median", Distribution{Exponential, 10, 0}, 0.5, 6.931472},
		// 1 − e^(−1) of the values lie below the mean.
		{"exponential, at its mean", Distribution{Exponential, 10, 0}, 1 - math.Exp(-1), 10},
		// µ = ln 10 − 1²/2, and the median is e^µ = 10·e^(−1/2) = 6.065.
		{"lognormal, median", Distribution{Lognormal, 10, 1}, 0.5, 6.065307},
		// One σ above it, where 84.134 % of a normal distribution lie: 10·e^(1/2).
		{"lognormal, one sigma", Distribution{Lognormal, 10, 1}, 0.8413447460685429, 16.487213},
		{"lognormal without spread", Distribution{Lognormal, 10, 0}, 0.9, 10},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { approx(t, "quantile", tt.d.Quantile(tt.u), tt.want, 1e-6) })
	}
}

// The mean of what is drawn is the mean that was asked for: 200,000 draws, whose
// mean has a standard error of 0.3 % (lognormal, σ = 1: √(e−1)/√200,000).
func TestDrawsHaveTheirMean(t *testing.T) {
	for _, d := range []Distribution{{Constant, 3, 0}, {Exponential, 3, 0}, {Lognormal, 3, 1}} {
		sum := 0.0
		const n = 200_000
		for i := range uint64(n) {
			sum += d.Quantile(Draw(1, drawService, i, 0))
		}
		approx(t, string(d.Shape), sum/n, 3, 0.012)
	}
}

// Chance depends on every argument, and on nothing else.
func TestDraw(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := func(name string) uint64 { return rapid.Uint64().Draw(t, name) }
		seed, what, a, b := n("seed"), n("what"), n("a"), n("b")
		u := Draw(seed, what, a, b)
		if !(u > 0 && u < 1) {
			t.Fatalf("%g is not between 0 and 1", u)
		}
		if Draw(seed, what, a, b) != u {
			t.Fatal("drawn again it is another number")
		}
		for i, other := range []float64{Draw(seed+1, what, a, b), Draw(seed, what+1, a, b), Draw(seed, what, a+1, b),
			Draw(seed, what, a, b+1)} {
			if other == u {
				t.Fatalf("argument %d makes no difference", i+1)
			}
		}
	})
}

// Moments come out in the order of time, and of two at the same time the one that
// was scheduled first, whatever is scheduled in between.
func TestMomentsComeInOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var m Timeline[int]
		var expected []due[int]
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			if len(expected) > 0 && rapid.Bool().Draw(t, "take") {
				if at, what := m.Next(); at != expected[0].at || what != expected[0].what {
					t.Fatalf("%d came at %d, want %+v", what, at, expected[0])
				}
				expected = expected[1:]
				continue
			}
			at := rapid.Int64Range(0, 20).Draw(t, "at")
			m.Add(at, int(m.seq))
			expected = append(expected, due[int]{at, m.seq, int(m.seq) - 1})
			slices.SortFunc(expected, func(a, b due[int]) int {
				if a.before(&b) {
					return -1
				}
				return 1
			})
		}
	})
}
