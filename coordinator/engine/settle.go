package engine

import (
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/engine/internal/admission"
	"taskbus/coordinator/engine/internal/queue"
	"taskbus/coordinator/engine/internal/state"
)

// dispatch hands the task to the agent: the slot is taken before the message is published.
func (k *kernel) dispatch(now time.Time, t *state.Task, a *state.Agent, d *coordinator.Decision) {
	t.Stage, t.AssignedAt = state.Dispatching, now
	if c := t.Needs.Class; c != nil {
		c.Served = now
		c.Pace.Add(now)
	}
	t.Lease = state.Lease{Timeout: t.Task.Timeout, Service: k.ServiceOf(t)}
	if t.Timeout <= 0 {
		t.Timeout = a.Spec.Timeout
	}
	k.Assigned(t, a)
	generation, probe, changes := k.Ejections.Begin(now, k.BreakerView(a, t))
	t.Generation, t.Probe = generation, probe
	k.ApplyBreakers(changes)
	if len(t.Tried) == 0 {
		k.Retries.Earn()
	}
	made := k.Asking.Dispatch(d)
	*made = coordinator.Dispatch{
		Handle: t.Handle, Task: t.Task, Agent: a.Spec.ID, Queue: a.Spec.Queue,
		DispatchID: t.DispatchID, Attempt: t.Attempt, Tried: t.Tried, Tries: t.Tries, Failed: t.Failed,
		Suspected:     t.Suspected,
		AcceptTimeout: a.Spec.AcceptTimeout, Timeout: t.Timeout, At: now,
		MaybeDuplicate: t.MaybeDuplicate, Again: t.Resumed, Service: t.Service, Decision: made.Decision,
	}
	made.Decision.Models = t.Quota.Judged()
	if k.Recorder.On {
		k.Commit(t.Assignment(made.Decision))
	}
	if limits, batched := k.BatchLimits(t); batched {
		k.Batches.Share(state.BatchKeyOf(t), queue.Shared[*state.Task]{Task: t, Made: made}, limits.MaxSize)
	}
	t.Fresh = false
	k.Emit(made)
}

// settled hears what became of a dispatch.
func (k *kernel) settled(now time.Time, ev coordinator.DispatchSettled) {
	t := k.Held[ev.Handle]
	if t == nil || t.Stage != state.Dispatching {
		return // of a session that has ended
	}
	if t.Over { // its outcome came before the broker's answer
		k.overSettled(now, t, ev.Outcome)
		return
	}
	a, outcome := t.Agent, ev.Outcome
	if t.Resumed && outcome == coordinator.PublishAbandoned {
		outcome = coordinator.PublishUnknown // it is still not known whether its earlier copy arrived
	}
	switch outcome {
	case coordinator.PublishConfirmed:
		delete(k.Held, ev.Handle)
		t.Handle = 0
		k.Emit(coordinator.Ack{Handle: ev.Handle})
		if k.Confirmed(now, t); k.Recorder.On {
			k.Commit(&coordinator.Settled{Key: t.Key, Attempt: t.Attempt, At: now})
		}
		if t.Withdrawn {
			k.Withdraw(t, t.CancelReason, t.CancelToken)
		}
		return
	case coordinator.PublishUnknown:
		delete(k.Held, ev.Handle)
		t.Handle = 0
		k.BeginLease(now, t, coordinator.FateUnsettled)
		return
	case coordinator.PublishAbandoned: // it is nowhere: a copy is as good as new
		k.EndQuota(now, t, admission.Unpublished, nil)
		k.Discharge(t)
		k.ForgetWithdrawn(t)
		k.wake(now, a)
		return
	case coordinator.PublishUnroutable, coordinator.PublishRejected:
		k.agentsChanged(now, k.Fleet.Undelivered(now, a, outcome == coordinator.PublishUnroutable))
	case coordinator.PublishNotSent:
		k.EndQuota(now, t, admission.Unpublished, nil)
		k.Discharge(t)
		t.NextAttempt()
		k.Fail(now, t, coordinator.ReasonInvalidMessage, "the dispatch cannot be encoded as an AMQP message", nil)
		k.wake(now, a)
		return
	}
	k.EndQuota(now, t, admission.Unpublished, nil)
	k.Discharge(t)
	t.NextAttempt()
	t.Stage = state.Deciding
	k.Fleet.Refresh(a)
	if t.Withdrawn {
		k.FailCancelled(now, t)
		return
	}
	k.RecordUndelivered(t, outcome)
	k.admit(now, t) // under the policy of now, which may be another than before
}

// overSettled ends a task whose result came while its dispatch was on the way.
func (k *kernel) overSettled(now time.Time, t *state.Task, outcome coordinator.PublishOutcome) {
	delete(k.Held, t.Handle)
	if outcome != coordinator.PublishUnknown && outcome != coordinator.PublishAbandoned {
		settled := &coordinator.Settled{Key: t.Key, Attempt: t.Attempt, At: now,
			Nowhere: outcome != coordinator.PublishConfirmed}
		if k.LeaseOf(t.Key, t.Attempt) != nil { // it came back, and is on its way again under its id
			settled.Attempt = 0
		}
		if !settled.Nowhere {
			settled.Agent = t.Agent.Spec.ID
		}
		k.Emit(coordinator.Ack{Handle: t.Handle, Copy: settled.Nowhere})
		k.SettleOver(settled)
	} else {
		k.Messages.Unanswered(t.Key)
	}
	t.Handle = 0
	if t.Withdrawn && t.On() { // another's late result made it needless
		k.Withdraw(t, t.CancelReason, 0)
	}
	t.Stage, t.Settled = state.Leased, now
	if t.Agent.Gone() {
		k.Discharge(t)
	}
}
