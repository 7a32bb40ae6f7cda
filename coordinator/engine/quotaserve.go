package engine

import (
	"time"

	"taskbus/coordinator/engine/internal/admission"
	"taskbus/coordinator/fairshare"
)

// quotaView is what admission reads of the engine.
type quotaView struct{ e *Engine }

// Servable reports whether an agent could take tasks of the class now: one that is ready, or whose claim waits.
func (v quotaView) Servable(of admission.Class) bool {
	c, e := of.(*class), v.e
	return c.Usable.First(e.fleet.Ready) >= 0 || e.claims.Len() > 0 && c.Usable.First(e.claims.pullers) >= 0
}

// Levels are those of the tasks that wait for an agent alone, and have one that is ready.
func (v quotaView) Levels() uint8 {
	next := v.e.pending.LineFor(v.e.fleet.Ready, fairshare.AllLevels, 0)
	return next.Levels()
}

// FirstLeaf is the tenant queue of the first of these tasks at a level.
func (v quotaView) FirstLeaf(level int) (leaf int, ok bool) {
	next := v.e.pending.LineFor(v.e.fleet.Ready, fairshare.AllLevels, 0)
	c, _, leaf := next.First(level)
	return leaf, c != nil
}

// scheduleQuota sets the timer to when quota may be back, or a reservation ends. A follower has none: a
// reservation whose time is over may have been extended, or have ended otherwise, in records that are
// yet to be folded, and only the leader writes down how it ends.
func (e *Engine) scheduleQuota() {
	q := &e.quotas
	if e.following {
		e.timers.cancel(&q.due)
		return
	}
	if at, ok := q.Due(); ok {
		e.timers.schedule(&q.due, at)
	} else {
		e.timers.cancel(&q.due)
	}
}

// serveQuotas serves what waited for quota that may be back, and what waits for an agent alone: one task at a
// time, in the order that admission gives.
func (e *Engine) serveQuotas(now time.Time) {
	q := &e.quotas
	if !q.Installed() {
		e.scheduleQuota() // what is open from the time of quotas ends all the same
		return
	}
	q.claimed = false
	q.Waits.Begin(now)
	e.wantRetried()
	for s, ok := q.Waits.Next(q.view); ok; s, ok = q.Waits.Next(q.view) {
		served, given := false, q.Given
		for _, w := range s.Unpark {
			e.wanted(unpark(w))
		}
		if w := s.Blocked; w != nil {
			q.Refused[w.Lacks.Limit][w.Lacks.Dimension]++
		}
		if s.Levels != 0 {
			q.claimed = q.claimed || len(s.Unpark) > 0 && e.claims.Due()
			served = e.serveFirst(now, s.Levels, s.Others)
		}
		q.Waits.Done(served, q.Given != given)
	}
	e.scheduleQuota() // whatever has ended meanwhile
}

// serveFirst serves the task whose turn it is of those that wait for an agent alone, and have one that is
// ready, at these levels; at the others something waits for quota. false: there is none.
func (e *Engine) serveFirst(now time.Time, levels, others uint8) bool {
	next := e.pending.LineFor(e.fleet.Ready, levels, others)
	defer next.End()
	return e.serveNext(now, &next)
}

// unpark ends the parking of the tasks of a wait that was removed, and returns their class.
func unpark(w *admission.Wait) *class {
	c := w.Class.(*class)
	c.Unpark(w.Leaf)
	return c
}

// retryOwn removes the waits for which it differs which agent has the task, and that did not lack anything
// for this one.
func (e *Engine) retryOwn(number int) {
	q := &e.quotas
	for _, w := range q.Waits.RetryWith(number) {
		q.retried = append(q.retried, unpark(w))
	}
}

// wantRetried offers what was removed for one agent to the others.
func (e *Engine) wantRetried() {
	for _, c := range e.quotas.retried {
		e.wanted(c)
	}
	e.quotas.retried = nil
}

// clearQuotaWaits has nothing wait for quota any more.
func (e *Engine) clearQuotaWaits() {
	for _, w := range e.quotas.Waits.Clear() {
		unpark(w)
	}
	e.quotas.retried = nil
}
