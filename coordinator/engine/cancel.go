package engine

import (
	"time"

	"taskbus/coordinator"
)

// withdraw tells the agent that has the dispatch to drop it.
func (e *Engine) withdraw(t *openTask, why string, token uint64) {
	e.emit(coordinator.Withdraw{
		Agent: t.agent.spec.ID, Task: t.task.ID, DispatchID: t.dispatchID, TraceID: t.task.TraceID,
		Reason: why, Token: token,
	})
}

// cancel withdraws a task in whatever state it is.
func (e *Engine) cancel(now time.Time, ev coordinator.CancelRequested) {
	key := keyOf(ev.Task)
	r := e.recall(now, key)
	answer := coordinator.CancelAnswered{Token: ev.Token, Task: ev.Task, State: coordinator.CancelTooLate}
	t := e.tasks.of(r)
	switch {
	case r == nil, r.fate == fateForgotten, r.fate == fateWithdrawn:
		attempt := uint16(0)
		if r != nil {
			attempt = r.attempt
		}
		e.memory.at(e.memory.remember(now, key, 0, fateWithdrawn, 0)).attempt = attempt
		answer.State = coordinator.CancelNoted
	case t == nil && r.fate == fateLetGo:
		r.letGo |= withdrawn
		answer.State, answer.Agent = coordinator.CancelAsked, e.fleet.named(r.ref)
		e.emit(coordinator.Withdraw{
			Agent: answer.Agent, Task: ev.Task, DispatchID: coordinator.DispatchID(ev.Task, int(r.attempt)),
			Reason: ev.Reason, Token: ev.Token,
		})
	case t == nil && r.fate == fateCancelled && r.ref == 0:
		answer.State = coordinator.CancelDone
	case t == nil:
		answer.Agent = e.fleet.named(r.ref)
	case t.state == stateWaiting || t.state == stateDelayed:
		e.leavePending(t)
		t.cancelReason = ev.Reason
		e.failCancelled(now, t)
		answer.State = coordinator.CancelDone
	default:
		t.withdrawn, t.cancelReason = true, ev.Reason
		answer.State, answer.Agent = coordinator.CancelAsked, t.agent.spec.ID
		if t.state == stateDispatching { // told once the agent has it
			t.cancelToken = ev.Token
		} else {
			e.withdraw(t, ev.Reason, ev.Token)
		}
	}
	e.emit(answer)
}
