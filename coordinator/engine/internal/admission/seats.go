package admission

import (
	"taskbus/coordinator"
	"taskbus/coordinator/fairshare/fairqueue"
)

// Seats that come free are kept for tenants below their share (fairshare.Ledger.Wait), as long as these wait
// for seats and an agent could take their tasks: else nothing would use them.

// addSeatWaiter counts one more that waits for seats.
func (q *Waits) addSeatWaiter(w *Wait) {
	s := w.Class.Admission()
	if len(s.seated) == 0 {
		s.keeps, s.class, q.seated = false, w.Class, append(q.seated, s)
	}
	if s.seated = append(s.seated, w); s.keeps {
		q.ledger.Wait(&w.path, 1)
	}
}

// removeSeatWaiter counts one less.
func (q *Waits) removeSeatWaiter(w *Wait) {
	s := w.Class.Admission()
	if s.keeps {
		q.ledger.Wait(&w.path, -1)
	}
	if s.seated = minus(s.seated, w); len(s.seated) == 0 {
		q.seated = minus(q.seated, s)
	}
}

// wakeForSeats lets those try that may have been refused because a seat was kept for w.
func (q *Waits) wakeForSeats(w *Wait) {
	for _, node := range q.ledger.Chain(&w.path) {
		q.agents.wake(q.ledger.GroupNode(node))
		for _, k := range q.behind[node] {
			if k.key.limit == w.Lacks.Limit {
				q.openQueue(k)
			}
		}
	}
}

// keepSeats keeps seats for those, and those only, that could be served.
func (q *Waits) keepSeats(v View) {
	for _, s := range q.seated {
		servable := q.servable(v, s.class, s)
		if servable == s.keeps {
			continue
		}
		n := 1
		if s.keeps = servable; !servable {
			n = -1
		}
		for _, w := range s.seated {
			if q.ledger.Wait(&w.path, n); !servable {
				q.wakeForSeats(w)
			}
		}
	}
}

// deferWait keeps one out of its queue that is not below its share, and was refused a seat because others
// are: as long as that is so, or until something of its own comes back (see resumeFirst, wake). Else all that
// have their share would be asked about every seat before it goes to the one for which it is kept.
func (q *Waits) deferWait(w *Wait) {
	if w.deferredPlace > 0 || w.Leaf < 0 {
		return
	}
	w.part.leaves.Park(w.Leaf)
	if w.part.deferred == nil {
		w.part.deferred = fairqueue.NewBacklog(q.shares, refusedBefore, func(w *Wait, i int) { w.deferredIndex = int32(i) })
	}
	w.part.deferred.Push(w.Leaf, w.Level, w)
	q.deferred[w.Leaf] = append(q.deferred[w.Leaf], w)
	w.queue.deferred = append(w.queue.deferred, w)
	w.deferredPlace = int32(len(w.queue.deferred))
}

// resume ends the deferral of a wait.
func (q *Waits) resume(w *Wait) {
	if w.deferredPlace == 0 {
		return
	}
	removeFrom(q.deferred, w.Leaf, w)
	w.part.deferred.Remove(w.Leaf, w.Level, int(w.deferredIndex))
	all := w.queue.deferred
	last := all[len(all)-1]
	all[w.deferredPlace-1], last.deferredPlace = last, w.deferredPlace
	all[len(all)-1] = nil
	w.queue.deferred, w.deferredPlace = all[:len(all)-1], 0
	if !w.tried {
		w.part.leaves.Unpark(w.Leaf)
	}
}

// resumeFirst resumes those deferred ones of a queue that would have their turn, if no wait is left for the sake
// of which they are deferred: the ones below their share have got their seats, wait no longer, or have no
// agent. As a rule what is true of one is true of all, because the seats are kept at the node behind which
// they wait. The others stay: the seat may be gone, or kept again, before it is their turn.
func (q *Waits) resumeFirst(v View, k *queue) {
	if len(k.deferred) == 0 || !q.hasSeat(k.deferred[0]) {
		return
	}
	for level := range fairqueue.Levels {
		w := k.resumed[level]
		if w != nil && q.filed(w) && !w.tried && w.deferredPlace == 0 && q.servable(v, w.part.class, w.part.state) {
			continue // it waits for its turn still
		}
		var first *Wait
		for _, p := range k.parts {
			if p.deferred == nil || !q.servable(v, p.class, p.state) {
				continue
			}
			h, ok := p.deferred.FirstAt(level)
			switch {
			case !ok:
			case first == nil || p.priority > first.part.priority:
				first = h.Item
			case p.priority < first.part.priority:
			case q.ranksBefore(candidate{h.Item, level, h.Leaf}, candidate{first, level, first.Leaf}):
				first = h.Item
			}
		}
		if k.resumed[level] = first; first != nil {
			q.resume(first)
		}
	}
}

// resumeOne is for the exception, when all others have tried: where those below their share are of the same
// branch. false: there is none that has not tried and may have a seat.
func (q *Waits) resumeOne(k *queue) bool {
	for _, w := range k.deferred {
		if !w.tried && q.hasSeat(w) {
			q.resume(w)
			return true
		}
	}
	return false
}

// hasSeat reports whether one that waits may have a seat now.
func (q *Waits) hasSeat(w *Wait) bool {
	return q.ledger.HasSeat(&w.path, w.Charge.Amounts[coordinator.DimConcurrency])
}
