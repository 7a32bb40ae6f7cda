package engine_test

import (
	"slices"
	"testing"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/engine"
)

// crew is so many agents a0, a1, … that can do `go`, with ten slots each.
func crew(n int) []*specBuilder {
	var all []*specBuilder
	for i := range n {
		all = append(all, worker(coordinator.AgentID("a"+string(rune('0'+i)))).can("go", "web").slots(10))
	}
	return all
}

// fails has agent id fail n tasks of a type, one after the other.
func (r *rig) fails(id coordinator.AgentID, kind string, n int) {
	r.t.Helper()
	for range n {
		r.last++
		task := numbered(1000 + int(r.last))
		d := r.give(job(task).kind(kind).prefers(id))
		if d.Agent != id {
			r.t.Fatalf("%s went to %s, want %s", task, d.Agent, id)
		}
		r.tell(says(id, task).but(coordinator.OutcomeFailed))
	}
}

// why is the cause for which the agent may not have such a task.
func (r *rig) why(id coordinator.AgentID, kind string) coordinator.Ineligibility {
	r.t.Helper()
	d, _, _ := r.Explain(r.now, &job("why").kind(kind).Task)
	for _, refusal := range d.Refusals {
		if refusal.Agent == id {
			return refusal.Why
		}
	}
	return coordinator.Eligible
}

// TestEjection: five faults in a row take a capability from an agent, not the others.
func TestEjection(t *testing.T) {
	r := ready(t, policyOf(crew(3)...).route("go", "go").route("web", "web").route("both", "go", "web"))
	r.fails("a0", "go", 4)
	if got := r.why("a0", "go"); got != coordinator.Eligible {
		t.Fatalf("after four faults: %v", got)
	}
	r.fails("a0", "go", 1)
	for kind, want := range map[string]coordinator.Ineligibility{
		"go": coordinator.Ejected, "both": coordinator.Ejected, "web": coordinator.Eligible,
	} {
		if got := r.why("a0", kind); got != want {
			t.Errorf("%s: %v, want %v", kind, got, want)
		}
	}
	if got := r.seen("a0").EjectedFrom; !slices.Equal(got, []string{"go"}) {
		t.Errorf("ejected from %v", got)
	}
	if d := r.give(job("t").kind("go").prefers("a0")); d.Agent == "a0" {
		t.Error("it got the next task all the same, because that preferred it")
	}
	engine.CheckIndexes(t, r.Engine)
}

// TestProbe: after 30 s an ejected agent gets one task. Its success brings back all
// slots, at once and for those that wait; its failure another 60 s.
func TestProbe(t *testing.T) {
	p := policyOf(worker("a0").can("go").slots(3), worker("a1").can("go")).route("go", "go")
	start := func(t *testing.T) *rig {
		r := ready(t, p)
		r.give(job("busy").kind("go").prefers("a1")) // a1 is full from now on
		r.fails("a0", "go", 5)
		r.pass(10 * time.Second) // they may wait for 30 s
		want(t, r.assign(job("t1").kind("go")))
		want(t, r.assign(job("t2").kind("go")))
		want(t, r.assign(job("t3").kind("go")))
		want(t, r.pass(19*time.Second))
		want(t, r.pass(time.Second), "dispatch t1.1 a0")
		r.confirm(r.latest().Handle)
		return r
	}
	t.Run("success", func(t *testing.T) {
		r := start(t)
		want(t, r.tell(says("a0", "t1")), "a0 is trusted again with go", "completed t1.1 a0 succeeded", "dispatch t2.1 a0",
			"dispatch t3.1 a0")
		engine.CheckIndexes(t, r.Engine)
	})
	t.Run("failure", func(t *testing.T) {
		r := start(t)
		want(t, r.tell(says("a0", "t1").but(coordinator.OutcomeFailed)), "completed t1.1 a0 failed")
		if got := r.why("a0", "go"); got != coordinator.Ejected {
			t.Errorf("%v, want ejected", got)
		}
		r.hear(beat("a0"))
		r.hear(beat("a1").active(1).available(0))
		r.pass(59 * time.Second)
		if got := r.why("a0", "go"); got != coordinator.Ejected {
			t.Errorf("after 59 s: %v, want ejected for 2 × 30 s", got)
		}
		want(t, r.pass(time.Second), "dispatch t2.1 a0")
	})
	t.Run("cancelled: somebody else may try", func(t *testing.T) {
		r := start(t)
		want(t, r.tell(says("a0", "t1").but(coordinator.OutcomeCancelled)),
			"completed t1.1 a0 cancelled", "dispatch t2.1 a0")
	})
	t.Run("taken back with a session that ends", func(t *testing.T) {
		r := start(t)
		r.apply(coordinator.SessionLost{})
		r.apply(coordinator.SessionOpened{})
		want(t, r.assign(job("t4").kind("go"))) // t1 is still with a0
		want(t, r.tell(says("a0", "t1")), "a0 is trusted again with go", "completed t1.1 a0 succeeded", "dispatch t4.1 a0")
	})
}

// TestNeverEverybody: the only agent is never ejected, and of three one at most.
func TestNeverEverybody(t *testing.T) {
	r := ready(t, policyOf(crew(1)...).route("go", "go"))
	r.fails("a0", "go", 20)
	if got := r.why("a0", "go"); got != coordinator.Eligible {
		t.Errorf("the only agent: %v", got)
	}
	r = ready(t, policyOf(crew(3)...).route("go", "go"))
	r.fails("a0", "go", 5)
	r.fails("a1", "go", 20)
	if a0, a1 := r.why("a0", "go"), r.why("a1", "go"); a0 != coordinator.Ejected || a1 != coordinator.Eligible {
		t.Errorf("a0 %v, a1 %v; want one of three ejected", a0, a1)
	}
	// The other two leave: the one that is ejected is the only one there is.
	r.hear(beat("a1").status(coordinator.StatusOffline))
	r.hear(beat("a2").status(coordinator.StatusOffline))
	if d := r.give(job("t").kind("go")); d.Agent != "a0" {
		t.Errorf("%s got it, want a0: work that may fail is better than none", d.Agent)
	}
}

// TestRefuser: an agent that refuses everything looks idle and would be asked first
// for ever. After five refusals it is not asked.
func TestRefuser(t *testing.T) {
	r := ready(t, policyOf(crew(2)...).route("go", "go").set(func(s *coordinator.Settings) { s.MaxRetryAttempts = 10 }))
	for i := range 5 {
		d := r.give(job(numbered(i)).kind("go").prefers("a0"))
		r.tell(says("a0", d.Task.ID).but(coordinator.OutcomeRejected))
		r.giveBack(d)
		r.hear(beat("a0"))
	}
	if got := r.why("a0", "go"); got != coordinator.Ejected {
		t.Errorf("%v, want ejected", got)
	}
	if got := r.seen("a0").Success; got != r.seen("a1").Success {
		t.Errorf("success %g and %g: refusing is no failure", got, r.seen("a1").Success)
	}
}

// TestPoisonedTaskIsForgiven: three agents fail the same task. It was the task: their
// faults do not count, and the fifth of another task does not eject them.
func TestPoisonedTaskIsForgiven(t *testing.T) {
	r := ready(t, policyOf(crew(4)...).route("go", "go"))
	r.fails("a0", "go", 4)
	before := r.seen("a0").Success
	d := r.give(job("bad").kind("go").prefers("a0"))
	r.tell(says(d.Agent, "bad").gaveUp())
	if got := r.why("a0", "go"); got != coordinator.Ejected {
		t.Fatalf("after its fifth fault: %v", got)
	}
	r.giveBack(d)
	for range 2 {
		r.pass(10 * time.Second)
		d = r.latest()
		r.confirm(d.Handle)
		r.tell(says(d.Agent, "bad").gaveUp())
		r.returns(d, coordinator.ReturnRejected, false)
	}
	if f := r.failures[len(r.failures)-1]; f.Failure.Reason != coordinator.ReasonPoisoned {
		t.Fatalf("%v, want poisoned", f.Failure)
	}
	if got := r.why("a0", "go"); got != coordinator.Eligible {
		t.Errorf("%v, want eligible: it failed four tasks, not five", got)
	}
	if got := r.seen("a0").Success; got < before-0.02 {
		t.Errorf("success %g, want about the %g of before", got, before)
	}
}

// TestTrustIsTold: an ejection is told once, with its cause, whatever trials there are in
// between; so is its end, also where that is another rule.
func TestTrustIsTold(t *testing.T) {
	p := policyOf(crew(3)...).route("go", "go")
	r := ready(t, p)
	r.fails("a0", "go", 4)
	r.give(job("fifth").kind("go").prefers("a0"))
	want(t, r.tell(says("a0", "fifth").but(coordinator.OutcomeFailed)), "a0 is ejected from go",
		"completed fifth.1 a0 failed")
	want(t, r.pass(30*time.Second))
	r.fails("a0", "go", 1) // a trial
	p.Settings.Breaker.Off = true
	want(t, r.apply(coordinator.PolicyChanged{Policy: &p.Policy}), "a0 is trusted again with go")
}

// TestOneBatchIsOneFault: what one handler has in hand together fails together. (Its
// rate of success falls with every task: after some batches that convicts it, too.)
func TestOneBatchIsOneFault(t *testing.T) {
	p := policyOf(crew(3)...)
	p.Routes["go"] = coordinator.Route{Required: []string{"go"},
		Batch: coordinator.Batch{MaxSize: 8, MaxWait: time.Second}}
	r := ready(t, p)
	for round := range 5 {
		before := len(r.dispatches)
		for i := range 8 {
			r.assign(job(numbered(8*round + i)).kind("go").prefers("a0"))
		}
		batch := r.dispatches[before:]
		if len(batch) != 8 || batch[7].BatchSize != 8 || batch[7].Agent != "a0" {
			t.Fatalf("%d dispatches, the last %+v", len(batch), batch[len(batch)-1])
		}
		for _, d := range batch {
			r.confirm(d.Handle)
			r.tell(says("a0", d.Task.ID).but(coordinator.OutcomeFailed))
		}
		if got := r.why("a0", "go"); round == 0 && got != coordinator.Eligible {
			t.Fatalf("after one batch of eight: %v", got)
		} else if got == coordinator.Ejected {
			return
		}
	}
	t.Error("after five batches it is not ejected")
}

// TestBreakerOff ejects no agent.
func TestBreakerOff(t *testing.T) {
	r := ready(t, policyOf(crew(3)...).route("go", "go").set(func(s *coordinator.Settings) { s.Breaker.Off = true }))
	r.fails("a0", "go", 20)
	if got := r.why("a0", "go"); got != coordinator.Eligible {
		t.Errorf("%v", got)
	}
}

// TestEjectionSurvivesPolicy: a change of the fleet renumbers the agents, and does not
// confuse them.
func TestEjectionSurvivesPolicy(t *testing.T) {
	r := ready(t, policyOf(crew(3)...).route("go", "go"))
	r.fails("a1", "go", 5)
	p := policyOf(append(crew(3), worker("a").can("go"))...).route("go", "go") // "a" is number 0 now
	r.apply(coordinator.PolicyChanged{Policy: &p.Policy})
	if a0, a1 := r.why("a0", "go"), r.why("a1", "go"); a0 != coordinator.Eligible || a1 != coordinator.Ejected {
		t.Errorf("a0 %v, a1 %v; want a1 ejected", a0, a1)
	}
	engine.CheckIndexes(t, r.Engine)
}

// TestEjectionWithoutTheEjected: an ejected agent that has left for good protects none.
func TestEjectionWithoutTheEjected(t *testing.T) {
	r := ready(t, policyOf(crew(3)...).route("go", "go"))
	r.fails("a0", "go", 5)
	r.hear(beat("a0").status(coordinator.StatusOffline))
	r.pass(time.Minute)
	r.fails("a1", "go", 5)
	if got := r.why("a1", "go"); got != coordinator.Ejected {
		t.Errorf("%v, want ejected: a2 is left", got)
	}
	engine.CheckIndexes(t, r.Engine)
}

// TestWhatAllRefuse: five tasks that every agent turns away are no agent's fault.
func TestWhatAllRefuse(t *testing.T) {
	r := ready(t, policyOf(crew(3)...).route("go", "go"))
	for i := range 5 {
		r.assign(job(numbered(i)).kind("go"))
		for range 3 {
			d := r.latest()
			r.confirm(d.Handle)
			r.tell(says(d.Agent, d.Task.ID).but(coordinator.OutcomeRejected))
			r.giveBack(d)
			r.pass(3 * time.Second)
		}
		if f := r.failures[len(r.failures)-1]; f.Failure.Reason != coordinator.ReasonRetriesExhausted ||
			f.Task.ID != numbered(i) {
			t.Fatalf("%s: %v", f.Task.ID, f.Failure)
		}
	}
	for _, id := range []coordinator.AgentID{"a0", "a1", "a2"} {
		if got := r.why(id, "go"); got != coordinator.Eligible {
			t.Errorf("%s: %v", id, got)
		}
	}
}

// TestForgivenOnlyWhatWasHeld: an agent that merely refused a poisoned task keeps the
// failures that are its own.
func TestForgivenOnlyWhatWasHeld(t *testing.T) {
	r := ready(t, policyOf(crew(4)...).route("go", "go").set(func(s *coordinator.Settings) { s.MaxRetryAttempts = 10 }))
	r.fails("a0", "go", 4)
	before := r.seen("a0").Outcomes
	d := r.give(job("bad").kind("go").prefers("a0"))
	r.tell(says("a0", "bad").but(coordinator.OutcomeRejected))
	r.giveBack(d)
	for range 3 {
		r.pass(12 * time.Second)
		d = r.latest()
		r.confirm(d.Handle)
		r.tell(says(d.Agent, "bad").gaveUp())
		r.returns(d, coordinator.ReturnRejected, false)
	}
	if f := r.failures[len(r.failures)-1]; f.Failure.Reason != coordinator.ReasonPoisoned {
		t.Fatalf("%v, want poisoned", f.Failure)
	}
	if got := r.seen("a0").Outcomes; got < before-0.01 {
		t.Errorf("%g outcomes of a0 count, want the %g of before", got, before)
	}
}

// TestRulesChange: dispatches from before a change of the breaker's rules say nothing
// under the new ones.
func TestRulesChange(t *testing.T) {
	p := policyOf(crew(3)...).route("go", "go")
	r := ready(t, p)
	for i := range 5 {
		r.give(job(numbered(i)).kind("go").prefers("a0"))
	}
	p.Settings.Breaker.Base = time.Minute
	r.apply(coordinator.PolicyChanged{Policy: &p.Policy})
	for i := range 5 {
		r.tell(says("a0", numbered(i)).but(coordinator.OutcomeFailed))
	}
	if got := r.why("a0", "go"); got != coordinator.Eligible {
		t.Errorf("%v", got)
	}
	r.fails("a0", "go", 5)
	if got := r.why("a0", "go"); got != coordinator.Ejected {
		t.Errorf("%v, want ejected", got)
	}
}

// TestShrinkingFleet: one change of the policy makes the fleet smaller by a word of
// the sets of agents, some of them stale, and the ejection of others void.
func TestShrinkingFleet(t *testing.T) {
	fleet := func(others int, stale time.Duration) *policyBuilder {
		all := []*specBuilder{
			worker("p").can("x", "y").slots(50), worker("q").can("x", "y").slots(50), worker("r").can("y").slots(50),
			worker("s").can("y").slots(50),
		}
		for i := range others {
			all = append(all, worker(coordinator.AgentID("z"+string(numbered(i)))).can("z"))
		}
		return policyOf(all...).route("x", "x").route("y", "y").route("xy", "x", "y").
			set(func(s *coordinator.Settings) { s.StaleAfter = stale })
	}
	r := ready(t, fleet(100, 10*time.Minute))
	r.fails("r", "y", 5)
	r.fails("p", "x", 5)
	r.give(job("xy1").kind("xy")) // makes the class
	r.pass(20 * time.Second)
	for _, id := range []coordinator.AgentID{"p", "r", "s"} {
		r.hear(beat(id))
	}
	small := fleet(0, 15*time.Second) // q has been silent for longer
	r.apply(coordinator.PolicyChanged{Policy: &small.Policy})
	if got := r.seen("q").State; got != coordinator.AgentStale {
		t.Fatalf("q is %v: this shows nothing", got)
	}
	engine.CheckIndexes(t, r.Engine)
}
