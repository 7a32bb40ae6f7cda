package fairshare

import (
	"reflect"
	"testing"
	"time"

	"pgregory.net/rapid"

	"taskbus/coordinator"
	"taskbus/coordinator/fairshare/calendar"
)

// use reserves and settles so many tokens of a group.
func use(t testing.TB, l *Ledger, now time.Time, n int, group string, amount int64) {
	t.Helper()
	if v := l.Reserve(now, id(n), tokens(group, amount), time.Time{}); !v.OK {
		t.Fatalf("%d of %s are refused: %+v", amount, group, v)
	}
	l.Settle(now, id(n), tokens(group, amount).Amounts, false)
}

// restarted is a ledger that has folded another's snapshot, under other quotas.
func restarted(l *Ledger, now time.Time, q *coordinator.Quotas) *Ledger {
	heir := NewLedger()
	heir.Install(now.Add(time.Hour), q)
	for _, r := range l.Export(now) {
		heir.Fold(r)
	}
	heir.Install(now, q)
	return heir
}

// TestOpenUnderNoQuotas: a coordinator that folds the journal of a leader with quotas and has none (it is
// started without the file, or stands by and has not got it yet) knows what is open all the same. With
// the quotas 30 are set aside of alpha's 100, 5 more by then; 20 of them are used.
func TestOpenUnderNoQuotas(t *testing.T) {
	const d = coordinator.DimTotalTokens
	q := &newTree(monthly(d, 1000)).group("alpha", "pool", monthly(d, 100)).Quotas
	l := NewLedger()
	l.Install(epoch, nil)
	c := tokens("alpha", 30)
	l.Fold(c.Reserved(id(1), epoch))
	l.Fold(&coordinator.QuotaExtended{Key: id(1), More: tokens("", 5).Amounts, At: epoch})
	if found, open, _ := l.Find(id(1)); !open || found.Amounts[d] != 35 {
		t.Fatalf("under no quotas: open %v, %+v, want 35 set aside", open, found)
	}
	now := epoch.Add(time.Hour)
	l.Install(now, q)
	if b := budgetView(t, l, now, "pool/alpha"); b.Reserved != 35 {
		t.Errorf("alpha has %+v, want 35 reserved", b)
	}
	if ended := l.Settle(now, id(1), tokens("", 20).Amounts, false); !ended.Known || ended.Again {
		t.Errorf("settled: %+v", ended)
	}
	if b := budgetView(t, l, now, "pool/alpha"); b.Used != 20 || b.Reserved != 0 {
		t.Errorf("alpha has %+v, want 20 used", b)
	}
}

// TestRemovedAndAddedAgain: of its 1000 alpha uses 100, is taken out of the file, uses 600 as an unlisted
// group, and is put back: it has used 100, the pool 700. So it is after a restart while it is away, and
// then it is put back; in the next month it begins at nothing, with or without that.
func TestRemovedAndAddedAgain(t *testing.T) {
	const d = coordinator.DimTotalTokens
	with := func() *coordinator.Quotas {
		return &newTree(monthly(d, 10_000)).group("alpha", "pool", monthly(d, 1000)).agent("a1", "alpha", monthly(d, 500)).
			Quotas
	}
	without := &newTree(monthly(d, 10_000)).Quotas
	for _, restart := range []bool{false, true} {
		l := NewLedger()
		l.Install(epoch, with())
		now := epoch.Add(time.Hour)
		use(t, l, now, 1, "alpha", 100)
		l.Install(now, without)
		use(t, l, now, 2, "alpha", 600)
		if restart {
			l = restarted(l, now, without)
		}
		later := now.Add(time.Hour)
		l.Install(later, with())
		if b := budgetView(t, l, later, "pool/alpha"); b.Used != 100 {
			t.Errorf("restarted %v: alpha has %+v, want 100 used of all the month", restart, b)
		}
		if b := budgetView(t, l, later, "pool"); b.Used != 700 {
			t.Errorf("restarted %v: the pool has used %d, want 700", restart, b.Used)
		}
		if a := budgetView(t, l, later, "pool/alpha/a1"); a.Used != 0 {
			t.Errorf("restarted %v: a1, which had used nothing, has %+v; want nothing since it is there again", restart, a)
		}
		if n := len(l.former); n != 0 {
			t.Errorf("restarted %v: %d books are kept of what is listed", restart, n)
		}

		l.Install(later, without)
		next := epoch.AddDate(0, 1, 0)
		l.Install(next, with())
		if b := budgetView(t, l, next, "pool/alpha"); b.Used != 0 || len(l.former) != 0 {
			t.Errorf("restarted %v: in the next month alpha has %+v, and %d books are kept", restart, b, len(l.former))
		}
	}
}

// TestAddedLater: of a pool 1000 are used; then it gets a limit of requests, and one of 1000 for days
// beside. Both begin at nothing, from that moment on, in every answer, until their period ends. What is
// known of those below counts for a group that gets a limit above them.
func TestAddedLater(t *testing.T) {
	const d = coordinator.DimTotalTokens
	at := epoch.Add(36 * time.Hour)
	before := newTree().group("alpha", "pool", monthly(d, 5000))
	after := newTree(monthly(d, 9000), monthly(coordinator.DimRequests, 1000)).group("alpha", "pool", monthly(d, 5000))
	l := before.ledger()
	use(t, l, at, 1, "alpha", 1000)
	l.Install(at, &after.Quotas)
	use(t, l, at, 2, "alpha", 7)
	heirs := map[string]*Ledger{"restarted": restarted(l, at, &after.Quotas), "live": l}
	// A file edited while no coordinator runs has the same effect on what the snapshot knows nothing of.
	edited := restarted(l, at, &newTree(monthly(d, 9000), monthly(coordinator.DimInputTokens, 1)).group("alpha", "pool",
		monthly(d, 5000)).Quotas)
	for name, l := range heirs {
		pool, _ := l.Node(at, "pool")
		requests, total := pool.Budgets[0], pool.Budgets[1]
		if requests.Used != 0 {
			t.Errorf("%s: requests %+v, want none since %v", name, requests, at)
		}
		if total.Used != 1007 {
			t.Errorf("%s: tokens %+v, want the 1007 of alpha, since %v for all others", name, total, at)
		}
		if a := budgetView(t, l, at, "pool/alpha"); a.Used != 1007 {
			t.Errorf("%s: alpha %+v", name, a)
		}
	}
	pool, _ := edited.Node(at, "pool")
	if in := pool.Budgets[0]; in.Dimension != coordinator.DimInputTokens || in.Used != 0 {
		t.Errorf("a limit that came while no coordinator ran: %+v, want none used since %v", in, at)
	}
	if total := pool.Budgets[1]; total.Used != 1007 {
		t.Errorf("tokens %+v", total)
	}
}

// TestOtherPeriodAndBack: a limit that is for days for a while goes on where that of the month was.
func TestOtherPeriodAndBack(t *testing.T) {
	const d = coordinator.DimTotalTokens
	month := &newTree(monthly(d, 1000)).Quotas
	day := newTree(func(n *coordinator.QuotaNode) {
		n.Budgets[d] = &coordinator.QuotaLimit{Nominal: 1000, Period: coordinator.Period{Unit: coordinator.PerDay}}
	})
	l := NewLedger()
	l.Install(epoch, month)
	use(t, l, epoch, 1, "", 300)
	at := epoch.Add(30 * time.Hour)
	for i, want := range []struct {
		q    *coordinator.Quotas
		used int64
	}{{&day.Quotas, 0}, {month, 300}, {&day.Quotas, 20}, {month, 300 + 20}} {
		l.Install(at, want.q)
		if b := budgetView(t, l, at, "pool"); b.Used != want.used {
			t.Errorf("change %d: %+v, want %d used", i+1, b, want.used)
		}
		if i < 2 {
			use(t, l, at, 10+i, "", 20) // 20 of the day, then 20 of the month
		}
	}
}

// TestRateRemovedAndAddedAgain: of 10 a second, 10 at once, 8 are taken. If the limit is taken away and put
// back it has 2, and what has flowed in; as another rate what there is room for; after a
// restart from a snapshot of when it was listed an empty bucket, at most.
func TestRateRemovedAndAddedAgain(t *testing.T) {
	const d = coordinator.DimRequests
	q := func(rate, burst int64) *coordinator.Quotas {
		return &newTree().group("g", "pool", perSecond(d, rate, burst)).Quotas
	}
	without := &newTree().Quotas
	take := func() *Ledger {
		l := NewLedger()
		l.Install(epoch, q(10, 10))
		c := &Charge{Group: "g", Amounts: coordinator.Amounts{8}}
		l.Reserve(epoch, id(1), c, time.Time{})
		l.Settle(epoch, id(1), coordinator.Amounts{12}, false) // 4 more than there were: in debt by 2
		return l
	}
	for _, c := range []struct {
		name        string
		away        time.Duration
		rate, burst int64
		left        int64
	}{
		{"at once, in debt", 0, 10, 10, 0},
		{"after 0.5 s: 5 − 2", 500 * time.Millisecond, 10, 10, 3},
		{"twice as fast: 3 as well", 500 * time.Millisecond, 20, 20, 3},
		{"when it is full", 2 * time.Second, 10, 10, 10},
	} {
		l := take()
		l.Install(epoch, without)
		at := epoch.Add(c.away)
		for name, l := range map[string]*Ledger{"restarted": restarted(l, at, without), "live": l} {
			l.Install(at, q(c.rate, c.burst))
			if n, _ := l.Node(at, "pool/g"); n.Rates[0].Remaining != c.left {
				t.Errorf("%s, %s: %d left, want %d", c.name, name, n.Rates[0].Remaining, c.left)
			}
		}
	}
	l := restarted(take(), epoch, without) // listed when the snapshot was taken
	l.Install(epoch, q(1, 10))
	if v := l.Reserve(epoch.Add(time.Second), id(2), &Charge{Group: "g", Amounts: coordinator.Amounts{1}},
		time.Time{}); !v.OK {
		t.Errorf("1 a second, empty at %v, refuses one a second later: %+v", epoch, v)
	}
}

// TestFormerIsBounded: of more nodes than are kept the first that went are forgotten.
func TestFormerIsBounded(t *testing.T) {
	var f former
	for i := range int64(maxFormer + 3) {
		f.add(&coordinator.QuotaBefore{Start: i})
	}
	if len(f) != maxFormer || f[0].Start != 3 || f[maxFormer-1].Start != maxFormer+2 {
		t.Errorf("%d are kept, from %d", len(f), f[0].Start)
	}
}

// without is quotas in which one node, and all below it, is not listed.
func without(q *coordinator.Quotas, gone int) *coordinator.Quotas {
	c := *q
	c.Nodes = nil
	at := make([]int, len(q.Nodes)) // where they are now
	for i, n := range q.Nodes {
		if i == gone || n.Parent >= 0 && at[n.Parent] < 0 {
			at[i] = -1
			continue
		}
		if n.Parent >= 0 {
			n.Parent = at[n.Parent]
		}
		at[i] = len(c.Nodes)
		c.Nodes = append(c.Nodes, n)
	}
	return &c
}

// drawReload is an edit of a file: it takes a node out, puts all back, changes one, or takes everything
// out.
func drawReload(t *rapid.T, whole *coordinator.Quotas) *coordinator.Quotas {
	switch rapid.IntRange(0, 5).Draw(t, "reload") {
	case 0, 1:
		return without(whole, rapid.IntRange(0, len(whole.Nodes)-1).Draw(t, "gone"))
	case 2:
		return changed(t, whole)
	case 3:
		return nil
	default:
		same := *whole
		return &same
	}
}

// installed stands, in a world's records, for a reload.
type installed struct {
	coordinator.Record
	at time.Time
	q  *coordinator.Quotas
}

// TestReloads: a file from which nodes are taken, to which they come back and in which they change,
// again and again. A ledger restarted with a snapshot from after the last change knows to the unit what
// is known live, and so after the next change of the file. What a node had used when it went, it has
// used when it is back in the same period.
func TestReloads(t *testing.T) {
	back := 0
	rapid.Check(t, func(t *rapid.T) {
		whole := drawQuotas(t, true)
		w := newWorld(t, whole)
		w.overdraws = true
		type book struct {
			used int64
			end  int64
		}
		went := make(map[string]book)
		listed := func() map[string]book {
			all := make(map[string]book)
			for i := range w.l.nodes {
				for _, b := range w.l.nodes[i].budgets {
					if b != nil {
						all[w.l.nodes[i].spec.ID+b.dim.String()+calendar.Name(b.family.period, b.family.span, nil)] = book{b.used,
							b.family.span.End}
					}
				}
			}
			return all
		}
		reload := func(q *coordinator.Quotas) {
			w.l.View(w.now)
			before := listed()
			w.l.Install(w.now, q)
			w.reinstalled = true
			w.judge()
			after := listed()
			for key, b := range before {
				if _, still := after[key]; !still {
					went[key] = b
				}
			}
			for key, b := range after {
				if old, was := went[key]; was {
					if b.used < old.used { // more, where what is below it came back as well
						t.Fatalf("%s is back and has used %d, it was %d", key, b.used, old.used)
					}
					back++
				}
				delete(went, key)
			}
		}
		for range rapid.IntRange(0, 30).Draw(t, "steps before") {
			w.step()
		}
		last := whole
		for range rapid.IntRange(1, 4).Draw(t, "reloads") {
			last = drawReload(t, whole)
			reload(last)
			for range rapid.IntRange(0, 10).Draw(t, "steps") {
				w.step()
			}
		}
		heir := NewLedger()
		heir.Install(w.now.Add(time.Duration(rapid.Int64Range(-100, 100).Draw(t, "installed"))*time.Hour), last)
		for _, r := range w.l.Export(w.now) {
			heir.Fold(r)
		}
		now := w.l.Now()
		same := func(when string) {
			want := picture{w.l.Export(now), w.l.View(now)}
			if got := (picture{heir.Export(now), heir.View(now)}); !reflect.DeepEqual(got, want) {
				t.Fatalf("%s: restarted instead of live:\n%s", when, differences(want.exported, got.exported))
			}
		}
		same("at once")
		next := drawReload(t, whole)
		heir.Install(now, next)
		w.now = now
		reload(next)
		same("after the next change")
	})
	if back == 0 {
		t.Error("nothing has ever come back")
	}
}

func isInstalled(r coordinator.Record) bool {
	_, is := r.(installed)
	return is
}

// fold takes over records, and reloads among them.
func fold(l *Ledger, records []coordinator.Record) {
	for _, r := range records {
		if in, is := r.(installed); is {
			l.Install(in.at, in.q)
			continue
		}
		l.Fold(r)
	}
}

// reload installs other quotas now and then.
func (w *world) reload(whole *coordinator.Quotas) {
	q := drawReload(w.t, whole)
	w.l.Install(w.now, q)
	w.record(installed{at: w.l.Now(), q: q})
	w.quotas, w.reinstalled = q, true
	if rapid.Bool().Draw(w.t, "review") { // the leader does, others fold its records
		w.l.Review(w.now)
		w.tell()
	}
}

// BenchmarkInstallBesideFormer is a reload of a small file beside as many books as are kept.
func BenchmarkInstallBesideFormer(b *testing.B) {
	const d = coordinator.DimTotalTokens
	q := &newTree(monthly(d, 1000)).group("a", "pool", monthly(d, 10)).Quotas
	l := NewLedger()
	l.Install(epoch, q)
	for i := range maxFormer {
		r := l.nodes[0].budgets[d].export("pool/gone" + time.Duration(i).String())
		r.Values[0] = 1
		l.former.add(r)
	}
	for b.Loop() {
		l.Install(epoch, q)
	}
}
