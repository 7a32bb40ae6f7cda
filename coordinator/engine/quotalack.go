package engine

import (
	"slices"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/agentset"
	"taskbus/coordinator/engine/internal/admission"
	"taskbus/coordinator/fairshare"
)

// waitForQuota has a task wait for quota that its group, or the pool, lacks; or fails it because no
// limit will ever allow so much. without are the agents for which it lacks; nil: all.
func (e *Engine) waitForQuota(now time.Time, t *openTask, v *fairshare.Verdict, without *admission.Lacking) {
	e.quotas.flow.refused[v.Limit][v.Dimension]++
	if v.Limit == fairshare.LimitPrice {
		e.unpriced(&t.quota.charge, true)
	}
	if v.Permanent {
		e.fail(now, t, coordinator.ReasonExceedsQuota, v.Describe(), nil)
		return
	}
	if e.wait(now, t); t.state != stateWaiting {
		return
	}
	w := &admission.Wait{
		Class: t.needs.class, Leaf: t.leaf, Level: t.level, Task: t, Charge: &t.quota.charge, Lacks: *v, Without: without,
	}
	e.quotas.waits.Park(now, w, t.task.Group)
	t.needs.class.Park(w.Leaf)
	e.scheduleQuota()
}

// waitAt is what the tasks of a leaf wait for in a class; nil: for no quota.
func (e *Engine) waitAt(c *class, leaf int) *admission.Wait {
	if c == nil {
		return nil
	}
	return e.quotas.waits.Find(c, leaf)
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
	whole, own := e.quotas.waits.Of(t.needs.class, t.leaf)
	return own != nil && own.Task == t || whole != nil && whole.Task == t
}

// waitsForQuota reports whether the task is to wait for quota behind another of its group, or
// of its pool.
func (e *Engine) waitsForQuota(t *openTask) bool {
	if !e.quotas.ledger.Installed() {
		return false
	}
	level := levelOf(t)
	whole, own := e.quotas.waits.Of(t.needs.class, e.leafOf(t))
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

// overtakes has those of its group, or its pool, try again before which the task goes that begins
// to wait. It may need less, and would stand behind one that waits.
func (e *Engine) overtakes(t *openTask) {
	whole, own := e.quotas.waits.Of(t.needs.class, t.leaf)
	for _, w := range [2]*admission.Wait{whole, own} {
		if w != nil && !standsBehind(w, t, t.level) {
			e.quotas.waits.Remove(w)
			e.wanted(unpark(w))
		}
	}
}

// exceedsQuota fails a task that asks for more than its quotas ever allow, with any agent. All
// agents are looked at only if what it exceeds is the first one's own.
func (e *Engine) exceedsQuota(now time.Time, t *openTask) bool {
	h := e.quotaDemand(t)
	i := t.needs.class.Usable.First(t.needs.class.Usable)
	if h == nil || h.open || i < 0 {
		return false
	}
	x := e.checkFor(now, t, e.fleet.Agents[i].Spec.ID)
	v := x.verdict
	if !v.Permanent {
		return false
	}
	own := func(v fairshare.Verdict) bool { return v.Kind == coordinator.QuotaAgent }
	lacks, without := &v, (*admission.Lacking)(nil)
	if own(v) || slices.ContainsFunc(x.refused, own) {
		var able agentset.Set
		if able, lacks, without = e.agentsWithQuota(now, t, &v); able != nil || !lacks.Permanent {
			return false
		}
	}
	e.waitForQuota(now, t, lacks, without)
	return true
}

// leafOf is the tenant queue whose turn the task is charged to.
func (e *Engine) leafOf(t *openTask) int {
	return e.quotas.shares.Leaf(t.task.Group)
}

// levelOf is the task's place among the priorities.
func levelOf(t *openTask) int { return int(t.task.Priority) }
