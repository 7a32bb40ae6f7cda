package fairshare

import (
	"taskbus/coordinator/fairshare/arith"
	"taskbus/coordinator/fairshare/calendar"
)

// begin starts the period in which now lies, for all of a family. What was borrowed or
// overdrawn is repaid, up to so many percent of what each has of its own, to the lenders:
//
//	nominal' = base - min(debt, percent · base) + its part of what others repay
//
// What is beyond that is forgiven, as is everything if a whole period has passed since. The bound
// holds for a node as a whole, too: where less is left to it than its parts were promised (the
// loader sees to it that none is, but a ledger takes what it is given) they pay as before, and it
// loses no more than that part of what it has. So no node is ever left with less than nothing.
func (b *budget) begin(now, percent int64) {
	next := calendar.PeriodOf(b.period, now, b.loc)
	ended, adjacent := b.span, next.Start == b.span.End
	if !adjacent {
		ended = calendar.PeriodOf(b.period, next.Start-1, b.loc)
		percent = 0
	}
	b.owe(percent)
	b.repays, b.moved = false, false
	b.repaid(0)
	b.span, b.ended = next, ended
	b.restart(adjacent)
	b.lenders()
}

// set makes the family's period that in which now lies, for one without a past.
func (b *budget) set(now int64) {
	b.find(now)
	b.restart(false)
	b.lenders()
}

// find finds the period in which now lies, and the one before it.
func (b *budget) find(now int64) {
	b.span = calendar.PeriodOf(b.period, now, b.loc)
	b.ended = calendar.PeriodOf(b.period, b.span.Start-1, b.loc)
}

// owe returns what is repaid by the share itself, and how much of what it and those below it repay leaves the
// budget. The creditors:
//
//	in       what its parts have borrowed of each other
//	out      what they have borrowed of others
//	covered  what they have overdrawn, as far as the budget as a whole was not overdrawn
//	over     what was: of this, too, those outside were deprived, up to the root of the
//	         family; what was used beyond that is lost to all
//
// What is repaid is divided in that proportion.
func (b *budget) owe(percent int64) (leaves, over int64) {
	overdrawn := max(0, -b.room())
	debt := max(0, b.borrowed-max(0, b.room())) // what it has left it might have given back
	debt += arith.MulDiv(debt, b.rule.SurchargePercent, 100) + overdrawn
	b.owes = min(debt, arith.MulDiv(b.baseShare, percent, 100))
	b.pot = b.owes
	in := b.borrowed - b.borrowedIn
	for _, kid := range b.kids {
		gets, beyond := kid.owe(percent)
		b.pot += gets
		overdrawn += beyond
		in += kid.borrowedIn
	}
	over = max(0, -b.left())
	inside, outside := max(0, in)+max(0, overdrawn-over), b.borrowedIn+over
	b.leaves = 0
	if outside > 0 {
		b.leaves = min(arith.MulDiv(b.pot, outside, inside+outside), arith.MulDiv(b.base, percent, 100))
	}
	b.pot -= b.leaves
	return b.leaves, over
}

// repaid divides what is repaid to a budget, and what stays within it, among the shares that have lent it.
func (b *budget) repaid(bonus int64) {
	weights := make([]int64, 1, len(b.kids)+1)
	weights[0] = b.lent
	any := b.lent > 0
	for _, kid := range b.kids {
		weights = append(weights, kid.lentOut)
		any = any || kid.lentOut > 0
	}
	if !any {
		weights[0] = 1
	}
	parts := arith.Apportion(b.pot+bonus, weights, nil)
	b.nominal = b.base - b.leaves + bonus
	for i, kid := range b.kids {
		kid.repaid(parts[i+1])
	}
	b.share = max(0, b.baseShare-b.owes+parts[0])
	if b.owes > 0 || b.nominal != b.base {
		b.family.repays = true
	}
}

// restart empties the books of a family for a new period.
func (b *budget) restart(adjacent bool) {
	b.before = past{}
	if adjacent {
		b.before.used, b.before.reserved = b.used, b.reserved
	}
	b.used, b.reserved, b.spent, b.held = 0, tally{}, 0, tally{}
	b.lent, b.borrowed, b.lentOut, b.borrowedIn = 0, 0, 0, 0
	b.alerted, b.told, b.beyond = 0, 0, 0
	for _, kid := range b.kids {
		kid.restart(adjacent)
	}
}
