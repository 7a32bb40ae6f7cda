package engine_test

import (
	"math"
	"testing"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/engine"
)

// fast is a leader whose clock is a year ahead, with two agents. exact: they list what they run.
func fast(t *testing.T, exact bool, p *policyBuilder) *rig {
	r := &rig{Engine: engine.New(), t: t, now: epoch.AddDate(1, 0, 0), auctions: make(map[coordinator.TaskID]string)}
	r.Record(true)
	r.apply(coordinator.PolicyChanged{Policy: &p.Policy})
	r.apply(coordinator.SessionOpened{})
	for _, a := range p.Agents {
		if b := beat(a.ID); exact {
			r.hear(b.running())
		} else {
			r.hear(b)
		}
	}
	return r
}

// heirsInTime take over from it a moment later, and know what time it is.
func heirsInTime(r *rig) map[string]*rig {
	all := make(map[string]*rig)
	for name, journal := range map[string][]coordinator.Record{"by its records": r.Records(nil),
		"by a snapshot": r.imaged()} {
		all[name] = r.heirOf(epoch, journal)
	}
	return all
}

// lives lets time pass while both agents report.
func (r *rig) lives(d time.Duration, agents ...*reportBuilder) (lines []string) {
	r.t.Helper()
	for end := r.now.Add(d); r.now.Before(end); {
		lines = append(lines, r.pass(min(end.Sub(r.now), interval/3))...)
		for _, b := range agents {
			again := *b
			again.Timestamp = r.now
			lines = append(lines, r.hear(&again)...)
		}
	}
	return lines
}

// TestLeaseOfAFastClock: the lease of a dispatch that its agent never told of ends when it has had
// its time since the take-over, not a year later.
func TestLeaseOfAFastClock(t *testing.T) {
	r := fast(t, true, policyOf(worker("a"), worker("b")))
	d := r.give(job("t")) // 5 min, and a second for the agent to have the first word
	for name, heir := range heirsInTime(r) {
		want(t, heir.lives(5*time.Minute, beat("a").running(), beat("b").running()))
		got := heir.lives(time.Second, beat("a").running(), beat("b").running())
		want(t, got, "fail t task_timeout", "withdraw "+brief(d.Task.ID, d.DispatchID)+" a")
		if heir.slots("a", 0, 1); t.Failed() {
			t.Log(name)
		}
	}
}

// TestSlotOfAFastClock: a heartbeat speaks for a dispatch that was confirmed before it was made.
// One that a clock has confirmed which is a year ahead holds its slot no longer than another.
func TestSlotOfAFastClock(t *testing.T) {
	p := policyOf(worker("a"), worker("b"))
	r := fast(t, false, p)
	r.give(job("t"))
	journal := r.Records(nil)
	heir := &rig{Engine: engine.New(), t: t, now: epoch}
	heir.apply(coordinator.PolicyChanged{Policy: &p.Policy})
	heir.Follow()
	for _, rec := range journal {
		heir.Fold(r.now, rec)
	}
	heir.Lead(heir.now)
	heir.apply(coordinator.SessionOpened{})
	heir.lives(3*time.Second, beat("a"), beat("b")) // idle: it has done it
	heir.slots("a", 0, 1)
}

// TestLearningAfterAFastClock: what agents show counts in full from the take-over on, for the leader
// and for its standbys.
func TestLearningAfterAFastClock(t *testing.T) {
	r := fast(t, true, policyOf(worker("a"), worker("b")).set(func(s *coordinator.Settings) { s.Breaker.Off = true }))
	r.tell(says(r.give(job("before")).Agent, "before"))
	ahead := r.Records(nil)
	heir := r.heirOf(epoch, ahead)
	heir.Record(true)
	type entry struct {
		at     time.Time
		record coordinator.Record
	}
	var since []entry
	for i := range 30 {
		d := heir.give(job(numbered(i)).prefers("a").not("b"))
		heir.tell(says("a", d.Task.ID).but(coordinator.OutcomeFailed))
		for _, rec := range heir.Records(nil) {
			since = append(since, entry{heir.now, rec})
		}
		heir.lives(interval/3, beat("a").running(), beat("b").running())
	}
	// 1 of 1 succeeded before, 0 of 30 since: m = 10 at the fleet's prior of less than 0.5.
	led := heir.seen("a").Success
	if led > 0.3 {
		t.Errorf("after 30 failures a succeeds with %.2f: they have not counted", led)
	}
	last := &rig{Engine: engine.New(), t: t, now: heir.now}
	last.apply(coordinator.PolicyChanged{Policy: heir.Policy()})
	last.Follow()
	for _, rec := range ahead {
		last.Fold(r.now, rec)
	}
	for _, e := range since {
		last.Fold(e.at, e.record)
	}
	if got := last.seen("a").Success; math.Abs(got-led) > 1e-3 {
		t.Errorf("who follows takes a to succeed with %.4f, the leader with %.4f", got, led)
	}
	for _, e := range []*rig{heir, last} {
		if rate := e.seen("a").Capacity.Measured; rate > 1 {
			t.Errorf("a does %.1f items a second, and has done one in all", rate)
		}
	}
}

// TestEjectionOfAFastClock: an ejection lasts as long as ever, from the take-over on.
func TestEjectionOfAFastClock(t *testing.T) {
	r := fast(t, true, policyOf(worker("a").can("go").slots(3), worker("b").can("go").slots(3)).route("go", "go"))
	r.fails("a", "go", 5) // 30 s
	for name, heir := range heirsInTime(r) {
		if got := heir.why("a", "go"); got != coordinator.Ejected {
			t.Fatalf("%s: %v, want ejected", name, got)
		}
		heir.lives(299*time.Second, beat("a").running(), beat("b").running())
		heir.lives(time.Second, beat("a").running(), beat("b").running()) // the longest that there is
		if got := heir.why("a", "go"); got != coordinator.Eligible {
			t.Errorf("%s: after the longest ejection %v, want that it is tried", name, got)
		}
	}
}

// TestIDsOfAFastClock: a task id is remembered for its hour from the take-over on, and keeps no
// other from being forgotten.
func TestIDsOfAFastClock(t *testing.T) {
	r := fast(t, true, policyOf(worker("a").slots(9), worker("b").slots(9)))
	for i := range 20 {
		r.tell(says(r.give(job(numbered(i))).Agent, numbered(i)))
	}
	for name, heir := range heirsInTime(r) {
		heir.lives(time.Minute, beat("a").running(), beat("b").running())
		want(t, heir.assign(job("t3")), "ack 21", "duplicate t3")
		for i := range 20 { // each looks at the oldest ids
			heir.tell(says(heir.give(job(numbered(100+i))).Agent, numbered(100+i)))
			heir.hear(beat("a").running())
			heir.hear(beat("b").running())
		}
		heir.lives(2*time.Hour, beat("a").running(), beat("b").running())
		for i := range 20 {
			heir.tell(says(heir.give(job(numbered(200+i))).Agent, numbered(200+i)))
			heir.hear(beat("a").running())
			heir.hear(beat("b").running())
		}
		if n := heir.Snapshot(heir.now).Remembered; n != 20 {
			t.Errorf("%s: %d ids are remembered, want the 20 of the last hour", name, n)
		}
		engine.CheckIndexes(t, heir.Engine)
	}
}

// TestBudgetsOfAFastClock: 480 tokens are used in a month at the right time; a leader that is 40 days
// ahead has 60 more used, and leaves a task running. A next leader with the right time, and however
// often, has 540 used in the month at hand, and the task sets its tokens aside there.
func TestBudgetsOfAFastClock(t *testing.T) {
	month := func(n *coordinator.QuotaNode) {
		n.Budgets[coordinator.DimTotalTokens] = &coordinator.QuotaLimit{Nominal: 1000,
			Period: coordinator.Period{Unit: coordinator.PerMonth}}
	}
	r := leads(t, policyOf(worker("a").slots(3)).quotas(quotasOf().pool(month).group("x", 1, month)))
	r.give(job("t1").of("x").tokens(450, 30))
	r.tell(says("a", "t1").used(450, 30))
	right, before := r.now, r.Records(nil)
	ahead := r.heirOf(right.AddDate(0, 0, 40), before)
	ahead.Record(true)
	ahead.give(job("t2").of("x").tokens(50, 10))
	ahead.tell(says("a", "t2").used(50, 10))
	ahead.give(job("t3").of("x").tokens(20, 1))
	for name, journal := range map[string][]coordinator.Record{"by its records": append(before, ahead.Records(nil)...),
		"by a snapshot": ahead.imaged()} {
		for again := range 4 {
			heir := ahead.heirOf(right.Add(time.Duration(again+1)*time.Second), journal)
			n, _ := heir.Ledger().Node(heir.now, "pool/x")
			if b := n.Budgets[0]; b.Used != 540 || b.Reserved != 21 || heir.now.Before(b.Start) || !heir.now.Before(b.End) {
				t.Errorf("%s, start %d: %+v", name, again+1, b)
			}
			if v := heir.Audit(heir.now); v != nil {
				t.Errorf("%s: the auditor finds %+v", name, v)
			}
			journal = heir.imaged()
		}
	}
}

// TestResultAfterAFastClock: what was accepted by a clock that was ahead is ended by its agent, whose
// clock is right.
func TestResultAfterAFastClock(t *testing.T) {
	r := fast(t, true, policyOf(worker("a"), worker("b")))
	b := job("t")
	b.AcceptedAt = r.now
	d := r.give(b)
	for name, heir := range heirsInTime(r) {
		for range 3 {
			heir.lives(10*time.Second, beat("a").running("t"), beat("b").running())
		}
		done := says(d.Agent, "t").of(d.DispatchID)
		done.Timestamp = heir.now
		got := heir.tell(done)
		want(t, got, "completed t.1 a succeeded")
		if t.Failed() {
			t.Log(name)
		}
	}
}

// TestAlertsOfAFastClock: what a leader whose clock is ahead has told of a budget is not told again by
// a next leader with the right time, however often.
func TestAlertsOfAFastClock(t *testing.T) {
	month := func(n *coordinator.QuotaNode) {
		n.Budgets[coordinator.DimTotalTokens] = &coordinator.QuotaLimit{Nominal: 1000,
			Period: coordinator.Period{Unit: coordinator.PerMonth}}
	}
	r := leads(t, policyOf(worker("a").slots(3)).quotas(quotasOf().group("x", 1, month)))
	right, before := r.now, r.Records(nil)
	ahead := r.heirOf(right.AddDate(0, 0, 40), before)
	ahead.Record(true)
	want(t, ahead.assign(job("t").of("x").tokens(840, 10)), "quota pool/x total_tokens 80%", "dispatch t.1 a")
	for name, journal := range map[string][]coordinator.Record{"by its records": append(before, ahead.Records(nil)...),
		"by a snapshot": ahead.imaged()} {
		for again := range 3 {
			heir := ahead.heirOf(right.Add(time.Duration(again+1)*time.Second), journal)
			if len(heir.opened) > 0 {
				t.Errorf("%s, start %d: %s", name, again+1, heir.opened)
			}
		}
	}
}

// TestAlertBeforeTheSessionAfterAFastClock: of 1,000 tokens 750 are used by a leader that is 40 days ahead, and 110
// by a result that the next one, at the right time, reads again before its session opens. That makes 86 % of the
// month at hand, and the alert says when this one ends.
func TestAlertBeforeTheSessionAfterAFastClock(t *testing.T) {
	month := func(n *coordinator.QuotaNode) {
		n.Budgets[coordinator.DimTotalTokens] = &coordinator.QuotaLimit{Nominal: 1000,
			Period: coordinator.Period{Unit: coordinator.PerMonth}}
	}
	r := leads(t, policyOf(worker("a").slots(3)).quotas(quotasOf().group("x", 1, month)))
	right, before := r.now, r.Records(nil)
	ahead := r.heirOf(right.AddDate(0, 0, 40), before)
	ahead.Record(true)
	ahead.give(job("t1").of("x").tokens(740, 10))
	ahead.tell(says("a", "t1").used(740, 10))
	d := ahead.give(job("t2").of("x").tokens(20, 1))
	for name, journal := range map[string][]coordinator.Record{"by its records": append(before, ahead.Records(nil)...),
		"by a snapshot": ahead.imaged()} {
		heir := ahead.follower(right.Add(time.Second), journal)
		heir.Lead(heir.now)
		result := says("a", "t2").of(d.DispatchID).used(100, 10).stamped(heir.now).Result
		var told []coordinator.QuotaReached
		for _, ev := range []coordinator.Event{coordinator.ResultReported{Result: result, Untold: true},
			coordinator.SessionOpened{}} {
			for _, f := range heir.Apply(heir.now, ev, nil) {
				if f, is := f.(coordinator.QuotaReached); is {
					told = append(told, f)
				}
			}
		}
		ends := time.Date(right.Year(), right.Month()+1, 1, 0, 0, 0, 0, time.UTC)
		if len(told) != 1 || told[0].Percent != 80 || told[0].Used != 860 || !told[0].Ends.Equal(ends) {
			t.Errorf("%s: told of %+v, want 80 %% with 860 used, until %s", name, told, ends)
		}
	}
}

// TestEndsOfAFastClock: a leader whose clock is ahead writes a snapshot at once. Of what was told a moment
// before it has the tasks, so that the next one tells the ends as whole.
func TestEndsOfAFastClock(t *testing.T) {
	r := leads(t, policyOf(worker("a")))
	r.tell(says(r.give(job("t")).Agent, "t"))
	ahead := r.heirOf(r.now.Add(100*time.Hour), r.Records(nil))
	right := r.heirOf(r.now.Add(time.Second), ahead.imaged())
	if !right.RecentEnd("t") {
		t.Error("what the task was accepted with is not known any more")
	}
}

// TestEndsInASnapshotBeforeTheSession: a recording begins with a snapshot that is written when the term
// before has ended, and the session is not open yet.
func TestEndsInASnapshotBeforeTheSession(t *testing.T) {
	r := leads(t, policyOf(worker("a")))
	r.tell(says(r.give(job("t")).Agent, "t"))
	heir := &rig{Engine: engine.New(), t: t, now: r.now}
	heir.Follow()
	heir.apply(coordinator.PolicyChanged{Policy: r.Policy()})
	for _, rec := range r.Records(nil) {
		heir.Fold(r.now, rec)
	}
	heir.Succeed(r.now, time.Second)
	if next := r.heirOf(r.now, heir.imaged()); !next.RecentEnd("t") {
		t.Error("what the task was accepted with is not known any more")
	}
}
