package balance

import (
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/capacity"
)

// DefaultCapacity is the items per second of an agent that has not been measured.
const DefaultCapacity = capacity.Default

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

// Estimator measures how many items a second the agent does while it has any, as the
// coordinator measures it, too.
type Estimator = capacity.Estimator

// NewEstimator measures the agent's capacity over c's capacity-window-size. It fails as
// Check does.
func NewEstimator(c Config) (*Estimator, error) {
	if err := c.Check(); err != nil {
		return nil, err
	}
	e := capacity.New(c.WithDefaults().LoadBalancing.CapacityWindowSize)
	return &e, nil
}
