package fairshare

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"taskbus/coordinator"
)

// TestOwnerReturns is the theorem of accrual lending: whatever the others did before, in any
// tree, an owner that comes back at t has all that is still to accrue to it, and can spend it at
// its nominal rate to the end of the period, whatever the others go on to do.
func TestOwnerReturns(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		q := drawQuotas(t, false)
		w := newWorld(t, q)
		owner := rapid.SampledFrom(w.groups[2:]).Draw(t, "owner")
		for i, g := range w.groups { // of the others, what is charged to those above the owner, too
			if g == owner {
				w.groups = append(w.groups[:i:i], w.groups[i+1:]...)
				break
			}
		}
		for range rapid.IntRange(1, 50).Draw(t, "steps") {
			w.step()
		}
		w.now = w.l.Now()
		for d := range randomDims {
			w.spendAll(owner, randomDims[d])
		}
	})
}

// spendAll spends what accrues to a share until its period ends, in up to twenty portions;
// between them the others do what they like.
func (w *world) spendAll(owner string, d coordinator.Dimension) {
	p := w.l.PathOf(tokens(owner, 1))
	b := w.l.nodes[p.nodes[0]].budgets[d]
	if b == nil {
		return
	}
	for _, g := range w.groups {
		if p := w.l.PathOf(tokens(g, 1)); w.l.isFirst(&p, b) {
			return // somebody without a budget of his own has spent the owner's
		}
	}
	s := b.family.span
	had := b.accrued(w.now.UnixNano()) // up to here others could have it
	spent := int64(0)
	for i := range 20 {
		c := tokens(owner, 0)
		c.NoBorrowing = true
		c.Amounts[d] = max(0, b.accrued(w.now.UnixNano())-had-spent)
		if c.Amounts[d] > b.room() || b.room() < b.share-had-spent {
			w.t.Fatalf("%s of %s: %d of its %d had accrued, %d spent since; it wants %d, and has room for %d", owner, d, had, b.share, spent, c.Amounts[d], b.room())
		}
		for n := b; n != nil; n = n.up {
			if n.left() < b.share-had-spent {
				w.t.Fatalf("%s has %d left, less than the %d that are to accrue to %s", w.l.nodes[n.node].spec.ID, n.left(), b.share-had-spent, owner)
			}
		}
		key := id(5000 + 100*int(d) + i)
		if v := w.l.Reserve(w.now, key, c, time.Time{}); !v.OK {
			if w.l.budgetOf(v.Node, d).family == b.family {
				w.t.Fatalf("%s of %s: %d: %+v", owner, d, c.Amounts[d], v)
			}
			return // a limit above it for another period, of which it has no part, is used up
		}
		spent += c.Amounts[d]
		for range 3 {
			w.reserve(id(10_000+len(w.keys)), w.drawCharge())
		}
		next := s.start + (s.end-s.start)/20*int64(i+1)
		if next <= w.now.UnixNano() {
			continue
		}
		if next >= s.end || w.l.nextPeriod <= next {
			return // another family begins anew: that is enough
		}
		w.now = time.Unix(0, next).UTC()
	}
}

// TestOwnerReturnsVector: a, b and c have 1000 each for 100 s. Until 40 s a takes what it can
// get: its 1000, and 400 each that have accrued to the others. Then b comes back: it has
// 600 for the 60 s that are left, its 10 for every second.
func TestOwnerReturnsVector(t *testing.T) {
	const d = coordinator.DimTotalTokens
	l := newTree(budgetFor(100*time.Second, d, 3000)).
		group("a", "pool", budgetFor(100*time.Second, d, coordinator.ByWeight)).
		group("b", "pool", budgetFor(100*time.Second, d, coordinator.ByWeight)).
		group("c", "pool", budgetFor(100*time.Second, d, coordinator.ByWeight)).ledger()
	s0 := time.Unix(0, l.roots[0].span.start)
	at := func(s int) time.Time { return s0.Add(time.Duration(s) * time.Second) }
	got := 0
	for s := int(epoch.Sub(s0) / time.Second); s <= 40; s++ {
		for l.Reserve(at(s), id(got), tokens("a", 1), time.Time{}).OK {
			got++
		}
	}
	if got != 1800 {
		t.Errorf("a has got %d, want 1000 + 2·400", got)
	}
	for s := 41; s <= 100-1; s++ {
		if v := l.Reserve(at(s), id(10_000+s), tokens("b", 10), time.Time{}); !v.OK || v.Borrowed {
			t.Fatalf("b's 10 of second %d: %+v", s, v)
		}
		l.Reserve(at(s), id(20_000+s), tokens("a", 10), time.Time{}) // a goes on with what c leaves
	}
	if b := budgetView(t, l, at(99), "pool/b"); b.Reserved != 590 || b.Lent != 400 {
		t.Errorf("b: %+v", b)
	}
	if p := budgetView(t, l, at(99), "pool"); p.Reserved != 1800+590+590 {
		t.Errorf("the pool: %d used", p.Reserved)
	}
}

// TestLoneTenantBudget: who is alone has 99 % of the pool by the end of the period, whatever
// its own part is; asking for ten at a time, all but what has not accrued to each of the
// others within the last hundredth.
func TestLoneTenantBudget(t *testing.T) {
	const d = coordinator.DimTotalTokens
	for _, c := range []struct {
		name   string
		lonely func(*coordinator.QuotaNode)
		want   int64
	}{
		{"one of four", weight(1), 9900},
		{"of weight 0", weight(0), 9900},
		{"that may borrow half as much as it has", lends(coordinator.Bound{Kind: coordinator.BoundPercent, Value: 50}, coordinator.Bound{}), 3750},
		{"that may borrow 100", lends(coordinator.Bound{Kind: coordinator.BoundAmount, Value: 100}, coordinator.Bound{}), 2600},
		{"that never borrows", rule(coordinator.BorrowNever), 2500},
	} {
		t.Run(c.name, func(t *testing.T) {
			tr := newTree(budgetFor(100*time.Second, d, 10_000)).group("a", "pool", budgetFor(100*time.Second, d, coordinator.ByWeight), c.lonely)
			for _, g := range []string{"b", "c", "d"} {
				tr.group(g, "pool", budgetFor(100*time.Second, d, coordinator.ByWeight))
			}
			l := tr.ledger()
			begin := time.Unix(0, l.roots[0].span.end) // the next one, from its beginning
			got := int64(0)
			for i := range 1000 {
				at := begin.Add(time.Duration(i) * 100 * time.Millisecond)
				for n := 0; l.Reserve(at, id(i*10_000+n), tokens("a", 10), time.Time{}).OK; n++ {
					got += 10
				}
			}
			if got < c.want || got > c.want+100 {
				t.Errorf("it got %d of 10,000, want %d", got, c.want)
			}
		})
	}
}

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
		{name: "the first one, while nobody has lent anything", takes: 60, lent: [3]int64{60, 0, 0}},
		{name: "one after the other", takes: 250, lent: [3]int64{100, 100, 50}},
		{name: "as much as there is", takes: 300, lent: [3]int64{100, 100, 100}},
		{name: "and no more", takes: 301, refused: true},
		{name: "b lends 10 % of its 200", b: []func(*coordinator.QuotaNode){lends(coordinator.Bound{}, coordinator.Bound{Kind: coordinator.BoundPercent, Value: 10})},
			takes: 60, lent: [3]int64{20, 40, 0}},
		{name: "b lends 7", b: []func(*coordinator.QuotaNode){lends(coordinator.Bound{}, coordinator.Bound{Kind: coordinator.BoundAmount, Value: 7})},
			takes: 60, lent: [3]int64{7, 53, 0}},
		{name: "b always keeps 30 % of its 200", b: []func(*coordinator.QuotaNode){headroom(30)}, takes: 60, lent: [3]int64{40, 20, 0}},
		{name: "a may borrow 25 % of its 200", a: []func(*coordinator.QuotaNode){lends(coordinator.Bound{Kind: coordinator.BoundPercent, Value: 25}, coordinator.Bound{})},
			takes: 50, lent: [3]int64{50, 0, 0}},
		{name: "and no more than that", a: []func(*coordinator.QuotaNode){lends(coordinator.Bound{Kind: coordinator.BoundPercent, Value: 25}, coordinator.Bound{})},
			takes: 51, refused: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := newTree(budgetFor(100*time.Second, d, 800)).group("a", "pool", append(c.a, part)...).group("b", "pool", append(c.b, part)...).
				group("c", "pool", append(c.c, part)...).group("d", "pool", part).ledger()
			half := time.Unix(0, l.roots[0].span.end).Add(50 * time.Second)
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

// TestCredits: who has lent least lends first. a takes 60 of b at 50 s, then 60 more: c has
// lent nothing. Then both have lent 60, and b is first again.
func TestCredits(t *testing.T) {
	const d = coordinator.DimTotalTokens
	part := budgetFor(100*time.Second, d, coordinator.ByWeight)
	l := newTree(budgetFor(100*time.Second, d, 600)).group("a", "pool", part).group("b", "pool", part).group("c", "pool", part).ledger()
	half := time.Unix(0, l.roots[0].span.end).Add(50 * time.Second)
	l.Reserve(half, id(0), tokens("a", 200), time.Time{})
	for i, want := range [][2]int64{{60, 0}, {60, 60}, {70, 60}} {
		l.Reserve(half, id(i+1), tokens("a", []int64{60, 60, 10}[i]), time.Time{})
		if b, c := budgetView(t, l, half, "pool/b").Lent, budgetView(t, l, half, "pool/c").Lent; b != want[0] || c != want[1] {
			t.Errorf("loan %d: b %d, c %d, want %v", i+1, b, c, want)
		}
	}
	// In the next period a comes first among those who lend to c, for it has 130 less than
	// nothing. (c has its 200, and less than 40 that it is repaid.)
	next := half.Add(100 * time.Second)
	l.Reserve(next, id(10), tokens("c", 245), time.Time{})
	if a, b := budgetView(t, l, next, "pool/a").Lent, budgetView(t, l, next, "pool/b").Lent; a == 0 || b != 0 {
		t.Errorf("c borrows %d of a and %d of b", a, b)
	}
}

// TestLenderGivesBackHeld: what an owner had reserved and did not use it can lend at once.
func TestLenderGivesBackHeld(t *testing.T) {
	const d = coordinator.DimTotalTokens
	part := budgetFor(100*time.Second, d, coordinator.ByWeight)
	l := newTree(budgetFor(100*time.Second, d, 400)).group("a", "pool", part).group("b", "pool", part).ledger()
	half := time.Unix(0, l.roots[0].span.end).Add(50 * time.Second)
	l.Reserve(half, id(1), tokens("b", 200), time.Time{}) // all that is its own
	l.Reserve(half, id(2), tokens("a", 200), time.Time{})
	if v := l.Reserve(half, id(3), tokens("a", 1), time.Time{}); v.OK {
		t.Fatalf("nobody has anything: %+v", v)
	}
	l.Settle(half, id(1), tokens("b", 30).Amounts, false)
	if v := l.Reserve(half, id(3), tokens("a", 70), time.Time{}); !v.OK { // 100 have accrued, 30 are spent
		t.Errorf("b has 70 to lend: %+v", v)
	}
	if v := l.Reserve(half, id(4), tokens("a", 1), time.Time{}); v.OK {
		t.Errorf("and no more: %+v", v)
	}
}

// TestGlobalPool: 300 of the pool's 1000 are given to nobody. They are there from the
// beginning, for everybody who may have of them.
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
