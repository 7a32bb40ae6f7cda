package engine

import "time"

// The clock of a leader before this one may have been ahead, by years where a machine has lost its
// battery. What it wrote is folded as it is; what would happen by that only when the time has come
// by this one's clock too is brought back to now, as if it had been done a moment ago: leases run
// for as long as they may from now on, nobody is ejected for longer than ever, and what is learnt
// counts.
//
// (Who was behind is no trouble: what it gave time for is over, and has the grace of the session.)

// notAfter tells that it is now, whatever records have said, all but budgets, which know since Lead. It is called
// with every session; where one clock has told everything nothing changes.
func (e *Engine) notAfter(now time.Time) {
	for _, t := range e.tasks.all {
		if t != nil && t.state == stateLeased {
			e.leaseNotAfter(now, t)
		}
	}
	e.learner.NotAfter(now)
	for _, a := range e.fleet.Agents {
		a.Capacity.NotAfter(now)
	}
	e.applyBreakers(e.ejections.NotAfter(now))
}

// quotasNotAfter brings budgets back to the periods of now, with what was counted in them, and the day
// at hand to today: what was used on one that has not begun was used today.
func (e *Engine) quotasNotAfter(now time.Time) {
	q := &e.quotas
	q.ledger.NotAfter(now)
	if q.flow.since.After(now) {
		q.flow.first, q.flow.since = now, now
	}
	e.scheduleQuota()
	if e.controls.DayNotAfter(now) {
		e.scheduleDay()
	}
}

// leaseNotAfter bounds a lease by what one has that begins now. The reports of an agent that tells
// no ends speak for a dispatch only if that was before they were made.
func (e *Engine) leaseNotAfter(now time.Time, t *openTask) {
	if t.assignedAt.After(now) {
		t.assignedAt = now
	}
	if t.Settled.After(now) {
		t.Settled = now
	}
	t.runsFrom = earlier(t.runsFrom, now)
	if latest := now.Add(t.timeout + leaseMargin); t.deadline.After(latest) {
		t.deadline = latest
		if t.expire.index >= 0 {
			e.timers.schedule(&t.expire, t.deadline)
		}
	}
}
