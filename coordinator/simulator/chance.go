package simulator

import (
	"math"

	"taskbus/coordinator/hash"
)

// What a draw is for: the first thing that is hashed after the seed, so that no two
// kinds of draws share numbers.
const (
	drawArrival uint64 = iota + 1
	drawPriority
	drawService
	drawSuccess
	drawPhase
	drawLoss
	drawCrash
	drawRestart
	drawChoice
	drawInput
	drawOutput
)

// Draw is a number above 0 and below 1 that depends on nothing but its arguments.
func Draw(seed, what, a, b uint64) float64 {
	h := mix(mix(mix(mix(seed)^what)^a) ^ b)
	return hash.Unit(h)
}

// mix is one step of SplitMix64.
func mix(x uint64) uint64 {
	s := hash.Stream(x)
	return s.Next()
}

// Shape is the form of a distribution.
type Shape string

// The shapes. A constant has no spread; the others are the usual models of
// memoryless and of heavy-tailed work.
const (
	Constant    Shape = "constant"
	Exponential Shape = "exponential"
	Lognormal   Shape = "lognormal"
)

// Distribution of seconds. Mean is that of the values, not of their logarithms;
// Sigma is the standard deviation of the logarithms, for Lognormal alone.
type Distribution struct {
	Shape       Shape
	Mean, Sigma float64
}

// Quantile is the value below which the share u of all values lies, 0 < u < 1.
func (d Distribution) Quantile(u float64) float64 {
	switch d.Shape {
	case Exponential:
		return -d.Mean * math.Log1p(-u)
	case Lognormal:
		// The mean of a lognormal is exp(µ + σ²/2).
		mu := math.Log(d.Mean) - d.Sigma*d.Sigma/2
		return math.Exp(mu + d.Sigma*normalQuantile(u))
	default:
		return d.Mean
	}
}

// normalQuantile is the inverse of the standard normal distribution function.
func normalQuantile(u float64) float64 { return -math.Sqrt2 * math.Erfcinv(2*u) }

// exponential draws a time of that mean.
func exponential(mean, u float64) float64 { return -mean * math.Log1p(-u) }
