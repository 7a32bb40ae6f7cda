package fairshare

import (
	"fmt"
	"testing"
	"time"

	"taskbus/coordinator"
)

// epoch is where virtual time begins: the first moment of a month.
var epoch = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

// tree builds quotas by hand: tree().group("a", …) and so on, all below the pool.
type tree struct {
	coordinator.Quotas
	index map[string]int
}

// newTree begins with the pool without a provider.
func newTree(options ...func(*coordinator.QuotaNode)) *tree {
	t := &tree{index: map[string]int{}}
	t.RepayPercent, t.TombstoneTTL, t.ReservationTTL = 20, time.Hour, 15*time.Minute
	return t.add("pool", coordinator.QuotaPool, "", options)
}

func (t *tree) add(name string, kind coordinator.QuotaKind, under string,
	options []func(*coordinator.QuotaNode)) *tree {
	n := coordinator.QuotaNode{ID: name, Kind: kind, Name: name, Parent: -1, Weight: 1}
	if under != "" {
		n.Parent = t.index[under]
		n.ID = t.Nodes[n.Parent].ID + "/" + name
	}
	for _, o := range options {
		o(&n)
	}
	t.index[name] = len(t.Nodes)
	t.Nodes = append(t.Nodes, n)
	return t
}

func (t *tree) group(name, under string, options ...func(*coordinator.QuotaNode)) *tree {
	return t.add(name, coordinator.QuotaGroup, under, options)
}

func (t *tree) agent(name, under string, options ...func(*coordinator.QuotaNode)) *tree {
	return t.add(name, coordinator.QuotaAgent, under, options)
}

// ledger installs the trees at epoch.
func (t *tree) ledger() *Ledger {
	l := NewLedger()
	l.Install(epoch, &t.Quotas)
	return l
}

func weight(w int64) func(*coordinator.QuotaNode) {
	return func(n *coordinator.QuotaNode) { n.Weight = w }
}

// monthly is a budget of a calendar month; ByWeight: of its weight's part.
func monthly(d coordinator.Dimension, amount int64) func(*coordinator.QuotaNode) {
	return func(n *coordinator.QuotaNode) {
		n.Budgets[d] = &coordinator.QuotaLimit{Nominal: amount, Period: coordinator.Period{Unit: coordinator.PerMonth}}
	}
}

// perSecond is a rate.
func perSecond(d coordinator.Dimension, amount, burst int64) func(*coordinator.QuotaNode) {
	return func(n *coordinator.QuotaNode) {
		n.Rates[d] = &coordinator.QuotaLimit{Nominal: amount, Per: time.Second, Burst: burst}
	}
}

func seatsOf(amount int64) func(*coordinator.QuotaNode) {
	return func(n *coordinator.QuotaNode) { n.Seats = &coordinator.QuotaLimit{Nominal: amount} }
}

func rule(r coordinator.BorrowRule) func(*coordinator.QuotaNode) {
	return func(n *coordinator.QuotaNode) { n.Borrowing.Rule = r }
}

// tokens is a charge of so many tokens for a group.
func tokens(group string, n int64) *Charge {
	return &Charge{Group: group, Amounts: coordinator.Amounts{coordinator.DimTotalTokens: n}}
}

func keyOf(id string) coordinator.TaskKey { return coordinator.KeyOf(coordinator.TaskID(id)) }

func id(n int) coordinator.TaskKey { return keyOf(fmt.Sprint(n)) }

func TestBudgetDividedByWeight(t *testing.T) {
	const d = coordinator.DimTotalTokens
	// FAIR-SHARE 3.2.1: a group of 100,000 tokens, its agents 2:2:1.
	l := newTree().group("alpha", "pool", monthly(d, 100_000)).
		agent("a", "alpha", weight(2), monthly(d, coordinator.ByWeight)).
		agent("b", "alpha", weight(2), monthly(d, coordinator.ByWeight)).
		agent("c", "alpha", weight(1), monthly(d, coordinator.ByWeight), rule(coordinator.BorrowNever)).ledger()
	for agent, want := range map[string]int64{"a": 40_000, "b": 40_000, "c": 20_000} {
		if got := l.nodes[l.byID["pool/alpha/"+agent]].budgets[d].base; got != want {
			t.Errorf("%s has %d, want %d", agent, got, want)
		}
	}
	c := tokens("alpha", 20_001)
	c.Agent = "c"
	if v := l.Reserve(epoch, id(1), c, time.Time{}); v.OK || !v.Permanent || v.Node != "pool/alpha/c" {
		t.Errorf("one more than it may have: %+v", v)
	}
	c.Amounts[d] = 20_000
	if v := l.Reserve(epoch, id(1), c, time.Time{}); !v.OK || v.Borrowed {
		t.Errorf("all that it has: %+v", v)
	}
	c.Amounts[d] = 1
	if v := l.Reserve(epoch, id(2), c, time.Time{}); v.OK || v.Permanent || !v.RetryAt.Equal(epoch.AddDate(0, 1, 0)) {
		t.Errorf("beyond it, until the month ends: %+v", v)
	}
}

func TestAccrualLending(t *testing.T) {
	const d = coordinator.DimTotalTokens
	l := newTree(monthly(d, 2000)).group("a", "pool", monthly(d, coordinator.ByWeight)).
		group("b", "pool", monthly(d, coordinator.ByWeight)).ledger()
	half := epoch.Add(31 * 24 * time.Hour / 2)
	// its 1000, and the 500 that have accrued to b
	if v := l.Reserve(half, id(1), tokens("a", 1500), time.Time{}); !v.OK || !v.Borrowed {
		t.Errorf("half of b's has accrued: %+v", v)
	}
	if v := l.Reserve(half, id(2), tokens("a", 1), time.Time{}); v.OK {
		t.Errorf("more than has accrued: %+v", v)
	}
	// what is still to accrue is its own
	if v := l.Reserve(half, id(3), tokens("b", 500), time.Time{}); !v.OK || v.Borrowed {
		t.Errorf("b comes back: %+v", v)
	}
	if v := l.Reserve(half, id(4), tokens("b", 1), time.Time{}); v.OK {
		t.Errorf("the pool has 2000: %+v", v)
	}
}

func TestRatesLoneTenant(t *testing.T) {
	const d = coordinator.DimRequests
	l := newTree(perSecond(d, 10, 10)).group("a", "pool", perSecond(d, coordinator.ByWeight, 0)).
		group("b", "pool", perSecond(d, coordinator.ByWeight, 0)).ledger()
	passed, n := 0, 0
	for at := epoch; at.Before(epoch.Add(100 * time.Second)); at = at.Add(50 * time.Millisecond) {
		n++
		if l.Reserve(at, id(n), &Charge{Group: "a", Amounts: coordinator.Amounts{1}}, time.Time{}).OK {
			passed++
		}
	}
	if passed < 990 || passed > 1010 { // 10/s for 100 s, and its burst
		t.Errorf("%d passed", passed)
	}
	for i := range 5 { // b comes back to its whole burst
		if v := l.Reserve(epoch.Add(100*time.Second), id(100000+i), &Charge{Group: "b", Amounts: coordinator.Amounts{1}},
			time.Time{}); !v.OK || v.Borrowed {
			t.Errorf("b's %d-th: %+v", i, v)
		}
	}
}
