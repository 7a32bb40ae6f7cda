package engine

import (
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/engine/internal/fleet"
)

// reported applies one heartbeat (see fleet.Accept).
func (e *Engine) reported(now time.Time, ev coordinator.AgentReported) {
	r := ev.Report
	a := e.fleet.ByID[r.Agent]
	if a == nil {
		e.announced(now, ev)
		return
	}
	v := e.fleet.Accept(now, a, &ev)
	if v.Shared > 0 {
		e.emit(coordinator.AgentShared{Agent: a.Spec.ID, Instances: v.Shared})
	}
	switch v.Kind {
	case fleet.Refused:
		e.refuseStatus(r.Agent, coordinator.StatusOutOfOrder)
		return
	case fleet.Ignored:
		return
	case fleet.Alive:
		e.relayed(now, a)
		return
	}
	a.bidding.Unreachable = false
	if r.ActiveTasks != nil {
		e.track(a)
	}
	e.audit(now, a, v.Made)

	switch {
	case r.Status == coordinator.StatusOffline:
		if ev.Live || r.Timestamp.After(a.ConsumedTold) {
			e.consumed(a, false) // it may come back as one that fetches
		}
		a.SeenConsumer, a.Unattended, a.LookedAt = false, false, time.Time{}
		e.enter(now, a, coordinator.AgentOffline)
	case a.State != coordinator.AgentGone: // that one's heart beats, but its hands are tied
		e.enter(now, a, coordinator.AgentOnline)
	}
	e.announcedAnew(now, a, ev)
	e.compareQueue(a)
	e.watch(now, a)
	e.fleet.Refresh(a)
	e.wake(now, a)
}

// relayed applies what an agent that reports for itself has sent to a coordinator over HTTP: its capacity, and that
// it is alive. It does not report its state: an agent that reported that it is offline is offline until it reports
// otherwise.
func (e *Engine) relayed(now time.Time, a *agent) {
	if a.State == coordinator.AgentStale {
		e.enter(now, a, coordinator.AgentOnline)
	}
	e.watch(now, a)
	e.fleet.Refresh(a)
	e.wake(now, a)
}

// compareQueue reports an agent of agents.yaml that consumes another queue.
func (e *Engine) compareQueue(a *agent) {
	announced := a.Report.Queue
	if announced == "" || announced == a.Spec.Queue {
		a.OtherQueue = ""
		return
	}
	if a.OtherQueue != announced && !e.fleet.HasJoined(a.Spec.ID) {
		a.OtherQueue = announced
		e.emit(coordinator.OtherQueue{Agent: a.Spec.ID, Announced: announced, Listed: a.Spec.Queue})
	}
}

// watch ensures that silence makes the agent suspect, then stale, but not within the grace of a session that has
// just opened. Only an agent that is online can become either. A timer that is set already is left as it is: when
// it is due the question is asked again, and that costs less than a timer moved with every heartbeat.
func (e *Engine) watch(now time.Time, a *agent) {
	if a.State != coordinator.AgentOnline {
		return
	}
	next := e.silentAt(a)
	if !next.After(now) {
		e.enter(now, a, coordinator.AgentStale)
		return
	}
	if n := e.policy.Settings.SuspectIntervals; n > 0 {
		silent := a.Heard.Add(time.Duration(n) * a.Spec.HealthCheckInterval)
		at := e.spared(silent)
		if at.After(now) {
			next = earlier(next, at)
		}
		// One that was suspected when an alarm began is so until it is over.
		e.suspect(a, !at.After(now) || e.stall.held && a.Suspect && !silent.After(now))
	} else {
		e.suspect(a, false)
	}
	if a.stale.index < 0 || next.Before(a.stale.at) {
		e.timers.schedule(&a.stale, next)
	}
}

// suspect notes whether the agent has been silent for a while.
func (e *Engine) suspect(a *agent, silent bool) {
	if a.Suspect != silent {
		a.Suspect = silent
		e.fleet.Refresh(a)
	}
}

// silentAt is when the agent will have been silent for too long.
func (e *Engine) silentAt(a *agent) time.Time { return e.spared(a.Heard.Add(e.fleet.StaleAfter(a))) }

// spared moves a moment out of the time in which no agent can be heard, and out of the one after it in which agents
// are awaited.
func (e *Engine) spared(at time.Time) time.Time {
	at = later(at, e.stall.tellBy)
	if e.stall.held {
		at = later(at, e.now.Add(leaseRetry))
	}
	return at
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// refuseStatus announces that a report changed nothing, marking the first of a kind.
func (e *Engine) refuseStatus(id coordinator.AgentID, why coordinator.StatusRefusal) {
	e.emit(coordinator.StatusRefused{Agent: id, Refusal: why, First: e.fleet.FirstRefusal(id, why)})
}

// ReportsNearer counts the agents whose latest report of their own was made, by their clocks, at a time
// nearer to other than to now, and all that have made one.
func (e *Engine) ReportsNearer(now, other time.Time) (heard, nearer int) {
	for _, a := range e.fleet.Agents {
		if a.Heard.IsZero() || a.Report.Relayed {
			continue
		}
		if heard++; a.Report.Timestamp.Sub(other).Abs() < a.Report.Timestamp.Sub(now).Abs() {
			nearer++
		}
	}
	return heard, nearer
}
