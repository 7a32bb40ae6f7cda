package engine

import (
	"slices"
	"time"

	"taskbus/coordinator"
)

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

// asksAfterwards takes in that an agent asks for time whose message has come back before its word, and was
// taken for a refusal. It reports whether that remains a try.
func (e *Engine) asksAfterwards(now time.Time, t *openTask, r *coordinator.Result) (counts bool) {
	t.asksFor(r.Agent, e.asksUntil(now, t, r.RetryAfter))
	if !t.mayTryAgain() { // its next dispatch has told of it as a try
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

// firstAsked is when the first of those times is over; zero: there is none.
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
