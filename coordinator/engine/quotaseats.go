package engine

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
