package balance

import (
	"math"
	"time"

	"taskbus/coordinator"
)

// DefaultCapacity is the items per second of an agent that has not been measured.
const DefaultCapacity = 0.5

// Local is the agent's own state.
type Local struct {
	// Pending is how many items it holds and has not finished.
	Pending int
	// Free is how many more it may hold.
	Free int
	// Capacity in items per second; what is not a positive number counts as
	// DefaultCapacity. WarmUp says that it is a guess yet (see Estimator).
	Capacity float64
	WarmUp   bool
}

// drain is how long the pending items will take.
func (l Local) drain() time.Duration { return drain(l.Pending, l.Capacity) }

// View is the fleet as the leader told it with an answer (task.granted).
type View struct {
	// Agents that share the work.
	Agents int
	// Pending is how many items they hold, Unclaimed how many the leader.
	Pending, Unclaimed int
	// Capacity of all agents in items per second.
	Capacity float64
	// FairShare is how many items this agent should hold.
	FairShare int
}

// drain is how long so many items take; bounded, so that it can be reckoned with.
func drain(pending int, capacity float64) time.Duration {
	if !(capacity > 0) {
		capacity = DefaultCapacity
	}
	seconds := float64(max(pending, 0)) / capacity
	return time.Duration(min(seconds, 1e9) * float64(time.Second))
}

// busyDrain is where coordinator.BusyHealth begins.
const busyDrain = 30 * time.Second

// HealthOf judges so many items by the time they take at that many items per second.
func HealthOf(pending int, capacity float64) coordinator.Health {
	return coordinator.HealthOf(drain(pending, capacity))
}

// Presence is what an agent's silence means.
type Presence uint8

// The states of Presence. BALANCING lets a report live for 30 s and calls an agent dead
// after three times that.
const (
	Alive   Presence = iota // less than 30 s of silence
	Suspect                 // 30 s or more: no new items for it
	Dead                    // 90 s or more: its items go to others
)

// String is the word.
func (p Presence) String() string { return [...]string{"ALIVE", "SUSPECT", "DEAD"}[min(p, Dead)] }

// PresenceOf judges how long an agent has not been heard of.
func PresenceOf(silence time.Duration) Presence {
	switch {
	case silence < 30*time.Second:
		return Alive
	case silence < 90*time.Second:
		return Suspect
	default:
		return Dead
	}
}

// Estimator measures how many items a second the agent does while it has any:
//
//	ĉ = (1 + items) / (1/0.5 + busy seconds)
//
// the mean of a Gamma posterior for a Poisson rate, which DefaultCapacity enters as one
// item in two seconds. BALANCING's mean of 1000/ms is too high (the mean of 1/x is above
// 1/mean), endless at 0 ms, and takes four items at a time for one. Time counts once
// while the agent has anything in hand, and not at all while it has nothing. Items and
// seconds lose half of their weight in a window of busy time.
//
// Not for concurrent use.
type Estimator struct {
	window  float64 // s
	warm    int
	items   float64 // decayed, as is busy, in seconds
	busy    float64
	samples int
	inHand  bool
	since   time.Time
}

// NewEstimator measures with c's capacity-window-size. It fails as Check does.
func NewEstimator(c Config) (*Estimator, error) {
	if err := c.Check(); err != nil {
		return nil, err
	}
	window := c.withDefaults().LoadBalancing.CapacityWindowSize
	return &Estimator{window: float64(window), warm: window}, nil
}

// InHand tells how many items the agent has from now on. To be called at least whenever
// that becomes or ceases to be 0.
func (e *Estimator) InHand(now time.Time, items int) {
	e.account(now)
	e.inHand = items > 0
	if now.After(e.since) {
		e.since = now
	}
}

// Done tells that an item has just been done, while it still counts as in hand. One that
// failed is none: failing fast is no capacity.
func (e *Estimator) Done(now time.Time) {
	e.account(now)
	e.items++
	e.samples = min(e.samples+1, e.warm)
}

// Capacity is the estimate in items per second as of now; always positive. It falls
// while an item takes longer than they used to.
func (e *Estimator) Capacity(now time.Time) float64 {
	e.account(now)
	return (1 + e.items) / (1/DefaultCapacity + e.busy)
}

// WarmUp tells that too few items have been done, ever, for more than a guess: fewer than
// 60, unless capacity-window-size is another number.
func (e *Estimator) WarmUp() bool { return e.samples < e.warm }

// account adds the busy time up to now. It decays while it passes, so that the sum is the
// same however the time is cut up: ∫ 2^(−s/window) ds over d is (1 − 2^(−d/window))·window/ln 2.
func (e *Estimator) account(now time.Time) {
	if !e.inHand || !now.After(e.since) {
		return
	}
	keep := math.Exp2(-now.Sub(e.since).Seconds() / e.window)
	e.items *= keep
	e.busy = e.busy*keep + (1-keep)*e.window/math.Ln2
	e.since = now
}
