package fairshare

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"taskbus/coordinator"
	"taskbus/coordinator/fairshare/fairqueue"
)

// asks has a group ask for more than it has, and returns the borrower.
func asks(t testing.TB, l *Ledger, now time.Time, group string, amount int64) Borrower {
	t.Helper()
	c := tokens(group, amount)
	p := l.PathOf(c)
	v := l.Check(now, &p, c)
	if v.OK {
		t.Fatalf("%s gets %d", group, amount)
	}
	return l.Borrower(group, &p, &v)
}

// TestBorrowers: a pool of 1200 for four groups of 300, in periods of 100 s. c takes 60 of a at
// half time, and gives nothing back. When all have used up what is theirs, a, which has lent 60,
// comes before b and d, which have done nothing, and c comes last; but a higher priority comes before all
// that.
func TestBorrowers(t *testing.T) {
	const d = coordinator.DimTotalTokens
	part := budgetFor(100*time.Second, d, coordinator.ByWeight)
	priority := func(p int) func(*coordinator.QuotaNode) {
		return func(n *coordinator.QuotaNode) { n.Borrowing.Priority = p }
	}
	for _, x := range []struct {
		name       string
		a, b, c, d int // their priorities
		order      string
	}{
		{"by credits", 0, 0, 0, 0, "a b=d c"},
		{"c has borrowed, and goes first", 0, 0, 1, 0, "c a b=d"},
		{"b before d", 0, 1, 0, 0, "b a d c"},
		{"credits within a priority", 2, 5, 5, 2, "b c a d"},
	} {
		t.Run(x.name, func(t *testing.T) {
			l := newTree(budgetFor(100*time.Second, d, 1200)).group("a", "pool", part, priority(x.a)).group("b", "pool", part,
				priority(x.b)).
				group("c", "pool", part, priority(x.c)).group("d", "pool", part, priority(x.d)).ledger()
			half := time.Unix(0, l.roots[0].span.Start).Add(50 * time.Second)
			if v := l.Reserve(half, id(0), tokens("c", 360), time.Time{}); !v.OK { // a is the first that has something
				t.Fatalf("%+v", v)
			}
			all := make(map[string]Borrower)
			for _, g := range []string{"a", "b", "c", "d"} {
				all[g] = asks(t, l, half, g, 1000)
			}
			for g, want := range map[string]int64{"a": 60, "b": 0, "c": -60, "d": 0} {
				if got, _ := creditsOf(all[g]); got != want {
					t.Errorf("%s has %d credits, want %d", g, got, want)
				}
			}
			rank, place := map[string]int{}, 0
			for i := 0; i < len(x.order); i++ {
				switch x.order[i] {
				case ' ':
					place++
				case '=':
				default:
					rank[x.order[i:i+1]] = place
				}
			}
			for g, b := range all {
				for h, c := range all {
					if got := b.Compare(c); got < 0 != (rank[g] < rank[h]) || got > 0 != (rank[g] > rank[h]) {
						t.Errorf("%s to %s: %d, want %s", g, h, got, x.order)
					}
				}
			}
		})
	}
}

// TestBorrowersOfGroups: what decides is what the groups have done to each other, and within a group what
// its members have. P has borrowed 11 of Q: so z of Q comes before all of P, though P's own tasks, for
// which it has kept 100 of its 300, have lent 99 to its members x and y. These are ordered among
// themselves.
func TestBorrowersOfGroups(t *testing.T) {
	const d = coordinator.DimTotalTokens
	of := func(n int64) func(*coordinator.QuotaNode) { return budgetFor(100*time.Second, d, n) }
	l := newTree(of(600)).group("P", "pool", of(300)).group("x", "P", of(100)).group("y", "P", of(100)).
		group("Q", "pool", of(300)).group("z", "Q", of(300)).ledger()
	end := time.Unix(0, l.roots[0].span.End)
	last := end.Add(-time.Second) // 99 % has accrued
	l.Reserve(last, id(1), tokens("y", 130), time.Time{})
	l.Reserve(last, id(2), tokens("x", 70), time.Time{})
	want := func(group string, credits int64) Borrower {
		t.Helper()
		b := asks(t, l, last, group, 500)
		if got, dim := creditsOf(b); got != credits || dim != d {
			t.Errorf("%s has %d credits of %s, want %d", group, got, dim, credits)
		}
		return b
	}
	// y's 30 were lent by P itself, which is nearer than x.
	want("P", 30)
	y := want("y", -30)
	// Of what P has kept 99 have accrued: 69 are left of it. x has 30 left and lacks 80, of which it
	// borrows those 69, and 11 of Q's.
	if v := l.Reserve(last, id(3), tokens("x", 110), time.Time{}); !v.OK {
		t.Fatalf("%+v", v)
	}
	x, p, z := want("x", -80), want("P", 30+69), want("z", 11)
	for _, c := range []struct {
		name          string
		first, second Borrower
	}{
		{"z's group has lent 11 to that of x", z, x}, {"and to that of P's own", z, p},
		{"P's own have lent 99 within P", p, x}, {"y has borrowed less than x", y, x}, {"and P's own lent", p, y},
	} {
		if c.first.Compare(c.second) != -1 || c.second.Compare(c.first) != 1 {
			t.Errorf("%s: %d", c.name, c.first.Compare(c.second))
		}
	}
}

// TestBorrowersTakeTurns: h lends 20 every second. The one of a and b that comes first borrows 10, time
// and again. a has lent 100 to b before: so it is a alone until it has had 100 more than b of what
// is lent, and from then on they have the same, but for one loan.
func TestBorrowersTakeTurns(t *testing.T) {
	const d = coordinator.DimTotalTokens
	of := func(n int64) func(*coordinator.QuotaNode) { return budgetFor(100*time.Second, d, n) }
	l := newTree(of(2400)).group("a", "pool", of(200)).group("b", "pool", of(200)).group("h", "pool", of(2000)).ledger()
	start := time.Unix(0, l.roots[0].span.End)
	l.Reserve(start.Add(-time.Second), id(1), tokens("h", 2000), time.Time{}) // h has nothing to lend in the period before
	l.Reserve(start.Add(-time.Second), id(2), tokens("b", 300), time.Time{})
	credits := func(g string) int64 { return l.nodes[l.byID["pool/"+g]].budgets[d].credits }
	if credits("a") != 100 || credits("b") != -100 {
		t.Fatalf("a has %d credits, b %d", credits("a"), credits("b"))
	}
	for i, g := range []string{"a", "b"} { // all that is theirs: b repays 40 to a
		if v := l.Reserve(start, id(10+i), tokens(g, []int64{240, 160}[i]), time.Time{}); !v.OK || v.Borrowed {
			t.Fatalf("%s: %+v", g, v)
		}
	}
	got := map[string]int64{}
	for i := range 100 {
		now := start.Add(time.Duration(1+i) * 500 * time.Millisecond) // 10 more have accrued to h
		a, b := asks(t, l, now, "a", 500), asks(t, l, now, "b", 500)
		first := "a"
		if a.Compare(b) > 0 {
			first = "b"
		}
		if v := l.Reserve(now, id(100+i), tokens(first, 10), time.Time{}); !v.OK {
			t.Fatalf("loan %d to %s: %+v", i, first, v)
		}
		got[first] += 10
		if i < 20 && got["b"] != 0 {
			t.Fatalf("b has borrowed after a has %d more", got["a"])
		}
		if more := got["a"] - got["b"]; i >= 20 && (more < 190 || more > 210) {
			t.Fatalf("a has borrowed %d more, want 200, for which it had lent 100 to b", more)
		}
	}
}

// TestBorrowersAreInOneOrder: of all borrowers in a family for calls of one model, after any loans in it,
// and any turns: if x comes before y and y before z, so does x before z, and ties are ties with the same
// others.
// And what a node has lent across its boundary is what its own share and its children have.
func TestBorrowersAreInOneOrder(t *testing.T) {
	type waiter struct {
		Borrower
		leaf int
	}
	ordered := 0
	rapid.Check(t, func(t *rapid.T) {
		l, s, q := NewLedger(), fairqueue.NewShares(), drawQuotas(t, true)
		l.Install(epoch, q)
		groups := fairqueue.NodesOf(q)
		if err := s.Install(groups); err != nil {
			t.Fatal(err)
		}
		compare := func(x, y waiter) int {
			switch c := x.Compare(y.Borrower); {
			case c != 0 || x.leaf == y.leaf:
				return c
			case s.Before(x.leaf, y.leaf):
				return -1
			default:
				return 1
			}
		}
		for _, f := range l.roots {
			var shares []*budget
			f.each(func(b *budget) {
				shares = append(shares, b)
			})
			for range rapid.IntRange(0, 10).Draw(t, "loans") {
				from, to := rapid.SampledFrom(shares).Draw(t, "from"), rapid.SampledFrom(shares).Draw(t, "to")
				if from != to {
					loan{from: from, to: to, top: meet(from, to), amount: rapid.Int64Range(1, 3).Draw(t, "amount")}.make()
				}
			}
			for _, b := range shares {
				sum := b.ownCredits
				for _, kid := range b.kids {
					sum += kid.credits
				}
				if sum != b.credits {
					t.Fatalf("%d credits, and %d in its parts", b.credits, sum)
				}
			}
			var all []waiter
			model := rapid.SampledFrom(append(randomModels, "unlisted")).Draw(t, "model")
			for _, g := range groups {
				s.Charge(s.Leaf(g.Name), rapid.Int64Range(1, 3).Draw(t, "cost"))
				c := &Charge{Group: g.Name, Provider: "p", Model: model}
				p := l.PathOf(c)
				b := l.Borrower(g.Name, &p, &Verdict{Limit: LimitBudget, Dimension: f.dim, Behind: l.nodes[f.node].spec.ID})
				if b.share != nil {
					all = append(all, waiter{b, s.Leaf(g.Name)})
				}
			}
			for _, x := range all {
				for _, y := range all {
					if compare(x, y) != -compare(y, x) {
						t.Fatalf("%d and %d", compare(x, y), compare(y, x))
					}
					for _, z := range all {
						a, b, c := compare(x, y), compare(y, z), compare(x, z)
						if a <= 0 && b <= 0 && c != min(a, b) {
							t.Fatalf("%d and %d, but %d", a, b, c)
						}
						if x.Compare(y.Borrower) < 0 && y.Compare(z.Borrower) < 0 {
							ordered++
						}
					}
				}
			}
		}
	})
	if ordered == 0 {
		t.Error("no three have ever had different credits")
	}
}

// creditsOf returns those of the share that is to borrow, and what they are of; 0 where none is.
func creditsOf(b Borrower) (credits int64, of coordinator.Dimension) {
	if b.share == nil {
		return 0, 0
	}
	return b.share.ownCredits, b.share.dim
}
