package fairshare

import (
	"math/bits"

	"taskbus/coordinator"
)

// commit charges the path. The rates are those that the check found; one that none serves (a charge
// that must be made whatever the check says) is in debt.
func (l *Ledger) commit(p *Path, a *coordinator.Amounts, uses []rateUse) {
	l.hold(p, l.now, a, 1)
	l.watchAll(p, dimensionsOf(a))
	for i := range uses {
		if u := &uses[i]; u.by == nil {
			u.leaf.Owe(l.now, a[u.dim])
		} else {
			u.leaf.Take(l.now, a[u.dim], u.by)
		}
	}
}

// hold reserves amounts in the budgets of the period of that moment, and in the seats, or
// (sign -1) gives them up.
func (l *Ledger) hold(p *Path, at int64, a *coordinator.Amounts, sign int64) {
	asked := dimensionsOf(a)
	l.walk()
	for _, n := range p.Nodes() {
		nd := &l.nodes[n]
		for m := nd.limited & asked; m != 0; m &= m - 1 {
			d := coordinator.Dimension(bits.TrailingZeros8(m))
			b := nd.budgets[d]
			switch {
			case b == nil:
			case at >= b.family.span.Start:
				b.reserved.add(a[d], sign)
				if l.first(b) {
					b.held.add(a[d], sign)
					if sign < 0 {
						b.family.given += min(a[d], mostGiven)
						b.riper()
					}
				}
				b.reckonAgain()
			case at >= b.family.ended.Start:
				b.before.reserved.add(a[d], sign)
			}
		}
	}
	if n := a[coordinator.DimConcurrency]; n > 0 {
		for s := range l.seatsOf(p) {
			s.Take(sign * n)
		}
	}
}

// spend notes what was used of what had been reserved and is given up just now, in the period
// of that moment. What was used longer ago than in the period before has no place in the books.
func (l *Ledger) spend(p *Path, at int64, a, reserved *coordinator.Amounts) {
	asked := dimensionsOf(a)
	l.walk()
	for _, n := range p.Nodes() {
		nd := &l.nodes[n]
		for m := nd.limited & asked; m != 0; m &= m - 1 {
			d := coordinator.Dimension(bits.TrailingZeros8(m))
			b := nd.budgets[d]
			switch {
			case b == nil:
			case at >= b.family.span.Start:
				b.used = min(b.used+a[d], mostUsed)
				if l.first(b) {
					b.spent = min(b.spent+a[d], mostUsed)
					b.family.given -= min(a[d], reserved[d], mostGiven)
				}
				b.reckonAgain()
				l.watch(b)
			case at >= b.family.ended.Start:
				b.before.used = min(b.before.used+a[d], mostUsed)
			}
		}
	}
}
