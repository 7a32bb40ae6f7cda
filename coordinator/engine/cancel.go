package engine

import (
	"slices"
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
	key := coordinator.KeyOf(ev.Task)
	r := e.recall(now, key)
	answer := coordinator.CancelAnswered{Token: ev.Token, Task: ev.Task, State: coordinator.CancelTooLate}
	t := e.tasks.of(r)
	switch {
	case r == nil, r.fate == coordinator.FateForgotten, r.fate == coordinator.FateWithdrawn:
		attempt, reason := uint16(0), ev.Reason
		if r != nil {
			attempt, reason = r.attempt, orElse(reason, e.memory.reasons.of(key))
		}
		r = e.memory.at(e.memory.remember(now, key, 0, coordinator.FateWithdrawn, 0))
		r.attempt = attempt
		e.memory.reasons.keep(key, reason)
		e.noted(r, ev.Task)
		answer.State = coordinator.CancelNoted
		for _, a := range e.fleet.agents { // of a coordinator before this one, perhaps
			if _, runs := a.listed[ev.Task]; runs {
				answer.State, answer.Agent = coordinator.CancelAsked, a.spec.ID
				e.emit(coordinator.Withdraw{Agent: a.spec.ID, Task: ev.Task, Reason: ev.Reason, Token: ev.Token})
			}
		}
	case t == nil && r.fate == coordinator.FateLaned:
		e.withdrawLaned(r, ev.Reason)
		answer.State = coordinator.CancelDone
	case t != nil && t.state == stateMoving:
		e.withdrawMoving(t, ev.Reason)
		answer.State = coordinator.CancelDone
	case t == nil && r.fate == coordinator.FateLetGo:
		r.flags |= withdrawn
		e.memory.reasons.keep(key, ev.Reason)
		e.noted(r, ev.Task)
		answer.State, answer.Agent = coordinator.CancelAsked, e.fleet.named(r.ref)
		e.emit(coordinator.Withdraw{
			Agent: answer.Agent, Task: ev.Task, DispatchID: e.letGoID(ev.Task, int(r.attempt)),
			Reason: ev.Reason, Token: ev.Token,
		})
	case t == nil && r.fate == coordinator.FateCancelled && r.ref == 0:
		answer.State = coordinator.CancelDone
	case t == nil:
		answer.Agent = e.fleet.named(r.ref)
	case t.state == stateWaiting || t.state == stateUnscored || t.state == stateDelayed || t.state == stateGathering || t.state == stateBidding:
		e.leavePending(t)
		t.cancelReason = ev.Reason
		e.failCancelled(now, t)
		answer.State = coordinator.CancelDone
	default:
		t.withdrawn, t.cancelReason = true, ev.Reason
		e.leaseChanged(t)
		answer.State, answer.Agent = coordinator.CancelAsked, t.agent.spec.ID
		if t.state == stateDispatching { // told once the agent has it
			t.cancelToken = ev.Token
		} else {
			e.withdraw(t, ev.Reason, ev.Token)
		}
	}
	e.emit(answer)
}

// withdrawAgain repeats, in a new session, what the one before may not have got
// through: agents go by what they are told, and are told by a message.
func (e *Engine) withdrawAgain() {
	for _, t := range e.tasks.all {
		if t != nil && t.withdrawn && t.state == stateLeased && !t.returning {
			e.withdraw(t, t.cancelReason, 0)
		}
	}
}

// maxReasons bounds the reasons kept for cancels of tasks that are not open: with
// 2,048 characters each, at most 4 MiB.
const maxReasons = 512

// cancelReasons remembers why tasks were cancelled that are not open: not seen
// yet, or let go. It stands beside the records of the memory, because hardly any
// of those has a reason; a cancel counts without it. The oldest goes first.
type cancelReasons struct{ list []cancelReason }

type cancelReason struct {
	key  coordinator.TaskKey
	text string
}

func (c *cancelReasons) find(key coordinator.TaskKey) int {
	return slices.IndexFunc(c.list, func(r cancelReason) bool { return r.key == key })
}

// of is the reason kept for a task id; empty when there is none.
func (c *cancelReasons) of(key coordinator.TaskKey) string {
	if i := c.find(key); i >= 0 {
		return c.list[i].text
	}
	return ""
}

// keep replaces the reason of a task id; an empty one changes nothing.
func (c *cancelReasons) keep(key coordinator.TaskKey, text string) {
	if text == "" {
		return
	}
	c.drop(key)
	if len(c.list) >= maxReasons {
		c.list = slices.Delete(c.list, 0, 1)
	}
	c.list = append(c.list, cancelReason{key, text})
}

func (c *cancelReasons) drop(key coordinator.TaskKey) {
	if i := c.find(key); i >= 0 {
		c.list = slices.Delete(c.list, i, i+1)
	}
}

// letGoID is the dispatch id of an attempt that was let go of; empty when it was too long ago:
// whichever the agent has of the task.
func (e *Engine) letGoID(task coordinator.TaskID, attempt int) string {
	if t := e.ends.of(coordinator.KeyOf(task)); t != nil {
		return coordinator.DispatchID(t, attempt)
	}
	return ""
}
