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

// RecordOutcome counts how a dispatch ended in the track record of its agent: r says how, how long it took and what it
// cost.
func (s *State) RecordOutcome(now time.Time, a *Agent, t *Task, r coordinator.Learnt) {
	if a.Number < 0 {
		return
	}
	if t.Lot.Observe(&a.Bidding, r.Duration, r.Attribution == coordinator.AttributedSuccess) && s.Recorder.On {
		s.Commit(a.Bidding.Record()) // it had won the task by a bid
	}
	r.Agent, r.Type, r.At = a.Spec.ID, s.Kind(t.Task.Type).Name(), now
	if s.learn(&r) && s.Recorder.On {
		record := r // only what is recorded outlives the call
		s.Commit(&record)
	}
}

// learn applies an outcome, of this leader or of the one that it follows; it reports whether there is such an agent.
func (s *State) learn(r *coordinator.Learnt) bool {
	a := s.Fleet.ByID[r.Agent]
	if a == nil {
		return false
	}
	s.Learner.NotAfter(r.At) // what is learnt in one term is in order
	a.Capacity.NotAfter(r.At)
	if r.Attribution == coordinator.AttributedSuccess {
		a.Capacity.Done(r.At)
	}
	s.Learner.Observe(r.At, a.Number, s.Learner.Type(r.Type), learning.Outcome{
		Attribution: learning.Attribution(r.Attribution), Duration: r.Duration, CostUSD: r.CostUSD,
	})
	if r.CostUSD > 0 {
		a.MeanCost, _ = s.Learner.Cost(a.Number)
	}
	s.Fleet.Refresh(a)
	return true
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
