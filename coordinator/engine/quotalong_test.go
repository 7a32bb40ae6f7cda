package engine_test

import (
	"testing"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/engine"
)

// A task that waits for quota for longer than ids are remembered, while nothing else happens, is
// dispatched as any other: the first word of its agent counts, and so does what it has used.
func TestQuotaOfATaskThatWaitedForLong(t *testing.T) {
	r := ready(t, patient(policyOf(worker("a").slots(10)).quotas(quotasOf().group("team", 1, daily(1000)))))
	r.give(job("t1").of("team").tokens(900, 100))
	want(t, r.assign(job("t2").of("team").tokens(500, 100)))
	midnight := time.Date(2030, 1, 2, 0, 0, 0, 0, time.UTC)
	want(t, r.pass(midnight.Sub(r.now)), "dispatch t2.1 a") // 12 h later; the window is 1 h
	r.confirm(r.latest().Handle)
	want(t, r.tell(says("a", "t2").used(300, 50)), "completed t2.1 a succeeded")
	if n, _ := r.Ledger().Node(r.now, "pool/team"); n.Budgets[0].Used != 350 || n.Budgets[0].Reserved != 0 {
		t.Errorf("%+v", n.Budgets[0])
	}
}

// A dispatch is let go of with its id when its agent has never told of anything, and the window is
// over. What was set aside for it is then taken to be used: it will not be reported how much it was.
func TestQuotaOfADispatchThatIsLetGo(t *testing.T) {
	r := ready(t, patient(policyOf(worker("mute").slots(10)).quotas(quotasOf().group("team", 1, daily(1000)))))
	r.give(job("t1").of("team").tokens(500, 100))
	books := func(used, reserved int64) {
		t.Helper()
		n, _ := r.Ledger().Node(r.now, "pool/team")
		if b := n.Budgets[0]; b.Used != used || b.Reserved != reserved {
			t.Errorf("%d used, %d reserved, want %d and %d", b.Used, b.Reserved, used, reserved)
		}
	}
	r.pass(59 * time.Minute)
	r.assign(job("t2")) // the window looks for what is too old whenever an id is looked up
	books(0, 600)
	r.pass(2 * time.Minute)
	r.assign(job("t3"))
	books(600, 0)
	want(t, r.tell(says("mute", "t1").used(1, 1)), "result of t1 by mute: unknown")
	engine.CheckIndexes(t, r.Engine)
	if v := r.Audit(r.now); v != nil {
		t.Errorf("the auditor finds %+v", v)
	}
}

// What is set aside for a task stands until its result, or its lease ends, however short
// reservation_ttl_seconds is: that bounds calls, because the end of a call may not be reported.
func TestQuotaOfATaskOutlastsReservations(t *testing.T) {
	q := quotasOf().group("team", 1, daily(1000))
	q.ReservationTTL = time.Second
	r := ready(t, patient(policyOf(worker("a").slots(10)).quotas(q)))
	r.give(job("done").of("team").tokens(300, 100))
	r.give(job("lost").of("team").tokens(500, 100))
	r.Track("a")
	r.pass(5 * time.Minute) // all the time that an agent has
	r.used("pool/team", 0, 1000)
	r.tell(says("a", "done").used(300, 100))
	r.used("pool/team", 400, 600)
	r.pass(2 * time.Second) // and the second by which its own word may be late
	r.used("pool/team", 400, 0)
}

// Days and months are those of the file's time zone: in Berlin the day of 2030-03-31 has 23 hours,
// that of 2030-10-27 has 25, and February 28 days. What waits goes when the next begins, to the
// nanosecond.
func TestQuotaCalendar(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Skip("no time zones on this machine: ", err)
	}
	monthly := func(n *coordinator.QuotaNode) {
		daily(100)(n)
		n.Budgets[coordinator.DimTotalTokens].Period.Unit = coordinator.PerMonth
	}
	for name, c := range map[string]struct {
		budget func(*coordinator.QuotaNode)
		begin  time.Time
		lasts  time.Duration
	}{
		"a day":                    {daily(100), time.Date(2030, 1, 15, 0, 0, 0, 0, berlin), 24 * time.Hour},
		"the day of summer time":   {daily(100), time.Date(2030, 3, 31, 0, 0, 0, 0, berlin), 23 * time.Hour},
		"the day of winter time":   {daily(100), time.Date(2030, 10, 27, 0, 0, 0, 0, berlin), 25 * time.Hour},
		"February":                 {monthly, time.Date(2030, 2, 1, 0, 0, 0, 0, berlin), 28 * 24 * time.Hour},
		"March, an hour too short": {monthly, time.Date(2030, 3, 1, 0, 0, 0, 0, berlin), 31*24*time.Hour - time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			q := quotasOf().group("team", 1, c.budget)
			q.Location = berlin
			r := ready(t, patient(policyOf(worker("a").slots(10)).quotas(q)).set(func(s *coordinator.Settings) {
				s.AssignmentTimeout, s.StaleAfter = 1000*time.Hour, 10_000*time.Hour
			}))
			r.pass(c.begin.Sub(r.now))
			r.give(job("all").of("team").tokens(50, 50))
			want(t, r.assign(job("next").of("team").tokens(1, 1)))
			if p := r.place(job("next").of("team")); p.Lacks == nil || !p.Lacks.RetryAt.Equal(c.begin.Add(c.lasts)) {
				t.Errorf("back at %+v", p.Lacks)
			}
			want(t, keepDispatches(r.pass(c.lasts-1)))
			want(t, keepDispatches(r.pass(1)), "dispatch next.1 a")
		})
	}
}
