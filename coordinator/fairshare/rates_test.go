package fairshare

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"taskbus/coordinator"
)

// asker asks for so much of requests each time; it counts what passes.
type asker struct {
	group  string
	cost   int64
	passed int64
}

// ask runs the askers against a ledger: each asks every step for as long as it is served.
func ask(l *Ledger, from time.Time, d, step time.Duration, askers ...*asker) {
	n := 0
	for at := from; at.Before(from.Add(d)); at = at.Add(step) {
		for again := true; again; {
			again = false
			for _, a := range askers {
				n++
				key := coordinator.TaskKey{uint64(at.UnixNano()), uint64(n)}
				if l.Reserve(at, key, &Charge{Group: a.group, Amounts: coordinator.Amounts{a.cost}}, time.Time{}).OK {
					l.Settle(at, key, coordinator.Amounts{a.cost}, false)
					a.passed += a.cost
					again = true
				}
			}
		}
	}
}

// TestRatesBySaturation: two greedy tenants at weights 3:1 share 100/s: in 100 s 7,500 to 2,500,
// but for a burst of the pool (100).
func TestRatesBySaturation(t *testing.T) {
	const d = coordinator.DimRequests
	share := perSecond(d, coordinator.ByWeight, 0)
	for _, c := range []struct {
		name         string
		costA, costB int64
	}{{"single requests", 1, 1}, {"one asks for 20 at a time", 1, 20}, {"the other does", 20, 1}} {
		t.Run(c.name, func(t *testing.T) {
			l := newTree(perSecond(d, 100, 100)).group("a", "pool", weight(3), share).group("b", "pool", weight(1), share).
				ledger()
			a, b := &asker{group: "a", cost: c.costA}, &asker{group: "b", cost: c.costB}
			ask(l, epoch, 100*time.Second, 10*time.Millisecond, b, a)
			if all := a.passed + b.passed; all < 9_900 || all > 10_100 {
				t.Errorf("%d passed of 100 s at 100/s", all)
			}
			if a.passed < 7_400 || a.passed > 7_600 || b.passed < 2_400 || b.passed > 2_600 {
				t.Errorf("%d and %d, want 7,500 and 2,500", a.passed, b.passed)
			}
		})
	}
}

// TestRatesReclaim: b has had all of the pool for 100 s. a comes back and finds its whole burst,
// and has its rate from then on. Where b has just taken more than its own burst in one piece, a
// has it within what one burst of the pool takes.
func TestRatesReclaim(t *testing.T) {
	const d = coordinator.DimRequests
	share := perSecond(d, coordinator.ByWeight, 0)
	for _, c := range []struct {
		name  string
		cost  int64
		after time.Duration
	}{{"of single requests", 1, 0}, {"of 100 at once", 100, time.Second}} {
		t.Run(c.name, func(t *testing.T) {
			l := newTree(perSecond(d, 100, 100)).group("a", "pool", weight(1), share).group("b", "pool", weight(1), share).
				ledger()
			b := &asker{group: "b", cost: c.cost}
			ask(l, epoch, 100*time.Second, 10*time.Millisecond, b)
			if b.passed < 9_900 || b.passed > 10_100 {
				t.Errorf("alone it has %d of 10,000", b.passed)
			}
			back := epoch.Add(100*time.Second + c.after)
			a := &asker{group: "a", cost: 1}
			ask(l, back, 1, 1, a)
			if a.passed < 50 {
				t.Errorf("a finds %d, want its burst of 50", a.passed)
			}
			ask(l, back.Add(10*time.Millisecond), 10*time.Second, 10*time.Millisecond, b, a)
			if a.passed < 50+490 {
				t.Errorf("after 10 s a has %d, want its 50/s", a.passed)
			}
		})
	}
}

// TestRatesLarge: the pool's burst is 100, a's part of it 10. 60 pass on an idle pool; 101 never
// do. A rate that may not be exceeded takes 10 at most.
func TestRatesLarge(t *testing.T) {
	const d = coordinator.DimRequests
	share := perSecond(d, coordinator.ByWeight, 0)
	l := newTree(perSecond(d, 100, 100)).group("a", "pool", weight(1), share).group("b", "pool", weight(9), share).
		group("c", "pool", weight(0), share).group("hard", "pool", weight(0), hardRate(10, 10)).ledger()
	at := epoch
	for _, c := range []struct {
		group     string
		cost      int64
		ok        bool
		permanent bool
		after     time.Duration // the next one comes so much later
	}{
		{"a", 101, false, true, 0},
		{"hard", 11, false, true, 0},
		{"a", 60, true, false, time.Second},
		{"c", 60, true, false, 10 * time.Second}, // nothing is assured to it, and no other wants it
		{"hard", 10, true, false, 0},
		{"hard", 1, false, false, 0},
	} {
		v := l.Reserve(at, coordinator.TaskKey{uint64(at.UnixNano()), uint64(c.cost)},
			&Charge{Group: c.group, Amounts: coordinator.Amounts{c.cost}}, time.Time{})
		if v.OK != c.ok || v.Permanent != c.permanent {
			t.Errorf("%d for %s: %+v", c.cost, c.group, v)
		}
		at = at.Add(c.after)
	}
}

// hardRate is FAIR-SHARE's rate_limit_rps and burst_capacity.
func hardRate(rate, burst int64) func(*coordinator.QuotaNode) {
	return func(n *coordinator.QuotaNode) {
		n.Rates[coordinator.DimRequests] = &coordinator.QuotaLimit{Nominal: rate, Per: time.Second, Burst: burst,
			Borrow: coordinator.Bound{Kind: coordinator.BoundAmount}}
	}
}

// TestRetryAfter: where one rate refuses, asking at the time it gives is admitted, and 1 ns
// before it is not.
func TestRetryAfter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rate, burst := rapid.Int64Range(1, 1000).Draw(t, "rate"), rapid.Int64Range(1, 1000).Draw(t, "burst")
		l := newTree().group("a", "pool", hardRate(rate, burst)).ledger()
		at := epoch
		for n := range rapid.IntRange(1, 20).Draw(t, "calls") {
			c := &Charge{Group: "a", Amounts: coordinator.Amounts{rapid.Int64Range(1, burst).Draw(t, "cost")}}
			at = at.Add(time.Duration(rapid.Int64Range(0, int64(time.Second)).Draw(t, "on")))
			v := l.Reserve(at, id(n), c, time.Time{})
			if v.OK {
				continue
			}
			p := l.PathOf(c)
			if v := l.Check(v.RetryAt.Add(-1), &p, c); v.OK {
				t.Fatalf("passes 1 ns before the time that was told: %+v", v)
			}
			if v := l.Check(v.RetryAt, &p, c); !v.OK {
				t.Fatalf("refused at the time that was told: %+v", v)
			}
			at = v.RetryAt
		}
	})
}

// TestTokensAndRequests is FAIR-SHARE's agents with 100k tokens and 5 requests a second, and
// with $50 and 2 requests a second.
func TestTokensAndRequests(t *testing.T) {
	for _, c := range []struct {
		name        string
		dim         coordinator.Dimension
		budget      int64
		rps, burst  int64
		cost, calls int64 // of one call, and how many the budget is for
	}{
		{"100k tokens + 5 rps", coordinator.DimTotalTokens, 100_000, 5, 10, 1000, 100},
		{"$50 + 2 rps", coordinator.DimCost, 50_000_000, 2, 4, 500_000, 100},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := newTree().group("g", "pool").agent("a", "g", monthly(c.dim, c.budget), hardRate(c.rps, c.burst)).ledger()
			charge := &Charge{Group: "g", Agent: "a", Amounts: coordinator.Amounts{1}}
			charge.Amounts[c.dim] = c.cost
			passed := int64(0)
			at := epoch
			for n := 0; passed < c.calls; n++ {
				v := l.Reserve(at, id(n), charge, time.Time{})
				switch {
				case v.OK:
					passed++
				case v.Limit != LimitRate || v.Permanent:
					t.Fatalf("after %d: %+v", passed, v)
				default: // nothing was taken off the budget
					if b := budgetView(t, l, at, "pool/g/a"); b.Reserved != passed*c.cost {
						t.Fatalf("%d reserved after %d calls", b.Reserved, passed)
					}
					at = v.RetryAt
				}
			}
			// The burst at once, then one for each 1/rps: (100 - burst)/rps seconds.
			if want := time.Duration(c.calls-c.burst) * time.Second / time.Duration(c.rps); at.Sub(epoch).
				Round(time.Millisecond) != want {
				t.Errorf("they take %v, want %v", at.Sub(epoch), want)
			}
			before, _ := l.Node(at.Add(time.Second), "pool/g/a")
			v := l.Reserve(at.Add(time.Second), id(1000), charge, time.Time{})
			if v.OK || v.Limit != LimitBudget || v.Dimension != c.dim || !v.RetryAt.Equal(epoch.AddDate(0, 1, 0)) {
				t.Errorf("one more: %+v", v)
			}
			if after, _ := l.Node(at.Add(time.Second), "pool/g/a"); after.Rates[0].Remaining != before.Rates[0].Remaining {
				t.Errorf("what the budget refused has cost %d of the rate", before.Rates[0].Remaining-after.Rates[0].Remaining)
			}
		})
	}
}

// TestBucketNotRefilled: when its budget begins anew, an empty bucket stays empty.
func TestBucketNotRefilled(t *testing.T) {
	l := newTree().group("a", "pool", hardRate(1, 10), monthly(coordinator.DimRequests, 10)).ledger()
	last := epoch.AddDate(0, 1, 0).Add(-time.Millisecond)
	ten := &Charge{Group: "a", Amounts: coordinator.Amounts{10}}
	if v := l.Reserve(last, id(1), ten, time.Time{}); !v.OK {
		t.Fatal(v)
	}
	if v := l.Reserve(epoch.AddDate(0, 1, 0), id(2), ten, time.Time{}); v.OK || v.Limit != LimitRate ||
		v.RetryAt.Sub(last) != 10*time.Second {
		t.Errorf("1 ms later, in the next month: %+v", v)
	}
}

// TestRateDebt: after using a million times what it reserved a node is refused for two bursts, not for
// longer; after using less it has the rest at once.
func TestRateDebt(t *testing.T) {
	l := newTree().group("a", "pool", hardRate(10, 20)).ledger()
	c := &Charge{Group: "a", Amounts: coordinator.Amounts{1}}
	l.Reserve(epoch, id(1), c, time.Time{})
	l.Settle(epoch, id(1), coordinator.Amounts{1_000_000}, false)
	v := l.Reserve(epoch, id(2), c, time.Time{})
	// The bucket of 20 is empty, and a debt of 20 is to be paid at 10/s: 2 s; the next one
	// after 2.1 s.
	if v.OK || v.RetryAt.Sub(epoch).Round(time.Microsecond) != 2100*time.Millisecond {
		t.Errorf("after %v: %+v", v.RetryAt.Sub(epoch), v)
	}
	at := epoch.Add(time.Minute)
	l.Reserve(at, id(3), &Charge{Group: "a", Amounts: coordinator.Amounts{20}}, time.Time{})
	l.Settle(at, id(3), coordinator.Amounts{5}, false)
	if n, _ := l.Node(at, "pool/a"); n.Rates[0].Remaining != 15 {
		t.Errorf("15 were given back, %d are there", n.Rates[0].Remaining)
	}
}

// TestExtendedRate: 10 are served by a's own rate, and 30 more by what the pool has left: each
// gets back what was taken of it.
func TestExtendedRate(t *testing.T) {
	const d = coordinator.DimRequests
	share := perSecond(d, coordinator.ByWeight, 0)
	l := newTree(perSecond(d, 100, 100)).group("a", "pool", weight(1), share).group("b", "pool", weight(4), share).ledger()
	left := func(a, pool int64) {
		t.Helper()
		x, _ := l.Node(epoch, "pool/a")
		y, _ := l.Node(epoch, "pool")
		if x.Rates[0].Remaining != a || y.Rates[0].Remaining != pool {
			t.Errorf("a has %d left and the pool %d, want %d and %d", x.Rates[0].Remaining, y.Rates[0].Remaining, a, pool)
		}
	}
	l.Reserve(epoch, id(1), &Charge{Group: "a", Amounts: coordinator.Amounts{20}}, time.Time{})
	left(0, 80)
	l.Release(epoch, id(1), false)
	left(20, 100)
	l.Reserve(epoch, id(2), &Charge{Group: "a", Amounts: coordinator.Amounts{10}}, time.Time{})
	left(10, 90)
	second := epoch.Add(time.Second) // full again
	l.Reserve(second, id(3), &Charge{Group: "a", Amounts: coordinator.Amounts{20}}, time.Time{})
	for range 10 { // a's own is empty; 80 are kept for b, so the pool lends what flows in
		second = second.Add(10 * time.Millisecond)
		l.Reserve(second, coordinator.TaskKey{uint64(second.UnixNano())},
			&Charge{Group: "b", Amounts: coordinator.Amounts{1}}, time.Time{})
	}
	second = second.Add(time.Second)
	l.Reserve(second, id(4), &Charge{Group: "a", Amounts: coordinator.Amounts{15}}, time.Time{})
	at, _ := l.Node(second, "pool/a")
	if v := l.Extend(second, id(4), coordinator.Amounts{20}, time.Time{}); v.OK { // 80 are b's
		t.Errorf("%+v", v)
	}
	l.Release(second, id(4), false)
	if n, _ := l.Node(second, "pool/a"); n.Rates[0].Remaining != at.Rates[0].Remaining+15 || n.Rates[0].Remaining != 20 {
		t.Errorf("it has %d back", n.Rates[0].Remaining)
	}
}

// TestUnreservedRate: tokens of which nothing was reserved are charged when they are told.
func TestUnreservedRate(t *testing.T) {
	const d = coordinator.DimTotalTokens
	l := newTree().group("a", "pool", perSecond(d, 100, 100)).ledger()
	l.Reserve(epoch, id(1), &Charge{Group: "a", Amounts: coordinator.Amounts{1}}, time.Time{})
	l.Settle(epoch, id(1), coordinator.Amounts{coordinator.DimRequests: 1, d: 60}, false)
	if n, _ := l.Node(epoch, "pool/a"); n.Rates[0].Remaining != 40 {
		t.Errorf("%d left of 100 after 60", n.Rates[0].Remaining)
	}
}
