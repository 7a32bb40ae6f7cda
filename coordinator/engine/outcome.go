package engine

import (
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/learning"
)

// How dispatches end teaches two things: how well agents do with tasks of a type
// (package learning), and whether an agent may be trusted with a capability at all
// (package breaker). The former counts work that was done or failed; the latter
// every fault, also work that an agent refuses or does not take: one that turns
// everything away looks idle, and would be asked first for ever. What is no try (see
// asksFreely) teaches neither.

// told learns from the word of the agent that has the dispatch.
func (e *Engine) told(now time.Time, a *agent, t *openTask, r *coordinator.Result) {
	switch {
	case r.Outcome == coordinator.OutcomeSucceeded:
		took := r.Duration
		if took <= 0 && !t.settled.IsZero() {
			took = now.Sub(t.settled)
		}
		a.capacity.Done(now)
		e.learnt(now, a, t, succeeded(r, took))
		e.praise(now, a, t)
	case r.Outcome == coordinator.OutcomeRejected && r.RetryAfter > 0 && e.asksFreely(now, t):
		e.excuse(t)
	case r.Outcome == coordinator.OutcomeFailed, r.Outcome == coordinator.OutcomeRejected && r.Attempted:
		e.failedAt(now, a, t, learning.Outcome{Attribution: learning.AgentFault, CostUSD: cost(r)})
		e.blame(now, a, t)
	case r.Outcome == coordinator.OutcomeRejected && a.leftAlone(): // one that goes gives back what it has
		e.blame(now, a, t)
	default:
		e.excuse(t)
	}
}

// succeeded is the outcome of work that was done, in so much time.
func succeeded(r *coordinator.Result, took time.Duration) learning.Outcome {
	return learning.Outcome{Attribution: learning.Succeeded, Duration: took, CostUSD: cost(r)}
}

func cost(r *coordinator.Result) float64 {
	if r.Usage == nil {
		return 0
	}
	return r.Usage.CostUSD
}

// cameBack learns from a dispatch that the broker gave back. What its agent has told
// itself has counted already.
func (e *Engine) cameBack(now time.Time, a *agent, t, before *openTask, ev *coordinator.TaskReturned) {
	if before != nil {
		t.blamed, t.taught = before.blamed, before.taught
	}
	if a == nil || before == nil || before.attempt != ev.Attempt || before.returning {
		return
	}
	switch {
	case ev.Cause == coordinator.ReturnDeliveryLimit:
		e.failedAt(now, a, before, learning.Outcome{Attribution: learning.AgentFault})
		e.blame(now, a, before)
	case ev.Cause == coordinator.ReturnTakenBack, !a.leftAlone():
		e.excuse(before)
	default: // it refused, or did not take it in time
		e.blame(now, a, before)
	}
	t.blamed, t.taught = before.blamed, before.taught
}

// failedAt learns that the task has failed at the agent, and remembers it: it may turn
// out that it was the task.
func (e *Engine) failedAt(now time.Time, a *agent, t *openTask, o learning.Outcome) {
	e.learnt(now, a, t, o)
	t.taught = with(t.taught, a.spec.ID)
}
