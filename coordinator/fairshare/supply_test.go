package fairshare

import (
	"fmt"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"taskbus/coordinator"
)

// judgeSupply holds what could be borrowed, as it is reckoned, against what can be borrowed.
func (w *world) judgeSupply() {
	t, l := w.t, w.l
	for _, f := range l.roots {
		f.each(func(b *budget) {
			const all = int64(1) << 50
			name := l.nodes[b.node].spec.ID
			can := all - l.borrow(b, all, math.MaxInt32)
			l.undo()
			if is := l.borrowableNow(b); is != can {
				t.Fatalf("%s %s could borrow %d by the sums, and gets %d", name, b.dim, is, can)
			}
			if f.reckoned == 0 {
				return
			}
			if sum := b.sumBelow(f.reckoned); sum != b.below || b.up != nil && b.lends != b.couldLend(f.reckoned, sum) {
				t.Fatalf("%s %s: those below could lend %d, and %d is kept; itself %d", name, b.dim, sum, b.below, b.lends)
			}
			kept := b.borrowable(f.reckoned, func(x *budget) int64 { return x.below })
			more := f.accruedSince(l.now)
			if can < kept || can > kept+more {
				t.Fatalf("%s %s could borrow %d by the sums that are kept, %d more with time, and gets %d", name, b.dim, kept, more,
					can)
			}
		})
		if rapid.IntRange(0, 3).Draw(t, "reckoned up") == 0 {
			f.reckonUpAt(l.now)
		}
	}
}

// TestDistinctBorrowersRefused: all agents of a large group ask at one moment for more than all others
// could lend. None of them is asked for any of it: no loan is tried, and the family is reckoned up no more
// often than every 10 µs for each share, whatever the number of those that ask. What is there is lent as
// before, of as many as lend for one charge.
func TestDistinctBorrowersRefused(t *testing.T) {
	const d, each, asking, apart = coordinator.DimTotalTokens, 100_000, 64, 20 * time.Millisecond
	for _, n := range []int{100, 10_000} {
		tr := newTree(monthly(d, int64(n)*each))
		for i := range n {
			tr.group(fmt.Sprint("t", i), "pool", monthly(d, coordinator.ByWeight))
		}
		l, at := tr.ledger(), epoch.Add(31*24*time.Hour/100)
		family := l.roots[0]
		reckonings, latest := 0, int64(0)
		for k := range asking {
			at = at.Add(apart)
			v := l.Reserve(at, id(k), tokens(fmt.Sprint("t", k), each+int64(n)*1100), time.Time{})
			if v.OK || v.Permanent || v.Limit != LimitBudget || !v.RetryAt.After(at) {
				t.Fatalf("%d of %d: %+v", k, n, v)
			}
			if family.reckoned != latest {
				reckonings, latest = reckonings+1, family.reckoned
			}
		}
		if c := cap(l.loans); c > 0 { // a refusal takes its loans back, and leaves their room
			t.Errorf("of %d up to %d loans were tried for what was refused", n, c)
		}
		if most := 1 + int(asking*apart/time.Duration(int64(n)*reckonEvery)); reckonings < 1 || reckonings > most {
			t.Errorf("%d shares were reckoned up %d times, at most %d are needed", n, reckonings, most)
		}
		if v := l.Reserve(at, id(1000), tokens("t7", each+int64(min(n, mostLenders))*900), time.Time{}); !v.OK {
			t.Errorf("of %d what is there is not lent: %+v", n, v)
		}
		family.each(func(b *budget) {
			if b.up != nil && b.credits != -b.borrowedIn+b.lentOut {
				t.Fatalf("credits %d of %d lent and %d borrowed", b.credits, b.lentOut, b.borrowedIn)
			}
		})
	}
}

// TestLargeFamily: a family that is reckoned up is as fair as one that is asked through. What is spent
// and given back counts at once, what accrues after the while that the next reckoning takes.
func TestLargeFamily(t *testing.T) {
	const d, n, each = coordinator.DimTotalTokens, 200, 100_000
	tr := newTree(monthly(d, n*each))
	for i := range n {
		tr.group(fmt.Sprint("t", i), "pool", monthly(d, coordinator.ByWeight))
	}
	l, at := tr.ledger(), epoch.Add(31*24*time.Hour/100) // 1000 each have accrued
	l.Reserve(at, id(1), tokens("t1", each+199*1000), time.Time{})
	if v := l.Reserve(at, id(2), tokens("t2", each+1), time.Time{}); v.OK {
		t.Fatalf("nothing is left: %+v", v)
	}
	l.Settle(at, id(1), tokens("t1", each+100*1000).Amounts, false)
	// 99,000 came back, 1,000 of it what t2 had lent itself
	if v := l.Reserve(at, id(3), tokens("t2", each+98*1000+1), time.Time{}); v.OK {
		t.Errorf("%+v", v)
	}
	if v := l.Reserve(at, id(4), tokens("t2", each+97*1000), time.Time{}); !v.OK {
		t.Errorf("what came back is there: %+v", v)
	}
	l.Release(at, id(4), false)
	at = at.Add(31 * 24 * time.Hour / 100) // 1000 more each
	if v := l.Reserve(at, id(5), tokens("t3", each+(98+197)*1000), time.Time{}); !v.OK {
		t.Errorf("what has accrued is there: %+v", v)
	}
}
