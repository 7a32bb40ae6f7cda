package engine

import (
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/engine/internal/fleet"
)

// What is seen of agents in the broker: whether anybody reads their queues.

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
		a.MissedAt = now // it may be connecting again: the next look tells
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

// comeBack is the return of an agent whose consumer had gone: to what its reports
// say of it.
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

// missesQueue takes note of a dispatch that was returned as unroutable. A queue
// that was asked for a moment ago is not asked for again at once: where somebody
// cannot tell that it is missing, every dispatch would come back.
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
