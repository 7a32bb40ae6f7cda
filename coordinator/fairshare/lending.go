package fairshare

import (
	"cmp"
	"slices"

	"taskbus/coordinator/fairshare/arith"
	"taskbus/coordinator/heap"
)

// What has been spent cannot be taken back, so a budget lends only what its owner has not
// used of what has accrued to it so far (algorithms.md §1.2):
//
//	accrued  = share · (now - start) / (end - start)
//	lendable = min(bound on lending, accrued - spent - held - lent - headroom), at least 0
//
// An owner that comes back at any moment finds share - accrued or more, which is its nominal
// rate for the rest of the period. How it is repaid: see begin.

// loan is an amount of a budget that one share has from another.
type loan struct {
	from, to, top *budget // top: where the ways to them part
	amount        int64
	// unbacked: no share stands behind it (group_remaining). It is from what is left of its
	// own node (from is to) or of the one above (from is nil).
	unbacked bool
}

func (n loan) make()                 { n.move(n.amount) }
func (n loan) giveBack(amount int64) { n.move(-amount) }

func (n loan) move(x int64) {
	n.to.borrowed += x
	if n.unbacked {
		if n.from == nil {
			n.to.borrowedIn += x
		}
		n.to.reckonUp()
		return
	}
	n.to.ownCredits -= x
	for b := n.to; b != n.top; b = b.up {
		b.borrowedIn += x
		b.credits -= x
		b.replace()
	}
	n.from.lent += x
	n.from.ownCredits += x
	for b := n.from; b != n.top; b = b.up {
		b.lentOut += x
		b.credits += x
		b.replace()
	}
	if x < 0 {
		n.from.riper()
	}
	n.to.reckonUp()
	n.from.reckonUp()
}

// lenderHeap are the children of a budget that may lend.
type lenderHeap = heap.Heap[*budget]

// lenders files all budgets of a family as lenders.
func (b *budget) lenders() {
	b.family.reckoned = 0
	place := func(x *budget, i int) { x.place = i }
	b.ripe = lenderHeap{Place: place, Before: func(x, y *budget) bool { // the share that has lent least, lends first
		if x.credits != y.credits {
			return x.credits < y.credits
		}
		return x.node < y.node
	}}
	b.unripe = lenderHeap{Place: place, Before: func(x, y *budget) bool {
		if x.ripeAt != y.ripeAt {
			return x.ripeAt < y.ripeAt
		}
		return x.node < y.node
	}}
	for _, kid := range b.kids {
		kid.lenders()
		kid.isRipe = true
		b.ripe.Push(kid)
	}
}

// replace moves a lender to its place after its credits have changed.
func (b *budget) replace() {
	if b.up != nil && b.place >= 0 && b.isRipe {
		b.up.ripe.Fix(b.place)
	}
}

// riper notes that the budget may have something to lend earlier than was thought.
func (b *budget) riper() {
	for ; b.up != nil; b = b.up {
		if b.place >= 0 && !b.isRipe {
			b.ripeAt = 0
			b.up.unripe.Fix(b.place)
		}
	}
}

// accrued returns what has accrued to the share so far. What belongs to no group is there at once.
func (b *budget) accrued(now int64) int64 {
	if b.pool {
		return b.share
	}
	s := b.family.span
	return arith.MulDiv(b.share, min(now, s.End)-s.Start, s.End-s.Start)
}

// keeps returns what its share cannot lend.
func (b *budget) keeps() int64 {
	return b.spent + b.held.sum() + b.lent + arith.MulDiv(b.share, b.rule.HeadroomPercent, 100)
}

// lendable returns what the share could lend now.
func (b *budget) lendable(now int64) int64 { return max(0, b.accrued(now)-b.keeps()) }

// ripens returns when the budget, or one below it, may have something to lend: it never is sooner, unless
// something is given back (see riper).
func (b *budget) ripens(now int64) int64 {
	if b.lentOut >= b.lendMax || b.left() <= 0 {
		return b.family.span.End
	}
	return min(b.ripensItself(now), b.ripensBelow(now))
}

func (b *budget) ripensItself(now int64) int64 {
	s := b.family.span
	keeps := b.keeps()
	switch {
	case keeps >= b.share:
		return s.End
	case b.pool:
		return now + 1
	}
	return max(now+1, min(s.End, s.Start+arith.MulDivUp(keeps+1, s.End-s.Start, b.share)))
}

// ripensBelow returns when the first of its children does. What is filed of them may be too soon by
// what they have used since.
func (b *budget) ripensBelow(now int64) int64 {
	if b.ripe.Len() > 0 {
		return now + 1
	}
	for b.unripe.Len() > 0 {
		first := b.unripe.Items[0]
		at := first.ripens(now)
		if at == first.ripeAt {
			return at
		}
		first.ripeAt = at
		b.unripe.Fix(0)
	}
	return b.family.span.End
}

// mostLenders is of how many a charge borrows in one budget: a loan of each costs 2 µs, in which nothing else
// is decided, and its place in the journal. What so many have together is more than one call needs.
const mostLenders = 1024

// borrow finds what the share of b lacks, of the nearest shares first, and of these of those that have lent
// least: most of them. The loans are made, and appended to l.loans; what is
// still lacking is returned, and l.ripens is when some of that may be there.
func (l *Ledger) borrow(b *budget, lacking int64, most int) int64 {
	l.ripens, l.loansMost = b.family.span.End, len(l.loans)+most
	if len(b.kids) > 0 { // its own children's
		lacking -= l.borrowOf(b, nil, b, b, lacking)
	}
	room, from := arith.NoBound, b
	for up := b.up; up != nil && lacking > 0; from, up = up, up.up {
		if room = min(room, from.borrowMax-from.borrowedIn); room <= 0 {
			return lacking
		}
		before, ripens := lacking, l.ripens
		if !up.pool || !b.rule.NoGlobalPool {
			lacking = l.lend(up, b, up, min(lacking, room, up.lendable(l.now)), lacking)
			l.ripens = min(l.ripens, up.ripensItself(l.now))
		}
		if more := min(lacking, room-(before-lacking)); more > 0 {
			lacking -= l.borrowOf(up, from, b, up, more)
		}
		if room < before { // whatever accrues out there, so much may not be borrowed
			l.ripens = ripens
		}
		room -= before - lacking
	}
	return lacking
}

// lend makes one loan, if there is anything to it, and returns what is still lacking.
func (l *Ledger) lend(from, to, top *budget, amount, lacking int64) int64 {
	if amount <= 0 {
		return lacking
	}
	n := loan{from: from, to: to, top: top, amount: amount}
	n.make()
	l.loans = append(l.loans, n)
	return lacking - amount
}

// drawAgents has the share of a group take what it lacks out of those of its own agents, of the one
// that has most left first, in at most so many loans. The agents' parts are a division of what is the
// group's, so that its calls, and tasks, without an agent have all that these have not used: whatever
// has accrued to them, and whatever they lend to others. The loans are appended to l.loans; what is
// still lacking is returned.
func (l *Ledger) drawAgents(b *budget, lacking int64, most int) int64 {
	if !b.owns || lacking <= 0 {
		return lacking
	}
	from, left := (*budget)(nil), int64(0)
	for _, kid := range b.kids {
		if x := kid.forGroup(); x > left {
			from, left = kid, x
		}
	}
	if left >= lacking {
		return l.lend(from, b, b, lacking, lacking)
	}
	all := make([]*budget, 0, len(b.kids))
	for _, kid := range b.kids {
		if kid.forGroup() > 0 {
			all = append(all, kid)
		}
	}
	slices.SortFunc(all, func(x, y *budget) int {
		return cmp.Or(cmp.Compare(y.forGroup(), x.forGroup()), cmp.Compare(x.node, y.node))
	})
	for _, kid := range all[:min(len(all), most)] {
		lacking = l.lend(kid, b, b, min(lacking, kid.forGroup()), lacking)
	}
	return lacking
}

// forGroup returns what an agent has left that its group may have; 0 of others.
func (b *budget) forGroup() int64 {
	if !b.own {
		return 0
	}
	return max(0, min(b.room(), b.left()))
}

// agentsLeft returns what all of its own agents have left.
func (b *budget) agentsLeft() (all int64) {
	if !b.owns {
		return 0
	}
	for _, kid := range b.kids {
		all += kid.forGroup()
	}
	return all
}

// borrowOf borrows so much of the children of at, but for one, and returns how much it got.
func (l *Ledger) borrowOf(at, but, to, top *budget, want int64) (got int64) {
	if but != nil {
		but.file().Remove(but.place)
	}
	for at.unripe.Len() > 0 && at.unripe.Items[0].ripeAt <= l.now {
		kid := at.unripe.Remove(0)
		kid.isRipe = true
		at.ripe.Push(kid)
	}
	for got < want && at.ripe.Len() > 0 && len(l.loans) < l.loansMost {
		kid := at.ripe.Items[0]
		x := l.borrowBelow(kid, to, top, want-got)
		if got += x; x == 0 {
			at.ripe.Remove(kid.place)
			kid.isRipe, kid.ripeAt = false, kid.ripens(l.now)
			at.unripe.Push(kid)
		}
	}
	if got < want {
		l.ripens = min(l.ripens, at.ripensBelow(l.now))
	}
	if but != nil {
		but.file().Push(but)
	}
	return got
}

// file returns the heap of its parent's in which it is as a lender.
func (b *budget) file() *lenderHeap {
	if b.isRipe {
		return &b.up.ripe
	}
	return &b.up.unripe
}

// borrowBelow borrows so much of a budget and those below it, and no more than the budget has
// left in all: some of it may have been used beyond the shares.
func (l *Ledger) borrowBelow(b, to, top *budget, want int64) int64 {
	if want = min(want, b.lendMax-b.lentOut, b.left()); want <= 0 {
		return 0
	}
	left := l.lend(b, to, top, min(want, b.lendable(l.now)), want)
	if left > 0 && len(b.kids) > 0 {
		left -= l.borrowOf(b, nil, to, top, left)
	}
	return want - left
}

// borrowRemaining lends a share what its node has left, and then what the one above has, by
// FAIR-SHARE's simple rule; false if that is more than the node may borrow. Whether the one
// above has so much left is checked there.
func (l *Ledger) borrowRemaining(b *budget, amount, lacking int64) bool {
	above := min(lacking, max(0, amount-b.left()))
	if above > 0 && (b.up == nil || above > b.borrowMax-b.borrowedIn) {
		return false
	}
	for _, n := range [...]loan{{from: b, to: b, top: b, amount: lacking - above, unbacked: true},
		{to: b, amount: above, unbacked: true}} {
		if n.amount > 0 {
			n.make()
			l.loans = append(l.loans, n)
		}
	}
	return true
}

// undo takes back the loans of a check that ended in a refusal.
func (l *Ledger) undo() {
	for i := len(l.loans) - 1; i >= 0; i-- {
		l.loans[i].giveBack(l.loans[i].amount)
	}
	l.loans = l.loans[:0]
}
