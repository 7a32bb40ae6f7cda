package fairshare

import (
	"testing"
	"time"

	"taskbus/coordinator"
)

// TestWhoLends: at half time b, c and d have 100 each that has accrued, and a wants more.
func TestWhoLends(t *testing.T) {
	const d = coordinator.DimTotalTokens
	part := budgetFor(100*time.Second, d, coordinator.ByWeight)
	for _, c := range []struct {
		name    string
		b, c    []func(*coordinator.QuotaNode)
		a       []func(*coordinator.QuotaNode)
		takes   int64
		lent    [3]int64 // of b, c, d
		refused bool
	}{
		{name: "the first one, while none has lent anything", takes: 60, lent: [3]int64{60, 0, 0}},
		{name: "one after the other", takes: 250, lent: [3]int64{100, 100, 50}},
		{name: "as much as there is", takes: 300, lent: [3]int64{100, 100, 100}},
		{name: "and no more", takes: 301, refused: true},
		{name: "b lends 10 % of its 200",
			b: []func(*coordinator.QuotaNode){
				lends(coordinator.Bound{}, coordinator.Bound{Kind: coordinator.BoundPercent, Value: 10})},
			takes: 60, lent: [3]int64{20, 40, 0}},
		{name: "b lends 7", b: []func(*coordinator.QuotaNode){
			lends(coordinator.Bound{}, coordinator.Bound{Kind: coordinator.BoundAmount, Value: 7})},
			takes: 60, lent: [3]int64{7, 53, 0}},
		{name: "b always keeps 30 % of its 200", b: []func(*coordinator.QuotaNode){headroom(30)}, takes: 60,
			lent: [3]int64{40, 20, 0}},
		{name: "a may borrow 25 % of its 200",
			a: []func(*coordinator.QuotaNode){lends(coordinator.Bound{Kind: coordinator.BoundPercent, Value: 25},
				coordinator.Bound{})},
			takes: 50, lent: [3]int64{50, 0, 0}},
		{name: "and no more than that",
			a: []func(*coordinator.QuotaNode){lends(coordinator.Bound{Kind: coordinator.BoundPercent, Value: 25},
				coordinator.Bound{})},
			takes: 51, refused: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := newTree(budgetFor(100*time.Second, d, 800)).group("a", "pool", append(c.a, part)...).
				group("b", "pool", append(c.b, part)...).
				group("c", "pool", append(c.c, part)...).group("d", "pool", part).ledger()
			half := time.Unix(0, l.roots[0].span.End).Add(50 * time.Second)
			if v := l.Reserve(half, id(1), tokens("a", 200+c.takes), time.Time{}); v.OK == c.refused {
				t.Fatalf("%+v", v)
			}
			for i, g := range []string{"b", "c", "d"} {
				if got := budgetView(t, l, half, "pool/"+g).Lent; got != c.lent[i] {
					t.Errorf("%s has lent %d, want %d", g, got, c.lent[i])
				}
			}
		})
	}
}

// TestMostLenders: when a hundredth of the month has passed each of 3,000 tenants has 1,000 of its 100,000 to lend.
// The first takes its own and what 1,024 others have, and one more only when these have more: by half of the next
// hundredth, 1,500 each.
func TestMostLenders(t *testing.T) {
	l, month := lenders(3000), 31*24*time.Hour
	at := epoch.Add(month / 100)
	most := 100_000 + int64(mostLenders)*1000
	v := l.Reserve(at, id(1), tokens("t0", most+1), time.Time{})
	if v.OK || v.Permanent || !v.RetryAt.After(at) || v.RetryAt.After(at.Add(time.Minute)) {
		t.Fatalf("one more than it may borrow: %+v", v)
	}
	if lent := budgetView(t, l, at, "pool").Lent; lent != 0 {
		t.Errorf("%d are lent after a refusal", lent)
	}
	if v := l.Reserve(at.Add(month/200), id(1), tokens("t0", most+1), time.Time{}); !v.OK {
		t.Fatalf("when they have more: %+v", v)
	}
	l.Release(at.Add(month/200), id(1), false)
	if v := l.Reserve(at.Add(month/200), id(2), tokens("t0", 100_000+int64(mostLenders)*1500), time.Time{}); !v.OK {
		t.Fatalf("what so many have: %+v", v)
	}
	if n := len(l.open[id(2)].loans); n != mostLenders {
		t.Errorf("%d loans, want %d", n, mostLenders)
	}
}

// TestCredits: the share that has lent least lends first. a takes 60 of b at 50 s, then 60 more: c has
// lent nothing. Then both have lent 60, and b is first again.
func TestCredits(t *testing.T) {
	const d = coordinator.DimTotalTokens
	part := budgetFor(100*time.Second, d, coordinator.ByWeight)
	l := newTree(budgetFor(100*time.Second, d, 600)).group("a", "pool", part).group("b", "pool", part).
		group("c", "pool", part).ledger()
	half := time.Unix(0, l.roots[0].span.End).Add(50 * time.Second)
	l.Reserve(half, id(0), tokens("a", 200), time.Time{})
	for i, want := range [][2]int64{{60, 0}, {60, 60}, {70, 60}} {
		l.Reserve(half, id(i+1), tokens("a", []int64{60, 60, 10}[i]), time.Time{})
		if b, c := budgetView(t, l, half, "pool/b").Lent, budgetView(t, l, half, "pool/c").Lent; b != want[0] ||
			c != want[1] {
			t.Errorf("loan %d: b %d, c %d, want %v", i+1, b, c, want)
		}
	}
	// In the next period a comes first among the lenders to c, for it has 130 less than
	// nothing. (c has its 200, and less than 40 that it is repaid.)
	next := half.Add(100 * time.Second)
	l.Reserve(next, id(10), tokens("c", 245), time.Time{})
	if a, b := budgetView(t, l, next, "pool/a").Lent, budgetView(t, l, next, "pool/b").Lent; a == 0 || b != 0 {
		t.Errorf("c borrows %d of a and %d of b", a, b)
	}
}

// TestBorrowersLend: z has borrowed 60 of a. When b borrows in the next period, z lends as much
// before c, which has neither lent nor borrowed; then they take turns, and a comes last.
func TestBorrowersLend(t *testing.T) {
	const d = coordinator.DimTotalTokens
	part := budgetFor(100*time.Second, d, coordinator.ByWeight)
	l := newTree(budgetFor(100*time.Second, d, 800)).group("a", "pool", part).group("b", "pool", part).
		group("c", "pool", part).group("z", "pool", part).ledger()
	half := time.Unix(0, l.roots[0].span.End).Add(50 * time.Second)
	l.Reserve(half, id(1), tokens("z", 260), time.Time{})
	next := half.Add(100 * time.Second)
	for i, c := range []struct {
		take    int64
		a, c, z int64 // lent in all
	}{{230, 0, 0, 30}, {30, 0, 0, 60}, {20, 0, 20, 60}, {90, 0, 90, 80}} {
		l.Reserve(next, id(10+i), tokens("b", c.take), time.Time{})
		// z has 160, 80 of which have accrued: it repays 40, a fifth of its 200.
		for node, want := range map[string]int64{"pool/a": c.a, "pool/c": c.c, "pool/z": c.z} {
			if got := budgetView(t, l, next, node).Lent; got != want {
				t.Errorf("after %d: %s has lent %d, want %d", i+1, node, got, want)
			}
		}
	}
}

// TestLenderGivesBackHeld: what an owner had reserved and did not use it can lend at once.
func TestLenderGivesBackHeld(t *testing.T) {
	const d = coordinator.DimTotalTokens
	part := budgetFor(100*time.Second, d, coordinator.ByWeight)
	l := newTree(budgetFor(100*time.Second, d, 600)).group("a", "pool", part).group("b", "pool", part).
		// c lends nothing
		group("c", "pool", part, lends(coordinator.Bound{}, coordinator.Bound{Kind: coordinator.BoundAmount})).ledger()
	half := time.Unix(0, l.roots[0].span.End).Add(50 * time.Second)
	l.Reserve(half, id(1), tokens("b", 200), time.Time{}) // all that is its own
	l.Reserve(half, id(2), tokens("a", 200), time.Time{})
	if v := l.Reserve(half, id(3), tokens("a", 1), time.Time{}); v.OK {
		t.Fatalf("no share has anything: %+v", v)
	}
	l.Settle(half, id(1), tokens("b", 30).Amounts, false)
	if v := l.Reserve(half, id(3), tokens("a", 70), time.Time{}); !v.OK { // 100 have accrued, 30 are spent
		t.Errorf("b has 70 to lend: %+v", v)
	}
	if v := l.Reserve(half, id(4), tokens("a", 1), time.Time{}); v.OK {
		t.Errorf("and no more: %+v", v)
	}
}

// TestLoansComeBack: z borrows 60 of b while its own 200 are reserved, and then these are released.
// When the call that has borrowed is settled, at all of it, z pays with what is its own, and b
// has its 60 again: for a, which has just been refused.
func TestLoansComeBack(t *testing.T) {
	const d = coordinator.DimTotalTokens
	part := budgetFor(100*time.Second, d, coordinator.ByWeight)
	l := newTree(budgetFor(100*time.Second, d, 600)).group("a", "pool", part).group("b", "pool", part).
		group("z", "pool", part).ledger()
	half := time.Unix(0, l.roots[0].span.End).Add(50 * time.Second)
	l.Reserve(half, id(3), tokens("a", 200), time.Time{})
	l.Reserve(half, id(1), tokens("z", 200), time.Time{})
	l.Reserve(half, id(2), tokens("z", 60), time.Time{})
	l.Release(half, id(1), false)
	if v := l.Reserve(half, id(4), tokens("a", 81), time.Time{}); v.OK { // b has 100 - 60, z as much
		t.Errorf("%+v", v)
	}
	l.Settle(half, id(2), tokens("z", 60).Amounts, false)
	if b := budgetView(t, l, half, "pool/b"); b.Lent != 0 {
		t.Errorf("b lends %d still", b.Lent)
	}
	if v := l.Reserve(half, id(4), tokens("a", 140), time.Time{}); !v.OK {
		t.Errorf("b has 100, z 40: %+v", v)
	}
}

// TestGlobalPool: 300 of the pool's 1000 are given to no group. They are there from the beginning, for
// every group that may have of them.
func TestGlobalPool(t *testing.T) {
	const d = coordinator.DimTotalTokens
	for _, c := range []struct {
		option func(*coordinator.QuotaNode)
		want   bool
	}{
		{func(*coordinator.QuotaNode) {}, true},
		{func(n *coordinator.QuotaNode) { n.Borrowing.NoGlobalPool = true }, false},
	} {
		l := newTree(monthly(d, 1000)).group("a", "pool", monthly(d, 700), c.option).ledger()
		v := l.Reserve(epoch, id(1), tokens("a", 1000), time.Time{})
		if v.OK != c.want || v.Permanent == c.want {
			t.Errorf("%+v, want %v", v, c.want)
		}
		n := tokens("a", 1000)
		if n.NoBorrowing = true; l.Reserve(epoch, id(2), n, time.Time{}).OK {
			t.Error("one that is not to borrow has borrowed")
		}
	}
}

func budgetFor(d time.Duration, dim coordinator.Dimension, amount int64) func(*coordinator.QuotaNode) {
	return func(n *coordinator.QuotaNode) {
		l := coordinator.QuotaLimit{Nominal: amount, Period: coordinator.Period{Unit: coordinator.PerInterval, Interval: d}}
		if old := n.Budgets[dim]; old != nil {
			l.Borrow, l.Lend = old.Borrow, old.Lend
		}
		n.Budgets[dim] = &l
	}
}

// lends bounds what is borrowed and lent of tokens; it may stand before or after the budget.
func lends(borrow, lend coordinator.Bound) func(*coordinator.QuotaNode) {
	const d = coordinator.DimTotalTokens
	return func(n *coordinator.QuotaNode) {
		if n.Budgets[d] == nil {
			n.Budgets[d] = &coordinator.QuotaLimit{}
		}
		n.Budgets[d].Borrow, n.Budgets[d].Lend = borrow, lend
	}
}

func headroom(percent int64) func(*coordinator.QuotaNode) {
	return func(n *coordinator.QuotaNode) { n.Borrowing.HeadroomPercent = percent }
}
