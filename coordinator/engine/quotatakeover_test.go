package engine_test

import (
	"maps"
	"reflect"
	"slices"
	"testing"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/engine"
)

// leads is a leader under this policy that records, and whose agents say exactly what they run.
func leads(t *testing.T, p *policyBuilder) *rig {
	t.Helper()
	r := &rig{Engine: engine.New(), t: t, now: epoch, auctions: make(map[coordinator.TaskID]string)}
	r.Record(true)
	r.apply(coordinator.PolicyChanged{Policy: &p.Policy})
	r.apply(coordinator.SessionOpened{})
	for _, a := range p.Agents {
		r.hear(beat(a.ID).running())
	}
	return r
}

// books is all that is known of quotas: what is used, set aside and lent, what such tasks take,
// and whose turn it is.
func (r *rig) books() map[string]any {
	all := make(map[string]any)
	for _, n := range r.Ledger().View(r.now) {
		for _, b := range n.Budgets {
			all[n.ID+" "+b.Dimension.String()] = b
		}
		for _, b := range n.Rates {
			all[n.ID+" "+b.Dimension.String()+" rate"] = b
		}
		if n.Seats != nil {
			all[n.ID+" running"] = n.Seats.Running // what waits is not told
		}
	}
	for _, row := range r.Estimator().Export() {
		all["learnt of "+row.Tenant+row.Model+string(rune('0'+row.Level))+string(rune('0'+row.Bucket))] = row
	}
	for _, g := range r.Shares().Export().Tags {
		all["turn of "+g.Name] = [2]any{g.Lead, g.Open}
	}
	return all
}

// TestQuotaSurvivesATakeOver: the leader dies while tasks hold quota, have used some, more and less
// than was thought, were overdue, and have borrowed. The next leader knows all of it exactly,
// and goes on: what is open is settled, what was told too late is charged, and groups have the
// turns that they would have had.
func TestQuotaSurvivesATakeOver(t *testing.T) {
	part := func(n *coordinator.QuotaNode) {
		partDaily(n)
		seats(coordinator.ByWeight)(n)
		n.Rates[coordinator.DimTotalTokens] = &coordinator.QuotaLimit{Nominal: 1000, Per: time.Minute, Burst: 9000}
	}
	whole := func(n *coordinator.QuotaNode) { daily(20_000)(n); seats(20)(n) }
	r := leads(t, policyOf(worker("a").slots(30), worker("b").slots(30)).by("round_robin").
		quotas(quotasOf().pool(whole).group("x", 3, part).group("y", 1, part).agent("b", "y", func(n *coordinator.QuotaNode) {
			requests(100, 100)(n)
			n.Budgets[coordinator.DimTotalTokens] = &coordinator.QuotaLimit{Nominal: coordinator.ByWeight}
		})).set(func(s *coordinator.Settings) { s.StaleAfter = 1000 * time.Hour }))
	d := func(b *taskBuilder) coordinator.Dispatch { return r.give(b) }

	r.pass(8 * time.Hour) // two thirds of x's and the pool's tokens have accrued
	d(job("x1").of("x").tokens(500, 100))
	d(job("y1").of("y").tokens(700, 100))
	r.tell(says("a", "x1").used(450, 30))
	r.tell(says("b", "y1").used(800, 200))
	late := d(job("late").of("x").tokens(900, 50))
	r.pass(6 * time.Minute) // overdue
	open := d(job("open").of("x").tokens(300, 30))
	d(job("guessed").of("y").tokens(0, 0).with("big")) // what nothing is known of
	back := d(job("back").of("y").tokens(200, 20))
	r.returns(back, coordinator.ReturnExpired, false)
	d(job("many").of("y").tokens(1500, 300))
	d(job("more").of("y").tokens(1500, 300)) // of its 5,000 y has used all, and borrows
	if y, _ := r.Ledger().Node(r.now, "pool/y"); y.Budgets[0].Borrowed == 0 {
		t.Errorf("y borrows nothing: %+v", y.Budgets[0])
	}
	want := r.books()
	for how, heir := range heirs(r) {
		got := heir.books()
		for what := range maps.Keys(want) {
			if !reflect.DeepEqual(got[what], want[what]) {
				t.Errorf("%s: %s:\n  got  %+v\n  want %+v", how, what, got[what], want[what])
			}
		}
		if len(got) != len(want) {
			t.Errorf("%s: it knows %d things, want %d", how, len(got), len(want))
		}
		if v := heir.Audit(heir.now); v != nil {
			t.Errorf("%s: the auditor finds %+v", how, v)
		}
		x, _ := heir.Ledger().Node(heir.now, "pool/x")
		before := x.Budgets[0]
		heir.tell(says(open.Agent, "open").of("open.1").used(100, 10)) // of 330 set aside
		heir.tell(says(late.Agent, "late").of("late.1").used(800, 40)) // of nothing any more
		heir.tell(says(late.Agent, "late").of("late.1").used(800, 40)) // once
		heir.tell(says("a", "x1").of("x1.1").used(450, 30))            // known
		x, _ = heir.Ledger().Node(heir.now, "pool/x")
		if b := x.Budgets[0]; b.Reserved != before.Reserved-330 || b.Used != before.Used+110+840 {
			t.Errorf("%s: used %d and reserved %d before; then %d and %d", how, before.Used, before.Reserved, b.Used, b.Reserved)
		}
	}
}

// TestTurnOfAGroupThatWaits: a group that has something running, and is behind the others, has something waiting for a
// while: it is behind no more. One that folds the records knows that, whether it was dispatched or has failed.
func TestTurnOfAGroupThatWaits(t *testing.T) {
	for _, cancelled := range []bool{false, true} {
		r := leads(t, policyOf(worker("a").slots(2)).quotas(quotasOf().group("x", 1, daily(9000)).group("y", 1, nil)))
		r.give(job("x1").of("x").tokens(90, 10))
		for _, id := range []coordinator.TaskID{"y1", "y2", "y3"} {
			r.give(job(id).of("y").tokens(90, 10))
			r.tell(says("a", id).used(90, 10))
		}
		r.give(job("y4").of("y").tokens(90, 10))
		want(t, r.assign(job("x2").of("x").tokens(90, 10)))
		if cancelled {
			r.apply(coordinator.CancelRequested{Task: "x2"})
		} else {
			r.tell(says("a", "y4").used(90, 10))
		}
		r.tell(says("a", "x1").used(900, 10)) // more than was thought
		all := heirs(r)
		got, want := all["by its records"].books()["turn of x"], all["by a snapshot"].books()["turn of x"]
		if !reflect.DeepEqual(got, want) {
			t.Errorf("cancelled %v: by the records x's turn is at %v, by a snapshot at %v", cancelled, got, want)
		}
	}
}

// TestQuotaOfALostDispatch: the leader dies after it has noted what a task takes, and before it has
// noted where it goes: no agent has the dispatch. The next leader gives it back, and gives the
// task, which comes again, its quota anew.
func TestQuotaOfALostDispatch(t *testing.T) {
	r := leads(t, policyOf(worker("a").slots(5)).quotas(quotasOf().group("x", 1, daily(1000)).group("y", 1, nil)).
		set(func(s *coordinator.Settings) { s.StaleAfter = time.Hour }))
	r.assign(job("t").of("x").tokens(600, 300))
	records, cut := r.Records(nil), 0
	for i, rec := range records {
		if _, is := rec.(*coordinator.QuotaReserved); is {
			cut = i + 1
		}
	}
	heir := &rig{Engine: engine.New(), t: t, now: r.now, last: 10}
	heir.apply(coordinator.PolicyChanged{Policy: r.Policy()})
	heir.Follow()
	for _, rec := range records[:cut] {
		heir.Fold(r.now, rec)
	}
	heir.used("pool/x", 0, 900)
	heir.hear(beat("a").running())
	heir.Record(true)
	heir.Succeed(r.now, time.Second)
	heir.Lead(heir.now)
	heir.apply(coordinator.SessionOpened{})
	heir.used("pool/x", 0, 0)
	// Its turn has not been used either: of two that wait then x's goes first, as it would have.
	if x, y := heir.Shares().Leaf("x"), heir.Shares().Leaf("y"); !heir.Shares().Before(x, y) {
		t.Error("y goes before x")
	}
	ended := 0
	for _, rec := range heir.Records(nil) {
		if q, is := rec.(*coordinator.QuotaEnded); is && q.How == coordinator.QuotaReleased {
			ended++
		}
	}
	if ended != 1 {
		t.Errorf("%d records say that it is given back", ended)
	}
	heir.redeliver(job("t").of("x").tokens(600, 300))
	heir.used("pool/x", 0, 900)
}

// TestQuotaAfterAClockThatIsBehind: at 00:05 a leader takes over by a clock that says 23:55. What is used
// is what it was: the day that has begun does not begin again with the second midnight, and what was
// set aside on the day before is settled there. A task that waits is served when what it waits for is
// there: at once when something comes back; of a budget when its day ends by the new clock; of a rate
// when that clock has come to where the old one stood, and the rate from there.
func TestQuotaAfterAClockThatIsBehind(t *testing.T) {
	midnight := time.Date(2030, 1, 2, 0, 0, 0, 0, time.UTC)
	a := worker("a").slots(30)
	a.Timeout = time.Hour
	r := leads(t, patient(policyOf(a).quotas(quotasOf().group("x", 1, daily(1000)).group("y", 1, requests(1, 1)).
		group("z", 1, seats(1)))))
	r.pass(midnight.Add(-2 * time.Minute).Sub(r.now))
	r.give(job("x1").of("x").tokens(300, 100))
	r.tell(says("a", "x1").used(300, 100))
	r.give(job("old").of("x").tokens(90, 10)) // open across midnight
	r.pass(7 * time.Minute)
	r.give(job("x2").of("x").tokens(200, 50))
	r.tell(says("a", "x2").used(200, 50))
	r.give(job("x3").of("x").tokens(200, 100))
	r.give(job("y1").of("y"))
	r.give(job("z1").of("z"))
	known := r.books()
	for how, journal := range map[string][]coordinator.Record{"by its records": r.Records(nil),
		"by a snapshot": r.imaged()} {
		t.Run(how, func(t *testing.T) {
			heir := r.heirOf(midnight.Add(-5*time.Minute), journal)
			heir.t = t
			heir.Record(true)
			today := func(used, reserved, before, open int64) {
				t.Helper()
				n, _ := heir.Ledger().Node(heir.now, "pool/x")
				if b := n.Budgets[0]; !b.Start.Equal(midnight) || b.Used != used || b.Reserved != reserved ||
					b.UsedBefore != before || b.ReservedBefore != open {
					t.Errorf("at %s: %+v, want %d used and %d set aside, %d and %d of the day before", heir.now.Format(time.TimeOnly),
						b, used, reserved, before, open)
				}
			}
			if got := heir.books(); !reflect.DeepEqual(got, known) {
				t.Errorf("it knows\n  %+v, want\n  %+v", got, known)
			}
			today(250, 300, 400, 100)
			heir.hear(beat("a").running("old", "x3", "y1", "z1"))
			heir.tell(says("a", "old").of("old.1").used(50, 10)) // of yesterday: 400 + 60
			today(250, 300, 460, 0)
			heir.give(job("x4").of("x").tokens(9, 1))
			today(250, 310, 460, 0)
			// The leader after this one reads records that are older by their time than those before.
			for _, journal := range [][]coordinator.Record{append(slices.Clone(journal), heir.Records(nil)...), heir.imaged()} {
				next := heir.heirOf(heir.now, journal)
				if got, want := next.books(), heir.books(); !reflect.DeepEqual(got, want) {
					t.Errorf("the next knows\n  %+v, want\n  %+v", got, want)
				}
			}

			want(t, heir.assign(job("x5").of("x").tokens(400, 50))) // 560 + 450 > 1000
			want(t, heir.assign(job("y2").of("y")))
			want(t, heir.assign(job("z2").of("z")))
			want(t, heir.pass(5*time.Minute-time.Millisecond))
			want(t, heir.pass(2*time.Minute)) // over the second midnight
			today(250, 310, 460, 0)
			want(t, heir.tell(says("a", "z1").of("z1.1")), "completed z1.1 a succeeded", "dispatch z2.1 a")
			want(t, keepDispatches(heir.tell(says("a", "x3").of("x3.1").used(200, 90))), "dispatch x5.1 a") // 550 + 450
			today(540, 460, 460, 0)
			want(t, heir.pass(midnight.Add(5*time.Minute+time.Second-time.Millisecond).Sub(heir.now)))
			want(t, heir.pass(time.Millisecond), "dispatch y2.1 a") // y1 was at 00:05, 1 a second

			want(t, heir.assign(job("x6").of("x").tokens(1, 1)))
			for _, id := range []coordinator.TaskID{"x4", "x5", "y1", "y2", "z2"} {
				heir.tell(says("a", id).of(string(id)+".1").used(1000, 0))
			}
			want(t, heir.pass(midnight.Add(24*time.Hour-time.Millisecond).Sub(heir.now)))
			want(t, heir.pass(time.Millisecond), "dispatch x6.1 a")
			if v := heir.Audit(heir.now); v != nil {
				t.Errorf("the auditor finds %+v", v)
			}
		})
	}
}
