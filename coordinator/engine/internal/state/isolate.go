package state

import (
	"slices"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/agentset"
)

// MustBeAlone reports whether the task is suspected, and one more failure may end it.
func (s *State) MustBeAlone(t *Task) bool {
	n, limits := len(t.Suspected), &s.Policy.Settings
	return n > 0 && n+len(t.Failed) >= max(1, min(limits.PoisonedAfter, limits.MaxRetryAttempts)-1)
}

// lostAt notes that the agent went down with the task in hand. Was there nothing beside it, so
// it has failed there, and wherever it was suspected; else it is suspected. It reports whether
// there was nothing beside it.
func (t *Task) lostAt(a *Agent, before *Task, ev *coordinator.TaskReturned) (alone bool) {
	switch {
	case a == nil, before != nil && before.Apart:
		alone = true // nothing is known of it, or it had nothing else of ours
	case before != nil && before.On():
		alone = len(a.Open) == 1 && a.Lost == 0
	default: // its reports have spoken for the dispatch
		alone = len(a.Open) == 0 && a.Lost == 0 && a.Report.Active <= 1
	}
	if a != nil {
		a.Lost++
	}
	if !alone {
		t.Suspected = append(slices.Clip(t.Suspected), ev.Agent) // there may be only one
		return false
	}
	t.Failed = With(With(t.Failed, t.Suspected...), ev.Agent)
	t.Tried = With(t.Tried, t.Suspected...) // one that may have had it once more has had it
	t.Suspected = nil
	return true
}

// hasDoneAlone reports whether an agent that reports no more than how many tasks it runs, and that has this one to
// itself, has none in hand any more: an idle agent takes what waits in its queue within an interval. made is when
// it reported that.
func (s *State) hasDoneAlone(t *Task, made time.Time) bool {
	a := t.Agent
	return t.Apart && !s.Following && t.Stage == Leased && !a.Tracked && !t.Over && !t.Unanswered &&
		a.Report.Active == 0 && made.Sub(t.Settled) >= a.Spec.HealthCheckInterval
}

// FreeFor are the agents that may be given the task now, if they are feasible for it.
func (s *State) FreeFor(t *Task) agentset.Set {
	if t.Alone {
		return s.Fleet.Vacant
	}
	return s.Fleet.Ready
}
