package engine

import (
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/engine/internal/choice"
	"taskbus/coordinator/engine/internal/ejection"
	"taskbus/coordinator/engine/internal/fleet"
	"taskbus/coordinator/learning"
)

// kind is the record of a task type. Types that no route names are any producer's
// invention and share one.
func (e *Engine) kind(taskType string) *learning.Type {
	if _, routed := e.policy.Routes[taskType]; !routed {
		taskType = ""
	}
	return e.learner.Type(taskType)
}

// believe takes over how quickly outcomes are believed and forgotten. What was
// learnt before is kept.
func (e *Engine) believe(s coordinator.Learning) {
	settings := learning.Settings{
		Prior: s.Prior, Weight: s.PriorWeight, HalfLife: s.HalfLife, HalfLifeOutcomes: s.HalfLifeOutcomes,
	}
	if e.learner == nil {
		e.learner, e.believes = learning.New(settings, 0), settings
	}
	if settings == e.believes {
		return
	}
	e.believes = settings
	state := e.learner.Export(func(i int) coordinator.AgentID { return e.fleet.Agents[i].Spec.ID })
	e.learner = learning.New(settings, len(e.fleet.Agents))
	_ = e.learner.Import(state, e.fleet.Number) // it was exported a moment ago
}

// learnt takes in how a dispatch ended at its agent.
func (e *Engine) learnt(now time.Time, a *agent, t *openTask, o learning.Outcome) {
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
// taken longer already is expected to take a tenth of that more. 0 when nobody can
// tell.
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

// renumbered tells those who know agents by their numbers that the fleet has changed.
func (e *Engine) renumbered() {
	e.learner.Renumber(len(e.fleet.Agents), e.fleet.Was)
	agents := make([]ejection.Agent, len(e.fleet.Agents))
	for i, a := range e.fleet.Agents {
		agents[i] = ejection.Agent{ID: a.Spec.ID, Capabilities: a.Spec.Capabilities, Online: a.State == coordinator.AgentOnline}
	}
	e.timers.cancel(&e.breakerDue)
	e.applyBreakers(e.ejections.Renumber(e.now, agents, e.fleet.Was))
	e.weigh()
	f := &e.fleet
	e.asking.Fleet = choice.Fleet{Views: f.Views, Stated: f.Stated, Causes: f.Causes, ByCause: &f.ByCause, Tally: &f.Tally,
		Index: f.Index, Learner: e.learner}
}

// shown is what an agent has shown over all types (see learning.Record), with the success rate that
// agents.yaml states in the place of what was learnt, as choices have it.
func (e *Engine) shown(a *agent) (success, outcomes float64, mean time.Duration) {
	success, outcomes, mean = e.learner.Record(a.Number)
	if a.Spec.SuccessStated {
		success = a.Spec.SuccessRate
	}
	return success, outcomes, mean
}
