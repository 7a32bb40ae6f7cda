package fleet

import (
	"time"

	"taskbus/coordinator"
)

// Presence is whether an agent is there for its work, beyond what it reports.
type Presence struct {
	// cordoned and draining are an operator's orders; drained: nothing is left.
	Cordoned, Draining, Drained bool
	// hadConsumer: its queue has been seen with a consumer; seenConsumer: in this
	// session. One that never had any fetches its messages one by one, and nothing
	// follows from their absence.
	HadConsumer, SeenConsumer bool
	// consumedTold is the time, by its own clock, of its latest report when that was seen in
	// the first place (see Consumed).
	ConsumedTold time.Time
	MissedAt     time.Time // when a look found none; zero: it found one, or none was missed
	// unattended: it had a consumer before this session, and has none now: it gets nothing
	// until it has one again, or is gone.
	Unattended bool
	// takenQueue is the queue that the shell consumes for others: its own, or the
	// one it had until a moment ago; empty when none.
	TakenQueue string
	// heldByUs: a session ended while we consumed its queue. What is redelivered from
	// there may have been in our hands, not in the agent's, until it has been empty.
	HeldByUs bool
	// unsteady: it has left too often a moment ago; until its steady timer.
	Unsteady  bool
	LeftAt    time.Time // when it last left; zero: never
	LeftCount int       // how often it has, with less than flapMemory between two times
	// suspect: silent for a while, not for so long that it is stale.
	Suspect bool
	// since is when it came; slots how many tasks it may have for being new, 0: as
	// many as it has room for.
	Since time.Time
	Slots int
	// told is the state that was announced last.
	Told coordinator.AgentState
	// lookedAt is when the shell was last asked to look at its queue.
	LookedAt time.Time
}

// Gone reports whether the agent is known not to be there.
func (a *Agent) Gone() bool {
	switch a.State {
	case coordinator.AgentOffline, coordinator.AgentStale, coordinator.AgentGone:
		return true
	}
	return false
}

// LeftAlone reports whether its work is left to it: it is there, and not drained.
func (a *Agent) LeftAlone() bool { return a.State == coordinator.AgentOnline && !a.Draining }

// MayBeMissed reports whether the absence of the agent's consumer means that it is gone.
// After a session has been connected agents come back in their own time: one that had a
// consumer before gets nothing until it has one, but what it has is left to it within the
// grace that silence has, too.
func (a *Agent) MayBeMissed(now, from time.Time) bool {
	return a.SeenConsumer || a.HadConsumer && !now.Before(from)
}

// Order notes an operator's order, which outlives the agent's own absence. The agent, if there is one, follows it; the
// caller refreshes it.
func (f *Fleet[T, A]) Order(id coordinator.AgentID, order coordinator.Order) {
	if order == coordinator.OrderUncordon {
		delete(f.orders, id)
	} else {
		f.orders[id] = order
	}
	if m, ok := f.ByID[id]; ok {
		f.Obey(m)
	}
}

// Orders returns the orders that stand. The map must not be changed.
func (f *Fleet[T, A]) Orders() map[coordinator.AgentID]coordinator.Order { return f.orders }

// Obey gives the agent the orders that stand for it.
func (f *Fleet[T, A]) Obey(m A) {
	a := m.Core()
	order, given := f.orders[a.Spec.ID]
	a.Cordoned = given
	a.Draining = given && order == coordinator.OrderDrain
	a.Drained = a.Drained && a.Draining
}
