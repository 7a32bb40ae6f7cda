package learning

import (
	"math"
	"time"
)

// What BALANCING says of an agent's capacity, and how quickly it changes.
const (
	// DefaultCapacity is the items per second of an agent that has shown none.
	DefaultCapacity = 0.5
	// WarmUpSamples is how many items an agent must have finished before its
	// estimate is more than a guess.
	WarmUpSamples = 60

	// capacityWeight is n0: the default counts for one item in the two busy seconds
	// it takes. A heavier one would hide an LLM agent that does 0.05 items/s.
	capacityWeight   = 1
	capacityHalfLife = 60 * time.Second
)

// Capacity estimates how many items a second one agent does while it has any: the
// mean of a Gamma posterior for the rate of a Poisson process,
//
//	ĉ = (n0 + items) / (n0/0.5 + busy seconds)
//
// Time counts while the agent has at least one task in hand, and once, however
// many it has: what it does at the same time adds to its rate. Items and seconds
// decay with a half-life of 60 such seconds. Idle time neither teaches nor
// forgets: that nobody asked says nothing about what an agent could do, and if
// waiting wore the estimate down to the default, a fast agent would look slow
// exactly when it is free.
//
// The zero value is an agent of which nothing is known, with nothing in hand.
type Capacity struct {
	items, busy float64 // decayed; busy in seconds
	samples     int
	inHand      bool
	since       time.Time // up to when time has been accounted for
}

// InHand tells how many tasks the agent has from now on. To be called whenever
// that becomes or ceases to be zero; more often does no harm.
func (c *Capacity) InHand(now time.Time, tasks int) {
	c.account(now)
	c.inHand = tasks > 0
	if now.After(c.since) {
		c.since = now
	}
}

// Done tells that the agent has finished an item just now: one that was done, since
// failing fast is no capacity. To be called while the item still counts as in hand.
func (c *Capacity) Done(now time.Time) {
	c.account(now)
	c.items++
	if c.samples < WarmUpSamples {
		c.samples++
	}
}

// Estimate is the capacity in items per second, as of now: it falls while an item
// takes longer than they used to. Always positive.
func (c Capacity) Estimate(now time.Time) float64 {
	c.account(now)
	return (capacityWeight + c.items) / (capacityWeight/DefaultCapacity + c.busy)
}

// WarmUp tells that the agent has finished fewer than 60 items, ever.
func (c *Capacity) WarmUp() bool { return c.samples < WarmUpSamples }

// account adds the busy time up to now. Seconds decay while they pass, so that
// their sum is the same however the time is cut up: over d seconds it grows by
// ∫ 2^(-s/60) ds, s from 0 to d, which is (1 - 2^(-d/60)) · 60/ln 2.
func (c *Capacity) account(now time.Time) {
	if !c.inHand || !now.After(c.since) {
		return
	}
	keep := math.Exp2(-now.Sub(c.since).Seconds() / capacityHalfLife.Seconds())
	c.items *= keep
	c.busy = c.busy*keep + (1-keep)*capacityHalfLife.Seconds()/math.Ln2
	c.since = now
}

// CapacityState is what a Capacity has learnt, in plain numbers.
type CapacityState struct {
	// Items finished in BusySeconds, both decayed.
	Items, BusySeconds float64
	// Samples is how many items were finished, 60 at most.
	Samples int
}

// State gives what has been learnt, as of now.
func (c Capacity) State(now time.Time) CapacityState {
	c.account(now)
	return CapacityState{Items: c.items, BusySeconds: c.busy, Samples: c.samples}
}

// Capacity makes an estimate of the state, with nothing in hand. Impossible
// numbers count as nothing learnt.
func (s CapacityState) Capacity() Capacity {
	if !sound(s.Items, s.BusySeconds) || s.Samples < 0 {
		return Capacity{}
	}
	return Capacity{items: s.Items, busy: s.BusySeconds, samples: min(s.Samples, WarmUpSamples)}
}
