package engine_test

import (
	"testing"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/engine"
)

// TestProbeEndsThoughItsRouteHasChanged: an ejected agent is being tried with one task when its
// leader dies, and the next leader has a file in which tasks of that type require something
// else. How the task ends is still the end of the trial: nothing else would ever end it, and the
// agent would have no task with that capability again.
func TestProbeEndsThoughItsRouteHasChanged(t *testing.T) {
	p := policyOf(worker("a0").can("go", "web").slots(3), worker("a1").can("go", "web")).route("x", "go")
	renamed := *p
	renamed.Routes = map[string]coordinator.Route{"any": {}, "x": {Required: []string{"web"}},
		"go": {Required: []string{"go"}}}
	for _, end := range []struct {
		outcome coordinator.Outcome
		after   time.Duration // that it is tried again
	}{
		{coordinator.OutcomeSucceeded, 0},
		{coordinator.OutcomeCancelled, 0},                 // says nothing: another may try
		{coordinator.OutcomeFailed, 2 * 30 * time.Second}, // ejected for the second time
	} {
		r := leads(t, p)
		r.give(job("busy").kind("x").prefers("a1")) // a1 is full from now on
		r.fails("a0", "x", 5)
		r.pass(10 * time.Second) // tasks may wait for 30 s
		want(t, r.assign(job("t1").kind("x")))
		want(t, r.pass(20*time.Second), "dispatch t1.1 a0")
		r.confirm(r.latest().Handle)
		for name, journal := range map[string][]coordinator.Record{"by its records": r.Records(nil),
			"by a snapshot": r.imaged()} {
			leader := r.Policy()
			r.SetPolicy(&renamed.Policy) // the file of the next leader
			heir := r.heirOf(r.now, journal)
			r.SetPolicy(leader)
			if got := heir.why("a0", "go"); got != coordinator.Ejected {
				t.Fatalf("%s, %s: %v, want it to be on trial", name, end.outcome, got)
			}
			heir.tell(says("a0", "t1").but(end.outcome))
			if heir.pass(end.after); heir.why("a0", "go") == coordinator.Ejected {
				t.Errorf("%s, %s, and %s later: it is ejected still, from %v", name, end.outcome, end.after,
					heir.seen("a0").EjectedFrom)
			}
			engine.CheckIndexes(t, heir.Engine)
		}
	}
}

// TestEndsUnderFormerRules: the rules by which agents are ejected change while tasks are with an agent. How those end
// says nothing, in the leader and in the next one.
func TestEndsUnderFormerRules(t *testing.T) {
	p := policyOf(worker("a0").can("go").slots(5), worker("a1").can("go")).route("x", "go")
	r := leads(t, p)
	for _, id := range []coordinator.TaskID{"t1", "t2", "t3", "t4", "t5"} {
		r.give(job(id).kind("x").prefers("a0"))
	}
	other := *p
	other.Settings.Breaker.Base += time.Second
	r.apply(coordinator.PolicyChanged{Policy: &other.Policy})
	all := heirs(r)
	all["the leader"] = r
	for how, e := range all {
		for _, id := range []coordinator.TaskID{"t1", "t2", "t3", "t4", "t5"} {
			e.tell(says("a0", id).but(coordinator.OutcomeFailed))
		}
		if why := e.why("a0", "x"); why == coordinator.Ejected {
			t.Errorf("%s: the agent is ejected", how)
		}
	}
}
