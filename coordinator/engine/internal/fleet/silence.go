package fleet

import (
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/agentset"
)

// What follows from reports, and from their absence.

// Reported returns what follows from a report of the agent, once Accept has taken it over and the kernel has applied
// what it says of dispatches. That the agent may have room, if the report counts, the kernel knows.
func (f *Fleet[T, A]) Reported(now time.Time, m A, ev *coordinator.AgentReported, kind VerdictKind) []Change[A] {
	f.begin()
	a, r := m.Core(), &ev.Report
	switch kind {
	case Refused:
		f.refuse(r.Agent, coordinator.StatusOutOfOrder)
		return f.changes
	case Ignored:
		return nil
	case Alive: // that says nothing of its state: one that reported that it is offline is so until it reports otherwise
		if a.State == coordinator.AgentStale {
			f.enter(now, m, coordinator.AgentOnline)
		}
	case Accepted:
		switch {
		case r.Status == coordinator.StatusOffline:
			if ev.Live || r.Timestamp.After(a.ConsumedTold) {
				f.consumed(m, false) // it may come back as one that fetches
			}
			a.seenConsumer, a.Unattended, a.lookedAt = false, false, time.Time{}
			f.enter(now, m, coordinator.AgentOffline)
		case a.State != coordinator.AgentGone: // that one's heart beats, but its hands are tied
			f.enter(now, m, coordinator.AgentOnline)
		}
		f.announcedAnew(m, ev)
		f.compareQueue(a)
	}
	f.watch(now, m)
	f.Refresh(m)
	return f.changes
}

// compareQueue reports an agent of agents.yaml that consumes another queue.
func (f *Fleet[T, A]) compareQueue(a *Account[T]) {
	announced := a.Report.Queue
	if announced == "" || announced == a.Spec.Queue {
		a.otherQueue = ""
		return
	}
	if a.otherQueue != announced && !f.HasJoined(a.Spec.ID) {
		a.otherQueue = announced
		f.emit(coordinator.OtherQueue{Agent: a.Spec.ID, Announced: announced, Listed: a.Spec.Queue})
	}
}

// Awaited returns what follows for the agent when reports can be heard again: one that was suspected is trusted.
func (f *Fleet[T, A]) Awaited(now time.Time, m A) []Change[A] {
	f.begin()
	f.watch(now, m)
	f.add(Wake, m)
	return f.changes
}

// watch ensures that silence makes the agent suspect, then stale, but not within the grace of a session that has
// just opened. Only an agent that is online can become either. A timer that is set already is left as it is: when
// it is due the question is asked again, and that costs less than a timer moved with every heartbeat.
func (f *Fleet[T, A]) watch(now time.Time, m A) {
	a := m.Core()
	if a.State != coordinator.AgentOnline {
		return
	}
	next := f.silentAt(now, a)
	if !next.After(now) {
		f.enter(now, m, coordinator.AgentStale)
		return
	}
	suspect := false
	if n := f.settings.SuspectIntervals; n > 0 {
		silent := a.Heard.Add(time.Duration(n) * a.Spec.HealthCheckInterval)
		at := f.spared(now, silent)
		if at.After(now) && at.Before(next) {
			next = at
		}
		// One that was suspected when an alarm began is so until it is over.
		suspect = !at.After(now) || f.held && a.Suspect && !silent.After(now)
	}
	if a.Suspect != suspect {
		a.Suspect = suspect
		f.Refresh(m)
	}
	if due := a.due[Silence]; due.IsZero() || next.Before(due) {
		f.set(m, Silence, next)
	}
}

// silentAt is when the agent will have been silent for too long.
func (f *Fleet[T, A]) silentAt(now time.Time, a *Account[T]) time.Time {
	return f.spared(now, a.Heard.Add(f.staleAfter(a)))
}

// Awaits reports whether one of the agents has not been heard since the session opened, or its consumer is not back,
// and is not known to be there or to have left.
func (f *Fleet[T, A]) Awaits(agents agentset.Set) bool {
	for i, m := range f.Agents {
		switch a := m.Core(); {
		case !agents.Has(i), a.State == coordinator.AgentOffline:
		case a.State == coordinator.AgentOnline && a.Unattended,
			a.State != coordinator.AgentOnline && a.Heard.Before(f.OpenedAt):
			return true
		}
	}
	return false
}

// AnyThere reports whether one of the agents is not absent.
func (f *Fleet[T, A]) AnyThere(agents agentset.Set) bool {
	for i, why := range f.Causes {
		if agents.Has(i) && !why.Absent() {
			return true
		}
	}
	return false
}

// ReportsNearer compares the times that agents wrote into their latest reports with two times. It returns how many
// agents have reported, and for how many of them the time is nearer to other than to now. Relayed reports do not count.
func (f *Fleet[T, A]) ReportsNearer(now, other time.Time) (heard, nearer int) {
	for _, m := range f.Agents {
		a := m.Core()
		if a.Heard.IsZero() || a.Report.Relayed {
			continue
		}
		if heard++; a.Report.Timestamp.Sub(other).Abs() < a.Report.Timestamp.Sub(now).Abs() {
			nearer++
		}
	}
	return heard, nearer
}
