package fairshare

import (
	"testing"
	"time"

	"taskbus/coordinator"
)

// TestClockAhead: 500 of 1000 of a month are used. A leader whose clock is ahead charges 7, and leaves a
// call open; the next leader at the right time, from a journal or a snapshot, has 507 used in the month at
// hand, and the call ends by its time.
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
			if v.Used != used || v.Reserved != int64(3*len(c.ahead)) ||
				!v.End.Equal(time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)) {
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

// TestClockAheadIsToldOnce: 900 of 1000 are set aside, which is told, and nothing is used when a leader's clock is
// ahead. At the right time nothing is told again.
func TestClockAheadIsToldOnce(t *testing.T) {
	const d = coordinator.DimTotalTokens
	q := &newTree(monthly(d, 1000)).Quotas
	right := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	for _, snapshot := range []bool{false, true} {
		l := NewLedger()
		l.Install(right, q)
		if v := l.Reserve(right, id(1), tokens("", 900), time.Time{}); !v.OK {
			t.Fatalf("%+v", v)
		}
		if told := l.Alerts(nil); len(told) != 2 {
			t.Fatalf("told: %+v, want 80 and 90 %%", told)
		}
		for _, now := range []time.Time{right.AddDate(0, 0, 40), right.Add(time.Second)} {
			if snapshot {
				l = restarted(l, now, q)
			}
			l.NotAfter(now)
			l.Review(now)
		}
		if told := l.Alerts(nil); len(told) != 0 {
			t.Errorf("snapshot: %v: told again: %+v", snapshot, told)
		}
	}
}

// TestClockAheadWithoutQuotas: whatever leaders with and without quotas whose clocks are ahead leave behind, at the
// right time what was used counts in the month at hand, and in no other.
func TestClockAheadWithoutQuotas(t *testing.T) {
	const d = coordinator.DimTotalTokens
	q := &newTree(monthly(d, 1000)).group("a", "pool", monthly(d, 1000)).Quotas
	right := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	ahead := right.AddDate(0, 0, 40)
	type term struct {
		at   time.Time
		q    *coordinator.Quotas
		uses int64
	}
	for name, terms := range map[string][]term{
		"used ahead, then none":                         {{ahead, q, 200}, {ahead, nil, 0}, {right, nil, 0}},
		"used, used ahead, then none":                   {{right, q, 300}, {ahead, q, 200}, {ahead, nil, 0}, {right, nil, 0}},
		"used, none ahead":                              {{right, q, 300}, {right, nil, 0}, {ahead, nil, 0}, {right, nil, 0}},
		"used, none, used ahead":                        {{right, q, 300}, {right, nil, 0}, {ahead, q, 200}},
		"used, none ahead, used ahead, none at the end": {{right, q, 300}, {ahead, nil, 0}, {ahead, q, 200}, {right, nil, 0}},
		"used ahead twice": {{ahead, q, 200}, {ahead, nil, 0}, {ahead.AddDate(0, 2, 0), q, 100},
			{ahead, nil, 0}, {right, nil, 0}},
	} {
		for _, snapshot := range []bool{false, true} {
			l, now, want := NewLedger(), right, int64(0)
			lead := func(i int, one term) {
				if now = one.at.Add(time.Duration(i) * time.Second); snapshot {
					l = restarted(l, now, one.q)
				}
				l.Install(now, one.q)
				l.NotAfter(now)
				if one.uses > 0 {
					use(t, l, now, i+1, "a", one.uses)
				}
				want += one.uses
			}
			for i, one := range terms {
				lead(i, one)
			}
			lead(len(terms), term{right, q, 1})
			for _, node := range []string{"pool", "pool/a"} {
				if v := budgetView(t, l, now, node); v.Used != want || v.Start.Month() != time.November {
					t.Errorf("%s (snapshot: %v): %s: %+v, want %d used in November", name, snapshot, node, v, want)
				}
			}
			now = now.AddDate(0, 1, 0)
			use(t, l, now, 100, "a", 5)
			l.Install(now, q)
			if v := budgetView(t, l, now, "pool/a"); v.Used != 5 {
				t.Errorf("%s (snapshot: %v): %+v, want 5 used in December", name, snapshot, v)
			}
		}
	}
}
