package pull

import (
	"math"
	"time"

	"taskbus/coordinator"
)

// The numbers that BALANCING gives, and its defaults.
const (
	// DefaultCapacity is the items per second of an agent that has not been measured.
	// BALANCING's floors of 0.1 and 1.0 are not used: an agent that has been measured
	// at 0.05 items/s, as a language model may be, is taken at its word, or it would
	// be given twenty times its part.
	DefaultCapacity = 0.5
	// MaxTarget is the most work, in time, that an agent should hold.
	MaxTarget = 30 * time.Second
	// SilentAfter is how long after its latest claim an agent has a part no more.
	SilentAfter = 30 * time.Second
	// DefaultInterval is the time between two claims of one agent.
	DefaultInterval = time.Second

	// maxCapacity bounds what may be given, so that sums stay finite.
	maxCapacity = 1e9
)

// Agent is one that pulls, as the leader knows it.
type Agent struct {
	ID coordinator.AgentID
	// Capacity in items per second; 0 (or what is no such number) says that it has not
	// been measured, and counts as DefaultCapacity. More than 1e9 counts as that.
	Capacity float64
	// Pending is how many items it holds and has not finished, granted ones included
	// from the moment of the grant. Below 0 counts as 0.
	Pending int
	// Free is how many more it may hold: its free slots. Below 0 counts as 0.
	Free int
	// Seen is when it last claimed; a claim that waits for an answer counts as now.
	// Zero counts as now. A heartbeat is not enough: the part of an agent that lives
	// but does not ask would lie there for ever.
	Seen time.Time
}

// Fleet is the agents that share the work, at one moment.
type Fleet struct {
	// Agents with distinct ids, in an order that does not change by chance (by id):
	// equal claims to an odd item are settled by it.
	Agents []Agent
	// Unclaimed is how many items wait with the leader.
	Unclaimed int
	// Age of the picture: how old the oldest of the Pending is that matters.
	Age time.Duration
}

// Settings of a plan. The zero value is usable.
type Settings struct {
	// Interval between two claims of an agent; 0 is DefaultInterval.
	Interval time.Duration
	// RoundTrip from a claim to the first item.
	RoundTrip time.Duration
	// Literal lifts the bound of the fair part, as BALANCING has it: every agent
	// decides for itself. It never lifts those of slots and items.
	Literal bool
}

func (s Settings) interval() time.Duration {
	if s.Interval <= 0 {
		return DefaultInterval
	}
	return s.Interval
}

// Target is T*: how long the work that every agent holds should take. items is what
// there is in all, held or not; capacity in items per second is the fleet's; floor is
// poll interval + claim round trip. It is at least floor and otherwise at most
// MaxTarget; floor itself where there is no capacity.
func Target(items int, capacity float64, floor time.Duration) time.Duration {
	floor = min(max(floor, 0), MaxTarget)
	if items <= 0 || !(capacity > 0) {
		return floor
	}
	seconds := float64(items) / capacity
	if seconds >= MaxTarget.Seconds() {
		return MaxTarget
	}
	return max(floor, time.Duration(math.Round(seconds*float64(time.Second))))
}

// Gain is g: which part of what an agent lacks one grant makes up, when the picture of
// the fleet is that old and agents claim once an interval.
func Gain(age, interval time.Duration) float64 {
	if age > interval {
		return 0.5
	}
	return 1
}

// measured is a capacity that can be reckoned with.
func measured(capacity float64) float64 {
	if !(capacity > 0) {
		return DefaultCapacity
	}
	return min(capacity, maxCapacity)
}
