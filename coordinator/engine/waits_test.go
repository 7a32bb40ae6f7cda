package engine_test

import (
	"fmt"
	"testing"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/engine"
	"taskbus/coordinator/strategy"
)

// TestWhyTasksWait: tasks of one kind are explained once, with the counts that a refusal has.
func TestWhyTasksWait(t *testing.T) {
	r := ready(t, policyOf(worker("a").can("go"), worker("b").can("go"), worker("c").can("py")).route("go", "go").
		route("py", "py"))
	for _, id := range []coordinator.TaskID{"g1", "g2", "g3", "g4", "p1", "p2"} { // 2 + 1 run, 2 + 1 wait
		r.assign(job(id).kind(map[byte]string{'g': "go", 'p': "py"}[id[0]]).accepted(r.now))
		r.pass(time.Second)
	}
	s := r.Snapshot(r.now)
	// g3: seconds 2 to 6
	if len(s.Waits) != 2 || s.Waits[0].Tasks != 2 || s.Waits[0].Required[0] != "go" ||
		s.Waits[0].Oldest != 4*time.Second ||
		s.Waits[0].Reason != coordinator.ReasonAllAgentsAtCapacity || s.Waits[1].Tasks != 1 ||
		s.Waits[1].Required[0] != "py" {
		t.Errorf("%+v", s.Waits)
	}
	why := r.Waiters(r.now)
	for id, want := range map[coordinator.TaskID]string{
		"g3": "0 of 3 agents eligible: 1 lack `go`, 2 full; nearest: a (full)",
		"g4": "0 of 3 agents eligible: 1 lack `go`, 2 full; nearest: a (full)",
		"p2": "0 of 3 agents eligible: 2 lack `py`, 1 full; nearest: c (full)",
		"g1": "", "nobody": "",
	} {
		if got, ok := why.Why(&job(id).kind("go").Task); got != want || !ok {
			t.Errorf("%s: %q (%v), want %q", id, got, ok, want)
		}
	}
	if why.Explained != 2 {
		t.Errorf("%d kinds were explained, want 2", why.Explained)
	}
}

// TestALookExplainsSoManyKinds: what goes beyond is said to be left to the next look, and costs nothing.
func TestALookExplainsSoManyKinds(t *testing.T) {
	const kinds = engine.MaxExplained + 1
	var all []string
	for i := range kinds {
		all = append(all, fmt.Sprint("c", i))
	}
	r := ready(t, policyOf(worker("a").can(all...)))
	r.give(job("runs").needs("c0"))
	why := r.Waiters(r.now)
	for i := range kinds {
		id := coordinator.TaskID(fmt.Sprint("t", i))
		r.assign(job(id).needs(all[i]).accepted(r.now))
		text, ok := why.Why(&job(id).Task)
		if ok != (i < engine.MaxExplained) || ok != (text == "0 of 1 agents eligible: 1 full; nearest: a (full)") {
			t.Errorf("%s: %q, %v", id, text, ok)
		}
	}
	if text, ok := why.Why(&job("t0").Task); !ok || text == "" || why.Explained != engine.MaxExplained {
		t.Errorf("of a kind that is known: %q, %v; %d explained, want %d", text, ok, why.Explained, engine.MaxExplained)
	}
	if text, ok := r.Waiters(r.now).Why(&job(coordinator.TaskID(fmt.Sprint("t", engine.MaxExplained))).Task); !ok ||
		text == "" {
		t.Errorf("in the next look: %q, %v", text, ok)
	}
}

// TestUnscoredTasksSayWhy: one that waits aside says what its strategy makes of the agents.
func TestUnscoredTasksSayWhy(t *testing.T) {
	r := ready(t, policyOf(worker("a").can("go")).route("x", "go").expressed(t, weighs))
	bad := job("bad").kind("x").by(strategy.ExpressionName)
	r.assign(bad)
	const want = "0 of 1 agents eligible: 1 without a score (the formula fails: no such key: w); nearest: a (without a " +
		"score)"
	if text, ok := r.Waiters(r.now).Why(&bad.Task); text != want || !ok {
		t.Errorf("%q, %v; want %q", text, ok, want)
	}
}

// TestEjectionsSayUntilWhen: three failures in a row eject the agent for a time that the snapshot tells.
func TestEjectionsSayUntilWhen(t *testing.T) {
	p := two()
	p.Settings.Breaker = coordinator.Breaker{Consecutive: 3, Base: 30 * time.Second, Longest: time.Hour, MaxShare: 0.5}
	r := ready(t, p)
	for _, id := range []coordinator.TaskID{"t1", "t2", "t3"} {
		r.give(job(id).kind("go").prefers("a"))
		r.tell(says("a", id).but(coordinator.OutcomeFailed))
	}
	a := r.seen("a")
	if len(a.EjectedFrom) != 1 || a.EjectedFrom[0] != "go" || len(a.EjectedUntil) != 1 ||
		!a.EjectedUntil[0].Equal(r.now.Add(30*time.Second)) {
		t.Errorf("ejected from %v until %v, want go for 30 s from %v", a.EjectedFrom, a.EjectedUntil, r.now)
	}
}
