package fairshare

import (
	"math/bits"
	"time"

	"taskbus/coordinator"
)

// Tightest finds, of the limits on a path in the dimensions of a charge, the budget and the rate
// of which the smallest part is left; nil: there is none. A budget's Left is what is its own: what
// others may lend besides is not counted on.
func (l *Ledger) Tightest(now time.Time, p *Path, a *coordinator.Amounts) (budget, rate *coordinator.QuotaLeft) {
	l.advance(now.UnixNano())
	asked := dimensionsOf(a)
	l.walk()
	for _, n := range p.list() {
		nd := &l.nodes[n]
		for m := nd.limited & asked; m != 0; m &= m - 1 {
			d := coordinator.Dimension(bits.TrailingZeros8(m))
			if b := nd.budgets[d]; b != nil {
				budget = tighter(budget, b.leftNow(l))
			}
			if s := nd.rates[d]; s != nil && s.amount > 0 {
				rate = tighter(rate, s.leftNow(l.now, d))
			}
		}
	}
	return budget, rate
}

func tighter(a *coordinator.QuotaLeft, b coordinator.QuotaLeft) *coordinator.QuotaLeft {
	if a == nil {
		return &b
	}
	// b.Left/b.Most < a.Left/a.Most, where 0 of 0 is all used up
	bh, bl := bits.Mul64(uint64(b.Left), uint64(max(1, a.Most)))
	ah, al := bits.Mul64(uint64(a.Left), uint64(max(1, b.Most)))
	if bh < ah || bh == ah && bl < al {
		*a = b
	}
	return a
}

func (b *budget) leftNow(l *Ledger) coordinator.QuotaLeft {
	left := b.left()
	if l.first(b) {
		left = min(left, b.room())
	}
	s := b.family.span
	return coordinator.QuotaLeft{
		Node: l.nodes[b.node].spec.ID, Dimension: b.dim, Quota: b.nominal, Left: max(0, left), Most: b.nominal,
		Window: time.Duration(s.end - s.start), Reset: time.Duration(s.end - l.now),
	}
}

func (s *shaper) leftNow(now int64, d coordinator.Dimension) coordinator.QuotaLeft {
	return coordinator.QuotaLeft{
		Node: s.id, Dimension: d, Quota: s.amount, Left: max(0, s.level(now)), Most: s.burst,
		Window: s.per, Reset: time.Duration(max(0, s.assured.tat-now)),
	}
}

// Knows tells whether a reservation of that key stands, or is remembered.
func (l *Ledger) Knows(key coordinator.TaskKey) bool { return l.find(key) != nil }

// EndOf is when a reservation that stands ends by itself; zero: it does not.
func (l *Ledger) EndOf(key coordinator.TaskKey) time.Time {
	if r := l.find(key); r != nil && r.until != 0 {
		return timeOf(r.until)
	}
	return time.Time{}
}

// BegunAt is when a reservation was made; the ledger's time if it is not known.
func (l *Ledger) BegunAt(key coordinator.TaskKey) time.Time {
	if r := l.find(key); r != nil {
		return timeOf(r.at)
	}
	return l.Now()
}

// RouteWeights are those by which calls choose among models.
func (l *Ledger) RouteWeights() coordinator.RouteTerms {
	if l.quotas == nil {
		return coordinator.RouteTerms{}
	}
	return l.quotas.Routing
}
