package state

import (
	"time"

	"taskbus/coordinator/engine/internal/fleet"
	"taskbus/coordinator/heap"
	"taskbus/coordinator/invariant"
)

// Duty is what a timer is for.
type Duty uint8

const (
	DutyStale    Duty = iota // an agent may have been silent for too long
	DutyExpire               // a pending task's assignment timeout or deadline
	DutyRetry                // a returned task's back-off is over, or a batch has been waited for
	DutyBudget               // the retry budget may afford the next retry
	DutyAgent                // something else is due for an agent (see fleet.Timer)
	DutyBreaker              // an ejected agent may be tried again
	DutyClaim                // a claim has waited for work as long as it may
	DutyJoin                 // agents that announced themselves join
	DutyQuota                // quota may be back for which tasks wait, or reservations end
	DutyLanes                // more tasks are to be moved than could be at once
	DutyControls             // a change to the quotas ends
	DutyDay                  // a day is over for the rules about quotas
	// DutyWiden: a task has waited for its preferred agents alone for long enough, or an agent may have it again that
	// asked for time
	DutyWiden
)

// turns is how many there are at one Apply.
const turns = 3

// Turn is when a duty is done among those that are due at one Apply. What ends goes before what begins, or an Apply
// that comes late would give a task to an agent that has been silent for too long already, or after its deadline.
// Of two ends the agent's goes first: the slot that a lease leaves is then not given to another task.
func (d Duty) Turn() int { return min(int(d), turns-1) }

// Timer is a moment at which something is due for one task or one agent, which
// embeds it. A timer that is not scheduled costs nothing.
type Timer struct {
	At    time.Time
	seq   uint64 // order of scheduling, breaks ties of at
	Index int    // place in the heap, -1 when not scheduled
	Duty  Duty
	Of    fleet.Timer // of DutyStale and DutyAgent
	Task  *Task       // set for DutyExpire and DutyRetry
	Agent *Agent      // set for the others
}

func NewTimer(d Duty, t *Task, a *Agent) Timer {
	return Timer{Index: -1, Duty: d, Task: t, Agent: a}
}

// timers is the set of scheduled moments: for each turn a heap, the earliest first.
type timers struct {
	Heaps [turns]heap.Heap[*Timer]
	seq   uint64

	// For check: where it goes on in each heap, and the number of a timer that was due already at the Apply at dueAt,
	// by which it may have been set; 0: none.
	from  [turns]int
	due   uint64
	dueAt time.Time
}

func newTimers() timers {
	h := heap.Heap[*Timer]{
		Before: func(a, b *Timer) bool {
			if !a.At.Equal(b.At) {
				return a.At.Before(b.At)
			}
			return a.seq < b.seq
		},
		Place: func(t *Timer, i int) { t.Index = i },
	}
	return timers{Heaps: [turns]heap.Heap[*Timer]{h, h, h}}
}

// Schedule sets t to the given moment, replacing an earlier setting.
func (s *timers) Schedule(t *Timer, at time.Time) {
	h := &s.Heaps[t.Duty.Turn()]
	s.seq++
	t.At, t.seq = at, s.seq
	if t.Index < 0 {
		h.Push(t)
		return
	}
	h.Fix(t.Index)
}

// Cancel takes t out; it does nothing when t is not scheduled.
func (s *timers) Cancel(t *Timer) {
	if t.Index >= 0 {
		s.Heaps[t.Duty.Turn()].Remove(t.Index)
	}
}

// next is the earliest moment scheduled.
func (s *timers) next() (at time.Time, ok bool) {
	for _, h := range s.Heaps {
		if len(h.Items) > 0 && (!ok || h.Items[0].At.Before(at)) {
			at, ok = h.Items[0].At, true
		}
	}
	return at, ok
}

// PopDue takes out the next timer that is due at now; nil when none is.
func (s *timers) PopDue(now time.Time) *Timer {
	for i := range s.Heaps {
		if h := &s.Heaps[i]; len(h.Items) > 0 && !h.Items[0].At.After(now) {
			return h.Remove(0)
		}
	}
	return nil
}

// Has reports whether a timer is scheduled, at the place that it has stored.
func (s *timers) Has(t *Timer) bool {
	items := s.Heaps[t.Duty.Turn()].Items
	return t.Index >= 0 && t.Index < len(items) && items[t.Index] == t
}

// maxTimers is how many timers one check looks at, at most.
const maxTimers = 1024

// Check looks at some timers of each heap, and whether one was passed over by the Apply at now. One that is due at
// once may be set at any time, a deadline that is over, say; the next Apply must find it.
func (s *timers) Check(now time.Time) (found invariant.Violations) {
	due := uint64(0)
	for i := range s.Heaps {
		h := &s.Heaps[i]
		InTurn(&s.from[i], len(h.Items), maxTimers/turns, func(n int) int {
			if t := h.Items[n]; t.Index != n || t.Duty.Turn() != i || n > 0 && h.Before(t, h.Items[(n-1)/2]) {
				found.Note(invariant.Timers, "",
					"the timer at %d (for %v, duty %d) says %d, or is due before one that goes first", n, t.At, t.Duty, t.Index)
			}
			return 1
		})
		if len(h.Items) == 0 || !h.Items[0].At.Before(now) {
			continue
		}
		t := h.Items[0]
		if due = t.seq; due == s.due && s.dueAt.Before(now) {
			found.Note(invariant.Timers, "", "what was due at %v (duty %d) was passed over at %v", t.At, t.Duty, now)
		}
	}
	if due != s.due {
		s.due, s.dueAt = due, now
	}
	return found
}

// InTurn looks at places from *next on, round about: at each once at most, and until
// what they cost exceeds the budget.
func InTurn(next *int, places, budget int, look func(i int) (cost int)) {
	if *next >= places {
		*next = 0
	}
	for n := 0; n < places && budget > 0; n++ {
		budget -= look(*next)
		*next = (*next + 1) % places
	}
}
