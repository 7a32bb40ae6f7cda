package engine

import (
	"time"

	"taskbus/coordinator"
)

// joinDelay gathers agents that come together: each change of the fleet costs a
// pass over it.
const joinDelay = 100 * time.Millisecond

// HasAgent reports whether the agent is part of the fleet, listed or joined.
func (e *Engine) HasAgent(id coordinator.AgentID) bool { return e.fleet.ByID[id] != nil }

// announced hears an agent that is not part of the fleet.
func (e *Engine) announced(now time.Time, ev coordinator.AgentReported) {
	joins, refused, why := e.fleet.Announced(&ev.Report)
	if refused {
		e.refuseStatus(ev.Report.Agent, why)
	}
	if joins {
		e.letJoin(now, ev)
	}
}

// announcedAnew hears an agent that may have joined and say something else of itself than before.
func (e *Engine) announcedAnew(now time.Time, a *agent, ev coordinator.AgentReported) {
	joins, refused := e.fleet.AnnouncedAnew(a, &ev.Report)
	if refused {
		e.refuseStatus(a.Spec.ID, coordinator.StatusNotAdmitted)
	}
	if joins {
		e.letJoin(now, ev)
	}
}

func (e *Engine) letJoin(now time.Time, ev coordinator.AgentReported) {
	if e.following {
		return // the leader lets agents join, and records it
	}
	e.fleet.Await(ev)
	e.scheduleJoin(now)
}

func (e *Engine) scheduleJoin(now time.Time) {
	if e.joinTurn.index < 0 {
		e.timers.schedule(&e.joinTurn, now.Add(joinDelay))
	}
}

// join lets the agents in that wait for it, and hears their reports.
func (e *Engine) join(now time.Time) {
	came, refused := e.fleet.Join()
	for _, id := range refused {
		e.refuseStatus(id, coordinator.StatusNotAdmitted)
	}
	if r := e.fleet.JoinChanges(); r != nil && e.recorder.on {
		e.record(r)
	}
	e.install(now, e.policy)
	for _, ev := range came {
		a := e.fleet.ByID[ev.Report.Agent]
		if a.Heard.IsZero() { // its queue may not exist yet
			a.QueueMissing = true
			e.askForQueue(now, a)
			e.reported(now, ev)
		}
	}
}

// scheduleForget lets an agent that had joined leave the fleet in its time.
func (e *Engine) scheduleForget(now time.Time, a *agent) {
	if e.fleet.HasJoined(a.Spec.ID) && a.forget.index < 0 {
		e.timers.schedule(&a.forget, now.Add(e.fleet.Rules().ForgetAfter))
	}
}

// forgetJoined drops an agent that has been gone for long.
func (e *Engine) forgetJoined(now time.Time, a *agent) {
	if !a.Gone() || !e.fleet.HasJoined(a.Spec.ID) {
		return
	}
	if a.Leased() > 0 || a.TakenQueue != "" || e.following {
		e.timers.schedule(&a.forget, now.Add(e.fleet.Rules().ForgetAfter))
		return
	}
	e.fleet.Forget(a.Spec.ID)
	e.scheduleJoin(now)
}
