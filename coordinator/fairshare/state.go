package fairshare

import (
	"cmp"
	"slices"
	"time"

	"taskbus/coordinator"
)

// Export gives the ledger's state as records: what has been used of every node, and the
// reservations that are open or remembered. Folded into an empty ledger with the same
// quotas (see Import) they give one that answers alike.
func (l *Ledger) Export(now time.Time) []coordinator.Record {
	l.advance(now.UnixNano())
	// A node without an ID stands for the ledger itself: its time.
	all := []coordinator.Record{&coordinator.QuotaBefore{Start: l.now}}
	for i := range l.nodes { // before the rates that depend on it
		if nd := &l.nodes[i]; !nd.health.well(l.now) {
			all = append(all, nd.healthBefore(l.now))
		}
	}
	for i := range l.nodes {
		all = l.nodes[i].export(all, l.now)
	}
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

func (nd *node) export(all []coordinator.Record, now int64) []coordinator.Record {
	id := nd.spec.ID
	for _, b := range nd.budgets {
		if b != nil && (!b.blank() || b.up == nil) { // of a root at least of which period its family's books are
			all = append(all, b.export(id))
		}
	}
	for d, s := range nd.rates {
		if s == nil {
			continue
		}
		assured, ceiling := s.assured.since(now), s.ceiling.since(now)
		if assured != 0 || ceiling != 0 {
			all = append(all, &coordinator.QuotaBefore{
				Node: id, Dimension: coordinator.Dimension(d), Rate: true, Values: []int64{assured, ceiling},
			})
		}
	}
	return all
}

// export is the record of a budget. The last five values tell its period, with lengths instead of
// instants, which take less room.
func (b *budget) export(node string) *coordinator.QuotaBefore {
	s, p := b.family.span, b.family.period
	return &coordinator.QuotaBefore{Node: node, Dimension: b.dim, Start: s.start, Values: []int64{
		b.used, b.spent, b.lent, b.borrowed, b.lentOut, b.borrowedIn, b.credits, b.nominal - b.base, b.share - b.baseShare, b.owes, b.alerted,
		b.before.used, b.ownCredits, int64(p.Unit), int64(p.Interval), s.end - s.start, s.start - b.family.ended.start,
	}}
}

// blank tells that there is nothing to say of it.
func (b *budget) blank() bool {
	return b.used|b.spent|b.lent|b.borrowed|b.lentOut|b.borrowedIn|b.credits|b.ownCredits|b.owes|b.alerted|b.before.used == 0 && b.nominal == b.base && b.share == b.baseShare
}

// export is the record of a reservation, or of one of its later parts, as it stands.
func (part *reservation) export(l *Ledger, r *reservation) *coordinator.QuotaReserved {
	q := r.charge.Reserved(r.key, time.Unix(0, part.at).UTC())
	q.Amounts, q.Before, q.State = part.charge.Amounts, true, uint8(r.state)
	if r.until != 0 {
		q.Until = time.Unix(0, r.until).UTC()
	}
	for _, n := range part.loans {
		if n.amount == 0 || part.at < n.to.family.span.start {
			continue // nothing can come back of it
		}
		loan := coordinator.QuotaLoan{To: l.nodes[n.to.node].spec.ID, Dimension: n.to.dim, Amount: n.amount}
		if n.from != nil {
			loan.From = l.nodes[n.from.node].spec.ID
		}
		q.Loans = append(q.Loans, loan)
	}
	for _, u := range part.uses {
		q.Served = append(q.Served, l.nodes[u.by.node].spec.ID)
	}
	return q
}

// Fold takes over what a record says, as it was decided then: nothing is refused. The first
// one decides what time it is, so that quotas can be installed before the past is folded, at
// whatever time.
func (l *Ledger) Fold(r coordinator.Record) {
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
			l.Observe(&q.charge, r.Failed, r.Took)
		}
		switch r.How {
		case coordinator.QuotaExpired:
			l.Expire(r.At, r.Key)
		case coordinator.QuotaReleased:
			l.Release(r.At, r.Key, r.Keep)
		default:
			l.Settle(r.At, r.Key, r.Used, r.Keep)
		}
		l.Freed(func(int32) {})
	case *coordinator.PoolHeard:
		if !r.Before {
			l.at(r.At)
		}
		if n, ok := l.byID[r.Node]; ok {
			l.takeHeard(n, r)
		}
	case *coordinator.QuotaBefore:
		if i, ok := l.byID[r.Node]; ok {
			l.nodes[i].restore(r)
		} else if r.Node == "" {
			l.at(time.Unix(0, r.Start))
		}
	}
	l.alerts = l.alerts[:0]
}

// at sets the time to that of a record: back, too, while nothing has been charged.
func (l *Ledger) at(at time.Time) {
	now := at.UnixNano()
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

// Reserved is the record of a reservation that a charge was made for.
func (c *Charge) Reserved(key coordinator.TaskKey, at time.Time) *coordinator.QuotaReserved {
	return &coordinator.QuotaReserved{
		Key: key, Group: c.Group, Agent: c.Agent, Provider: c.Provider, Model: c.Model,
		Amounts: c.Amounts, Expect: c.Expect, NoBorrowing: c.NoBorrowing, At: at,
		Call: c.Call, Operation: c.Operation, Untold: c.Untold,
	}
}

func (l *Ledger) foldReserved(r *coordinator.QuotaReserved) {
	c := Charge{
		Group: r.Group, Agent: r.Agent, Provider: r.Provider, Model: r.Model, Amounts: r.Amounts, Expect: r.Expect, NoBorrowing: r.NoBorrowing,
		Call: r.Call, Operation: r.Operation, Untold: r.Untold,
	}
	tidy(&c.Amounts)
	if r.Before {
		l.restore(r, &c)
		return
	}
	l.at(r.At)
	l.Forget(r.Key) // who reserved it had, or it would not have been
	if l.open[r.Key] != nil {
		return
	}
	if p := l.PathOf(&c); !p.Empty() {
		l.reserve(r.Key, &c, &p, r.Until, true)
	}
}

// restore sets what had been used of a node.
func (nd *node) restore(r *coordinator.QuotaBefore) {
	v := r.Values
	if s := nd.rates[r.Dimension]; r.Rate && s != nil && len(v) >= 2 {
		s.assured.tat, s.ceiling.tat = v[0], v[1]
	}
	b := nd.budgets[r.Dimension]
	if r.Rate || b == nil || len(v) < 12 || !b.restorePeriod(r.Start, v[12:]) {
		return
	}
	b.used, b.spent, b.lent, b.borrowed, b.lentOut, b.borrowedIn, b.credits = v[0], v[1], v[2], v[3], v[4], v[5], v[6]
	b.nominal, b.share, b.owes, b.alerted = max(0, b.base+v[7]), max(0, b.baseShare+v[8]), v[9], v[10]
	if b.before.used = v[11]; len(v) > 12 { // not in older ones
		b.ownCredits = v[12]
	}
	b.family.repays = b.family.repays || b.owes > 0 || v[7] != 0
	b.replace()
	b.riper()
}

// restorePeriod tells whether what was used of a budget in a period that began then counts in the
// present one; more is the values after the twelve that all versions write. By the rule of a reload
// (see inherit) it does if the period is as long, and the two have something in common: elsewhere
// days begin at other times, and what was used today stays used. Who lends what is worked out anew
// then, at the next Install.
func (b *budget) restorePeriod(start int64, more []int64) bool {
	f := b.family
	if len(more) < 5 { // from before these were written
		return start == f.span.start
	}
	was := coordinator.Period{Unit: coordinator.PeriodUnit(more[1]), Interval: time.Duration(more[2])}
	span := span{start, start + more[3]}
	if was != f.period || !span.meets(f.span) {
		return false
	}
	f.ended.start = start - more[4]
	f.moved = f.moved || span != f.span
	return true
}

// restore takes over a reservation of a snapshot, or a later part of one: what it has
// borrowed, and the rates that it has taken from, are in the snapshot already.
func (l *Ledger) restore(q *coordinator.QuotaReserved, c *Charge) {
	path := l.PathOf(c)
	if path.Empty() {
		return
	}
	l.fresh = false
	part := l.make()
	part.key, part.charge, part.path, part.at, part.state = q.Key, *c, path, q.At.UnixNano(), resState(q.State)
	part.loans = l.loansOf(q, part.loans)
	part.uses = l.ratesOf(&path, &c.Amounts, part.uses)
	for i := range part.uses {
		if i >= len(q.Served) {
			break
		}
		for x, u := part.uses[i].leaf, &part.uses[i]; x != nil; x = x.up {
			if l.nodes[x.node].spec.ID == q.Served[i] {
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
