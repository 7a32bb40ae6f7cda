package fleet

import (
	"time"

	"taskbus/coordinator"
)

// hearing is since when agents can be heard, or why they cannot: there is no session, or the broker holds up
// publishers. Clocks that run out because a report is missing stand meanwhile, and reports that could not be sent are
// received before any of them goes on.
type hearing struct {
	Connected bool      // a session stands, and is not draining
	OpenedAt  time.Time // when the latest session opened
	GraceEnd  time.Time // until then agents that never reported are awaited
	// unheardFrom is when an agent that has not reported counts as dead; from missesFrom on agents' consumers are missed
	// that were there before the session.
	unheardFrom, missesFrom time.Time

	DeafSince time.Time // no agent can report anything since then; zero: they can
	held      bool      // the broker holds up publishers
	// tellBy is until when reports that could not be sent before are awaited.
	tellBy time.Time
}

// Deafness is a time in which no agent could be heard.
type Deafness struct {
	From, Until time.Time // From is zero when it is not known
	Awaited     time.Time // until then reports are awaited that could not be sent
}

// LeastToTell is for how long at least reports that could not be sent are awaited: agents that have lost their
// connections come back at different times, however often they report.
const LeastToTell = 10 * time.Second

// heldLook is the time between two looks whether an agent is silent while publishers are held up.
const heldLook = time.Second

// Deaf reports whether no agent can report anything at the moment.
func (h *hearing) Deaf() bool { return !h.Connected || h.held }

// SessionOpened starts the grace in which silent agents are awaited: the longest interval at which any of them promised
// to report. Looks for missing queues are asked for again: the answer to an earlier one may have been lost with its
// session. What the shell says of the time without a session is of the session before; a fleet that has seen that end
// knows itself.
func (f *Fleet[T, A]) SessionOpened(now time.Time, ev *coordinator.SessionOpened) ([]Change[A], Deafness) {
	f.begin()
	longest := f.longestInterval()
	f.Connected, f.OpenedAt, f.GraceEnd = true, now, now.Add(longest)
	f.missesFrom, f.unheardFrom = f.GraceEnd, f.GraceEnd
	if !ev.Connected.IsZero() {
		f.missesFrom = ev.Connected.Add(longest)
	}
	for _, m := range f.Agents {
		a := m.Core()
		f.unheardFrom = coordinator.Later(f.unheardFrom, now.Add(f.staleAfter(a)))
		a.seenConsumer, a.Unattended, a.missedAt, a.lookedAt = false, false, time.Time{}, time.Time{}
		f.Refresh(m)
		if a.QueueMissing {
			f.askForQueue(now, m)
		}
	}
	until := now
	if f.DeafSince.IsZero() && !ev.Lost.IsZero() {
		f.DeafSince = ev.Lost
		if !ev.Connected.IsZero() {
			until = ev.Connected
		}
	}
	d := f.hears(now, until)
	if f.held {
		f.DeafSince = now
	}
	return f.changes, d
}

// Disconnect forgets what the shell did in a session that ends: nothing new is begun.
func (f *Fleet[T, A]) Disconnect() {
	f.Connected = false
	for _, m := range f.Agents {
		a := m.Core()
		a.HeldByUs = a.HeldByUs || a.TakenQueue != ""
		f.TakeBackEnded(m)
	}
}

// SessionLost notes that there is no session from now on.
func (f *Fleet[T, A]) SessionLost(now time.Time) {
	if f.held { // reports that an alarm held up are awaited
		f.tellBy = coordinator.Later(f.tellBy, now.Add(f.longestInterval()))
	}
	if f.held = false; f.DeafSince.IsZero() { // whether they are held the next session says anew
		f.DeafSince = now
	}
	f.Disconnect()
}

// PublishingHeld hears whether the broker holds up publishers. It returns the time in which it did, if that is over.
func (f *Fleet[T, A]) PublishingHeld(now time.Time, held bool) (d Deafness, over bool) {
	was := f.held
	switch f.held = held; {
	case held && !was && f.DeafSince.IsZero():
		f.DeafSince = now
	case was && !held:
		return f.hears(now, now), true
	}
	return d, false
}

// hears ends the time in which no agent could be heard, which lasted until then.
func (f *Fleet[T, A]) hears(now, until time.Time) Deafness {
	f.tellBy = coordinator.Later(f.tellBy, now.Add(f.longestInterval()))
	d := Deafness{From: f.DeafSince, Until: until, Awaited: coordinator.Later(f.tellBy, now.Add(LeastToTell))}
	f.DeafSince = time.Time{}
	return d
}

// longestInterval is the longest time between two reports that any agent promises.
func (f *Fleet[T, A]) longestInterval() (longest time.Duration) {
	for _, m := range f.Agents {
		longest = max(longest, m.Core().Spec.HealthCheckInterval)
	}
	return longest
}

// spared moves a moment out of the time in which no agent can be heard, and out of the one after it in which agents
// are awaited.
func (h *hearing) spared(now, at time.Time) time.Time {
	if h.held {
		at = coordinator.Later(at, now.Add(heldLook))
	}
	if h.tellBy.After(at) {
		return h.tellBy
	}
	return at
}
