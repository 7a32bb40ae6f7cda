package engine

import "slices"

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

// setAside has one wait that is not below its part, and was refused a seat because others are: until
// something of its own comes back, or those who are have all tried. Else all who have their part
// would be asked about every seat before it goes to the one for whom it is kept.
func (q *quotaWaits) setAside(w *quotaWait) {
	if w.aside || w.leaf < 0 {
		return
	}
	w.aside = true
	w.part.leaves.Park(w.leaf)
	q.aside[w.leaf] = append(q.aside[w.leaf], w)
	w.queue.aside = append(w.queue.aside, w)
}

// takeBack ends it.
func (q *quotaWaits) takeBack(w *quotaWait) {
	if !w.aside {
		return
	}
	if w.aside = false; !w.tried {
		w.part.leaves.Unpark(w.leaf)
	}
	if left := minus(q.aside[w.leaf], w); len(left) > 0 {
		q.aside[w.leaf] = left
	} else {
		delete(q.aside, w.leaf)
	}
}

// retrieve takes back those of a queue that are set aside and have not tried in this round, all
// others having tried; or closes it if there is no seat for anybody. false: there are none.
func (e *Engine) retrieve(k *waitQueue) bool {
	q := &e.quotas
	k.aside = slices.DeleteFunc(k.aside, func(w *quotaWait) bool { return !w.aside || w.queue != k })
	i := slices.IndexFunc(k.aside, func(w *quotaWait) bool { return !w.tried })
	if i < 0 {
		return false
	}
	first := k.aside[i]
	v := q.ledger.Check(e.now, &first.path, &first.task.quota.charge)
	if !v.OK && !v.Kept && lackOf(&v) == k.key {
		q.waits.close(k)
		k.first = first
		return true
	}
	for _, w := range k.aside {
		if !w.tried {
			q.waits.takeBack(w)
		}
	}
	return true
}
