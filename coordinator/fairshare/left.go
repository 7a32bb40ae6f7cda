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
	// b.Left/b.Quota < a.Left/a.Quota, where 0 of 0 is all used up
	bh, bl := bits.Mul64(uint64(b.Left), uint64(max(1, a.Quota)))
	ah, al := bits.Mul64(uint64(a.Left), uint64(max(1, b.Quota)))
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
		Node: l.nodes[b.node].spec.ID, Dimension: b.dim, Quota: b.nominal, Left: max(0, left),
		Window: time.Duration(s.end - s.start), Reset: time.Duration(s.end - l.now),
	}
}

func (s *shaper) leftNow(now int64, d coordinator.Dimension) coordinator.QuotaLeft {
	return coordinator.QuotaLeft{
		Node: s.id, Dimension: d, Quota: s.amount, Left: max(0, s.level(now)),
		Window: s.per, Reset: time.Duration(max(0, s.assured.tat-now)),
	}
}

// GroupOfAgent is the group of an agent of quotas.yaml; false: it lists none of that id.
func (l *Ledger) GroupOfAgent(id coordinator.AgentID) (string, bool) {
	n, ok := l.routes.agents[id]
	if !ok {
		return "", false
	}
	return l.GroupOf(n), true
}

// Exactly is the charge for a call of a group of which the usage is known.
func (l *Ledger) Exactly(group, operation string, u *coordinator.Usage) (c Charge) {
	s := l.serviceOf(group, operation, u)
	c = Charge{Group: group, Provider: s.provider, Model: s.model}
	c.Amounts, _ = l.prices.amountsOf(u, s, 0)
	return c
}

// Part is the charge for a part of a call that has been counted already: exactly what is stated,
// and no request unless some are.
func (l *Ledger) Part(group, operation string, u *coordinator.Usage) (c Charge) {
	s := l.serviceOf(group, operation, u)
	c = Charge{Group: group, Provider: s.provider, Model: s.model}
	c.Amounts, _ = l.prices.count(u, s, 0, 0)
	return c
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

// Keys are the pools of a provider of which quotas.yaml lists keys, in the order of their names; nil:
// it lists one without a key, or none.
func (l *Ledger) Keys(provider string) []string { return l.routes.keys[provider] }

// AnyKeys tells whether any provider has several.
func (l *Ledger) AnyKeys() bool { return l.routes.severalKeys }

// RouteWeights are those by which calls choose among models.
func (l *Ledger) RouteWeights() coordinator.RouteTerms {
	if l.quotas == nil {
		return coordinator.RouteTerms{}
	}
	return l.quotas.Routing
}
