package fairshare

import "cmp"

// Borrower is a waiting borrower, with what decides which of several comes first (algorithms.md §1.2): its
// priority among borrowers, as configured, and then the credits of the share that borrows. A unit that was
// lent, ever, adds a credit; one that was borrowed takes one away: a share that has lent more than it
// borrowed borrows before others, and one that has borrowed much lately comes behind. Loans that are given
// back unused give the credits back.
//
// Credits are of budgets alone: lending a rate or a seat leaves the lender nothing short later. Nor are
// there any under group_remaining, where loans have no particular lender.
//
// A Borrower is good until the next Install; it is a value, and changes as the credits do.
type Borrower struct {
	priority int
	share    *budget // that is to borrow; nil: it is not a budget's that is lacking
}

// Borrower returns the borrower for a group's charge on the path that was refused so.
func (l *Ledger) Borrower(group string, p *Path, v *Verdict) Borrower {
	if v.Limit == LimitBudget {
		for _, n := range p.Nodes() { // the first of the family pays: see Ledger.first
			b := l.nodes[n].budgets[v.Dimension]
			if b != nil && l.nodes[b.family.node].spec.ID == v.Behind {
				return Borrower{b.rule.Priority, b}
			}
		}
	}
	return Borrower{priority: l.borrowPriority(group)}
}

// Priority returns what is configured; the higher goes first.
func (b Borrower) Priority() int { return b.priority }

// Compare returns -1 if b comes before c, 1 if c comes before b, and 0 if the turn decides. It takes
// O(levels).
//
// In a tree it is asked where the ways of the two from the root part: a member of a group that
// has lent comes before one of a group that has borrowed, whatever they have done within their
// groups. [Shares.Before] asks at the same place, so the two together, this one first, put the borrowers
// that wait behind the same node for the same limit and dimension into one order, if what they wait with is
// of one model. This one alone does not: x of one group may come before its sister y, and
// neither before z of another group that has as many credits as theirs. Nor do the two where the
// groups have parts of several models of a provider: turns know of no models, so that x may come
// before y of the same model by its credits, y before z of another model by its turn, and z before x.
func (b Borrower) Compare(c Borrower) int {
	if b.priority != c.priority {
		return cmp.Compare(c.priority, b.priority)
	}
	x, y := b.share, c.share
	if x == y || x == nil || y == nil || x.family != y.family {
		return 0
	}
	at, to := meet(x, y), func(b, top *budget) int64 {
		if b == top {
			return b.ownCredits
		}
		for b.up != top {
			b = b.up
		}
		return b.credits
	}
	return cmp.Compare(to(y, at), to(x, at))
}
