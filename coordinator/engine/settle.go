package engine

import (
	"time"

	"taskbus/coordinator"
)

// dispatch hands the task to the agent: the slot is taken before the message is
// published.
func (e *Engine) dispatch(now time.Time, t *openTask, a *agent, d *coordinator.Decision) {
	t.state, t.assignedAt = stateDispatching, now
	if c := t.needs.class; c != nil {
		c.served = now
		c.pace.Add(now)
	}
	t.lease = lease{dispatchID: coordinator.DispatchID(t.task, t.attempt), timeout: t.task.Timeout,
		service: e.serviceOf(t)}
	if t.timeout <= 0 {
		t.timeout = a.Spec.Timeout
	}
	if len(a.Open) == 0 {
		a.Capacity.InHand(now, 1)
	}
	t.agent = a
	e.fleet.Take(a, t, t.alone)
	generation, probe, changes := e.ejections.Begin(now, e.breakerView(a, t))
	t.generation, t.probe = generation, t.probe || probe
	e.applyBreakers(changes)
	if len(t.tried) == 0 {
		e.retries.Earn()
	}
	made := e.asking.Dispatch(d)
	*made = coordinator.Dispatch{
		Handle: t.handle, Task: t.task, Agent: a.Spec.ID, Queue: a.Spec.Queue,
		DispatchID: t.dispatchID, Attempt: t.attempt, Tried: t.tried, Tries: t.tries, Failed: t.failed,
		Suspected:     t.suspected,
		AcceptTimeout: a.Spec.AcceptTimeout, Timeout: t.timeout, At: now,
		MaybeDuplicate: t.maybeDuplicate, Again: t.resumed, Service: t.service, Decision: made.Decision,
	}
	made.Decision.Models = t.modelsOf()
	if limits, batched := e.batchLimits(t); batched {
		e.batches.Share(batchKeyOf(t), made, limits.MaxSize)
	}
	t.fresh = false
	e.recordDispatch(t, made.Decision)
	e.emit(made)
}

// settled hears what became of a dispatch.
func (e *Engine) settled(now time.Time, ev coordinator.DispatchSettled) {
	t := e.held[ev.Handle]
	if t == nil || t.state != stateDispatching {
		return // of a session that has ended
	}
	if t.Over { // its outcome came before the broker's answer
		e.overSettled(now, t, ev.Outcome)
		return
	}
	a, outcome := t.agent, ev.Outcome
	if t.resumed && outcome == coordinator.PublishAbandoned {
		outcome = coordinator.PublishUnknown // it is still not known whether its earlier copy arrived
	}
	switch outcome {
	case coordinator.PublishConfirmed:
		delete(e.held, ev.Handle)
		t.handle = 0
		a.Assigned++
		a.Given, a.Moved = now, now
		e.emit(coordinator.Ack{Handle: ev.Handle})
		e.messages.Acked(now, t.key)
		e.beginLease(now, t, coordinator.FateDispatched)
		if t.withdrawn {
			e.withdraw(t, t.cancelReason, t.cancelToken)
		}
		return
	case coordinator.PublishUnknown:
		delete(e.held, ev.Handle)
		t.handle = 0
		e.beginLease(now, t, coordinator.FateUnsettled)
		return
	case coordinator.PublishAbandoned: // it is nowhere: a copy is as good as new
		e.releaseUnpublished(now, t)
		e.discharge(t)
		e.forgetWithdrawn(t)
		e.wake(now, a)
		return
	case coordinator.PublishUnroutable:
		e.missesQueue(now, a)
	case coordinator.PublishRejected:
		if a.Number >= 0 {
			a.QueueFull = true
			e.timers.schedule(&a.cool, now.Add(queueCool))
		}
	case coordinator.PublishNotSent:
		e.releaseUnpublished(now, t)
		e.discharge(t)
		t.nextAttempt()
		e.fail(now, t, coordinator.ReasonInvalidMessage, "the dispatch cannot be encoded as an AMQP message", nil)
		e.wake(now, a)
		return
	}
	e.releaseUnpublished(now, t)
	e.discharge(t)
	t.nextAttempt()
	t.state = stateDeciding
	e.fleet.Refresh(a)
	if t.withdrawn {
		e.failCancelled(now, t)
		return
	}
	e.admit(now, t) // under the policy of now, which may be another than before
}

// nextAttempt counts a dispatch that did not get through, but of which an earlier
// copy may have: its id must not stand for another.
func (t *openTask) nextAttempt() {
	if t.resumed {
		t.attempt++
		t.resumed = false
	}
}

// overSettled ends a task whose result came while its dispatch was on the way.
func (e *Engine) overSettled(now time.Time, t *openTask, outcome coordinator.PublishOutcome) {
	delete(e.held, t.handle)
	if outcome != coordinator.PublishUnknown && outcome != coordinator.PublishAbandoned {
		e.emit(coordinator.Ack{Handle: t.handle, Copy: outcome != coordinator.PublishConfirmed})
		e.messages.Acked(now, t.key)
		settled := &coordinator.Settled{Key: t.key, Attempt: t.attempt, At: now,
			Nowhere: outcome != coordinator.PublishConfirmed}
		if e.leaseOf(t.key, t.attempt) != nil { // it came back, and is on its way again under its id
			settled.Attempt = 0
		}
		e.record(settled)
	} else {
		e.messages.Unanswered(t.key)
	}
	t.handle = 0
	if outcome == coordinator.PublishConfirmed {
		t.agent.Assigned++
		t.agent.Given, t.agent.Moved = now, now
	}
	if t.withdrawn && t.On() { // another's late result made it needless
		e.withdraw(t, t.cancelReason, 0)
	}
	t.state, t.Settled = stateLeased, now
	if t.agent.Gone() {
		e.discharge(t)
	}
}
