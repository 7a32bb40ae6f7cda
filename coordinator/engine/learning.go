package engine

import (
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/engine/internal/fleet"
	"taskbus/coordinator/learning"
)

// kind is what is learnt of a task type. Types that no route names may be any text, and share one.
func (e *Engine) kind(taskType string) *learning.Type {
	if _, routed := e.policy.Routes[taskType]; !routed {
		taskType = ""
	}
	return e.learner.Type(taskType)
}

// setLearning changes how quickly outcomes count and are forgotten. What was learnt before is preserved.
func (e *Engine) setLearning(s coordinator.Learning) {
	settings := learning.Settings{
		Prior: s.Prior, Weight: s.PriorWeight, HalfLife: s.HalfLife, HalfLifeOutcomes: s.HalfLifeOutcomes,
	}
	switch {
	case e.learner == nil:
		e.learner = learning.New(settings, 0)
	case !e.learner.Follows(settings):
		state := e.learner.Export(func(i int) coordinator.AgentID { return e.fleet.Agents[i].Spec.ID })
		e.learner = learning.New(settings, len(e.fleet.Agents))
		_ = e.learner.Import(state, e.fleet.Number) // it was exported a moment ago
	}
}

// recordOutcome counts how a dispatch ended in the track record of its agent.
func (e *Engine) recordOutcome(now time.Time, a *agent, t *openTask, o learning.Outcome) {
	if a.Number < 0 {
		return
	}
	if o.Attribution.Counts() {
		e.calibrate(t, a, o.Duration, o.Attribution == learning.Succeeded)
	}
	kind := e.kind(t.task.Type)
	e.learner.Observe(now, a.Number, kind, o)
	e.recordLearnt(now, a, kind, o)
	if o.CostUSD > 0 {
		a.MeanCost, _ = e.learner.Cost(a.Number)
	}
	e.fleet.Refresh(a)
}

// freeIn is when the first slot of a full agent is expected to be free: as soon as
// the first of its tasks has taken as long as such tasks take with it. One that has
// taken longer already is expected to take a tenth of that more. 0: not known.
func (e *Engine) freeIn(now time.Time, a *agent) time.Duration {
	var first time.Duration
	for _, t := range a.Open {
		if t.Over || t.Settled.IsZero() {
			continue
		}
		usual := fleet.DurationOf(e.learner.Standing(a.Number, e.kind(t.task.Type)).Duration)
		if usual <= 0 {
			continue
		}
		if left := max(usual-now.Sub(t.Settled), usual/10); first == 0 || left < first {
			first = left
		}
	}
	return first
}

// trackRecord is that of an agent over all types (see learning.Record), with the success rate that
// agents.yaml states in the place of what was learnt, as choices have it.
func (e *Engine) trackRecord(a *agent) (success, outcomes float64, mean time.Duration) {
	success, outcomes, mean = e.learner.Record(a.Number)
	if a.Spec.SuccessStated {
		success = a.Spec.SuccessRate
	}
	return success, outcomes, mean
}
