package engine

import (
	"time"

	"taskbus/coordinator"
)

// clockOffset is how far an agent's clock is behind ours, as observed: the
// smallest difference between arrival and timestamp of its live reports, which
// is the one with least delay on the way. Clocks of agents are wrong by minutes
// in real life.
type clockOffset struct {
	known  bool
	offset time.Duration
}

// observe learns from one live report.
func (c *clockOffset) observe(arrived, stamp time.Time) {
	d := arrived.Sub(stamp)
	if !c.known || d < c.offset {
		c.known, c.offset = true, d
	}
}

// ours translates the agent's timestamp into our time; the offset must be known.
func (c *clockOffset) ours(stamp time.Time) time.Time { return stamp.Add(c.offset) }

// reported applies one heartbeat.
//
// A report with an older timestamp than the newest accepted is out of order or
// replayed and changes nothing (of two with the same timestamp, the later in the
// stream is the newer), with one exception: when nothing newer has
// arrived for two health intervals the agent's clock was set back, and refusing
// would silence it until the clock catches up.
func (e *Engine) reported(now time.Time, ev coordinator.AgentReported) {
	r := ev.Report
	a := e.fleet.byID[r.Agent]
	if a == nil {
		e.announced(now, ev)
		return
	}
	if r.Relayed {
		if !ev.Live && !r.Timestamp.After(a.relayedAt) {
			return // a new session reads the stream's past again
		}
		a.relayedAt = r.Timestamp
		if !a.heard.IsZero() && !a.report.Relayed {
			if ev.Live {
				a.outlive(now, false)
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
	own := !r.Relayed && a.report.Relayed
	if own {
		a.clock = clockOffset{}
	}
	if !a.heard.IsZero() && !own {
		age := r.Timestamp.Compare(a.report.Timestamp)
		if !ev.Live && age <= 0 {
			return // a new session reads the stream's past again: nothing new
		}
		if age < 0 {
			if now.Sub(a.heard) <= 2*a.spec.HealthCheckInterval {
				e.refuseStatus(r.Agent, coordinator.StatusOutOfOrder)
				return
			}
			a.clock = clockOffset{}
		}
	}
	if ev.Live && !r.Relayed {
		a.clock.observe(now, r.Timestamp)
	}
	again := !own && ev.Live && r.Timestamp.Equal(a.report.Timestamp)
	a.knows = r.Timestamp
	if again && a.clock.known && !r.Relayed {
		// A clock that stands, or is coarse, does not say when the report was made: it came
		// just now. Else every end since would be remembered for good.
		a.knows = now.Add(-a.clock.offset)
	}
	a.report, a.heard, a.bidding.Unreachable = r, now, false
	a.beat = now
	if !ev.Live && !r.Relayed { // read from the past: when that was only its sender says
		a.beat = earlier(now, r.Timestamp)
	}
	a.heardOf(now, &r)
	if r.ActiveTasks == nil && a.listed != nil {
		a.tracked = false // another program speaks for it now, one that may send no results
	}
	a.list(r.ActiveTasks)
	if r.ActiveTasks != nil {
		e.track(a)
	}
	var made time.Time
	switch { // else nobody can tell what the report knew of
	case r.Relayed:
		made = r.Timestamp // a coordinator's
	case a.clock.known:
		made = a.clock.ours(r.Timestamp)
	}
	if ev.Live {
		a.outlive(now, true)
	}
	e.audit(now, a, made)
	a.lookForStrays(now)
	a.measure(now)

	switch {
	case r.Status == coordinator.StatusOffline:
		if ev.Live || r.Timestamp.After(a.consumedTold) {
			e.consumed(a, false) // it may come back as one that fetches
		}
		a.seenConsumer, a.unattended, a.lookedAt = false, false, time.Time{}
		e.enter(now, a, coordinator.AgentOffline)
	case a.state != coordinator.AgentGone: // that one's heart beats, but its hands are tied
		e.enter(now, a, coordinator.AgentOnline)
	}
	e.announcedAnew(now, a, ev)
	e.compareQueue(a)
	e.watch(now, a)
	e.fleet.refresh(a)
	e.wake(now, a)
}

// relayed applies what an agent that reports for itself has told a coordinator over
// HTTP: its capacity, and that it is alive. It is no word about its state: one that
// said that it is offline is, until it says otherwise.
func (e *Engine) relayed(now time.Time, a *agent, r *coordinator.AgentReport) {
	a.heardOf(now, r)
	a.heard, a.beat = now, now
	a.measure(now)
	if a.state == coordinator.AgentStale {
		e.enter(now, a, coordinator.AgentOnline)
	}
	e.watch(now, a)
	e.fleet.refresh(a)
	e.wake(now, a)
}

// compareQueue tells of an agent of agents.yaml that consumes another queue.
func (e *Engine) compareQueue(a *agent) {
	announced := a.report.Queue
	if announced == "" || announced == a.spec.Queue {
		a.otherQueue = ""
		return
	}
	if a.otherQueue != announced && !e.joining.has(a.spec.ID) {
		a.otherQueue = announced
		e.emit(coordinator.OtherQueue{Agent: a.spec.ID, Announced: announced, Listed: a.spec.Queue})
	}
}

// list takes over what the agent says it runs.
func (a *agent) list(ids []coordinator.TaskID) {
	if ids == nil {
		a.listed = nil
		return
	}
	if a.listed == nil {
		a.listed = make(map[coordinator.TaskID]struct{}, len(ids))
	}
	clear(a.listed)
	for _, id := range ids {
		a.listed[id] = struct{}{}
	}
}

// watch sees to it that silence makes the agent suspect, then stale, but not within
// the grace of a session that has just opened. Only who is online can become
// either. A timer that is set already is left as it is: when it is due the question
// is asked again, and that costs less than a timer moved with every heartbeat.
func (e *Engine) watch(now time.Time, a *agent) {
	if a.state != coordinator.AgentOnline {
		return
	}
	next := e.silentAt(a)
	if !next.After(now) {
		e.enter(now, a, coordinator.AgentStale)
		return
	}
	if n := e.policy.Settings.SuspectIntervals; n > 0 {
		silent := a.heard.Add(time.Duration(n) * a.spec.HealthCheckInterval)
		at := e.spared(silent)
		if at.After(now) {
			next = earlier(next, at)
		}
		// One that was suspected when an alarm began is so until it is over.
		e.suspect(a, !at.After(now) || e.stall.held && a.suspect && !silent.After(now))
	} else {
		e.suspect(a, false)
	}
	if a.stale.index < 0 || next.Before(a.stale.at) {
		e.timers.schedule(&a.stale, next)
	}
}

// suspect notes whether the agent has been silent for a while.
func (e *Engine) suspect(a *agent, silent bool) {
	if a.suspect != silent {
		a.suspect = silent
		e.fleet.refresh(a)
	}
}

// staleAfter is how long the agent may be silent.
func (e *Engine) staleAfter(a *agent) time.Duration {
	if n := e.policy.Settings.DeadIntervals; n > 0 {
		return time.Duration(n) * a.spec.HealthCheckInterval
	}
	return e.policy.Settings.StaleAfter
}

// silentAt is when the agent will have been silent for too long.
func (e *Engine) silentAt(a *agent) time.Time { return e.spared(a.heard.Add(e.staleAfter(a))) }

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
	first := !e.strangers[s] && (e.fleet.byID[id] != nil || len(e.strangers) < maxStrangers)
	if first {
		e.strangers[s] = true
	}
	e.emit(coordinator.StatusRefused{Agent: id, Refusal: why, First: first})
}

// ReportsNearer counts the agents whose latest report of their own was made, by their clocks, at a time
// nearer to other than to now, and all that have made one.
func (e *Engine) ReportsNearer(now, other time.Time) (heard, nearer int) {
	for _, a := range e.fleet.agents {
		if a.heard.IsZero() || a.report.Relayed {
			continue
		}
		if heard++; a.report.Timestamp.Sub(other).Abs() < a.report.Timestamp.Sub(now).Abs() {
			nearer++
		}
	}
	return heard, nearer
}
