package engine

import (
	"fmt"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/engine/internal/dedupe"
	"taskbus/coordinator/engine/internal/fleet"
	"taskbus/coordinator/learning"
)

// lease is the part of an open task that begins with its dispatch: which agent
// has it, since when, and for how long it may.
//
// A lease ends with the agent's result, with the return of the dispatch, or with
// its deadline. A dispatch to an agent that says no more than heartbeats (see
// Agent.Tracked) has none: it is let go as soon as a heartbeat speaks for it.
type lease struct {
	agent      *agent // that has the dispatch; nil before the first
	dispatchID string
	fleet.Dispatch
	unanswered bool // it is not known whether it arrived: the broker still has its task
	begun      bool // a report has listed it
	// returning: the agent has said that it gives it back; attempted: it had begun.
	returning, attempted bool
	probe                bool // it is the one task by which a half-open breaker tries its agent
	// said is the text that it sent with that, retryAfter how long it asks not to be given the task again.
	said       string
	retryAfter time.Duration
	generation uint64              // of its agent's breakers when it was made
	batch      string              // the batch that it is dispatched with; empty: alone
	service    coordinator.Service // the model that its agent is to use; zero: the task names no alternatives
	timeout    time.Duration       // how long the agent may work on it
	deadline   time.Time           // when its result is overdue; zero until it is confirmed
	runsFrom   time.Time           // when that time began to run
}

// Try returns the id of the task and its attempt.
func (t *openTask) Try() (coordinator.TaskID, int) { return t.task.ID, t.attempt }

// leaseMargin is how much longer than the agent may work we wait for its result: an agent that notices itself that
// time is up should report first.
const leaseMargin = time.Second

// leaseRetry is how long an overdue lease waits while its result could not have come.
const leaseRetry = time.Second

// beginLease notes that a dispatch is in its agent's queue, or may be.
func (e *Engine) beginLease(now time.Time, t *openTask, f coordinator.Fate) {
	t.state, t.Settled, t.unanswered = stateLeased, now, f == coordinator.FateUnsettled
	e.dedupe.Update(t.key, t.record, f, t.number, t.attempt)
	if f == coordinator.FateDispatched && e.recorder.on {
		e.record(&coordinator.Settled{Key: t.key, Attempt: t.attempt, At: now})
	}
	if t.unanswered {
		e.messages.Unanswered(t.key)
	}
	if t.deadline.IsZero() {
		t.deadline, t.runsFrom = now.Add(t.timeout+leaseMargin), now
	}
	e.watchLease(t)
}

// watchLease sets the timer of a lease whose end will be reported. A lease of a task with a history is watched in
// any case: an agent that had it before may still report. So is one that was never answered: it waits for a copy of
// its task. So is one that has its agent to itself, because the agent gets nothing else before that is over.
func (e *Engine) watchLease(t *openTask) {
	if t.agent.Tracked || len(t.tried) > 0 || t.unanswered || t.Apart {
		e.timers.schedule(&t.expire, t.deadline)
	}
}

// track begins to expect results of an agent: it has sent one, or says exactly
// what it runs.
func (e *Engine) track(a *agent) {
	if a.Tracked {
		return
	}
	a.Tracked = true
	e.record(&coordinator.Tracked{Agent: a.Spec.ID})
	for _, t := range a.Open {
		if t.state == stateLeased && !t.Over {
			e.watchLease(t)
		}
	}
}

// renew notes that the agent has begun to work on a dispatch, which the first report that lists it, or
// lists it anew, says. Its time counts from when it reached the agent's queue, unless a report since then
// did not list it: then it waited there, and its time counts from the latest of these. It does not count
// from the first report that lists it, which may come an interval after the work has begun, nor from any
// later one: the deadline would mean nothing to a handler that hangs.
func (e *Engine) renew(t *openTask) {
	t.begun = true
	if t.state != stateLeased || t.Over || t.Unlisted.IsZero() {
		return
	}
	// after an alarm it may have more
	t.deadline, t.runsFrom = later(t.deadline, t.Unlisted.Add(t.timeout+leaseMargin)), t.Unlisted
	e.watchLease(t)
}

// leaseExpired ends a task whose agent has not reported in time how it ended. The agent is sent the order to stop;
// its slot stays taken until its own report says otherwise.
func (e *Engine) leaseExpired(now time.Time, t *openTask) {
	a := t.agent
	switch {
	case e.deaf(): // no report could have reached us
		e.timers.schedule(&t.expire, now.Add(leaseRetry))
		return
	case t.unanswered: // should the broker still have it, it is as good as new
		e.close(t, coordinator.FateForgotten)
		return
	case !a.Tracked:
		e.letGo(t)
		e.wake(now, a)
		return
	}
	since := "the dispatch reached its queue"
	if t.runsFrom.Equal(t.Unlisted) {
		since = "its latest report that did not list the task yet"
	}
	reason, text := coordinator.ReasonTaskTimeout, fmt.Sprintf(
		"%s has not told how it ended: %s (timeout_seconds), and %s for its word, have passed since %s (dispatch %s)",
		a.Spec.ID, t.timeout, leaseMargin, since, t.dispatchID)
	fate := coordinator.FateTimedOut
	switch {
	case t.withdrawn:
		reason, text = coordinator.ReasonCancelled, orElse(t.cancelReason, "it was withdrawn")+fmt.Sprintf(
			"; %s was told and has not said within %s that it stopped", a.Spec.ID, t.timeout)
		fate = coordinator.FateCancelled
		if r := e.recordOf(t); r != nil {
			r.Flags |= dedupe.Overdue
		}
	case t.returning:
		text = fmt.Sprintf("%s said that it gives it back, but it did not come back within %s (dispatch %s)", a.Spec.ID,
			t.timeout, t.dispatchID)
	}
	e.addPendingFailure(&coordinator.Fail{Task: t.task, Failure: coordinator.Failure{
		Reason: reason, Text: text, Attempts: t.tries + 1, FailedAt: now, Agent: a.Spec.ID,
	}})
	e.expireQuota(now, t)
	if !t.returning && !t.withdrawn {
		e.withdraw(t, reason.String(), 0)
		e.failedAt(now, a, t, learning.Outcome{Attribution: learning.TimedOut})
		e.recordFault(now, a, t)
	}
	e.close(t, fate)
}

// close ends an open task that an agent has: its outcome is announced.
func (e *Engine) close(t *openTask, f coordinator.Fate) *coordinator.Remembered {
	noted := e.note(t, f, t.agent.Serial, t.attempt)
	e.retire(t)
	return noted
}

// retire makes a dispatch of the past of one that was open. What the reports of
// its agent do not speak for yet goes on counting against the agent's slots.
func (e *Engine) retire(t *openTask) {
	e.expireQuota(e.now, t)
	e.releaseProbe(t)
	t.agent.Moved = e.now
	e.timers.cancel(&t.expire)
	e.tasks.drop(t)
	e.ends.Keep(e.now, t.key, t.task)
	t.Over = true
	if t.Covered || t.agent.Gone() {
		e.discharge(t)
	}
}

// letGo forgets a dispatch: its agent's heartbeats count it, and no agent will report how it ended.
func (e *Engine) letGo(t *openTask) {
	if r := e.recordOf(t); r != nil && t.withdrawn {
		e.dedupe.Withdraw(r, t.cancelReason)
	}
	e.note(t, coordinator.FateLetGo, t.agent.Serial, t.attempt)
	e.settleAsEstimated(t)
	e.retire(t)
	e.discharge(t)
}

// discharge takes a dispatch off its agent's account.
func (e *Engine) discharge(t *openTask) {
	e.releaseProbe(t)
	if t.On() {
		t.agent.Give(t)
		t.agent.Measure(e.now)
		e.fleet.Refresh(t.agent)
	}
}
