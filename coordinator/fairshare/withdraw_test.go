package fairshare

import (
	"reflect"
	"testing"
	"time"

	"taskbus/coordinator"
)

// What was set aside for a call that is granted only together with others, of which one is refused, leaves
// no trace: also where it had to borrow for the debt that others have left. All of the pool is b's by
// weight. 56 that belong to no group are charged although that is b's: a debt of the pool's own. In the
// middle of the month half of the 134 has accrued to b: 67, of which a charge of 2 of the pool's
// borrows 58.
func TestWithdrawnLeavesNoTrace(t *testing.T) {
	const d = coordinator.DimTotalTokens
	l := newTree(monthly(d, 134), perSecond(coordinator.DimRequests, 5, 10)).
		group("b", "pool", monthly(d, coordinator.ByWeight)).ledger()
	l.Charge(epoch, id(1), tokens("", 56))
	l.Settle(epoch, id(1), tokens("", 56).Amounts, false)
	half := epoch.Add(31 * 24 * time.Hour / 2)
	asks := tokens("", 2)
	asks.Amounts[coordinator.DimRequests] = 3
	before := l.Export(half)
	for range 2 {
		if v := l.Reserve(half, id(2), asks, half.Add(time.Minute)); !v.OK || !v.Borrowed {
			t.Fatalf("2 more are not borrowed: %+v", v)
		}
		if reflect.DeepEqual(l.Export(half), before) {
			t.Fatal("nothing is set aside")
		}
		l.Withdraw(id(2))
		if after := l.Export(half); !reflect.DeepEqual(after, before) {
			t.Fatalf("what was withdrawn leaves\n%+v\ninstead of\n%+v", show(after), show(before))
		}
	}
}

func show(records []coordinator.Record) (rows []coordinator.QuotaBefore) {
	for _, r := range records {
		if b, is := r.(*coordinator.QuotaBefore); is {
			rows = append(rows, *b)
		}
	}
	return rows
}
