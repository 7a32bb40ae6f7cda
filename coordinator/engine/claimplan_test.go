package engine_test

import (
	"fmt"
	"testing"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/engine"
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
	for _, p := range r.ClaimPlans() {
		made, left = p.Made, p.Left
	}
	if len(r.ClaimPlans()) != 1 {
		r.t.Fatalf("%d plans", len(r.ClaimPlans()))
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
	r.pass(engine.PlansAge)
	r.give(job("t-7"))
	if made, _ := r.planned(); !made.Equal(begun.Add(60*time.Millisecond + engine.PlansAge)) {
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

// plansOf does something so many times, a millisecond apart, and counts the plans that are made for it.
func (r *rig) plansOf(times int, do func(i int)) int {
	made := make(map[*engine.ClaimPlan]struct{})
	for _, p := range r.ClaimPlans() {
		made[p] = struct{}{}
	}
	before := len(made)
	for i := range times {
		do(i)
		for _, p := range r.ClaimPlans() {
			made[p] = struct{}{}
		}
		r.pass(time.Millisecond)
	}
	return len(made) - before
}

// TestPlansOfClaimsPassedOver: that others have asked before it that can do nothing of what comes, or
// have enough, costs a task no plan of its own; nor does a claim that runs out, or is given up.
func TestPlansOfClaimsPassedOver(t *testing.T) {
	for _, busy := range []bool{false, true} {
		r := passedOver(t, 1000, busy)
		plans := r.plansOf(60, func(i int) {
			id := coordinator.TaskID(fmt.Sprint("t", i))
			if d := r.give(job(id)); d.Agent < "a1000" {
				t.Fatalf("busy %v: %s was given to %s", busy, id, d.Agent)
			}
		})
		most := 60
		if busy { // of 1,100 that could do it 8 are given something by a plan of before
			most = 60/9 + 1
		}
		if plans > most {
			t.Errorf("busy %v: %d plans for 60 tasks", busy, plans)
		}
	}
	r := passedOver(t, 1000, true)
	again := func(i int) { r.claim(claim(coordinator.AgentID(fmt.Sprint("a", i)), 1).rate(1)) }
	if plans := r.plansOf(200, again); plans > 3 {
		t.Errorf("%d plans for 200 claims in 0.2 s that are given up and run out", plans)
	}
	if plans := r.plansOf(1, func(int) { r.Engine.AnswerClaims(r.now) }); plans > 1 {
		t.Errorf("%d plans for an answer to all of them", plans)
	}
}
