package engine

import (
	"slices"
	"time"

	"taskbus/coordinator"
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
	without bitset
	// priority of the group among those that wait for something to borrow.
	priority int
	queue    *waitQueue
	part     *waitPart
	index    int       // in its part
	tried    bool      // in this round of its queue
	at       time.Time // when it may try by itself, whatever comes back; zero: never
	seq      uint64
	place    int // among those that do, -1: it is not one
}

// quotaWaits are all of them, by what they lack, and by when they may try by themselves.
type quotaWaits struct {
	ledger  *fairshare.Ledger
	shares  *fairshare.Shares
	byTime  heap.Heap[*quotaWait]
	due     heap.Heap[*waitQueue] // those that open by themselves
	queues  map[lackKey]*waitQueue
	behind  map[string][]*waitQueue // by their node
	refused map[string][]*quotaWait // by the node that refused them, who wait behind another
	opened  []*waitQueue            // those that are open
	of      map[waitKey]*quotaWait
	own     []*quotaWait // for whom it makes a difference which agent has the task
	ownTry  int          // how many of them are yet to try what was given back
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

// division asks whether what a node may use is divided among those below it.
type division struct {
	node  string
	limit fairshare.Limit
	dim   coordinator.Dimension
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
		of:      make(map[waitKey]*quotaWait),
	}
}

// forget has nobody wait for quota any more.
func (q *quotaWaits) forget() {
	for len(q.of) > 0 {
		for _, w := range q.of { // order does not matter: all of them go
			q.unpark(w)
			break
		}
	}
	q.again, q.retried, q.opened, q.ownTry, q.soon = nil, nil, nil, 0, time.Time{}
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

// park has a leaf, or the class, wait for quota.
func (q *quotaWaits) park(w *quotaWait) {
	if before := q.of[waitKey{w.class, w.leaf}]; before != nil {
		q.unpark(before)
	}
	if w.leaf < 0 {
		w.class.lacks = w
	} else {
		w.class.waiting.Park(w.leaf)
	}
	q.seq++
	w.seq, w.place = q.seq, -1
	q.of[waitKey{w.class, w.leaf}] = w
	switch w.lacks.Limit {
	case fairshare.LimitSeats: // what comes free is kept for it as long as it is below its part
		q.ledger.Wait(&w.path, 1)
	case fairshare.LimitBudget:
		w.at = w.lacks.RetryAt
	case fairshare.LimitRate:
		w.at = w.lacks.OwnAt
	}
	if w.mayOwn() {
		q.refused[w.lacks.Node] = append(q.refused[w.lacks.Node], w)
	}
	if w.without != nil {
		if q.own = append(q.own, w); w.at.IsZero() {
			w.at = w.lacks.RetryAt
		}
	}
	if !w.at.IsZero() {
		q.byTime.Push(w)
	}
	q.enqueue(w)
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
		q.ledger.Wait(&w.path, -1)
	}
	if w.mayOwn() {
		if left := minus(q.refused[w.lacks.Node], w); len(left) > 0 {
			q.refused[w.lacks.Node] = left
		} else {
			delete(q.refused, w.lacks.Node)
		}
	}
	if w.without != nil {
		q.own = minus(q.own, w)
	}
	if w.place >= 0 {
		q.byTime.Remove(w.place)
	}
	q.dequeue(w)
}

// minus takes one out of a list.
func minus[T comparable](list []T, x T) []T {
	return slices.DeleteFunc(list, func(o T) bool { return o == x })
}

// lacksQuota lets a task wait for quota that its group, or the pool, has not got; or fails
// it because no limit will ever allow so much. without are the agents for which it lacks; nil:
// it does for everybody.
func (e *Engine) lacksQuota(now time.Time, t *openTask, v *fairshare.Verdict, without bitset) {
	e.quotas.flow.refused[v.Limit][v.Dimension]++
	if v.Permanent {
		e.fail(now, t, coordinator.ReasonExceedsQuota, describeLack(v), nil)
		return
	}
	if e.wait(now, t); t.state != stateWaiting {
		return
	}
	lacks := *v
	for _, at := range [2]*time.Time{&lacks.RetryAt, &lacks.OwnAt} {
		if !at.IsZero() && !at.After(now) {
			*at = now.Add(time.Millisecond)
		}
	}
	w := &quotaWait{
		class: t.needs.class, leaf: t.leaf, task: t, lacks: lacks, without: without,
		path: e.quotas.ledger.PathOf(&t.quota.charge),
	}
	switch {
	case without == nil && e.quotas.undivided(&lacks):
		w.leaf = -1
	case !lacks.Owns: // else it borrows nothing
		w.priority = e.quotas.ledger.BorrowPriority(t.task.Group)
	}
	e.quotas.waits.park(w)
	e.scheduleQuota()
}

// undivided tells whether it is a pool that has nothing left, or a model, and no part of it is
// anybody's own: then everybody who is charged to it lacks the same.
func (q *quotas) undivided(v *fairshare.Verdict) bool {
	if v.Kind != coordinator.QuotaPool && v.Kind != coordinator.QuotaModel {
		return false
	}
	key := division{v.Node, v.Limit, v.Dimension}
	divided, known := q.waits.divided[key]
	if !known {
		if q.waits.divided == nil {
			q.waits.divided = make(map[division]bool)
		}
		divided = q.ledger.Divided(v.Node, v.Limit, v.Dimension)
		q.waits.divided[key] = divided
	}
	return !divided
}

// waitsForQuota tells whether the task is to wait for quota behind another of its group, or
// of its pool.
func (e *Engine) waitsForQuota(t *openTask) bool {
	if !e.quotas.ledger.Installed() {
		return false
	}
	c, level := t.needs.class, e.levelOf(t)
	if c.lacks != nil && level <= c.lacks.task.level {
		return true
	}
	w := e.quotas.waits.of[waitKey{c, e.leafOf(t)}]
	switch {
	case w == nil:
		return false
	case level != w.task.level:
		return level < w.task.level
	}
	return before(w.task, t)
}

// exceedsQuota fails a task that asks for more than its quotas ever allow, whoever has it. All
// agents are looked at only if what it exceeds is the first one's own.
func (e *Engine) exceedsQuota(now time.Time, t *openTask) bool {
	h := e.quotaDemand(t)
	i := t.needs.class.usable.first(t.needs.class.usable)
	if h == nil || h.open || i < 0 {
		return false
	}
	c := h.charge
	c.Agent = e.fleet.agents[i].spec.ID
	p := e.quotas.ledger.PathOf(&c)
	v := e.quotas.ledger.Check(now, &p, &c)
	if !v.Permanent {
		return false
	}
	lacks, without := &v, bitset(nil)
	if v.Kind == coordinator.QuotaAgent {
		var able bitset
		if able, lacks, without = e.others(now, t, &v); able != nil || !lacks.Permanent {
			return false
		}
	}
	e.lacksQuota(now, t, lacks, without)
	return true
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
				q.open(w.queue)
			}
		}
	}
}

// retryOwn has those try again for whom it makes a difference which agent has the task, and
// who did not lack anything for this one.
func (e *Engine) retryOwn(a *agent) {
	q := &e.quotas.waits
	for i := 0; i < len(q.own); {
		if w := q.own[i]; w.class.usable.has(a.number) && !w.without.has(a.number) {
			q.unpark(w)
			q.retried = append(q.retried, w)
		} else {
			i++
		}
	}
}

// leafOf is whose turn the task is charged to.
func (e *Engine) leafOf(t *openTask) int {
	return e.quotas.shares.Leaf(t.task.Group)
}

// levelOf is the task's place among the priorities. Without quotas there is one for all:
// the rank has the priority in it.
func (e *Engine) levelOf(t *openTask) int {
	if !e.quotas.ledger.Installed() {
		return 0
	}
	return int(t.task.Priority)
}
