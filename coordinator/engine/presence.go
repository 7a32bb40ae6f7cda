package engine

import (
	"time"

	"taskbus/coordinator"
)

// presence is whether an agent is there for its work, beyond what it reports.
type presence struct {
	// cordoned and draining are an operator's orders; drained: nothing is left.
	cordoned, draining, drained bool
	// hadConsumer: its queue has been seen with a consumer; seenConsumer: in this
	// session. One that never had any fetches its messages one by one, and nothing
	// follows from their absence.
	hadConsumer, seenConsumer bool
	// consumedTold is the time, by its own clock, of its latest report when that was seen in
	// the first place (see Consumed).
	consumedTold time.Time
	missedAt     time.Time // when a look found none; zero: it found one, or none was missed
	// unattended: it had a consumer before this session, and has none now: it gets nothing
	// until it has one again, or is gone.
	unattended bool
	// takenQueue is the queue that the shell consumes for others: its own, or the
	// one it had until a moment ago; empty when none.
	takenQueue string
	// heldByUs: a session ended while we consumed its queue. What is redelivered from
	// there may have been in our hands, not in the agent's, until it has been empty.
	heldByUs bool
	// unsteady: it has left too often a moment ago; until its steady timer.
	unsteady  bool
	leftAt    time.Time // when it last left; zero: never
	leftCount int       // how often it has, with less than flapMemory between two times
	// suspect: silent for a while, not for so long that it is stale.
	suspect bool
	// since is when it came; slots how many tasks it may have for being new, 0: as
	// many as it has room for.
	since time.Time
	slots int
	// told is the state that the world has been told.
	told coordinator.AgentState
	// lookedAt is when the shell was last asked to look at its queue.
	lookedAt time.Time
}

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

// gone reports whether the agent is known not to be there.
func (a *agent) gone() bool {
	switch a.state {
	case coordinator.AgentOffline, coordinator.AgentStale, coordinator.AgentGone:
		return true
	}
	return false
}

// leftAlone reports whether its work is its own: it is there, and not drained.
func (a *agent) leftAlone() bool { return a.state == coordinator.AgentOnline && !a.draining }

// enter moves the agent to a state, tells the world when that is a change, and
// begins or ends taking back what waits in its queue.
func (e *Engine) enter(now time.Time, a *agent, s coordinator.AgentState) {
	if a.state == s {
		return
	}
	wasOnline, isNew := a.state == coordinator.AgentOnline, !e.openedAt.IsZero() &&
		(a.state != coordinator.AgentNeverSeen || !now.Before(e.graceEnd))
	a.state, a.suspect = s, false
	if s == coordinator.AgentOnline && isNew { // else it is we who are new
		a.since = now
		e.ramp(now, a)
	}
	if wasOnline != (s == coordinator.AgentOnline) {
		a.lookedAt = time.Time{} // only a consumer that has been seen can be missed
		if a.number >= 0 {
			e.applyBreakers(e.ejections.SetOnline(now, a.number, s == coordinator.AgentOnline))
		}
	}
	if wasOnline {
		e.timers.cancel(&a.stale)
		e.departed(now, a)
		e.fleet.refresh(a) // what it would have had goes to others
		e.outOfMarket(now, a)
	}
	if !a.gone() {
		e.timers.cancel(&a.forget)
	}
	if !a.unsteady {
		e.tell(a)
	}
	switch {
	case a.gone():
		for i := 0; i < len(a.open); {
			if t := a.open[i]; t.over && t.state == stateLeased {
				e.fleet.remove(t) // whether it has stopped is of no interest any more
				continue
			}
			i++
		}
		e.takeBack(a)
		e.scheduleForget(now, a)
	case a.leftAlone() && !a.unsteady:
		e.leaveQueue(a)
	}
	e.fleet.refresh(a)
}

// tell announces the agent's state if the world has heard another.
func (e *Engine) tell(a *agent) {
	if a.told != a.state {
		a.told = a.state
		e.emit(coordinator.AgentChanged{Agent: a.spec.ID, State: a.state, LastHeartbeat: a.beat})
	}
}

// departed counts how often the agent has left of late.
func (e *Engine) departed(now time.Time, a *agent) {
	if a.leftAt.IsZero() || now.Sub(a.leftAt) > flapMemory {
		a.leftCount = 0
	}
	a.leftAt = now
	a.leftCount++
	if a.leftCount <= flapFree {
		return
	}
	hold := flapFirst
	for i := flapFree + 1; i < a.leftCount && hold < flapMax; i++ {
		hold *= 2
	}
	if !a.unsteady && a.leftCount == flapFree+1 {
		e.tell(a) // the last word for a while
	}
	a.unsteady = true
	e.timers.schedule(&a.steady, now.Add(min(hold, flapMax)))
}

// becameSteady runs when the agent has not left for long enough.
func (e *Engine) becameSteady(now time.Time, a *agent) {
	a.unsteady = false
	e.tell(a)
	if a.leftAlone() {
		e.leaveQueue(a)
	}
	e.fleet.refresh(a)
	e.wake(now, a)
}

// takeBack has the shell consume the agent's queue for others.
func (e *Engine) takeBack(a *agent) {
	if a.takenQueue != "" || a.number < 0 || a.queueMissing || !e.connected || e.takeBacks >= maxTakeBacks {
		return // it is looked at again in its time
	}
	a.takenQueue = a.spec.Queue
	e.takeBacks++
	e.emit(coordinator.TakeBack{Agent: a.spec.ID, Queue: a.spec.Queue})
}

// leaveQueue ends that.
func (e *Engine) leaveQueue(a *agent) {
	if queue := a.takenQueue; queue != "" {
		e.takeBackEnded(a)
		e.emit(coordinator.LeaveQueue{Agent: a.spec.ID, Queue: queue})
	}
}

// takeBackEnded notes that the shell does not consume the queue (any more).
func (e *Engine) takeBackEnded(a *agent) {
	if a.takenQueue != "" {
		a.takenQueue = ""
		e.takeBacks--
	}
}

// ordered carries out an operator's order.
func (e *Engine) ordered(now time.Time, ev coordinator.AgentOrdered) {
	if ev.Token != 0 {
		e.emit(coordinator.OrderStands{Token: ev.Token})
	}
	a := e.fleet.byID[ev.Agent]
	if a == nil {
		return
	}
	if ev.Order == coordinator.OrderUncordon {
		delete(e.orders, ev.Agent)
	} else {
		e.orders[ev.Agent] = ev.Order
	}
	e.record(&coordinator.Ordered{Agent: ev.Agent, Order: ev.Order})
	e.obey(a)
	if a.cordoned {
		e.fleet.refresh(a)
		e.outOfMarket(now, a)
	}
	if a.draining {
		e.takeBack(a)
	} else if a.leftAlone() && !a.unsteady {
		e.leaveQueue(a)
	}
	e.fleet.refresh(a)
	e.wake(now, a)
}

// obey gives the agent the orders that stand for it; they outlive its own absence.
func (e *Engine) obey(a *agent) {
	order, given := e.orders[a.spec.ID]
	a.cordoned = given
	a.draining = given && order == coordinator.OrderDrain
	a.drained = a.drained && a.draining
}
