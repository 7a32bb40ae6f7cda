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
	if !a.heard.IsZero() {
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
	if ev.Live {
		a.clock.observe(now, r.Timestamp)
	}
	a.report, a.heard = r, now
	if r.ActiveTasks == nil && a.listed != nil {
		a.tracked = false // another program speaks for it now, one that may send no results
	}
	a.list(r.ActiveTasks)
	if r.ActiveTasks != nil {
		e.track(a)
	}
	var made time.Time
	if a.clock.known { // else nobody can tell what the report knew of
		made = a.clock.ours(r.Timestamp)
	}
	e.audit(now, a, made)

	switch {
	case r.Status == coordinator.StatusOffline:
		a.hadConsumer, a.seenConsumer, a.lookedAt = false, false, time.Time{} // it may come back as one that fetches
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

// watch sees to it that silence makes the agent stale: StaleAfter after its last
// report, but not within the grace of a session that has just opened. Only who is
// online can become stale. A timer that is set already is left as it is: when it is
// due the question is asked again, and that costs less than a timer moved with
// every heartbeat.
func (e *Engine) watch(now time.Time, a *agent) {
	if a.state != coordinator.AgentOnline {
		return
	}
	switch at := e.silentAt(a); {
	case !at.After(now):
		e.enter(now, a, coordinator.AgentStale)
	case a.stale.index < 0, at.Before(a.stale.at):
		e.timers.schedule(&a.stale, at)
	}
}

// silentAt is when the agent will have been silent for too long.
func (e *Engine) silentAt(a *agent) time.Time {
	if at := a.heard.Add(e.policy.Settings.StaleAfter); at.After(e.graceEnd) {
		return at
	}
	return e.graceEnd
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
