package engine

import (
	"slices"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/agentset"
	"taskbus/coordinator/engine/internal/admission"
	"taskbus/coordinator/fairshare"
)

// assign gives the task to this very agent if there is quota for it; else the task waits, or
// fails because there never will be, and false is returned.
func (e *Engine) assign(now time.Time, t *openTask, a *agent, d *coordinator.Decision) bool {
	v := e.reserveQuota(now, t, a)
	if v.OK {
		e.dispatch(now, t, a, d)
		return true
	}
	if _, lacks, without := e.others(now, t, &v); lacks != nil {
		e.waitForQuota(now, t, lacks, without)
	}
	return false
}

// assignBest gives the task to the agent that was chosen for it or, if there is no quota for
// that one, to the best of those for which there is. It returns the agent that has it; nil: none.
func (e *Engine) assignBest(
	now time.Time, t *openTask, a *agent, d *coordinator.Decision,
) (*agent, *coordinator.Decision) {
	v := e.reserveQuota(now, t, a)
	if !v.OK {
		able, lacks, without := e.others(now, t, &v)
		if able != nil {
			if a, d = e.chooseAmong(t, able); a != nil {
				if v = e.reserveQuota(now, t, a); !v.OK { // it is to wait behind another
					without.Agents.Unite(able)
					without.WaitFor(e.quotas.Ledger, &v)
					if lacks == nil || admission.Sooner(&v, lacks) {
						lacks = &v
					}
				}
			}
		}
		if !v.OK {
			e.waitForQuota(now, t, lacks, without)
			return nil, nil
		}
	}
	e.dispatch(now, t, a, d)
	return a, d
}

// others are the agents with which there is quota for a task that was refused for one.
func (e *Engine) others(
	now time.Time, t *openTask, refused *fairshare.Verdict,
) (able agentset.Set, lacks *fairshare.Verdict, without *admission.Lacking) {
	return e.quotas.Others(now, t.task, t.quota, refused, e.takers(t))
}

// takers are the agents that the task may go to.
func (e *Engine) takers(t *openTask) admission.Takers {
	return admission.Takers{
		Usable: t.needs.class.Usable, Ready: e.fleet.Ready, Agents: len(e.fleet.Agents), Number: e.quotas.number,
	}
}

// quotaMissing is what keeps the task from every agent that could have it now, nil: nothing does; able are the
// agents with which there is quota, nil: it makes no difference.
func (e *Engine) quotaMissing(
	now time.Time, t *openTask,
) (able agentset.Set, lacks *fairshare.Verdict, without *admission.Lacking) {
	h := e.quotaDemand(t)
	if h == nil || h.Open {
		return nil, nil, nil
	}
	return e.quotas.Able(now, t.task, h, e.takers(t))
}

// affordable reports whether there is quota for giving the task to the agent now.
func (e *Engine) affordable(now time.Time, t *openTask, id coordinator.AgentID) bool {
	h := e.quotaDemand(t)
	return h == nil || h.Open || e.quotas.Judge(now, t.task, h, id).Verdict.OK
}

// waitForQuota has a task wait for quota that its group, or the pool, lacks; or fails it because no
// limit will ever allow so much. without are the agents for which it lacks; nil: all.
func (e *Engine) waitForQuota(now time.Time, t *openTask, v *fairshare.Verdict, without *admission.Lacking) {
	e.quotas.Refused[v.Limit][v.Dimension]++
	if v.Limit == fairshare.LimitPrice {
		e.unpriced(&t.quota.Charge, true)
	}
	if v.Permanent {
		e.fail(now, t, coordinator.ReasonExceedsQuota, v.Describe(), nil)
		return
	}
	if e.wait(now, t); t.state != stateWaiting {
		return
	}
	w := &admission.Wait{
		Class: t.needs.class, Leaf: t.leaf, Level: t.level, Task: t, Charge: &t.quota.Charge, Lacks: *v, Without: without,
	}
	e.quotas.Waits.Park(now, w, t.task.Group)
	t.needs.class.Park(w.Leaf)
	e.scheduleQuota()
}

// waitAt is what the tasks of a leaf wait for in a class; nil: for no quota.
func (e *Engine) waitAt(c *class, leaf int) *admission.Wait {
	if c == nil {
		return nil
	}
	return e.quotas.Waits.Find(c, leaf)
}

// waitOf is what an open task waits for; nil: for no quota.
func (e *Engine) waitOf(open *openTask) *admission.Wait {
	if open == nil || open.state != stateWaiting {
		return nil
	}
	return e.waitAt(open.needs.class, open.leaf)
}

// parked reports whether the task itself was refused, so that its leaf or its class waits.
func (e *Engine) parked(t *openTask) bool {
	whole, own := e.quotas.Waits.Of(t.needs.class, t.leaf)
	return own != nil && own.Task == t || whole != nil && whole.Task == t
}

// waitsForQuota reports whether the task is to wait for quota behind another of its group, or
// of its pool.
func (e *Engine) waitsForQuota(t *openTask) bool {
	if !e.quotas.Installed() {
		return false
	}
	level := levelOf(t)
	whole, own := e.quotas.Waits.Of(t.needs.class, e.leafOf(t))
	return standsBehind(whole, t, level) || standsBehind(own, t, level)
}

// standsBehind reports whether the task stands behind the one that waits; nil: none does.
func standsBehind(w *admission.Wait, t *openTask, level int) bool {
	switch {
	case w == nil:
		return false
	case w.Leaf < 0 || level != w.Level:
		return level <= w.Level
	}
	return before(w.Task.(*openTask), t)
}

// overtakes lets those waits of its group, or its pool, try again that the task goes before as it begins to wait.
// It may need less, and would stand behind one that waits.
func (e *Engine) overtakes(t *openTask) {
	whole, own := e.quotas.Waits.Of(t.needs.class, t.leaf)
	for _, w := range [2]*admission.Wait{whole, own} {
		if w != nil && !standsBehind(w, t, t.level) {
			e.quotas.Waits.Remove(w)
			e.wanted(unpark(w))
		}
	}
}

// exceedsQuota fails a task that asks for more than its quotas ever allow, with any agent. All
// agents are looked at only if what it exceeds is the first one's own.
func (e *Engine) exceedsQuota(now time.Time, t *openTask) bool {
	h := e.quotaDemand(t)
	i := t.needs.class.Usable.First(t.needs.class.Usable)
	if h == nil || h.Open || i < 0 {
		return false
	}
	x := e.quotas.Judge(now, t.task, h, e.fleet.Agents[i].Spec.ID)
	v := x.Verdict
	if !v.Permanent {
		return false
	}
	own := func(v fairshare.Verdict) bool { return v.Kind == coordinator.QuotaAgent }
	lacks, without := &v, (*admission.Lacking)(nil)
	if own(v) || slices.ContainsFunc(x.Refused, own) {
		var able agentset.Set
		if able, lacks, without = e.others(now, t, &v); able != nil || !lacks.Permanent {
			return false
		}
	}
	e.waitForQuota(now, t, lacks, without)
	return true
}

// quotaView is what admission reads of the engine.
type quotaView struct{ e *Engine }

// Servable reports whether an agent could take tasks of the class now: one that is ready, or whose claim waits.
func (v quotaView) Servable(of admission.Class) bool {
	c, e := of.(*class), v.e
	return c.Usable.First(e.fleet.Ready) >= 0 || e.claims.Len() > 0 && c.Usable.First(e.claims.pullers) >= 0
}

// Levels returns the levels of the tasks that wait for an agent alone, and have one that is ready.
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

// scheduleQuota sets the timer to when quota may be back, or a reservation ends. A standby has none: a reservation
// whose time is over may have been extended, or have ended otherwise, in records that are yet to be folded, and
// only the leader records how it ends.
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

// serveFirst serves the task whose turn it is among those that wait for an agent alone, and have one that is ready,
// at these levels; at the others something waits for quota. false: there is none.
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
