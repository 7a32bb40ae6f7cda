package fairshare

import (
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/fairshare/arith"
	"taskbus/coordinator/fairshare/calendar"
	"taskbus/coordinator/fairshare/rates"
	"taskbus/coordinator/fairshare/seats"
)

// budget is how much a node may use of one dimension in a calendar period.
//
// The budgets of a family (one dimension, one period, a node and those below it that
// divide what it has) begin their periods together. What a node has not given to its
// children is its own share: that of a leaf is everything. What is charged to the node
// itself comes out of its share:
//
//	spent + held + lent - borrowed <= share
//
// holds for every share but for what a settlement finds to have been used beyond its
// reservation. Summed over all the shares below a node, where what one of them lends
// another has borrowed, it says that no node's budget is exceeded:
//
//	used + reserved <= nominal + borrowedIn - lentOut
//
// That is checked by itself as well, so that it holds whatever the shares say: under group_remaining, where
// members use what is others', and where a sibling has used more than it had reserved.
type budget struct {
	node   int32
	dim    coordinator.Dimension
	family *budget // its root
	up     *budget // of the family; nil: it is its root
	kids   []*budget
	spec   *coordinator.QuotaLimit
	rule   coordinator.Borrowing
	weight int64
	pool   bool // its share belongs to no group
	own    bool // an agent's, and up is its group's
	owns   bool // such budgets are among kids

	base, baseShare    int64 // nominal by the configuration
	nominal, share     int64 // of this period, after repayment
	borrowMax, lendMax int64
	most, reach        int64 // what one charge may be at most: of those below, of its own

	used, spent         int64 // by it and those below; by itself
	reserved, held      tally // likewise
	lent, borrowed      int64 // by its share
	lentOut, borrowedIn int64 // across its boundary, by it and those below
	credits             int64 // lent less borrowed, ever, across its boundary
	ownCredits          int64 // and by its own share
	before              past
	alerted             int64 // the highest threshold reached in this period, in percent
	told, beyond        int64 // by its agents' own reports in this period: in all; of that not its own (trust.go)

	span   calendar.Span // of the family's root, like the one before, period and loc
	ended  calendar.Span
	period coordinator.Period
	loc    *time.Location

	// As a lender: in which heap of its parent's it is and where, and from when on it may
	// have something. ripe and unripe are its children's.
	ripe, unripe lenderHeap
	place        int
	isRipe       bool
	ripeAt       int64

	owes        int64 // what its share has given up for the period before
	pot, leaves int64 // while a period begins

	knew known // what it could borrow when it was refused last

	// What it and those below it could lend to others, and the sum of what its children could, at
	// the moment at which the family was reckoned up, by the books as they are now (see tooLittle).
	lends, below int64

	// Of the family's root: what has been given back in it, ever; how many shares there are, whether one
	// may use what is others' without regard to them (group_remaining), whether one gives up something in
	// this period, the latest walk that has met them (see Ledger.first), what the share that it met lacks
	// and no other lends, and whether what is in its books began with another period (see restorePeriod).
	given       int64
	reckoned    int64 // when it was reckoned up what each could lend; 0: that is to be done anew
	accruing    int64 // the shares to which something accrues, reckoned up with it
	shares      int64
	usableByAll bool
	repays      bool
	walked      uint64
	lacking     int64
	moved       bool
}

// past is what became of the period before.
type past struct {
	used     int64
	reserved tally
}

// claim returns what its share is burdened with.
func (b *budget) claim() int64 { return b.spent + b.held.sum() + b.lent - b.borrowed }

// room returns what is left of its share; negative: it is in debt.
func (b *budget) room() int64 { return b.share - b.claim() }

// cap returns what it and those below may use in all, left what of that is not used.
func (b *budget) cap() int64  { return b.nominal + b.borrowedIn - b.lentOut }
func (b *budget) left() int64 { return b.cap() - b.used - b.reserved.sum() }

// succeeds reports whether what was used of another budget of the node counts for this one.
func (b *budget) succeeds(o *budget) bool {
	return b != nil && o != nil && b.family.period == o.family.period && b.family.span.Meets(o.family.span)
}

// limit makes the budgets, rates and seats of a node: those of its parents are there.
func (l *Ledger) limit(n int32) {
	nd := &l.nodes[n]
	for d := range coordinator.Dimension(coordinator.NumDimensions) {
		if q := nd.spec.Budgets[d]; q != nil {
			if b := l.newBudget(n, d, q); b != nil {
				nd.budgets[d], nd.limited = b, nd.limited|1<<d
			}
		}
		if q := nd.spec.Rates[d]; q != nil {
			var up *rates.Shaper
			for at := nd.parent; at >= 0 && up == nil; at = l.nodes[at].parent {
				up = l.nodes[at].rates[d]
			}
			if s := rates.New(n, nd.spec, q, up); s != nil {
				nd.rates[d], nd.limited = s, nd.limited|1<<d
			}
		}
	}
	if q := nd.spec.Seats; q != nil {
		var up *seats.Limit
		for at := nd.parent; at >= 0 && up == nil; at = l.nodes[at].parent {
			up = l.nodes[at].seats
		}
		nd.seats = seats.New(n, nd.spec, q, up)
	}
}

// newBudget makes the budget of a node; nil where it is a part of nothing.
func (l *Ledger) newBudget(n int32, d coordinator.Dimension, q *coordinator.QuotaLimit) *budget {
	spec := l.nodes[n].spec
	l.slab = append(l.slab, budget{node: n, dim: d, spec: q, rule: spec.Borrowing, weight: spec.Weight, place: -1})
	b := &l.slab[len(l.slab)-1]
	b.pool = spec.Kind == coordinator.QuotaPool || spec.Kind == coordinator.QuotaModel
	for up := l.nodes[n].parent; up >= 0 && b.up == nil; up = l.nodes[up].parent {
		b.up = l.budgetAt(up, d, q)
	}
	switch {
	case b.up != nil:
		b.family = b.up.family
		b.up.kids = append(b.up.kids, b)
		b.own = spec.Kind == coordinator.QuotaAgent && l.nodes[b.up.node].member == l.nodes[n].parent
		b.up.owns = b.up.owns || b.own
	case q.Nominal == coordinator.ByWeight:
		return nil
	default:
		b.family = b
		b.base, b.period, b.loc = q.Nominal, q.Period, l.Quotas().Location
		l.roots = append(l.roots, b)
	}
	b.family.shares++
	b.family.usableByAll = b.family.usableByAll || b.rule.Rule == coordinator.BorrowGroupRemaining
	return b
}

// budgetAt returns the budget of a node that one below it is a part of: for the same period, or, of a part by
// weight that does not say for which, its only one. nil: there is none.
func (l *Ledger) budgetAt(n int32, d coordinator.Dimension, part *coordinator.QuotaLimit) *budget {
	its := l.nodes[n].budgets[d]
	if its != nil && its.family.period == part.Period {
		return its
	}
	for _, other := range l.nodes[n].beside {
		if x := l.nodes[other].budgets[d]; x != nil && x.family.period == part.Period {
			return x
		}
	}
	if part.Nominal == coordinator.ByWeight {
		return its
	}
	return nil
}

// divide finds what a node's children have of their own, when its own amounts are known.
func (nd *node) divide() {
	for d := range nd.budgets {
		if b := nd.budgets[d]; b != nil {
			b.divide()
		}
		if s := nd.rates[d]; s != nil {
			s.Divide()
		}
	}
	if nd.seats != nil {
		nd.seats.Divide()
	}
}

// divide fixes the bounds of the budget, and what its children have by weight of what the
// others leave.
func (b *budget) divide() {
	b.nominal = b.base
	b.borrowMax, b.lendMax = arith.Bound(b.spec.Borrow, b.base), arith.Bound(b.spec.Lend, b.base)
	if b.rule.Rule == coordinator.BorrowNever {
		b.borrowMax = 0
	}
	parts := arith.Parts(b.base, len(b.kids), func(i int) (int64, int64) {
		return b.kids[i].spec.Nominal, b.kids[i].weight
	})
	b.baseShare = b.base
	for i, kid := range b.kids {
		kid.base = parts[i]
		b.baseShare -= kid.base
	}
	b.baseShare = max(0, b.baseShare)
	b.share = b.baseShare
}

// lendsMost returns what others may ever have of it, asLender what they may of its own share.
func (b *budget) lendsMost() int64 {
	all := b.asLender()
	for _, kid := range b.kids {
		all += kid.lendsMost()
	}
	return min(all, b.lendMax)
}

func (b *budget) asLender() int64 {
	return b.baseShare - arith.MulDiv(b.baseShare, b.rule.HeadroomPercent, 100)
}

// bounds finds what one charge may be at most, for the budget and all below it; outside is what it can have
// from beyond its boundary, without and with what belongs to no group.
func (b *budget) bounds(outside, all int64) {
	if b.most = b.base; b.up != nil {
		b.most = min(arith.Add(b.base, b.borrowMax), b.up.most)
	}
	lends, inside, others := make([]int64, len(b.kids)), int64(0), int64(0)
	for i, kid := range b.kids {
		lends[i] = kid.lendsMost()
		if inside += lends[i]; !kid.own {
			others += lends[i]
		}
	}
	switch own := b.itsOwn(); {
	case b.rule.Rule == coordinator.BorrowGroupRemaining:
		b.reach = b.most
	case b.rule.NoGlobalPool:
		b.reach = min(b.most, own+others+outside)
	default:
		b.reach = min(b.most, own+others+all)
	}
	own := b.asLender()
	for i, kid := range b.kids {
		not := inside - lends[i] + outside
		if !b.pool {
			not += own
		}
		kid.bounds(min(kid.borrowMax, not), min(kid.borrowMax, inside-lends[i]+own+all))
	}
}

// itsOwn returns what one charge to the budget itself may have of it at most, without borrowing: its share,
// and those of its own agents (see drawAgents).
func (b *budget) itsOwn() int64 {
	all := b.baseShare
	for _, kid := range b.kids {
		if kid.own {
			all += kid.base
		}
	}
	return all
}
