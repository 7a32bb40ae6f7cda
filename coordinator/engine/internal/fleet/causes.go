package fleet

import "taskbus/coordinator"

// presence returns why the agent is not there, or may have no work at all.
func (a *Agent) presence() coordinator.Ineligibility {
	switch a.State {
	case coordinator.AgentNeverSeen:
		return coordinator.NotSeen
	case coordinator.AgentOffline:
		return coordinator.WentOffline
	case coordinator.AgentStale:
		return coordinator.WentStale
	case coordinator.AgentGone:
		return coordinator.WentGone
	}
	switch {
	case a.Unattended:
		return coordinator.WentGone
	case a.Cordoned:
		return coordinator.Cordoned
	case a.unsteady:
		return coordinator.Unsteady
	case a.Suspect:
		return coordinator.Suspect
	case a.Alone > 0 || a.kept:
		return coordinator.KeptFree
	}
	return coordinator.Eligible
}

// busy returns why an agent that is there, and may have work, gets none at the moment; free is how many of its slots
// are. One that claims its tasks knows itself how busy it is.
func (a *Agent) busy(s *coordinator.Settings, free int) coordinator.Ineligibility {
	switch pulls := a.pulls(); {
	case !pulls && a.Report.Status == coordinator.StatusBusy && !s.BusyIsEligible:
		return coordinator.NotReady
	case free == 0:
		return coordinator.Full
	case !pulls && a.reportedLoad() >= s.MaxLoad:
		return coordinator.Overloaded
	case !pulls && s.RefuseBacklogged && a.backlogged():
		return coordinator.Backlogged
	case a.QueueMissing:
		return coordinator.QueueMissing
	case a.QueueFull:
		return coordinator.QueueFull
	case pulls:
		return coordinator.Pulling
	}
	return coordinator.Eligible
}

// cause returns why the agent may not have work, whatever the task: the first that holds, in the order of the constants
// of coordinator.Ineligibility, but for KeptFree.
func (a *Agent) cause(s *coordinator.Settings, free int) coordinator.Ineligibility {
	if why := a.presence(); why != coordinator.Eligible {
		return why
	}
	return a.busy(s, free)
}

// pulls reports whether the agent claims its tasks.
func (a *Agent) pulls() bool { return a.Spec.Pull != coordinator.PullOff }

// PresenceOf returns why the agent is not there, or may have no work at all.
func (f *Fleet[T, A]) PresenceOf(m A) coordinator.Ineligibility {
	return m.Core().presence()
}

// Eligibility returns why the agent may not have work, whatever the task.
func (f *Fleet[T, A]) Eligibility(m A) coordinator.Ineligibility {
	a := m.Core()
	return a.cause(&f.settings, a.Free())
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
		why = a.busy(s, a.Free())
	}
	return why == coordinator.Eligible || why == coordinator.Pulling
}
