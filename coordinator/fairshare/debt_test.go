package fairshare

import (
	"fmt"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"taskbus/coordinator"
	"taskbus/coordinator/fairshare/health"
)

// shared are the limits that two groups share, 600 requests a minute with a burst, and 6000 tokens.
func shared(rate, burst int64) *coordinator.Quotas {
	tr := newTree().group("liar", "pool").group("other", "pool")
	return &tr.add("p", coordinator.QuotaPool, "", []func(*coordinator.QuotaNode){func(n *coordinator.QuotaNode) {
		n.Provider = "p"
		n.Rates[coordinator.DimRequests] = &coordinator.QuotaLimit{Nominal: rate, Per: time.Minute, Burst: burst}
		n.Rates[coordinator.DimTotalTokens] = &coordinator.QuotaLimit{Nominal: 6000, Per: time.Minute, Burst: 6000}
	}}).Quotas
}

func requestsOf(group string, n int64) *Charge {
	return &Charge{Group: group, Provider: "p", Amounts: coordinator.Amounts{n}}
}

// TestDebtOfARate: whatever usage is reported, and in whatever way, the rate that others share is back
// after the time in which its burst flows in: of 600 at 600 a minute that is 60 s, and then one passes
// after 0.1 s. The reports have no reservation: the bucket was full, or what was asked for was taken of it.
func TestDebtOfARate(t *testing.T) {
	const lie = 1_000_000_000
	said := coordinator.Amounts{lie}
	reserved := func(l *Ledger) { l.Reserve(epoch, id(1), requestsOf("liar", 1), epoch.Add(time.Second)) }
	for _, c := range []struct {
		name string
		tell func(l *Ledger)
		debt int64
	}{
		{"a charge", func(l *Ledger) {
			l.Charge(epoch, id(1), requestsOf("liar", lie))
			l.Settle(epoch, id(1), said, false)
		}, 600},
		{"one that is not settled", func(l *Ledger) { l.Charge(epoch, id(1), requestsOf("liar", lie)) }, 600},
		{"charges without end", func(l *Ledger) {
			for n := range 100 {
				l.Charge(epoch, id(n), requestsOf("liar", lie))
				l.Settle(epoch, id(n), said, true)
			}
		}, 600},
		{"the largest that there is", func(l *Ledger) {
			l.Charge(epoch, id(1), requestsOf("liar", math.MaxInt64))
			l.Settle(epoch, id(1), coordinator.Amounts{math.MaxInt64}, false)
		}, 600},
		{"a charge of 700: 600 are there, 100 are owed", func(l *Ledger) {
			l.Charge(epoch, id(1), requestsOf("liar", 700))
			l.Settle(epoch, id(1), coordinator.Amounts{700}, false)
		}, 100},
		{"a charge that turns out to be more: 600 are there, 1 and 9 are owed", func(l *Ledger) {
			l.Charge(epoch, id(1), requestsOf("liar", 601))
			l.Settle(epoch, id(1), coordinator.Amounts{610}, false)
		}, 10},
		{"a settlement", func(l *Ledger) { reserved(l); l.Settle(epoch, id(1), said, false) }, 600},
		{"one of what nothing was reserved of", func(l *Ledger) {
			l.Reserve(epoch, id(1), &Charge{Group: "liar", Provider: "p",
				Amounts: coordinator.Amounts{coordinator.DimTotalTokens: 1}}, time.Time{})
			l.Settle(epoch, id(1), said, false)
		}, 600},
		{"one that was extended", func(l *Ledger) {
			reserved(l)
			l.Extend(epoch, id(1), coordinator.Amounts{5}, time.Time{})
			l.Settle(epoch, id(1), said, false)
		}, 600},
		{"one that has expired", func(l *Ledger) { reserved(l); l.Expire(epoch, id(1)); l.Settle(epoch, id(1), said, false) },
			600},
		{"a record of another's word", func(l *Ledger) {
			l.Fold(requestsOf("liar", lie).Reserved(id(1), epoch))
			l.Fold(&coordinator.QuotaEnded{Key: id(1), How: coordinator.QuotaSettled, Used: said, At: epoch})
		}, 600},
		{"a record of an extension", func(l *Ledger) {
			l.Fold(requestsOf("liar", 1).Reserved(id(1), epoch))
			l.Fold(&coordinator.QuotaExtended{Key: id(1), More: said, At: epoch})
		}, 600},
		{"a record of what a provider took off a larger one", func(l *Ledger) {
			l.Fold(&coordinator.PoolHeard{Node: "p", At: epoch, PerMille: health.Whole, Taken: said})
		}, 600},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := NewLedger()
			l.Install(epoch, shared(600, 600))
			c.tell(l)
			n, _ := l.Node(epoch, "p")
			if got := n.Rates[0].Debt; got != c.debt {
				t.Errorf("it shows a debt of %d, want %d", got, c.debt)
			}
			want := time.Duration(c.debt+1) * 100 * time.Millisecond
			v := l.Reserve(epoch, id(-1), requestsOf("other", 1), time.Time{})
			if v.OK || v.RetryAt.Sub(epoch) != want {
				t.Errorf("the other one is answered with %+v, after %v; want a refusal until %v", v, v.RetryAt.Sub(epoch), want)
			}
			if v := l.Reserve(epoch.Add(want), id(-1), requestsOf("other", 1), time.Time{}); !v.OK {
				t.Errorf("and then with %+v", v)
			}
		})
	}
}

// TestDebtOfBefore: earlier versions have written down debts of decades. A ledger that folds them has a
// burst's at most, under the same limits, others, or such as are listed again later.
func TestDebtOfBefore(t *testing.T) {
	never := epoch.Add(20 * 365 * 24 * time.Hour).UnixNano()
	listed := &coordinator.QuotaBefore{Node: "p", Rate: true, Values: []int64{never, 0}}
	away := &coordinator.QuotaBefore{Node: "p", Rate: true, Values: []int64{never, 0, 600, int64(time.Minute), 600, 0, 0,
		0}}
	for _, c := range []struct {
		name  string
		row   *coordinator.QuotaBefore
		first *coordinator.Quotas // under which it is folded
		then  *coordinator.Quotas
		debt  int64
	}{
		{"the same limits", listed, shared(600, 600), shared(600, 600), 600},
		{"others", listed, shared(6000, 100), shared(6000, 100), 100},
		{"others later", listed, shared(600, 600), shared(601, 50), 50},
		{"listed again", away, &newTree().Quotas, shared(600, 600), 600},
		{"listed again as another", away, &newTree().Quotas, shared(600, 6), 6},
		{"listed again, after it was folded so", away, shared(600, 600), shared(600, 600), 600},
		// It is unknown which rate that was: it is empty.
		{"listed when it was written, and again", listed, &newTree().Quotas, shared(600, 600), 0},
	} {
		l := NewLedger()
		l.Install(epoch.Add(time.Hour), c.first)
		l.Fold(&coordinator.QuotaBefore{Start: epoch.UnixNano()})
		l.Fold(c.row)
		l.Install(epoch, c.then)
		n, _ := l.Node(epoch, "p")
		if got := n.Rates[0]; got.Debt != c.debt || got.Remaining != 0 {
			t.Errorf("%s: it owes %d and has %d left, want %d and 0", c.name, got.Debt, got.Remaining, c.debt)
		}
	}
}

// TestDebtOfAPart: a part by weight that is in debt by usage that was never admitted owes one burst at
// most, also after folding it from an earlier version. But what was admitted, because what the part above
// has was there, is paid in full, also after a change of leaders: 600 of 600 by a part of 10, which owes
// 590.
func TestDebtOfAPart(t *testing.T) {
	const d = coordinator.DimRequests
	part := perSecond(d, coordinator.ByWeight, 10)
	q := &newTree(perSecond(d, 600, 600)).group("a", "pool", part).group("b", "pool", part).Quotas
	owes := func(l *Ledger) int64 { n, _ := l.Node(epoch, "pool/a"); return n.Rates[0].Debt }
	for _, c := range []struct {
		name string
		tell func(l *Ledger)
		old  bool
		debt int64
	}{
		{"a charge", func(l *Ledger) { l.Charge(epoch, id(1), &Charge{Group: "a", Amounts: coordinator.Amounts{1e9}}) },
			false, 10},
		{"what was let pass", func(l *Ledger) {
			l.Reserve(epoch, id(1), &Charge{Group: "a", Amounts: coordinator.Amounts{600}}, time.Time{})
		}, false, 590},
		{"the same, of a version that did not distinguish it", func(l *Ledger) {
			l.Reserve(epoch, id(1), &Charge{Group: "a", Amounts: coordinator.Amounts{600}}, time.Time{})
		}, true, 10},
	} {
		l := NewLedger()
		l.Install(epoch, q)
		c.tell(l)
		if got := owes(l); !c.old && got != c.debt {
			t.Errorf("%s: %d are owed, want %d", c.name, got, c.debt)
		}
		heir := NewLedger()
		heir.Install(epoch, q)
		for _, r := range l.Export(epoch) {
			if r, is := r.(*coordinator.QuotaBefore); is && r.Rate && c.old {
				r.Values = r.Values[:2]
			}
			heir.Fold(r)
		}
		heir.Install(epoch, q)
		if got := owes(heir); got != c.debt {
			t.Errorf("%s: %d are owed after the change of leaders, want %d", c.name, got, c.debt)
		}
		alone := hardRate(300, 10) // the same part, and nothing of what others leave: it cannot have been let pass
		l.Install(epoch, &newTree(perSecond(d, 600, 600)).group("a", "pool", alone).group("b", "pool", part).Quotas)
		if got := owes(l); got != 10 {
			t.Errorf("%s: %d are owed by one that may not borrow, want 10", c.name, got)
		}
	}
}

// TestOwedIsNotGivenBack: a charge of 1e9 owes the 600 of the burst, and has taken 600 that were there.
// Released or settled at less it gives nothing back, for it is unknown how much of it was charged: else
// charging 1e9 and taking it back would fill the bucket for all. So it is after a change of leaders, and
// after other quotas.
func TestOwedIsNotGivenBack(t *testing.T) {
	for name, other := range map[string]func(l *Ledger) *Ledger{
		"at once":                   func(l *Ledger) *Ledger { return l },
		"after a change of leaders": func(l *Ledger) *Ledger { return restarted(l, epoch, shared(600, 600)) },
		"after other quotas": func(l *Ledger) *Ledger {
			l.Install(epoch, shared(1200, 600))
			return l
		},
	} {
		for what, end := range map[string]func(l *Ledger){
			"released":        func(l *Ledger) { l.Release(epoch, id(1), false) },
			"settled at less": func(l *Ledger) { l.Settle(epoch, id(1), coordinator.Amounts{10}, false) },
			"expired, and told late": func(l *Ledger) {
				l.Expire(epoch, id(1))
				l.Settle(epoch, id(1), coordinator.Amounts{1e9}, false)
			},
		} {
			l := NewLedger()
			l.Install(epoch, shared(600, 600))
			l.Charge(epoch, id(1), requestsOf("liar", 1e9))
			l = other(l)
			end(l)
			if n, _ := l.Node(epoch, "p"); n.Rates[0].Debt != 600 {
				t.Errorf("%s, %s: %+v, want a debt of 600", name, what, n.Rates[0])
			}
		}
	}
}

// TestDebtsAreBounded: whatever is reserved, extended, settled, released and charged, under whatever quotas
// one after the other, and folded by the next leader: no rate above which nothing passes, and no ceiling,
// is ever in debt by more than its burst.
func TestDebtsAreBounded(t *testing.T) {
	owed := 0
	rapid.Check(t, func(t *rapid.T) {
		whole := anyRates.draw(t)
		w := newWorld(t, whole)
		for n := range 40 {
			w.now = w.now.Add(time.Duration(rapid.Int64Range(0, int64(20*time.Second)).Draw(t, "on")))
			c := w.drawRates(60)
			if rapid.IntRange(0, 3).Draw(t, "lies") == 0 {
				c = w.drawRates(math.MaxInt64)
			}
			switch key := id(rapid.IntRange(0, n).Draw(t, "key")); rapid.IntRange(0, 7).Draw(t, "what") {
			case 0, 1:
				w.l.Reserve(w.now, id(n), c, time.Time{})
			case 2:
				w.l.Charge(w.now, id(n), c)
			case 3:
				w.l.Settle(w.now, key, c.Amounts, true)
			case 4:
				w.l.Extend(w.now, key, c.Amounts, time.Time{})
			case 5:
				w.l.Release(w.now, key, false)
			case 6:
				w.l.Install(w.now, drawReload(t, whole))
			case 7:
				w.l = restarted(w.l, w.now, drawReload(t, whole))
			}
			for i := range w.l.nodes {
				for d, s := range w.l.nodes[i].rates {
					if s == nil {
						continue
					}
					now := w.l.now
					if s.Assured.Debt(now)+s.Ceiling.Debt(now) > 0 {
						owed++
					}
					if s.Hard && s.Assured.Debt(now) > s.Burst || s.Ceiling.Debt(now) > s.Ceiling.Burst {
						t.Fatalf("%s owes %d of a burst of %d, and %d of its ceiling's %d in %v", s.ID,
							s.Assured.Debt(now), s.Burst, s.Ceiling.Debt(now), s.Ceiling.Burst, coordinator.Dimension(d))
					}
				}
			}
		}
	})
	if owed == 0 {
		t.Error("no rate was ever in debt: nothing has been tried")
	}
}

// What people see of a debt is what there is to wait for.
func ExampleRateView() {
	l := NewLedger()
	l.Install(epoch, shared(600, 600))
	l.Charge(epoch, id(1), requestsOf("liar", 1e9))
	for _, on := range []time.Duration{0, 30 * time.Second, time.Minute, 2 * time.Minute} {
		n, _ := l.Node(epoch.Add(on), "p")
		fmt.Printf("%v: %d owed, %d left\n", on, n.Rates[0].Debt, n.Rates[0].Remaining)
	}
	// Output:
	// 0s: 600 owed, 0 left
	// 30s: 300 owed, 0 left
	// 1m0s: 0 owed, 0 left
	// 2m0s: 0 owed, 600 left
}
