package engine_test

import (
	"testing"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/engine"
)

// by names the process that a heartbeat is of.
func (b *reportBuilder) by(instance string) *reportBuilder { b.Instance = instance; return b }

// TestTwoProcessesUnderOneID: that is told once, when both have been heard by turns, and the goodbye of one does
// not end the work of the other.
func TestTwoProcessesUnderOneID(t *testing.T) {
	r := ready(t, policyOf(worker("a").slots(2)))
	r.hear(beat("a").running().by("one"))
	r.pass(time.Second)
	want(t, r.hear(beat("a").running().by("two"))) // it may have followed
	r.pass(time.Second)
	want(t, r.hear(beat("a").running().by("one")), "2 processes are a")
	r.pass(time.Second)
	want(t, r.hear(beat("a").running().by("two")))
	if n := r.seen("a").Instances; n != 2 {
		t.Errorf("%d instances are seen, want 2", n)
	}
	r.pass(time.Second)
	want(t, r.hear(beat("a").running().by("two").status(coordinator.StatusOffline)))
	want(t, r.assign(job("t")), "dispatch t.1 a")
	if n := r.seen("a").Instances; n != 1 {
		t.Errorf("%d instances are seen, want the one that is left", n)
	}
	r.pass(time.Second)
	want(t, r.hear(beat("a").running("t").by("one").status(coordinator.StatusOffline)), "agent a offline",
		"take back agent.a")
}

// TestOneProcessAfterAnother: an agent that is started again, after a crash too, is no second one.
func TestOneProcessAfterAnother(t *testing.T) {
	r := ready(t, policyOf(worker("a")))
	for _, instance := range []string{"one", "two", "three"} {
		for range 3 {
			want(t, r.hear(beat("a").running().by(instance)))
			r.pass(time.Second)
		}
	}
	if n := r.seen("a").Instances; n != 1 {
		t.Errorf("%d instances are seen, want 1", n)
	}
	// None of those that crashed was heard after the last had come: its goodbye is the agent's.
	want(t, r.hear(beat("a").running().by("three").status(coordinator.StatusOffline)), "agent a offline",
		"take back agent.a")
}

// TestNoInstances: an agent that does not say which process it is, is one.
func TestNoInstances(t *testing.T) {
	r := ready(t, policyOf(worker("a")))
	for range 3 {
		want(t, r.hear(beat("a").running()))
	}
	want(t, r.hear(beat("a").running().status(coordinator.StatusOffline)), "agent a offline", "take back agent.a")
}

// TestPredecessorIsNotCounted: a process crashed, its successor has a second one beside it: two are at work.
func TestPredecessorIsNotCounted(t *testing.T) {
	r := ready(t, policyOf(worker("a")))
	for _, instance := range []string{"crashed", "one", "two"} {
		want(t, r.hear(beat("a").running().by(instance)))
		r.pass(time.Second)
	}
	want(t, r.hear(beat("a").running().by("one")), "2 processes are a")
	want(t, r.hear(beat("a").running().by("two")))
	if n := r.seen("a").Instances; n != 2 {
		t.Errorf("%d instances are seen, want 2", n)
	}
}

// TestSecondProcessDies: the warning is over when only one has been heard for three heartbeats, and comes again
// with the next.
func TestSecondProcessDies(t *testing.T) {
	r := ready(t, policyOf(worker("a")))
	both := func() (lines []string) {
		for range 2 {
			for _, instance := range []string{"one", "two"} {
				lines = append(lines, r.hear(beat("a").running().by(instance))...)
				r.pass(time.Second)
			}
		}
		return lines
	}
	want(t, both(), "2 processes are a")
	r.lives(3*interval+2*time.Second, beat("a").running().by("one"))
	if n := r.seen("a").Instances; n != 1 {
		t.Errorf("%d instances are seen, want 1", n)
	}
	want(t, both(), "2 processes are a")
}

// TestManyProcesses: what is remembered of them is bounded.
func TestManyProcesses(t *testing.T) {
	r := ready(t, policyOf(worker("a")))
	for range 2 {
		for i := range 3 * engine.MaxInstances {
			r.hear(beat("a").running().by(string(numbered(i))))
		}
	}
	if n := r.seen("a").Instances; n != engine.MaxInstances {
		t.Errorf("%d instances are seen, want %d", n, engine.MaxInstances)
	}
}
