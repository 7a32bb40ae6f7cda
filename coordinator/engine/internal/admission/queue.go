package admission

import (
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/fairshare"
	"taskbus/coordinator/fairshare/fairqueue"
	"taskbus/coordinator/heap"
)

// lackKey is what all waits of a queue wait for: something of that limit that comes back at a node which
// their paths to the root have in common.
type lackKey struct {
	node  string
	limit fairshare.Limit
	dim   coordinator.Dimension
	// owns: it is their own, and they do not wait behind those that borrow.
	owns bool
}

// lackOf returns what a refusal has its task wait for.
func lackOf(v *fairshare.Verdict) lackKey { return lackKey{v.Behind, v.Limit, v.Dimension, v.Owns} }

// queue is all waits for the same. When some of it may be there the queue is open: the first one tries, then
// the next. Where all take of one and the same, a rate or the seats that are left, the first that is refused
// closes it, and becomes its head: the others wait behind it, for else those that need little would keep it
// waiting for ever, and each would try for every token. Of budgets one may have what another may not: all
// try, once in each round, and the one that has lent most goes first.
type queue struct {
	key      lackKey
	parts    []*part
	open     bool
	again    bool // something came back during this round
	tried    []*Wait
	deferred []*Wait                 // see deferWait
	resumed  [fairqueue.Levels]*Wait // of each level the one that was resumed last, see resumeFirst
	priority int                     // of those that are first among borrowers, see levelsOf
	head     *Wait                   // the refused one that closed it; nil: none, or of budgets
	at       time.Time               // when it opens by itself; zero: never
	place    int                     // in Waits.due, -1: not there
}

// part is the waits of a queue of one class and one priority among borrowers.
type part struct {
	class    Class
	state    *ClassState // of the class
	priority int
	leaves   *fairqueue.Backlog[*Wait] // in the order of turns
	deferred *fairqueue.Backlog[*Wait] // those of them that are deferred; nil: none ever was
	// ranked are, of budgets, those that are to try in this round, by level and by their credits.
	ranked [fairqueue.Levels][]*Wait
	whole  *Wait // the class itself waits; nil: it does not
}

func newDueQueues() heap.Heap[*queue] {
	return heap.Heap[*queue]{
		Before: func(a, b *queue) bool {
			if !a.at.Equal(b.at) {
				return a.at.Before(b.at)
			}
			return a.key.before(b.key)
		},
		Place: func(k *queue, i int) { k.place = i },
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

// alone returns the only wait of the queue; nil: there are more.
func (k *queue) alone() *Wait {
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

// closes reports whether its refusal is that of all in its queue.
func (w *Wait) closes() bool {
	switch w.Lacks.Limit {
	case fairshare.LimitRate, fairshare.LimitProvider:
		return true
	case fairshare.LimitSeats:
		return !w.Lacks.Kept
	}
	return false
}

// Behind returns the head behind which it waits; nil: it is the head, or its queue has none.
func (w *Wait) Behind() *Wait {
	if k := w.queue; w.closes() && k.head != w {
		return k.head
	}
	return nil
}

// enqueue files a wait by what it lacks.
func (q *Waits) enqueue(w *Wait) {
	id := lackOf(&w.Lacks)
	k := q.queues[id]
	if k == nil {
		k = &queue{key: id, place: -1}
		q.queues[id] = k
		q.behind[id.node] = append(q.behind[id.node], k)
		if id.limit == fairshare.LimitRate {
			q.rates++
		}
	}
	w.queue, w.part = k, k.part(q.shares, w)
	if w.Leaf < 0 {
		w.part.whole = w
	} else {
		w.part.leaves.Push(w.Leaf, w.Level, w)
	}
	closes := w.closes()
	switch {
	case k.open:
		q.refusedInTurn(w)
	case closes && k.head == nil:
		k.head = w
		q.openAt(k, w.Lacks.RetryAt)
	case closes && w.Lacks.RetryAt.Before(k.at):
		// It tries sooner, but is the head only if it goes before that: it may wait behind just that one.
		if w.Level > k.head.Level {
			k.head = w
		}
		q.openAt(k, w.Lacks.RetryAt)
	}
}

// refusedInTurn notes that it has had its turn while its queue is open.
func (q *Waits) refusedInTurn(w *Wait) {
	k := w.queue
	if !w.closes() {
		w.markTried()
		k.tried = append(k.tried, w)
		if w.Lacks.Kept {
			q.deferWait(w)
		}
		return
	}
	q.closeQueue(k)
	k.head = w
	q.openAt(k, w.Lacks.RetryAt)
}

// dequeue takes a wait out of its queue.
func (q *Waits) dequeue(w *Wait) {
	k, p := w.queue, w.part
	if w.Leaf < 0 {
		w.tried, p.whole = false, nil
	} else {
		w.clearTried()
		q.resume(w)
		p.leaves.Remove(w.Leaf, w.Level, int(w.index))
	}
	w.part = nil
	if k.head == w {
		q.openQueue(k)
	}
	if p.whole != nil || p.leaves.Len() > 0 {
		return
	}
	if k.parts = minus(k.parts, p); len(k.parts) > 0 {
		return
	}
	q.closeQueue(k)
	q.openAt(k, time.Time{})
	if delete(q.queues, k.key); k.key.limit == fairshare.LimitRate {
		q.rates--
	}
	removeFrom(q.behind, k.key.node, k)
}

// part finds or makes that to which a wait belongs.
func (k *queue) part(s *fairqueue.Shares, w *Wait) *part {
	state, priority := w.Class.Admission(), w.borrower.Priority()
	for _, p := range k.parts {
		if p.state == state && p.priority == priority {
			return p
		}
	}
	p := &part{class: w.Class, state: state, priority: priority}
	p.leaves = fairqueue.NewBacklog(s, refusedBefore, func(w *Wait, i int) { w.index = int32(i) })
	k.parts = append(k.parts, p)
	return p
}

func refusedBefore(a, b *Wait) bool { return a.seq < b.seq }

// markTried notes that it has had its turn in this round.
func (w *Wait) markTried() {
	if w.tried = true; w.Leaf >= 0 {
		w.part.leaves.Park(w.Leaf)
	}
}

func (w *Wait) clearTried() {
	if w.tried && w.Leaf >= 0 && w.deferredPlace == 0 {
		w.part.leaves.Unpark(w.Leaf)
	}
	w.tried = false
}

// openQueue lets the waits of the queue try.
func (q *Waits) openQueue(k *queue) {
	q.openAt(k, time.Time{})
	if k.head != nil && len(q.agents.all) > 0 {
		q.agents.lost = append(q.agents.lost, lostHead{k.key, k.head.Level})
	}
	k.head = nil
	if k.open {
		k.again = true
		return
	}
	k.open = true
	q.open = append(q.open, k)
	if k.key.limit == fairshare.LimitBudget {
		for _, p := range k.parts {
			p.rank(q.shares)
		}
	}
}

// closeQueue ends a round.
func (q *Waits) closeQueue(k *queue) {
	for _, w := range k.tried {
		if w.tried && w.queue == k {
			w.clearTried()
		}
	}
	clear(k.tried)
	k.tried = k.tried[:0]
	if k.open {
		k.open, k.again = false, false
		q.open = minus(q.open, k)
	}
}

// openAt sets when the queue opens by itself; zero: never.
func (q *Waits) openAt(k *queue, at time.Time) {
	if k.place >= 0 {
		q.due.Remove(k.place)
	}
	if k.at = at; !at.IsZero() {
		q.due.Push(k)
	}
}

// Ahead returns the refusal of a task, or call, that must wait behind the head of a queue for a rate, which would
// serve it at once; false: there is none. Else charges that need little, and come one by one, would keep a head
// that needs much waiting for ever. At a cap only heads count to which the rate itself is assured: what is to
// borrow waits for what these leave. Therefore what would borrow, too, and stands behind them, is asked again when a
// rate that is nearer serves it.
func (q *Waits) Ahead(now time.Time, c fairshare.Charge, level int) (v fairshare.Verdict, is bool) {
	if q.rates == 0 {
		return v, false
	}
	var found *queue
	q.ledger.ServedBy(now, &c, func(node string, d coordinator.Dimension, cap bool) {
		for _, k := range q.behind[node] {
			its := k.key.limit == fairshare.LimitRate && k.key.dim == d && (k.key.owns || !cap)
			if its && k.head != nil && k.head.Level >= level {
				found = k
			}
		}
	})
	if found == nil {
		return v, false
	}
	k := found.key
	v = fairshare.Verdict{
		Node: k.node, Dimension: k.dim, Limit: k.limit, Empty: true, Behind: k.node, Owns: k.owns, RetryAt: found.at,
	}
	if !k.owns {
		v.Node, v.OwnAt = q.ledger.Nearer(now, &c, k.node, k.dim)
		if !v.OwnAt.IsZero() && v.OwnAt.Before(v.RetryAt) {
			v.RetryAt = v.OwnAt
		}
	}
	v.Kind = q.ledger.KindOf(v.Node)
	return v, true
}
