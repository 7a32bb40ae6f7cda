package fairshare

import (
	"testing"
	"time"

	"taskbus/coordinator"
)

// TestExcess: what is told of beyond a thousand times what was reserved is charged, and said to be
// an excess.
func TestExcess(t *testing.T) {
	const in, out, all, cost = coordinator.DimInputTokens, coordinator.DimOutputTokens, coordinator.DimTotalTokens,
		coordinator.DimCost
	for _, c := range []struct {
		name           string
		reserved, used coordinator.Amounts
		want           Excess
	}{
		{"a thousand times", coordinator.Amounts{all: 5000}, coordinator.Amounts{all: 5_000_000}, Excess{}},
		{"one more", coordinator.Amounts{all: 5000}, coordinator.Amounts{all: 5_000_001}, Excess{all, 5000, 5_000_001}},
		{"10^15 tokens", coordinator.Amounts{all: 5000}, coordinator.Amounts{all: 1e15}, Excess{all, 5000, 1e15}},
		// 1 counts as 1000: a million may be.
		{"a million for one", coordinator.Amounts{all: 1}, coordinator.Amounts{all: 1_000_000}, Excess{}},
		{"and one more", coordinator.Amounts{all: 1}, coordinator.Amounts{all: 1_000_001}, Excess{all, 1, 1_000_001}},
		{"nothing was estimated", coordinator.Amounts{all: 5000}, coordinator.Amounts{all: 5000, cost: 1e15}, Excess{}},
		// 2000 times, 4000 times, 2500 times.
		{"the worst of several", coordinator.Amounts{in: 3000, out: 1000, all: 4000},
			coordinator.Amounts{in: 6_000_000, out: 4_000_000, all: 10_000_000}, Excess{out, 1000, 4_000_000}},
		{"the first of equals", coordinator.Amounts{in: 2000, all: 2000}, coordinator.Amounts{in: 4_000_000, all: 4_000_000},
			Excess{in, 2000, 4_000_000}},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := newTree(monthly(all, 10_000)).ledger()
			if v := l.Reserve(epoch, id(1), &Charge{Amounts: c.reserved}, time.Time{}); !v.OK {
				t.Fatalf("%+v", v)
			}
			if e := l.Settle(epoch, id(1), c.used, false); e.Excess != c.want {
				t.Errorf("%+v, want %+v", e.Excess, c.want)
			}
			if b := budgetView(t, l, epoch, "pool"); b.Used != c.used[all] {
				t.Errorf("%d are charged, want %d", b.Used, c.used[all])
			}
		})
	}
}

// TestExcessOfAll: what a call was extended by counts with what was reserved first, and a late or repeated
// report is held to the same.
func TestExcessOfAll(t *testing.T) {
	const d = coordinator.DimTotalTokens
	l := newTree(monthly(d, 10_000)).ledger()
	used := coordinator.Amounts{d: 4_000_000}
	for i, late := range []bool{false, true} {
		at := epoch.AddDate(0, i, 0)
		l.Reserve(at, id(i), tokens("", 1000), at.Add(time.Minute))
		if v := l.Extend(at, id(i), coordinator.Amounts{d: 3000}, time.Time{}); !v.OK || v.Known {
			t.Fatalf("%+v", v)
		}
		if late {
			at = at.Add(time.Minute)
			l.Expire(at, id(i))
		}
		if e := l.Settle(at, id(i), used, true); e.Late != late || e.Excess != (Excess{}) {
			t.Errorf("4000 were set aside: %+v", e)
		}
	}
	at := epoch.AddDate(0, 2, 0)
	l.Reserve(at, id(2), tokens("", 1000), at.Add(time.Minute))
	l.Expire(at.Add(time.Minute), id(2))
	if e := l.Settle(at.Add(time.Minute), id(2), used, true); !e.Late || e.Excess != (Excess{d, 1000, 4_000_000}) {
		t.Errorf("told late: %+v", e)
	}
	if e := l.Settle(at.Add(time.Minute), id(2), used, true); !e.Again || e.Excess != (Excess{}) {
		t.Errorf("told again: %+v", e)
	}
}
