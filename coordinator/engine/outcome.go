package engine

import (
	"slices"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/engine/internal/ejection"
	"taskbus/coordinator/learning"
)

// The end of a dispatch counts twice: for how well agents do with tasks of a type
// (package learning), and for whether an agent is ejected from a capability (package
// ejection). The former counts work that was done or failed; the latter every fault,
// also work that an agent refuses or does not take: one that turns everything away
// looks idle, and would be asked first for ever. What is no try (see asksFreely) counts
// for neither.

// learnFrom counts the result that the agent has reported of its dispatch.
func (e *Engine) learnFrom(now time.Time, a *agent, t *openTask, r *coordinator.Result) {
	switch {
	case r.Outcome == coordinator.OutcomeSucceeded:
		took := r.Duration
		if took <= 0 && !t.Settled.IsZero() {
			took = now.Sub(t.Settled)
		}
		a.Capacity.Done(now)
		e.recordOutcome(now, a, t, succeeded(r, took))
		e.recordSuccess(now, a, t)
	case r.Outcome == coordinator.OutcomeRejected && r.RetryAfter > 0 && e.asksFreely(now, t):
		e.releaseProbe(t)
	case r.Outcome == coordinator.OutcomeFailed, r.Outcome == coordinator.OutcomeRejected && r.Attempted:
		e.failedAt(now, a, t, learning.Outcome{Attribution: learning.AgentFault, CostUSD: cost(r)})
		e.recordFault(now, a, t)
	case r.Outcome == coordinator.OutcomeRejected && a.LeftAlone(): // one that goes gives back what it has
		e.recordFault(now, a, t)
	default:
		e.releaseProbe(t)
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

// learnFromReturn counts a dispatch that the broker gave back, unless a result of its agent has counted already.
func (e *Engine) learnFromReturn(now time.Time, a *agent, t, before *openTask, ev *coordinator.TaskReturned) {
	if before != nil {
		t.breakerFaults, t.learnerFaults = before.breakerFaults, before.learnerFaults
	}
	if a == nil || before == nil || before.attempt != ev.Attempt || before.returning {
		return
	}
	switch {
	case ev.Cause == coordinator.ReturnDeliveryLimit:
		e.failedAt(now, a, before, learning.Outcome{Attribution: learning.AgentFault})
		e.recordFault(now, a, before)
	case ev.Cause == coordinator.ReturnTakenBack, !a.LeftAlone():
		e.releaseProbe(before)
	default: // it refused, or did not take it in time
		e.recordFault(now, a, before)
	}
	t.breakerFaults, t.learnerFaults = before.breakerFaults, before.learnerFaults
}

// failedAt counts that the task has failed at the agent, and keeps that: the cause may turn out to be the task.
func (e *Engine) failedAt(now time.Time, a *agent, t *openTask, o learning.Outcome) {
	e.recordOutcome(now, a, t, o)
	t.learnerFaults = with(t.learnerFaults, a.Spec.ID)
}

// breakerView is the dispatch that the task is of as breakers see it.
func (e *Engine) breakerView(a *agent, t *openTask) ejection.Dispatch {
	return ejection.Dispatch{Agent: a.Number, Task: t.task.ID, Required: e.capabilitiesOf(t), Generation: t.generation,
		Probe: t.probe}
}

// capabilitiesOf lists what the task requires, whether or not it has been resolved.
func (e *Engine) capabilitiesOf(t *openTask) []string {
	if t.needs.class != nil {
		return t.needs.required
	}
	return coordinator.MergeSorted(e.policy.Routes[t.task.Type].Required, t.task.Required)
}

// recordSuccess counts the dispatch for its agent.
func (e *Engine) recordSuccess(now time.Time, a *agent, t *openTask) {
	e.applyBreakers(e.ejections.Success(now, e.breakerView(a, t)))
	t.probe = false
}

// recordFault counts the dispatch against its agent.
func (e *Engine) recordFault(now time.Time, a *agent, t *openTask) {
	d := e.breakerView(a, t)
	t.probe = false
	if e.ejections.Counts(&d) {
		t.breakerFaults = with(t.breakerFaults, a.Spec.ID)
		e.applyBreakers(e.ejections.Fault(now, d, t.faultKey(), e.learner.Failing(a.Number, e.kind(t.task.Type))))
	}
}

// faultKey is what a fault is counted for: all tasks of a batch, which one handler has
// in hand together, are one.
func (t *openTask) faultKey() coordinator.TaskID {
	if t.batch != "" {
		return coordinator.TaskID(t.batch)
	}
	return t.task.ID
}

// releaseProbe ends a dispatch that counts neither for nor against its agent.
func (e *Engine) releaseProbe(t *openTask) {
	if t.probe && !e.ejections.Off() {
		e.applyBreakers(e.ejections.Release(e.now, e.breakerView(t.agent, t)))
		t.probe = false
	}
}

// forgive takes back what was counted against agents of which each has failed with the
// same task: it is the task that fails.
func (e *Engine) forgive(now time.Time, t *openTask) {
	for _, id := range t.learnerFaults {
		if a := e.fleet.ByID[id]; a != nil {
			kind := e.kind(t.task.Type)
			e.learner.Forgive(a.Number, kind, now)
			e.record(&coordinator.Forgiven{Agent: id, Type: kind.Name(), At: now})
		}
	}
	for _, id := range t.breakerFaults {
		e.forgiveFault(now, t, id)
	}
	t.learnerFaults = nil
}

// forgiveFault takes back the fault that the task was for one agent's breakers.
func (e *Engine) forgiveFault(now time.Time, t *openTask, id coordinator.AgentID) {
	if !slices.Contains(t.breakerFaults, id) {
		return
	}
	t.breakerFaults = without(t.breakerFaults, id)
	if a := e.fleet.ByID[id]; a != nil {
		e.applyBreakers(e.ejections.Forgive(now, a.Number, e.capabilitiesOf(t), t.faultKey()))
	}
}

// applyBreakers carries out what has changed of which agents are ejected.
func (e *Engine) applyBreakers(c *ejection.Changes) {
	for _, f := range c.Announced {
		e.emit(f)
	}
	if len(c.Capabilities) > 0 {
		for k := range e.pending.All() {
			if c.Concern(k.required) {
				k.Usable = e.ejections.Usable(k.criteria.Set, k.required)
			}
		}
	}
	switch at, ok := e.ejections.NextDeadline(); {
	case !ok:
		e.timers.cancel(&e.breakerDue)
	case e.breakerDue.index < 0, !e.breakerDue.at.Equal(at):
		e.timers.schedule(&e.breakerDue, at)
	}
	for _, r := range c.Records {
		e.record(r)
	}
}

// wakeTrusted lets waiting tasks go to agents that are not ejected any more. It is done
// when everything else that an event has brought is.
func (e *Engine) wakeTrusted(now time.Time) {
	for n, ok := e.ejections.NextTrusted(); ok; n, ok = e.ejections.NextTrusted() {
		a := e.fleet.Agents[n]
		e.wake(now, a)
		if a.seat.Waits() {
			e.claims.Changed()
		}
	}
}
