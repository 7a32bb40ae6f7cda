package fairshare

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"taskbus/coordinator"
)

// A correction moves what counts as used of a node and of those above it, also those of another period, and no
// further down than to what the nodes below have used; what an agent's word took of others is given back.
func TestCorrect(t *testing.T) {
	const d = coordinator.DimTotalTokens
	l := newTree(monthly(d, 10_000)).group("own", "pool", monthly(d, 1000)).group("rest", "pool", monthly(d, 9000)).
		group("daily", "pool", budgetFor(24*time.Hour, d, 500)).ledger()
	at := epoch.AddDate(0, 0, 10)
	want := func(node string, used int64) {
		t.Helper()
		if v := budgetView(t, l, at, node); v.Used != used {
			t.Errorf("%s: %d are used, want %d", node, v.Used, used)
		}
	}
	correct := func(node string, by, moved int64) {
		t.Helper()
		if got, ok := l.Correct(at, node, d, by); !ok || got != moved {
			t.Errorf("%s by %d: moved by %d, %v, want %d", node, by, got, ok, moved)
		}
	}
	if v := l.Reserve(at, id(1), tokens("own", 100), time.Time{}); !v.OK {
		t.Fatalf("%+v", v)
	}
	used, doubt := l.Held(at, id(1), tokens("own", 1e15).Amounts)
	if doubt == nil || used[d] != 1900 {
		t.Fatalf("held at %d, %+v", used[d], doubt)
	}
	l.SettleBy(at, id(1), used, false, coordinator.WordOwn)
	correct("pool", -1000, 0) // it has used nothing itself
	use(t, l, at, 2, "daily", 200)
	correct("pool/own", -1800, -1800)
	want("pool/own", 100)
	want("pool", 300)
	a := liar{l: l, group: "own"}
	if !a.charge(at, 1800) { // 900 of its own, and 900 of the others'
		t.Error("what it took of others does not count as given back")
	}
	correct("pool/own", -5000, -1900)
	correct("pool/daily", 50, 50)
	want("pool/daily", 250)
	want("pool", 250)
	correct("pool/daily", -100, -100)
	want("pool/daily", 150)
	want("pool", 150)
	if _, ok := l.Correct(at, "pool/own", coordinator.DimCost, -1); ok {
		t.Error("a budget is corrected that is not there")
	}
	if _, ok := l.Correct(at, "pool/nobody", d, -1); ok {
		t.Error("a node is corrected that is not there")
	}
}

// Whatever is corrected, at whatever time, the books fit together, and fold to the same.
func TestCorrectKeepsBooks(outer *testing.T) {
	const d = coordinator.DimTotalTokens
	rapid.Check(outer, func(t *rapid.T) {
		q := &newTree(monthly(d, 10_000)).group("a", "pool", monthly(d, 3000)).group("b", "pool", monthly(d, 6000)).Quotas
		l, now := NewLedger(), epoch
		l.Install(now, q)
		folded := NewLedger()
		folded.Install(now, q)
		for i := range rapid.IntRange(1, 30).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.Int64Range(0, int64(200*time.Hour)).Draw(t, "later")))
			if rapid.Bool().Draw(t, "correct") {
				c := coordinator.QuotaControl{Kind: coordinator.ControlCorrect,
					Target: rapid.SampledFrom([]string{"pool", "pool/a", "pool/b"}).Draw(t, "node"), Key: d.String(), At: now}
				by := rapid.Int64Range(-5000, 5000).Draw(t, "by")
				if moved, ok := l.Correct(now, c.Target, d, by); !ok || moved > max(by, 0) || moved < min(by, 0) {
					t.Fatalf("%d instead of %d", moved, by)
				} else if moved != 0 {
					c = c.Corrected(d, moved)
					folded.FoldCorrection(&c)
				}
				continue
			}
			c := tokens(rapid.SampledFrom([]string{"a", "b"}).Draw(t, "group"), rapid.Int64Range(1, 4000).Draw(t, "tokens"))
			if l.Reserve(now, id(i+1), c, time.Time{}).OK {
				l.Settle(now, id(i+1), c.Amounts, false)
				folded.Fold(c.Reserved(id(i+1), now))
				folded.Fold(&coordinator.QuotaEnded{Key: id(i + 1), How: coordinator.QuotaSettled, Used: c.Amounts, At: now})
			}
		}
		for _, f := range l.roots {
			if !f.sound() {
				t.Fatalf("the books do not fit: %+v", l.View(now))
			}
		}
		for _, node := range []string{"pool", "pool/a", "pool/b"} {
			if a, b := budgetView(outer, l, now, node), budgetView(outer, folded, now, node); a.Used != b.Used || a.Used < 0 {
				t.Fatalf("%s: %d are used, folded %d", node, a.Used, b.Used)
			}
		}
	})
}
