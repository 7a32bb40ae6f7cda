package fairshare

import (
	"testing"
	"time"

	"taskbus/coordinator"
)

// TestGroupHasWhatItsAgentsLeave: of 1000 tokens two agents have 750 and 250 by weight. What is charged
// to the group itself takes of the one that has most left, on the first day of the month, whatever is
// said of borrowing and lending; an agent has the rest; and what is given back the agent has again.
func TestGroupHasWhatItsAgentsLeave(t *testing.T) {
	const d = coordinator.DimTotalTokens
	never := coordinator.Bound{Kind: coordinator.BoundAmount}
	for name, terms := range map[string]func(*coordinator.QuotaNode){
		"by default":        func(*coordinator.QuotaNode) {},
		"that never borrow": rule(coordinator.BorrowNever),
		"that lend nothing": lends(coordinator.Bound{}, never),
		"that keep all":     func(n *coordinator.QuotaNode) { n.Borrowing.HeadroomPercent = 100 },
	} {
		t.Run(name, func(t *testing.T) {
			l := newTree().group("team", "pool", monthly(d, 1000), terms).
				agent("a", "team", weight(3), monthly(d, coordinator.ByWeight), terms).
				agent("b", "team", weight(1), monthly(d, coordinator.ByWeight), terms).
				group("below", "pool").ledger()
			p := l.PathOf(tokens("team", 1))
			if left := l.Left(epoch, &p, &coordinator.Amounts{d: 1}, &Verdict{OK: true}); left[0].Left != 1000 {
				t.Errorf("it is told that %d are left, want all 1000", left[0].Left)
			}
			c := tokens("team", 600)
			c.NoBorrowing = true // it is its own
			if v := l.Reserve(epoch, id(1), c, time.Time{}); !v.OK || v.Borrowed {
				t.Fatalf("600 of 1000: %+v", v)
			}
			if a := budgetView(t, l, epoch, "pool/team/a"); a.Lent != 600 || a.Cap != 150 {
				t.Errorf("a has given %d, and may use %d, want 600 and 750 - 600", a.Lent, a.Cap)
			}
			x := l.Explain(epoch, &p, tokens("team", 401))
			if lim := x.Limits[0]; x.Verdict.OK || lim.Left != 400 || lim.Borrowable != 0 {
				t.Errorf("of 150 and 250 it is told %+v", lim)
			}
			if v := l.Reserve(epoch, id(2), tokens("team", 300), time.Time{}); !v.OK { // 250 of b, 50 of a
				t.Fatalf("300 of 400: %+v", v)
			}
			l.Release(epoch, id(1), false)
			if v := l.Reserve(epoch, id(3), &Charge{Agent: "a", Amounts: coordinator.Amounts{d: 700}, NoBorrowing: true},
				time.Time{}); !v.OK {
				t.Errorf("a has 750 - 50 again: %+v", v)
			}
			if v := l.Reserve(epoch, id(4), tokens("team", 1), time.Time{}); v.OK || v.Permanent {
				t.Errorf("nothing is left: %+v", v)
			}
			if v := l.Reserve(epoch, id(5), tokens("team", 1001), time.Time{}); v.OK || !v.Permanent {
				t.Errorf("so much never is: %+v", v)
			}
		})
	}
}

// TestGroupHasNotWhatItsSubgroupsLeave: subgroups are tenants of their own. At the beginning of a period
// nothing of theirs has accrued, and a task of the group above has nothing.
func TestGroupHasNotWhatItsSubgroupsLeave(t *testing.T) {
	const d = coordinator.DimTotalTokens
	l := newTree().group("team", "pool", budgetFor(100*time.Second, d, 1000)).
		group("x", "team", budgetFor(100*time.Second, d, coordinator.ByWeight)).
		agent("a", "x", budgetFor(100*time.Second, d, coordinator.ByWeight)).ledger()
	begin := time.Unix(0, l.roots[0].span.End)
	if v := l.Reserve(begin, id(1), tokens("team", 1), time.Time{}); v.OK {
		t.Errorf("%+v", v)
	}
	if v := l.Reserve(begin, id(2), tokens("x", 1000), time.Time{}); !v.OK {
		t.Errorf("x has what a has not used: %+v", v)
	}
}

// TestGroupSettlesOutOfItsAgents: what a group's call, or task, without an agent has used beyond what was
// set aside for it is its own as far as its agents have anything left, however it ends; a debt is what is
// beyond.
func TestGroupSettlesOutOfItsAgents(t *testing.T) {
	const d = coordinator.DimTotalTokens
	for name, c := range map[string]struct {
		used, debt, left int64
		expired          bool
	}{
		"less than they have":           {used: 600, left: 400},
		"all":                           {used: 1000},
		"more":                          {used: 1100, debt: 100},
		"less, after it has expired":    {used: 600, left: 400, expired: true},
		"no more than was set aside":    {used: 10, left: 990},
		"less than what was set aside":  {used: 4, left: 996},
		"nothing, after it has expired": {left: 1000, expired: true},
	} {
		t.Run(name, func(t *testing.T) {
			l := newTree(monthly(d, 5000)).group("team", "pool", monthly(d, 1000)).
				agent("a", "team", weight(3), monthly(d, coordinator.ByWeight)).
				agent("b", "team", weight(1), monthly(d, coordinator.ByWeight)).ledger()
			if v := l.Reserve(epoch, id(1), tokens("team", 10), time.Time{}); !v.OK {
				t.Fatalf("%+v", v)
			}
			if c.expired {
				l.Expire(epoch, id(1))
			}
			l.Settle(epoch, id(1), coordinator.Amounts{d: c.used}, false)
			if team := budgetView(t, l, epoch, "pool/team"); team.Used != c.used || team.Debt != c.debt {
				t.Errorf("used %d, in debt %d, want %d and %d", team.Used, team.Debt, c.used, c.debt)
			}
			p, left := l.PathOf(tokens("team", 1)), int64(0)
			for _, agent := range []string{"a", "b"} {
				left += budgetView(t, l, epoch, "pool/team/"+agent).Cap
			}
			if told := l.Left(epoch, &p, &coordinator.Amounts{d: 1}, &Verdict{OK: true}); left != c.left ||
				told[0].Left != c.left {
				t.Errorf("the agents have %d left, the team %d, want %d", left, told[0].Left, c.left)
			}
		})
	}
}
