package engine

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/auction"
)

// What a session brings with it, and what its end leaves.

// sessionOpened starts the grace in which silent agents are awaited: the
// longest interval at which any of them promised to report. Looks for missing
// queues are asked for again: the answer to an earlier one may have been lost
// with its session.
func (e *Engine) sessionOpened(now time.Time, ev coordinator.SessionOpened) {
	e.connected, e.openedAt = true, now
	e.notAfter(now)
	e.ends.SessionOpened(now)
	longest := e.longestInterval()
	e.graceEnd = now.Add(longest)
	e.fleet.MissesFrom = e.graceEnd
	if !ev.Connected.IsZero() {
		e.fleet.MissesFrom = ev.Connected.Add(longest)
	}
	e.unheardFrom = now.Add(longest)
	for _, a := range e.fleet.Agents {
		e.unheardFrom = later(e.unheardFrom, now.Add(e.fleet.StaleAfter(a)))
		a.SeenConsumer, a.MissedAt, a.LookedAt = false, time.Time{}, time.Time{}
		e.attended(a)
		if a.QueueMissing {
			e.askForQueue(now, a)
		}
	}
	e.beginAdopting(now)
	e.heardAgain(now, ev)
	e.withdrawAgain()
	e.resendFailures()
	for _, r := range e.quotas.ReleaseLost(now) {
		e.record(r)
	}
	e.reviewQuotas(now)
	e.forgetClaims()
	e.lanes.SessionOpened()
	e.ends.ForgetAnnounced()
}

// heardAgain ends the time without a session. What the shell says of it is of the session
// before; an engine that has seen that end knows itself.
func (e *Engine) heardAgain(now time.Time, ev coordinator.SessionOpened) {
	from, until := e.stall.since, now
	if from.IsZero() && !ev.Lost.IsZero() {
		from = ev.Lost
		if !ev.Connected.IsZero() {
			until = ev.Connected
		}
	}
	e.hearAgain(now, from, until)
	e.stall.since = time.Time{}
	if e.stall.held {
		e.stall.begin(now)
	}
}

// sessionLost forgets every task held: the broker will deliver them again. What
// was published without an answer is remembered, and still counts against its
// agent, because it may be in the agent's queue: a copy of the task goes the same
// way.
func (e *Engine) sessionLost(now time.Time) {
	if e.stall.held { // reports that an alarm held up are awaited
		e.stall.tellBy = later(e.stall.tellBy, now.Add(e.longestInterval()))
	}
	e.connected, e.stall.held = false, false // the next session says so anew
	e.stall.begin(now)
	e.endTakeBacks()
	for _, t := range e.inOrder() {
		if t.state == stateMoving {
			t.state = stateDeciding
			e.lanes.Moved(now, &t.lane, coordinator.PublishUnknown)
			e.forgetMoving(t)
		}
		if t.state != stateDispatching {
			continue
		}
		delete(e.held, t.handle)
		t.handle = 0
		if t.Over {
			t.state, t.Settled = stateLeased, now
			e.messages.Unanswered(t.key)
			if t.agent.Gone() {
				e.discharge(t)
			}
			continue
		}
		e.beginLease(now, t, coordinator.FateUnsettled)
	}
	e.messages.SessionLost(now, now.Sub(e.openedAt), e.mayBeHeld)
	e.giveUp()
}

// inOrder lists the tasks held in the order in which they came: what is done to
// each may show in the order of later effects.
func (e *Engine) inOrder() []*openTask {
	return slices.SortedFunc(maps.Values(e.held), func(a, b *openTask) int { return cmp.Compare(a.arrival, b.arrival) })
}

// endTakeBacks forgets what the shell did for us in a session.
func (e *Engine) endTakeBacks() {
	for _, a := range e.fleet.Agents {
		a.HeldByUs = a.HeldByUs || a.TakenQueue != ""
		e.takeBackEnded(a)
	}
}

// giveUp forgets every task that is not on its way to an agent, or into its lane.
func (e *Engine) giveUp() {
	for _, t := range e.inOrder() {
		if t.state == stateBidding {
			e.closeLot(e.now, t, auction.WindowOver) // no result can be sent
		}
		if t.state != stateDispatching && t.state != stateMoving {
			e.timers.cancel(&t.expire)
			e.timers.cancel(&t.retry)
			e.forgetWish(t)
			e.forget(t)
		}
	}
	e.clearQuotaWaits()
	e.isolated.Clear()
	e.pending.Clear()
	e.pending.count = [4]int{}
	e.batches.Clear()
	e.lanes.SessionClosed()
	e.timers.cancel(&e.relieveAgain)
	e.endClaims()
	e.timers.cancel(&e.retryEnd)
	e.retries.Clear()
}

// The clock of a leader before this one may have been ahead, by years where a machine has lost its battery. What it
// recorded is folded as it is; what would happen by that only when the time has come by this one's clock too is
// brought back to now, as if it had been done a moment ago: leases run for as long as they may from now on, no
// agent is ejected for longer than the limit, and what is learnt counts.
//
// (A clock that was behind causes no problem: the times that it set are over, and have the grace of the session.)

// notAfter limits to now the times that records have set, all but those of budgets, which are limited since Lead.
// It is called with every session; where one clock has set all times nothing changes.
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
	q.Ledger.NotAfter(now)
	q.Flow.NotAfter(now)
	e.scheduleQuota()
	if e.controls.DayNotAfter(now) {
		e.scheduleDay()
	}
}

// leaseNotAfter bounds a lease by what one has that begins now. The reports of an agent that reports no ends count
// a dispatch only if it was made before they were.
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

// stall is a time in which no agent can report anything: there is no session, or the broker holds up publishers.
// Clocks that run out because a report is missing stand meanwhile, and reports that could not be sent are received
// before any of them goes on.
type stall struct {
	since time.Time // when it began; zero: agents can report
	held  bool      // the broker holds up publishers
	// tellBy is until when reports that could not be sent before are awaited.
	tellBy time.Time
}

// leastToTell is for how long at least reports that could not be sent are awaited: agents that have lost their
// connections come back at different times, however often they report.
const leastToTell = 10 * time.Second

// deaf reports whether no agent can report anything at the moment.
func (e *Engine) deaf() bool { return !e.connected || e.stall.held }

// begin notes that agents cannot report anything from now on.
func (s *stall) begin(now time.Time) {
	if s.since.IsZero() {
		s.since = now
	}
}

// publishingHeld hears that the broker holds up publishers, or does so no longer.
func (e *Engine) publishingHeld(now time.Time, ev coordinator.PublishingHeld) {
	if e.stall.held == ev.Held {
		return
	}
	e.stall.held = ev.Held
	if ev.Held {
		e.stall.begin(now)
		return
	}
	e.hearAgain(now, e.stall.since, now)
	e.stall.since = time.Time{}
}

// hearAgain ends a time in which no agent could be heard, from one moment until another.
func (e *Engine) hearAgain(now, from, until time.Time) {
	e.stall.tellBy = later(e.stall.tellBy, now.Add(e.longestInterval()))
	awaited := later(e.stall.tellBy, now.Add(leastToTell))
	for _, t := range e.tasks.all {
		// One that is sent to its agent again keeps the time that it had.
		if t == nil || t.deadline.IsZero() || t.state != stateLeased && t.state != stateDispatching {
			continue
		}
		if stood := until.Sub(later(from, t.runsFrom)); !from.IsZero() && stood > 0 {
			t.deadline = t.deadline.Add(stood)
		}
		t.deadline = later(t.deadline, awaited)
		if t.state == stateLeased && t.expire.index >= 0 {
			e.timers.schedule(&t.expire, t.deadline)
		}
	}
	for _, a := range e.fleet.Agents {
		e.watch(now, a)
		e.wake(now, a) // one that was suspected is trusted again
	}
}

// longestInterval is the longest time between two reports that any agent promises.
func (e *Engine) longestInterval() (longest time.Duration) {
	for _, a := range e.fleet.Agents {
		longest = max(longest, a.Spec.HealthCheckInterval)
	}
	return longest
}
