package engine

import (
	"math/bits"

	"taskbus/coordinator"
	"taskbus/coordinator/agentset"
)

// Why the others were out when a choice was made: counted from sets that are at hand, so that it
// costs as many passes over their words as there are causes in the fleet, less the most frequent one.

// refuse writes down why each agent may not have the task, as judge would tell it, but for those of
// which the strategy makes nothing. free are those that may have a task of its kind; the choice was
// among d.Eligible of them, and allowed could have had it but for the quota of their own.
func (f *agents) refuse(d *decisionWithRoom, t *openTask, free agentset.Set, allowed int) {
	c := t.needs.class
	if allowed < c.able {
		f.countRefused(&d.Refused, t, free, c.able-allowed)
	}
	d.WithoutQuota = allowed - d.Eligible
	c.criteria.Count(f.Index, t.task, &d.Refused)
	switch {
	case len(f.Agents)-allowed <= coordinator.MaxNamed:
		f.name(d, t, free, true)
	case c.able-allowed <= coordinator.MaxNamed:
		f.name(d, t, free, false)
	}
}

// refusals counts agents by why they may not have a task.
type refusals = [coordinator.NumIneligibilities]int

// countRefused counts, by cause, the out agents that are feasible for the task and may not have it now.
func (f *agents) countRefused(refused *refusals, t *openTask, free agentset.Set, out int) {
	c := t.needs.class
	rest := coordinator.Ejected         // what is not counted, because it is what is left
	if &c.usable[0] == &c.feasible[0] { // none is ejected
		rest = coordinator.NotSeen
		for why := rest; why < coordinator.NumIneligibilities; why++ {
			if f.Tally[why] > f.Tally[rest] {
				rest = why
			}
		}
	}
	for i := range f.Tally {
		why, among, n := coordinator.Ineligibility(i), c.usable, f.Tally[i]
		if n == 0 || why == rest || why == coordinator.Eligible && !t.alone {
			continue
		}
		if why != coordinator.Eligible && why < coordinator.Ejected { // it comes before being ejected
			among = c.feasible
		}
		n = among.Without(f.ByCause[why], free)
		refused[outOf(why)] += n
		out -= n
	}
	refused[outOf(rest)] += out
}

// outOf is why an agent does not get a task which such a cause, Eligible among them, does not let have it.
func outOf(why coordinator.Ineligibility) coordinator.Ineligibility {
	if why == coordinator.Eligible {
		return coordinator.HasOthers
	}
	return why
}

// name lists the agents that may not have the task, the nearest first; all, or those that are
// feasible for it.
func (f *agents) name(d *decisionWithRoom, t *openTask, free agentset.Set, all bool) {
	c, n := t.needs.class, 0
	for w := range free {
		out := ^(c.usable[w] & free[w])
		if !all {
			out &= c.feasible[w]
		}
		for ; out != 0; out &= out - 1 {
			i := w<<6 + bits.TrailingZeros64(out)
			if i >= len(f.Agents) {
				break
			}
			r := coordinator.Refusal{Agent: f.Agents[i].Spec.ID, Why: f.whyOut(t, i)}
			at := n
			for ; at > 0 && d.named[at-1].Why < r.Why; at-- {
				d.named[at] = d.named[at-1]
			}
			d.named[at] = r
			n++
		}
	}
	d.Refusals = d.named[:n]
}

// whyOut is ineligibility for an agent that may not have the task.
func (f *agents) whyOut(t *openTask, i int) coordinator.Ineligibility {
	c, why := t.needs.class, f.Causes[i]
	if !c.feasible.Has(i) {
		return c.criteria.Why(f.Index, t.task, i)
	}
	if !c.usable.Has(i) && (why == coordinator.Eligible || why > coordinator.Ejected) {
		return coordinator.Ejected
	}
	return outOf(why)
}
