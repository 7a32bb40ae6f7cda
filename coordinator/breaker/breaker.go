package breaker

import (
	"slices"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/heap"
)

// State of one breaker.
type State uint8

// The states. The numbers are part of what is saved and never change.
const (
	Closed   State = 0
	Open     State = 1
	HalfOpen State = 2
)

// String is the word used in HTTP answers and metrics.
func (s State) String() string { return [...]string{"closed", "open", "half_open"}[s] }

// Cause is what has opened a breaker.
type Cause uint8

// The causes. The numbers are part of what is saved and never change.
const (
	ByFaults    Cause = 0 // Settings.Faults tasks in a row
	ByPosterior Cause = 1 // Trip
	ByProbe     Cause = 2 // half-open, and then a fault
)

// breaker is that of one agent and capability. Those that have nothing to
// remember do not exist.
type breaker struct {
	group *group
	agent int
	state State
	away  bool  // the agent is not there: it is not counted
	cause Cause // of the latest opening
	// faults are the tasks that failed in a row: no task twice, the oldest first, at
	// most twice Settings.Faults. While it is open, those that opened it and what
	// came in after them; after a probe, that probe.
	faults []coordinator.TaskID
	// opened is how often it has of late: the multiplier.
	opened   int
	closedAt time.Time // when it was closed last, from which opened decays
	// since is the generation that began with its state, before the one that the
	// closed state before it began with.
	since, before uint64
	// probe is the task that is being tried, while probing.
	probe   coordinator.TaskID
	probing bool
	// until is its deadline, while it has a place in the heap (else -1). Open: when
	// it becomes half-open. Closed: when it forgets that it ever was open.
	until time.Time
	place int
}

// generationMemory is how long a closed breaker ignores dispatches from before it
// closed: longer than any dispatch lasts.
const generationMemory = 24 * time.Hour

// addFault notes a task that failed.
func (b *breaker) addFault(task coordinator.TaskID, most int) {
	if slices.Contains(b.faults, task) {
		return
	}
	if len(b.faults) >= most {
		b.faults = slices.Delete(b.faults, 0, 1)
	}
	b.faults = append(b.faults, task)
}

// outdated reports whether an outcome is that of a dispatch from before the breaker's
// present state. That of the probe never is.
func (b *breaker) outdated(generation uint64, task coordinator.TaskID) bool {
	return generation < b.since && !(b.probing && b.probe == task)
}

// multiplier is what opened has decayed to: by one for each base period since it
// was closed.
func (b *breaker) multiplier(now time.Time, base time.Duration) int {
	if b.state != Closed || b.opened == 0 {
		return b.opened
	}
	return int(max(0, time.Duration(b.opened)-max(0, now.Sub(b.closedAt))/base))
}

// idle reports whether it has nothing to remember.
func (b *breaker) idle() bool {
	return b.state == Closed && len(b.faults) == 0 && b.place < 0
}

// group is what is known of one capability.
type group struct {
	capability string
	supply     int // agents that offer it
	open       int // of its breakers
	halfOpen   int
	breakers   map[int]*breaker // by agent
}

// count keeps the numbers of open and half-open breakers of agents that are there.
func (g *group) count(b *breaker, s State, by int) {
	if b.away {
		return
	}
	switch s {
	case Open:
		g.open += by
	case HalfOpen:
		g.halfOpen += by
	}
}

// ignored reports whether ejection from the capability is without effect: there is
// only one agent, or too many are ejected.
func (g *group) ignored(s *Settings) bool {
	return g.supply <= 1 || float64(g.open) > s.PanicShare*float64(g.supply)
}

// room reports whether the breaker, which is not open, may open: within the maximum
// share, and with one left that is closed.
func (g *group) room(s *Settings, b *breaker) bool {
	notClosed := g.open + g.halfOpen
	if b.state == HalfOpen && !b.away {
		notClosed-- // it is about to be counted as open
	}
	return g.supply > 1 && g.open < s.limit(g.supply) && notClosed+1 < g.supply
}

// agents lists those whose breaker is not closed, in order.
func (g *group) agents() []int {
	var list []int
	for agent, b := range g.breakers {
		if b.state != Closed {
			list = append(list, agent)
		}
	}
	slices.Sort(list)
	return list
}

// newDeadlines makes a heap of the breakers that have a deadline, the earliest first; equal ones in the order of
// capability and agent, so that equal histories give equal answers.
func newDeadlines() heap.Heap[*breaker] {
	return heap.Heap[*breaker]{
		Before: func(a, b *breaker) bool {
			switch {
			case !a.until.Equal(b.until):
				return a.until.Before(b.until)
			case a.group != b.group:
				return a.group.capability < b.group.capability
			}
			return a.agent < b.agent
		},
		Place: func(b *breaker, i int) { b.place = i },
	}
}
