package engine

import (
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/fairshare"
	"taskbus/coordinator/heap"
)

// lackKey is what those wait for who wait for the same: something of that limit that comes
// back at a node which their ways to the root have in common.
type lackKey struct {
	node  string
	limit fairshare.Limit
	dim   coordinator.Dimension
	// owns: it is their own, and they do not wait behind those who borrow.
	owns bool
}

// lackOf is what a refusal has its task wait for.
func lackOf(v *fairshare.Verdict) lackKey { return lackKey{v.Behind, v.Limit, v.Dimension, v.Owns} }

// waitQueue is everybody who waits for the same. When some of it may be there the queue is
// open: who is first tries, then the next. Where all take of one and the same, a rate or the
// seats that are left, the first who is refused closes it: the others wait behind him, for
// else those who need little would keep him waiting for ever, and everyone would try for every
// token. Of budgets one may have what another may not: all try, once in each round, and who has
// lent most goes first.
type waitQueue struct {
	key      lackKey
	parts    []*waitPart
	open     bool
	again    bool // something came back during this round
	tried    []*quotaWait
	aside    []*quotaWait                 // see setAside
	back     [fairshare.Levels]*quotaWait // of those whose turn it was when they were taken back last
	priority int                          // of those that are first among borrowers, see levelsOf
	// first is who closed it, behind whom the others wait; nil: nobody, of budgets.
	first *quotaWait
	at    time.Time // when it opens by itself; zero: never
	place int       // among those that do, -1: it is not one
}

// waitPart are those of a queue of one class and one priority among borrowers.
type waitPart struct {
	class    *class
	priority int
	leaves   *fairshare.Backlog[*quotaWait] // in the order of turns
	aside    *fairshare.Backlog[*quotaWait] // those of them that are set aside; nil: none ever was
	// ranked are, of budgets, those that are to try in this round, by level and by their credits.
	ranked [fairshare.Levels][]*quotaWait
	whole  *quotaWait // the class itself waits; nil: it does not
}

func newDueQueues() heap.Heap[*waitQueue] {
	return heap.Heap[*waitQueue]{
		Before: func(a, b *waitQueue) bool {
			if !a.at.Equal(b.at) {
				return a.at.Before(b.at)
			}
			return a.key.before(b.key)
		},
		Place: func(k *waitQueue, i int) { k.place = i },
	}
}

func (k lackKey) before(o lackKey) bool {
	switch {
	case k.node != o.node:
		return k.node < o.node
	case k.limit != o.limit:
		return k.limit < o.limit
	case k.dim != o.dim:
		return k.dim < o.dim
	}
	return k.owns && !o.owns
}

// alone is the only one that waits in the queue; nil: there are more.
func (k *waitQueue) alone() *quotaWait {
	if len(k.parts) != 1 {
		return nil
	}
	switch p := k.parts[0]; {
	case p.leaves.Len() == 0:
		return p.whole
	case p.leaves.Len() == 1 && p.whole == nil:
		return p.one()
	}
	return nil
}

// closes tells whether its refusal is everybody's in its queue.
func (w *quotaWait) closes() bool {
	return w.lacks.Limit == fairshare.LimitRate || w.lacks.Limit == fairshare.LimitProvider || w.lacks.Limit == fairshare.LimitSeats && !w.lacks.Kept
}

// enqueue files a wait by what it lacks.
func (q *quotaWaits) enqueue(w *quotaWait) {
	key := lackOf(&w.lacks)
	k := q.queues[key]
	if k == nil {
		k = &waitQueue{key: key, place: -1}
		q.queues[key] = k
		q.behind[key.node] = append(q.behind[key.node], k)
		if key.limit == fairshare.LimitRate {
			q.rates++
		}
	}
	w.queue, w.part = k, k.part(q.shares, w)
	if w.leaf < 0 {
		w.part.whole = w
	} else {
		w.part.leaves.Push(w.leaf, w.task.level, w)
	}
	closes := w.closes()
	switch {
	case k.open:
		q.refusedInTurn(w)
	case closes && k.first == nil:
		k.first = w
		q.opensAt(k, w.lacks.RetryAt)
	case closes && w.lacks.RetryAt.Before(k.at):
		// It tries sooner, but is first only if it goes before him who is: it may wait behind just him.
		if w.task.level > k.first.task.level {
			k.first = w
		}
		q.opensAt(k, w.lacks.RetryAt)
	}
}

// refusedInTurn notes that it has had its turn while its queue is open.
func (q *quotaWaits) refusedInTurn(w *quotaWait) {
	k := w.queue
	if !w.closes() {
		w.try()
		k.tried = append(k.tried, w)
		if w.lacks.Kept {
			q.setAside(w)
		}
		return
	}
	q.close(k)
	k.first = w
	q.opensAt(k, w.lacks.RetryAt)
}

// dequeue takes it out.
func (q *quotaWaits) dequeue(w *quotaWait) {
	k, p := w.queue, w.part
	if w.leaf < 0 {
		w.tried, p.whole = false, nil
	} else {
		w.untry()
		q.takeBack(w)
		p.leaves.Remove(w.leaf, w.task.level, w.index)
	}
	w.part = nil
	if k.first == w {
		q.open(k)
	}
	if p.whole != nil || p.leaves.Len() > 0 {
		return
	}
	if k.parts = minus(k.parts, p); len(k.parts) > 0 {
		return
	}
	q.close(k)
	q.opensAt(k, time.Time{})
	if delete(q.queues, k.key); k.key.limit == fairshare.LimitRate {
		q.rates--
	}
	if left := minus(q.behind[k.key.node], k); len(left) > 0 {
		q.behind[k.key.node] = left
	} else {
		delete(q.behind, k.key.node)
	}
}

// part finds or makes that to which a wait belongs.
func (k *waitQueue) part(s *fairshare.Shares, w *quotaWait) *waitPart {
	for _, p := range k.parts {
		if p.class == w.class && p.priority == w.borrower.Priority() {
			return p
		}
	}
	p := &waitPart{class: w.class, priority: w.borrower.Priority()}
	p.leaves = fairshare.NewBacklog(s, waitsBefore, func(w *quotaWait, i int) { w.index = i })
	k.parts = append(k.parts, p)
	return p
}

func waitsBefore(a, b *quotaWait) bool { return a.seq < b.seq }

// try and untry say whether it has had its turn in this round.
func (w *quotaWait) try() {
	if w.tried = true; w.leaf >= 0 {
		w.part.leaves.Park(w.leaf)
	}
}

func (w *quotaWait) untry() {
	if w.tried && w.leaf >= 0 && w.asidePlace == 0 {
		w.part.leaves.Unpark(w.leaf)
	}
	w.tried = false
}

// open has those who wait in the queue try.
func (q *quotaWaits) open(k *waitQueue) {
	q.opensAt(k, time.Time{})
	if k.first != nil && len(q.own.all) > 0 {
		q.own.unled = append(q.own.unled, k.key)
	}
	k.first = nil
	if k.open {
		k.again = true
		return
	}
	k.open = true
	q.opened = append(q.opened, k)
	if k.key.limit == fairshare.LimitBudget {
		for _, p := range k.parts {
			p.rank(q.shares)
		}
	}
}

// close ends a round.
func (q *quotaWaits) close(k *waitQueue) {
	for _, w := range k.tried {
		if w.tried && w.queue == k {
			w.untry()
		}
	}
	clear(k.tried)
	k.tried = k.tried[:0]
	if k.open {
		k.open, k.again = false, false
		q.opened = minus(q.opened, k)
	}
}

// opensAt sets when the queue opens by itself; zero: never.
func (q *quotaWaits) opensAt(k *waitQueue, at time.Time) {
	if k.place >= 0 {
		q.due.Remove(k.place)
	}
	if k.at = at; !at.IsZero() {
		q.due.Push(k)
	}
}

// Ahead is the refusal of a task, or call, that must wait behind the first in the queue for a rate, which would
// serve it at once; false: there is none. Else those who need little, and come one by one, would keep him
// waiting for ever who needs much. At a cap only those count to whom the rate itself is assured:
// who is to borrow waits for what these leave.
func (q *quotaWaits) Ahead(now time.Time, c fairshare.Charge, level int) (v fairshare.Verdict, is bool) {
	if q.rates == 0 {
		return v, false
	}
	var found *waitQueue
	q.ledger.ServedBy(now, &c, func(node string, d coordinator.Dimension, cap bool) {
		for _, k := range q.behind[node] {
			if k.key.limit == fairshare.LimitRate && k.key.dim == d && (k.key.owns || !cap) && k.first != nil && k.first.task.level >= level {
				found = k
			}
		}
	})
	if found == nil {
		return v, false
	}
	k := found.key
	return fairshare.Verdict{
		Node: k.node, Kind: q.ledger.KindOf(k.node), Dimension: k.dim, Limit: k.limit, Empty: true,
		Behind: k.node, Owns: k.owns, RetryAt: found.at,
	}, true
}
