package state

import (
	"fmt"
	"time"

	"taskbus/coordinator"
)

// quotaSoon is how far away quota may be that comes back with time, for tasks that wait for it not
// to count as stuck: that of a rate or a short period, or of a provider that has asked for a pause.
const quotaSoon = 10 * time.Minute

// PendingUntil is until when a task may be pending that begins to be so now, if nothing moves. For
// one that comes out of a lane the time there counts.
func (s *State) PendingUntil(now time.Time, t *Task) time.Time {
	timeout := s.Policy.Settings.AssignmentTimeout
	since := now
	if t.From != "" {
		since = t.Task.AcceptedAt
		if !since.Add(timeout).After(now) {
			since = coordinator.Later(since, s.movedAt(now, t))
		}
	}
	return s.Within(t, since.Add(timeout))
}

// offeredUntil is until when a task that an agent could have now may wait for bids and for its dispatch.
func (s *State) offeredUntil(now time.Time, t *Task) time.Time {
	until := t.Until
	if until.IsZero() {
		until = s.PendingUntil(now, t)
	}
	if rules := &s.Policy.Settings; !rules.CountsWaiting { // an agent could have it now: the time begins anew
		until = coordinator.Later(until, now.Add(rules.AssignmentTimeout))
	}
	return s.Within(t, until)
}

// GoesOnUntil returns until when an overdue task may stay pending: longer if its class makes progress, or
// an agent is expected that could take it; not after now if neither is so.
func (s *State) GoesOnUntil(now time.Time, t *Task) time.Time {
	until := s.movedAt(now, t).Add(s.Policy.Settings.AssignmentTimeout)
	if !until.After(now) && s.Awaits(now, t) {
		until = coordinator.Earlier(s.Fleet.GraceEnd, now.Add(awaitLook))
	}
	return s.Within(t, until)
}

// Within is until, or the moment at which the task's waiting ends whatever moves, if that is
// earlier: its deadline; its max_wait_seconds, until an agent has had it; and where it is never
// moved to a lane, when its message has been held for as long as the broker allows, which closes
// the channel of a consumer that holds one for longer (see Settings.MaxTimeout).
func (s *State) Within(t *Task, until time.Time) time.Time {
	if d := t.Task.Deadline; !d.IsZero() {
		until = coordinator.Earlier(until, d)
	}
	if most := s.maxWait(t); most > 0 {
		until = coordinator.Earlier(until, t.Task.AcceptedAt.Add(most))
	}
	if s.heldThroughout(t) {
		until = coordinator.Earlier(until, t.Came.Add(s.Policy.Settings.MaxTimeout))
	}
	return until
}

// heldThroughout reports whether the task's message is held for as long as it waits, and the broker bounds that.
func (s *State) heldThroughout(t *Task) bool {
	return s.Policy.Settings.MaxTimeout > 0 && !s.MayMove(t)
}

// maxWait returns how long the task may wait for its first agent, from when it was accepted, as the task or its
// type says; 0: no such bound.
func (s *State) maxWait(t *Task) time.Duration {
	switch {
	case !t.OwnMessage || len(t.Tried) > 0:
		return 0
	case t.Task.MaxWait > 0:
		return t.Task.MaxWait
	}
	return s.Policy.Routes[t.Task.Type].MaxWait
}

// WhyNow is what a failure adds to why the task has waited, when that was ended by a bound.
func (s *State) WhyNow(now time.Time, t *Task) string {
	most := s.maxWait(t)
	switch {
	case most > 0 && !now.Before(t.Task.AcceptedAt.Add(most)):
		return fmt.Sprintf("; it was to wait for at most %s (max_wait_seconds)", most)
	case s.heldThroughout(t) && !now.Before(t.Came.Add(s.Policy.Settings.MaxTimeout)):
		return fmt.Sprintf("; the broker lets a message be held for %s (broker_consumer_timeout_seconds less 120)",
			s.Policy.Settings.MaxTimeout)
	}
	return ""
}

// movedAt returns when something moved last for tasks such as this one, as far as is known; the zero time: it does
// not count, or nothing has moved yet. For tasks that wait for quota it is what moves for their group; for a task
// that its strategy gives to none of the free agents, nothing.
func (s *State) movedAt(now time.Time, t *Task) time.Time {
	rules, c := &s.Policy.Settings, t.Needs.Class
	if rules.CountsWaiting || rules.AssignmentTimeout == 0 || t.Stage == Unscored || c == nil {
		return time.Time{}
	}
	leaf := s.LeafOf(t)
	if w := s.WaitAt(c, leaf); w != nil && s.Fleet.AnyThere(c.Usable) {
		if at, lacks := s.Quotas.MovedAt(now, &w.Lacks, leaf, quotaSoon); lacks {
			return at
		}
	}
	if now.Sub(c.moved) >= rules.AssignmentTimeout/2 { // else it is recent enough not to look again
		c.moved = coordinator.Later(c.moved, s.agentsMovedAt(now, c))
	}
	return c.moved
}

// agentsMovedAt is when something moved last for one of the class's agents: now if one of them is
// there and at work. It takes O(agents).
func (s *State) agentsMovedAt(now time.Time, c *Class) (last time.Time) {
	for i, a := range s.Fleet.Agents {
		switch {
		case !c.Usable.Has(i):
		case !s.Fleet.Causes[i].Absent() && a.atWork(now):
			return now
		default:
			last = coordinator.Later(last, a.Moved)
		}
	}
	return last
}

// atWork reports whether the agent has something that it was given, within the time that it has for it. An agent
// that reports no more than how much it runs has the time of its latest task.
func (a *Agent) atWork(now time.Time) bool {
	for _, t := range a.Open {
		if !t.Over && (t.Stage == Dispatching || t.Stage == Leased && !t.Unanswered && now.Before(t.Deadline)) {
			return true
		}
	}
	return !a.Tracked && a.Report.Active > a.Credit && now.Before(a.Given.Add(a.Spec.Timeout))
}

// Awaits reports whether an agent that could take the task has not been heard since the
// session opened, and may be yet: then the task waits for longer than it may else.
func (s *State) Awaits(now time.Time, t *Task) bool {
	if !now.Before(s.Fleet.GraceEnd) || t.Late(now) {
		return false
	}
	c := t.Needs.Class
	if c.Unserved() {
		return true // one may join
	}
	return s.Fleet.Awaits(c.Criteria.Set)
}

// awaitLook is the time between two questions whether a task that has waited for long enough
// may wait for an agent that has not been heard.
const awaitLook = time.Second
