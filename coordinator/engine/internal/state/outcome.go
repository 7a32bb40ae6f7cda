package state

import (
	"slices"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/engine/internal/ejection"
)

// FailedAt counts that the task has failed at the agent, and keeps that: the cause may turn out to be the task.
func (s *State) FailedAt(now time.Time, a *Agent, t *Task, o coordinator.Learnt) {
	s.RecordOutcome(now, a, t, o)
	t.LearnerFaults = With(t.LearnerFaults, a.Spec.ID)
}

// BreakerView is the dispatch that the task is of as breakers see it.
func (s *State) BreakerView(a *Agent, t *Task) ejection.Dispatch {
	return ejection.Dispatch{Agent: a.Number, Task: t.Task.ID, Required: s.capabilitiesOf(t), Generation: t.Generation,
		Probe: t.Probe}
}

// capabilitiesOf lists what the task requires, whether or not it has been resolved.
func (s *State) capabilitiesOf(t *Task) []string {
	if t.Needs.Class != nil {
		return t.Needs.Required
	}
	return coordinator.MergeSorted(s.Policy.Routes[t.Task.Type].Required, t.Task.Required)
}

// RecordSuccess counts the dispatch for its agent.
func (s *State) RecordSuccess(now time.Time, a *Agent, t *Task) {
	s.ApplyBreakers(s.Ejections.Success(now, s.BreakerView(a, t)))
	t.Probe = false
}

// RecordFault counts the dispatch against its agent.
func (s *State) RecordFault(now time.Time, a *Agent, t *Task) {
	d := s.BreakerView(a, t)
	t.Probe = false
	if s.Ejections.Counts(&d) {
		t.BreakerFaults = With(t.BreakerFaults, a.Spec.ID)
		s.ApplyBreakers(s.Ejections.Fault(now, d, t.faultKey(), s.Learner.Failing(a.Number, s.Kind(t.Task.Type))))
	}
}

// faultKey is what a fault is counted for: all tasks of a batch, which one handler has
// in hand together, are one.
func (t *Task) faultKey() coordinator.TaskID {
	if t.Batch != "" {
		return coordinator.TaskID(t.Batch)
	}
	return t.Task.ID
}

// ReleaseProbe ends a dispatch that counts neither for nor against its agent.
func (s *State) ReleaseProbe(t *Task) {
	if t.Probe && !s.Ejections.Off() {
		s.ApplyBreakers(s.Ejections.Release(s.Now, s.BreakerView(t.Agent, t)))
	}
	t.Probe = false
}

// Forgive takes back what was counted against agents of which each has failed with the
// same task: it is the task that fails.
func (s *State) Forgive(now time.Time, t *Task) {
	for _, id := range t.LearnerFaults {
		if s.Fleet.ByID[id] != nil {
			r := &coordinator.Forgiven{Agent: id, Type: s.Kind(t.Task.Type).Name(), At: now}
			s.forgiven(r)
			s.Commit(r)
		}
	}
	for _, id := range t.BreakerFaults {
		s.ForgiveFault(now, t, id)
	}
	t.LearnerFaults = nil
}

// ForgiveFault takes back the fault that the task was for one agent's breakers.
func (s *State) ForgiveFault(now time.Time, t *Task, id coordinator.AgentID) {
	if !slices.Contains(t.BreakerFaults, id) {
		return
	}
	t.BreakerFaults = Without(t.BreakerFaults, id)
	if a := s.Fleet.ByID[id]; a != nil {
		s.ApplyBreakers(s.Ejections.Forgive(now, a.Number, s.capabilitiesOf(t), t.faultKey()))
	}
}

// ApplyBreakers carries out what has changed of which agents are ejected.
func (s *State) ApplyBreakers(c *ejection.Changes) {
	for _, f := range c.Announced {
		s.Emit(f)
	}
	if len(c.Capabilities) > 0 {
		for k := range s.Pending.All() {
			if c.Concern(k.Required) {
				k.Usable = s.Ejections.Usable(k.Criteria.Set, k.Required)
			}
		}
	}
	s.ScheduleBreakers()
	for _, r := range c.Records {
		s.Commit(r)
	}
}

// ScheduleBreakers sets the timer to when an agent may be tried again, or a breaker forgets. A standby has none: the
// leader records that.
func (s *State) ScheduleBreakers() {
	switch at, ok := s.Ejections.NextDeadline(); {
	case !ok, s.Following:
		s.Timers.Cancel(&s.BreakerDue)
	case s.BreakerDue.Index < 0, !s.BreakerDue.At.Equal(at):
		s.Timers.Schedule(&s.BreakerDue, at)
	}
}
