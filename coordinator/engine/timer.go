package engine

import (
	"time"

	"taskbus/coordinator/heap"
)

// duty is what a timer is for.
type duty uint8

const (
	dutyStale    duty = iota // an agent may have been silent for too long
	dutyExpire               // a pending task's assignment timeout or deadline
	dutyRetry                // a returned task's back-off is over, or a batch has been waited for
	dutyBudget               // the retry budget may afford the next retry
	dutyRecheck              // look again whether an agent's queue exists
	dutyCool                 // an agent's full queue may have room again
	dutyBreaker              // an ejected agent may be tried again
	dutyRamp                 // a new agent may have more tasks at once
	dutySteady               // an agent that came and went has been steady
	dutyForget               // an agent that had joined has been gone for long
	dutyClaim                // a claim has waited for work as long as it may
	dutyJoin                 // agents that announced themselves join
	dutyQuota                // quota may be back for which tasks wait, or reservations end
	dutyLanes                // more tasks are to be moved than could be at once
	dutyControls             // a change to the quotas ends
	dutyDay                  // a day is over for the rules about quotas
	// a task has waited for its preferred agents alone for long enough, or an agent may have it again that asked for
	// time
	dutyWiden
)

// turns is how many there are at one Apply.
const turns = 3

// turn is when a duty is done among those that are due at one Apply. What ends goes before what begins, or an Apply
// that comes late would give a task to an agent that has been silent for too long already, or after its deadline.
// Of two ends the agent's goes first: the slot that a lease leaves is then not given to another task.
func (d duty) turn() int { return min(int(d), turns-1) }

// timer is a moment at which something is due for one task or one agent, which
// embeds it. A timer that is not scheduled costs nothing.
type timer struct {
	at    time.Time
	seq   uint64 // order of scheduling, breaks ties of at
	index int    // place in the heap, -1 when not scheduled
	duty  duty
	task  *openTask // set for dutyExpire and dutyRetry
	agent *agent    // set for the others
}

func newTimer(d duty, t *openTask, a *agent) timer {
	return timer{index: -1, duty: d, task: t, agent: a}
}

// timers is the set of scheduled moments: for each turn a heap, the earliest
// first.
type timers struct {
	heaps [turns]heap.Heap[*timer]
	seq   uint64
}

func newTimers() timers {
	h := heap.Heap[*timer]{
		Before: func(a, b *timer) bool {
			if !a.at.Equal(b.at) {
				return a.at.Before(b.at)
			}
			return a.seq < b.seq
		},
		Place: func(t *timer, i int) { t.index = i },
	}
	return timers{heaps: [turns]heap.Heap[*timer]{h, h, h}}
}

// schedule sets t to the given moment, replacing an earlier setting.
func (s *timers) schedule(t *timer, at time.Time) {
	h := &s.heaps[t.duty.turn()]
	s.seq++
	t.at, t.seq = at, s.seq
	if t.index < 0 {
		h.Push(t)
		return
	}
	h.Fix(t.index)
}

// cancel takes t out; it does nothing when t is not scheduled.
func (s *timers) cancel(t *timer) {
	if t.index >= 0 {
		s.heaps[t.duty.turn()].Remove(t.index)
	}
}

// next is the earliest moment scheduled.
func (s *timers) next() (at time.Time, ok bool) {
	for _, h := range s.heaps {
		if len(h.Items) > 0 && (!ok || h.Items[0].at.Before(at)) {
			at, ok = h.Items[0].at, true
		}
	}
	return at, ok
}

// popDue takes out the next timer that is due at now; nil when none is.
func (s *timers) popDue(now time.Time) *timer {
	for i := range s.heaps {
		if h := &s.heaps[i]; len(h.Items) > 0 && !h.Items[0].at.After(now) {
			return h.Remove(0)
		}
	}
	return nil
}
