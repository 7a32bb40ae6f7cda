package fairshare

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/fairshare/billing"
)

// Install takes over other quotas, nil for none. What has been used stays with the nodes of
// the same ID, for as long as their budgets have the same period, and also if they are not
// listed for a while (see former). A budget that is new begins at nothing, at this moment.
// Reservations that are open go on, charged to where they belong now. Families of budgets that
// are as they were keep their loans; in others the loans are worked out anew, and where a share that had to
// repay, or was repaid, is gone, repayment ends.
//
// A budget that is smaller now may have come to a threshold by that: Review reports it.
//
// To install the same again changes nothing, but puts right what does not fit together after
// a snapshot from the time of other quotas was folded. The counts of waiting tasks (see Wait) are
// forgotten.
func (l *Ledger) Install(now time.Time, q *coordinator.Quotas) {
	l.advance(now.UnixNano())
	old, families := l.nodes, l.roots
	l.Directory = billing.NewDirectory(q)
	l.nodes, l.byID, l.roots = nil, nil, nil
	if q != nil {
		l.repay = q.RepayPercent
		if l.alertAt = q.AlertPercents; l.alertAt == nil {
			l.alertAt = coordinator.DefaultAlertPercents()
		}
		l.build(q)
	}
	l.forgetFormer()
	l.resume() // before more are kept: of these nothing is listed
	for i := range old {
		var heir *node
		if j, stays := l.byID[old[i].spec.ID]; stays {
			heir = &l.nodes[j]
			heir.inherit(&old[i], l.now)
		}
		l.inherit(&old[i])
		l.former.keep(l.now, &old[i], heir)
		if heir == nil && !old[i].health.Well(l.now) {
			l.unlisted.Keep(l.now, old[i].spec.ID, old[i].health)
		}
	}
	l.ailing = l.ailing[:0]
	for i := range l.nodes {
		if l.nodes[i].health.Rises() != 0 {
			l.ailing = append(l.ailing, int32(i))
		}
	}
	l.nextRise()
	l.resumeHealth()
	successor := func(b *budget) *budget {
		if x := l.book(old[b.node].spec.ID, b.dim, b.family.period); x != nil {
			return x
		}
		return l.budgetOf(old[b.node].spec.ID, b.dim)
	}
	kept := make(map[*budget]bool, len(families))
	for _, f := range families {
		if g := successor(f); g != nil && g.up == nil && f.alike(g, successor) && f.sound() {
			kept[g] = true
		}
	}
	open := l.recharge(successor)
	for _, f := range l.roots {
		if f.lenders(); !kept[f] {
			l.rebook(f, open)
		}
	}
	l.nextPeriod = 0
	l.advance(l.now)
	maps.DeleteFunc(l.closed, func(k closedKey, _ []*coordinator.QuotaBefore) bool {
		return q != nil && l.budgetOf(k.node, k.dim) == nil
	})
	l.freed = l.freed[:0]
}

// book finds the budget of a node for a period, which may be beside another one now, or not any more.
// nil: there is none.
func (l *Ledger) book(id string, d coordinator.Dimension, p coordinator.Period) *budget {
	n, listed := l.byID[id]
	if at := strings.LastIndexByte(id, '@'); !listed && at >= 0 {
		n, listed = l.byID[id[:at]]
	}
	if !listed {
		return nil
	}
	n = l.nodes[n].member
	if b := l.nodes[n].budgets[d]; b != nil && b.family.period == p {
		return b
	}
	for _, beside := range l.nodes[n].beside {
		if b := l.nodes[beside].budgets[d]; b != nil && b.family.period == p {
			return b
		}
	}
	return nil
}

// inherit takes over what has been used of the budgets of a node that were configured otherwise. What goes on
// is taken out of the old one.
func (l *Ledger) inherit(old *node) {
	for d, o := range old.budgets {
		if o == nil {
			continue
		}
		if b := l.book(old.spec.ID, coordinator.Dimension(d), o.family.period); b.succeeds(o) {
			old.budgets[d] = nil
			b.used, b.spent, b.lent, b.borrowed = o.used, o.spent, o.lent, o.borrowed
			b.lentOut, b.borrowedIn, b.credits, b.ownCredits, b.owes, b.alerted = o.lentOut, o.borrowedIn, o.credits,
				o.ownCredits, o.owes, o.alerted
			b.told, b.beyond, b.before = o.told, o.beyond, o.before
			b.before.reserved = tally{} // comes again with the reservations
			b.nominal, b.share = b.base+o.nominal-o.base, b.baseShare+o.share-o.baseShare
			b.family.repays = b.family.repays || o.family.repays
			b.family.ended = o.family.ended
		}
	}
}

// inherit takes over the rates, and the health, of a node that was configured otherwise.
func (nd *node) inherit(old *node, now int64) {
	for d, s := range nd.rates {
		if o := old.rates[d]; s != nil && o != nil {
			s.Assured.Follow(now, &o.Assured)
			s.Ceiling.Follow(now, &o.Ceiling)
			s.Forgive(now, false) // it may have become a hard one
			s.Reported.Follow(now, &o.Reported)
		}
	}
	if nd.health = old.health; nd.health.Rises() != 0 {
		nd.scale(now)
	}
}

// alike reports whether a family is made as the other one, so that its books go on.
func (b *budget) alike(x *budget, successor func(*budget) *budget) bool {
	f := b.family
	if b.base != x.base || b.baseShare != x.baseShare || b.borrowMax != x.borrowMax || b.lendMax != x.lendMax ||
		b.rule != x.rule || b.pool != x.pool ||
		f.span != x.family.span || f.period != x.family.period || len(b.kids) != len(x.kids) {
		return false
	}
	for _, kid := range b.kids {
		if k := successor(kid); k == nil || k.up != x || !kid.alike(k, successor) {
			return false
		}
	}
	return true
}

// sound reports whether the books of a family fit together: what is lent within it is borrowed
// within it. (Under the simple rule more is borrowed than was lent.)
func (f *budget) sound() bool {
	ok, share, simple := f.lentOut == 0 && f.borrowedIn == 0 && !f.moved, int64(0), false
	f.each(func(b *budget) { simple = simple || b.rule.Rule == coordinator.BorrowGroupRemaining })
	f.each(func(b *budget) {
		used, net := b.spent, b.lent-b.borrowed
		for _, kid := range b.kids {
			used, net = used+kid.used, net+kid.lentOut-kid.borrowedIn
		}
		net -= b.lentOut - b.borrowedIn
		share += b.share
		ok = ok && used == b.used && (net == 0 || simple && net < 0)
	})
	return ok && share <= f.nominal
}

// each visits all of a family, parents first.
func (b *budget) each(visit func(*budget)) {
	visit(b)
	for _, kid := range b.kids {
		kid.each(visit)
	}
}

// recharge takes the reservations that may still be settled to where they belong in other trees,
// and gives them in order of their time. Of those that are only remembered, of which there may be
// many more, nothing is charged any more. successor finds a budget's place among those of now;
// nil: it has none.
func (l *Ledger) recharge(successor func(*budget) *budget) []*reservation {
	var all []*reservation
	for _, r := range l.open { // order does not matter: they are sorted
		if r.state < resEnded {
			all = append(all, r)
		} else if !r.path.Empty() {
			r.detach()
		}
	}
	slices.SortFunc(all, func(a, b *reservation) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.key[0], b.key[0]), cmp.Compare(a.key[1], b.key[1]))
	})
	for _, r := range all {
		path := l.PathOf(&r.charge)
		for part := r; part != nil; part = part.later {
			part.path = path
			part.loans = slices.DeleteFunc(part.loans, func(n loan) bool {
				return successor(n.to) == nil || n.from != nil && successor(n.from) == nil
			})
			for i := range part.loans {
				n := &part.loans[i]
				n.to = successor(n.to)
				if n.from != nil {
					n.from = successor(n.from)
					n.top = meet(n.from, n.to)
				}
			}
			part.uses = l.successors(part)
			if r.state == resOpen {
				l.hold(&part.path, part.at, &part.charge.Amounts, 1)
			}
		}
	}
	return all
}

// detach takes a reservation that has ended out of trees that are no more.
func (r *reservation) detach() {
	for part := r; part != nil; part = part.later {
		part.path, part.loans, part.uses = Path{}, nil, nil
	}
}

// successors finds the rates that stand for those that served a part of a reservation.
func (l *Ledger) successors(part *reservation) []rateUse {
	uses := l.ratesOf(&part.path, &part.charge.Amounts, nil)
	for i := range uses {
		u := &uses[i]
		for _, was := range part.uses {
			if was.dim != u.dim || was.leaf.ID != u.leaf.ID {
				continue
			}
			if was.by == nil {
				u.by = nil
				continue
			}
			for x := u.leaf; x != nil; x = x.Up {
				if x.ID == was.by.ID {
					u.by = x
				}
			}
		}
	}
	return uses
}

// meet returns where the ways from two budgets of a family to its root meet.
func meet(a, b *budget) *budget {
	for x := a; x != nil; x = x.up {
		for y := b; y != nil; y = y.up {
			if x == y {
				return x
			}
		}
	}
	return nil
}

// ratesOf lists the rates that something is charged to, each served by itself.
func (l *Ledger) ratesOf(p *Path, a *coordinator.Amounts, uses []rateUse) []rateUse {
	rated := uint8(0)
	for _, n := range p.Nodes() {
		nd := &l.nodes[n]
		for d, s := range nd.rates {
			if s != nil && a[d] > 0 && rated&(1<<d) == 0 {
				rated |= 1 << d
				uses = append(uses, rateUse{s, s, coordinator.Dimension(d)})
			}
		}
		if nd.parent < 0 {
			rated = 0
		}
	}
	return uses
}

// rebook works out anew what a family that is made otherwise has used and lent: what every share uses
// beyond what it has now it borrows as if it came to be charged now, the oldest reservations first; what no
// share can lend is overdrawn. It earns and costs no credits.
func (l *Ledger) rebook(f *budget, open []*reservation) {
	f.tidy()
	credits := make([][2]int64, 0, f.shares) // in the order of each
	f.each(func(b *budget) {
		credits = append(credits, [2]int64{b.credits, b.ownCredits})
		b.lent, b.borrowed, b.lentOut, b.borrowedIn = 0, 0, 0, 0
	})
	for _, r := range open {
		for part := r; part != nil; part = part.later {
			part.loans = slices.DeleteFunc(part.loans, func(n loan) bool { return n.to.family == f })
			if r.state != resOpen || part.at < f.span.Start {
				continue
			}
			for _, n := range part.path.Nodes() {
				if b := l.nodes[n].budgets[f.dim]; b != nil && b.family == f { // the first of it
					l.cover(b, min(-b.room(), part.charge.Amounts[f.dim]))
					part.loans = append(part.loans, l.loans...)
					break
				}
			}
		}
	}
	f.each(func(b *budget) { l.cover(b, -b.room()) })
	l.loans = l.loans[:0] // these are not given back
	f.each(func(b *budget) {
		b.credits, b.ownCredits = credits[0][0], credits[0][1]
		credits = credits[1:]
	})
	f.lenders()
}

// cover borrows what a share lacks, by its rule, into l.loans.
func (l *Ledger) cover(b *budget, lacking int64) {
	l.loans = l.loans[:0]
	switch lacking = l.drawAgents(b, lacking, math.MaxInt32); {
	case lacking <= 0 || b.rule.Rule == coordinator.BorrowNever:
	case b.rule.Rule == coordinator.BorrowGroupRemaining:
		l.borrowRemaining(b, 0, lacking)
	default:
		l.borrow(b, lacking, math.MaxInt32)
	}
}

// tidy makes the sums of a family fit: what a node has used and none of those below it, it has
// used itself. What is repaid in this period stays only if it fits as well.
func (f *budget) tidy() {
	if f.sumShares(); f.nominal > f.base || f.short() {
		f.repays = false
		f.each(func(b *budget) { b.nominal, b.share, b.owes = b.base, b.baseShare, 0 })
	}
}

func (b *budget) sumShares() {
	b.nominal = b.share
	below := int64(0)
	for _, kid := range b.kids {
		kid.sumShares()
		b.nominal += kid.nominal
		below += kid.used
	}
	b.used = max(b.used, below) // a limit that is new knows of what is below it
	b.spent = b.used - below
}

// short reports whether a share has come to be less than nothing.
func (b *budget) short() bool {
	if b.share < 0 {
		return true
	}
	return slices.ContainsFunc(b.kids, (*budget).short)
}
