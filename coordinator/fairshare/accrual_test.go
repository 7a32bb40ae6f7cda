package fairshare

import (
	"slices"
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
		w.agents = slices.DeleteFunc(w.agents, func(a coordinator.AgentID) bool { // nor what its own do
			group, known := w.l.GroupOfAgent(a)
			return known && group == owner
		})
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
	b := w.l.nodes[p.Nodes()[0]].budgets[d]
	if b == nil {
		return
	}
	for _, g := range w.groups {
		if p := w.l.PathOf(tokens(g, 1)); w.l.isFirst(&p, b) {
			return // a tenant without a budget of its own has spent the owner's
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
			w.t.Fatalf("%s of %s: %d of its %d had accrued, %d spent since; it wants %d, and has room for %d", owner, d, had,
				b.share, spent, c.Amounts[d], b.room())
		}
		for n := b; n != nil; n = n.up {
			if n.left() < b.share-had-spent {
				w.t.Fatalf("%s has %d left, less than the %d that are to accrue to %s", w.l.nodes[n.node].spec.ID, n.left(),
					b.share-had-spent, owner)
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
		next := s.Start + (s.End-s.Start)/20*int64(i+1)
		if next <= w.now.UnixNano() {
			continue
		}
		if next >= s.End || w.l.nextPeriod <= next {
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
	s0 := time.Unix(0, l.roots[0].span.Start)
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

// TestLoneTenantBudget: a tenant that is alone has 99 % of the pool by the end of the period, whatever its
// own part is; asking for ten at a time, all but what has not accrued to each of the others within the last
// hundredth.
func TestLoneTenantBudget(t *testing.T) {
	const d = coordinator.DimTotalTokens
	for _, c := range []struct {
		name   string
		lonely func(*coordinator.QuotaNode)
		want   int64
	}{
		{"one of four", weight(1), 9900},
		{"of weight 0", weight(0), 9900},
		{"that may borrow half as much as it has", lends(coordinator.Bound{Kind: coordinator.BoundPercent, Value: 50},
			coordinator.Bound{}), 3750},
		{"that may borrow 100", lends(coordinator.Bound{Kind: coordinator.BoundAmount, Value: 100}, coordinator.Bound{}),
			2600},
		{"that never borrows", rule(coordinator.BorrowNever), 2500},
	} {
		t.Run(c.name, func(t *testing.T) {
			tr := newTree(budgetFor(100*time.Second, d, 10_000)).
				group("a", "pool", budgetFor(100*time.Second, d, coordinator.ByWeight), c.lonely)
			for _, g := range []string{"b", "c", "d"} {
				tr.group(g, "pool", budgetFor(100*time.Second, d, coordinator.ByWeight))
			}
			l := tr.ledger()
			begin := time.Unix(0, l.roots[0].span.End) // the next one, from its beginning
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

// TestLoneTenantBelowAGroup: a is part of x, which has used up its half: what it lacks comes from
// y, through x. It may ask again when as much has accrued there, not only in the next period, and
// has 99 % of all in the end. Where x may borrow no more than 100 it has 600, and may not ask again
// before the period ends.
func TestLoneTenantBelowAGroup(t *testing.T) {
	const d = coordinator.DimTotalTokens
	part := budgetFor(100*time.Second, d, coordinator.ByWeight)
	for _, c := range []struct {
		bound coordinator.Bound
		want  int64
	}{{coordinator.Bound{}, 990}, {coordinator.Bound{Kind: coordinator.BoundAmount, Value: 100}, 600}} {
		l := newTree(budgetFor(100*time.Second, d, 1000)).group("x", "pool", part, lends(c.bound, coordinator.Bound{})).
			group("y", "pool", part).group("a", "x", part).ledger()
		begin := time.Unix(0, l.roots[0].span.End)
		end := begin.Add(100 * time.Second)
		got, asked := int64(0), 0
		for at := begin; at.Before(end); asked++ {
			v := l.Reserve(at, id(asked), tokens("a", 10), time.Time{})
			if v.OK {
				got += 10
				continue
			}
			if v.RetryAt.Before(at) || v.Permanent || got < c.want && !v.RetryAt.Before(end) {
				t.Fatalf("after %d: %+v", got, v)
			}
			if at = v.RetryAt; got >= 600 && c.want == 600 && !at.Equal(end) {
				t.Errorf("it may ask again at %v, and there is nothing before %v", at, end)
			}
		}
		if got < c.want || got > c.want+10 || asked > 500 {
			t.Errorf("it got %d, want %d, asking %d times", got, c.want, asked)
		}
	}
}
