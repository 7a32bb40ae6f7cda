package engine

import (
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/engine/internal/admission"
	"taskbus/coordinator/fairshare"
)

// byQuota works out for how long quota may keep the task, beside the turns: all that goes before it
// must have its own first.
func (e *Engine) byQuota(now time.Time, t *openTask, its *admission.Precedence, p *Place) {
	charge, at := e.demandOf(t), e.quotaTime(now)
	var takers []coordinator.AgentID
	if e.quotas.AgentsDiffer(charge.Group) {
		for i, a := range e.fleet.Agents {
			if e.takesWork(t, i) {
				takers = append(takers, a.Spec.ID)
			}
		}
	}
	before := its.With(max(0, p.Likely-its.Cost))
	var short *fairshare.Shortage
	p.QuotaDelay, short = e.quotas.Delay(at, charge, &before, takers)
	if short != nil {
		p.Unbounded, p.Bound, p.Likely, p.QuotaDelay = admission.DescribeShortage(short), 0, 0, 0
		return
	}
	before.Kept = true
	p.QuotaLikely, _ = e.quotas.Delay(at, charge, &before, takers)
}

// demandOf is what a waiting task will probably take. Unlike quotaDemand it leaves the task as it is.
func (e *Engine) demandOf(t *openTask) fairshare.Charge {
	if t.quota != nil {
		return t.quota.Charge
	}
	c, _ := e.quotas.Demand(t.task, coordinator.Service{})
	return c
}

// chargedBefore adds up what its group's tasks ahead of it take: those of its priority before it, all of
// other priorities, which go first or by the share of the low ones, and as many as its lane holds.
func (e *Engine) chargedBefore(t *openTask, inLane int) *admission.Precedence {
	its, agents := e.demandOf(t), e.quotas.AgentsDiffer(t.task.Group)
	b := admission.Precedes(&its)
	for _, c := range e.pending.Active() {
		c.Waiting.Each(func(leaf, level int, x *openTask) {
			charge := e.demandOf(x)
			b.Waits(&charge)
			switch {
			case leaf != t.leaf && (!agents || x.task.Group != ""): // else it may be charged to its agent's group
			case leaf == t.leaf && (x == t || level == t.level && !before(x, t)):
			default:
				b.Goes(&charge, leaf == t.leaf && level == t.level)
			}
		})
	}
	b.InLane(inLane)
	return b
}
