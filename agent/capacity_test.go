package agent_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"taskbus/agent/balance"
)

// told lists when a heartbeat told the capacity, since begun.
func (r *rig) told(begun time.Time) (at []time.Duration) {
	r.t.Helper()
	for _, s := range r.statuses() {
		if s.HasCapacity {
			at = append(at, s.AgentStatus.Timestamp.Sub(begun))
		}
	}
	return at
}

// An agent of whatever kind tells its capacity once it is measured, every 10 s, in a heartbeat that
// is due then anyway; and its pending items in every one.
func TestCapacityIsTold(t *testing.T) {
	inRig(t, func(r *rig) {
		begun := time.Now()
		r.run(1, work(100*time.Millisecond))
		for i := range 59 {
			r.give(fmt.Sprint("t", i))
			r.pass(100 * time.Millisecond)
		}
		r.pass(10*time.Second - time.Since(begun))
		if at := r.told(begun); len(at) > 0 {
			t.Errorf("told after %v, of 59 tasks: it is a guess until there are 60", at)
		}
		r.give("t59")
		r.pass(26*time.Second - 10*time.Second)
		// Heartbeats every 5 s. It is due every 10 s; at 10 s there was nothing to tell.
		if at := fmt.Sprint(r.told(begun)); at != "[20s]" {
			t.Errorf("told at %s, want 20 s", at)
		}
		if n := len(r.statuses()); n != 6 {
			t.Errorf("%d heartbeats in 26 s, want 6: at 0, 5, 10, 15, 20 and 25 s", n)
		}
		all := r.statuses()
		for _, s := range all {
			if !s.HasPending {
				t.Errorf("a heartbeat without pending items: %+v", s.AgentStatus)
			}
		}
		// 60 items in 6 s in hand: (1 + 60)/(2 + 6) = 7.6 items/s, and a little less for what
		// has been forgotten of both: of d busy seconds half in 60.
		last := all[len(all)-2]
		if c := last.CapacityItemsPerSecond; math.Abs(c-7.55) > 0.1 {
			t.Errorf("capacity %v, want about 7.55", c)
		}
	})
}

// The balancer's keys say how often, and over which window; between slow heartbeats it has one of
// its own.
func TestCapacityReportInterval(t *testing.T) {
	inRig(t, func(r *rig) {
		pull := pullConfig(balance.ModeEqual, false)
		pull.LoadBalancing.CapacityReportIntervalMS = 7000
		pull.LoadBalancing.CapacityWindowSize = 1 // one task ends the warm-up
		c := r.config()
		c.Slots, c.Pull, c.Interval = 8, pull, 20*time.Second
		begun := time.Now()
		r.runWith(c, asLongAsItIsCalled)
		r.give("1s", "60s")
		r.pass(30 * time.Second)
		if at := fmt.Sprint(r.told(begun)); at != "[7s 14s 21s 28s]" {
			t.Errorf("told at %s, want every 7 s", at)
		}
		for _, s := range r.statuses()[2:] {
			if s.PendingItems != 1 {
				t.Errorf("%d pending at %v, want 1", s.PendingItems, s.AgentStatus.Timestamp.Sub(begun))
			}
		}
	})
}

// A coordinator has nothing else to go by in a new session: it is told at once.
func TestCapacityInANewSession(t *testing.T) {
	inRig(t, func(r *rig) {
		pull := pullConfig(balance.ModeEqual, false)
		pull.LoadBalancing.CapacityWindowSize = 1
		r.pulling(1, pull, asLongAsItIsCalled)
		r.give("1s")
		r.pass(2 * time.Second)
		before := len(r.statuses())
		r.cut()
		r.pass(time.Second)
		all := r.statuses()
		if len(all) <= before || !all[before].HasCapacity {
			t.Errorf("the first heartbeat of the new session, of %d more, does not tell the capacity", len(all)-before)
		}
	})
}
