package engine

import (
	"fmt"
	"slices"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/engine/internal/queue"
)

// How long a task may wait. That others are before it is no reason to fail: a queue is there for
// that. That no agent can take it is, after the assignment timeout. So the timeout runs only while
// nothing moves for the tasks of its class, which is looked at when it is over, and not with every
// dispatch: the latest moment at which something moved is found from the agents of the class then,
// and the timer of the task set again. What bounds the wait whatever moves is in within.

// quotaSoon is how far away quota may be that comes back with time, for tasks that wait for it not
// to count as stuck: that of a rate or a short period, or of a provider that has asked for a pause.
const quotaSoon = 10 * time.Minute

// pendingUntil is until when a task may be pending that begins to be so now, if nothing moves. For
// one that comes out of a lane the time there counts.
func (e *Engine) pendingUntil(now time.Time, t *openTask) time.Time {
	timeout := e.policy.Settings.AssignmentTimeout
	since := now
	if t.from != "" {
		since = t.task.AcceptedAt
		if !since.Add(timeout).After(now) {
			since = later(since, e.movedAt(now, t))
		}
	}
	return e.within(t, since.Add(timeout))
}

// goesOnUntil returns until when a task whose time is over may stay pending: longer if its class makes progress, or
// an agent is expected that could take it; not after now if neither is so.
func (e *Engine) goesOnUntil(now time.Time, t *openTask) time.Time {
	until := e.movedAt(now, t).Add(e.policy.Settings.AssignmentTimeout)
	if !until.After(now) && e.awaits(now, t) {
		until = earlier(e.graceEnd, now.Add(awaitLook))
	}
	return e.within(t, until)
}

// within is until, or the moment at which the task's waiting ends whatever moves, if that is
// earlier: its deadline; its max_wait_seconds, until an agent has had it; and where it is never
// moved to a lane, when its message has been held for as long as the broker allows, which closes
// the channel of a consumer that holds one for longer (see Settings.MaxTimeout).
func (e *Engine) within(t *openTask, until time.Time) time.Time {
	if d := t.task.Deadline; !d.IsZero() {
		until = earlier(until, d)
	}
	if most := e.maxWait(t); most > 0 {
		until = earlier(until, t.task.AcceptedAt.Add(most))
	}
	if e.heldThroughout(t) {
		until = earlier(until, t.came.Add(e.policy.Settings.MaxTimeout))
	}
	return until
}

// heldThroughout reports whether the task's message is held for as long as it waits, and the broker
// bounds that.
func (e *Engine) heldThroughout(t *openTask) bool {
	return e.policy.Settings.MaxTimeout > 0 && !e.mayMove(t)
}

// maxWait returns how long the task may wait for its first agent, from when it was accepted, as the task or its
// type says; 0: no such bound.
func (e *Engine) maxWait(t *openTask) time.Duration {
	switch {
	case !t.ownMessage || len(t.tried) > 0:
		return 0
	case t.task.MaxWait > 0:
		return t.task.MaxWait
	}
	return e.policy.Routes[t.task.Type].MaxWait
}

// whyNow is what a failure adds to why the task has waited, when that was ended by a bound.
func (e *Engine) whyNow(now time.Time, t *openTask) string {
	most := e.maxWait(t)
	switch {
	case most > 0 && !now.Before(t.task.AcceptedAt.Add(most)):
		return fmt.Sprintf("; it was to wait for at most %s (max_wait_seconds)", most)
	case e.heldThroughout(t) && !now.Before(t.came.Add(e.policy.Settings.MaxTimeout)):
		return fmt.Sprintf("; the broker lets a message be held for %s (broker_consumer_timeout_seconds less 120)",
			e.policy.Settings.MaxTimeout)
	}
	return ""
}

// movedAt returns when something moved last for tasks such as this one, as far as is known; the zero time: it does
// not count, or nothing has moved yet. For tasks that wait for quota it is what moves for their group; for a task
// that its strategy gives to none of the free agents, nothing.
func (e *Engine) movedAt(now time.Time, t *openTask) time.Time {
	s, c := &e.policy.Settings, t.needs.class
	if s.CountsWaiting || s.AssignmentTimeout == 0 || t.state == stateUnscored || c == nil {
		return time.Time{}
	}
	leaf := e.leafOf(t)
	if w := e.waitAt(c, leaf); w != nil && e.anyPresent(c) {
		if at, lacks := e.quotas.MovedAt(now, &w.Lacks, leaf, quotaSoon); lacks {
			return at
		}
	}
	if now.Sub(c.moved) >= s.AssignmentTimeout/2 { // else it is recent enough not to look again
		c.moved = later(c.moved, e.agentsMovedAt(now, c))
	}
	return c.moved
}

// anyPresent reports whether an agent of the class is not absent.
func (e *Engine) anyPresent(c *class) bool {
	for i, why := range e.fleet.Causes {
		if c.Usable.Has(i) && !why.Absent() {
			return true
		}
	}
	return false
}

// agentsMovedAt is when something moved last for one of the class's agents: now if one of them is
// there and at work. It takes O(agents).
func (e *Engine) agentsMovedAt(now time.Time, c *class) (last time.Time) {
	for i, a := range e.fleet.Agents {
		switch {
		case !c.Usable.Has(i):
		case !e.fleet.Causes[i].Absent() && a.atWork(now):
			return now
		default:
			last = later(last, a.Moved)
		}
	}
	return last
}

// atWork reports whether the agent has something that it was given, within the time that it has for it. An agent
// that reports no more than how much it runs has the time of its latest task.
func (a *agent) atWork(now time.Time) bool {
	for _, t := range a.Open {
		if !t.Over && (t.state == stateDispatching || t.state == stateLeased && !t.unanswered && now.Before(t.deadline)) {
			return true
		}
	}
	return !a.Tracked && a.Report.Active > a.Credit && now.Before(a.Given.Add(a.Spec.Timeout))
}

// awaits reports whether an agent that could take the task has not been heard since the
// session opened, and may be yet: then the task waits for longer than it may else.
func (e *Engine) awaits(now time.Time, t *openTask) bool {
	if !now.Before(e.graceEnd) || t.late(now) {
		return false
	}
	c := t.needs.class
	if c.unserved() {
		return true // one may join
	}
	return slices.ContainsFunc(e.fleet.Agents, func(a *agent) bool {
		return a.isAwaited(e.openedAt) &&
			c.criteria.Set.Has(a.Number)
	})
}

// isAwaited reports whether the agent has not been heard since the session opened, or its
// consumer is not back, and it is not known to be there or to have left.
func (a *agent) isAwaited(openedAt time.Time) bool {
	switch a.State {
	case coordinator.AgentOnline:
		return a.Unattended
	case coordinator.AgentOffline:
		return false
	}
	return a.Heard.Before(openedAt)
}

// awaitLook is the time between two questions whether a task that has waited for long enough
// may wait for an agent that has not been heard.
const awaitLook = time.Second

// expired ends the waiting of a task that no agent could take in time, or the lease of one whose agent has not
// reported in time how it ended.
func (e *Engine) expired(now time.Time, t *openTask) {
	if t.state == stateLeased {
		e.leaseExpired(now, t)
		return
	}
	delayed := t.state == stateDelayed
	if !delayed {
		if !e.awaits(now, t) && e.triesAgain(now, t) {
			return
		}
		if until := e.goesOnUntil(now, t); until.After(now) {
			t.until = until
			e.timers.schedule(&t.expire, until)
			return
		}
		if e.widenNow(now, t) { // rather than fail
			return
		}
	}
	e.leavePending(t)
	switch {
	case !delayed:
		e.failWaiting(now, t)
	case t.late(now):
		e.fail(now, t, coordinator.ReasonDeadlineExceeded, "the deadline has passed", nil)
	default:
		e.fail(now, t, coordinator.ReasonRetriesExhausted, fmt.Sprintf(
			"so much came back that the retry budget (a tenth of the first dispatches plus %d a second) did not allow another dispatch in time%s",
			queue.RetryFloor, t.cameBefore()), nil)
	}
}
