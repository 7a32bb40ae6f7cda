package engine_test

import (
	"fmt"
	"testing"
	"time"

	"taskbus/coordinator"
)

func (r *rig) install(p *policyBuilder) []string {
	return r.apply(coordinator.PolicyChanged{Policy: &p.Policy})
}

// TestPolicyJudgesWaitingTasksAgain: served, waiting on, or impossible now.
func TestPolicyJudgesWaitingTasksAgain(t *testing.T) {
	r := full(t, func(*coordinator.Settings) {})
	r.assign(job("t1"))
	r.assign(job("t2"))
	r.assign(job("t3").prio(critical))
	r.assign(job("t4"))
	want(t, r.install(policyOf(worker("a").slots(3))), "dispatch t3.1 a", "dispatch t1.1 a") // 3 − 1 active = 2 slots
	want(t, r.install(policyOf(worker("a").slots(3)).set(func(s *coordinator.Settings) { s.MaxQueueSize = 1 })),
		"fail t4 backlog_full") // the later of the two
	p := policyOf(worker("a").slots(3))
	p.Routes = nil
	want(t, r.install(p), "fail t2 unknown_task_type")
}

// TestPolicyKeepsTimeWaited: a new policy gives no task a second assignment timeout.
func TestPolicyKeepsTimeWaited(t *testing.T) {
	r := full(t, func(*coordinator.Settings) {})
	r.assign(job("t1"))
	r.pass(20 * time.Second)
	r.install(policyOf(worker("a")))
	want(t, r.pass(10*time.Second), "fail t1 all_agents_at_capacity")
}

// TestShorterThreshold: under a new threshold an agent may be stale at once, and
// gets nothing of what waits.
func TestShorterThreshold(t *testing.T) {
	r := full(t, func(*coordinator.Settings) {})
	r.pass(10 * time.Second)
	r.assign(job("t1"))
	want(t, r.install(policyOf(worker("a").slots(2)).
		set(func(s *coordinator.Settings) { s.StaleAfter = 10 * time.Second })),
		"agent a stale", "take back agent.a")
	want(t, r.hear(beat("a").active(1)), "agent a online", "leave agent.a", "dispatch t1.1 a")
}

// TestRemovedAgentWithOpenDispatch: its confirm is still an outcome, its failure
// goes to another, its timers are gone.
func TestRemovedAgentWithOpenDispatch(t *testing.T) {
	removed := func(t *testing.T) *rig {
		r := ready(t, policyOf(worker("a"), worker("b")))
		r.hear(beat("b").load(0.5))
		want(t, r.assign(job("t")), "dispatch t.1 a")
		r.install(policyOf(worker("b")))
		return r
	}
	t.Run("confirmed", func(t *testing.T) {
		want(t, removed(t).confirm(1), "ack 1")
	})
	t.Run("unroutable", func(t *testing.T) { // nothing looks for the queue of an agent that is gone
		want(t, removed(t).settle(1, coordinator.PublishUnroutable), "dispatch t.1 b")
	})
	t.Run("nacked", func(t *testing.T) {
		want(t, removed(t).settle(1, coordinator.PublishRejected), "dispatch t.1 b")
	})
	t.Run("returned", func(t *testing.T) {
		r := removed(t)
		r.confirm(1)
		r.giveBack(r.latest())
		want(t, r.pass(time.Second), "dispatch t.2 b")
	})
	t.Run("its heartbeat", func(t *testing.T) {
		want(t, removed(t).hear(beat("a")), "refused a unknown_agent first")
	})
}

// TestReaddedAgent: what is on its way to an agent counts, although the policy
// left the agent out for a while.
func TestReaddedAgent(t *testing.T) {
	r := ready(t, policyOf(worker("a"), worker("b")))
	want(t, r.assign(job("t1").prefers("a")), "dispatch t1.1 a") // no confirm yet
	r.install(policyOf(worker("b")))
	r.install(policyOf(worker("b"))) // and once more without it
	r.install(policyOf(worker("a"), worker("b")))
	if got := r.whyNot("a"); got != coordinator.NotSeen {
		t.Errorf("%v, want never seen: it may have changed in the meantime", got)
	}
	r.hear(beat("a"))
	if got := r.whyNot("a"); got != coordinator.Full {
		t.Errorf("%v, want full: t1 is on its way", got)
	}
	r.confirm(1)
	r.pass(time.Second)
	r.hear(beat("a"))
	if got := r.whyNot("a"); got != coordinator.Eligible {
		t.Errorf("%v, want eligible: the report speaks for t1", got)
	}
	if n := r.AgentsLeft(); n != 0 {
		t.Errorf("%d agents are still remembered as gone", n)
	}
}

// TestGoneAgentsAreForgotten: once their dispatches are settled.
func TestGoneAgentsAreForgotten(t *testing.T) {
	r := ready(t, policyOf(worker("a")))
	r.assign(job("t1"))
	r.install(policyOf(worker("b")))
	if n := r.AgentsLeft(); n != 1 {
		t.Errorf("%d agents remembered, want a", n)
	}
	r.confirm(1)
	r.install(policyOf(worker("b")))
	if n := r.AgentsLeft(); n != 0 {
		t.Errorf("%d agents remembered, want none", n)
	}
}

// TestQueueRenamed: what was known of the old queue is not held against the new.
func TestQueueRenamed(t *testing.T) {
	r := ready(t, policyOf(worker("a")))
	r.assign(job("t1"))
	r.settle(1, coordinator.PublishUnroutable)
	p := policyOf(worker("a"))
	p.Agents[0].Queue = "work.a"
	want(t, r.install(p), "dispatch t1.1 a")
	if got := r.latest().Queue; got != "work.a" {
		t.Errorf("queue %s", got)
	}
}

// TestPriorityOrderChanges: the new order counts from the next dispatch on, for what waits already.
func TestPriorityOrderChanges(t *testing.T) {
	r := full(t, func(s *coordinator.Settings) { s.Priorities.Weights = [4]int64{1, 1, 1, 1} })
	for i := range 4 {
		r.assign(job(coordinator.TaskID(fmt.Sprint("n", i))).prio(normal))
		r.assign(job(coordinator.TaskID(fmt.Sprint("c", i))).prio(critical))
	}
	want(t, r.serve(2), "dispatch c0.1 a", "dispatch n0.1 a") // in turns
	r.install(policyOf(worker("a")).set(func(s *coordinator.Settings) { s.Priorities.Strict = true }))
	want(t, r.serve(4), "dispatch c1.1 a", "dispatch c2.1 a", "dispatch c3.1 a", "dispatch n1.1 a")
}

// TestOrderOfTheListDoesNotMatter: the same agents, listed the other way round.
func TestOrderOfTheListDoesNotMatter(t *testing.T) {
	for _, p := range []*policyBuilder{policyOf(worker("a"), worker("b")), policyOf(worker("b"), worker("a"))} {
		r := ready(t, p)
		want(t, r.assign(job("t1")), "dispatch t1.1 a")
		want(t, r.assign(job("t2")), "dispatch t2.1 b")
	}
}
