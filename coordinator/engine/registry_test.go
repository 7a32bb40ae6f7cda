package engine_test

import (
	"math"
	"testing"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/engine"
	"taskbus/coordinator/strategy"
)

// capacity says how many items a second the agent does, and how many are pending.
func (b *reportBuilder) capacity(perSecond float64, pending int) *reportBuilder {
	b.Capacity, b.Pending, b.HasCapacity, b.HasPending = perSecond, pending, true, true
	return b
}

// relayed: a coordinator published it for the agent.
func (b *reportBuilder) relayed() *reportBuilder { b.Relayed = true; return b }

// every sets how often the agent reports.
func (b *specBuilder) every(d time.Duration) *specBuilder { b.HealthCheckInterval = d; return b }

// TestSuspectAndDead: agents that report every 10 s are suspect after 30 and dead
// after 90, those that report every 30 s after 90 and 270.
func TestSuspectAndDead(t *testing.T) {
	p := policyOf(worker("fast").every(10*time.Second), worker("slow").every(30*time.Second)).
		set(func(s *coordinator.Settings) {
			s.SuspectIntervals, s.DeadIntervals = 3, 9
		})
	r := ready(t, p)
	check := func(want ...coordinator.Ineligibility) {
		t.Helper()
		if fast, slow := r.whyNot("fast"), r.whyNot("slow"); fast != want[0] || slow != want[1] {
			t.Fatalf("fast %v, slow %v; want %v", fast, slow, want)
		}
		engine.CheckIndexes(t, r.Engine)
	}
	r.pass(30*time.Second - 1)
	check(coordinator.Eligible, coordinator.Eligible)
	r.pass(1)
	check(coordinator.Suspect, coordinator.Eligible)
	if got := r.seen("fast").State; got != coordinator.AgentOnline {
		t.Errorf("a suspect is %v, want online: what it has stays with it", got)
	}
	r.pass(60*time.Second - 1)
	check(coordinator.Suspect, coordinator.Eligible)
	want(t, r.pass(1), "agent fast stale", "take back agent.fast")
	check(coordinator.WentStale, coordinator.Suspect)
	r.hear(beat("slow"))
	check(coordinator.WentStale, coordinator.Eligible)
	// One report, and it is trusted again; a suspect that reports is no newcomer.
	want(t, r.hear(beat("fast")), "agent fast online", "leave agent.fast")
	check(coordinator.Eligible, coordinator.Eligible)
}

// TestSuspectsTasksWait: what only a suspect could do waits for its next report.
func TestSuspectsTasksWait(t *testing.T) {
	r := ready(t, policyOf(worker("a").every(10*time.Second)).
		set(func(s *coordinator.Settings) { s.SuspectIntervals = 3 }))
	r.pass(30 * time.Second)
	want(t, r.assign(job("t")))
	want(t, r.hear(beat("a")), "dispatch t.1 a")
}

// TestSlowStart: an agent with 24 slots that comes later than the coordinator gets
// max(1, ⌊24·max(0.1, t/60 s)⌋) of them; one that was there all along has them all.
func TestSlowStart(t *testing.T) {
	p := policyOf(worker("late").slots(24), worker("old").slots(24)).set(func(s *coordinator.Settings) {
		s.SlowStart, s.StaleAfter = time.Minute, time.Hour
	})
	r := boot(t, p)
	r.now = epoch.Add(interval - 1) // within the grace: it is the coordinator that is new
	r.hear(beat("old"))
	r.now = epoch.Add(interval)
	r.hear(beat("late"))
	for _, step := range []struct {
		after time.Duration
		slots int
	}{
		{0, 2}, {5 * time.Second, 2}, {10 * time.Second, 4}, {30 * time.Second, 12}, {55 * time.Second, 22},
		{time.Minute, 24},
	} {
		r.pass(epoch.Add(interval + step.after).Sub(r.now))
		if late, old := r.seen("late"), r.seen("old"); late.Slots != step.slots || late.Free != step.slots ||
			old.Slots != 24 {
			t.Errorf("after %v: %d slots, %d free, want %d; the other %d", step.after, late.Slots, late.Free, step.slots,
				old.Slots)
		}
		engine.CheckIndexes(t, r.Engine)
	}
	// It goes and comes back: it is new again.
	r.hear(beat("late").status(coordinator.StatusOffline))
	r.pass(time.Second)
	r.hear(beat("late"))
	if got := r.seen("late").Slots; got != 2 {
		t.Errorf("%d slots after its return, want 2", got)
	}
}

// TestSlowStartDoesNotDeadlock: of a fleet of newcomers each has one slot at least,
// and what waits is served as they grow.
func TestSlowStartDoesNotDeadlock(t *testing.T) {
	r := boot(t, policyOf(worker("a").slots(4)).set(func(s *coordinator.Settings) { s.SlowStart = time.Minute }))
	r.hear(beat("a"))
	want(t, r.assign(job("t1")), "dispatch t1.1 a")
	want(t, r.assign(job("t2")))
	want(t, r.pass(interval), "dispatch t2.1 a") // two of four slots come after 30 s
}

// TestCapacity: measured from results until 60 of them are known it is a guess, and
// an agent's own word goes before it.
func TestCapacity(t *testing.T) {
	r := ready(t, policyOf(worker("a").slots(4)))
	if got := r.seen("a").Capacity; got.ItemsPerSecond != 0.5 || !got.WarmUp || got.Reported ||
		got.Health != coordinator.Healthy {
		t.Errorf("of nothing: %+v, want BALANCING's 0.5 items/s", got)
	}
	for i := range 60 { // one item in hand at a time, half a second each: two a second
		r.give(job(numbered(i)))
		r.pass(500 * time.Millisecond)
		r.tell(says("a", numbered(i)))
	}
	got := r.seen("a").Capacity
	// 60 items in 30 s, decayed alike with 60 s of half-life: (1 + n)/(2 + n/2) with
	// n = 2·(1−2^(−30/60))·60/ln 2 = 50.7: 51.7/27.35 = 1.89.
	if math.Abs(got.Measured-1.89) > 0.01 || got.WarmUp {
		t.Errorf("%+v, want 1.89 items/s and no guess", got)
	}
	r.hear(beat("a").capacity(8.5, 12))
	if got := r.seen("a").Capacity; got.ItemsPerSecond != 8.5 || !got.Reported || got.Pending != 12 ||
		got.Drain.Round(time.Millisecond) != 1412*time.Millisecond {
		t.Errorf("%+v, want 8.5 items/s, 12 pending, drained in 12/8.5 = 1.412 s", got)
	}
	r.hear(beat("a").capacity(0, 12))
	if got := r.seen("a").Capacity; got.Reported || math.Abs(got.ItemsPerSecond-1.89) > 0.01 {
		t.Errorf("%+v, want what was measured: the agent does not know", got)
	}
	r.give(job("x"))
	if got := r.seen("a").Capacity; got.Pending != 13 {
		t.Errorf("%d pending, want 12 and the one that was dispatched since", got.Pending)
	}
	for range 4 { // it says no more of either: after 3 intervals that is old
		r.pass(interval)
		r.hear(beat("a").running("x"))
	}
	if got := r.seen("a").Capacity; got.Pending != 1 || got.Reported {
		t.Errorf("%+v, want what it has in hand, 1, and what was measured", got)
	}
}

// TestCapacityIsToldLessOftenThanHeartbeats: what an agent tells every 10 s is not forgotten
// between two heartbeats of a second, and for 30 s without a word.
func TestCapacityIsToldLessOftenThanHeartbeats(t *testing.T) {
	a := worker("a").slots(4)
	a.HealthCheckInterval = time.Second
	r := ready(t, policyOf(a))
	r.hear(beat("a").capacity(8.5, 2))
	for i := range 30 {
		r.pass(time.Second)
		r.hear(beat("a"))
		if got := r.seen("a").Capacity; !got.Reported || got.ItemsPerSecond != 8.5 {
			t.Fatalf("after %d s: %+v, want 8.5 items/s as reported", i+1, got)
		}
	}
	r.pass(time.Second)
	r.hear(beat("a"))
	if got := r.seen("a").Capacity; got.Reported {
		t.Errorf("after 31 s: %+v, want what was measured", got)
	}
}

// TestPendingFollowsResults: what an agent has told the end of since it told its pending items is
// not pending any more.
func TestPendingFollowsResults(t *testing.T) {
	r := ready(t, policyOf(worker("a").slots(4)))
	for _, task := range []coordinator.TaskID{"x", "y"} {
		r.give(job(task))
	}
	r.pass(time.Second)
	r.hear(beat("a").running("x", "y").capacity(0, 5))
	pending := func(want int, why string) {
		t.Helper()
		if got := r.seen("a").Capacity.Pending; got != want {
			t.Errorf("%d pending, want %d: %s", got, want, why)
		}
	}
	pending(5, "as it says")
	r.pass(time.Second)
	r.tell(says("a", "x"))
	pending(4, "x has ended")
	r.give(job("z"))
	pending(5, "z has been dispatched")
}

// TestBacklogged: with that option an agent whose pending items take a minute or more
// gets none; without it, it does.
func TestBacklogged(t *testing.T) {
	for _, refuse := range []bool{false, true} {
		r := ready(t, policyOf(worker("a").slots(4)).set(func(s *coordinator.Settings) { s.RefuseBacklogged = refuse }))
		r.hear(beat("a").capacity(0.5, 29))
		if got := r.seen("a"); got.Capacity.Health != coordinator.BusyHealth || got.Eligibility != coordinator.Eligible {
			t.Errorf("29/0.5 = 58 s: %v, %v", got.Capacity.Health, got.Eligibility)
		}
		r.hear(beat("a").capacity(0.5, 30))
		got, expected := r.seen("a"), coordinator.Eligible
		if refuse {
			expected = coordinator.Backlogged
		}
		if got.Capacity.Health != coordinator.OverloadedHealth || got.Eligibility != expected {
			t.Errorf("30/0.5 = 60 s: %v, %v; want %v", got.Capacity.Health, got.Eligibility, expected)
		}
	}
	// A guess keeps no agent from work: 40 in flight at the default of 0.5/s are 80 s.
	r := ready(t, policyOf(worker("a").slots(100)).set(func(s *coordinator.Settings) { s.RefuseBacklogged = true }))
	r.hear(beat("a").active(40).available(60))
	if got := r.seen("a"); got.Eligibility != coordinator.Eligible || got.Capacity.Health != coordinator.OverloadedHealth {
		t.Errorf("%v, %v", got.Eligibility, got.Capacity.Health)
	}
}

// TestRelayed: what a coordinator publishes for an agent speaks for its capacity and
// shows that it is alive; the agent's own reports speak for everything else.
func TestRelayed(t *testing.T) {
	r := ready(t, policyOf(worker("a").slots(4)))
	r.hear(beat("a").active(3).available(1))
	r.pass(staleAfter - time.Second)
	want(t, r.hear(beat("a").capacity(2, 6).relayed())) // it says nothing of active tasks
	r.slots("a", 3, 1)
	if got := r.seen("a").Capacity; got.ItemsPerSecond != 2 || got.Pending != 6 {
		t.Errorf("%+v", got)
	}
	want(t, r.pass(time.Second)) // else it would be stale now
	want(t, r.pass(staleAfter-time.Second), "agent a stale", "take back agent.a")
	// Of one that never reports itself it is all there is.
	r = boot(t, policyOf(worker("b").slots(4)))
	want(t, r.hear(beat("b").capacity(2, 6).available(4).relayed()), "agent b online")
	want(t, r.assign(job("t")), "dispatch t.1 b")
	r.confirm(1)
	r.pass(time.Second)
	r.hear(beat("b").capacity(2, 0).available(4).relayed()) // its slot is free again: no other report will say so
	r.slots("b", 0, 4)
}

// TestCapabilities: demand, supply and which would be missed.
func TestCapabilities(t *testing.T) {
	r := ready(t, policyOf(worker("a").can("go", "gpu").slots(2), worker("b").can("go").slots(3), worker("c").can("go")).
		route("go", "go").route("gpu", "gpu").set(func(s *coordinator.Settings) { s.StaleAfter = time.Hour }))
	r.hear(beat("c").status(coordinator.StatusOffline))
	for i := range 300 { // one a second for five minutes, none of which lasts
		d := r.give(job(numbered(i)).kind("gpu"))
		r.tell(says(d.Agent, d.Task.ID))
		r.pass(time.Second)
	}
	for i := range 4 {
		r.assign(job(numbered(1000 + i)).kind("gpu")) // two of them wait
	}
	got := r.Capabilities(r.now)
	if len(got) != 2 || got[0].Name != "go" || got[1].Name != "gpu" {
		t.Fatalf("%+v", got)
	}
	golang, gpu := got[0], got[1]
	if golang.Agents != 3 || golang.Online != 2 || golang.Usable != 2 || golang.Slots != 5 || golang.Free != 3 ||
		golang.Waiting != 0 || golang.Demand != 0 {
		t.Errorf("go: %+v", golang)
	}
	if gpu.Agents != 1 || gpu.Usable != 1 || gpu.Free != 0 || gpu.Waiting != 2 {
		t.Errorf("gpu: %+v", gpu)
	}
	// After one half-life of one task a second the average stands at half of that.
	if gpu.Demand < 0.48 || gpu.Demand > 0.53 {
		t.Errorf("demand for gpu %g/s, want about 0.5", gpu.Demand)
	}
}

// TestLeastFlexibleFirst: of agents that score alike the one goes first whose
// capabilities others need least. COORDINATOR's order would take the generalist.
func TestLeastFlexibleFirst(t *testing.T) {
	p := policyOf(worker("a").can("go", "gpu"), worker("b").can("go")).route("go", "go").route("gpu", "gpu")
	for _, name := range []string{strategy.LoadBalancedName, strategy.RewardRateName} {
		p.by(name)
		r := ready(t, p)
		d := r.give(job("t1").kind("gpu"))
		r.tell(says(d.Agent, "t1").but(coordinator.OutcomeCancelled))
		r.pass(time.Second)
		d = r.give(job("t2").kind("gpu")) // now it is known that gpu is asked for
		r.tell(says(d.Agent, "t2").but(coordinator.OutcomeCancelled))
		if d := r.give(job("t3").kind("go").prio(coordinator.PriorityHigh)); d.Agent != "b" {
			t.Errorf("%s: %s got it, want b: a is the only one with gpu", name, d.Agent)
		}
	}
}

// TestIdleTimeIsNoWork: an agent that does an item in half a second and is idle for
// the next ten does two a second, however seldom it reports.
func TestIdleTimeIsNoWork(t *testing.T) {
	r := ready(t, policyOf(worker("a").slots(4)))
	for i := range 60 {
		d := r.give(job(numbered(i)))
		r.pass(500 * time.Millisecond)
		r.tell(says(d.Agent, d.Task.ID))
		r.pass(9500 * time.Millisecond)
		if i%3 == 2 {
			r.hear(beat("a").running())
		}
	}
	if got := r.seen("a").Capacity.Measured; math.Abs(got-1.89) > 0.01 { // as without the idle time: see TestCapacity
		t.Errorf("%g items/s, want 1.89", got)
	}
}

// TestDrainIsBounded: numbers that no agent can mean are no reason to take it for idle.
func TestDrainIsBounded(t *testing.T) {
	r := ready(t, policyOf(worker("a").slots(4)).set(func(s *coordinator.Settings) { s.RefuseBacklogged = true }))
	r.hear(beat("a").capacity(1e-300, 1_000_000_000))
	if got := r.seen("a"); got.Capacity.Drain <= 0 || got.Capacity.Health != coordinator.OverloadedHealth ||
		got.Eligibility != coordinator.Backlogged {
		t.Errorf("%v, %v, %v", got.Capacity.Drain, got.Capacity.Health, got.Eligibility)
	}
}

// TestRelayedIsNoClock: an agent whose clock is behind the coordinator's reports through
// it first, and then for itself. Its own reports count, and its clock is its own.
func TestRelayedIsNoClock(t *testing.T) {
	const behind = time.Minute
	r := boot(t, policyOf(worker("a").slots(4)))
	r.hear(beat("a").capacity(2, 0).available(4).relayed())
	for range 4 {
		r.pass(10 * time.Second)
		want(t, r.hear(beat("a").capacity(2, 0).available(4).relayed()))
	}
	want(t, r.hear(beat("a").active(3).available(1).stamped(r.now.Add(-behind))))
	r.slots("a", 3, 1)
	if got, known := r.FleetAgent("a").Clock(); !known || got != behind {
		t.Errorf("clock %v, known %v, want %v behind", got, known, behind)
	}
	r.pass(10 * time.Second)
	r.hear(beat("a").capacity(2, 0).available(4).relayed())
	want(t, r.hear(beat("a").status(coordinator.StatusOffline).stamped(r.now.Add(-behind))), "agent a offline",
		"take back agent.a")
	want(t, r.hear(beat("a").capacity(2, 0).available(4).relayed())) // which says nothing of that
}

// TestRelayedPast: what was relayed is read again with each new session, and makes
// none alive again.
func TestRelayedPast(t *testing.T) {
	r := ready(t, policyOf(worker("a").slots(4)))
	told := r.now
	r.hear(beat("a").capacity(2, 0).relayed())
	r.pass(staleAfter - time.Second)
	r.apply(coordinator.SessionLost{})
	r.apply(coordinator.SessionOpened{})
	want(t, r.hear(beat("a").fromPast().stamped(told)))
	want(t, r.hear(beat("a").capacity(2, 0).relayed().fromPast().stamped(told)))
	want(t, r.pass(interval), "agent a stale", "take back agent.a") // the grace, no longer
}
