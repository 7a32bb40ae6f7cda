package fairshare

import (
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"taskbus/coordinator"
)

// TestView: a tree of which some has been used, as people see it.
func TestView(t *testing.T) {
	const d = coordinator.DimTotalTokens
	l := newTree(monthly(d, 2000), seatsOf(4)).
		group("a", "pool", monthly(d, coordinator.ByWeight), perSecond(coordinator.DimRequests, 10, 20),
			seatsOf(coordinator.ByWeight)).
		group("b", "pool", monthly(d, coordinator.ByWeight)).ledger()
	half := epoch.Add(31 * 24 * time.Hour / 2)
	c := tokens("a", 1200)
	c.Amounts[coordinator.DimRequests], c.Amounts[coordinator.DimConcurrency] = 5, 3
	l.Reserve(half, id(1), c, time.Time{})
	l.Reserve(half, id(2), tokens("b", 100), time.Time{})
	l.Settle(half, id(2), tokens("b", 70).Amounts, false)
	p := l.PathOf(c)
	l.Wait(&p, 2)

	month := BudgetView{Dimension: d, Period: "2030-01", Start: epoch, End: epoch.AddDate(0, 1, 0)}
	budget := func(fill func(*BudgetView)) []BudgetView { b := month; fill(&b); return []BudgetView{b} }
	want := []NodeView{
		{ID: "pool", Name: "pool", Weight: 1, Seats: &SeatsView{Nominal: 4, Running: 3, Waiting: 2, Available: 1},
			Budgets: budget(func(b *BudgetView) { b.Nominal, b.Cap, b.Used, b.Reserved = 2000, 2000, 70, 1200 })},
		{ID: "pool/a", Name: "a", Kind: coordinator.QuotaGroup, Parent: "pool", Weight: 1,
			Seats: &SeatsView{Nominal: 4, Running: 3, Waiting: 2, Available: 1},
			Budgets: budget(func(b *BudgetView) {
				b.Nominal, b.Share, b.Cap, b.Reserved, b.Borrowed = 1000, 1000, 1200, 1200,
					200
			}),
			Rates: []RateView{{Amount: 10, Per: time.Second, Burst: 20, Remaining: 15}}},
		{ID: "pool/b", Name: "b", Kind: coordinator.QuotaGroup, Parent: "pool", Weight: 1,
			Budgets: budget(func(b *BudgetView) { b.Nominal, b.Share, b.Cap, b.Used, b.Lent = 1000, 1000, 800, 70, 200 })},
	}
	if got := l.View(half); !reflect.DeepEqual(got, want) {
		t.Errorf("\n%+v, want\n%+v", got, want)
	}
	if n, ok := l.Node(half, "pool/b"); !ok || !reflect.DeepEqual(n, want[2]) {
		t.Errorf("%+v", n)
	}
	if _, ok := l.Node(half, "nobody"); ok {
		t.Error("a node that there is not")
	}
}

// TestExplain: what binds is named, and of every limit what is left.
func TestExplain(t *testing.T) {
	const d = coordinator.DimTotalTokens
	l := newTree(monthly(d, 2000)).
		group("a", "pool", monthly(d, coordinator.ByWeight), hardRate(10, 20), seatsOf(1)).
		group("b", "pool", monthly(d, coordinator.ByWeight)).ledger()
	half := epoch.Add(31 * 24 * time.Hour / 2)
	c := tokens("a", 900)
	c.Amounts[coordinator.DimRequests], c.Amounts[coordinator.DimConcurrency] = 20, 1
	l.Reserve(half, id(1), c, time.Time{})
	c.Amounts[coordinator.DimRequests] = 1
	p := l.PathOf(c)
	e := l.Explain(half, &p, c)
	// The bucket has one in 0.1 s, 900 tokens are there when a month begins; a seat, when one
	// is given back: that cannot be predicted, so it is what binds.
	end := epoch.AddDate(0, 1, 0)
	want := []LimitView{
		{Node: "pool/a", Dimension: coordinator.DimRequests, Limit: LimitRate, Asked: 1, Refuses: true,
			Renews: half.Add(100 * time.Millisecond)},
		{Node: "pool/a", Dimension: d, Limit: LimitBudget, Asked: 900, Left: 100, Borrowable: 500, Refuses: true,
			Renews: end},
		{Node: "pool/a", Dimension: coordinator.DimConcurrency, Limit: LimitSeats, Asked: 1, Refuses: true, Binds: true},
		{Node: "pool", Dimension: d, Limit: LimitBudget, Asked: 900, Left: 1100, Renews: end},
	}
	if e.Verdict.OK || e.Verdict.Limit != LimitSeats || !reflect.DeepEqual(e.Limits, want) {
		t.Errorf("%+v\n%+v, want\n%+v", e.Verdict, e.Limits, want)
	}
	c.Amounts[coordinator.DimConcurrency] = 0
	if e := l.Explain(half, &p, c); e.Verdict.Limit != LimitBudget || !e.Limits[1].Binds || e.Limits[0].Binds {
		t.Errorf("without a seat: %+v", e)
	}
	c.Amounts[d] = 600
	if e := l.Explain(half, &p, c); e.Verdict.Limit != LimitRate || !e.Limits[0].Binds || e.Limits[1].Refuses {
		t.Errorf("600 tokens: %+v", e)
	}
	c.Amounts[coordinator.DimRequests] = 0
	if e := l.Explain(half, &p, c); !e.Verdict.OK || !e.Verdict.Borrowed {
		t.Errorf("and no request: %+v", e)
	}
}

// TestExplainInDebt: a has given all of its 100 to m, and has used 30 itself. By the simple rule it
// may use what others have left: 970 of the pool, which is 1000 more than its own -30. (That it may
// borrow without bound is no number to count with.)
func TestExplainInDebt(t *testing.T) {
	const d = coordinator.DimTotalTokens
	l := newTree(monthly(d, 1000)).group("a", "pool", monthly(d, 100), rule(coordinator.BorrowGroupRemaining)).
		group("m", "a", monthly(d, coordinator.ByWeight)).ledger()
	l.Reserve(epoch, id(1), &Charge{Group: "a", Amounts: coordinator.Amounts{coordinator.DimRequests: 1}}, time.Time{})
	l.Settle(epoch, id(1), tokens("a", 30).Amounts, false)
	for _, x := range []struct {
		asked int64
		ok    bool
	}{{970, true}, {971, false}} {
		c := tokens("a", x.asked)
		p := l.PathOf(c)
		e := l.Explain(epoch, &p, c)
		if v := e.Limits[0]; e.Verdict.OK != x.ok || v.Left != -30 || v.Borrowable != 1000 || v.Refuses == x.ok {
			t.Errorf("%d: %v, %+v", x.asked, e.Verdict.OK, v)
		}
	}
}

// TestAlerts: once for each threshold and period, at 80, 90 and 100 %.
func TestAlerts(t *testing.T) {
	const d = coordinator.DimTotalTokens
	l := newTree(monthly(d, 1000)).ledger()
	n := 0
	for _, month := range []int{0, 1} {
		at := epoch.AddDate(0, month, 0)
		for _, c := range []struct {
			take int64
			want []int64
		}{{799, nil}, {1, []int64{80}}, {1, nil}, {150, []int64{90}}, {49, []int64{100}}} {
			n++
			l.Reserve(at, id(n), tokens("", c.take), time.Time{})
			l.Settle(at, id(n), tokens("", c.take).Amounts, false)
			var got []int64
			for _, a := range l.Alerts(nil) {
				got = append(got, a.Percent)
				if a.Node != "pool" || a.Cap != 1000 || !a.Ends.Equal(epoch.AddDate(0, month+1, 0)) {
					t.Errorf("%+v", a)
				}
			}
			if !reflect.DeepEqual(got, c.want) {
				t.Errorf("month %d, %d more: %v, want %v", month, c.take, got, c.want)
			}
		}
	}
}

// TestAlertsOfABorrower: of 1,000 a has 500, which it has used at half time, and others leave it 250 by then: all of
// it is used with those, not before. With a bound of 100, or where it may not borrow, that is sooner. Where others
// use what they left, a refusal tells it.
func TestAlertsOfABorrower(t *testing.T) {
	const d = coordinator.DimTotalTokens
	const length = 100 * time.Second
	part := budgetFor(length, d, coordinator.ByWeight)
	borrows := func(b coordinator.Bound) func(*coordinator.QuotaNode) {
		return func(n *coordinator.QuotaNode) { n.Budgets[d].Borrow = b }
	}
	rule := func(r coordinator.BorrowRule) func(*coordinator.QuotaNode) {
		return func(n *coordinator.QuotaNode) { n.Borrowing.Rule = r }
	}
	type charge struct {
		group string
		take  int64
		want  string // what is told of a then
	}
	for name, c := range map[string]struct {
		how     func(*coordinator.QuotaNode)
		charges []charge
	}{
		"what others leave": {func(*coordinator.QuotaNode) {}, []charge{
			{"a", 400, "80+"}, {"a", 100, "90+"}, {"a", 100, ""}, {"a", 150, "100"},
		}},
		"up to a bound": {borrows(coordinator.Bound{Kind: coordinator.BoundAmount, Value: 100}), []charge{
			{"a", 500, "80+ 90+"}, {"a", 99, ""}, {"a", 1, "100"},
		}},
		"never": {rule(coordinator.BorrowNever), []charge{{"a", 400, "80"}, {"a", 100, "90 100"}}},
		"group_remaining": {rule(coordinator.BorrowGroupRemaining), []charge{
			{"a", 500, "80+ 90+"}, {"a", 400, ""}, {"a", 100, "100"},
		}},
		"others come back": {func(*coordinator.QuotaNode) {}, []charge{
			{"a", 500, "80+ 90+"}, {"b", 250, ""}, {"a", 1, "100"}, {"a", 1, ""},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			l := newTree(budgetFor(length, d, 1000)).group("a", "pool", part, c.how).group("b", "pool", part).ledger()
			half := time.Unix(0, l.roots[0].span.Start).Add(length / 2)
			for i, x := range c.charges {
				asked := tokens(x.group, x.take)
				if v := l.Reserve(half, id(i), asked, time.Time{}); !v.OK {
					l.Lacks(half, asked)
				}
				var told []string
				for _, a := range l.Alerts(nil) {
					text := strconv.FormatInt(a.Percent, 10)
					if a.MayBorrow {
						text += "+"
					}
					if a.Node == "pool/a" {
						told = append(told, text)
					}
				}
				if got := strings.Join(told, " "); got != x.want {
					t.Errorf("%s takes %d more: told %q, want %q", x.group, x.take, got, x.want)
				}
			}
		})
	}
}

// TestAlertPercents: the thresholds are those of the file, from the moment at which it is in force; none are told
// where it lists none. What has been told at 50 % is not told again for a threshold below that.
func TestAlertPercents(t *testing.T) {
	const d = coordinator.DimTotalTokens
	tree := newTree(monthly(d, 1000))
	l := tree.ledger()
	n := 0
	for _, c := range []struct {
		percents []int64
		take     int64
		want     []int64
	}{
		{[]int64{50, 75}, 499, nil}, {[]int64{50, 75}, 1, []int64{50}}, {[]int64{20, 60}, 99, nil},
		{[]int64{20, 60}, 1, []int64{60}},
		{[]int64{}, 200, nil}, {nil, 1, []int64{80}}, {[]int64{1, 2, 100}, 199, []int64{100}},
	} {
		tree.AlertPercents = c.percents
		l.Install(epoch, &tree.Quotas)
		n++
		l.Reserve(epoch, id(n), tokens("", c.take), time.Time{})
		l.Settle(epoch, id(n), tokens("", c.take).Amounts, false)
		var got []int64
		for _, a := range l.Alerts(nil) {
			got = append(got, a.Percent)
		}
		if !reflect.DeepEqual(got, c.want) {
			t.Errorf("of %v, %d more: %v, want %v", c.percents, c.take, got, c.want)
		}
	}
}

// TestAlertsOfAnotherBudget: 900 of 5,000 are used, 18 %. Of a budget of 1,000 that is 90 %: 80 and 90 are
// published when the change is reviewed, and 100 with the 100 that are left. Without a review they are
// published with the next use; and a budget of less than has been used, out of which nothing can be used
// any more, when it is reviewed. A restart under the smaller budget publishes what was not published, and
// nothing that is recorded as published.
func TestAlertsOfAnotherBudget(t *testing.T) {
	const d = coordinator.DimTotalTokens
	of := func(amount int64) *coordinator.Quotas { return &newTree(monthly(d, amount)).Quotas }
	for _, c := range []struct {
		name   string
		amount int64
		review bool // live, or by the next leader
		uses   []int64
		want   []int64
	}{
		{"looked at", 1000, true, nil, []int64{80, 90}},
		{"and used", 1000, true, []int64{1, 99}, []int64{80, 90, 100}},
		{"used alone", 1000, false, []int64{1, 99}, []int64{80, 90, 100}},
		{"overdrawn by the change", 800, true, nil, []int64{80, 90, 100}},
		{"raised", 10_000, true, []int64{1}, nil},
	} {
		for _, restart := range []bool{false, true} {
			l := NewLedger()
			l.Install(epoch, of(5000))
			use(t, l, epoch, 1, "", 900)
			if restart {
				l = restarted(l, epoch, of(c.amount))
			} else {
				l.Install(epoch, of(c.amount))
			}
			if c.review {
				l.Review(epoch)
			}
			for i, amount := range c.uses {
				use(t, l, epoch, 2+i, "", amount)
			}
			var got []int64
			heir := NewLedger()
			heir.Install(epoch, of(c.amount))
			for _, a := range l.Alerts(nil) {
				got = append(got, a.Percent)
				heir.Fold(a.Told(epoch))
			}
			if !reflect.DeepEqual(got, c.want) {
				t.Errorf("%s, restarted %v: told of %v, want %v", c.name, restart, got, c.want)
			}
			// A ledger that folds the published alerts publishes none of them again, whatever is used.
			if heir.Charge(epoch, id(1), tokens("", 900)); len(got) > 0 {
				for _, a := range heir.Alerts(nil) {
					if a.Percent <= got[len(got)-1] {
						t.Errorf("%s, restarted %v: %d %% is told again", c.name, restart, a.Percent)
					}
				}
			}
		}
	}
}

// TestAlertsAreNotFolded: what another leader has reserved and used raises no alert; whether it published
// the alert is recorded, and if it did not, the next leader does.
func TestAlertsAreNotFolded(t *testing.T) {
	const d = coordinator.DimTotalTokens
	for _, told := range []bool{true, false} {
		l := newTree(monthly(d, 1000)).ledger()
		l.Fold(tokens("", 900).Reserved(id(1), epoch))
		if told {
			l.Fold(&coordinator.QuotaTold{Node: "pool", Dimension: d, Percent: 80, At: epoch})
			l.Fold(&coordinator.QuotaTold{Node: "pool", Dimension: d, Percent: 90, At: epoch})
		}
		l.Fold(&coordinator.QuotaTold{Node: "gone", Dimension: d, Percent: 90, At: epoch})
		l.Fold(&coordinator.QuotaEnded{Key: id(1), How: coordinator.QuotaSettled, Used: tokens("", 900).Amounts, At: epoch})
		if a := l.Alerts(nil); a != nil {
			t.Errorf("told %v: folding raises %+v", told, a)
		}
		l.Review(epoch)
		if got, want := len(l.Alerts(nil)), map[bool]int{true: 0, false: 2}[told]; got != want {
			t.Errorf("told %v: the next leader publishes %d thresholds, want %d", told, got, want)
		}
	}
}

// TestFreed: each node that has got something back, once.
func TestFreed(t *testing.T) {
	l := newTree(seatsOf(10)).group("a", "pool").group("b", "pool").ledger()
	for i, g := range []string{"a", "a", "b"} {
		l.Reserve(epoch, id(i), running(g, 1), time.Time{})
	}
	freed := func() (nodes []string) {
		l.Freed(func(n int32) { nodes = append(nodes, l.nodes[n].spec.ID) })
		return nodes
	}
	if got := freed(); got != nil {
		t.Errorf("nothing has been given back, but to %v", got)
	}
	l.Release(epoch, id(0), false)
	l.Settle(epoch, id(1), coordinator.Amounts{}, false)
	if got := freed(); !reflect.DeepEqual(got, []string{"pool/a", "pool"}) {
		t.Errorf("%v", got)
	}
	if got := freed(); got != nil {
		t.Errorf("again: %v", got)
	}
}

// TestFreedLenders: a has borrowed of y, which is in b. When a gives that back, y has it again, and
// b, across whose boundary it was lent: what waits there is freed. Nothing was lent to z.
func TestFreedLenders(t *testing.T) {
	const d = coordinator.DimTotalTokens
	part := budgetFor(100*time.Second, d, coordinator.ByWeight)
	l := newTree(budgetFor(100*time.Second, d, 400)).group("a", "pool", part).group("b", "pool", part).
		group("y", "b", part).group("z", "b", part).ledger()
	half := time.Unix(0, l.roots[0].span.End).Add(50 * time.Second)
	l.Reserve(half, id(1), tokens("a", 200+30), time.Time{}) // 50 have accrued to y, and to z
	l.Release(half, id(1), false)
	freed := make(map[string]bool)
	l.Freed(func(n int32) { freed[l.NodeID(n)] = true })
	if want := map[string]bool{"pool": true, "pool/a": true, "pool/b": true, "pool/b/y": true}; !reflect.DeepEqual(freed,
		want) {
		t.Errorf("freed %v, want %v", freed, want)
	}
}

// What others could lend to a group is one number, whether the group asks itself or by an agent of it, and so is
// whether that is enough.
func TestExplainOfAnAgentSaysTheSameOfItsGroup(t *testing.T) {
	const d = coordinator.DimTotalTokens
	l := newTree(monthly(d, 2000)).group("a", "pool", monthly(d, coordinator.ByWeight)).
		group("b", "pool", monthly(d, coordinator.ByWeight)).agent("a1", "a", monthly(d, coordinator.ByWeight)).
		agent("a2", "a", monthly(d, coordinator.ByWeight)).ledger()
	half := epoch.Add(31 * 24 * time.Hour / 2) // b may lend 500
	for _, asked := range []int64{1500, 1501} {
		own, by := tokens("a", asked), tokens("a", asked)
		by.Agent = "a1"
		p, q := l.PathOf(own), l.PathOf(by)
		group, agent := l.Explain(half, &p, own), l.Explain(half, &q, by)
		if x, y := group.Limits[0], agent.Limits[1]; x.Node != "pool/a" || x.Borrowable != 500 || y.Node != x.Node ||
			y.Borrowable != x.Borrowable || y.Left != x.Left || x.Refuses != (asked > 1500) || y.Refuses != x.Refuses {
			t.Errorf("%d: of the group %+v\nby an agent %+v", asked, x, y)
		}
	}
}

// A refusal says what is left of the budget, what is lent of it, and that a share may not borrow so much.
func TestVerdictSaysWhatABudgetLacks(t *testing.T) {
	const d = coordinator.DimTotalTokens
	bounded := monthly(d, 1000)
	l := newTree(monthly(d, 2000)).group("a", "pool", bounded, func(n *coordinator.QuotaNode) {
		n.Budgets[d].Borrow = coordinator.Bound{Kind: coordinator.BoundAmount, Value: 50}
	}).group("b", "pool", monthly(d, 1000)).ledger()
	half := epoch.Add(31 * 24 * time.Hour / 2)
	l.Reserve(half, id(1), tokens("a", 1040), time.Time{}) // 40 of b's
	check := func(group string, asked int64) Verdict {
		c := tokens(group, asked)
		p := l.PathOf(c)
		return l.Check(half, &p, c)
	}
	if v := check("a", 11); v.OK || v.By != "pool/a" || v.Asked != 11 || v.Left != 0 {
		t.Errorf("at the bound: %+v", v)
	}
	if v := check("b", 961); v.OK || v.By != "" || v.Asked != 961 || v.Left != 960 {
		t.Errorf("too little: %+v", v)
	}
}
