package engine

import (
	"fmt"
	"slices"
	"time"

	"taskbus/coordinator"
)

// admit judges a task from scratch: refused for good, placed, or made to wait.
func (e *Engine) admit(now time.Time, t *openTask) {
	if t.attempt > mostAttempts {
		e.fail(now, t, coordinator.ReasonRetriesExhausted, fmt.Sprintf(
			"%d dispatches were made under this task_id, and no more can be told apart; submit it under another", mostAttempts), nil)
		return
	}
	if reason, text := e.resolve(t); reason != coordinator.ReasonNone {
		e.fail(now, t, reason, text, nil)
		return
	}
	if len(t.tried) > 0 && !t.vain {
		e.chooseAgain(t)
		e.resolve(t) // which has an answer, as a moment ago
	}
	if !e.gather(now, t) {
		e.place(now, t)
	}
}

// place gives the task to an agent, or lets it wait behind its equals: then, or when
// it has failed, there is no agent.
func (e *Engine) place(now time.Time, t *openTask) (*agent, *coordinator.Decision) {
	if e.failHopeless(now, t) {
		return nil, nil
	}
	if t.needs.class.first() != nil || e.waitsForQuota(t) {
		if !e.exceedsQuota(now, t) {
			e.waitOrAside(now, t)
		}
		return nil, nil
	}
	a, d := e.choose(t)
	switch {
	case a == nil:
		e.waitOrAside(now, t)
	case !t.asks():
		return e.assignBest(now, t, a, d)
	case !e.mayGive(t):
		e.wait(now, t)
	default:
		e.give(now, t, a, d)
	}
	return nil, nil
}

// failHopeless fails a task that is too late, or that nobody can ever take.
func (e *Engine) failHopeless(now time.Time, t *openTask) bool {
	switch {
	case t.late(now):
		e.fail(now, t, coordinator.ReasonDeadlineExceeded, "the deadline has passed", nil)
		return true
	case t.needs.class.nobody:
		d := e.explain(now, t)
		reason, text := e.reasonOf(d, t)
		if reason != coordinator.ReasonNoAgentsOnline { // else somebody may come who can
			e.fail(now, t, reason, text+t.cameBefore(), d)
			return true
		}
	}
	return false
}

// waitOrAside lets the task wait in line, or aside if its strategy makes nothing of those
// who could have it.
func (e *Engine) waitOrAside(now time.Time, t *openTask) {
	if e.wait(now, t); t.state != stateWaiting || !t.alone && !e.unscored(t) {
		return
	}
	if a, _ := e.choose(t); a == nil { // else others go first, or more is being sought than is free
		e.setAside(now, t)
	}
}

// choose finds the agent for a task that has been resolved; nil when there is none.
func (e *Engine) choose(t *openTask) (*agent, *coordinator.Decision) {
	return e.fleet.choose(e.question(t))
}

// question is what is asked of the fleet for a task that has been resolved. It is
// valid until the next.
func (e *Engine) question(t *openTask) *question {
	n, q := &t.needs, &e.asking
	q.Case = coordinator.Case{Task: t.task, Required: len(n.required), MaxCost: e.fleet.maxCost}
	q.asker = t
	q.strategy, q.feasible, q.preferred, q.seed = n.strategy, n.class.usable, n.preferred, e.policy.Settings.Seed
	q.free = e.freeFor(t)
	q.standing, q.standings = coordinator.Standing{}, standings{}
	if n.strategy.Learned {
		q.standings = e.standings(t)
		q.Reference = q.standings.reference()
	}
	if n.strategy.Prepare != nil {
		n.strategy.Prepare(&q.Case)
	}
	return q
}

// noChoice is the decision for an agent that was the only one in question.
func (e *Engine) noChoice(strategy string, a *agent) *coordinator.Decision {
	return &coordinator.Decision{
		Strategy: strategy, Agent: a.spec.ID, Fleet: len(e.fleet.agents), Eligible: 1,
		Candidates: []coordinator.Candidate{{Agent: a.spec.ID, Load: a.load(), Free: a.free()}},
	}
}

// needsRoom tells whether the task waits only if the backlog has room for it. What comes out of a
// lane has it, and what may be moved to one makes it.
func (e *Engine) needsRoom(t *openTask) bool { return t.from == "" && !e.mayMove(t) }

// failFull fails a task for which the backlog has no room.
func (e *Engine) failFull(now time.Time, t *openTask) {
	e.fail(now, t, coordinator.ReasonBacklogFull, fmt.Sprintf("%d tasks are waiting already (max_queue_size)", e.backlog()), nil)
}

// pendingUntil is how long a task may be pending that begins to be so now. For one that
// comes out of a lane the time there counts.
func (e *Engine) pendingUntil(now time.Time, t *openTask) time.Time {
	since := now
	if t.from != "" {
		since = t.task.AcceptedAt
	}
	until := since.Add(e.mayWait(t))
	if d := t.task.Deadline; !d.IsZero() && d.Before(until) {
		until = d
	}
	return until
}

// mayWait is the assignment timeout, as far as the task may be held for so long: what is
// never moved to a lane is held all the time, and a broker closes the channel of a consumer
// that holds a message for longer than an agent may hold one (see Settings.MaxTimeout).
func (e *Engine) mayWait(t *openTask) time.Duration {
	s := &e.policy.Settings
	if s.MaxTimeout > 0 && !e.mayMove(t) {
		return min(s.AssignmentTimeout, s.MaxTimeout)
	}
	return s.AssignmentTimeout
}

// awaits reports whether an agent that could take the task has not been heard since the
// session opened, and may be yet: then the task waits for longer than it may else.
func (e *Engine) awaits(now time.Time, t *openTask) bool {
	if !now.Before(e.graceEnd) || t.late(now) {
		return false
	}
	c := t.needs.class
	if c.nobody {
		return true // one may join
	}
	return slices.ContainsFunc(e.fleet.agents, func(a *agent) bool { return a.isAwaited(e.openedAt) && c.feasible.has(a.number) })
}

// isAwaited reports whether the agent has not been heard since the session opened, or its
// consumer is not back, and it is not known to be there or to have left.
func (a *agent) isAwaited(openedAt time.Time) bool {
	switch a.state {
	case coordinator.AgentOnline:
		return a.unattended
	case coordinator.AgentOffline:
		return false
	}
	return a.heard.Before(openedAt)
}

// awaitLook is the time between two questions whether a task that has waited for long enough
// may wait for an agent that has not been heard.
const awaitLook = time.Second

// awaitUntil is when that is asked again.
func (e *Engine) awaitUntil(now time.Time, t *openTask) time.Time {
	until := earlier(e.graceEnd, now.Add(awaitLook))
	if d := t.task.Deadline; !d.IsZero() {
		until = earlier(until, d)
	}
	return until
}

// expired ends the waiting of a task that nobody could take in time, or the lease
// of one whose agent has not said in time how it ended.
func (e *Engine) expired(now time.Time, t *openTask) {
	if t.state == stateLeased {
		e.leaseExpired(now, t)
		return
	}
	if e.widenNow(now, t) { // rather than fail
		return
	}
	delayed := t.state == stateDelayed
	if !delayed && e.awaits(now, t) {
		t.until = e.awaitUntil(now, t)
		e.timers.schedule(&t.expire, t.until)
		return
	}
	if !delayed && e.triesAgain(now, t) {
		return
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
			retryFloor, t.cameBefore()), nil)
	}
}
