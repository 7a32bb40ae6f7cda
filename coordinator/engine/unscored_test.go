package engine_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/engine"
	"taskbus/coordinator/strategy"
)

// weighs is a formula that fails for tasks without the label w.
func weighs(c *coordinator.Case, _ *coordinator.AgentView, _ *coordinator.Standing) (float64, error) {
	if c.Task.Labels["w"] == "" {
		return 0, errors.New("no such key: w")
	}
	return 1, nil
}

// expressed adds the strategy expression, with that formula, to the policy.
func (b *policyBuilder) expressed(t testing.TB, formula strategy.Score) *policyBuilder {
	t.Helper()
	s, err := strategy.Build(strategy.ExpressionName, strategy.Options{Exploration: -1, FormulaText: "w",
		Formula: formula})
	if err != nil {
		t.Fatal(err)
	}
	b.Strategies = append(slices.Clone(b.Strategies), s)
	slices.SortFunc(b.Strategies, func(x, y coordinator.Strategy) int { return strings.Compare(x.Name, y.Name) })
	return b
}

// TestUnscoredHoldsNobodyUp: a task of which its strategy can make nothing waits aside;
// others that need the same capabilities pass it, and it fails for a reason of its own.
func TestUnscoredHoldsNobodyUp(t *testing.T) {
	r := ready(t, policyOf(worker("a").can("go"), worker("b").can("go")).route("x", "go").expressed(t, weighs))
	want(t, r.assign(job("bad").kind("x").by(strategy.ExpressionName)))
	want(t, r.assign(job("good").kind("x")), "dispatch good.1 a")
	want(t, r.assign(job("bad2").kind("x").by(strategy.ExpressionName).prio(coordinator.PriorityCritical)))
	want(t, r.assign(job("good2").kind("x")), "dispatch good2.1 b")
	for _, h := range []coordinator.Handle{2, 4} {
		r.confirm(h)
	}
	// Now all slots are taken: it stands in line like everybody, until one is free.
	want(t, r.assign(job("bad3").kind("x").by(strategy.ExpressionName).prio(coordinator.PriorityCritical)))
	want(t, r.assign(job("good3").kind("x")))
	want(t, r.tell(says("a", "good")), "completed good.1 a succeeded", "dispatch good3.1 a")
	engine.CheckIndexes(t, r.Engine)
	if s := r.Snapshot(r.now); s.Pending[coordinator.PriorityCritical] != 2 ||
		s.PendingReasons[coordinator.ReasonNoEligibleAgents] != 3 {
		t.Errorf("pending %v, %v", s.Pending, s.PendingReasons)
	}
	r.confirm(6)
	r.tell(says("b", "good2"))
	r.tell(says("a", "good3"))
	want(t, r.pass(30*time.Second), "fail bad no_eligible_agents", "fail bad2 no_eligible_agents",
		"fail bad3 no_eligible_agents")
	if got :=
		r.failures[0].Failure.Text; got != "0 of 2 agents eligible: 2 without a score (the formula fails: no such key: w);"+
		" nearest: a (without a score)" {
		t.Errorf("%q", got)
	}
}

// TestUnscoredIsLookedAtAgain: what a formula reads of agents changes, and then the
// task goes.
func TestUnscoredIsLookedAtAgain(t *testing.T) {
	r := ready(t, policyOf(worker("a").can("go").slots(2)).route("x", "go").expressed(t,
		func(_ *coordinator.Case, a *coordinator.AgentView, _ *coordinator.Standing) (float64, error) {
			if a.ReportedLoad < 0.5 {
				return 0, errors.New("division by zero")
			}
			return 1, nil
		}))
	want(t, r.assign(job("t").kind("x").by(strategy.ExpressionName)))
	want(t, r.pass(5*time.Second))
	want(t, r.hear(beat("a").load(0.5).active(1).available(1)))
	want(t, r.pass(3*time.Second), "dispatch t.1 a") // looked at after 1, 3, 7 s
	engine.CheckIndexes(t, r.Engine)
	// Cancelled, given up with its session, judged again under another policy: it
	// leaves nothing behind.
	r.confirm(1)
	r.hear(beat("a"))
	r.assign(job("t2").kind("x").by(strategy.ExpressionName))
	want(t, r.withdraw("t2"), "fail t2 cancelled", "cancel t2: done")
	r.assign(job("t3").kind("x").by(strategy.ExpressionName))
	r.apply(coordinator.SessionLost{})
	r.apply(coordinator.SessionOpened{})
	if s := r.Snapshot(r.now); s.Pending != [4]int{} {
		t.Errorf("pending %v", s.Pending)
	}
	r.assign(job("t4").kind("x").by(strategy.ExpressionName))
	p := policyOf(worker("a").can("go").slots(3)).route("x", "go").expressed(t, weighs)
	r.apply(coordinator.PolicyChanged{Policy: &p.Policy})
	if s := r.Snapshot(r.now); s.Pending[coordinator.PriorityNormal] != 1 {
		t.Errorf("pending %v", s.Pending)
	}
	engine.CheckIndexes(t, r.Engine)
}

// TestUnscoredOutlivesItsClass: classes in which no task waits are forgotten when there are many,
// and one that stands aside waits in none. What is learnt of agents meanwhile counts for it as for
// all: it is not given to one that has been ejected.
func TestUnscoredOutlivesItsClass(t *testing.T) {
	scored := false
	p := policyOf(worker("a").can("go"), worker("b").can("go"), worker("c").can("go")).route("go", "go")
	p.set(func(s *coordinator.Settings) { s.AssignmentTimeout, s.DedupeMaxIDs = time.Hour, 10_000 })
	r := ready(t, p.expressed(t, func(*coordinator.Case, *coordinator.AgentView, *coordinator.Standing) (float64, error) {
		if !scored {
			return 0, errors.New("division by zero")
		}
		return 1, nil
	}))
	want(t, r.assign(job("aside").needs("go").not("c").prefers("a").by(strategy.ExpressionName)))
	of := r.ClassOf(r.HeldTask(1))
	for i := range engine.MaxIdleClasses + 2 { // each has a class of its own
		d := r.give(job(numbered(5000 + i)).not(coordinator.AgentID("nobody" + string(numbered(i)))))
		r.tell(says(d.Agent, d.Task.ID))
	}
	if r.ClassIsKnown(of) {
		t.Fatal("its class is not forgotten: this shows nothing")
	}
	r.fails("a", "go", 5)
	scored = true
	want(t, r.pass(10*time.Second), "dispatch aside.1 b") // it prefers a, which is ejected from go
	engine.CheckIndexes(t, r.Engine)
}
