package engine

import (
	"slices"
	"time"

	"taskbus/coordinator"
)

// A task's preferred agents are tried first, and any other may have it at once when none of them has room.
// With widen_after_seconds it waits for them alone until then, and belongs to a class of its own as
// long: others that need the same do not wait behind it. When the time has come, or it would fail for want
// of an agent, it joins the class of all that need the same.

// wishLook is when a task is looked at again whose time has come while bids are taken for it, or it
// waits for its batch.
const wishLook = time.Second

// only lists the preferred agents that alone may have the task as yet, sorted; none: any agent may.
func (e *Engine) only(t *openTask) []coordinator.AgentID {
	if t.widened || t.task.WidenAfter <= 0 || !e.now.Before(t.task.AcceptedAt.Add(t.task.WidenAfter)) {
		return nil
	}
	preferred := t.task.Preferred
	if len(preferred) == 0 {
		preferred = e.policy.Routes[t.task.Type].Preferred
	}
	return coordinator.SortedUnique(slices.Clone(preferred))
}

// narrow reports whether a task that has been resolved waits for its preferred agents alone.
func (t *openTask) narrow() bool { return t.needs.class != nil && len(t.needs.class.only) > 0 }

// watchWish has a task that waits for its preferred agents alone, or for others than those that asked for
// time, looked at when that is over.
func (e *Engine) watchWish(t *openTask) {
	at := t.firstAsked()
	if t.narrow() {
		if wish := t.task.AcceptedAt.Add(t.task.WidenAfter); at.IsZero() || wish.Before(at) {
			at = wish
		}
	}
	if at.IsZero() {
		return
	}
	if t.widen == nil {
		t.widen = new(newTimer(dutyWiden, t, nil))
	}
	e.timers.schedule(t.widen, at)
}

// forgetWish undoes that.
func (e *Engine) forgetWish(t *openTask) {
	if t.widen != nil {
		e.timers.cancel(t.widen)
	}
}

// widenDue lets any agent have the task whose time has come.
func (e *Engine) widenDue(now time.Time, t *openTask) {
	switch t.state {
	case stateWaiting, stateUnscored:
		if at := t.firstAsked(); !at.IsZero() && !at.After(now) {
			e.leavePending(t)
			e.admit(now, t)
			return
		}
		e.widenNow(now, t)
	case stateGathering, stateBidding:
		e.timers.schedule(t.widen, now.Add(wishLook))
	}
}

// widenNow has a task that waits for its preferred agents alone judged anew, as one that any may have;
// false: it waits for any already.
func (e *Engine) widenNow(now time.Time, t *openTask) bool {
	if !t.narrow() || t.state != stateWaiting && t.state != stateUnscored {
		return false
	}
	e.leavePending(t)
	t.widened = true
	e.admit(now, t)
	return true
}

// Wish tells of a task that waits for its preferred agents alone: for which of them, and until when. ok is
// false when it does not.
func (e *Engine) Wish(id coordinator.TaskID) (agents []coordinator.AgentID, until time.Time, ok bool) {
	t := e.openTask(id)
	if t == nil || !t.narrow() || t.state != stateWaiting && t.state != stateUnscored {
		return nil, time.Time{}, false
	}
	return slices.Clone(t.needs.class.only), t.task.AcceptedAt.Add(t.task.WidenAfter), true
}
