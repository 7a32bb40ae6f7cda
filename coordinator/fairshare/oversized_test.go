package fairshare

import (
	"math"
	"testing"
	"time"

	"taskbus/coordinator"
)

// TestHugeAmounts: no amount makes sums overflow.
func TestHugeAmounts(t *testing.T) {
	const d = coordinator.DimTotalTokens
	l := newTree(monthly(d, 1_000_000_000_000_000), perSecond(d, 1_000_000_000_000, 0)).
		group("a", "pool", monthly(d, coordinator.ByWeight)).ledger()
	for i := range 20 {
		if v := l.Reserve(epoch, id(i), tokens("a", math.MaxInt64-int64(i)), time.Time{}); v.OK || !v.Permanent {
			t.Errorf("%+v", v)
		}
	}
	if v := l.Reserve(epoch, id(0), tokens("a", math.MinInt64), time.Time{}); !v.OK {
		t.Errorf("less than nothing is nothing: %+v", v)
	}
	for i := range 20 {
		at := epoch.AddDate(0, i+1, 0)
		for n := range 5 {
			l.Reserve(at, id(100*i+n+100), tokens("a", 1), time.Time{})
			l.Settle(at, id(100*i+n+100), tokens("a", math.MaxInt64).Amounts, false)
		}
		if b := budgetView(t, l, at, "pool"); b.Used < 0 || b.Debt < 0 {
			t.Fatalf("%+v", b)
		}
	}
}

// TestOversized: more than can ever be had is refused for good; what only has not accrued yet,
// or is used up, is not.
func TestOversized(t *testing.T) {
	const d = coordinator.DimTotalTokens
	part := monthly(d, coordinator.ByWeight)
	none := coordinator.Bound{Kind: coordinator.BoundAmount}
	for _, c := range []struct {
		name      string
		a, b      []func(*coordinator.QuotaNode)
		largest   int64 // that is not refused for good
		permanent Limit
	}{
		{"its own, and all that the other has", nil, nil, 1000, LimitBudget},
		{"b lends nothing", nil, []func(*coordinator.QuotaNode){lends(coordinator.Bound{}, none)}, 500, LimitBudget},
		{"b lends half of its 500", nil,
			[]func(*coordinator.QuotaNode){
				lends(coordinator.Bound{}, coordinator.Bound{Kind: coordinator.BoundPercent, Value: 50})}, 750, LimitBudget},
		{"b keeps a fifth", nil, []func(*coordinator.QuotaNode){headroom(20)}, 900, LimitBudget},
		{"a borrows 100 at most", []func(*coordinator.QuotaNode){
			lends(coordinator.Bound{Kind: coordinator.BoundAmount, Value: 100}, coordinator.Bound{})}, nil, 600, LimitBudget},
		{"a never borrows", []func(*coordinator.QuotaNode){rule(coordinator.BorrowNever)}, nil, 500, LimitBudget},
		{"by the simple rule", []func(*coordinator.QuotaNode){rule(coordinator.BorrowGroupRemaining)}, nil, 1000,
			LimitBudget},
		{"of weight 0", []func(*coordinator.QuotaNode){weight(0)}, nil, 1000, LimitBudget},
	} {
		t.Run(c.name, func(t *testing.T) {
			setLast := func(o []func(*coordinator.QuotaNode)) []func(*coordinator.QuotaNode) {
				return append([]func(*coordinator.QuotaNode){part}, o...)
			}
			l := newTree(monthly(d, 1000)).group("a", "pool", setLast(c.a)...).group("b", "pool", setLast(c.b)...).ledger()
			p := l.PathOf(tokens("a", 1))
			for amount, permanent := range map[int64]bool{c.largest: false, c.largest + 1: true} {
				if v := l.Check(epoch, &p, tokens("a", amount)); v.Permanent != permanent || permanent && v.Limit != c.permanent {
					t.Errorf("%d: %+v", amount, v)
				}
			}
		})
	}
}

// TestMiddlePeriod: a budget for a day between those for a month of the agent and the pool: the
// agent's share is charged once, and each of the three limits holds.
func TestMiddlePeriod(t *testing.T) {
	const d = coordinator.DimTotalTokens
	daily := func(n *coordinator.QuotaNode) {
		n.Budgets[d] = &coordinator.QuotaLimit{Nominal: 60, Period: coordinator.Period{Unit: coordinator.PerDay}}
	}
	l := newTree(monthly(d, 1000)).group("g", "pool", daily).group("a", "g", monthly(d, 100)).ledger()
	if v := l.Reserve(epoch, id(1), tokens("a", 60), time.Time{}); !v.OK || v.Borrowed {
		t.Fatalf("%+v", v)
	}
	for node, want := range map[string]int64{"pool": 60, "pool/g": 60, "pool/g/a": 60} {
		if b := budgetView(t, l, epoch, node); b.Reserved != want || b.Borrowed != 0 {
			t.Errorf("%s: %+v", node, b)
		}
	}
	if v := l.Reserve(epoch, id(2), tokens("a", 1), time.Time{}); v.OK || v.Node != "pool/g" ||
		!v.RetryAt.Equal(epoch.AddDate(0, 0, 1)) {
		t.Errorf("the day's is used up: %+v", v)
	}
	if v := l.Reserve(epoch.AddDate(0, 0, 1), id(2), tokens("a", 40), time.Time{}); !v.OK || v.Borrowed {
		t.Errorf("the next day: %+v", v)
	}
}

// TestPartOfAPart: what a group has by weight is for the pool's month, whatever its own entry
// says of a period, and an agent's amount for a month is a part of that.
func TestPartOfAPart(t *testing.T) {
	const d = coordinator.DimTotalTokens
	byWeight := func(n *coordinator.QuotaNode) {
		n.Budgets[d] = &coordinator.QuotaLimit{Nominal: coordinator.ByWeight}
	}
	l := newTree(monthly(d, 1000)).group("g", "pool", byWeight).agent("a", "g", monthly(d, 300)).ledger()
	for node, want := range map[string][2]int64{"pool": {1000, 0}, "pool/g": {1000, 700}, "pool/g/a": {300, 300}} {
		if b := budgetView(t, l, epoch, node); b.Nominal != want[0] || b.Share != want[1] {
			t.Errorf("%s has %d, %d of it for itself, want %v", node, b.Nominal, b.Share, want)
		}
	}
}
