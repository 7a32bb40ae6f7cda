package capacity

import (
	"cmp"
	"math"
	"time"
)

// What BALANCING says of an agent's capacity, and how quickly it changes.
const (
	// Default is the items per second of an agent that has shown none.
	Default = 0.5
	// DefaultWindow is BALANCING's capacity-window-size.
	DefaultWindow = 60

	// weight is n0: the default counts for one item in the two busy seconds it takes. A
	// heavier one would hide an LLM agent that does 0.05 items/s.
	weight = 1
)

// Estimator estimates how many items a second one agent does while it has any: the
// mean of a Gamma posterior for the rate of a Poisson process,
//
//	ĉ = (n0 + items) / (n0/0.5 + busy seconds)
//
// BALANCING's mean of 1000/ms is too high (the mean of 1/x is above 1/mean), endless at
// 0 ms, and takes four items at a time for one. Time counts while the agent has at least
// one item in hand, and once, however many it has: what it does at the same time adds to
// its rate. Items and seconds decay with a half-life of a window of such seconds. Idle
// time neither teaches nor forgets: that it was not asked says nothing about what an agent
// could do, and if waiting wore the estimate down to the default, a fast agent would
// look slow exactly when it is free.
//
// The zero value is an agent of which nothing is known, with nothing in hand, and a
// window of DefaultWindow. It may be copied, and belongs to one goroutine.
type Estimator struct {
	items, busy float64 // decayed; busy in seconds
	samples     int
	inHand      bool
	since       time.Time // up to when time has been accounted for
	size        int       // of the window; 0: DefaultWindow
}

// New makes an estimator of that window: the half-life in busy seconds, and how many
// items an agent must have finished before its estimate is more than a guess. A window
// that is not positive counts as 1.
func New(window int) Estimator { return Estimator{size: max(1, window)} }

func (e *Estimator) window() int { return cmp.Or(e.size, DefaultWindow) }

// InHand sets how many items the agent has from now on. To be called whenever
// that becomes or ceases to be zero; more often does no harm.
func (e *Estimator) InHand(now time.Time, items int) {
	e.account(now)
	e.inHand = items > 0
	if now.After(e.since) {
		e.since = now
	}
}

// Done says that the agent has finished an item just now: one that was done, since
// failing fast is no capacity. To be called while the item still counts as in hand.
func (e *Estimator) Done(now time.Time) {
	e.account(now)
	e.items++
	e.samples = min(e.samples+1, e.window())
}

// NotAfter says that it is no later than now, whatever was said before: by a clock that was
// ahead. Time counts from now on.
func (e *Estimator) NotAfter(now time.Time) {
	if e.since.After(now) {
		e.since = now
	}
}

// Estimate is the capacity in items per second, as of now: it falls while an item
// takes longer than they used to. Always positive.
func (e Estimator) Estimate(now time.Time) float64 {
	e.account(now)
	return (weight + e.items) / (weight/Default + e.busy)
}

// WarmUp reports whether the agent has finished fewer items than the window, ever.
func (e *Estimator) WarmUp() bool { return e.samples < e.window() }

// account adds the busy time up to now. Seconds decay while they pass, so that
// their sum is the same however the time is cut up: over d seconds it grows by
// ∫ 2^(-s/w) ds, s from 0 to d, which is (1 - 2^(-d/w)) · w/ln 2.
func (e *Estimator) account(now time.Time) {
	if !e.inHand || !now.After(e.since) {
		return
	}
	window := float64(e.window())
	keep := math.Exp2(-now.Sub(e.since).Seconds() / window)
	e.items *= keep
	e.busy = e.busy*keep + (1-keep)*window/math.Ln2
	e.since = now
}

// State is what an estimator of the default window has learnt, in plain numbers.
type State struct {
	// Items finished in BusySeconds, both decayed.
	Items, BusySeconds float64
	// Samples is how many items were finished, DefaultWindow at most.
	Samples int
}

// State gives what has been learnt, as of now.
func (e Estimator) State(now time.Time) State {
	e.account(now)
	return State{Items: e.items, BusySeconds: e.busy, Samples: e.samples}
}

// Estimator makes one of the state, with nothing in hand. Impossible numbers count as
// nothing learnt.
func (s State) Estimator() Estimator {
	if !sound(s.Items) || !sound(s.BusySeconds) || s.Samples < 0 {
		return Estimator{}
	}
	return Estimator{items: s.Items, busy: s.BusySeconds, samples: min(s.Samples, DefaultWindow)}
}

// sound: a sum that can be added to.
func sound(x float64) bool { return x >= 0 && x <= math.MaxFloat32 }
