package fairshare

import (
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/fairshare/arith"
	"taskbus/coordinator/fairshare/billing"
	"taskbus/coordinator/fairshare/rates"
)

// Usage is charged in full, also beyond what was reserved. But an agent that reports with its own token
// might report that it has used the budgets of all, and the others would get nothing for the rest of the
// period. So what it reports beyond the reservation is uncorroborated, and is accepted up to these limits:
//
//   - of a budget as far as it has something of its own left, that is not at the others' expense; and
//     beyond that, in a period altogether, up to that budget once more, or up to what the nodes that it
//     stands for have used by reservations, if that is more: large users err by larger amounts. In no
//     case is it more than 1/othersKeep of what the others have, at any level of its tree, nor do it
//     and those that it stands for take so much at one time beyond what they may that any one of the others
//     lacks more than that part of its own. Only those that have used the rest of it lack nothing.
//   - of a rate as much again as it gives, trustedBursts of its bursts at once.
//   - where nothing limits it up to so much in one call that any more is implausible.
//
// Of every tree the budget and the rate count that are most its own: the lowest that are not of
// nothing. No bound contains what a report has moved, be it used or borrowed, and all but the last hold for
// the sum of the reports: else each report would make room for the next.
//
// The usage in the result of a task is its agent's own report as well. It is not refused, as the report
// about a call is, because no request waits for the answer: only what is accepted is charged (see Held).
//
// A gateway's reports are accepted whatever the others have left, but no report about one call beyond what
// the largest budget that it concerns has in one period, or mostPlain if that is more: a debt of more than
// that would never be repaid.
const othersKeep = 10

// mostPlain is how much one call may take of what no budget bounds better: requests, tokens, micro-USD.
var mostPlain = coordinator.Amounts{
	coordinator.DimRequests:    10_000,
	coordinator.DimInputTokens: 100_000_000, coordinator.DimOutputTokens: 100_000_000,
	coordinator.DimTotalTokens: 100_000_000,
	coordinator.DimCost:        10_000_000_000,
}

// Doubt is that a call, or task, is reported to have used more than is accepted: more than Most. Node has
// the budget or rate that bounds that; empty: none, and the amount is implausible by itself.
type Doubt struct {
	Node       string
	Limit      Limit // LimitBudget or LimitRate
	Dimension  coordinator.Dimension
	Told, Most int64
}

// reportedUsage is what an agent's own report says about a call.
type reportedUsage struct {
	path Path
	at   int64
	// booked is what the books have of it as reserved, asked what of that was granted.
	booked, asked, used coordinator.Amounts
}

// reportedOf returns the reported usage of a reservation.
func (l *Ledger) reportedOf(r *reservation, used *coordinator.Amounts, by coordinator.QuotaWord) *reportedUsage {
	w := &reportedUsage{path: r.path, at: r.at, used: *used}
	for part := r; part != nil; part = part.later { // what is reported beyond it is charged to the last part
		w.at = part.at
	}
	if r.state != resOpen {
		return w
	}
	if w.booked = r.whole().Amounts; by != coordinator.WordUnasked {
		w.asked = w.booked
	}
	return w
}

// Doubted compares what an agent says a call has used, of which a reservation was made under that key,
// with what is accepted; nil: all is accepted.
func (l *Ledger) Doubted(now time.Time, key coordinator.TaskKey, used *coordinator.Amounts) *Doubt {
	l.advance(now.UnixNano())
	r := l.find(key)
	if r == nil {
		return nil
	}
	return l.doubt(l.reportedOf(r, used, coordinator.WordOwn))
}

// Held limits what a task's agent says it has used to what is accepted: so much is to be charged.
// It returns the first of the doubts too; nil: all is accepted.
func (l *Ledger) Held(now time.Time, key coordinator.TaskKey, used coordinator.Amounts) (coordinator.Amounts, *Doubt) {
	billing.Tidy(&used)
	l.advance(now.UnixNano())
	r := l.find(key)
	if r == nil {
		return used, nil
	}
	w := l.reportedOf(r, &used, coordinator.WordOwn)
	first := l.doubt(w)
	for d := first; d != nil; d = l.doubt(w) { // each bounds one dimension by more
		w.used[d.Dimension] = d.Most
	}
	// Tokens fit together: what is taken off input and output is off all of them, and these are no more than that.
	in, out, all := &w.used[coordinator.DimInputTokens], &w.used[coordinator.DimOutputTokens],
		&w.used[coordinator.DimTotalTokens]
	off := used[coordinator.DimInputTokens] - *in + used[coordinator.DimOutputTokens] - *out
	*all = min(*all, max(used[coordinator.DimTotalTokens]-off, arith.Add(*in, *out)))
	*in = min(*in, *all)
	*out = min(*out, *all-*in)
	return w.used, first
}

// DoubtedCall compares what is reported of one call, by a gateway or an agent, with what one call can take;
// nil: all is accepted. asked is what was reserved for it.
func (l *Ledger) DoubtedCall(c *Charge, asked *coordinator.Amounts) *Doubt {
	p := l.PathOf(c)
	for d := range coordinator.DimConcurrency {
		most := max(asked[d], mostPlain[d])
		for _, n := range p.Nodes() {
			if b := l.nodes[n].budgets[d]; b != nil {
				most = max(most, b.base)
			}
		}
		if told := c.Amounts[d]; told > most {
			return &Doubt{Dimension: d, Told: told, Most: most}
		}
	}
	return nil
}

// DoubtedUnasked is Doubted for a call without a reservation, which its agent reports now.
func (l *Ledger) DoubtedUnasked(now time.Time, c *Charge) *Doubt {
	l.advance(now.UnixNano())
	return l.doubt(&reportedUsage{path: l.PathOf(c), at: l.now, used: c.Amounts})
}

// DoubtedPlan is Doubted for what its agent asks for: nothing is in doubt but what no limit concerns.
func (l *Ledger) DoubtedPlan(c *Charge) *Doubt {
	for d := range coordinator.DimConcurrency {
		x := c.Amounts[d]
		if x <= mostPlain[d] {
			continue
		}
		if p := l.PathOf(c); !l.limitedOn(&p, d) {
			return &Doubt{Dimension: d, Told: x, Most: mostPlain[d]}
		}
	}
	return nil
}

func (l *Ledger) doubt(w *reportedUsage) (found *Doubt) {
	for d := range coordinator.DimConcurrency {
		told, asked := w.used[d], w.asked[d]
		if told <= asked || found != nil {
			continue
		}
		if most := max(asked, mostPlain[d]); told > most && !l.limitedOn(&w.path, d) {
			return &Doubt{Dimension: d, Told: told, Most: most}
		}
		l.ownBudgets(&w.path, d, func(b, lowest *budget) {
			if most := b.trusted(w, lowest); found == nil && told > most {
				found = &Doubt{l.nodes[b.node].spec.ID, LimitBudget, d, told, most}
			}
		})
		l.ownRates(&w.path, d, func(s *rates.Shaper) {
			if ok, _ := s.Reported.Check(l.now, told-asked); found == nil && !ok {
				found = &Doubt{s.ID, LimitRate, d, told, asked + s.Reported.Remaining(l.now)}
			}
		})
	}
	return found
}

// countReported notes what an agent's own report adds to what was reserved. It is called before that is
// charged.
func (l *Ledger) countReported(w *reportedUsage) {
	for d := range coordinator.DimConcurrency {
		more := w.used[d] - w.asked[d]
		if more <= 0 {
			continue
		}
		l.ownBudgets(&w.path, d, func(b, lowest *budget) {
			b.beyond = min(b.beyond+b.notOwn(w, b == lowest), mostUsed)
			if w.at >= b.family.span.Start {
				b.told = min(b.told+more, mostUsed)
			}
		})
		l.ownRates(&w.path, d, func(s *rates.Shaper) { s.Reported.Take(l.now, more) })
	}
}

// limitedOn reports whether any limit of a path is of the dimension, or, of tokens, of any tokens.
func (l *Ledger) limitedOn(p *Path, d coordinator.Dimension) bool {
	const tokens = 1<<coordinator.DimInputTokens | 1<<coordinator.DimOutputTokens | 1<<coordinator.DimTotalTokens
	like := uint8(1) << d
	if like&tokens != 0 {
		like = tokens
	}
	for _, n := range p.Nodes() {
		if l.nodes[n].limited&like != 0 {
			return true
		}
	}
	return false
}

// ownBudgets visits, of every family on a path, the lowest budget that is not of nothing, with the lowest
// there is: if it is that itself, its share is the charge's own.
func (l *Ledger) ownBudgets(p *Path, d coordinator.Dimension, visit func(b, lowest *budget)) {
	var met, done [billing.MaxPath]*budget // the lowest of families
	n := 0
	for _, at := range p.Nodes() {
		b := l.nodes[at].budgets[d]
		if b == nil {
			continue
		}
		i := 0
		for i < n && met[i].family != b.family {
			i++
		}
		if i == n {
			met[n] = b
			n++
		}
		if b.base > 0 && done[i] == nil {
			done[i] = b
			visit(b, met[i])
		}
	}
}

// ownRates visits, of each tree on a path, the lowest rate that is not of nothing.
func (l *Ledger) ownRates(p *Path, d coordinator.Dimension, visit func(*rates.Shaper)) {
	done := false
	for _, n := range p.Nodes() {
		if s := l.nodes[n].rates[d]; s != nil && s.Amount > 0 && !done {
			done = true
			visit(s)
		}
		if l.nodes[n].parent < 0 {
			done = false
		}
	}
}

// trustLimit returns how much may be taken beyond what is its own, in the period, by its agents' reports
// alone.
func (b *budget) trustLimit(whole bool) int64 {
	most, own := max(b.base, b.used-b.told), int64(0)
	if whole {
		own = b.baseShare
	}
	for x := b; x != nil; x = x.up {
		if others := x.base - own; others > 0 { // else no other share loses by it
			most = min(most, others/othersKeep)
		}
		own = x.base
	}
	return most
}

// trusted returns how much a report is accepted for in all. lowest is the budget with the share that its
// charge comes out of.
func (b *budget) trusted(w *reportedUsage, lowest *budget) int64 {
	asked, whole, now := w.asked[b.dim], b == lowest, w.at >= b.family.span.Start
	most := asked
	if whole && now {
		most = max(most, b.ownLeft(w))
	}
	most += max(0, b.trustLimit(whole)-b.beyond)
	if !now { // it is charged to the period before, of which nothing is left to any node
		return most
	}
	return max(asked, min(most, arith.Add(w.booked[b.dim], max(0, lowest.spares()))))
}

// spares returns how much more may be charged to its share until one of the others, at some level, lacks more of its
// own than its part that may be taken: where all others use theirs first, it is left what the node above has left.
func (b *budget) spares() int64 {
	most := arith.NoBound
	if part := b.leastPart(nil); part < arith.NoBound {
		most = b.room() + b.agentsLeft() + part
	}
	for x := b; x.up != nil; x = x.up {
		if part := x.up.leastPart(x); part < arith.NoBound {
			most = min(most, x.left()+part)
		}
	}
	return most
}

// leastPart returns the least part that may be taken of one of those below, but for one (nil: of all), or of its own
// share where a group has one; noBound: each has used the rest of it.
func (b *budget) leastPart(but *budget) int64 {
	least := arith.NoBound
	of := func(has, used int64) {
		if part := has / othersKeep; used < has-part {
			least = min(least, part)
		}
	}
	if but != nil && !b.pool {
		of(b.share, b.spent)
	}
	for _, kid := range b.kids {
		if kid != but {
			of(kid.nominal, kid.used)
		}
	}
	return least
}

// ownLeft returns how much of its share's own is left to a report: what is lent others have.
func (b *budget) ownLeft(w *reportedUsage) int64 {
	own := max(0, min(b.share, b.baseShare)-b.lent)
	return own - b.spent - b.held.sum() + w.booked[b.dim]
}

// notOwn returns how much of what a report adds to what was granted is not its own. What comes after the
// period in which it was used is not its own any more.
func (b *budget) notOwn(w *reportedUsage, whole bool) int64 {
	more := w.used[b.dim] - w.asked[b.dim]
	if !whole || w.at < b.family.span.Start {
		return more
	}
	return max(0, min(more, w.used[b.dim]-b.ownLeft(w)))
}
