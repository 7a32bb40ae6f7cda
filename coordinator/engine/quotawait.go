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
// it is a pool itself that has nothing left, and none of it is divided among groups, that goes
// for the whole class.
type quotaWait struct {
	class *class
	leaf  int       // everyone's that is parked; -1: the class
	task  *openTask // the one that was to go
	lacks fairshare.Verdict
	// without are the agents for which it lacks; nil: it makes no difference who has it.
	without bitset
	// root of the tree of the node that has nothing left: what ends anywhere in it may help,
	// because that leaves more to borrow.
	root string
	// priority of the group among those that wait for something to borrow.
	priority int
	seq      uint64 // who has waited longest is tried first
	place    int    // among those that end by themselves, -1: it is not one
	places   [2]int // at the node and at the root
}

// quotaWaits are all of them, by when they may end, and by the nodes at which something must
// end for them.
type quotaWaits struct {
	byTime  heap.Heap[*quotaWait]
	at      [2]map[string]*heap.Heap[*quotaWait] // by node, and by root
	of      map[waitKey]*quotaWait
	own     []*quotaWait // for whom it makes a difference which agent has the task
	again   []*quotaWait // whose task has left
	retried []*quotaWait // unparked for one agent, and not served yet by the others
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
				return a.seq < b.seq
			},
			Place: func(w *quotaWait, i int) { w.place = i },
		},
		at: [2]map[string]*heap.Heap[*quotaWait]{make(map[string]*heap.Heap[*quotaWait]), make(map[string]*heap.Heap[*quotaWait])},
		of: make(map[waitKey]*quotaWait),
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
	q.again, q.retried = nil, nil
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
	for i, node := range [2]string{w.lacks.Node, w.root} {
		h := q.at[i][node]
		if h == nil {
			h = &heap.Heap[*quotaWait]{
				Before: func(a, b *quotaWait) bool { return a.seq < b.seq },
				Place:  func(w *quotaWait, at int) { w.places[i] = at },
			}
			q.at[i][node] = h
		}
		h.Push(w)
	}
	if w.without != nil {
		q.own = append(q.own, w)
	}
	if !w.lacks.RetryAt.IsZero() {
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
	for i, node := range [2]string{w.lacks.Node, w.root} {
		h := q.at[i][node]
		if h.Remove(w.places[i]); h.Len() == 0 {
			delete(q.at[i], node)
		}
	}
	if w.without != nil {
		q.own = slices.DeleteFunc(q.own, func(o *quotaWait) bool { return o == w })
	}
	if w.place >= 0 {
		q.byTime.Remove(w.place)
	}
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
	if !lacks.RetryAt.IsZero() && !lacks.RetryAt.After(now) {
		lacks.RetryAt = now.Add(time.Millisecond)
	}
	w := &quotaWait{
		class: t.needs.class, leaf: t.leaf, task: t, lacks: lacks, without: without,
		priority: e.quotas.ledger.BorrowPriority(t.task.Group), root: e.quotas.ledger.RootOf(lacks.Node),
	}
	if without == nil && e.quotas.undivided(&lacks) {
		w.leaf = -1
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

// exceedsQuota fails a task that asks for more than its quotas ever allow.
func (e *Engine) exceedsQuota(now time.Time, t *openTask) bool {
	lacks, without := e.lacksFor(now, t)
	if lacks == nil || !lacks.Permanent {
		return false
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
// at the end of this moment's duties.
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
	q, changed := &e.quotas, e.quotas.rung
	q.rung = false
	for again := e.mayTry(now); len(again) > 0; again = e.mayTry(now) {
		changed = true
		slices.SortFunc(again, func(a, b *quotaWait) int {
			return cmp.Or(cmp.Compare(b.priority, a.priority), cmp.Compare(a.seq, b.seq))
		})
		for _, x := range again {
			e.wanted(x.class)
			e.serve(now, x.class)
		}
	}
	if changed {
		e.scheduleQuota()
	}
}

// pending tells whether somebody may try again although nothing was given back.
func (q *quotaWaits) pending() bool { return len(q.again)+len(q.retried) > 0 }

// mayTry unparks those for whom something may have changed.
func (e *Engine) mayTry(now time.Time) (again []*quotaWait) {
	q, w := &e.quotas, &e.quotas.waits
	take := func(x *quotaWait) {
		w.unpark(x)
		again = append(again, x)
	}
	freed := false
	q.ledger.Freed(func(n int32) {
		if freed = true; len(w.of) == 0 {
			return
		}
		node := q.ledger.NodeID(n)
		for i := range w.at {
			for left := mostUnparked; left > 0 && w.at[i][node] != nil; left-- {
				take(w.at[i][node].Items[0])
			}
		}
	})
	if freed {
		for range min(len(w.own), mostUnparked) {
			take(w.own[0])
		}
	}
	for _, x := range w.again {
		if w.of[waitKey{x.class, x.leaf}] == x {
			take(x)
		}
	}
	clear(w.again)
	w.again = w.again[:0]
	again = append(again, w.retried...)
	w.retried = nil
	for w.byTime.Len() > 0 && !w.byTime.Items[0].lacks.RetryAt.After(now) {
		take(w.byTime.Items[0])
	}
	return again
}
