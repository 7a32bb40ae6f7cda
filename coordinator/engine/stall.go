package engine

import (
	"time"

	"taskbus/coordinator"
)

// stall is a time in which no agent can tell anything: there is no session, or the broker
// holds up publishers. Clocks that run out for want of a word stand meanwhile, and what
// could not be told is heard before any of them goes on.
type stall struct {
	since time.Time // when it began; zero: agents can tell
	held  bool      // the broker holds up publishers
	// tellBy is until when what could not be told before is awaited.
	tellBy time.Time
}

// leastToTell is for how long at least what could not be told is awaited: agents that have
// lost their connections come back in their own time, however often they report.
const leastToTell = 10 * time.Second

// deaf reports whether no agent can tell anything at the moment.
func (e *Engine) deaf() bool { return !e.connected || e.stall.held }

// begin notes that agents cannot tell anything from now on.
func (s *stall) begin(now time.Time) {
	if s.since.IsZero() {
		s.since = now
	}
}

// publishingHeld hears that the broker holds up publishers, or does so no longer.
func (e *Engine) publishingHeld(now time.Time, ev coordinator.PublishingHeld) {
	if e.stall.held == ev.Held {
		return
	}
	e.stall.held = ev.Held
	if ev.Held {
		e.stall.begin(now)
		return
	}
	e.hearAgain(now, e.stall.since, now)
	e.stall.since = time.Time{}
}

// hearAgain ends a time in which nobody could be heard, from one moment until another.
func (e *Engine) hearAgain(now, from, until time.Time) {
	e.stall.tellBy = later(e.stall.tellBy, now.Add(e.longestInterval()))
	awaited := later(e.stall.tellBy, now.Add(leastToTell))
	for _, t := range e.tasks.all {
		// One that is sent to its agent again keeps the time that it had.
		if t == nil || t.deadline.IsZero() || t.state != stateLeased && t.state != stateDispatching {
			continue
		}
		if stood := until.Sub(later(from, t.runsFrom)); !from.IsZero() && stood > 0 {
			t.deadline = t.deadline.Add(stood)
		}
		t.deadline = later(t.deadline, awaited)
		if t.state == stateLeased && t.expire.index >= 0 {
			e.timers.schedule(&t.expire, t.deadline)
		}
	}
	for _, a := range e.fleet.Agents {
		e.watch(now, a)
		e.wake(now, a) // one that was suspected is trusted again
	}
}

// longestInterval is the longest time between two reports that any agent promises.
func (e *Engine) longestInterval() (longest time.Duration) {
	for _, a := range e.fleet.Agents {
		longest = max(longest, a.Spec.HealthCheckInterval)
	}
	return longest
}
