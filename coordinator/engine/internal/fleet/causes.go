package fleet

import "taskbus/coordinator"

// causes are why an agent may not have work, whatever the task, in the order of the constants of
// coordinator.Ineligibility, but for KeptFree: the first that holds counts.
var causes = [...]struct {
	why   coordinator.Ineligibility
	holds func(*Agent, *coordinator.Settings) bool
}{
	{coordinator.NotSeen, func(a *Agent, _ *coordinator.Settings) bool { return a.State == coordinator.AgentNeverSeen }},
	{coordinator.WentOffline, func(a *Agent, _ *coordinator.Settings) bool { return a.State == coordinator.AgentOffline }},
	{coordinator.WentStale, func(a *Agent, _ *coordinator.Settings) bool { return a.State == coordinator.AgentStale }},
	{coordinator.WentGone, func(a *Agent, _ *coordinator.Settings) bool {
		return a.State == coordinator.AgentGone || a.Unattended
	}},
	{coordinator.Cordoned, func(a *Agent, _ *coordinator.Settings) bool { return a.Cordoned }},
	{coordinator.Unsteady, func(a *Agent, _ *coordinator.Settings) bool { return a.Unsteady }},
	{coordinator.Suspect, func(a *Agent, _ *coordinator.Settings) bool { return a.Suspect }},
	{coordinator.KeptFree, func(a *Agent, _ *coordinator.Settings) bool { return a.Alone > 0 || a.kept }},
	{coordinator.NotReady, func(a *Agent, s *coordinator.Settings) bool {
		return !a.pulls() && a.Report.Status == coordinator.StatusBusy && !s.BusyIsEligible
	}},
	{coordinator.Full, func(a *Agent, _ *coordinator.Settings) bool { return a.Free() == 0 }},
	{coordinator.Overloaded, func(a *Agent, s *coordinator.Settings) bool {
		return !a.pulls() && a.reportedLoad() >= s.MaxLoad
	}},
	{coordinator.Backlogged, func(a *Agent, s *coordinator.Settings) bool {
		return !a.pulls() && s.RefuseBacklogged && a.backlogged()
	}},
	{coordinator.QueueMissing, func(a *Agent, _ *coordinator.Settings) bool { return a.QueueMissing }},
	{coordinator.QueueFull, func(a *Agent, _ *coordinator.Settings) bool { return a.QueueFull }},
	{coordinator.Pulling, func(a *Agent, _ *coordinator.Settings) bool { return a.pulls() }},
}

// Rows of causes: those before ofOnline never hold for an agent that is online, keptFree is the last of those before
// ofPresence, by which an agent is not there or may have no work at all.
const (
	ofOnline   = 3
	ofPresence = 8
	keptFree   = ofPresence - 1
)

// pulls reports whether the agent claims its tasks: it knows itself how busy it is.
func (a *Agent) pulls() bool { return a.Spec.Pull != coordinator.PullOff }

// cause returns the first of causes, from one on and before another, that holds.
func (a *Agent) cause(s *coordinator.Settings, from, to int) coordinator.Ineligibility {
	if a.State == coordinator.AgentOnline {
		from = max(from, ofOnline)
	}
	rows := causes[from:to]
	for i := range rows {
		if rows[i].holds(a, s) {
			return rows[i].why
		}
	}
	return coordinator.Eligible
}

// PresenceOf returns why the agent is not there, or may have no work at all.
func (f *Fleet[T, A]) PresenceOf(m A) coordinator.Ineligibility {
	return m.Core().cause(&f.settings, 0, ofPresence)
}

// Eligibility returns why the agent may not have work, whatever the task.
func (f *Fleet[T, A]) Eligibility(m A) coordinator.Ineligibility {
	return m.Core().cause(&f.settings, 0, len(causes))
}

// IsVacant reports whether the agent has nothing in hand and could take a task, or claim one; why is what else keeps
// it from getting any.
func (f *Fleet[T, A]) IsVacant(m A, why coordinator.Ineligibility) bool {
	return m.Core().isVacant(&f.settings, why)
}

func (a *Account[T]) isVacant(s *coordinator.Settings, why coordinator.Ineligibility) bool {
	if len(a.Open) > 0 || a.InFlight() > 0 {
		return false
	}
	if why == coordinator.KeptFree {
		why = a.cause(s, keptFree+1, len(causes))
	}
	return why == coordinator.Eligible || why == coordinator.Pulling
}
