package engine

import (
	"cmp"
	"slices"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/fairshare"
	"taskbus/coordinator/heap"
)

// Tasks that wait for quota. What their group lacks, the other tasks of the group in the
// class lack, too, and are not looked at until it may be back: the group is parked there. If
// it is the pool itself that has nothing left, that goes for the whole class.
type quotaWait struct {
	class *class
	leaf  int       // everyone's that is parked; -1: the class
	task  *openTask // the one that was to go
	lacks fairshare.Verdict
	// priority of the group among those that wait for something to borrow.
	priority int
	place    int // among those that end by themselves, -1: it is not one
}

// quotaWaits are all of them, by when they may end, and by the node that has nothing left.
type quotaWaits struct {
	byTime heap.Heap[*quotaWait]
	at     map[string][]*quotaWait
	of     map[waitKey]*quotaWait
	again  []*quotaWait // whose task has left
}

type waitKey struct {
	class *class
	leaf  int
}

// mostUnparked is how many groups may try at one time when something of what all of them lack
// is given back. Those that are parked again stand behind the others.
const mostUnparked = 16

func newQuotaWaits() quotaWaits {
	return quotaWaits{
		byTime: heap.Heap[*quotaWait]{
			Before: func(a, b *quotaWait) bool {
				if !a.lacks.RetryAt.Equal(b.lacks.RetryAt) {
					return a.lacks.RetryAt.Before(b.lacks.RetryAt)
				}
				return a.class.key < b.class.key || a.class.key == b.class.key && a.leaf < b.leaf
			},
			Place: func(w *quotaWait, i int) { w.place = i },
		},
		at: make(map[string][]*quotaWait), of: make(map[waitKey]*quotaWait),
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
	q.again = nil
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
	q.of[waitKey{w.class, w.leaf}] = w
	q.at[w.lacks.Node] = append(q.at[w.lacks.Node], w)
	if w.place = -1; !w.lacks.RetryAt.IsZero() {
		q.byTime.Push(w)
	}
}

// unpark has it try again.
func (q *quotaWaits) unpark(w *quotaWait) {
	if w.leaf < 0 {
		w.class.lacks = nil
	} else {
		w.class.waiting.Unpark(w.leaf)
	}
	delete(q.of, waitKey{w.class, w.leaf})
	left := slices.DeleteFunc(q.at[w.lacks.Node], func(o *quotaWait) bool { return o == w })
	if q.at[w.lacks.Node] = left; len(left) == 0 {
		delete(q.at, w.lacks.Node)
	}
	if w.place >= 0 {
		q.byTime.Remove(w.place)
	}
}

// lacksQuota lets a task wait for quota that its group, or the pool, has not got; or fails
// it because no limit will ever allow so much.
func (e *Engine) lacksQuota(now time.Time, t *openTask, v *fairshare.Verdict) {
	if v.Permanent {
		e.fail(now, t, coordinator.ReasonExceedsQuota, describeLack(v), nil)
		return
	}
	if e.wait(now, t); t.state != stateWaiting {
		return
	}
	lacks := *v
	if !lacks.RetryAt.IsZero() && !lacks.RetryAt.After(now) {
		lacks.RetryAt = now.Add(time.Millisecond)
	}
	w := &quotaWait{class: t.needs.class, leaf: t.leaf, task: t, lacks: lacks, priority: e.quotas.ledger.BorrowPriority(t.task.Group)}
	if kind := e.quotas.ledger.KindOf(v.Node); kind == coordinator.QuotaPool || kind == coordinator.QuotaModel {
		w.leaf = -1
	}
	e.quotas.waits.park(w)
	e.scheduleQuota()
}

// waitsForQuota tells whether the task is to wait for quota behind another of its group, or
// of its pool.
func (e *Engine) waitsForQuota(t *openTask) bool {
	if !e.quotas.ledger.Installed() {
		return false
	}
	w := e.quotas.waits.find(t.needs.class, e.leafOf(t))
	if w == nil {
		return false
	}
	if level := e.levelOf(t); level != w.task.level {
		return level < w.task.level
	}
	return before(w.task, t)
}

// exceedsQuota fails a task that asks for more than its quotas ever allow.
func (e *Engine) exceedsQuota(now time.Time, t *openTask) bool {
	h := e.quotaDemand(t)
	if h == nil {
		return false
	}
	p := e.quotas.ledger.PathOf(&h.charge)
	v := e.quotas.ledger.Check(now, &p, &h.charge)
	if v.Permanent {
		e.lacksQuota(now, t, &v)
	}
	return v.Permanent
}

// left notes that a task waits no more. Those behind it may need less.
func (q *quotaWaits) left(t *openTask) {
	if w := q.find(t.needs.class, t.leaf); w != nil && w.task == t {
		q.again = append(q.again, w)
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

// scheduleQuota sets the timer to when quota may be back, or a reservation ends.
func (e *Engine) scheduleQuota() {
	at, ok := e.quotas.ledger.NextDue()
	if w := &e.quotas.waits; w.byTime.Len() > 0 && (!ok || w.byTime.Items[0].lacks.RetryAt.Before(at)) {
		at, ok = w.byTime.Items[0].lacks.RetryAt, true
	}
	if ok {
		e.timers.schedule(&e.quotas.due, at)
	} else {
		e.timers.cancel(&e.quotas.due)
	}
}

// quotaDue ends reservations of which nobody tells how they went. Those who wait are served
// at the end of this Apply.
func (e *Engine) quotaDue(now time.Time) {
	q := &e.quotas
	for key, due := q.ledger.Due(now); due; key, due = q.ledger.Due(now) {
		c, _, _ := q.ledger.Find(key)
		ended := &coordinator.QuotaEnded{Key: key, How: coordinator.QuotaExpired, At: now}
		q.ledger.Expire(now, key)
		e.turnKnown(&c, c.Expect, ended)
		e.record(ended)
	}
	q.rung = true
}

// serveQuotas serves those who waited for quota that may be back.
func (e *Engine) serveQuotas(now time.Time) {
	q, w := &e.quotas, &e.quotas.waits
	var again []*quotaWait
	take := func(x *quotaWait) {
		w.unpark(x)
		again = append(again, x)
	}
	q.ledger.Freed(func(n int32) {
		if len(w.of) == 0 {
			return
		}
		node := q.ledger.NodeID(n)
		for range min(len(w.at[node]), mostUnparked) {
			take(w.at[node][0])
		}
	})
	for _, x := range w.again {
		if w.of[waitKey{x.class, x.leaf}] == x {
			take(x)
		}
	}
	clear(w.again)
	w.again = w.again[:0]
	for w.byTime.Len() > 0 && !w.byTime.Items[0].lacks.RetryAt.After(now) {
		take(w.byTime.Items[0])
	}
	if len(again) == 0 && !q.rung {
		return
	}
	slices.SortFunc(again, func(a, b *quotaWait) int {
		return cmp.Or(cmp.Compare(b.priority, a.priority), cmp.Compare(a.class.key, b.class.key), cmp.Compare(a.leaf, b.leaf))
	})
	for _, x := range again {
		e.serve(now, x.class)
	}
	q.rung = false
	e.scheduleQuota()
}
