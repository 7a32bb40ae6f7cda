package learning

import (
	"math"

	"taskbus/coordinator/hash"
)

// betaDraw draws from Beta(alpha, beta), as X/(X+Y) of two draws from Gamma
// distributions. The inverse distribution function would take one and a half
// microseconds for each agent of an exploring decision, its quick approximations
// are wrong where a parameter is below 1/2, and a prior of 0.999 has one of 0.01.
// This is exact for every parameter and takes a tenth; it needs more chance than
// u holds, which a generator seeded with u provides.
func betaDraw(alpha, beta, u float64) float64 {
	c := chance{hash.Stream(math.Float64bits(u))}
	x := c.gamma(alpha)
	y := c.gamma(beta)
	if x+y <= 0 { // both too small for a float64: a prior that weighs next to nothing
		return alpha / (alpha + beta)
	}
	return x / (x + y)
}

// chance draws from distributions. Equal seeds give equal draws.
type chance struct{ hash.Stream }

// uniform is strictly between 0 and 1.
func (c *chance) uniform() float64 { return hash.Unit(c.Next()) }

func (c *chance) normal() float64 { return math.Sqrt2 * math.Erfinv(2*c.uniform()-1) }

// gamma draws from the Gamma distribution of this shape and scale 1: Marsaglia
// and Tsang, "A simple method for generating gamma variables", 2000. A shape
// below 1 is drawn as that of one more, times U^(1/shape).
func (c *chance) gamma(shape float64) float64 {
	boost := 1.0
	if shape < 1 {
		boost = math.Pow(c.uniform(), 1/shape)
		shape++
	}
	d := shape - 1.0/3
	k := 1 / math.Sqrt(9*d)
	for {
		x := c.normal()
		v := 1 + k*x
		if v <= 0 {
			continue
		}
		v = v * v * v
		u := c.uniform()
		if u < 1-0.0331*x*x*x*x || math.Log(u) < x*x/2+d*(1-v+math.Log(v)) {
			return d * v * boost
		}
	}
}
