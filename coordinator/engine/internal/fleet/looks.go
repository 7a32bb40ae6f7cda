package fleet

import (
	"time"

	"taskbus/coordinator"
)

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
		if !a.wantsLook(now, f.MissesFrom, atWork) {
			continue
		}
		a.LookedAt = now
		list = append(list, coordinator.QueueWatch{Agent: a.Spec.ID, Queue: a.Spec.Queue})
		if len(list) == most {
			f.watchFrom = (f.watchFrom + i + 1) % n
		}
	}
	from := f.idleFrom
	for i, left := 0, min(most-len(list), PresentMost); i < n && left > 0; i++ {
		a := f.Agents[(from+i)%n].Core()
		if a.State != coordinator.AgentOnline || a.QueueMissing || now.Sub(a.LookedAt) < presentLook {
			continue
		}
		a.LookedAt, f.idleFrom = now, (from+i+1)%n
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
		if a := m.Core(); a.State == coordinator.AgentOnline && a.Works() {
			working++
		}
	}
	return min(max(WorkLook, time.Duration(working)*presentLook/1000), presentLook)
}

// wantsLook reports whether it is time for a look at the agent's queue that does not wait for its turn.
func (a *Account[T]) wantsLook(now, missesFrom time.Time, atWork time.Duration) bool {
	since, online := now.Sub(a.LookedAt), a.State == coordinator.AgentOnline
	switch {
	case a.QueueMissing:
		return false
	case a.TakenQueue != "", a.Draining && !a.Drained, a.State == coordinator.AgentGone, a.Gone() && a.Leased() > 0:
		return since >= WorkLook
	case online && now.Sub(a.MissedAt) <= MissedFor && a.MayBeMissed(now, missesFrom):
		return true
	case online && a.Unattended:
		return since >= WorkLook
	case online && a.Works():
		return since >= atWork
	case online && a.LookedAt.IsZero():
		return true // before it has work: only a consumer that was seen can be missed
	case online && !a.Draining:
		return false // its turn comes
	}
	return since >= IdleLook
}
