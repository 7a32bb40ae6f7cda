package engine

import (
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/engine/internal/state"
)

// The end of a dispatch counts twice: for how well agents do with tasks of a type
// (package learning), and for whether an agent is ejected from a capability (package
// ejection). The former counts work that was done or failed; the latter every fault,
// also work that an agent refuses or does not take: one that turns everything away
// looks idle, and would be asked first for ever. What is no try (see HoldsOffFreely) counts
// for neither.

// learnFrom counts the result that the agent has reported of its dispatch.
func (k *kernel) learnFrom(now time.Time, a *state.Agent, t *state.Task, r *coordinator.Result) {
	switch {
	case r.Outcome == coordinator.OutcomeSucceeded:
		took := r.Duration
		if took <= 0 && !t.Settled.IsZero() {
			took = now.Sub(t.Settled)
		}
		k.RecordOutcome(now, a, t, succeeded(r, took))
		k.RecordSuccess(now, a, t)
	case r.Outcome == coordinator.OutcomeRejected && r.RetryAfter > 0 && k.HoldsOffFreely(now, t):
		k.ReleaseProbe(t)
	case r.Outcome == coordinator.OutcomeFailed, r.Outcome == coordinator.OutcomeRejected && r.Attempted:
		k.FailedAt(now, a, t, coordinator.Learnt{Attribution: coordinator.AttributedAgentFault, CostUSD: cost(r)})
		k.RecordFault(now, a, t)
	case r.Outcome == coordinator.OutcomeRejected && a.LeftAlone(): // one that goes gives back what it has
		k.RecordFault(now, a, t)
	default:
		k.ReleaseProbe(t)
	}
}

// succeeded is the outcome of work that was done, in so much time.
func succeeded(r *coordinator.Result, took time.Duration) coordinator.Learnt {
	return coordinator.Learnt{Attribution: coordinator.AttributedSuccess, Duration: took, CostUSD: cost(r)}
}

func cost(r *coordinator.Result) float64 {
	if r.Usage == nil {
		return 0
	}
	return r.Usage.CostUSD
}

// learnFromReturn counts a dispatch that the broker gave back, unless a result of its agent has counted already.
func (k *kernel) learnFromReturn(now time.Time, a *state.Agent, t, before *state.Task, ev *coordinator.TaskReturned) {
	if before != nil {
		t.BreakerFaults, t.LearnerFaults = before.BreakerFaults, before.LearnerFaults
	}
	if a == nil || before == nil || before.Attempt != ev.Attempt || before.Returning {
		return
	}
	switch {
	case ev.Cause == coordinator.ReturnDeliveryLimit:
		k.FailedAt(now, a, before, coordinator.Learnt{Attribution: coordinator.AttributedAgentFault})
		k.RecordFault(now, a, before)
	case ev.Cause == coordinator.ReturnTakenBack, !a.LeftAlone():
		k.ReleaseProbe(before)
	default: // it refused, or did not take it in time
		k.RecordFault(now, a, before)
	}
	t.BreakerFaults, t.LearnerFaults = before.BreakerFaults, before.LearnerFaults
}

// wakeTrusted lets waiting tasks go to agents that are not ejected any more. It is done
// when everything else that an event has brought is.
func (k *kernel) wakeTrusted(now time.Time) {
	for n, ok := k.Ejections.NextTrusted(); ok; n, ok = k.Ejections.NextTrusted() {
		a := k.Fleet.Agents[n]
		k.wake(now, a)
		if a.Seat.Waits() {
			k.Claims.Changed()
		}
	}
}
