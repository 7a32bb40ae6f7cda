package engine

import (
	"fmt"
	"testing"
	"time"

	"taskbus/coordinator"
)

// claimants is a fleet of so many that all wait for one task.
func claimants(t *testing.T, n int) *rig {
	t.Helper()
	agents := make([]*specBuilder, n)
	for i := range agents {
		agents[i] = worker(coordinator.AgentID(fmt.Sprintf("a%04d", i))).slots(4).pulls(coordinator.PullShared)
	}
	r := ready(t, policyOf(agents...))
	for i := range agents {
		r.claim(claim(coordinator.AgentID(fmt.Sprintf("a%04d", i)), 1).rate(1).waits(time.Hour))
	}
	return r
}

// planned is when the only plan was made, and for how many claims it is good yet.
func (r *rig) planned() (made time.Time, left int) {
	r.t.Helper()
	for _, p := range r.claims.plans.of {
		made, left = p.made, p.left
	}
	if len(r.claims.plans.of) != 1 {
		r.t.Fatalf("%d plans", len(r.claims.plans.of))
	}
	return made, left
}

// TestPlansAreUsedAgain: of 640 agents 5 are granted something by a plan that is of another moment.
func TestPlansAreUsedAgain(t *testing.T) {
	r := claimants(t, 640)
	begun := r.now
	for i := range 6 { // the first one by the new plan
		r.give(job(coordinator.TaskID(fmt.Sprint("t-", i))))
		if made, left := r.planned(); !made.Equal(begun) || left != 5-i {
			t.Fatalf("after %d tasks the plan is of %v and good for %d more", i+1, made.Sub(begun), left)
		}
		r.pass(10 * time.Millisecond)
	}
	r.give(job("t-6"))
	if made, _ := r.planned(); !made.Equal(begun.Add(60 * time.Millisecond)) {
		t.Errorf("the seventh task was granted by the plan of %v", made.Sub(begun))
	}
	r.pass(plansAge)
	r.give(job("t-7"))
	if made, _ := r.planned(); !made.Equal(begun.Add(60*time.Millisecond + plansAge)) {
		t.Errorf("the eighth task was granted by the plan of %v, which is too old", made.Sub(begun))
	}
}

// TestFormerPlansAreFair: 640 tasks, one at a time, go to 640 agents that hold nothing; then everyone
// has one, and asks again: the next 640 come out alike.
func TestFormerPlansAreFair(t *testing.T) {
	r := claimants(t, 640)
	for round := range 2 {
		had := make(map[coordinator.AgentID]int)
		for i := range 640 {
			d := r.give(job(coordinator.TaskID(fmt.Sprint("t-", round, "-", i))))
			had[d.Agent]++
			r.claim(claim(d.Agent, 1).rate(1).waits(time.Hour))
			r.pass(time.Millisecond)
		}
		if len(had) != 640 {
			t.Errorf("in round %d the tasks went to %d agents", round, len(had))
		}
	}
}
