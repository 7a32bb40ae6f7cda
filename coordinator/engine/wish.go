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

// wishLook is when a task whose time has come is checked again while bids are accepted for it, or it waits for its
// batch.
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

// watchWish schedules a check of a task that waits for its preferred agents alone, or for others than the agents
// that asked for time, when that is over.
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

// Wish describes a task that waits for its preferred agents alone: for which of them, and until when. ok is false
// when it does not.
func (e *Engine) Wish(id coordinator.TaskID) (agents []coordinator.AgentID, until time.Time, ok bool) {
	t := e.openTask(id)
	if t == nil || !t.narrow() || t.state != stateWaiting && t.state != stateUnscored {
		return nil, time.Time{}, false
	}
	return slices.Clone(t.needs.class.only), t.task.AcceptedAt.Add(t.task.WidenAfter), true
}

// An agent that gives a task back and says for how long it is not to be given it again (retry_after_ms)
// speaks of itself, mostly of a rate limit, and not of the task: that is no failure of the task, no try, and
// nothing by which the agent's success rate or its breakers change.
// The agent has the task no more before its time is over. Another has it meanwhile; but where two have said
// so the limit is likely that of all, and the task waits for the first of their times instead of asking
// each in turn.

const (
	// sharedLimit is how many agents have to ask for time until the task waits.
	sharedLimit = 2
	// freeAsks is how long after a task was accepted what comes back so is no try. Later it is, so that
	// what no agent will ever do has an end.
	freeAsks = 30 * time.Minute
)

// respite is an agent that has asked not to be given a task before a time.
type respite struct {
	agent coordinator.AgentID
	until time.Time
}

// asksFor notes that an agent is not to be given the task before a time.
func (t *openTask) asksFor(agent coordinator.AgentID, until time.Time) {
	t.asked = append(slices.DeleteFunc(slices.Clone(t.asked), func(a respite) bool { return a.agent == agent }),
		respite{agent, until})
}

// asksFreely reports whether what comes back so is no try yet.
func (e *Engine) asksFreely(now time.Time, t *openTask) bool {
	return now.Sub(t.task.AcceptedAt) < freeAsks
}

// asksAfterwards applies that an agent asks for time whose message has come back before its result, and was taken
// for a refusal. It reports whether that still counts as a try.
func (e *Engine) asksAfterwards(now time.Time, t *openTask, r *coordinator.Result) (counts bool) {
	t.asksFor(r.Agent, e.asksUntil(now, t, r.RetryAfter))
	if !t.mayTryAgain() { // its next dispatch has counted it as a try
		return true
	}
	counts = !e.asksFreely(now, t)
	if !counts {
		if t.tries--; len(t.tried) > t.tries { // else it had it before
			t.tried, t.untouched = without(t.tried, r.Agent), with(t.untouched, r.Agent)
			e.forgiveFault(now, t, r.Agent)
		}
		t.exhausted = false
	}
	e.leavePending(t)
	e.retries.Remove(t)
	e.delay(now, t)
	return counts
}

// askedBy are the agents that have asked not to be given the task yet.
func (t *openTask) askedBy() (ids []coordinator.AgentID) {
	for _, a := range t.asked {
		ids = append(ids, a.agent)
	}
	return ids
}

// firstAsked returns when the first of those times is over; zero: there is none.
func (t *openTask) firstAsked() (at time.Time) {
	for _, a := range t.asked {
		if at.IsZero() || a.until.Before(at) {
			at = a.until
		}
	}
	return at
}

// asksAll forgets the times that are over, and is until when the task has to wait for one of the others;
// zero: it has not. The task has been resolved, and is again if that has changed.
func (e *Engine) asksAll(now time.Time, t *openTask) time.Time {
	if n := len(t.asked); n > 0 {
		t.asked = slices.DeleteFunc(slices.Clone(t.asked), func(a respite) bool { return !a.until.After(now) })
		if len(t.asked) < n {
			e.resolve(t)
		}
	}
	if len(t.asked) == 0 || len(t.asked) < sharedLimit && e.anyThere(t, nil) {
		return time.Time{}
	}
	return t.firstAsked()
}

// waitUntil has a delayed task wait until then, and for an agent after that.
func (e *Engine) waitUntil(t *openTask, at time.Time) {
	t.until = later(t.until, e.heldUntil(t, e.findsBy(at, t)))
	e.timers.schedule(&t.retry, at)
	e.timers.schedule(&t.expire, t.until)
}
