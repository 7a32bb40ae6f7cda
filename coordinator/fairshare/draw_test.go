package fairshare

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"pgregory.net/rapid"

	"taskbus/coordinator"
)

// The limits of random trees: budgets of three dimensions, rates of one, and seats.
var (
	randomDims    = []coordinator.Dimension{coordinator.DimRequests, coordinator.DimTotalTokens, coordinator.DimCost}
	randomPeriods = []coordinator.Period{{Unit: coordinator.PerMinute}, {Unit: coordinator.PerHour},
		{Unit: coordinator.PerDay}, {Unit: coordinator.PerInterval, Interval: 90 * time.Second}}
)

// randomModels are those that random trees may list.
var randomModels = []string{"m1", "m2"}

// drawQuotas draws a tree of groups up to five levels deep below the pool, some with agents, and one
// of a provider, or of its models, that has parts for some of them. wild: rates, seats and the simple
// rule, too.
func drawQuotas(t *rapid.T, wild bool) *coordinator.Quotas {
	q := &coordinator.Quotas{RepayPercent: rapid.SampledFrom([]int64{0, 20, 100}).Draw(t, "repay"),
		TombstoneTTL: 5 * time.Minute}
	level := []int{0}
	add := func(n coordinator.QuotaNode) {
		if n.Parent >= 0 {
			n.ID = q.Nodes[n.Parent].ID + "/" + n.Name
		} else {
			n.ID = n.Name
		}
		drawLimits(t, &n, q.Nodes, wild)
		q.Nodes = append(q.Nodes, n)
	}
	add(coordinator.QuotaNode{Kind: coordinator.QuotaPool, Name: "pool", Parent: -1, Weight: 1})
	n := rapid.IntRange(1, 8).Draw(t, "groups")
	for i := 1; i <= n; i++ {
		parent := rapid.IntRange(0, i-1).Filter(func(p int) bool { return level[p] < 4 }).Draw(t, "parent")
		level = append(level, level[parent]+1)
		add(coordinator.QuotaNode{
			Kind: coordinator.QuotaGroup, Name: fmt.Sprint("g", i), Parent: parent,
			Provider: "p", Model: rapid.SampledFrom([]string{"", "", randomModels[0]}).Draw(t, "model"),
			Weight: rapid.Int64Range(0, 3).Draw(t, "weight"), Borrowing: drawBorrowing(t, wild),
		})
	}
	group := make(map[string]int) // of every agent
	for i := range rapid.SampledFrom([]int{0, 0, 1, 3}).Draw(t, "agents") {
		name := fmt.Sprint("a", i+1)
		group[name] = rapid.IntRange(1, n).Draw(t, "its group")
		add(coordinator.QuotaNode{
			Kind: coordinator.QuotaAgent, Name: name, Parent: group[name], Weight: rapid.Int64Range(0, 3).Draw(t, "weight"),
			Borrowing: drawBorrowing(t, wild),
		})
	}
	if !rapid.Bool().Draw(t, "provider") {
		return q
	}
	shared := []int{len(q.Nodes)} // among those of the first level
	add(coordinator.QuotaNode{Kind: coordinator.QuotaPool, Name: "p", Provider: "p", Parent: -1, Weight: 1})
	if models := rapid.IntRange(0, len(randomModels)).Draw(t, "models"); models > 0 { // which are shared instead of it
		top := shared[0]
		shared = shared[1:]
		for _, model := range randomModels[:models] {
			shared = append(shared, len(q.Nodes))
			add(coordinator.QuotaNode{Kind: coordinator.QuotaModel, Name: model, Provider: "p", Model: model, Parent: top,
				Weight: 1})
		}
	}
	for _, at := range shared {
		part := func(kind coordinator.QuotaKind, name string, under int) int {
			add(coordinator.QuotaNode{
				Kind: kind, Name: name, Provider: "p", Model: q.Nodes[at].Model, Parent: under, Weight: rapid.Int64Range(0, 3).
					Draw(t, "weight"),
				Borrowing: drawBorrowing(t, wild),
			})
			return len(q.Nodes) - 1
		}
		for i := 1; i <= n; i++ {
			if level[i] != 1 || !rapid.Bool().Draw(t, "part") {
				continue
			}
			under := part(coordinator.QuotaGroup, fmt.Sprint("g", i), at)
			for _, name := range slices.Sorted(maps.Keys(group)) {
				if group[name] == i && rapid.Bool().Draw(t, "its agent's") {
					part(coordinator.QuotaAgent, name, under)
				}
			}
		}
	}
	return q
}

func drawBorrowing(t *rapid.T, wild bool) coordinator.Borrowing {
	rules := []coordinator.BorrowRule{coordinator.BorrowAccrued, coordinator.BorrowAccrued, coordinator.BorrowNever}
	if wild {
		rules = append(rules, coordinator.BorrowGroupRemaining)
	}
	return coordinator.Borrowing{
		Rule: rapid.SampledFrom(rules).Draw(t, "rule"), Priority: rapid.SampledFrom([]int{0, 0, 0, 7}).Draw(t, "priority"),
		NoGlobalPool:     rapid.Bool().Draw(t, "no pool"),
		SurchargePercent: rapid.SampledFrom([]int64{0, 0, 10}).Draw(t, "surcharge"),
		HeadroomPercent:  rapid.SampledFrom([]int64{0, 0, 30}).Draw(t, "headroom"),
	}
}

func drawBound(t *rapid.T) coordinator.Bound {
	return rapid.SampledFrom([]coordinator.Bound{{}, {}, {Kind: coordinator.BoundPercent, Value: 50},
		{Kind: coordinator.BoundAmount, Value: 30}}).Draw(t, "bound")
}

// drawLimits draws a node's limits. As the loader sees to, what is given to those below a node
// is no more than it has: amounts of their own are at most an eighth of it.
func drawLimits(t *rapid.T, n *coordinator.QuotaNode, above []coordinator.QuotaNode, wild bool) {
	model := n.Kind == coordinator.QuotaModel
	bound := func() coordinator.Bound {
		if model && rapid.IntRange(0, 3).Draw(t, "the file says at 0") > 0 {
			return coordinator.Bound{Kind: coordinator.BoundAmount} // its provider's word
		}
		return drawBound(t)
	}
	nominal := func(up *coordinator.QuotaLimit, whole int64) int64 {
		if up != nil && !model && (up.Nominal == coordinator.ByWeight || rapid.Bool().Draw(t, "by weight")) {
			return coordinator.ByWeight
		}
		if up != nil {
			whole = up.Nominal / 8
		}
		return rapid.Int64Range(0, whole).Draw(t, "nominal")
	}
	of := func(get func(*coordinator.QuotaNode) *coordinator.QuotaLimit) *coordinator.QuotaLimit {
		for p := n.Parent; p >= 0; p = above[p].Parent {
			if l := get(&above[p]); l != nil {
				return l
			}
		}
		return nil
	}
	for _, d := range randomDims {
		if rapid.IntRange(0, 3).Draw(t, "limited") > 0 {
			up := of(func(x *coordinator.QuotaNode) *coordinator.QuotaLimit { return x.Budgets[d] })
			period := rapid.SampledFrom(randomPeriods).Draw(t, "period")
			if up != nil && rapid.IntRange(0, 4).Draw(t, "other period") > 0 {
				period = up.Period
			}
			l := &coordinator.QuotaLimit{Nominal: nominal(up, 1000), Period: period, Borrow: bound(), Lend: bound()}
			if l.Nominal == coordinator.ByWeight {
				l.Period = up.Period
			}
			// not on every level: paths have an end
			if n.Parent == 0 && up != nil && l.Period != up.Period && rapid.Bool().Draw(t, "beside") {
				n.Beside = append(n.Beside, coordinator.BesideBudget{Dimension: d, QuotaLimit: coordinator.QuotaLimit{
					Nominal: coordinator.ByWeight, Period: up.Period, Borrow: bound(), Lend: bound(),
				}})
			}
			n.Budgets[d] = l
		}
	}
	if !wild {
		return
	}
	if d := coordinator.DimRequests; rapid.Bool().Draw(t, "rate") {
		up := of(func(x *coordinator.QuotaNode) *coordinator.QuotaLimit { return x.Rates[d] })
		n.Rates[d] = &coordinator.QuotaLimit{Nominal: nominal(up, 100), Per: time.Second, Burst: rapid.Int64Range(0, 50).
			Draw(t, "burst"), Borrow: bound()}
	}
	if rapid.Bool().Draw(t, "seats") {
		up := of(func(x *coordinator.QuotaNode) *coordinator.QuotaLimit { return x.Seats })
		n.Seats = &coordinator.QuotaLimit{Nominal: nominal(up, 40), Borrow: bound(), Lend: bound()}
	}
}
