package engine_test

import (
	"fmt"
	"testing"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/engine"
)

// ranBy are the agents that an image names for tasks that have ended.
func (r *rig) ranBy() map[coordinator.TaskKey]coordinator.AgentID {
	all := make(map[coordinator.TaskKey]coordinator.AgentID)
	for _, rec := range r.imaged() {
		if m, is := rec.(*coordinator.Remembered); is {
			all[m.Key] = m.Agent
		}
	}
	return all
}

// TestAgentsThatAreGoneAreForgotten: 10,000 agents come and go, 500 at a time. Known stay those that
// are there, and those that records name.
func TestAgentsThatAreGoneAreForgotten(t *testing.T) {
	r := ready(t, policyOf(worker("first")))
	r.give(job("t-1"))
	r.tell(says("first", "t-1"))
	for round := range 20 {
		pods := make([]*specBuilder, 500)
		for i := range pods {
			pods[i] = worker(coordinator.AgentID(fmt.Sprint("pod-", round, "-", i)))
		}
		r.install(policyOf(pods...))
	}
	if known, names := r.Serials(); known > engine.LeastSerials+500 || names > engine.LeastSerials+501 {
		t.Errorf("%d agents are known, of %d serials", known, names)
	}
	r.install(policyOf(worker("last"), worker("other")))
	r.hear(beat("last"))
	r.give(job("t-2"))
	r.tell(says("last", "t-2"))
	r.pass(time.Second)
	by := r.ranBy()
	for id, agent := range map[coordinator.TaskID]coordinator.AgentID{"t-1": "first", "t-2": "last"} {
		if got := by[coordinator.KeyOf(id)]; got != agent {
			t.Errorf("%s was done by %q, want %q", id, got, agent)
		}
	}
}
