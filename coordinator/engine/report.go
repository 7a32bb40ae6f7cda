package engine

import (
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/engine/internal/fleet"
)

// reported applies one heartbeat.
//
// A report with an older timestamp than the newest accepted is out of order or
// replayed and changes nothing (of two with the same timestamp, the later in the
// stream is the newer), with one exception: when nothing newer has
// arrived for two health intervals the agent's clock was set back, and refusing
// would silence it until the clock catches up.
func (e *Engine) reported(now time.Time, ev coordinator.AgentReported) {
	r := ev.Report
	a := e.fleet.ByID[r.Agent]
	if a == nil {
		e.announced(now, ev)
		return
	}
	if r.Relayed {
		if !ev.Live && !r.Timestamp.After(a.RelayedAt) {
			return // a new session reads the stream's past again
		}
		a.RelayedAt = r.Timestamp
		if !a.Heard.IsZero() && !a.Report.Relayed {
			if ev.Live {
				a.Outlive(now, false)
			}
			e.relayed(now, a, &r)
			return
		}
	}
	if e.hearInstance(now, a, &ev) {
		return
	}
	// The clocks of an agent and of the coordinator that relays for it are two: the
	// agent's first report of its own is new, whatever its timestamp.
	own := !r.Relayed && a.Report.Relayed
	if own {
		a.Clock = fleet.Clock{}
	}
	if !a.Heard.IsZero() && !own {
		age := r.Timestamp.Compare(a.Report.Timestamp)
		if !ev.Live && age <= 0 {
			return // a new session reads the stream's past again: nothing new
		}
		if age < 0 {
			if now.Sub(a.Heard) <= 2*a.Spec.HealthCheckInterval {
				e.refuseStatus(r.Agent, coordinator.StatusOutOfOrder)
				return
			}
			a.Clock = fleet.Clock{}
		}
	}
	if ev.Live && !r.Relayed {
		a.Clock.Observe(now, r.Timestamp)
	}
	again := !own && ev.Live && r.Timestamp.Equal(a.Report.Timestamp)
	a.Knows = r.Timestamp
	if again && a.Clock.Known && !r.Relayed {
		// A clock that stands, or is coarse, does not say when the report was made: it came
		// just now. Else every end since would be remembered for good.
		a.Knows = now.Add(-a.Clock.Offset)
	}
	a.Report, a.Heard, a.bidding.Unreachable = r, now, false
	a.Beat = now
	if !ev.Live && !r.Relayed { // read from the past: when that was only its sender says
		a.Beat = earlier(now, r.Timestamp)
	}
	a.HeardOf(now, &r)
	if r.ActiveTasks == nil && a.Listed != nil {
		a.Tracked = false // another program speaks for it now, one that may send no results
	}
	a.List(r.ActiveTasks)
	if r.ActiveTasks != nil {
		e.track(a)
	}
	var made time.Time
	switch { // else nobody can tell what the report knew of
	case r.Relayed:
		made = r.Timestamp // a coordinator's
	case a.Clock.Known:
		made = a.Clock.Ours(r.Timestamp)
	}
	if ev.Live {
		a.Outlive(now, true)
	}
	e.audit(now, a, made)
	a.LookForStrays(now)
	a.Measure(now)

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

// relayed applies what an agent that reports for itself has told a coordinator over
// HTTP: its capacity, and that it is alive. It is no word about its state: one that
// said that it is offline is, until it says otherwise.
func (e *Engine) relayed(now time.Time, a *agent, r *coordinator.AgentReport) {
	a.HeardOf(now, r)
	a.Heard, a.Beat = now, now
	a.Measure(now)
	if a.State == coordinator.AgentStale {
		e.enter(now, a, coordinator.AgentOnline)
	}
	e.watch(now, a)
	e.fleet.Refresh(a)
	e.wake(now, a)
}

// compareQueue tells of an agent of agents.yaml that consumes another queue.
func (e *Engine) compareQueue(a *agent) {
	announced := a.Report.Queue
	if announced == "" || announced == a.Spec.Queue {
		a.OtherQueue = ""
		return
	}
	if a.OtherQueue != announced && !e.joining.has(a.Spec.ID) {
		a.OtherQueue = announced
		e.emit(coordinator.OtherQueue{Agent: a.Spec.ID, Announced: announced, Listed: a.Spec.Queue})
	}
}

// watch sees to it that silence makes the agent suspect, then stale, but not within
// the grace of a session that has just opened. Only who is online can become
// either. A timer that is set already is left as it is: when it is due the question
// is asked again, and that costs less than a timer moved with every heartbeat.
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

// staleAfter is how long the agent may be silent.
func (e *Engine) staleAfter(a *agent) time.Duration {
	if n := e.policy.Settings.DeadIntervals; n > 0 {
		return time.Duration(n) * a.Spec.HealthCheckInterval
	}
	return e.policy.Settings.StaleAfter
}

// silentAt is when the agent will have been silent for too long.
func (e *Engine) silentAt(a *agent) time.Time { return e.spared(a.Heard.Add(e.staleAfter(a))) }

// spared moves a moment out of the time in which nobody can be heard, and out of the one
// after it in which agents are awaited.
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

// maxStrangers bounds the memory of refused senders; beyond it the first
// refusal of another sender is not remembered, so that a flood of invented ids
// costs neither memory nor log lines.
const maxStrangers = 1000

// stranger is a sender and what was refused of it.
type stranger struct {
	agent   coordinator.AgentID
	refusal coordinator.StatusRefusal
}

// refuseStatus tells that a report changed nothing, marking the first of a kind.
func (e *Engine) refuseStatus(id coordinator.AgentID, why coordinator.StatusRefusal) {
	s := stranger{id, why}
	// Agents of the fleet are few; the others are any sender's invention.
	first := !e.strangers[s] && (e.fleet.ByID[id] != nil || len(e.strangers) < maxStrangers)
	if first {
		e.strangers[s] = true
	}
	e.emit(coordinator.StatusRefused{Agent: id, Refusal: why, First: first})
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
