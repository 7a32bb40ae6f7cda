package engine

import (
	"taskbus/coordinator"
	"taskbus/coordinator/fairshare"
)

// Seats that come free are kept for those who are below their part (fairshare.Ledger.Wait), as long
// as they wait for seats and somebody is there who could take their tasks: else nobody would have
// them.

// sit counts one more that waits for seats.
func (q *quotaWaits) sit(w *quotaWait) {
	c := w.class
	if len(c.seated) == 0 {
		c.claims, q.seated = false, append(q.seated, c)
	}
	if c.seated = append(c.seated, w); c.claims {
		q.ledger.Wait(&w.path, 1)
	}
}

// rise counts one less.
func (q *quotaWaits) rise(w *quotaWait) {
	c := w.class
	if c.claims {
		q.ledger.Wait(&w.path, -1)
	}
	if c.seated = minus(c.seated, w); len(c.seated) == 0 {
		q.seated = minus(q.seated, c)
	}
}

// seatsOf has those try who may have been refused for its sake.
func (q *quotaWaits) seatsOf(w *quotaWait) {
	for _, node := range q.ledger.Chain(&w.path) {
		q.own.wake(q.ledger.GroupNode(node))
		for _, k := range q.behind[node] {
			if k.key.limit == w.lacks.Limit {
				q.open(k)
			}
		}
	}
}

// claimSeats has seats kept for those, and those only, who could be served.
func (e *Engine) claimSeats() {
	q := &e.quotas.waits
	for _, c := range q.seated {
		served := e.served(c)
		if served == c.claims {
			continue
		}
		n := 1
		if c.claims = served; !served {
			n = -1
		}
		for _, w := range c.seated {
			if q.ledger.Wait(&w.path, n); !served {
				q.seatsOf(w)
			}
		}
	}
}

// setAside has one wait that is not below its part, and was refused a seat because others are: as
// long as that is so, or until something of its own comes back (see retrieve, mayTry). Else all who
// have their part would be asked about every seat before it goes to the one for whom it is kept.
func (q *quotaWaits) setAside(w *quotaWait) {
	if w.asidePlace > 0 || w.leaf < 0 {
		return
	}
	w.part.leaves.Park(w.leaf)
	if w.part.aside == nil {
		w.part.aside = fairshare.NewBacklog(q.shares, waitsBefore, func(w *quotaWait, i int) { w.asideIndex = i })
	}
	w.part.aside.Push(w.leaf, w.task.level, w)
	q.aside[w.leaf] = append(q.aside[w.leaf], w)
	w.queue.aside = append(w.queue.aside, w)
	w.asidePlace = len(w.queue.aside)
}

// takeBack ends it.
func (q *quotaWaits) takeBack(w *quotaWait) {
	if w.asidePlace == 0 {
		return
	}
	if left := minus(q.aside[w.leaf], w); len(left) > 0 {
		q.aside[w.leaf] = left
	} else {
		delete(q.aside, w.leaf)
	}
	w.part.aside.Remove(w.leaf, w.task.level, w.asideIndex)
	all := w.queue.aside
	last := all[len(all)-1]
	all[w.asidePlace-1], last.asidePlace = last, w.asidePlace
	all[len(all)-1] = nil
	w.queue.aside, w.asidePlace = all[:len(all)-1], 0
	if !w.tried {
		w.part.leaves.Unpark(w.leaf)
	}
}

// retrieve takes back those of a queue that are set aside whose turn it would be, if they are so for
// nobody's sake any more: those who were below their part have got their seats, wait no longer, or have
// no agent. As a rule what is true of one is true of all, because the seats are kept at the node behind
// which they wait. The others stay: the seat may be gone, or kept again, before it is their turn.
func (e *Engine) retrieve(k *waitQueue) {
	if len(k.aside) == 0 || !e.hasSeat(k.aside[0]) {
		return
	}
	for level := range fairshare.Levels {
		if e.toTryYet(k.back[level]) {
			continue
		}
		var first *quotaWait
		for _, p := range k.parts {
			if p.aside == nil || !e.served(p.class) {
				continue
			}
			h, ok := p.aside.FirstAt(level)
			switch {
			case !ok:
			case first == nil || p.priority > first.part.priority:
				first = h.Item
			case p.priority == first.part.priority && e.ranksBefore(candidate{h.Item, level, h.Leaf}, candidate{first, level, first.leaf}):
				first = h.Item
			}
		}
		if k.back[level] = first; first != nil {
			e.quotas.waits.takeBack(first)
		}
	}
}

// toTryYet tells whether one that was taken back waits for its turn still.
func (e *Engine) toTryYet(w *quotaWait) bool {
	return w != nil && e.quotas.waits.of[waitKey{w.class, w.leaf}] == w && !w.tried && w.asidePlace == 0 && e.served(w.class)
}

// retrieveOne is for the exception, when all others have tried: where those who are below their part
// are of the same branch. false: there is none that has not tried and may have a seat.
func (e *Engine) retrieveOne(k *waitQueue) bool {
	for _, w := range k.aside {
		if !w.tried && e.hasSeat(w) {
			e.quotas.waits.takeBack(w)
			return true
		}
	}
	return false
}

// hasSeat tells whether one that waits may have a seat now.
func (e *Engine) hasSeat(w *quotaWait) bool {
	return e.quotas.ledger.HasSeat(&w.path, w.task.quota.charge.Amounts[coordinator.DimConcurrency])
}
