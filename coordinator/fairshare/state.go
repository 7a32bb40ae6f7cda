package fairshare

import (
	"cmp"
	"slices"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/fairshare/billing"
)

// Export returns the ledger's state as records: what has been used of every node, and the
// reservations that are open or remembered. Folded into an empty ledger with the same
// quotas (see Import) they give one that answers alike.
func (l *Ledger) Export(now time.Time) []coordinator.Record {
	l.advance(now.UnixNano())
	l.forgetFormer()
	// A node without an ID stands for the ledger itself: its time.
	all := []coordinator.Record{&coordinator.QuotaBefore{Start: l.now}}
	for i := range l.nodes { // before the rates that depend on it
		if nd := &l.nodes[i]; !nd.health.Well(l.now) {
			all = append(all, nd.health.Before(nd.spec.ID, l.now))
		}
	}
	all = append(all, l.unlisted.Records(l.now)...)
	for i := range l.nodes {
		all = l.nodes[i].export(all, l.now)
	}
	for _, r := range l.former {
		all = append(all, r)
	}
	all = l.exportClosed(all)
	open := make([]*reservation, 0, len(l.open))
	for _, r := range l.open { // order does not matter: they are sorted
		if r.state == resOpen || r.until > l.now {
			open = append(open, r)
		}
	}
	slices.SortFunc(open, func(a, b *reservation) int {
		return cmp.Or(cmp.Compare(a.key[0], b.key[0]), cmp.Compare(a.key[1], b.key[1]))
	})
	for _, r := range open {
		for part := r; part != nil; part = part.later { // of the same key
			all = append(all, part.export(l, r))
		}
	}
	return all
}

// export returns the record of a reservation, or of one of its later parts, as it stands.
func (part *reservation) export(l *Ledger, r *reservation) *coordinator.QuotaReserved {
	q := r.charge.Reserved(r.key, time.Unix(0, part.at).UTC())
	q.Amounts, q.Before, q.State = part.charge.Amounts, true, uint8(r.state)
	if r.until != 0 {
		q.Until = time.Unix(0, r.until).UTC()
	}
	if r.state >= resEnded {
		return q // what it was served by makes no difference any more
	}
	for _, n := range part.loans {
		if n.amount == 0 || part.at < n.to.family.span.Start {
			continue // nothing can come back of it
		}
		loan := coordinator.QuotaLoan{To: l.nodes[n.to.node].spec.ID, Dimension: n.to.dim, Amount: n.amount}
		if n.from != nil {
			loan.From = l.nodes[n.from.node].spec.ID
		}
		q.Loans = append(q.Loans, loan)
	}
	for _, u := range part.uses {
		by := "" // none
		if u.by != nil {
			by = l.nodes[u.by.Node].spec.ID
		}
		q.Served = append(q.Served, by)
	}
	return q
}

// Fold takes over what a record says, as it was decided then: nothing is refused. The first
// one decides what time it is, so that quotas can be installed before the past is folded, at
// whatever time. It raises no alert: the alerts that were published are recorded, too.
func (l *Ledger) Fold(r coordinator.Record) {
	l.Tentatively(true)
	defer l.Tentatively(false)
	switch r := r.(type) {
	case *coordinator.QuotaReserved:
		l.foldReserved(r)
	case *coordinator.QuotaExtended:
		l.at(r.At)
		if q := l.find(r.Key); q != nil && q.state == resOpen {
			l.extend(q, r.More, r.Until, true)
		}
	case *coordinator.QuotaEnded:
		l.at(r.At)
		if q := l.find(r.Key); q != nil && r.Heard {
			by := coordinator.AgentID("")
			if r.Word != coordinator.WordBelieved {
				by = q.charge.Agent
			}
			l.Observe(&q.charge, r.Failed, r.Took, by)
		}
		l.End(r)
		l.Freed(func(int32) {})
	case *coordinator.PoolHeard:
		if !r.Before {
			l.at(r.At)
		}
		if n, ok := l.byID[r.Node]; ok {
			l.takeHeard(n, r)
		} else {
			l.unlisted.Fold(l.now, r)
		}
	case *coordinator.QuotaBefore:
		l.foldBefore(r)
	case *coordinator.QuotaTold:
		l.at(r.At)
		if b := l.budgetOf(r.Node, r.Dimension); b != nil {
			b.alerted = max(b.alerted, r.Percent)
		}
	}
}

// at sets the time to that of a record: back, too, while nothing has been charged.
func (l *Ledger) at(at time.Time) {
	now := inTime(at.UnixNano())
	if l.fresh && now < l.now {
		l.now = now
		for _, f := range l.roots {
			f.set(now)
		}
		l.nextPeriod = 0
	}
	l.fresh = false
	l.advance(now)
}

func (l *Ledger) foldReserved(r *coordinator.QuotaReserved) {
	c := billing.ChargeOf(r)
	if r.Before {
		l.restore(r, &c)
		return
	}
	l.at(r.At)
	l.Forget(r.Key) // the reserving ledger had forgotten it, or it would not have reserved
	if l.open[r.Key] != nil {
		return
	}
	p := l.PathOf(&c) // of no node, where these quotas are not those of its time: see restore
	l.reserve(r.Key, &c, &p, r.Until, true)
}

// restore takes over a reservation of a snapshot, or a later part of one: what it has
// borrowed, and the rates that it has taken from, are in the snapshot already. One that concerns no
// node now may concern one again, as long as it is open.
func (l *Ledger) restore(q *coordinator.QuotaReserved, c *Charge) {
	path := l.PathOf(c)
	l.fresh = false
	part := l.make()
	part.key, part.charge, part.path, part.at, part.state = q.Key, *c, path, q.At.UnixNano(), resState(q.State)
	part.loans = l.loansOf(q, part.loans)
	part.uses = l.ratesOf(&path, &c.Amounts, part.uses)
	for i := range part.uses {
		if i >= len(q.Served) {
			break
		}
		u := &part.uses[i]
		if q.Served[i] == "" {
			u.by = nil
		}
		for x := u.leaf; x != nil; x = x.Up {
			if l.nodes[x.Node].spec.ID == q.Served[i] {
				u.by = x
			}
		}
	}
	if r := l.open[q.Key]; r == nil {
		l.open[q.Key] = part
		l.countOpen(part, 1)
		l.endAt(part, q.Until)
	} else if !r.add(part) {
		l.drop(part)
		return
	}
	if part.state == resOpen {
		l.hold(&path, part.at, &c.Amounts, 1)
	}
}

// add appends a part unless it is there already.
func (r *reservation) add(part *reservation) bool {
	for ; ; r = r.later {
		if r.at == part.at && r.charge.Amounts == part.charge.Amounts && slices.Equal(r.uses, part.uses) {
			return false
		}
		if r.later == nil {
			r.later = part
			return true
		}
	}
}

// loansOf finds the budgets of the loans of a record.
func (l *Ledger) loansOf(q *coordinator.QuotaReserved, loans []loan) []loan {
	for _, n := range q.Loans {
		to, from := l.budgetOf(n.To, n.Dimension), l.budgetOf(n.From, n.Dimension)
		if to == nil || from == nil && n.From != "" {
			continue
		}
		one := loan{from: from, to: to, amount: n.Amount, unbacked: from == nil || from == to}
		if from != nil {
			one.top = meet(from, to)
		}
		loans = append(loans, one)
	}
	return loans
}

func (l *Ledger) budgetOf(id string, d coordinator.Dimension) *budget {
	if i, ok := l.byID[id]; ok {
		return l.nodes[i].budgets[d]
	}
	return nil
}
