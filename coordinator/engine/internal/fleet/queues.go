package fleet

import (
	"time"

	"taskbus/coordinator"
)

// What is seen of agents in the broker: whether their queues are there, and have consumers.

const (
	// MaxTakeBacks is how many agents' queues are consumed for others at once.
	MaxTakeBacks = 256
	QueueRecheck = 5 * time.Second // between looks for a missing queue
	QueueCool    = time.Second     // how long a full queue is left alone
)

// takeBack has the shell consume the agent's queue for others.
func (f *Fleet[T, A]) takeBack(m A) {
	a := m.Core()
	if a.TakenQueue != "" || a.Number < 0 || a.QueueMissing || !f.Connected || f.TakeBacks >= MaxTakeBacks {
		return // it is looked at again in its time
	}
	a.TakenQueue = a.Spec.Queue
	f.TakeBacks++
	f.emit(coordinator.TakeBack{Agent: a.Spec.ID, Queue: a.Spec.Queue})
}

// leaveQueue ends that.
func (f *Fleet[T, A]) leaveQueue(m A) {
	a := m.Core()
	if queue := a.TakenQueue; queue != "" {
		f.TakeBackEnded(m)
		f.emit(coordinator.LeaveQueue{Agent: a.Spec.ID, Queue: queue})
	}
}

// TakeBackEnded notes that the shell does not consume the agent's queue (any more).
func (f *Fleet[T, A]) TakeBackEnded(m A) {
	if a := m.Core(); a.TakenQueue != "" {
		a.TakenQueue = ""
		f.TakeBacks--
	}
}

// QueueSeen hears what the broker says of an agent's queue.
func (f *Fleet[T, A]) QueueSeen(now time.Time, ev coordinator.QueueSeen) []Change[A] {
	m, ok := f.ByID[ev.Agent]
	if !ok {
		return nil
	}
	f.begin()
	a := m.Core()
	switch {
	case ev.Consumers > 0:
		f.consumed(m, true)
		attended := a.Unattended
		a.seenConsumer, a.missedAt, a.Unattended = true, time.Time{}, false
		// A consumer alone may be one of ours that the broker still counts: the agent must have been heard as well.
		if a.State == coordinator.AgentGone && a.Heard.After(a.leftAt) {
			f.comeBack(now, m)
		} else if attended {
			f.refreshed(m)
		}
	case now.Sub(a.missedAt) > MissedFor:
		a.missedAt = now // it may be connecting again: the next check decides
		if a.HadConsumer && !a.seenConsumer {
			a.Unattended = true
			f.Refresh(m)
			f.add(OffMarket, m)
		}
	case a.State == coordinator.AgentOnline && a.mayBeMissed(now, f.missesFrom):
		f.enter(now, m, coordinator.AgentGone)
	}
	// An agent that never reported may have died before we began.
	unheard := a.State == coordinator.AgentNeverSeen && ev.Consumers == 0 && !now.Before(f.unheardFrom)
	left := a.Leased()
	a.HeldByUs = a.HeldByUs && ev.Ready > 0
	a.Drained = a.Draining && ev.Ready == 0 && left == 0 && a.InFlight() == 0
	switch {
	case ev.Ready > 0 && (a.Gone() || a.Draining || unheard):
		f.takeBack(m)
	case ev.Ready == 0 && (left == 0 || f.TakeBacks >= MaxTakeBacks):
		f.leaveQueue(m) // there is nothing to take, and nothing to come, or others need the place
	}
	return f.changes
}

// consumed notes whether the agent's queue has ever had a consumer.
func (f *Fleet[T, A]) consumed(m A, ever bool) {
	a := m.Core()
	if a.HadConsumer == ever {
		return
	}
	a.HadConsumer, a.ConsumedTold = ever, time.Time{}
	if ever && !a.Report.Relayed {
		a.ConsumedTold = a.Report.Timestamp
	}
	f.write(&coordinator.Consumed{Agent: a.Spec.ID, Ever: ever, Told: a.ConsumedTold})
}

// askForQueue has the shell look for an agent's queue, and asks again for as long as there is no answer.
func (f *Fleet[T, A]) askForQueue(now time.Time, m A) {
	a := m.Core()
	a.askedAt = now
	f.emit(coordinator.EnsureQueue{Agent: a.Spec.ID, Queue: a.Spec.Queue})
	f.set(m, Recheck, now.Add(QueueRecheck))
}

// Undelivered takes note of a dispatch for which the agent's queue was missing, or full. A queue that was asked for a
// moment ago is not asked for again at once: where it cannot be detected that it is missing, every dispatch would come
// back. The caller refreshes the agent.
func (f *Fleet[T, A]) Undelivered(now time.Time, m A, missing bool) []Change[A] {
	f.begin()
	switch a, next := m.Core(), m.Core().askedAt.Add(QueueRecheck); {
	case a.Number < 0:
	case !missing:
		a.QueueFull = true
		f.set(m, Cool, now.Add(QueueCool))
	case a.QueueMissing:
	case !a.askedAt.IsZero() && next.After(now):
		a.QueueMissing = true
		f.set(m, Recheck, next)
	default:
		a.QueueMissing = true
		f.askForQueue(now, m)
	}
	return f.changes
}

// QueueChecked hears whether an agent's queue exists. One that does may take what it refused before: a quorum queue
// rejects what comes while it is being declared.
func (f *Fleet[T, A]) QueueChecked(ev coordinator.QueueChecked) []Change[A] {
	m, ok := f.ByID[ev.Agent]
	if !ok || !ev.Exists {
		return nil // if it does not exist, it is asked for again in its time
	}
	a := m.Core()
	if !a.QueueMissing && !a.QueueFull {
		return nil
	}
	f.begin()
	a.QueueMissing, a.QueueFull = false, false
	f.unset(m, Recheck)
	f.unset(m, Cool)
	f.refreshed(m)
	return f.changes
}

// Which queues are looked at, for what the broker reports of their consumers.

const (
	// WorkLook is the time between looks at a queue from which work is expected, where these are few (see lookAtWork):
	// a second, less what a shell that looks twice a second may be early.
	WorkLook  = 900 * time.Millisecond
	MissedFor = 10 * time.Second // in which a second look without a consumer counts
	// presentLook is the time between looks at the queue of an agent that is online and idle: with the second look and
	// what a shell that looks twice a second may be late, an agent that is killed is missed within five seconds.
	presentLook = 3500 * time.Millisecond
	PresentMost = 150             // such looks at once: 300 a second, a thousand agents in 3.5 s
	IdleLook    = 5 * time.Second // between looks at a queue of which nothing is expected
)

// Watched names the agents' queues at which the shell should look now, at most so many: those of agents that have work,
// each second, where they are many less often, and again at once when the look before found no consumer; those of
// agents that are gone, drained or silent, now and then; and in turn, so many at once, those of the idle.
func (f *Fleet[T, A]) Watched(now time.Time, most int) []coordinator.QueueWatch {
	n := len(f.Agents)
	var list []coordinator.QueueWatch
	atWork := f.lookAtWork()
	for i := 0; i < n && len(list) < most; i++ {
		a := f.Agents[(f.watchFrom+i)%n].Core()
		if !a.wantsLook(now, f.missesFrom, atWork) {
			continue
		}
		a.lookedAt = now
		list = append(list, coordinator.QueueWatch{Agent: a.Spec.ID, Queue: a.Spec.Queue})
		if len(list) == most {
			f.watchFrom = (f.watchFrom + i + 1) % n
		}
	}
	from := f.idleFrom
	for i, left := 0, min(most-len(list), PresentMost); i < n && left > 0; i++ {
		a := f.Agents[(from+i)%n].Core()
		if a.State != coordinator.AgentOnline || a.QueueMissing || now.Sub(a.lookedAt) < presentLook {
			continue
		}
		a.lookedAt, f.idleFrom = now, (from+i+1)%n
		list = append(list, coordinator.QueueWatch{Agent: a.Spec.ID, Queue: a.Spec.Queue})
		left--
	}
	return list
}

// lookAtWork returns the time between looks at the queue of an agent that is online and has work:
// as many looks a second as at the idle, with WorkLook at least and presentLook at most.
func (f *Fleet[T, A]) lookAtWork() time.Duration {
	working := 0
	for _, m := range f.Agents {
		if a := m.Core(); a.State == coordinator.AgentOnline && a.works() {
			working++
		}
	}
	return min(max(WorkLook, time.Duration(working)*presentLook/1000), presentLook)
}

// wantsLook reports whether it is time for a look at the agent's queue that does not wait for its turn.
func (a *Account[T]) wantsLook(now, missesFrom time.Time, atWork time.Duration) bool {
	since, online := now.Sub(a.lookedAt), a.State == coordinator.AgentOnline
	switch {
	case a.QueueMissing:
		return false
	case a.TakenQueue != "", a.Draining && !a.Drained, a.State == coordinator.AgentGone, a.Gone() && a.Leased() > 0:
		return since >= WorkLook
	case online && now.Sub(a.missedAt) <= MissedFor && a.mayBeMissed(now, missesFrom):
		return true
	case online && a.Unattended:
		return since >= WorkLook
	case online && a.works():
		return since >= atWork
	case online && a.lookedAt.IsZero():
		return true // before it has work: only a consumer that was seen can be missed
	case online && !a.Draining:
		return false // its turn comes
	}
	return since >= IdleLook
}
