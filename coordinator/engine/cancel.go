package engine

import (
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/engine/internal/dedupe"
)

// withdraw sends the agent that has the dispatch the order to drop it.
func (e *Engine) withdraw(t *openTask, why string, token uint64) {
	e.emit(coordinator.Withdraw{
		Agent: t.agent.Spec.ID, Task: t.task.ID, DispatchID: t.dispatchID, TraceID: t.task.TraceID,
		Reason: why, Token: token,
	})
}

// cancel withdraws a task in whatever state it is.
func (e *Engine) cancel(now time.Time, ev coordinator.CancelRequested) {
	key := coordinator.KeyOf(ev.Task)
	r := e.lookup(now, key)
	answer := coordinator.CancelAnswered{Token: ev.Token, Task: ev.Task, State: coordinator.CancelTooLate}
	t := e.tasks.of(r)
	switch {
	case r == nil, r.Fate == coordinator.FateForgotten, r.Fate == coordinator.FateWithdrawn:
		attempt, reason := uint16(0), ev.Reason
		if r != nil {
			attempt, reason = r.Attempt, orElse(reason, e.dedupe.Reason(key))
		}
		_, r = e.dedupe.Insert(now, key, 0, coordinator.FateWithdrawn, 0)
		r.Attempt = attempt
		e.dedupe.KeepReason(key, reason)
		e.noted(r, ev.Task)
		answer.State = coordinator.CancelNoted
		for _, a := range e.fleet.Agents { // of a coordinator before this one, perhaps
			if _, runs := a.Listed[ev.Task]; runs {
				answer.State, answer.Agent = coordinator.CancelAsked, a.Spec.ID
				e.emit(coordinator.Withdraw{Agent: a.Spec.ID, Task: ev.Task, Reason: ev.Reason, Token: ev.Token})
			}
		}
	case t == nil && r.Fate == coordinator.FateLaned:
		e.withdrawLaned(r, ev.Reason)
		answer.State = coordinator.CancelDone
	case t != nil && t.state == stateMoving:
		e.withdrawMoving(t, ev.Reason)
		answer.State = coordinator.CancelDone
	case t == nil && r.Fate == coordinator.FateLetGo:
		e.dedupe.Withdraw(r, ev.Reason)
		e.noted(r, ev.Task)
		answer.State, answer.Agent = coordinator.CancelAsked, e.fleet.Named(r.Ref)
		e.emit(coordinator.Withdraw{
			Agent: answer.Agent, Task: ev.Task, DispatchID: e.letGoID(ev.Task, int(r.Attempt)),
			Reason: ev.Reason, Token: ev.Token,
		})
	case t == nil && r.Fate == coordinator.FateCancelled && r.Ref == 0:
		answer.State = coordinator.CancelDone
	case t == nil:
		answer.Agent = e.fleet.Named(r.Ref)
	case t.state == stateWaiting || t.state == stateUnscored || t.state == stateDelayed || t.state == stateGathering ||
		t.state == stateBidding:
		e.leavePending(t)
		t.cancelReason = ev.Reason
		e.failCancelled(now, t)
		answer.State = coordinator.CancelDone
	default:
		t.withdrawn, t.cancelReason = true, ev.Reason
		e.leaseChanged(t)
		answer.State, answer.Agent = coordinator.CancelAsked, t.agent.Spec.ID
		if t.state == stateDispatching { // sent once the agent has it
			t.cancelToken = ev.Token
		} else {
			e.withdraw(t, ev.Reason, ev.Token)
		}
	}
	e.emit(answer)
}

// withdrawAgain repeats, in a new session, the cancel messages that may not have got through in the one before: an
// agent stops only when it receives such a message.
func (e *Engine) withdrawAgain() {
	for _, t := range e.tasks.all {
		if t != nil && t.withdrawn && t.state == stateLeased && !t.returning {
			e.withdraw(t, t.cancelReason, 0)
		}
	}
}

// letGoID is the dispatch id of an attempt that was let go of; empty when it was too long ago:
// whichever the agent has of the task.
func (e *Engine) letGoID(task coordinator.TaskID, attempt int) string {
	if t := e.ends.Task(coordinator.KeyOf(task)); t != nil {
		return coordinator.DispatchID(t, attempt)
	}
	return ""
}

// withdrawMoving notes a cancel of a task that is on its way into its lane: it fails when
// it comes out, or is not taken. Should this leader end before either, the one that
// follows knows it as one that must not be assigned.
func (e *Engine) withdrawMoving(t *openTask, reason string) {
	t.withdrawn, t.cancelReason = true, reason
	if r := e.recordOf(t); r != nil && e.recorder.on {
		e.record(&coordinator.Remembered{
			Key: t.key, ID: t.task.ID, Content: r.Content, Fate: coordinator.FateWithdrawn,
			Seen: e.dedupe.Seen(r), Attempt: t.attempt - 1, Reason: reason,
		})
	}
}

// withdrawLaned notes a cancel of a task that is in its lane.
func (e *Engine) withdrawLaned(r *dedupe.Record, reason string) {
	if r.Flags&dedupe.Withdrawn == 0 {
		e.dedupe.Withdraw(r, reason)
		e.noted(r, "")
	}
}

// forgetWithdrawn gives up a task that the broker will deliver again. If it was withdrawn, no copy may be assigned.
func (e *Engine) forgetWithdrawn(t *openTask) {
	e.forget(t)
	if !t.withdrawn {
		return
	}
	if e.recordOf(t) != nil {
		e.dedupe.KeepReason(t.key, t.cancelReason)
	}
	e.note(t, coordinator.FateWithdrawn, 0, t.attempt-1)
}
