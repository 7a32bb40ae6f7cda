package engine

import (
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/fairshare"
)

// mostRefused is how many may be refused at one time before the others of their round have to
// wait a moment: so that no event takes long.
const mostRefused = 64

// roundPause is that moment.
const roundPause = time.Millisecond

// scheduleQuota sets the timer to when quota may be back, or a reservation ends. Who follows has none: a
// reservation whose time is over may have been extended, or have ended otherwise, in records that are
// yet to be folded, and only the leader writes down how it ends.
func (e *Engine) scheduleQuota() {
	if e.following {
		e.timers.cancel(&e.quotas.due)
		return
	}
	at, ok := e.quotas.ledger.NextDue()
	w := &e.quotas.waits
	sooner := func(x time.Time) {
		if !x.IsZero() && (!ok || x.Before(at)) {
			at, ok = x, true
		}
	}
	if sooner(w.soon); w.byTime.Len() > 0 {
		sooner(w.byTime.Items[0].at)
	}
	if w.due.Len() > 0 {
		sooner(w.due.Items[0].at)
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
		if c.Call {
			out := e.calls.Expire(now, key, &c)
			e.callsChanged(&out)
			continue
		}
		ended := &coordinator.QuotaEnded{Key: key, How: coordinator.QuotaExpired, At: now}
		q.ledger.Expire(now, key)
		e.turnKnown(&c, c.Expect, ended)
		e.record(ended)
	}
	e.quotaAlerts() // a call of which nobody tells may be charged
	q.rung = true
}

// serveQuotas serves those who waited for quota that may be back: one at a time, whose turn it
// is, in whatever class. What comes free is so given to who is first of all that may have it,
// those among them who wait for an agent only.
func (e *Engine) serveQuotas(now time.Time) {
	q := &e.quotas
	w := &q.waits
	if !q.ledger.Installed() {
		e.scheduleQuota() // what is open from the time of quotas ends all the same
		return
	}
	q.rung, w.soon, w.claimed = false, time.Time{}, false
	for refused := 0; ; {
		e.claimSeats()
		e.mayTry(now)
		if len(w.own.try) > 0 && refused >= mostRefused {
			break
		}
		seq, tries := w.seq, false
		if refused < mostRefused {
			tries = e.tryNext(now)
		}
		if !tries && !e.serveFirst(now, allLevels, 0) && !w.wakeUnled() {
			break
		}
		if w.seq > seq {
			refused++
		}
	}
	if len(w.own.try) > 0 || e.toTry() != 0 {
		w.soon = now.Add(roundPause)
	}
	e.scheduleQuota() // whatever has ended meanwhile
}

// serveFirst serves the one whose turn it is of those who wait for an agent only, at these levels,
// and somebody is ready; also are the levels at which others wait. false: there is nobody.
func (e *Engine) serveFirst(now time.Time, only, also uint8) bool {
	next := e.anybodys(only, also)
	defer next.end()
	return e.serveNext(now, &next)
}

// tryNext serves the one whose turn it is of these, and of those for whom quota may be back;
// false: for nobody it may.
func (e *Engine) tryNext(now time.Time) bool {
	q := &e.quotas
	trying := e.toTry()
	if trying == 0 {
		return false
	}
	ahead := e.anybodys(allLevels, 0)
	level := q.shares.Turn(trying | ahead.levels())
	ahead.only = 1 << level
	x := e.nextToTry(level)
	_, t := ahead.take()
	ahead.end()
	if t != nil && (x.wait == nil || !e.earlier(x, candidate{leaf: t.leaf})) && e.serveFirst(now, 1<<level, trying) {
		return true
	}
	if x.wait == nil || q.waits.of[waitKey{x.wait.class, x.wait.leaf}] != x.wait { // what was served has changed that
		return x.wait != nil
	}
	e.try(now, x.wait, 1<<level, trying)
	return true
}

// try has one that waits try now: its task is the first of its level then.
func (e *Engine) try(now time.Time, w *quotaWait, only, also uint8) {
	q, seats, given := &e.quotas, w.lacks.Limit == fairshare.LimitSeats, e.quotas.given
	if w.without == nil && e.lacksStill(now, w) {
		return
	}
	q.waits.unpark(w)
	e.wanted(w.class)
	q.waits.claimed = q.waits.claimed || e.claims.stale && e.claims.waiting.Len() > 0
	if !seats {
		e.serveFirst(now, only, also)
		return
	}
	q.ledger.Wait(&w.path, 1) // what is kept for it stays so while it tries
	e.serveFirst(now, only, also)
	q.ledger.Wait(&w.path, -1)
	if x := q.waits.of[waitKey{w.class, w.leaf}]; q.given == given && (x == nil || x.lacks.Limit != fairshare.LimitSeats) {
		q.waits.seatsOf(w) // it lacks something else
	}
}

// lacksStill tells whether one that waits is refused as before, without having it try: that takes
// a tenth of the time.
func (e *Engine) lacksStill(now time.Time, w *quotaWait) bool {
	q := &e.quotas
	v := q.ledger.Check(now, &w.path, &w.task.quota.charge)
	switch {
	case v.OK, v.Permanent, lackOf(&v) != w.queue.key:
		return false
	case v.Node != w.lacks.Node && v.Limit != fairshare.LimitSeats: // it is filed by that, too
		return false
	case w.leaf < 0 && !v.Empty: // others of the class may need less
		return false
	}
	q.flow.refused[v.Limit][v.Dimension]++
	q.waits.refusedAgain(w, notAtOnce(now, v))
	return true
}

// pending tells whether somebody may try again although nothing was given back.
func (q *quotaWaits) pending() bool { return len(q.again)+len(q.retried) > 0 || q.claimed }

// mayTry unparks those for whom something may have changed that is theirs, and opens the
// queues to which something may have come back.
func (e *Engine) mayTry(now time.Time) {
	q, w := &e.quotas, &e.quotas.waits
	take := func(x *quotaWait) {
		w.unpark(x)
		e.wanted(x.class)
	}
	q.ledger.Freed(func(n int32) {
		if len(w.of) == 0 {
			return
		}
		node := q.ledger.NodeID(n)
		for _, k := range w.behind[node] {
			w.open(k)
		}
		for len(w.refused[node]) > 0 {
			take(w.refused[node][0])
		}
		w.own.wake(q.ledger.GroupNode(node))
		for leaf := q.shares.Leaf(q.ledger.GroupOf(n)); len(w.aside[leaf]) > 0; {
			w.takeBack(w.aside[leaf][0]) // it may be below its part
		}
	})
	for range min(len(w.own.try), mostRefused) {
		take(w.own.next(q.shares))
	}
	for len(w.again) > 0 {
		x := w.again[len(w.again)-1]
		w.again = w.again[:len(w.again)-1]
		if w.of[waitKey{x.class, x.leaf}] == x {
			take(x)
		}
	}
	for _, x := range w.retried {
		e.wanted(x.class)
	}
	w.retried = nil
	for w.byTime.Len() > 0 && !w.byTime.Items[0].at.After(now) {
		take(w.byTime.Items[0])
	}
	for w.due.Len() > 0 && !w.due.Items[0].at.After(now) {
		w.open(w.due.Items[0])
	}
	// Who waits alone need not be chosen among others of his queue: the class has his turn. So that
	// ten thousand groups with limits of their own are not ten thousand queues to look at. (Seats
	// are kept for who stands in a queue.)
	for i := 0; i < len(w.opened); {
		if x := w.opened[i].alone(); x != nil && x.lacks.Limit != fairshare.LimitSeats {
			take(x)
		} else {
			i++
		}
	}
}
