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
	a := e.fleet.byID[ev.Agent]
	if a == nil {
		return
	}
	switch {
	case ev.Consumers > 0:
		e.consumed(a, true)
		a.seenConsumer, a.missedAt = true, time.Time{}
		if a.unattended {
			e.attended(a)
			e.wake(now, a)
		}
		// A consumer alone may be one of ours that the broker still counts: the agent
		// must have been heard as well.
		if a.state == coordinator.AgentGone && a.heard.After(a.leftAt) {
			e.comeBack(now, a)
		}
	case now.Sub(a.missedAt) > missedFor:
		a.missedAt = now // it may be connecting again: the next look tells
		if a.hadConsumer && !a.seenConsumer {
			a.unattended = true
			e.fleet.refresh(a)
			e.outOfMarket(now, a)
		}
	case a.state == coordinator.AgentOnline && a.mayBeMissed(now, e.missesFrom):
		e.enter(now, a, coordinator.AgentGone)
	}
	// An agent that never reported may have died before we began.
	unheard := a.state == coordinator.AgentNeverSeen && ev.Consumers == 0 && !now.Before(e.unheardFrom)
	left := a.leased()
	a.heldByUs = a.heldByUs && ev.Ready > 0
	a.drained = a.draining && ev.Ready == 0 && left == 0 && a.inFlight() == 0
	switch {
	case ev.Ready > 0 && (a.gone() || a.draining || unheard):
		e.takeBack(a)
	case ev.Ready == 0 && (left == 0 || e.takeBacks >= maxTakeBacks):
		e.leaveQueue(a) // there is nothing to take, and nothing to come, or others need the place
	}
}

// consumed notes whether the agent's queue has ever had a consumer.
func (e *Engine) consumed(a *agent, ever bool) {
	if a.hadConsumer != ever {
		a.hadConsumer, a.consumedTold = ever, time.Time{}
		if ever && !a.report.Relayed {
			a.consumedTold = a.report.Timestamp
		}
		if e.recorder.on {
			e.record(&coordinator.Consumed{Agent: a.spec.ID, Ever: ever, Told: a.consumedTold})
		}
	}
}

// attended ends the time in which the agent gets nothing for want of a consumer.
func (e *Engine) attended(a *agent) {
	a.unattended = false
	e.fleet.refresh(a)
}

// mayBeMissed tells whether the absence of the agent's consumer means that it is gone.
// After a session has been connected agents come back in their own time: one that had a
// consumer before gets nothing until it has one, but what it has is left to it within the
// grace that silence has, too.
func (a *agent) mayBeMissed(now, from time.Time) bool {
	return a.seenConsumer || a.hadConsumer && !now.Before(from)
}

// comeBack is the return of an agent whose consumer had gone: to what its reports
// say of it.
func (e *Engine) comeBack(now time.Time, a *agent) {
	switch {
	case a.report.Status == coordinator.StatusOffline:
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
	n := len(e.fleet.agents)
	var list []coordinator.QueueWatch
	atWork := e.lookAtWork()
	for i := 0; i < n && len(list) < most; i++ {
		a := e.fleet.agents[(e.watchFrom+i)%n]
		if !e.wantsLook(now, a, atWork) {
			continue
		}
		a.lookedAt = now
		list = append(list, coordinator.QueueWatch{Agent: a.spec.ID, Queue: a.spec.Queue})
		if len(list) == most {
			e.watchFrom = (e.watchFrom + i + 1) % n
		}
	}
	from := e.idleFrom
	for i, left := 0, min(most-len(list), presentMost); i < n && left > 0; i++ {
		a := e.fleet.agents[(from+i)%n]
		if a.state != coordinator.AgentOnline || a.queueMissing || now.Sub(a.lookedAt) < presentLook {
			continue
		}
		a.lookedAt, e.idleFrom = now, (from+i+1)%n
		list = append(list, coordinator.QueueWatch{Agent: a.spec.ID, Queue: a.spec.Queue})
		left--
	}
	return list
}

// lookAtWork is the time between looks at the queue of an agent that is online and has work:
// as many looks a second as at the idle, with workLook at least and presentLook at most.
func (e *Engine) lookAtWork() time.Duration {
	working := 0
	for _, a := range e.fleet.agents {
		if a.state == coordinator.AgentOnline && a.works() {
			working++
		}
	}
	return min(max(workLook, time.Duration(working)*presentLook/1000), presentLook)
}

// works reports whether work is expected from the agent's queue.
func (a *agent) works() bool { return a.inFlight() > 0 || len(a.open) > 0 }

// wantsLook tells whether it is time for a look at the agent's queue that does not wait for its turn.
func (e *Engine) wantsLook(now time.Time, a *agent, atWork time.Duration) bool {
	since, online := now.Sub(a.lookedAt), a.state == coordinator.AgentOnline
	switch {
	case a.queueMissing:
		return false
	case a.takenQueue != "", a.draining && !a.drained, a.state == coordinator.AgentGone, a.gone() && a.leased() > 0:
		return since >= workLook
	case online && now.Sub(a.missedAt) <= missedFor && a.mayBeMissed(now, e.missesFrom):
		return true
	case online && a.unattended:
		return since >= workLook
	case online && a.works():
		return since >= atWork
	case online && a.lookedAt.IsZero():
		return true // before it has work: only a consumer that was seen can be missed
	case online && !a.draining:
		return false // its turn comes
	}
	return since >= idleLook
}

// askForQueue has the shell look for an agent's queue, and asks again for as long
// as there is no answer.
func (e *Engine) askForQueue(now time.Time, a *agent) {
	a.askedAt = now
	e.emit(coordinator.EnsureQueue{Agent: a.spec.ID, Queue: a.spec.Queue})
	e.timers.schedule(&a.recheck, now.Add(queueRecheck))
}

// missesQueue takes note of a dispatch that was returned as unroutable. A queue
// that was asked for a moment ago is not asked for again at once: where somebody
// cannot tell that it is missing, every dispatch would come back.
func (e *Engine) missesQueue(now time.Time, a *agent) {
	if a.queueMissing || a.number < 0 {
		return
	}
	a.queueMissing = true
	if next := a.askedAt.Add(queueRecheck); !a.askedAt.IsZero() && next.After(now) {
		e.timers.schedule(&a.recheck, next)
		return
	}
	e.askForQueue(now, a)
}

// queueChecked hears whether an agent's queue exists.
func (e *Engine) queueChecked(now time.Time, ev coordinator.QueueChecked) {
	a := e.fleet.byID[ev.Agent]
	if a == nil || !a.queueMissing {
		return
	}
	if !ev.Exists {
		return // it is asked for again in its time
	}
	a.queueMissing = false
	e.timers.cancel(&a.recheck)
	e.fleet.refresh(a)
	e.wake(now, a)
}
