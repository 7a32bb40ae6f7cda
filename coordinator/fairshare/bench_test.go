package fairshare

import (
	"fmt"
	"testing"
	"time"

	"taskbus/coordinator"
)

// benchmarkTree is three levels, of which the lowest has so many tenants, with budgets and rates
// in four dimensions each.
func benchmarkTree(tenants int) *Ledger {
	limits := func(amount int64) []func(*coordinator.QuotaNode) {
		var all []func(*coordinator.QuotaNode)
		for _, d := range []coordinator.Dimension{coordinator.DimRequests, coordinator.DimInputTokens,
			coordinator.DimOutputTokens, coordinator.DimCost} {
			all = append(all, monthly(d, amount), func(n *coordinator.QuotaNode) {
				n.Rates[d] = &coordinator.QuotaLimit{Nominal: amount, Per: time.Second}
			})
		}
		return all
	}
	t := newTree(limits(1<<55)...).group("org", "pool", limits(coordinator.ByWeight)...)
	for i := range tenants {
		t.group(fmt.Sprint("t", i), "org", limits(coordinator.ByWeight)...)
	}
	return t.ledger()
}

// BenchmarkCheck is what tests/bench holds to its target.
func BenchmarkCheck(b *testing.B) {
	l := benchmarkTree(10_000)
	c := &Charge{Group: "t5000", Amounts: coordinator.Amounts{1, 1000, 100, 0, 500}}
	p := l.PathOf(c)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ { // the tree is made before, and is none of it
		if v := l.Check(epoch.Add(time.Duration(i)*time.Microsecond), &p, c); !v.OK {
			b.Fatal(v)
		}
	}
}

func BenchmarkReserveSettle(b *testing.B) {
	l := benchmarkTree(10_000)
	c := &Charge{Group: "t5000", Amounts: coordinator.Amounts{1, 1000, 100, 0, 500}}
	b.ReportAllocs()
	for i := range b.N {
		at := epoch.Add(time.Duration(i) * time.Millisecond)
		k := coordinator.TaskKey{uint64(i), 1}
		if v := l.Reserve(at, k, c, time.Time{}); !v.OK {
			b.Fatal(i, v)
		}
		l.Settle(at, k, coordinator.Amounts{1, 900, 50, 0, 400}, false)
		l.Freed(func(int32) {})
	}
}

// lenders is a pool of so many tenants with equal parts of a budget for a month.
func lenders(tenants int) *Ledger {
	const d = coordinator.DimTotalTokens
	t := newTree(monthly(d, int64(tenants)*100_000))
	for i := range tenants {
		t.group(fmt.Sprint("t", i), "pool", monthly(d, coordinator.ByWeight))
	}
	return t.ledger()
}

// BenchmarkBorrow is one of 10,000 tenants that takes what all the others leave, 1000 tokens at
// a time, from when a hundredth of the month has passed: a loan each, or a few.
func BenchmarkBorrow(b *testing.B) {
	var l *Ledger
	at := epoch.Add(31 * 24 * time.Hour / 100)
	c := tokens("t0", 1000)
	b.ReportAllocs()
	for i := range b.N {
		if i%9000 == 0 { // of 10,000 loans
			b.StopTimer()
			l = lenders(10_000)
			own := tokens("t0", 100_000)
			l.Reserve(at, coordinator.TaskKey{1, 1}, own, time.Time{})
			b.StartTimer()
		}
		k := coordinator.TaskKey{uint64(i), 2}
		if v := l.Reserve(at, k, c, time.Time{}); !v.OK || !v.Borrowed {
			b.Fatal(i, v)
		}
		l.Settle(at, k, c.Amounts, false)
	}
}

// BenchmarkBorrowOfAll is one charge that takes a loan of each of the other tenants, or of as many as it may,
// and gives all of them back. The time is that of the engine's goroutine, in which nothing else is decided.
func BenchmarkBorrowOfAll(b *testing.B) {
	for _, n := range []int{1_000, 10_000, 50_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			l := lenders(n)
			at := epoch.Add(31 * 24 * time.Hour / 100)
			c := tokens("t0", 100_000+int64(min(n-1, mostLenders))*900)
			for i := 0; b.Loop(); i++ {
				k := coordinator.TaskKey{uint64(i), 2}
				if v := l.Reserve(at, k, c, time.Time{}); !v.OK || !v.Borrowed {
					b.Fatal(i, v)
				}
				l.Release(at, k, false)
				l.Freed(func(int32) {})
			}
		})
	}
}

// BenchmarkBorrowRefused is a charge for more than 10,000 lenders have together: the first time
// all of them are asked, and get it back; after that it is known.
func BenchmarkBorrowRefused(b *testing.B) {
	for _, first := range []bool{true, false} {
		b.Run(map[bool]string{true: "first", false: "again"}[first], func(b *testing.B) {
			l := lenders(10_000)
			at := epoch.Add(31 * 24 * time.Hour / 100)
			c := tokens("t0", 100_000+10_000*1000)
			p := l.PathOf(c)
			for range b.N {
				if first {
					l.nodes[p.Nodes()[0]].budgets[coordinator.DimTotalTokens].knew = known{}
				}
				if v := l.Check(at, &p, c); v.OK || v.Permanent {
					b.Fatal(v)
				}
			}
		})
	}
}

// BenchmarkRefused is the common refusal: the pool is used up.
func BenchmarkRefused(b *testing.B) {
	l := lenders(10_000)
	at := epoch.Add(31 * 24 * time.Hour / 100)
	l.Reserve(at, coordinator.TaskKey{1, 1}, tokens("t1", 1), time.Time{})
	l.Settle(at, coordinator.TaskKey{1, 1}, tokens("t1", 1_000_000_000).Amounts, false)
	c := tokens("t0", 100_001)
	p := l.PathOf(c)
	b.ReportAllocs()
	for range b.N {
		if v := l.Check(at, &p, c); v.OK {
			b.Fatal(v)
		}
	}
}

// BenchmarkPeriodBegins is a new period for 10,000 tenants, one of which has debts.
func BenchmarkPeriodBegins(b *testing.B) {
	l := lenders(10_000)
	b.ReportAllocs()
	for i := range b.N {
		at := epoch.AddDate(0, i%1000, 0)
		k := coordinator.TaskKey{uint64(i), 1}
		l.Reserve(at, k, tokens("t0", 1000), time.Time{})
		l.Settle(at, k, tokens("t0", 200_000).Amounts, false)
		l.Alerts(nil)
		if i%1000 == 999 {
			l = lenders(10_000)
		}
	}
}

// BenchmarkView is everything that metrics show, of 10,000 tenants in four dimensions.
func BenchmarkView(b *testing.B) {
	l := benchmarkTree(10_000)
	for range b.N {
		if len(l.View(epoch)) != 10_002 {
			b.Fatal()
		}
	}
}
