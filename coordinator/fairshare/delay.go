package fairshare

import (
	"math/bits"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/fairshare/arith"
	"taskbus/coordinator/fairshare/billing"
	"taskbus/coordinator/fairshare/calendar"
	"taskbus/coordinator/fairshare/rates"
	"taskbus/coordinator/fairshare/seats"
)

// Before is what may be charged to quotas before a charge, at most.
type Before struct {
	// Own is by its own group, or by agents without a group: Calls of them. All is by all groups, these
	// among them.
	Own, All coordinator.Amounts
	Calls    int64
	// Most is what one call takes at most, of those before and the charge itself, Any what any waiting call
	// takes at most.
	Most, Any coordinator.Amounts
	// Kept: what is there of a limit is not used by others, and does not lapse, while a call waits for
	// another limit. As a rule that is so, but it is not guaranteed.
	Kept bool
}

// Shortage is a limit because of which the time of a charge cannot be predicted: seats, which come back
// when something ends; or an amount of which no part, or too small a one, is its own, so that it depends on
// what others leave.
type Shortage struct {
	Node      string
	Dimension coordinator.Dimension
	Limit     Limit
}

// Delay returns for how long, at most, the limits on a path keep a charge waiting if as much is charged
// before it, one call after the other, and each takes what was asked for it. Any other call counts by
// b.All; where a node has an amount of its own by its own configuration, and only its group is charged to
// it, no other can take that, and b.Own is enough. Nothing is charged. It takes
// O(path · dimensions).
//
// # Why it holds
//
// The first call waits for one limit at a time at least. While that is a rate, the bucket is not full,
// and what flows in is not lost: it cannot refuse for longer than the time in which all that is charged
// meanwhile flows in, beyond what there is. While it is a budget, every period that begins and ends so
// has room for its amount, less what the next one did not fit into. Every limit may be the one that is
// waited for while others fill up, or begin anew, for nothing; and while what is not its own is used up
// by others, once for each call: so the times are added, and what is there now counts only of the only
// limit, and of rates that are its own. Where others wait for the same rate it may first stand behind one
// that has its turn later, until there is enough for that one. What is borrowed makes it shorter.
//
// Left out is what others borrow of its budgets while something else keeps it waiting, another limit or
// want of an agent: no more than what accrues to it in that time, and what has accrued until now. And that
// others may take seats that are free.
func (l *Ledger) Delay(now time.Time, p *Path, c *Charge, b *Before) (time.Duration, *Shortage) {
	l.advance(now.UnixNano())
	asked := *c
	billing.Tidy(&asked.Amounts)
	q := delays{l: l, charge: &asked, before: b}
	if n, known := l.GroupAt(asked.Group); known && asked.Group != "" {
		q.leafGroup = !l.nodes[n].inner
	}
	for _, n := range p.Nodes() { // by its provider's answer nothing passes before that
		q.sum = arith.Add(q.sum, max(0, l.nodes[n].health.Blocked()-l.now))
	}
	none := func(*budget, *rates.Shaper, *seats.Limit, coordinator.Dimension, bool) {}
	q.alone = b.Kept || l.limits(p, &asked, none) == 1
	l.limits(p, &asked, func(b *budget, s *rates.Shaper, t *seats.Limit, d coordinator.Dimension, nearest bool) {
		switch {
		case b != nil:
			q.budget(b)
		case s != nil:
			q.rate(s, d, nearest)
		default:
			q.seats(t)
		}
	})
	return time.Duration(q.sum), q.short
}

// limits visits those that decide about a charge, one of the three each, and counts them: the budgets of
// which it has a share, all rates that may refuse it, and the seats it takes.
func (l *Ledger) limits(p *Path, c *Charge, visit func(b *budget, s *rates.Shaper, t *seats.Limit,
	d coordinator.Dimension, nearest bool)) (n int) {
	set := dimensionsOf(&c.Amounts)
	var t turn
	l.walk()
	for _, at := range p.Nodes() {
		nd := &l.nodes[at]
		for m := nd.limited & set; m != 0; m &= m - 1 {
			d := coordinator.Dimension(bits.TrailingZeros8(m))
			if b := nd.budgets[d]; b != nil && l.first(b) {
				visit(b, nil, nil, d, true)
				n++
			}
			if s := nd.rates[d]; s != nil {
				nearest := t.rated&(1<<d) == 0
				if t.rated |= 1 << d; nearest || s.Hard || s.Ceiling.Amount > 0 {
					visit(nil, s, nil, d, nearest)
					n++
				}
			}
		}
		if nd.seats != nil && !t.sat && c.Amounts[coordinator.DimConcurrency] > 0 {
			visit(nil, nil, nd.seats, coordinator.DimConcurrency, true)
			t.sat = true
			n++
		}
		if nd.parent < 0 {
			t = turn{}
		}
	}
	return n
}

// delays adds up for how long the limits of a path keep a charge waiting.
type delays struct {
	l         *Ledger
	charge    *Charge
	before    *Before
	leafGroup bool  // nothing is charged to its group but what that does itself
	alone     bool  // there is no other limit than the one that is looked at, or none that matters
	sum       int64 // ns
	short     *Shortage
}

func (q *delays) shortage(n int32, d coordinator.Dimension, by Limit) {
	if q.short == nil {
		q.short = &Shortage{Node: q.l.nodes[n].spec.ID, Dimension: d, Limit: by}
	}
}

// isOwn reports whether nothing but what its own group does is charged to a node.
func (q *delays) isOwn(n int32) bool { return q.leafGroup && q.l.GroupOf(n) == q.charge.Group }

// at returns what may be charged before to a node.
func (q *delays) at(n int32, d coordinator.Dimension) int64 {
	if q.isOwn(n) {
		return q.before.Own[d]
	}
	return q.before.All[d]
}

// rate adds for how long a rate makes it wait. The nearest one is assured to it; those above may only
// refuse where they are hard, or have a ceiling.
func (q *delays) rate(s *rates.Shaper, d coordinator.Dimension, nearest bool) {
	if nearest && s.Amount == 0 {
		q.shortage(s.Node, d, LimitRate)
		return
	}
	own := q.isOwn(s.Node)
	before, asked, full := q.at(s.Node, d), q.charge.Amounts[d], q.alone || own
	if s.Hard && asked > s.Burst || s.Ceiling.Amount > 0 && asked > s.Ceiling.Burst {
		q.shortage(s.Node, d, LimitRate) // it never passes
		return
	}
	switch calls := arith.Add(q.before.Calls, 1); {
	case own:
	case q.alone:
		before = arith.Add(before, min(q.before.Any[d], s.Burst))
	default:
		before = arith.Add(before, arith.MulDiv(calls, min(q.before.Any[d], s.Burst), 1))
	}
	if s.Amount > 0 && (nearest || s.Hard) {
		q.sum = arith.Add(q.sum, s.Assured.Passes(q.l.now, before, asked, full))
	}
	if s.Ceiling.Amount > 0 {
		q.sum = arith.Add(q.sum, s.Ceiling.Passes(q.l.now, before, asked, full))
	}
}

// budget adds for how many periods a share makes it wait: the one out of which the charge comes.
func (q *delays) budget(b *budget) {
	left, share := b.room(), b.baseShare
	if b.rule.Rule == coordinator.BorrowGroupRemaining {
		left, share = arith.Add(b.left(), b.borrowMax-b.borrowedIn), b.most
	} else {
		for x := b; x != nil; x = x.up {
			left = min(left, x.left())
		}
	}
	q.share(b, b.node, left, share)
	if b.family.usableByAll { // what is a member's own may be used by all
		q.share(b, b.family.node, b.family.left(), b.family.base)
	}
}

// share is budget for what a node may use in each period, of which so much is left in this one.
func (q *delays) share(b *budget, node int32, left, share int64) {
	own, asked := q.isOwn(node), q.charge.Amounts[b.dim]
	all := arith.Add(q.at(node, b.dim), asked)
	share -= arith.MulDivUp(share, q.l.repay, 100) // what is repaid for the period before
	most := max(q.before.Most[b.dim], asked)
	switch {
	case (q.alone || own) && all <= min(left, share) || q.alone && all <= left:
		return
	case most > share:
		q.shortage(b.node, b.dim, LimitBudget)
		return
	}
	if !q.alone {
		left = 0 // it may lapse, or others have it first
	}
	// A period serves its share but for less than what the next one needs.
	periods, calls := arith.MulDivUp(all-max(0, left), 1, share-most+1), arith.Add(q.before.Calls, 1)
	if own { // and at least one of them
		periods = min(periods, calls)
	}
	switch {
	case q.alone:
	case own: // of this period some may have been used before
		periods = arith.Add(periods, 1)
	default: // others use it up while a call waits for something else
		periods = arith.Add(periods, calls)
	}
	q.sum = arith.Add(q.sum, b.family.span.End-q.l.now)
	q.sum = arith.Add(q.sum, arith.MulDiv(periods-1, int64(calendar.Longest(b.family.period)), 1))
}

// seats are enough, or it cannot be predicted when they come back.
func (q *delays) seats(s *seats.Limit) {
	n := q.charge.Amounts[coordinator.DimConcurrency]
	if ok, _, _ := s.Check(n); !ok || s.Available() < arith.Add(q.before.Own[coordinator.DimConcurrency], n) {
		q.shortage(s.Node, coordinator.DimConcurrency, LimitSeats)
	}
}
