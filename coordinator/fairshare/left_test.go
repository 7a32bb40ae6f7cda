package fairshare

import (
	"testing"
	"time"

	"taskbus/coordinator"
)

// The answer says first which limit refuses, with less left than was asked, then the budget and the rate of
// which the smallest part is left.
func TestLeftBeginsWithWhatRefuses(t *testing.T) {
	const d = coordinator.DimTotalTokens
	half := epoch.Add(15 * 24 * time.Hour)
	end := epoch.AddDate(0, 1, 0)
	left := func(node string, d coordinator.Dimension, limit string, n int64) coordinator.QuotaLeft {
		return coordinator.QuotaLeft{Node: node, Dimension: d, Limit: limit, Left: n}
	}
	pool := left("pool", d, "budget", 50) // of 1,000: a has used 270 of its 300, b 680 of its 700
	for name, c := range map[string]struct {
		requests, seats int64    // of a before
		asks            [3]int64 // tokens, requests, seats
		want            []coordinator.QuotaLeft
		reset           time.Duration // of the first
	}{
		// Of a's own a tenth is left, of the pool half as much.
		"by the budget of its own, while less is left of the pool": {
			asks: [3]int64{31, 0, 0}, want: []coordinator.QuotaLeft{left("pool/a", d, "budget", 30), pool}, reset: end.Sub(half),
		},
		"by none": {asks: [3]int64{30, 1, 1},
			want: []coordinator.QuotaLeft{pool, left("pool/a", coordinator.DimRequests, "rate", 20)}, reset: end.Sub(half)},
		// 20 in a row, 10 a second: of 18 that are gone all are back in 1.8 s.
		"by a rate that has 2 of 20": {
			requests: 18, asks: [3]int64{1, 3, 0},
			want:  []coordinator.QuotaLeft{left("pool/a", coordinator.DimRequests, "rate", 2), pool},
			reset: 1800 * time.Millisecond,
		},
		"by seats": {
			seats: 3, asks: [3]int64{1, 0, 2},
			want: []coordinator.QuotaLeft{left("pool/a", coordinator.DimConcurrency, "seats", 1), pool},
		},
		"for ever": {
			asks: [3]int64{301, 0, 0}, want: []coordinator.QuotaLeft{left("pool/a", d, "budget", 30), pool},
			reset: end.Sub(half),
		},
	} {
		l := newTree(monthly(d, 1000)).
			group("a", "pool", monthly(d, 300), rule(coordinator.BorrowNever), hardRate(10, 20), seatsOf(4)).
			group("b", "pool", monthly(d, coordinator.ByWeight)).ledger()
		if v := l.Reserve(half, id(1), tokens("b", 680), time.Time{}); !v.OK {
			t.Fatalf("%s: what b uses is refused: %+v", name, v)
		}
		before := tokens("a", 270)
		before.Amounts[coordinator.DimRequests], before.Amounts[coordinator.DimConcurrency] = c.requests, c.seats
		if v := l.Reserve(half, id(2), before, time.Time{}); !v.OK {
			t.Fatalf("%s: what is used before is refused: %+v", name, v)
		}
		asks := tokens("a", c.asks[0])
		asks.Amounts[coordinator.DimRequests], asks.Amounts[coordinator.DimConcurrency] = c.asks[1], c.asks[2]
		p := l.PathOf(asks)
		v := l.Check(half, &p, asks)
		got := l.Left(half, &p, &asks.Amounts, &v)
		if len(got) != len(c.want) {
			t.Fatalf("%s: %+v, want %+v", name, got, c.want)
		}
		for i := range got {
			if !sameLimit(&got[i], &c.want[i]) || got[i].Left != c.want[i].Left {
				t.Errorf("%s: at %d %+v, want %+v", name, i, got[i], c.want[i])
			}
		}
		if got[0].Reset != c.reset {
			t.Errorf("%s: whole again in %v, want %v", name, got[0].Reset, c.reset)
		}
	}
}

// A provider that has refused is left alone: for that long there is nothing, whatever its limits say. And what
// is kept for others that have waited is not said to be there for a call that is refused for their sake.
func TestLeftOfWhatNobodyHasUsedUp(t *testing.T) {
	l := newTree().group("a", "pool", hardRate(10, 20)).ledger()
	asks := &Charge{Group: "a", Amounts: coordinator.Amounts{coordinator.DimRequests: 5}}
	p := l.PathOf(asks)
	l.nodes[l.byID["pool/a"]].health.Fold(l.now, &coordinator.PoolHeard{BlockedUntil: epoch.Add(20 * time.Second)})
	v := l.Check(epoch, &p, asks)
	got := l.Left(epoch, &p, &asks.Amounts, &v)
	want := coordinator.QuotaLeft{Node: "pool/a", Dimension: coordinator.DimRequests, Limit: "provider",
		Window: 20 * time.Second, Reset: 20 * time.Second}
	if len(got) != 2 || got[0] != want || got[1].Limit != "rate" || got[1].Left != 20 {
		t.Errorf("left alone: %+v", got)
	}
	behind := Verdict{Node: "pool/a", Dimension: coordinator.DimRequests, Limit: LimitRate,
		RetryAt: epoch.Add(3 * time.Second)}
	got = l.Left(epoch, &p, &asks.Amounts, &behind)
	if len(got) != 1 || got[0].Left != 4 || got[0].Reset != 3*time.Second {
		t.Errorf("5 are asked for, 20 are there and kept for others for 3 s: %+v", got)
	}
}
