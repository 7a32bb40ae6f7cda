package state

import (
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/engine/internal/fleet"
	"taskbus/coordinator/learning"
)

// Kind is what is learnt of a task type. Types that no route names may be any text, and share one.
func (s *State) Kind(taskType string) *learning.Type {
	if _, routed := s.Policy.Routes[taskType]; !routed {
		taskType = ""
	}
	return s.Learner.Type(taskType)
}

// SetLearning changes how quickly outcomes count and are forgotten. What was learnt before is preserved.
func (s *State) SetLearning(l coordinator.Learning) {
	settings := learning.Settings{
		Prior: l.Prior, Weight: l.PriorWeight, HalfLife: l.HalfLife, HalfLifeOutcomes: l.HalfLifeOutcomes,
	}
	switch {
	case s.Learner == nil:
		s.Learner = learning.New(settings, 0)
	case !s.Learner.Follows(settings):
		state := s.Learner.Export(func(i int) coordinator.AgentID { return s.Fleet.Agents[i].Spec.ID })
		s.Learner = learning.New(settings, len(s.Fleet.Agents))
		_ = s.Learner.Import(state, s.Fleet.Number) // it was exported a moment ago
	}
}

// RecordOutcome counts how a dispatch ended in the track record of its agent.
func (s *State) RecordOutcome(now time.Time, a *Agent, t *Task, o learning.Outcome) {
	if a.Number < 0 {
		return
	}
	if o.Attribution.Counts() {
		if t.Lot.Observe(&a.Bidding, o.Duration, o.Attribution == learning.Succeeded) && s.Recorder.On {
			s.Commit(a.Bidding.Record()) // it had won the task by a bid
		}
	}
	kind := s.Kind(t.Task.Type)
	if s.Recorder.On && o.Attribution.Counts() {
		s.Commit(&coordinator.Learnt{
			Agent: a.Spec.ID, Type: kind.Name(), Attribution: attributions[o.Attribution],
			At: now, Duration: o.Duration, CostUSD: o.CostUSD,
		})
	}
	s.observed(now, a, kind, o)
}

// observed counts an outcome, of this leader or of the one that it follows.
func (s *State) observed(at time.Time, a *Agent, kind *learning.Type, o learning.Outcome) {
	if o.Attribution == learning.Succeeded {
		a.Capacity.Done(at)
	}
	s.Learner.Observe(at, a.Number, kind, o)
	if o.CostUSD > 0 {
		a.MeanCost, _ = s.Learner.Cost(a.Number)
	}
	s.Fleet.Refresh(a)
}

// forgiven takes one fault of an agent back.
func (s *State) forgiven(r *coordinator.Forgiven) {
	if a := s.Fleet.ByID[r.Agent]; a != nil {
		s.Learner.Forgive(a.Number, s.Learner.Type(r.Type), r.At)
	}
}

// FreeIn is when the first slot of a full agent is expected to be free: as soon as
// the first of its tasks has taken as long as such tasks take with it. One that has
// taken longer already is expected to take a tenth of that more. 0: not known.
func (s *State) FreeIn(now time.Time, a *Agent) time.Duration {
	var first time.Duration
	for _, t := range a.Open {
		if t.Over || t.Settled.IsZero() {
			continue
		}
		usual := fleet.DurationOf(s.Learner.Standing(a.Number, s.Kind(t.Task.Type)).Duration)
		if usual <= 0 {
			continue
		}
		if left := max(usual-now.Sub(t.Settled), usual/10); first == 0 || left < first {
			first = left
		}
	}
	return first
}

// TrackRecord is that of an agent over all types (see learning.Record), with the success rate that
// agents.yaml states in the place of what was learnt, as choices have it.
func (s *State) TrackRecord(a *Agent) (success, outcomes float64, mean time.Duration) {
	success, outcomes, mean = s.Learner.Record(a.Number)
	if a.Spec.SuccessStated {
		success = a.Spec.SuccessRate
	}
	return success, outcomes, mean
}
