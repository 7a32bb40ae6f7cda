package choice

import (
	"math/bits"

	"taskbus/coordinator"
)

// Why the others are out is counted from sets that are at hand, so that it costs as many passes over their words as
// there are causes in the fleet, less the most frequent one.

// Refuse writes down why each agent may not have the task, as a full pass over the fleet would, but for those
// to which the strategy gives no score. The choice was among d.Eligible of them, and allowed could have had it but for
// quota of their own.
func (q *Question) Refuse(d *Kept, allowed int) {
	able := q.Met.Able
	if allowed < able {
		q.countRefused(&d.Refused, able-allowed)
	}
	d.WithoutQuota = allowed - d.Eligible
	q.Met.Count(q.Fleet.Index, q.Task, &d.Refused)
	switch {
	case len(q.Fleet.Views)-allowed <= coordinator.MaxNamed:
		q.name(d, true)
	case able-allowed <= coordinator.MaxNamed:
		q.name(d, false)
	}
}

// countRefused counts, by cause, the out agents that are feasible for the task and may not have it now.
func (q *Question) countRefused(refused *[coordinator.NumIneligibilities]int, out int) {
	f, feasible, usable := &q.Fleet, q.Met.Set, q.Usable
	rest := coordinator.Ejected     // what is not counted, because it is what is left
	if &usable[0] == &feasible[0] { // none is ejected
		rest = coordinator.NotSeen
		for why := rest; why < coordinator.NumIneligibilities; why++ {
			if f.Tally[why] > f.Tally[rest] {
				rest = why
			}
		}
	}
	for i, n := range f.Tally {
		why, among := coordinator.Ineligibility(i), usable
		if n == 0 || why == rest || why == coordinator.Eligible && !q.Alone {
			continue
		}
		if why != coordinator.Eligible && why < coordinator.Ejected { // it comes before being ejected
			among = feasible
		}
		n = among.Without(f.ByCause[why], q.Free)
		refused[outOf(why)] += n
		out -= n
	}
	refused[outOf(rest)] += out
}

// outOf returns why an agent does not get a task which such a cause, Eligible among them, does not let have it.
func outOf(why coordinator.Ineligibility) coordinator.Ineligibility {
	if why == coordinator.Eligible {
		return coordinator.HasOthers
	}
	return why
}

// name lists the agents that may not have the task, the nearest first; all, or those that are
// feasible for it.
func (q *Question) name(d *Kept, all bool) {
	n, feasible := 0, q.Met.Set
	for w := range q.Free {
		out := ^(q.Usable[w] & q.Free[w])
		if !all {
			out &= feasible[w]
		}
		for ; out != 0; out &= out - 1 {
			i := w<<6 + bits.TrailingZeros64(out)
			if i >= len(q.Fleet.Views) {
				break
			}
			r := coordinator.Refusal{Agent: q.Fleet.Views[i].ID, Why: q.Ineligibility(i)}
			at := n
			for ; at > 0 && d.refusals[at-1].Why < r.Why; at-- {
				d.refusals[at] = d.refusals[at-1]
			}
			d.refusals[at] = r
			n++
		}
	}
	d.Refusals = d.refusals[:n]
}

// Ineligibility returns why agent i may not have the task, or Eligible.
func (q *Question) Ineligibility(i int) coordinator.Ineligibility {
	why := q.Fleet.Causes[i]
	switch usable := q.Usable.Has(i); {
	case !q.Met.Set.Has(i):
		return q.Met.Why(q.Fleet.Index, q.Task, i)
	case usable && q.Free.Has(i):
		return coordinator.Eligible
	case !usable && (why == coordinator.Eligible || why > coordinator.Ejected):
		return coordinator.Ejected
	}
	return outOf(why)
}
