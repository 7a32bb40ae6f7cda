package simulator

import (
	"hash/fnv"
	"io"
	"math"

	"taskbus/coordinator"
)

// The references are no strategies for production: they show what a strategy is
// worth. Both know nothing of the coordinator's own dispatches.
const (
	// Random gives every eligible agent the same chance.
	Random = "random"
	// HeartbeatOnly takes the least load that an agent has reported: until its
	// next heartbeat that stays the same agent.
	HeartbeatOnly = "heartbeat_only"
)

// References lists the names of the reference strategies, sorted.
func References() []string { return []string{HeartbeatOnly, Random} }

// reference makes the reference strategy of that name.
func reference(name string, seed uint64) (coordinator.Strategy, bool) {
	switch name {
	case Random:
		return coordinator.Strategy{
			Name:  Random,
			About: "any eligible agent with the same chance (for comparison)",
			Terms: []string{"chance", "-"},
			Key: func(c *coordinator.Case, a *coordinator.AgentView, _ *coordinator.Standing) coordinator.Key {
				return coordinator.Key{First: Draw(seed, drawChoice, hashText(string(c.Task.ID)), a.Hash), Second: 0}
			},
		}, true
	case HeartbeatOnly:
		return coordinator.Strategy{
			Name:  HeartbeatOnly,
			About: "the least load of the latest heartbeats, whatever was dispatched since (for comparison)",
			Terms: []string{"reported load", "chance of the agent"},
			Key: func(_ *coordinator.Case, a *coordinator.AgentView, _ *coordinator.Standing) coordinator.Key {
				// Equals differ by the agent alone: the engine's own rule, the one that has
				// waited longest, would know of the dispatches since.
				return coordinator.Key{First: a.ReportedLoad, Second: float64(a.Hash >> 11)}
			},
		}, true
	}
	return coordinator.Strategy{}, false
}

// hashText is a number for a text.
func hashText(text string) uint64 {
	h := fnv.New64a()
	_, _ = io.WriteString(h, text) // a hash refuses nothing
	return h.Sum64()
}

// nanoseconds turns simulated seconds into the clock's unit, at least 1: nothing
// takes no time at all.
func nanoseconds(seconds float64) int64 {
	if seconds >= math.MaxInt64/2e9 {
		return math.MaxInt64 / 2
	}
	return max(1, int64(seconds*1e9))
}
