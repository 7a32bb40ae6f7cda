package fairshare

import (
	"fmt"
	"time"

	"pgregory.net/rapid"

	"taskbus/coordinator"
)

// rateDims are the dimensions in which trees of rates have them.
var rateDims = []coordinator.Dimension{coordinator.DimRequests, coordinator.DimTotalTokens}

// rateTrees are random trees of rates, and of nothing else: groups up to four levels deep below
// the pool, and the parts that some of them have of a provider.
type rateTrees struct {
	pers          []time.Duration
	amount, burst int64 // of a root at most
	borrow        []coordinator.Bound
}

var (
	// anyRates are those that people write.
	anyRates = rateTrees{
		pers: []time.Duration{time.Second, time.Minute, 7 * time.Second, time.Hour}, amount: 1000, burst: 300,
		borrow: []coordinator.Bound{{}, {}, {}, {Kind: coordinator.BoundPercent, Value: 50},
			{Kind: coordinator.BoundAmount, Value: 10}, {Kind: coordinator.BoundAmount}},
	}
	// hardRates may never be exceeded, at any level.
	hardRates = rateTrees{pers: anyRates.pers, amount: 1000, burst: 300,
		borrow: []coordinator.Bound{{Kind: coordinator.BoundAmount}}}
	// wholeRates, of up to 30, are for multiples of the least time that all numbers up to 30
	// divide: one of any of them takes a whole number of ns, and nothing is ever rounded.
	wholeRates = rateTrees{pers: []time.Duration{divisible, 2 * divisible}, amount: 20, burst: 40, borrow: anyRates.borrow}
)

// divisible is the least common multiple of 1 to 30, in ns: 38 minutes.
const divisible time.Duration = 2_329_089_562_800

func (x *rateTrees) draw(t *rapid.T) *coordinator.Quotas {
	q := &coordinator.Quotas{TombstoneTTL: 5 * time.Minute}
	level := []int{0}
	add := func(n coordinator.QuotaNode) {
		n.ID = n.Name
		if n.Parent >= 0 {
			n.ID = q.Nodes[n.Parent].ID + "/" + n.Name
			n.Weight = rapid.Int64Range(0, 3).Draw(t, "weight")
			n.Borrowing.Rule = rapid.SampledFrom([]coordinator.BorrowRule{coordinator.BorrowAccrued, coordinator.BorrowAccrued,
				coordinator.BorrowAccrued, coordinator.BorrowNever}).Draw(t, "rule")
		}
		for _, d := range rateDims {
			if rapid.SampledFrom([]bool{true, true, true, false}).Draw(t, "limited") {
				n.Rates[d] = x.limit(t, nearestRate(q, n.Parent, d))
			}
		}
		q.Nodes = append(q.Nodes, n)
	}
	add(coordinator.QuotaNode{Kind: coordinator.QuotaPool, Name: "pool", Parent: -1, Weight: 1})
	n := rapid.SampledFrom([]int{1, 2, 4, 6}).Draw(t, "groups")
	for i := 1; i <= n; i++ {
		parent := rapid.IntRange(0, i-1).Filter(func(p int) bool { return level[p] < 4 }).Draw(t, "parent")
		level = append(level, level[parent]+1)
		add(coordinator.QuotaNode{Kind: coordinator.QuotaGroup, Name: fmt.Sprint("g", i), Parent: parent, Provider: "p"})
	}
	if top := len(q.Nodes); rapid.IntRange(0, 2).Draw(t, "provider") == 0 {
		add(coordinator.QuotaNode{Kind: coordinator.QuotaPool, Name: "p", Provider: "p", Parent: -1, Weight: 1})
		for i := 1; i <= n; i++ {
			if level[i] == 1 && rapid.Bool().Draw(t, "part") {
				add(coordinator.QuotaNode{Kind: coordinator.QuotaGroup, Name: fmt.Sprint("g", i), Parent: top})
			}
		}
	}
	return q
}

// limit draws a rate: below another one it is a part by weight or, as the loader sees to, so
// little that it fits into that beside those of all the others.
func (x *rateTrees) limit(t *rapid.T, up *coordinator.QuotaLimit) *coordinator.QuotaLimit {
	l := &coordinator.QuotaLimit{
		Nominal: coordinator.ByWeight, Per: rapid.SampledFrom(x.pers).Draw(t, "per"), Borrow: rapid.SampledFrom(x.borrow).
				Draw(t, "borrow"),
		Burst: rapid.OneOf(rapid.Just(int64(0)), rapid.Int64Range(1, x.burst)).Draw(t, "burst"),
	}
	switch {
	case up == nil:
		l.Nominal = rapid.Int64Range(1, x.amount).Draw(t, "rate")
	case up.Nominal != coordinator.ByWeight && rapid.Bool().Draw(t, "its own"):
		l.Nominal, l.Per = rapid.Int64Range(0, up.Nominal/6).Draw(t, "rate"), max(up.Per, l.Per)
	}
	return l
}

// nearestRate is the rate of a node, or of the nearest above it.
func nearestRate(q *coordinator.Quotas, n int, d coordinator.Dimension) *coordinator.QuotaLimit {
	for ; n >= 0; n = q.Nodes[n].Parent {
		if l := q.Nodes[n].Rates[d]; l != nil {
			return l
		}
	}
	return nil
}

// drawRates draws what is asked of such a tree.
func (w *world) drawRates(most int64) *Charge {
	c := &Charge{Group: rapid.SampledFrom(w.groups).Draw(w.t, "group"), Provider: rapid.SampledFrom([]string{"", "p"}).
		Draw(w.t, "provider")}
	most = rapid.SampledFrom([]int64{3, most / 8, most / 3, most}).Draw(w.t, "most")
	for _, d := range rateDims {
		if rapid.SampledFrom([]bool{true, true, false}).Draw(w.t, "some") {
			c.Amounts[d] = rapid.Int64Range(1, most).Draw(w.t, "amount")
		}
	}
	return c
}
