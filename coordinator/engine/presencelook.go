package engine

import (
	"time"

	"taskbus/coordinator"
)

// What is seen of agents in the broker: whether anybody reads their queues.

// Looking at queues and taking back.
const (
	// workLook is the time between looks at a queue from which work is expected, where these
	// are few (see lookAtWork): a second, less what a shell that looks twice a second may be early.
	workLook  = 900 * time.Millisecond
	missedFor = 10 * time.Second // in which a second look without a consumer counts
	// presentLook is the time between looks at the queue of an agent that is online and
	// idle: with the second look and what a shell that looks twice a second may be late, an
	// agent that is killed is missed within five seconds.
	presentLook  = 3500 * time.Millisecond
	presentMost  = 150             // such looks at once: 300 a second, a thousand agents in 3.5 s
	idleLook     = 5 * time.Second // between looks at a queue of which nothing is expected
	maxTakeBacks = 256             // agents' queues that are consumed for others at once
)

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
	case now.Sub(a.MissedAt) > missedFor:
		a.MissedAt = now // it may be connecting again: the next look tells
		if a.HadConsumer && !a.SeenConsumer {
			a.Unattended = true
			e.fleet.Refresh(a)
			e.outOfMarket(now, a)
		}
	case a.State == coordinator.AgentOnline && a.MayBeMissed(now, e.missesFrom):
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

// Watched names the agents' queues at which the shell should look now, at most
// so many: those of agents that have work, each second, where they are many less
// often, and again at once when the look before found no consumer; those of agents that
// are gone, drained or silent, now and then; and in turn, so many at once, those of the
// idle. It decides nothing: what follows from a look comes as QueueSeen. It is called about
// twice a second, between two events.
func (e *Engine) Watched(now time.Time, most int) []coordinator.QueueWatch {
	n := len(e.fleet.Agents)
	var list []coordinator.QueueWatch
	atWork := e.lookAtWork()
	for i := 0; i < n && len(list) < most; i++ {
		a := e.fleet.Agents[(e.watchFrom+i)%n]
		if !e.wantsLook(now, a, atWork) {
			continue
		}
		a.LookedAt = now
		list = append(list, coordinator.QueueWatch{Agent: a.Spec.ID, Queue: a.Spec.Queue})
		if len(list) == most {
			e.watchFrom = (e.watchFrom + i + 1) % n
		}
	}
	from := e.idleFrom
	for i, left := 0, min(most-len(list), presentMost); i < n && left > 0; i++ {
		a := e.fleet.Agents[(from+i)%n]
		if a.State != coordinator.AgentOnline || a.QueueMissing || now.Sub(a.LookedAt) < presentLook {
			continue
		}
		a.LookedAt, e.idleFrom = now, (from+i+1)%n
		list = append(list, coordinator.QueueWatch{Agent: a.Spec.ID, Queue: a.Spec.Queue})
		left--
	}
	return list
}

// lookAtWork is the time between looks at the queue of an agent that is online and has work:
// as many looks a second as at the idle, with workLook at least and presentLook at most.
func (e *Engine) lookAtWork() time.Duration {
	working := 0
	for _, a := range e.fleet.Agents {
		if a.State == coordinator.AgentOnline && a.Works() {
			working++
		}
	}
	return min(max(workLook, time.Duration(working)*presentLook/1000), presentLook)
}

// wantsLook tells whether it is time for a look at the agent's queue that does not wait for its turn.
func (e *Engine) wantsLook(now time.Time, a *agent, atWork time.Duration) bool {
	since, online := now.Sub(a.LookedAt), a.State == coordinator.AgentOnline
	switch {
	case a.QueueMissing:
		return false
	case a.TakenQueue != "", a.Draining && !a.Drained, a.State == coordinator.AgentGone, a.Gone() && a.Leased() > 0:
		return since >= workLook
	case online && now.Sub(a.MissedAt) <= missedFor && a.MayBeMissed(now, e.missesFrom):
		return true
	case online && a.Unattended:
		return since >= workLook
	case online && a.Works():
		return since >= atWork
	case online && a.LookedAt.IsZero():
		return true // before it has work: only a consumer that was seen can be missed
	case online && !a.Draining:
		return false // its turn comes
	}
	return since >= idleLook
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
