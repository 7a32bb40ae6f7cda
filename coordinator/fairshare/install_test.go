package fairshare

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"taskbus/coordinator"
)

// TestInstall: to install the same quotas again changes nothing; under others, what was used
// stays with the node, to the unit, and what is reserved is what is open.
func TestInstall(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		q := drawQuotas(t, true)
		w := newWorld(t, q)
		w.overdraws = rapid.Bool().Draw(t, "overdraws")
		for range rapid.IntRange(0, 40).Draw(t, "steps") {
			w.step()
		}
		before := w.picture()
		same := *q
		w.l.Install(w.now, &same)
		w.unchanged("installing the same", before)

		other := drawQuotas(t, true)
		if rapid.Bool().Draw(t, "only changed") { // of the same nodes, one with another weight and other limits
			other = changed(t, q)
		}
		// A budget for another period stands beside its node ("pool/team@month"), or is the node's own.
		type book struct {
			node   string
			dim    coordinator.Dimension
			period coordinator.Period
		}
		bookOf := func(n *node, b *budget) book {
			id, _, _ := strings.Cut(n.spec.ID, "@")
			return book{id, b.dim, b.family.period}
		}
		old := map[book]*budget{}
		for i := range w.l.nodes {
			for _, b := range w.l.nodes[i].budgets {
				if b != nil {
					old[bookOf(&w.l.nodes[i], b)] = b
				}
			}
		}
		w.l.Install(w.now, other)
		w.reinstalled = true
		w.judge()
		for i := range w.l.nodes {
			for _, b := range w.l.nodes[i].budgets {
				if b == nil {
					continue
				}
				o := old[bookOf(&w.l.nodes[i], b)]
				below := int64(0)
				for _, kid := range b.kids {
					below += kid.used
				}
				want := below // nothing, but what is known of those below
				if o != nil {
					want = max(o.used, below)
				}
				if b.used != want {
					t.Fatalf("%s has used %d, want %d", w.l.nodes[i].spec.ID, b.used, want)
				}
			}
		}
		for range 30 {
			w.step()
			w.judge()
		}
	})
}

// changed is quotas in which one node is made otherwise. It may be left with less than is promised
// to those below it, which the loader would refuse.
func changed(t *rapid.T, q *coordinator.Quotas) *coordinator.Quotas {
	c := *q
	c.Nodes = append([]coordinator.QuotaNode(nil), q.Nodes...)
	n := &c.Nodes[rapid.IntRange(0, len(c.Nodes)-1).Draw(t, "changed")]
	n.Weight = rapid.Int64Range(0, 9).Draw(t, "weight")
	for _, d := range randomDims {
		if l := n.Budgets[d]; l != nil && l.Nominal != coordinator.ByWeight {
			less := *l
			less.Nominal = rapid.Int64Range(0, l.Nominal).Draw(t, "nominal")
			n.Budgets[d] = &less
		}
	}
	return &c
}

// TestInstallOtherWeights: a and b share 1000 by 1:1. a has spent 400 and has 200 reserved: 100
// of that is b's. By 3:1 a has 750 of its own: nothing is borrowed any more. By 1:3 it has 250:
// what is beyond, 350, is b's, of whose 750 half has accrued.
func TestInstallOtherWeights(t *testing.T) {
	const d = coordinator.DimTotalTokens
	by := func(a, b int64) *tree {
		return newTree(monthly(d, 1000)).group("a", "pool", weight(a), monthly(d, coordinator.ByWeight)).
			group("b", "pool", weight(b), monthly(d, coordinator.ByWeight))
	}
	half := epoch.Add(31 * 24 * time.Hour / 2)
	for _, c := range []struct {
		name           string
		a, b           int64
		nominal, takes int64
	}{
		{"as before", 1, 1, 500, 100},
		{"3:1", 3, 1, 750, 0},
		{"1:3", 1, 3, 250, 350},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := by(1, 1).ledger()
			l.Reserve(half, id(1), tokens("a", 400), time.Time{})
			l.Settle(half, id(1), tokens("a", 400).Amounts, false)
			l.Reserve(half, id(2), tokens("a", 200), time.Time{})
			l.Install(half, &by(c.a, c.b).Quotas)
			a, b := budgetView(t, l, half, "pool/a"), budgetView(t, l, half, "pool/b")
			if a.Nominal != c.nominal || a.Used != 400 || a.Reserved != 200 || a.Borrowed != c.takes || b.Lent != c.takes ||
				b.Used != 0 {
				t.Errorf("a %+v, b %+v", a, b)
			}
			l.Release(half, id(2), false) // 400 are spent: 200 of what was borrowed comes back
			if got, want := budgetView(t, l, half, "pool/b").Lent, max(0, c.takes-200); got != want {
				t.Errorf("b still lends %d, want %d", got, want)
			}
		})
	}
}

// TestInstallMovesReservations: what is reserved for a group that gets a node of its own is
// that node's; what was spent stays where it was.
func TestInstallMovesReservations(t *testing.T) {
	const d = coordinator.DimTotalTokens
	l := newTree(monthly(d, 1000)).ledger()
	l.Reserve(epoch, id(1), tokens("new", 100), time.Time{})
	l.Reserve(epoch, id(2), tokens("new", 50), time.Time{})
	l.Settle(epoch, id(2), tokens("new", 50).Amounts, false)
	l.Install(epoch, &newTree(monthly(d, 1000)).group("new", "pool", monthly(d, 300)).Quotas)
	if n := budgetView(t, l, epoch, "pool/new"); n.Reserved != 100 || n.Used != 0 {
		t.Errorf("the group: %+v", n)
	}
	if p := budgetView(t, l, epoch, "pool"); p.Reserved != 100 || p.Used != 50 {
		t.Errorf("the pool: %+v", p)
	}
	l.Settle(epoch, id(1), tokens("new", 90).Amounts, false)
	if n := budgetView(t, l, epoch, "pool/new"); n.Reserved != 0 || n.Used != 90 {
		t.Errorf("the group, when it is settled: %+v", n)
	}
}

// TestInstallKeepsRates: a bucket that is empty is not filled by a new configuration.
func TestInstallKeepsRates(t *testing.T) {
	const d = coordinator.DimRequests
	q := func(rate, burst int64) *coordinator.Quotas { return &newTree(perSecond(d, rate, burst)).Quotas }
	l := NewLedger()
	l.Install(epoch, q(10, 10))
	l.Reserve(epoch, id(1), &Charge{Amounts: coordinator.Amounts{8}}, time.Time{})
	for _, c := range []struct{ rate, burst, left int64 }{
		{10, 10, 2}, // the same
		{20, 20, 2}, // what is left, stays
		{10, 1, 1},  // as far as there is room
	} {
		l.Install(epoch, q(c.rate, c.burst))
		n, _ := l.Node(epoch, "pool")
		if n.Rates[0].Remaining != c.left {
			t.Errorf("%d/s, burst %d: %d left, want %d", c.rate, c.burst, n.Rates[0].Remaining, c.left)
		}
	}
}

// TestInstallHeals: a snapshot of other quotas does not fit; to install once more after it makes
// all sums fit again.
func TestInstallHeals(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t, drawQuotas(t, true))
		w.overdraws = true
		for range rapid.IntRange(0, 30).Draw(t, "steps") {
			w.step()
		}
		q := drawQuotas(t, true)
		heir := newWorld(t, q)
		for _, r := range w.l.Export(w.now) {
			heir.l.Fold(r)
		}
		heir.now, heir.reinstalled, heir.overdraws = w.now, true, true
		heir.l.Install(w.now, q)
		heir.judge()
		before := heir.picture()
		heir.l.Install(w.now, q)
		if after := heir.picture(); !reflect.DeepEqual(before, after) {
			t.Fatalf("installed once more:\n%s", differences(before.exported, after.exported))
		}
	})
}

// TestRestartInAnotherZone: a restart with another time zone leads to what a reload would: what was used in
// a period that is not over stays used, wherever the period
// begins now, and what is set aside stays so.
func TestRestartInAnotherZone(t *testing.T) {
	zones := []*time.Location{nil, time.FixedZone("east", 5400), time.FixedZone("west", -8*3600),
		time.FixedZone("odd", 45*60+7)}
	moved := 0
	rapid.Check(t, func(t *rapid.T) {
		q := drawQuotas(t, true)
		q.Location = rapid.SampledFrom(zones).Draw(t, "zone")
		w := newWorld(t, q)
		w.overdraws = true
		for range rapid.IntRange(0, 40).Draw(t, "steps") {
			w.step()
		}
		other := *q
		other.Location = rapid.SampledFrom(zones).Draw(t, "other zone")
		heir := NewLedger()
		heir.Install(w.now.Add(1000*time.Hour), &other)
		for _, r := range w.l.Export(w.now) {
			heir.Fold(r)
		}
		for _, f := range heir.roots {
			if f.moved {
				moved++
			}
		}
		heir.Install(w.now, &other)
		w.l.Install(w.now, &other)
		want := w.picture()
		if got := (picture{heir.Export(w.now), heir.View(w.now)}); !reflect.DeepEqual(got, want) {
			t.Fatalf("restarted instead of reloaded:\n%s", differences(want.exported, got.exported))
		}
	})
	if moved == 0 {
		t.Error("no period has ever begun elsewhere")
	}
}

// TestRestartAfterTheZone: 1000 of 1000 a day are used at noon. A restart with days that begin an hour
// earlier admits nothing more on that day, nor does one that reads what an earlier version has
// written, in the same zone; that version did not say how long its day was, so in another zone
// nothing is known to be used.
func TestRestartAfterTheZone(t *testing.T) {
	const d = coordinator.DimTotalTokens
	quotas := func(zone *time.Location) *coordinator.Quotas {
		q := newTree().group("a", "pool", func(n *coordinator.QuotaNode) {
			n.Budgets[d] = &coordinator.QuotaLimit{Nominal: 1000, Period: coordinator.Period{Unit: coordinator.PerDay}}
		})
		q.Location = zone
		return &q.Quotas
	}
	east := time.FixedZone("east", 3600)
	noon := epoch.Add(12 * time.Hour)
	l := NewLedger()
	l.Install(epoch, quotas(nil))
	l.Reserve(noon, id(1), tokens("a", 1000), time.Time{})
	l.Settle(noon, id(1), coordinator.Amounts{d: 1000}, false)
	for _, c := range []struct {
		name string
		zone *time.Location
		old  bool
		ends time.Duration // the day on which nothing more is admitted; 0: it is
	}{
		{"another zone", east, false, 23 * time.Hour},
		{"the same", nil, false, 24 * time.Hour},
		{"the same, of an earlier version", nil, true, 24 * time.Hour},
		{"another, of an earlier version", east, true, 0},
	} {
		heir := NewLedger()
		heir.Install(noon.Add(time.Hour), quotas(c.zone))
		for _, r := range l.Export(noon) {
			if r, is := r.(*coordinator.QuotaBefore); is && c.old && r.Node != "" {
				r.Values = r.Values[:12]
			}
			heir.Fold(r)
		}
		heir.Install(noon, quotas(c.zone))
		v := heir.Reserve(noon, id(2), tokens("a", 1), time.Time{})
		if v.OK != (c.ends == 0) || !v.OK && !v.RetryAt.Equal(epoch.Add(c.ends)) {
			t.Errorf("%s: %+v", c.name, v)
		}
	}
}

func budgetView(t testing.TB, l *Ledger, now time.Time, node string) BudgetView {
	t.Helper()
	n, ok := l.Node(now, node)
	if !ok || len(n.Budgets) != 1 {
		t.Fatalf("%s: %+v", node, n)
	}
	return n.Budgets[0]
}

// A reload that begins days elsewhere does not give back what has been used today.
func TestInstallOtherTimeZone(t *testing.T) {
	const d = coordinator.DimTotalTokens
	day := func(n *coordinator.QuotaNode) {
		n.Budgets[d] = &coordinator.QuotaLimit{Nominal: 1000, Period: coordinator.Period{Unit: coordinator.PerDay}}
	}
	noon := epoch.Add(12 * time.Hour)
	l := newTree().group("a", "pool", day).ledger()
	l.Reserve(noon, id(1), tokens("a", 1000), time.Time{})
	l.Settle(noon, id(1), coordinator.Amounts{d: 1000}, false)
	other := newTree().group("a", "pool", day)
	other.Location = time.FixedZone("elsewhere", 3600)
	l.Install(noon, &other.Quotas)
	if v := l.Reserve(noon, id(2), tokens("a", 1), time.Time{}); v.OK {
		t.Error("1001 of 1000 are admitted on one day")
	}
}
