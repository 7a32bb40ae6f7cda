package engine

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"taskbus/coordinator/fairshare"
	"taskbus/coordinator/heap"
)

// Tasks that wait for quota. What their group lacks, the other tasks of the group in the
// class lack, too, and are not looked at until it may be back: the group is parked there. If
// it is a pool itself that has nothing left, and none of it is divided among groups, that goes
// for the whole class.
type quotaWait struct {
	class *class
	leaf  int       // everyone's that is parked; -1: the class
	task  *openTask // the one that was to go
	lacks fairshare.Verdict
	path  fairshare.Path // of what was refused
	// without are the agents for which it lacks; nil: it makes no difference who has it.
	without    *lackers
	woken      bool               // it is to try what its agents may have got back, see ownWaits
	borrower   fairshare.Borrower // who comes first of those who are to borrow
	queue      *waitQueue
	part       *waitPart
	index      int       // in its part
	tried      bool      // in this round of its queue
	asidePlace int       // among those of its queue that are set aside, from 1 on; 0: it is not
	asideIndex int       // the same in its part
	at         time.Time // when it may try by itself, whatever comes back; zero: never
	seq        uint64
	place      int // among those that do, -1: it is not one
}

// quotaWaits are all of them, by what they lack, and by when they may try by themselves.
type quotaWaits struct {
	ledger  *fairshare.Ledger
	shares  *fairshare.Shares
	byTime  heap.Heap[*quotaWait]
	due     heap.Heap[*waitQueue] // those that open by themselves
	rates   int                   // how many of them are for rates
	queues  map[lackKey]*waitQueue
	behind  map[string][]*waitQueue // by their node
	refused map[string][]*quotaWait // by the node that refused them, who wait behind another
	opened  []*waitQueue            // those that are open
	seated  []*class                // in which somebody waits for seats
	aside   map[int][]*quotaWait    // those that are set aside, by leaf
	of      map[waitKey]*quotaWait
	own     ownWaits
	again   []*quotaWait // whose task has left
	retried []*quotaWait // unparked for one agent, and not served yet by the others
	soon    time.Time    // when the others of a round try that was long; zero: there are none
	claimed bool         // something was unparked that somebody may claim
	seq     uint64
	divided map[division]bool
}

type waitKey struct {
	class *class
	leaf  int
}

func newQuotaWaits(l *fairshare.Ledger, s *fairshare.Shares) quotaWaits {
	return quotaWaits{
		ledger: l, shares: s,
		byTime: heap.Heap[*quotaWait]{
			Before: func(a, b *quotaWait) bool {
				if !a.at.Equal(b.at) {
					return a.at.Before(b.at)
				}
				return a.seq < b.seq
			},
			Place: func(w *quotaWait, i int) { w.place = i },
		},
		due:     newDueQueues(),
		queues:  make(map[lackKey]*waitQueue),
		behind:  make(map[string][]*waitQueue),
		refused: make(map[string][]*quotaWait),
		aside:   make(map[int][]*quotaWait),
		of:      make(map[waitKey]*quotaWait),
		own:     ownWaits{behind: make(map[string][]*quotaWait)},
	}
}

// forget has nobody wait for quota any more.
func (q *quotaWaits) forget() {
	for _, w := range slices.SortedFunc(maps.Values(q.of), func(a, b *quotaWait) int { return cmp.Compare(a.seq, b.seq) }) {
		q.unpark(w)
	}
	q.seated, q.again, q.retried, q.opened, q.soon = nil, nil, nil, nil, time.Time{}
}

// find is what the tasks of a leaf wait for in a class; nil: for no quota.
func (q *quotaWaits) find(c *class, leaf int) *quotaWait {
	if c == nil {
		return nil
	}
	if c.lacks != nil {
		return c.lacks
	}
	return q.of[waitKey{c, leaf}]
}

// parked reports whether the task itself was refused, so that its leaf or its class waits.
func (q *quotaWaits) parked(t *openTask) bool {
	own, all := q.of[waitKey{t.needs.class, t.leaf}], t.needs.class.lacks
	return own != nil && own.task == t || all != nil && all.task == t
}

// park has a leaf, or the class, wait for quota.
func (q *quotaWaits) park(w *quotaWait) {
	if before := q.of[waitKey{w.class, w.leaf}]; before != nil {
		if q.unpark(before); before.lacks.Limit == fairshare.LimitSeats {
			q.seatsOf(before) // what was kept for it may be for others
		}
	}
	if w.leaf < 0 {
		w.class.lacks = w
	} else {
		w.class.waiting.Park(w.leaf)
	}
	q.seq++
	w.seq, w.place = q.seq, -1
	q.of[waitKey{w.class, w.leaf}] = w
	if w.lacks.Limit == fairshare.LimitSeats {
		q.sit(w)
	}
	w.at = w.mayTryAt()
	if w.mayOwn() {
		q.refused[w.lacks.Node] = append(q.refused[w.lacks.Node], w)
	}
	if w.without != nil {
		if q.own.add(w); w.at.IsZero() {
			w.at = w.lacks.RetryAt
		}
		if again := w.without.again; !again.IsZero() && (w.at.IsZero() || again.Before(w.at)) {
			w.at = again
		}
	}
	if !w.at.IsZero() {
		q.byTime.Push(w)
	}
	q.enqueue(w)
}

// mayTryAt is when it may try by itself, whatever comes back; zero: never.
func (w *quotaWait) mayTryAt() time.Time {
	switch w.lacks.Limit {
	case fairshare.LimitBudget:
		return w.lacks.RetryAt
	case fairshare.LimitRate:
		return w.lacks.OwnAt
	}
	return time.Time{}
}

// mayOwn tells whether it waits behind another node than the one that refused it, and could be
// served by what comes back to that one alone. Seats that come back are kept for those who are
// below their part, so that these need no more than their turn.
func (w *quotaWait) mayOwn() bool {
	return w.lacks.Behind != w.lacks.Node && w.lacks.Limit != fairshare.LimitSeats
}

// unpark has it try again.
func (q *quotaWaits) unpark(w *quotaWait) {
	if w.leaf < 0 {
		w.class.lacks = nil
	} else {
		w.class.waiting.Unpark(w.leaf)
	}
	delete(q.of, waitKey{w.class, w.leaf})
	if w.lacks.Limit == fairshare.LimitSeats {
		q.rise(w)
	}
	if w.mayOwn() {
		if left := minus(q.refused[w.lacks.Node], w); len(left) > 0 {
			q.refused[w.lacks.Node] = left
		} else {
			delete(q.refused, w.lacks.Node)
		}
	}
	if w.without != nil {
		q.own.remove(w)
	}
	if w.place >= 0 {
		q.byTime.Remove(w.place)
	}
	q.dequeue(w)
}

// refusedAgain is parking one anew that waits for the same as before, and has had its turn.
func (q *quotaWaits) refusedAgain(w *quotaWait, v fairshare.Verdict) {
	q.seq++
	if w.place >= 0 {
		q.byTime.Remove(w.place)
	}
	w.lacks = v
	if w.at = w.mayTryAt(); !w.at.IsZero() {
		q.byTime.Push(w)
	}
	q.refusedInTurn(w)
}

// minus takes one out of a list.
func minus[T comparable](list []T, x T) []T {
	return slices.DeleteFunc(list, func(o T) bool { return o == x })
}

// left notes that a task waits no more. Those behind it may need less.
func (q *quotaWaits) left(t *openTask) {
	c := t.needs.class
	if c == nil || len(q.of) == 0 {
		return
	}
	for _, w := range [2]*quotaWait{c.lacks, q.of[waitKey{c, t.leaf}]} {
		if w != nil && w.task == t {
			q.again = append(q.again, w)
			if w.lacks.Limit == fairshare.LimitSeats { // what was kept for it is for others
				q.seatsOf(w)
			}
		}
	}
}

// leafOf is whose turn the task is charged to.
func (e *Engine) leafOf(t *openTask) int {
	return e.quotas.shares.Leaf(t.task.Group)
}

// levelOf is the task's place among the priorities.
func levelOf(t *openTask) int { return int(t.task.Priority) }
