package engine

import (
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/engine/internal/fleet"
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

// enter moves the agent to a state, announces that if it is a change, and begins or ends taking back what waits in
// its queue.
func (e *Engine) enter(now time.Time, a *agent, s coordinator.AgentState) {
	if a.State == s {
		return
	}
	wasOnline, isNew := a.State == coordinator.AgentOnline, !e.openedAt.IsZero() &&
		(a.State != coordinator.AgentNeverSeen || !now.Before(e.graceEnd))
	a.State, a.Suspect = s, false
	if s == coordinator.AgentOnline && isNew { // otherwise it is this coordinator that is new
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

// tell announces the agent's state if it differs from the one announced last.
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
		e.tell(a) // the last announcement for a while
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

// What is seen of agents in the broker: whether their queues have consumers.

// maxTakeBacks is how many agents' queues are consumed for others at once.
const maxTakeBacks = 256

// queueSeen hears what the broker says of an agent's queue.
func (e *Engine) queueSeen(now time.Time, ev coordinator.QueueSeen) {
	a := e.fleet.ByID[ev.Agent]
	if a == nil {
		return
	}
	switch {
	case ev.Consumers > 0:
		e.consumed(a, true)
		a.SeenConsumer, a.MissedAt = true, time.Time{}
		if a.Unattended {
			e.attended(a)
			e.wake(now, a)
		}
		// A consumer alone may be one of ours that the broker still counts: the agent
		// must have been heard as well.
		if a.State == coordinator.AgentGone && a.Heard.After(a.LeftAt) {
			e.comeBack(now, a)
		}
	case now.Sub(a.MissedAt) > fleet.MissedFor:
		a.MissedAt = now // it may be connecting again: the next check decides
		if a.HadConsumer && !a.SeenConsumer {
			a.Unattended = true
			e.fleet.Refresh(a)
			e.outOfMarket(now, a)
		}
	case a.State == coordinator.AgentOnline && a.MayBeMissed(now, e.fleet.MissesFrom):
		e.enter(now, a, coordinator.AgentGone)
	}
	// An agent that never reported may have died before we began.
	unheard := a.State == coordinator.AgentNeverSeen && ev.Consumers == 0 && !now.Before(e.unheardFrom)
	left := a.Leased()
	a.HeldByUs = a.HeldByUs && ev.Ready > 0
	a.Drained = a.Draining && ev.Ready == 0 && left == 0 && a.InFlight() == 0
	switch {
	case ev.Ready > 0 && (a.Gone() || a.Draining || unheard):
		e.takeBack(a)
	case ev.Ready == 0 && (left == 0 || e.takeBacks >= maxTakeBacks):
		e.leaveQueue(a) // there is nothing to take, and nothing to come, or others need the place
	}
}

// consumed notes whether the agent's queue has ever had a consumer.
func (e *Engine) consumed(a *agent, ever bool) {
	if a.HadConsumer != ever {
		a.HadConsumer, a.ConsumedTold = ever, time.Time{}
		if ever && !a.Report.Relayed {
			a.ConsumedTold = a.Report.Timestamp
		}
		if e.recorder.on {
			e.record(&coordinator.Consumed{Agent: a.Spec.ID, Ever: ever, Told: a.ConsumedTold})
		}
	}
}

// attended ends the time in which the agent gets nothing for want of a consumer.
func (e *Engine) attended(a *agent) {
	a.Unattended = false
	e.fleet.Refresh(a)
}

// comeBack handles the return of an agent whose consumer had gone: its state follows from its reports.
func (e *Engine) comeBack(now time.Time, a *agent) {
	switch {
	case a.Report.Status == coordinator.StatusOffline:
		e.enter(now, a, coordinator.AgentOffline)
	case !e.silentAt(a).After(now):
		e.enter(now, a, coordinator.AgentStale)
	default:
		e.enter(now, a, coordinator.AgentOnline)
		e.watch(now, a)
		e.wake(now, a)
	}
}

// Watched names the agents' queues at which the shell should look now, at most so many. What follows from a look comes
// as QueueSeen. It is called about twice a second, between two events.
func (e *Engine) Watched(now time.Time, most int) []coordinator.QueueWatch {
	return e.fleet.Watched(now, most)
}

// askForQueue has the shell look for an agent's queue, and asks again for as long
// as there is no answer.
func (e *Engine) askForQueue(now time.Time, a *agent) {
	a.AskedAt = now
	e.emit(coordinator.EnsureQueue{Agent: a.Spec.ID, Queue: a.Spec.Queue})
	e.timers.schedule(&a.recheck, now.Add(queueRecheck))
}

// missesQueue takes note of a dispatch that was returned as unroutable. A queue that was asked for a moment ago is
// not asked for again at once: where it cannot be detected that it is missing, every dispatch would come back.
func (e *Engine) missesQueue(now time.Time, a *agent) {
	if a.QueueMissing || a.Number < 0 {
		return
	}
	a.QueueMissing = true
	if next := a.AskedAt.Add(queueRecheck); !a.AskedAt.IsZero() && next.After(now) {
		e.timers.schedule(&a.recheck, next)
		return
	}
	e.askForQueue(now, a)
}

// queueChecked hears whether an agent's queue exists.
func (e *Engine) queueChecked(now time.Time, ev coordinator.QueueChecked) {
	a := e.fleet.ByID[ev.Agent]
	if a == nil || !a.QueueMissing {
		return
	}
	if !ev.Exists {
		return // it is asked for again in its time
	}
	a.QueueMissing = false
	e.timers.cancel(&a.recheck)
	e.fleet.Refresh(a)
	e.wake(now, a)
}
