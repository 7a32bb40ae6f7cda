package fairshare

import (
	"math/bits"
	"time"

	"taskbus/coordinator"
)

// Before is what may be charged to quotas before a charge, at most.
type Before struct {
	// Own is by its own group: Calls of them. All is by everybody, its own group among them.
	Own, All coordinator.Amounts
	Calls    int64
	// Most is what one call takes at most, of those before and the charge itself, Any what one
	// of anybody's does that waits.
	Most, Any coordinator.Amounts
}

// Shortage is a limit because of which nobody can tell when there is room for a charge: seats, which
// come back when something ends; or an amount of which no part, or too small a one, is its own, so that
// it depends on what others leave.
type Shortage struct {
	Node      string
	Dimension coordinator.Dimension
	Limit     Limit
}

// Delay tells for how long, at most, the limits on a path keep a charge waiting if as much is charged
// before it, one call after the other, and each takes what was asked for it. Whoever else comes counts
// by b.All; where a node has an amount of its own by its own configuration, and no other group is
// charged to it, nobody else can take that, and b.Own is enough. Nothing is charged. It takes
// O(nodes + path · dimensions).
//
// # Why it holds
//
// Whoever is first waits for one limit at a time at least. While that is a rate, the bucket is not full,
// and what flows in is not lost: it cannot refuse for longer than the time in which all that is charged
// meanwhile flows in, beyond what there is. While it is a budget, every period that begins and ends so
// has room for its amount, less what the next one did not fit into. Every limit may be the one that is
// waited for while the others fill up for nothing, or are used up by others where they are not its own,
// once for each call: so the times are added, and what is there now counts only of what is its own, or
// of the only limit. Where others wait for the same rate it may first stand behind one whose turn comes
// later, until there is enough for that one. What is borrowed makes it shorter.
//
// Left out is what others borrow of its budgets while something else keeps it waiting, another limit or
// want of an agent: no more than what accrues to it in that time, and what has accrued until now.
func (l *Ledger) Delay(now time.Time, p *Path, c *Charge, b *Before) (time.Duration, *Shortage) {
	l.advance(now.UnixNano())
	asked := *c
	tidy(&asked.Amounts)
	q := delays{l: l, charge: &asked, before: b, leafGroup: l.isLeafGroup(asked.Group)}
	q.alone = l.limits(p, &asked, func(*budget, *shaper, *seats, coordinator.Dimension, bool) {}) == 1
	l.limits(p, &asked, func(b *budget, s *shaper, t *seats, d coordinator.Dimension, nearest bool) {
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
func (l *Ledger) limits(p *Path, c *Charge, visit func(b *budget, s *shaper, t *seats, d coordinator.Dimension, nearest bool)) (n int) {
	set := dimensionsOf(&c.Amounts)
	var t turn
	l.walk()
	for _, at := range p.list() {
		nd := &l.nodes[at]
		for m := nd.limited & set; m != 0; m &= m - 1 {
			d := coordinator.Dimension(bits.TrailingZeros8(m))
			if b := nd.budgets[d]; b != nil && l.first(b) {
				visit(b, nil, nil, d, true)
				n++
			}
			if s := nd.rates[d]; s != nil {
				nearest := t.rated&(1<<d) == 0
				if t.rated |= 1 << d; nearest || s.hard || s.ceiling.amount > 0 {
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

// isLeafGroup tells whether no group is part of this one: all that is charged to its nodes is its own.
func (l *Ledger) isLeafGroup(name string) bool {
	at, known := l.routes.groups[name]
	if !known || name == "" {
		return false
	}
	for i := range l.nodes {
		if l.nodes[i].parent == at && l.nodes[i].spec.Kind == coordinator.QuotaGroup {
			return false
		}
	}
	return true
}

// delays adds up for how long the limits of a path keep a charge waiting.
type delays struct {
	l         *Ledger
	charge    *Charge
	before    *Before
	leafGroup bool
	alone     bool  // there is no other limit than the one that is looked at
	sum       int64 // ns
	short     *Shortage
}

func (q *delays) shortage(n int32, d coordinator.Dimension, by Limit) {
	if q.short == nil {
		q.short = &Shortage{Node: q.l.nodes[n].spec.ID, Dimension: d, Limit: by}
	}
}

// isOwn tells whether nothing but what its own group does is charged to a node.
func (q *delays) isOwn(n int32) bool { return q.leafGroup && q.l.GroupOf(n) == q.charge.Group }

// at is what may be charged before to a node.
func (q *delays) at(n int32, d coordinator.Dimension) int64 {
	if q.isOwn(n) {
		return q.before.Own[d]
	}
	return q.before.All[d]
}

// rate adds for how long a rate makes it wait. The nearest one is assured to it; those above may only
// refuse where they are hard, or have a ceiling.
func (q *delays) rate(s *shaper, d coordinator.Dimension, nearest bool) {
	if nearest && s.amount == 0 {
		q.shortage(s.node, d, LimitRate)
		return
	}
	own := q.isOwn(s.node)
	before, asked, full := q.at(s.node, d), q.charge.Amounts[d], q.alone || own
	switch calls := saturate(q.before.Calls, 1); {
	case own:
	case q.alone:
		before = saturate(before, min(q.before.Any[d], s.burst))
	default:
		before = saturate(before, mulDiv(calls, min(q.before.Any[d], s.burst), 1))
	}
	if s.amount > 0 && (nearest || s.hard) {
		q.sum = saturate(q.sum, s.assured.passes(q.l.now, before, asked, full))
	}
	if s.ceiling.amount > 0 {
		q.sum = saturate(q.sum, s.ceiling.passes(q.l.now, before, asked, full))
	}
}

// rounding is for a million calls, each of which is charged to the next ns.
const rounding = int64(time.Millisecond)

// passes is after how many ns, at most, the cost passes if as much is taken before as soon as it may be.
// Unless what is in the bucket is kept for these, somebody else may have it first.
func (r *rate) passes(now, before, cost int64, kept bool) int64 {
	flows := mulDivUp(before, r.per, r.amount)
	if flows > longest {
		return noBound
	}
	lag := max(now, r.tat) - now
	if !kept {
		lag = max(lag, r.tau)
	}
	wait := lag + flows + r.increment(min(cost, r.burst)) - r.tau
	if wait <= 0 {
		return 0
	}
	return wait + rounding
}

// budget adds for how many periods a share makes it wait: the one out of which the charge comes.
func (q *delays) budget(b *budget) {
	left, share, node := b.room(), b.baseShare, b.node
	if q.anyoneTakes(b) { // what is a member's own is anybody's
		left, share, node = b.family.left(), b.family.base, b.family.node
	}
	for x := b; x != nil; x = x.up {
		left = min(left, x.left())
	}
	own := q.isOwn(node)
	if !own && !q.alone {
		left = 0 // others may have it first
	}
	lacks := saturate(q.at(node, b.dim), q.charge.Amounts[b.dim]) - max(0, left)
	if lacks <= 0 {
		return
	}
	share -= mulDivUp(share, q.l.repay, 100) // what is repaid for the period before
	most := max(q.before.Most[b.dim], q.charge.Amounts[b.dim])
	if most > share {
		q.shortage(b.node, b.dim, LimitBudget)
		return
	}
	// A period serves its share but for less than what the next one needs.
	periods, calls := mulDivUp(lacks, 1, share-most+1), saturate(q.before.Calls, 1)
	switch {
	case own: // and at least one of them
		periods = min(periods, calls)
	case !q.alone: // others use it up while a call waits for something else
		periods = saturate(periods, calls)
	}
	q.sum = saturate(q.sum, b.family.span.end-q.l.now)
	q.sum = saturate(q.sum, mulDiv(periods-1, int64(longestOf(b.family.period)), 1))
}

// anyoneTakes tells whether a member of the budget's family may take what is others' without regard to
// what they will need.
func (q *delays) anyoneTakes(b *budget) bool {
	if b.rule.Rule == coordinator.BorrowGroupRemaining {
		return true
	}
	for _, kid := range b.family.kids {
		if kid.takesAny() {
			return true
		}
	}
	return false
}

func (b *budget) takesAny() bool {
	if b.rule.Rule == coordinator.BorrowGroupRemaining {
		return true
	}
	for _, kid := range b.kids {
		if kid.takesAny() {
			return true
		}
	}
	return false
}

// longestOf is how long a period may be.
func longestOf(p coordinator.Period) time.Duration {
	const day = 24 * time.Hour
	switch p.Unit {
	case coordinator.PerMinute:
		return time.Minute
	case coordinator.PerHour:
		return time.Hour
	case coordinator.PerDay:
		return day + time.Hour // when the clock goes back
	case coordinator.PerWeek:
		return 7*day + time.Hour
	case coordinator.PerMonth:
		return 31*day + time.Hour
	case coordinator.PerYear:
		return 366*day + time.Hour
	default:
		return p.Interval
	}
}

// seats are enough, or nobody can tell when they come back.
func (q *delays) seats(s *seats) {
	n := q.charge.Amounts[coordinator.DimConcurrency]
	if s.available() < saturate(q.before.Own[coordinator.DimConcurrency], n) {
		q.shortage(s.node, coordinator.DimConcurrency, LimitSeats)
	}
}
