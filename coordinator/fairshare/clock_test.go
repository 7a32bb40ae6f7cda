package fairshare

import (
	"testing"
	"time"

	"taskbus/coordinator"
)

// TestClockAhead: 500 of 1000 of a month are used. A leader whose clock is ahead charges 7, and leaves a
// call open; whoever leads then at the right time, whatever it knows the past from, has 507 used in the
// month at hand, and the call ends by its time.
func TestClockAhead(t *testing.T) {
	const d = coordinator.DimTotalTokens
	q := &newTree(monthly(d, 1000)).group("a", "pool", monthly(d, 1000)).Quotas
	right := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		name  string
		ahead []time.Duration // by leader
	}{
		{"never", nil},
		{"40 days", []time.Duration{40 * 24 * time.Hour}},
		{"8 days, into the next month", []time.Duration{8 * 24 * time.Hour}},
		{"an hour, in the same month", []time.Duration{time.Hour}},
		{"twice, by more", []time.Duration{40 * 24 * time.Hour, 80 * 24 * time.Hour}},
		{"ten years", []time.Duration{3650 * 24 * time.Hour}},
	} {
		for _, snapshot := range []bool{false, true} {
			l := NewLedger()
			l.Install(right, q)
			use(t, l, right, 1, "a", 500)
			now, used := right, int64(500)
			restart := func() {
				if snapshot {
					l = restarted(l, now, q)
				}
			}
			for i, by := range c.ahead {
				now = right.Add(by)
				restart()
				l.NotAfter(now)
				use(t, l, now, 10+i, "a", 7)
				used += 7
				l.Reserve(now, id(20+i), tokens("a", 3), now.Add(time.Minute))
			}
			for k := range 4 {
				now = right.Add(time.Duration(k+1) * time.Second)
				restart()
				l.NotAfter(now)
			}
			v := budgetView(t, l, now, "pool/a")
			if v.Used != used || v.Reserved != int64(3*len(c.ahead)) || !v.End.Equal(time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)) {
				t.Errorf("%s (snapshot: %v): %+v, want %d used", c.name, snapshot, v, used)
			}
			now = now.Add(time.Hour + time.Minute)
			for key, due := l.Due(now); due; key, due = l.Due(now) {
				l.Expire(now, key)
			}
			left := 1000 - used
			if v := l.Reserve(now, id(30), tokens("a", left+1), time.Time{}); v.OK {
				t.Errorf("%s (snapshot: %v): more than the month has", c.name, snapshot)
			}
			if v := l.Reserve(now, id(30), tokens("a", left), time.Time{}); !v.OK {
				t.Errorf("%s (snapshot: %v): %+v", c.name, snapshot, v)
			}
		}
	}
}

// TestClosedPeriodsAreBounded: of each budget two periods are kept, and none of less than an hour.
func TestClosedPeriodsAreBounded(t *testing.T) {
	const d = coordinator.DimTotalTokens
	for period, want := range map[time.Duration]int{time.Hour: 2, time.Minute: 0} {
		l := newTree(budgetFor(period, d, 1000)).ledger()
		for i := range 10 {
			use(t, l, epoch.Add(time.Duration(i)*period), i, "", 1)
		}
		if n := len(l.closed[closedKey{"pool", d}]); n != want {
			t.Errorf("%d of %v are kept, want %d", n, period, want)
		}
	}
}
