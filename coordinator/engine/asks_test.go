package engine_test

import (
	"slices"
	"testing"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/engine"
)

// TestAFleetAsksForTime: three agents with one rate limit. Two have said so: the task waits for the first
// of their times (20 s after the first said so), and neither asks the third nor has used up its tries
// or its agents when the limit is over.
func TestAFleetAsksForTime(t *testing.T) {
	r := tracking(t, policyOf(worker("a"), worker("b"), worker("c")))
	d := r.give(job("t"))
	var had []coordinator.AgentID
	began := r.now
	for round := range 4 { // more than max_retry_attempts and poisoned_after_agents, which are 3
		for range 2 {
			had = append(had, d.Agent)
			r.gaveBack(d, "429", 20*time.Second)
			engine.CheckIndexes(t, r.Engine)
			r.pass(2 * time.Second)
			if next := r.latest(); next.Attempt == d.Attempt {
				break
			}
			d = r.latest()
			if r.confirm(d.Handle); d.Agent == had[len(had)-1] {
				t.Fatalf("round %d: %s has it again at once", round, d.Agent)
			}
		}
		at := r.now
		want(t, r.pass(10*time.Second))
		r.pass(10 * time.Second)
		if len(r.failures) > 0 {
			t.Fatalf("round %d: it failed: %s", round, r.failures[0].Failure.Text)
		}
		if next := r.latest(); next.Attempt == d.Attempt {
			t.Fatalf("round %d: nothing was tried for 20 s since %v", round, at.Sub(began))
		}
		d = r.latest()
		r.confirm(d.Handle)
	}
	if d.Tries != 0 || len(d.Tried)+len(d.Failed) != 0 {
		t.Errorf("%d tries by %v, failed on %v: want none", d.Tries, d.Tried, d.Failed)
	}
	if slices.Contains(had[:2], "c") {
		t.Errorf("had by %v: the third was asked before the first two had their time", had)
	}
}

// TestAsksOfOne: one agent of two asks for time, whether its word or its message is first: the other has the task,
// and waits for no time. If it is lost there, the first is not asked before its time.
func TestAsksOfOne(t *testing.T) {
	for name, back := range map[string]func(*rig, coordinator.Dispatch){
		"its word first": func(r *rig, d coordinator.Dispatch) { r.gaveBack(d, "429", 20*time.Second) },
		"its message first": func(r *rig, d coordinator.Dispatch) {
			r.returns(d, coordinator.ReturnRejected, false)
			w := says(d.Agent, "t").of(d.DispatchID).gaveUp()
			w.RetryAfter = 20 * time.Second
			r.tell(w)
			engine.CheckIndexes(t, r.Engine)
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := tracking(t, policyOf(worker("a"), worker("b")))
			back(r, r.give(job("t").prefers("a")))
			want(t, r.pass(engine.BackoffFirst), "dispatch t.2 b")
			d := r.latest()
			r.confirm(d.Handle)
			if d.Tries != 0 || len(d.Failed) != 0 {
				t.Errorf("%d tries, failed on %v: want none", d.Tries, d.Failed)
			}
			r.returns(d, coordinator.ReturnDeliveryLimit, false) // b has had it; a has not, and asks for time
			want(t, r.pass(10*time.Second), "dispatch t.3 b again?")
		})
	}
}

// TestAsksWhileAnotherIsFull: the other agent is full for longer than the time that the first asked for: the
// first has it when that is over.
func TestAsksWhileAnotherIsFull(t *testing.T) {
	r := tracking(t, policyOf(worker("a"), worker("b").can("x")).route("b's", "x"))
	d := r.give(job("t").prefers("a"))
	r.give(job("other").kind("b's"))
	r.gaveBack(d, "429", 20*time.Second)
	want(t, r.pass(20*time.Second-1))
	engine.CheckIndexes(t, r.Engine)
	want(t, r.pass(1), "dispatch t.2 a")
}

// TestAsksForEver: what every agent always puts off has an end: after half an hour each is a try.
func TestAsksForEver(t *testing.T) {
	r := tracking(t, policyOf(worker("a")))
	d := r.give(job("t"))
	for n := 1; len(r.failures) == 0; n++ {
		if n > 30 {
			t.Fatal("it goes on for ever")
		}
		r.gaveBack(d, "429", 2*time.Minute)
		r.lives(2*time.Minute, beat("a").running())
		if len(r.failures) == 0 {
			d = r.latest()
			r.confirm(d.Handle)
		}
	}
	// 2 minutes each: the 16th is given back after 30, and counts as the next two do.
	if f := r.failures[0].Failure; f.Reason != coordinator.ReasonRetriesExhausted || d.Attempt < 17 || d.Attempt > 18 {
		t.Errorf("%s by dispatch %d: %s", f.Reason, d.Attempt, f.Text)
	}
}

// TestAsksIsNoFault: what is no try changes neither the success rate of the agent that asks for time nor its
// breakers, whether its word or its message is first, and whether it began or not; a probe is made again. Half an
// hour after the task was accepted it is a try, and counts as any other.
func TestAsksIsNoFault(t *testing.T) {
	wordFirst := func(r *rig, d coordinator.Dispatch, w *resultBuilder) {
		r.tell(w)
		r.returns(d, coordinator.ReturnRejected, false)
	}
	messageFirst := func(r *rig, d coordinator.Dispatch, w *resultBuilder) {
		r.returns(d, coordinator.ReturnRejected, false)
		r.tell(w)
	}
	for name, c := range map[string]struct {
		back  func(*rig, coordinator.Dispatch, *resultBuilder)
		begun bool
	}{
		"its word first": {wordFirst, true}, "its word first, not begun": {wordFirst, false},
		"its message first": {messageFirst, true}, "its message first, not begun": {messageFirst, false},
	} {
		t.Run(name, func(t *testing.T) {
			r := ready(t, policyOf(crew(3)...).route("go", "go"))
			asks := func(id coordinator.TaskID) {
				t.Helper()
				d := r.give(job(id).kind("go").prefers("a0"))
				if d.Agent != "a0" {
					t.Fatalf("%s went to %s, want a0", id, d.Agent)
				}
				w := says("a0", d.Task.ID).of(d.DispatchID).but(coordinator.OutcomeRejected)
				w.Attempted, w.RetryAfter = c.begun, 20*time.Second
				c.back(r, d, w)
				engine.CheckIndexes(t, r.Engine)
			}
			for i := range 6 { // five faults in a row eject it
				asks(numbered(i))
			}
			outcomes := func() float64 { return r.Learner().Outcomes(r.KnownAgent("a0").Number(), r.KindOf("go")) }
			if got := outcomes(); got != 0 {
				t.Errorf("%v outcomes have been learned, want none", got)
			}
			if got := r.why("a0", "go"); got != coordinator.Eligible {
				t.Fatalf("it is %v", got)
			}
			r.fails("a0", "go", 5)
			r.pass(30 * time.Second)
			asks("probe")
			if got := r.why("a0", "go"); got != coordinator.Eligible {
				t.Errorf("after a probe that was none it is %v", got)
			}
		})
	}
	t.Run("half an hour later", func(t *testing.T) {
		r := tracking(t, policyOf(worker("a")))
		d := r.give(job("t"))
		r.lives(engine.FreeAsks, beat("a").running("t"))
		r.gaveBack(d, "429", time.Second)
		if got := r.Learner().Outcomes(r.KnownAgent("a").Number(), r.KindOf("any")); got == 0 {
			t.Error("nothing has been learned of a try")
		}
	})
}

// TestAsksThenWaits: both agents ask for 20 s, the second 2 s after the first, and are cordoned. The task waits for
// their times, and for an agent after that for as long as any other: it fails 2 s + 20 s + assignment_timeout, 15 s,
// after the first has asked.
func TestAsksThenWaits(t *testing.T) {
	p := policyOf(worker("a"), worker("b"))
	p.Settings.AssignmentTimeout = 15 * time.Second
	r := tracking(t, p)
	d := r.give(job("t"))
	asked := r.now
	r.gaveBack(d, "429", 20*time.Second)
	r.pass(2 * time.Second)
	d = r.latest()
	r.confirm(d.Handle)
	r.gaveBack(d, "429", 20*time.Second)
	for _, id := range []coordinator.AgentID{"a", "b"} {
		r.order(id, coordinator.OrderCordon)
	}
	if left := asked.Add((2+20+15)*time.Second - 1).Sub(r.now); len(r.pass(left)) > 0 {
		t.Fatalf("it failed before: %+v", r.failures)
	}
	if r.pass(1); len(r.failures) != 1 {
		t.Errorf("it waits on: %d failures", len(r.failures))
	}
}
