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
	e.missesFrom = e.graceEnd
	if !ev.Connected.IsZero() {
		e.missesFrom = ev.Connected.Add(longest)
	}
	e.unheardFrom = now.Add(longest)
	for _, a := range e.fleet.Agents {
		e.unheardFrom = later(e.unheardFrom, now.Add(e.staleAfter(a)))
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
	e.releaseLost(now)
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
	if e.stall.held { // what could not be told in an alarm is awaited
		e.stall.tellBy = later(e.stall.tellBy, now.Add(e.longestInterval()))
	}
	e.connected, e.stall.held = false, false // the next session says so anew
	e.stall.begin(now)
	e.endTakeBacks()
	for _, t := range e.inOrder() {
		if t.state == stateMoving {
			e.endMove(now, t, coordinator.PublishUnknown)
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
			e.closeLot(e.now, t, auction.WindowOver) // nobody can be told
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
	for _, c := range e.pending.active {
		c.clear()
	}
	e.pending.active, e.pending.count = nil, [4]int{}
	e.batches.Clear()
	e.lanes.SessionClosed()
	e.timers.cancel(&e.relieveAgain)
	e.endClaims()
	e.timers.cancel(&e.retryEnd)
	e.retries.Clear()
}
