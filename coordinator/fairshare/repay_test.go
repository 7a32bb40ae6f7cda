package fairshare

import (
	"testing"
	"time"

	"taskbus/coordinator"
)

// At the end of its period, of 100 s, a group has borrowed or overdrawn. What each has in the next:
func TestRepayment(t *testing.T) {
	const d = coordinator.DimTotalTokens
	part := budgetFor(100*time.Second, d, coordinator.ByWeight)
	two := func(o ...func(*coordinator.QuotaNode)) *tree {
		return newTree(budgetFor(100*time.Second, d, 2000)).group("a", "pool", append(o, part)...).group("b", "pool", part)
	}
	surcharge := func(n *coordinator.QuotaNode) { n.Borrowing.SurchargePercent = 10 }
	// Two groups of 1000, the first with x and y of 500 each.
	nested := func() *tree {
		return newTree(budgetFor(100*time.Second, d, 2000)).group("a", "pool", part).group("x", "a", part).
			group("y", "a", part).group("b", "pool", part)
	}
	for _, c := range []struct {
		name     string
		tree     *tree
		who      string
		reserves int64
		uses     int64
		after    time.Duration
		want     map[string]int64
	}{
		{"a borrows 100 of b: it repays 100", two(), "a", 1100, 1100, 0,
			map[string]int64{"pool": 2000, "pool/a": 900, "pool/b": 1100}},
		{"400: no more than 20 % of its 1000", two(), "a", 1400, 1400, 0,
			map[string]int64{"pool": 2000, "pool/a": 800, "pool/b": 1200}},
		{"with a surcharge of 10 %: 110", two(surcharge), "a", 1100, 1100, 0,
			map[string]int64{"pool": 2000, "pool/a": 890, "pool/b": 1110}},
		{"400 with a surcharge: still 20 %", two(surcharge), "a", 1400, 1400, 0,
			map[string]int64{"pool": 2000, "pool/a": 800, "pool/b": 1200}},
		{"borrows, and does not use it", two(), "a", 1100, 900, 0,
			map[string]int64{"pool": 2000, "pool/a": 1000, "pool/b": 1000}},
		// b has left as much: it goes to the pool, of which all may borrow it.
		{"a overdraws 150", two(), "a", 900, 1150, 0, map[string]int64{"pool": 2000, "pool/a": 850, "pool/b": 1000}},
		{"a whole period has passed", two(), "a", 1400, 1400, 100 * time.Second,
			map[string]int64{"pool": 2000, "pool/a": 1000, "pool/b": 1000}},
		{"x borrows 100 of y, within their group", nested(), "x", 600, 600, 0,
			map[string]int64{"pool/a": 1000, "pool/a/x": 400, "pool/a/y": 600, "pool/b": 1000}},
		// 495 of y (its 500 have accrued but for a hundredth), 50 of b: x owes 545, pays 100;
		// of that 50/545 leave the group: ⌊9.17⌋ = 9.
		{"x borrows 545, of y and of b", nested(), "x", 1045, 1045, 0,
			map[string]int64{"pool": 2000, "pool/a": 991, "pool/a/x": 400, "pool/a/y": 591, "pool/b": 1009}},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := c.tree.ledger()
			end := time.Unix(0, l.roots[0].span.End).Add(100 * time.Second)
			at := end.Add(-time.Second)
			if v := l.Reserve(at, id(1), tokens(c.who, c.reserves), time.Time{}); !v.OK {
				t.Fatalf("%+v", v)
			}
			l.Settle(at, id(1), tokens("", c.uses).Amounts, false)
			all := int64(0)
			for _, n := range l.View(end.Add(c.after)) {
				if want, ok := c.want[n.ID]; ok && n.Budgets[0].Nominal != want {
					t.Errorf("%s has %d, want %d", n.ID, n.Budgets[0].Nominal, want)
				}
				all += n.Budgets[0].Share
			}
			if all != 2000 {
				t.Errorf("%d in all, want 2000: what one gives up others have", all)
			}
			for _, n := range l.View(end.Add(c.after + 100*time.Second)) { // it is paid
				if b := n.Budgets[0]; b.Nominal != l.nodes[l.byID[n.ID]].budgets[d].base || b.Debt != 0 {
					t.Errorf("in the period after: %+v", b)
				}
			}
		})
	}
}

// TestRepaymentOfTheLost: what was used beyond what all had together is missing in the next
// period, as far as it is repaid: a root of 1000 that has used 1050 has 950, one that has used
// 1500 has 800, and one that has used 1050 of which 50 are another's has what is its own.
func TestRepaymentOfTheLost(t *testing.T) {
	const d = coordinator.DimTotalTokens
	for _, c := range []struct{ uses, want int64 }{{1000, 1000}, {1050, 950}, {1500, 800}} {
		l := newTree().group("a", "pool", budgetFor(100*time.Second, d, 1000)).ledger()
		end := time.Unix(0, l.roots[0].span.End)
		l.Reserve(epoch, id(1), tokens("a", 1000), time.Time{})
		l.Settle(epoch, id(1), tokens("a", c.uses).Amounts, false)
		if b := budgetView(t, l, epoch, "pool/a"); b.Debt != c.uses-1000 {
			t.Errorf("%d used: a debt of %d", c.uses, b.Debt)
		}
		if b := budgetView(t, l, end, "pool/a"); b.Nominal != c.want || b.Cap != c.want || b.UsedBefore != c.uses ||
			b.Debt != 1000-c.want {
			t.Errorf("%d used: %+v, want %d", c.uses, b, c.want)
		}
		if v := l.Reserve(end, id(2), tokens("a", c.want+1), time.Time{}); v.OK || v.Permanent != (c.want == 1000) {
			t.Errorf("more than that: %+v", v)
		}
		if v := l.Reserve(end, id(2), tokens("a", c.want), time.Time{}); !v.OK {
			t.Errorf("all of that: %+v", v)
		}
	}
}

// TestRepaymentSimpleRule: under group_remaining loans have no particular lender. What is repaid stays in
// the group, for all that may use what it has left.
func TestRepaymentSimpleRule(t *testing.T) {
	const d = coordinator.DimTotalTokens
	part := budgetFor(100*time.Second, d, coordinator.ByWeight)
	simple := rule(coordinator.BorrowGroupRemaining)
	l := newTree(budgetFor(100*time.Second, d, 2000)).group("g", "pool", budgetFor(100*time.Second, d, 1000)).
		group("x", "g", part, simple).group("y", "g", part, simple).ledger()
	l.Reserve(epoch, id(1), tokens("x", 560), time.Time{})
	l.Settle(epoch, id(1), tokens("x", 560).Amounts, false)
	end := time.Unix(0, l.roots[0].span.End)
	for node, want := range map[string][2]int64{"pool": {2000, 1000}, "pool/g": {1000, 60}, "pool/g/x": {440, 440},
		"pool/g/y": {500, 500}} {
		if b := budgetView(t, l, end, node); b.Nominal != want[0] || b.Share != want[1] {
			t.Errorf("%s: %d, of which %d its own; want %v", node, b.Nominal, b.Share, want)
		}
	}
	if v := l.Reserve(end, id(2), tokens("y", 560), time.Time{}); !v.OK {
		t.Errorf("y's own 500 and the 60: %+v", v)
	}
}

// TestRepaymentWhereMoreIsPromised: the loader refuses quotas that promise more to the groups than
// the pool has, but the ledger is not to come to nonsense by them. a, of 500, has used 600: it owes
// 100, 20 % of its own, and all of that is lost to the pool, which was overdrawn by it. The pool
// loses no more than 20 % of what it has now.
func TestRepaymentWhereMoreIsPromised(t *testing.T) {
	const d = coordinator.DimTotalTokens
	of := func(pool int64) *coordinator.Quotas {
		return &newTree(budgetFor(100*time.Second, d, pool)).group("a", "pool", budgetFor(100*time.Second, d, 500)).Quotas
	}
	for _, c := range []struct{ pool, want int64 }{
		{500, 400}, // as promised: 500 less 100
		{100, 80},  // less 20
		{10, 8},
		{0, 0},
	} {
		l := NewLedger()
		l.Install(epoch, of(1000))
		l.Reserve(epoch, id(1), tokens("a", 500), time.Time{})
		l.Settle(epoch, id(1), tokens("a", 600).Amounts, false)
		l.Install(epoch, of(c.pool))
		end := time.Unix(0, l.roots[0].span.End)
		if b := budgetView(t, l, end, "pool"); b.Nominal != c.want || b.Share < 0 || b.Cap != c.want {
			t.Errorf("a pool of %d has %+v, want %d", c.pool, b, c.want)
		}
		if b := budgetView(t, l, end, "pool/a"); b.Nominal != 400 {
			t.Errorf("below a pool of %d the group has %d, want 400", c.pool, b.Nominal)
		}
	}
}
