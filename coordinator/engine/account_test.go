package engine_test

import (
	"fmt"
	"testing"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/engine"
)

// An agent whose heartbeats carry a timestamp that stands still, as those of a cached body do, is
// believed to have made them when they come: the ends before that are not kept.
func TestEndsBehindAClockThatStands(t *testing.T) {
	r := tracking(t, policyOf(worker("a").slots(1000)))
	stands := r.now
	for i := range 200 {
		id := coordinator.TaskID(fmt.Sprint("t", i))
		r.give(job(id))
		r.tell(says("a", id))
		if i%10 == 9 {
			r.pass(100 * time.Millisecond)
			r.hear(beat("a").running().stamped(stands))
			if n := r.FleetAgent("a").RecentEnds(); n > 10 {
				t.Fatalf("after %d tasks %d ends are kept, at most the 10 since the last heartbeat", i+1, n)
			}
		}
	}
}

// TestEndsBehindASlowClock: whatever timestamps reports carry, one that comes two health intervals after
// an end was told was made after it: ends are kept for no longer than that, and those that the latest
// report counts as active are credited until another comes.
func TestEndsBehindASlowClock(t *testing.T) {
	const perInterval, intervals = 10, 20
	for name, tt := range map[string]struct {
		report func(r *rig, begun time.Time) *reportBuilder
		own    bool // it reported for itself once
	}{
		"live, a tenth of real time": {func(r *rig, begun time.Time) *reportBuilder {
			return beat("a").running().stamped(begun.Add(r.now.Sub(begun) / 10))
		}, true},
		"relayed, standing": {func(_ *rig, begun time.Time) *reportBuilder {
			b := beat("a").running().stamped(begun)
			b.Relayed = true
			return b
		}, false},
		"its own once, then relayed": {func(r *rig, _ time.Time) *reportBuilder {
			b := beat("a").running().stamped(r.now)
			b.Relayed = true
			return b
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			r := boot(t, policyOf(worker("a").slots(1000)))
			begun := r.now
			first := beat("a").running().stamped(begun)
			first.Relayed = !tt.own
			r.hear(first)
			for i := range intervals * perInterval {
				id := coordinator.TaskID(fmt.Sprint("t", i))
				r.give(job(id))
				r.tell(says("a", id).stamped(r.now))
				r.pass(interval / perInterval)
				if i%perInterval == perInterval-1 {
					r.hear(tt.report(r, begun))
				}
				if n := r.FleetAgent("a").RecentEnds(); n > 3*perInterval {
					t.Fatalf("after %d tasks %d ends are kept, at most the %d of three intervals", i+1, n, 3*perInterval)
				}
			}
			engine.CheckIndexes(t, r.Engine)
		})
	}
	t.Run("credit lasts until the next report", func(t *testing.T) {
		r := boot(t, policyOf(worker("a").slots(1)).set(func(s *coordinator.Settings) { s.StaleAfter = time.Hour }))
		r.hear(beat("a").running().stamped(r.now))
		r.give(job("t1"))
		r.pass(time.Second)
		r.hear(beat("a").running("t1").stamped(r.now))
		r.pass(time.Second)
		r.tell(says("a", "t1").stamped(r.now))
		r.pass(10 * interval)
		b := beat("a").running("t1").stamped(r.now)
		b.Relayed = true
		r.hear(b) // its capacity, and that it lives: no word about what it runs
		want(t, r.assign(job("t2")), "dispatch t2.1 a")
	})
}
