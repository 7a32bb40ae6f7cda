package fairshare

import (
	"math/bits"

	"taskbus/coordinator"
)

// settle takes what was reserved off all nodes, and puts what was used in its place. An
// expired reservation holds nothing any more.
func (l *Ledger) settle(r *reservation, used coordinator.Amounts) {
	all := used
	expired := r.state == resExpired
	for part := r; part != nil; part = part.later {
		its := part.portion(&used)
		l.settlePart(part, &its, expired)
	}
	l.chargeUnasked(r, &all)
	l.free(&r.path)
}

// portion takes off what was used the part that belongs to this part of the reservation: what
// was reserved by it, and all that is left if no later one has reserved the same.
func (part *reservation) portion(used *coordinator.Amounts) (its coordinator.Amounts) {
	for d := range used {
		more := false
		for x := part.later; x != nil && !more; x = x.later {
			more = x.charge.Amounts[d] > 0
		}
		its[d] = used[d]
		if more {
			its[d] = min(used[d], part.charge.Amounts[d])
		}
		used[d] -= its[d]
	}
	return its
}

func (l *Ledger) settlePart(part *reservation, used *coordinator.Amounts, expired bool) {
	reserved := part.charge.Amounts
	if expired {
		reserved = coordinator.Amounts{}
	} else {
		l.hold(&part.path, part.at, &reserved, -1)
	}
	l.spend(&part.path, part.at, used, &reserved)
	for i := len(part.loans) - 1; i >= 0; i-- { // the latest first
		n := &part.loans[i]
		if part.at < n.to.family.span.Start {
			continue // of a period that has ended
		}
		if x := min(n.amount, n.to.room()); x > 0 {
			l.giveBack(n, x)
		}
	}
	l.drawSpent(&part.path, part.at, dimensionsOf(used))
	for _, u := range part.uses {
		switch x, y := reserved[u.dim], used[u.dim]; {
		case u.by == nil: // what it owes stands, also if it has expired: it is not known how much of it was charged
			u.leaf.Owe(l.now, max(0, y-part.charge.Amounts[u.dim]))
		case x != y:
			u.leaf.Correct(l.now, x, y, u.by)
		}
	}
}

// drawSpent has the shares that a charge came out of take what they have overdrawn of their own agents:
// what was used is as much theirs as what is set aside. That is not given back.
func (l *Ledger) drawSpent(p *Path, at int64, used uint8) {
	l.walk()
	for _, n := range p.Nodes() {
		for m := l.nodes[n].limited & used; m != 0; m &= m - 1 {
			if b := l.nodes[n].budgets[bits.TrailingZeros8(m)]; b != nil && l.first(b) && at >= b.family.span.Start {
				l.drawAgents(b, -b.room(), mostLenders)
				l.loans = l.loans[:0]
			}
		}
	}
}

// giveBack takes back so much of a loan of a reservation.
func (l *Ledger) giveBack(n *loan, x int64) {
	n.giveBack(x)
	l.freeLender(n)
	n.amount -= x
	n.to.family.given += 2 * x // the borrower has more room to borrow, the lender more to lend
}

// freeLender marks the lender of a loan as freed: groups that wait for what their share, or one below it,
// lent stand beside the path of the share that gives it back.
func (l *Ledger) freeLender(n *loan) {
	if n.unbacked { // it had no lender
		return
	}
	for b := n.from; b != n.top; b = b.up {
		l.freeNode(b.node)
	}
}

// chargeUnasked charges rates with what was used of dimensions of which nothing was reserved.
func (l *Ledger) chargeUnasked(r *reservation, used *coordinator.Amounts) {
	asked := uint8(0)
	for part := r; part != nil; part = part.later {
		asked |= dimensionsOf(&part.charge.Amounts)
	}
	rest := dimensionsOf(used) &^ asked
	if rest == 0 {
		return
	}
	l.uses = l.ratesOf(&r.path, used, l.uses[:0])
	for _, u := range l.uses {
		if rest&(1<<u.dim) != 0 {
			u.leaf.Correct(l.now, 0, used[u.dim], u.leaf)
		}
	}
}

// Withdraw undoes a reservation that was made in this moment, before its answer was sent: the books are
// then as if it had never been made. Release leaves what it has borrowed with the earlier debtor.
func (l *Ledger) Withdraw(key coordinator.TaskKey) {
	r := l.open[key]
	if r == nil || r.state != resOpen {
		return
	}
	l.hold(&r.path, r.at, &r.charge.Amounts, -1)
	for i := len(r.loans) - 1; i >= 0; i-- {
		l.giveBack(&r.loans[i], r.loans[i].amount)
	}
	for _, u := range r.uses {
		u.leaf.Correct(l.now, r.charge.Amounts[u.dim], 0, u.by)
	}
	l.free(&r.path)
	l.end(r, resEnded, false)
}
