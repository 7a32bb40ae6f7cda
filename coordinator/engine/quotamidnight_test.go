package engine_test

import (
	"testing"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/engine"
)

// In some places clocks skip midnight when summer time begins: in Havana 8 March 2026 begins at 01:00,
// and what time.Date makes of its midnight is 23:00 of the day before. The day must end none the less,
// once: one that ended before it was over would be due again and again, in one and the same moment.
func TestDaysWithoutMidnight(t *testing.T) {
	for place, begins := range map[string]time.Time{ // when the day without midnight begins
		"America/Havana":   time.Date(2026, 3, 8, 5, 0, 0, 0, time.UTC),   // 00:00 CST, shown as 01:00 CDT
		"America/Santiago": time.Date(2026, 9, 6, 4, 0, 0, 0, time.UTC),   // 00:00 -04, shown as 01:00 -03
		"Africa/Cairo":     time.Date(2026, 4, 23, 22, 0, 0, 0, time.UTC), // 00:00 EET, shown as 01:00 EEST
		"Asia/Beirut":      time.Date(2026, 3, 28, 22, 0, 0, 0, time.UTC), // 00:00 EET, shown as 01:00 EEST
	} {
		t.Run(place, func(t *testing.T) {
			zone, err := time.LoadLocation(place)
			if err != nil {
				t.Fatal(err)
			}
			q := ruled()
			q.Location = zone
			r := &rig{Engine: engine.New(), t: t, now: begins.Add(-30 * time.Hour),
				auctions: make(map[coordinator.TaskID]string)}
			r.Record(true)
			p := policyOf(worker("a").slots(50)).quotas(q)
			r.apply(coordinator.PolicyChanged{Policy: &p.Policy})
			r.apply(coordinator.SessionOpened{})
			var starts []time.Time
			for r.now.Before(begins.Add(30 * time.Hour)) {
				r.pass(time.Minute)
				if n := len(starts); n == 0 || !starts[n-1].Equal(r.DayStart()) {
					starts = append(starts, r.DayStart())
				}
			}
			// When counting began; the day before, of 24 hours; this one, of 23; the one after.
			want := []time.Time{begins.Add(-30 * time.Hour), begins.Add(-24 * time.Hour), begins, begins.Add(23 * time.Hour)}
			if len(starts) != len(want) {
				t.Fatalf("days began at %v, want %v", starts, want)
			}
			for i := range want {
				if !starts[i].Equal(want[i]) {
					t.Errorf("day %d began at %v, want %v", i, starts[i].In(zone), want[i].In(zone))
				}
			}
		})
	}
}
