package fairshare

import (
	"cmp"
	"math/big"
	"slices"

	"taskbus/coordinator"
)

// bucket is the definition of a rate: it holds burst at most, and amount flows in every per.
// What is taken of it and not there is a debt.
type bucket struct {
	amount, burst, per int64
	has                *big.Rat // at that time
	at                 int64
}

func newBucket(amount, burst, per int64) *bucket {
	return &bucket{amount: amount, burst: burst, per: per, has: rational(burst), at: epoch.UnixNano()}
}

// level is what it holds; nothing, if there is no such rate.
func (b *bucket) level(now int64) *big.Rat {
	if b == nil {
		return new(big.Rat)
	}
	in := new(big.Rat).SetFrac64(now-b.at, b.per)
	return smaller(rational(b.burst), total(b.has, in.Mul(in, rational(b.amount))))
}

func (b *bucket) holds(now, cost int64) bool { return b.level(now).Cmp(rational(cost)) >= 0 }

// whole is what it holds in whole amounts; a debt is nothing.
func (b *bucket) whole(now int64) int64 {
	x := larger(new(big.Rat), b.level(now))
	return new(big.Int).Quo(x.Num(), x.Denom()).Int64()
}

func (b *bucket) take(now, cost int64) {
	if b != nil {
		b.has, b.at = total(b.level(now), rational(-cost)), now
	}
}

// correct puts back what was taken too much, as far as there is room for it, or takes what was
// taken too little: that leads to a debt of one burst at most.
func (b *bucket) correct(now, reserved, actual int64) {
	if b == nil {
		return
	}
	level := b.level(now)
	b.has, b.at = total(level, rational(reserved-actual)), now
	if actual > reserved {
		b.has = larger(b.has, smaller(level, rational(-b.burst)))
	} else {
		b.has = smaller(b.has, rational(b.burst))
	}
}

// rateModel is the rate of a node: what is assured to it (nil: nothing), and its ceiling (nil:
// none of its own).
type rateModel struct {
	up                         *rateModel
	kids                       []*rateModel
	spec                       *coordinator.QuotaLimit
	weight, amount, burst, per int64
	hard                       bool
	assured, ceiling           *bucket
}

// naiveParts divides a whole by weights: rounded down, and what is left one by one to the largest
// weights, of equal ones to the first.
func naiveParts(whole int64, weights []int64) []int64 {
	parts, order, sum, left := make([]int64, len(weights)), make([]int, len(weights)), int64(0), whole
	for i, weight := range weights {
		order[i], sum = i, sum+weight
	}
	if sum == 0 {
		return parts
	}
	for i, weight := range weights {
		parts[i] = whole * weight / sum
		left -= parts[i]
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(weights[b], weights[a]) })
	for i := range left {
		parts[order[i]]++
	}
	return parts
}

// modelsOf makes the rates of a tree in one dimension, by node; nil: it has none.
func modelsOf(q *coordinator.Quotas, d coordinator.Dimension) []*rateModel {
	all := make([]*rateModel, len(q.Nodes))
	for i := range q.Nodes {
		n := &q.Nodes[i]
		if n.Rates[d] == nil {
			continue
		}
		m := &rateModel{spec: n.Rates[d], weight: n.Weight, per: int64(n.Rates[d].Per)}
		for p := n.Parent; p >= 0 && m.up == nil; p = q.Nodes[p].Parent {
			m.up = all[p]
		}
		m.hard = m.up == nil || n.Borrowing.Rule == coordinator.BorrowNever ||
			m.spec.Borrow == coordinator.Bound{Kind: coordinator.BoundAmount}
		if m.up != nil {
			m.up.kids = append(m.up.kids, m)
		}
		all[i] = m
	}
	for _, m := range all {
		if m != nil && m.up == nil {
			m.has(m.spec.Nominal, cmp.Or(m.spec.Burst, m.spec.Nominal))
		}
	}
	return all
}

// has gives a rate its amount and burst, and those below it theirs.
func (m *rateModel) has(amount, burst int64) {
	m.amount, m.burst = amount, max(1, burst)
	if m.amount > 0 {
		m.assured = newBucket(m.amount, m.burst, m.per)
	}
	if b := m.spec.Borrow; !m.hard && b.Kind != coordinator.BoundNone {
		top := m.amount + b.Value
		if b.Kind == coordinator.BoundPercent {
			top = m.amount + m.amount*b.Value/100
		}
		if top > 0 { // with a burst that is as much larger
			m.ceiling = newBucket(top, max(1, m.burst*top/max(1, m.amount)), m.per)
		}
	}
	left, leftBurst := m.amount, m.burst
	weights, burstWeights := make([]int64, len(m.kids)), make([]int64, len(m.kids))
	for i, kid := range m.kids {
		if kid.spec.Nominal == coordinator.ByWeight {
			kid.per, weights[i] = m.per, kid.weight
		} else {
			left -= kid.spec.Nominal * m.per / kid.per
		}
		if own := cmp.Or(kid.spec.Burst, kid.spec.Nominal); own != coordinator.ByWeight {
			leftBurst -= own
		} else {
			burstWeights[i] = kid.weight
		}
	}
	amounts, bursts := naiveParts(max(0, left), weights), naiveParts(max(0, leftBurst), burstWeights)
	for i, kid := range m.kids {
		if kid.spec.Nominal != coordinator.ByWeight {
			amounts[i] = kid.spec.Nominal
		}
		if own := cmp.Or(kid.spec.Burst, kid.spec.Nominal); own != coordinator.ByWeight {
			bursts[i] = own
		}
		kid.has(amounts[i], bursts[i])
	}
}

// serves finds the node whose assured rate serves a cost; nil: none's.
func (m *rateModel) serves(now, cost int64) *rateModel {
	for x := m; x != nil; x = x.up {
		if x.hard && !x.assured.holds(now, cost) || x.ceiling != nil && !x.ceiling.holds(now, cost) {
			return nil
		}
	}
	if m.assured != nil && m.assured.holds(now, min(cost, m.burst)) {
		return m
	}
	// One above that gives what it has but for what is kept: a whole burst, less that of the one
	// below it through which it is asked, and what that one has left itself. What is larger than
	// the burst of that one takes all of a bucket that is full.
	for x := m; !x.hard; x = x.up {
		need := x.up.burst
		if cost <= x.burst {
			need = min(need, cost+max(0, x.up.burst-x.burst)+x.assured.whole(now))
		}
		if x.up.assured != nil && x.up.assured.holds(now, need) {
			return x.up
		}
	}
	return nil
}

// charge takes from the one that serves it, those above, and all ceilings; correct puts that
// right.
func (m *rateModel) charge(by *rateModel, each func(*bucket)) {
	served := false
	for x := m; x != nil; x = x.up {
		if served = served || x == by; served {
			each(x.assured)
		}
		each(x.ceiling)
	}
}

// never reports whether a cost is more than some limit allows at all.
func (m *rateModel) never(cost int64) bool {
	for x := m; x != nil; x = x.up {
		if x.hard && (x.assured == nil || cost > x.burst) || x.ceiling != nil && cost > x.ceiling.burst {
			return true
		}
	}
	return false
}

func rational(ns int64) *big.Rat { return new(big.Rat).SetInt64(ns) }

func larger(a, b *big.Rat) *big.Rat {
	if a.Cmp(b) > 0 {
		return a
	}
	return b
}

func smaller(a, b *big.Rat) *big.Rat {
	if a.Cmp(b) < 0 {
		return a
	}
	return b
}

func total(all ...*big.Rat) *big.Rat {
	sum := new(big.Rat)
	for _, x := range all {
		sum.Add(sum, x)
	}
	return sum
}
