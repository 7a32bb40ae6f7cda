package engine

import (
	"time"

	"taskbus/coordinator"
)

// An agent that comes and goes gets no work until it has been steady for a while:
// from its third departure on, each less than flapMemory after the one before,
// for flapFirst doubled with every further one, at most flapMax. The first two
// cost it nothing: a restart is no fault.
const (
	flapMemory = 30 * time.Second
	flapFree   = 2
	flapFirst  = time.Second
	flapMax    = 30 * time.Second
)

// enter moves the agent to a state, tells the world when that is a change, and
// begins or ends taking back what waits in its queue.
func (e *Engine) enter(now time.Time, a *agent, s coordinator.AgentState) {
	if a.State == s {
		return
	}
	wasOnline, isNew := a.State == coordinator.AgentOnline, !e.openedAt.IsZero() &&
		(a.State != coordinator.AgentNeverSeen || !now.Before(e.graceEnd))
	a.State, a.Suspect = s, false
	if s == coordinator.AgentOnline && isNew { // else it is we who are new
		a.Since = now
		e.ramp(now, a)
	}
	if wasOnline != (s == coordinator.AgentOnline) {
		a.LookedAt = time.Time{} // only a consumer that has been seen can be missed
		if a.Number >= 0 {
			e.applyBreakers(e.ejections.SetOnline(now, a.Number, s == coordinator.AgentOnline))
		}
	}
	if wasOnline {
		e.timers.cancel(&a.stale)
		e.departed(now, a)
		e.fleet.Refresh(a) // what it would have had goes to others
		e.outOfMarket(now, a)
	}
	if !a.Gone() {
		e.timers.cancel(&a.forget)
	}
	if !a.Unsteady {
		e.tell(a)
	}
	switch {
	case a.Gone():
		for i := 0; i < len(a.Open); {
			if t := a.Open[i]; t.Over && t.state == stateLeased {
				t.agent.Give(t) // whether it has stopped is of no interest any more
				continue
			}
			i++
		}
		e.takeBack(a)
		e.scheduleForget(now, a)
	case a.LeftAlone() && !a.Unsteady:
		e.leaveQueue(a)
	}
	e.fleet.Refresh(a)
}

// tell announces the agent's state if the world has heard another.
func (e *Engine) tell(a *agent) {
	if a.Told != a.State {
		a.Told = a.State
		e.emit(coordinator.AgentChanged{Agent: a.Spec.ID, State: a.State, LastHeartbeat: a.Beat})
	}
}

// departed counts how often the agent has left of late.
func (e *Engine) departed(now time.Time, a *agent) {
	if a.LeftAt.IsZero() || now.Sub(a.LeftAt) > flapMemory {
		a.LeftCount = 0
	}
	a.LeftAt = now
	a.LeftCount++
	if a.LeftCount <= flapFree {
		return
	}
	hold := flapFirst
	for i := flapFree + 1; i < a.LeftCount && hold < flapMax; i++ {
		hold *= 2
	}
	if !a.Unsteady && a.LeftCount == flapFree+1 {
		e.tell(a) // the last word for a while
	}
	a.Unsteady = true
	e.timers.schedule(&a.steady, now.Add(min(hold, flapMax)))
}

// becameSteady runs when the agent has not left for long enough.
func (e *Engine) becameSteady(now time.Time, a *agent) {
	a.Unsteady = false
	e.tell(a)
	if a.LeftAlone() {
		e.leaveQueue(a)
	}
	e.fleet.Refresh(a)
	e.wake(now, a)
}

// takeBack has the shell consume the agent's queue for others.
func (e *Engine) takeBack(a *agent) {
	if a.TakenQueue != "" || a.Number < 0 || a.QueueMissing || !e.connected || e.takeBacks >= maxTakeBacks {
		return // it is looked at again in its time
	}
	a.TakenQueue = a.Spec.Queue
	e.takeBacks++
	e.emit(coordinator.TakeBack{Agent: a.Spec.ID, Queue: a.Spec.Queue})
}

// leaveQueue ends that.
func (e *Engine) leaveQueue(a *agent) {
	if queue := a.TakenQueue; queue != "" {
		e.takeBackEnded(a)
		e.emit(coordinator.LeaveQueue{Agent: a.Spec.ID, Queue: queue})
	}
}

// takeBackEnded notes that the shell does not consume the queue (any more).
func (e *Engine) takeBackEnded(a *agent) {
	if a.TakenQueue != "" {
		a.TakenQueue = ""
		e.takeBacks--
	}
}

// ordered carries out an operator's order.
func (e *Engine) ordered(now time.Time, ev coordinator.AgentOrdered) {
	if ev.Token != 0 {
		e.emit(coordinator.OrderStands{Token: ev.Token})
	}
	a := e.fleet.ByID[ev.Agent]
	if a == nil {
		return
	}
	e.fleet.Order(ev.Agent, ev.Order)
	e.record(&coordinator.Ordered{Agent: ev.Agent, Order: ev.Order})
	if a.Cordoned {
		e.fleet.Refresh(a)
		e.outOfMarket(now, a)
	}
	if a.Draining {
		e.takeBack(a)
	} else if a.LeftAlone() && !a.Unsteady {
		e.leaveQueue(a)
	}
	e.fleet.Refresh(a)
	e.wake(now, a)
}
