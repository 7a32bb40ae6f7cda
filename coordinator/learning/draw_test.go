package learning

import (
	"math"
	"slices"
	"testing"

	"gonum.org/v1/gonum/mathext"
)

// TestBetaDraw holds the draws against the distribution: mean, variance, and the
// whole of it by Kolmogorov and Smirnov, D < 1.63/√n at a level of 1 % (the seeds
// are fixed: it passes or fails always).
func TestBetaDraw(t *testing.T) {
	const n = 20_000
	tests := []struct {
		name        string
		alpha, beta float64
	}{
		{"a newcomer: 10 at 0.9", 9, 1},
		{"even", 5, 5},
		{"uniform", 1, 1},
		{"the prior's bounds", 9.99, 0.01},
		{"and the other", 0.01, 9.99},
		{"many outcomes", 270, 30},
		{"both below one", 0.5, 0.5},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			draws := make([]float64, n)
			var sum, squares float64
			for i := range draws {
				x := betaDraw(tt.alpha, tt.beta, (float64(i)+0.5)/n)
				draws[i] = x
				sum += x
				squares += x * x
			}
			total := tt.alpha + tt.beta
			mean := tt.alpha / total
			variance := mean * (1 - mean) / (total + 1)
			gotMean := sum / n
			if gotVariance := squares/n - gotMean*gotMean; math.Abs(gotMean-mean) > 4*math.Sqrt(variance/n) ||
				math.Abs(gotVariance-variance) > 0.1*variance {
				t.Errorf("mean %.5f, variance %.6f, want %.5f and %.6f", gotMean, gotVariance, mean, variance)
			}
			slices.Sort(draws)
			worst := 0.0
			for i, x := range draws {
				if x > 1-1e-9 || x < 1e-9 {
					continue // so near to the end doubles are further apart than the quantiles
				}
				below := mathext.RegIncBeta(tt.alpha, tt.beta, x)
				worst = max(worst, math.Abs(below-float64(i)/n), math.Abs(below-float64(i+1)/n))
			}
			if worst > 1.63/math.Sqrt(n) {
				t.Errorf("the distribution is off by %.4f, allowed %.4f", worst, 1.63/math.Sqrt(n))
			}
		})
	}
}

// TestDraw: it is the posterior of the Standing that is drawn from, and equal
// chance gives equal draws.
func TestDraw(t *testing.T) {
	const n = 20_000
	l := New(Settings{}, 2)
	history(l, start, 0, "a", "++-++-+")
	for i := range 3 {
		a := l.Type("a")
		sum := 0.0
		for k := range n {
			u := (float64(k) + 0.5) / n
			x := l.Draw(i, a, u)
			if x != l.Draw(i, a, u) {
				t.Fatal("equal chance, different draws")
			}
			sum += x
		}
		if want := l.Standing(i, a).Success; math.Abs(sum/n-want) > 0.005 {
			t.Errorf("agent %d: the draws' mean is %.4f, the posterior's %.4f", i, sum/n, want)
		}
	}
	for _, u := range []float64{0, 1, -3, math.NaN(), math.Inf(1)} {
		if x := l.Draw(0, l.Type("a"), u); !(x >= 0 && x <= 1) {
			t.Errorf("u %v gives %v", u, x)
		}
	}
}
