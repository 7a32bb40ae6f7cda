package engine_test

import (
	"fmt"
	"testing"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/engine"
)

// TestHeartbeatCoversDispatch: a dispatch counts against its agent until a report
// that was made after its confirm, however wrong the agent's clock is.
func TestHeartbeatCoversDispatch(t *testing.T) {
	for _, wrong := range []time.Duration{0, 10 * time.Minute, -10 * time.Minute} {
		t.Run(fmt.Sprint("clock wrong by ", wrong), func(t *testing.T) {
			r := boot(t, policyOf(worker("a").slots(2)))
			clock := func() time.Time { return r.now.Add(wrong) } // what the agent's clock shows
			uncovered := func(n int) {
				t.Helper()
				if got := r.Snapshot(r.now).Agents[0].Uncovered; got != n {
					t.Fatalf("%d dispatches uncovered, want %d", got, n)
				}
			}
			r.hear(beat("a").stamped(clock())) // teaches the offset: −wrong
			r.pass(time.Second)
			r.assign(job("t1"))
			r.pass(time.Second)
			made := clock() // before the confirm …
			r.pass(time.Second)
			r.confirm(1)
			atConfirm := clock()
			r.pass(time.Second)
			r.hear(beat("a").stamped(made)) // … arriving after it: cannot know of t1
			uncovered(1)
			r.hear(beat("a").stamped(atConfirm)) // at the confirm's very moment: not newer
			uncovered(1)
			r.hear(beat("a").stamped(atConfirm.Add(1)).active(1)) // newer: speaks for t1
			uncovered(0)
			if got := r.Snapshot(r.now).Agents[0].InFlight; got != 1 {
				t.Errorf("in flight %d, want 1: reported, not counted twice", got)
			}
		})
	}
}

// TestOnItsWayIsNeverCovered: no report speaks for a dispatch without a confirm.
func TestOnItsWayIsNeverCovered(t *testing.T) {
	r := ready(t, policyOf(worker("a")))
	r.assign(job("t1"))
	r.pass(10 * time.Second)
	r.hear(beat("a"))
	if got := r.whyNot("a"); got != coordinator.Full {
		t.Errorf("%v, want full", got)
	}
}

// TestPastReportsTeachNoClock: what is read from the stream's past arrives at
// once, whenever it was made, and so says nothing of the agent's clock.
func TestPastReportsTeachNoClock(t *testing.T) {
	r := boot(t, policyOf(worker("a")))
	r.hear(beat("a").stamped(r.now.Add(-time.Minute)).fromPast())
	r.assign(job("t1"))
	r.confirm(1)
	r.pass(time.Second)
	// Read later, but made before t1 was dispatched: must not free its slot.
	want(t, r.hear(beat("a").stamped(r.now.Add(-30*time.Second)).fromPast()))
	if got := r.whyNot("a"); got != coordinator.Full {
		t.Errorf("%v, want full: t1 is not covered", got)
	}
}

// TestOutOfOrder: an older report never overwrites a newer one.
func TestOutOfOrder(t *testing.T) {
	r := boot(t, policyOf(worker("a").slots(9)))
	at := r.now
	active := func(n int) {
		t.Helper()
		if got := r.Snapshot(r.now).Agents[0].InFlight; got != n {
			t.Fatalf("in flight %d, want %d", got, n)
		}
	}
	want(t, r.hear(beat("a").stamped(at).active(1)), "agent a online")
	want(t, r.hear(beat("a").stamped(at.Add(-1)).active(2)), "refused a out_of_order first")
	active(1)
	want(t, r.hear(beat("a").stamped(at.Add(-2)).active(2)), "refused a out_of_order")
	want(t, r.hear(beat("a").stamped(at).active(3))) // same timestamp, later in the stream: newer
	active(3)
	want(t, r.hear(beat("a").stamped(at).active(4).fromPast())) // replayed: old news, not worth a word
	want(t, r.hear(beat("a").stamped(at.Add(-1)).active(4).fromPast()))
	active(3)
	want(t, r.hear(beat("a").stamped(at.Add(1)).active(5).fromPast())) // past, but newer than what is known
	active(5)
	want(t, r.hear(beat("zoe")), "refused zoe unknown_agent first")
	want(t, r.hear(beat("zoe")), "refused zoe unknown_agent")
}

// TestClockSetBack: an agent whose clock was set back is refused for two health
// intervals (60 s) after its last accepted report, then taken at its new word.
func TestClockSetBack(t *testing.T) {
	r := boot(t, policyOf(worker("a")))
	r.hear(beat("a"))
	back := func() *reportBuilder { return beat("a").stamped(r.now.Add(-10 * time.Minute)) }
	r.pass(2 * interval)
	want(t, r.hear(back().load(0.5)), "refused a out_of_order first") // 60 s: not yet
	r.pass(1)
	want(t, r.hear(back().load(0.5)))
	if got := r.Snapshot(r.now).Agents[0].ReportedLoad; got != 0.5 {
		t.Errorf("load %v, want 0.5: accepted", got)
	}
	// The offset is learnt anew: with the old one, t1 would stay uncovered for
	// ten minutes.
	r.assign(job("t1"))
	r.confirm(1)
	r.pass(time.Second)
	r.hear(back())
	if got := r.whyNot("a"); got != coordinator.Eligible {
		t.Errorf("%v, want eligible", got)
	}
}

// TestStrangersAreBounded: a flood of invented ids costs no memory beyond the bound.
func TestStrangersAreBounded(t *testing.T) {
	r := boot(t, policyOf(worker("a")))
	for i := range 2 * engine.MaxStrangers {
		r.hear(beat(coordinator.AgentID(fmt.Sprint("x", i))))
	}
	if n := r.Strangers(); n != engine.MaxStrangers {
		t.Errorf("%d strangers remembered, want %d", n, engine.MaxStrangers)
	}
}

// TestStaleOnTime: offline exactly at the threshold, back with the next report.
func TestStaleOnTime(t *testing.T) {
	r := boot(t, policyOf(worker("a")))
	want(t, r.hear(beat("a")), "agent a online")
	heard := r.now
	if at, ok := r.NextDeadline(); !ok || !at.Equal(heard.Add(staleAfter)) {
		t.Fatalf("next deadline %v, want %v", at, heard.Add(staleAfter))
	}
	want(t, r.pass(staleAfter-1))
	want(t, r.pass(1), "agent a stale", "take back agent.a")
	if _, ok := r.NextDeadline(); ok {
		t.Error("a stale agent has nothing to wait for")
	}
	want(t, r.assign(job("t1"))) // waits for it
	want(t, r.hear(beat("a")), "agent a online", "leave agent.a", "dispatch t1.1 a")
	want(t, r.hear(beat("a").status(coordinator.StatusOffline)), "agent a offline", "take back agent.a")
	want(t, r.pass(2*staleAfter)) // an agent that said goodbye does not become stale
	want(t, r.hear(beat("a").active(1)), "agent a online", "leave agent.a")
}

// TestLateTick: when a stall makes several things due at once, silence counts
// before a retry is sent, and a deadline before anything is dispatched.
func TestLateTick(t *testing.T) {
	r := boot(t, policyOf(worker("a"), worker("b")))
	r.hear(beat("a"))
	r.hear(beat("b"))
	r.assign(job("t1"))
	r.confirm(1)
	r.giveBack(r.latest())        // its back-off is 125 to 250 ms
	r.now = r.now.Add(staleAfter) // the shell stalled: the retry, its patience and the silence are all overdue
	want(t, r.apply(coordinator.Tick{}), "agent a stale", "take back agent.a", "agent b stale", "take back agent.b",
		"fail t1 retries_exhausted")
}

// TestStartUpGrace: until one health interval has passed since the session
// opened, an empty fleet means "wait", whatever the assignment timeout.
func TestStartUpGrace(t *testing.T) {
	start := func(timeout time.Duration) *rig {
		r := boot(t, policyOf(worker("a")).set(func(s *coordinator.Settings) { s.AssignmentTimeout = timeout }))
		r.now = epoch // boot has let the grace pass; nothing happened in it
		if !r.Snapshot(r.now).InGrace {
			t.Fatal("not in grace")
		}
		return r
	}
	t.Run("timeout 0: until the end of the grace", func(t *testing.T) {
		r := start(0)
		want(t, r.assign(job("t1")))
		want(t, r.pass(interval-1))
		want(t, r.pass(1), "fail t1 no_agents_online") // 30 s
		want(t, r.assign(job("t2")), "fail t2 no_agents_online")
	})
	t.Run("timeout 40 s: the longer of the two", func(t *testing.T) {
		r := start(40 * time.Second)
		want(t, r.assign(job("t1")))
		want(t, r.pass(40*time.Second-1))
		want(t, r.pass(1), "fail t1 no_agents_online")
	})
	t.Run("an agent comes", func(t *testing.T) {
		r := start(0)
		want(t, r.assign(job("t1")))
		r.pass(interval / 2)
		want(t, r.hear(beat("a")), "agent a online", "dispatch t1.1 a")
	})
	t.Run("all have been heard, and are full", func(t *testing.T) {
		r := start(2 * time.Second)
		r.hear(beat("a").active(1))
		want(t, r.assign(job("t2")))
		want(t, r.pass(2*time.Second-1))
		want(t, r.pass(1), "fail t2 all_agents_at_capacity")
	})
	t.Run("the last that was awaited is heard, and is of no help", func(t *testing.T) {
		r := start(2 * time.Second)
		want(t, r.assign(job("t1")))
		want(t, r.pass(10*time.Second))
		r.hear(beat("a").status(coordinator.StatusOffline))
		want(t, r.pass(time.Second), "fail t1 no_agents_online")
	})
	t.Run("what nobody could ever do fails at once", func(t *testing.T) {
		want(t, start(0).assign(job("t1").needs("gpu")), "fail t1 no_eligible_agents")
	})
	t.Run("silence during an outage is forgiven until the grace ends", func(t *testing.T) {
		r := ready(t, policyOf(worker("a")))
		r.pass(staleAfter - time.Second)
		r.apply(coordinator.SessionLost{})
		want(t, r.apply(coordinator.SessionOpened{}))
		// A new policy in between must not take the grace away.
		p := policyOf(worker("a"))
		want(t, r.apply(coordinator.PolicyChanged{Policy: &p.Policy}))
		want(t, r.pass(interval-1)) // silent for 120 + 29 s
		want(t, r.pass(1), "agent a stale", "take back agent.a")
	})
}

// TestOtherQueue: an agent that consumes another queue than the one it is given work
// by is told of, once for each.
func TestOtherQueue(t *testing.T) {
	r := ready(t, policyOf(worker("a")))
	says := func(queue string) []string {
		r.pass(time.Second)
		return r.hear(beat("a").consuming(queue))
	}
	want(t, says("agent.a"))
	want(t, says("q"), "a consumes q, not agent.a")
	want(t, says("q"))
	want(t, says(""))
	want(t, says("q"), "a consumes q, not agent.a")
	want(t, says("p"), "a consumes p, not agent.a")
}
