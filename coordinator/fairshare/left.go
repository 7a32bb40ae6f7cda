package fairshare

import (
	"math/bits"
	"slices"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/fairshare/rates"
)

// Left returns what is left of limits that concern a charge, for the answer to a request: first of the one that
// refuses it (v), then, of the others on its path, of the budget and the rate of which the smallest
// part is left, the smaller part first. A budget's Left is what is its own: what others may lend
// besides is not counted on.
func (l *Ledger) Left(now time.Time, p *Path, a *coordinator.Amounts, v *Verdict) []coordinator.QuotaLeft {
	l.advance(now.UnixNano())
	var tightest [2]coordinator.QuotaLeft // the budget and the rate; no Node: none
	asked := dimensionsOf(a)
	l.walk()
	for _, n := range p.Nodes() {
		nd := &l.nodes[n]
		for m := nd.limited & asked; m != 0; m &= m - 1 {
			d := coordinator.Dimension(bits.TrailingZeros8(m))
			if b := nd.budgets[d]; b != nil {
				tighten(&tightest[0], b.leftNow(l))
			}
			if s := nd.rates[d]; s != nil && s.Amount > 0 {
				tighten(&tightest[1], rateLeft(s, l.now, d))
			}
		}
	}
	if tighter(&tightest[1], &tightest[0]) {
		tightest[0], tightest[1] = tightest[1], tightest[0]
	}
	all := make([]coordinator.QuotaLeft, 0, 1+len(tightest))
	if !v.OK {
		if refuses, known := l.leftOf(v, a[v.Dimension]); known {
			all = append(all, refuses)
		}
	}
	refusing := all
	for _, x := range tightest {
		same := func(r coordinator.QuotaLeft) bool { return sameLimit(&r, &x) }
		if x.Node != "" && !slices.ContainsFunc(refusing, same) {
			all = append(all, x)
		}
	}
	return all
}

// leftOf returns what is left of the limit that refuses so much: less than that, also where there is more and it
// is kept for other calls that have waited for it.
func (l *Ledger) leftOf(v *Verdict, asked int64) (x coordinator.QuotaLeft, known bool) {
	n, listed := l.byID[v.Node]
	if !listed {
		return x, false
	}
	nd := &l.nodes[n]
	switch b, s := nd.budgets[v.Dimension], nd.rates[v.Dimension]; {
	case v.Limit == LimitBudget && b != nil:
		l.walk()
		x = b.leftNow(l)
	case v.Limit == LimitRate && s != nil:
		x = rateLeft(s, l.now, v.Dimension)
	case v.Limit == LimitSeats && nd.seats != nil:
		x = coordinator.QuotaLeft{Node: v.Node, Dimension: v.Dimension, Quota: nd.seats.Nominal,
			Left: nd.seats.Available(), Most: nd.seats.Nominal}
	case v.Limit == LimitProvider: // for so long there is nothing
		pause := time.Duration(nd.health.Blocked() - l.now)
		x = coordinator.QuotaLeft{Node: v.Node, Dimension: v.Dimension, Window: pause, Reset: pause}
	default:
		return x, false
	}
	x.Limit, x.Left = v.Limit.String(), max(0, min(x.Left, asked-1))
	if back := v.RetryAt.Sub(l.Now()); v.Limit == LimitRate && !v.RetryAt.IsZero() {
		x.Reset = max(x.Reset, back) // what is its own may be whole, and what is above it not
	}
	return x, true
}

// tighten takes over b if a smaller part of it is left than of a, or a is none.
func tighten(a *coordinator.QuotaLeft, b coordinator.QuotaLeft) {
	if tighter(&b, a) {
		*a = b
	}
}

// tighter reports whether a smaller part is left of a than of b. Of nothing all is left.
func tighter(a, b *coordinator.QuotaLeft) bool {
	if a.Node == "" || b.Node == "" {
		return a.Node != ""
	}
	// a.Left/a.Most < b.Left/b.Most, where 0 of 0 is all used up
	ah, al := bits.Mul64(uint64(a.Left), uint64(max(1, b.Most)))
	bh, bl := bits.Mul64(uint64(b.Left), uint64(max(1, a.Most)))
	return ah < bh || ah == bh && al < bl
}

func sameLimit(a, b *coordinator.QuotaLeft) bool {
	return a.Node == b.Node && a.Dimension == b.Dimension && a.Limit == b.Limit
}

func (b *budget) leftNow(l *Ledger) coordinator.QuotaLeft {
	left := b.left()
	if l.first(b) {
		left = min(left, b.room()+b.agentsLeft())
	}
	s := b.family.span
	return coordinator.QuotaLeft{
		Node: l.nodes[b.node].spec.ID, Dimension: b.dim, Limit: LimitBudget.String(), Quota: b.nominal,
		Left: max(0, left), Most: b.nominal,
		Window: time.Duration(s.End - s.Start), Reset: time.Duration(s.End - l.now),
	}
}

func rateLeft(s *rates.Shaper, now int64, d coordinator.Dimension) coordinator.QuotaLeft {
	return coordinator.QuotaLeft{
		Node: s.ID, Dimension: d, Limit: LimitRate.String(), Quota: s.Amount, Left: max(0, s.Level(now)), Most: s.Burst,
		Window: s.Per, Reset: time.Duration(max(0, s.Assured.Tat-now)),
	}
}

// Knows reports whether a reservation of that key stands, or is remembered.
func (l *Ledger) Knows(key coordinator.TaskKey) bool { return l.find(key) != nil }

// EndOf returns when a reservation that stands ends by itself; zero: it does not.
func (l *Ledger) EndOf(key coordinator.TaskKey) time.Time {
	if r := l.find(key); r != nil && r.until != 0 {
		return timeOf(r.until)
	}
	return time.Time{}
}

// BegunAt returns when a reservation was made; the ledger's time if it is not known.
func (l *Ledger) BegunAt(key coordinator.TaskKey) time.Time {
	if r := l.find(key); r != nil {
		return timeOf(r.at)
	}
	return l.Now()
}

// RouteWeights returns those by which calls choose among models.
func (l *Ledger) RouteWeights() coordinator.RouteTerms {
	if l.Quotas() == nil {
		return coordinator.RouteTerms{}
	}
	return l.Quotas().Routing
}
