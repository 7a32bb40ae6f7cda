package engine_test

import (
	"testing"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/engine"
)

// two is a fleet of a and b, of one slot each.
func two() *policyBuilder {
	return policyOf(worker("a").can("go"), worker("b").can("go")).route("go", "go")
}

// TestPreferredAloneUntilItWidens: a is full, b is idle. For 10 s the task waits for a alone; others that need
// the same do not wait behind it.
func TestPreferredAloneUntilItWidens(t *testing.T) {
	full := func() *rig {
		r := ready(t, two())
		r.give(job("first").kind("go").prefers("a"))
		want(t, r.assign(job("t").kind("go").prefers("a").widens(10*time.Second)))
		return r
	}
	r := full()
	want(t, r.assign(job("other").kind("go")), "dispatch other.1 b")
	want(t, r.tell(says("a", "first")), "completed first.1 a succeeded", "dispatch t.1 a")
	engine.CheckIndexes(t, r.Engine)

	r = full()
	want(t, r.pass(10*time.Second-1)) // 9.999999999 s
	agents, until, waits := r.WaitsForPreferred("t")
	if !waits || len(agents) != 1 || agents[0] != "a" || !until.Equal(r.now.Add(1)) {
		t.Errorf("it waits %v for %v until %v; want a, until %v", waits, agents, until, r.now.Add(1))
	}
	d, reason, _ := r.Explain(r.now, &job("t").kind("go").prefers("a").widens(10*time.Second).accepted(r.now).Task)
	if reason != coordinator.ReasonAllAgentsAtCapacity || d.Refused[coordinator.NotPreferred] != 1 ||
		d.Refused[coordinator.Full] != 1 || d.Eligible != 0 {
		t.Errorf("%s: refused %v, %d eligible; want 1 full and 1 that is not preferred", reason, d.Refused, d.Eligible)
	}
	want(t, r.pass(1), "dispatch t.1 b")
	if _, _, waits := r.WaitsForPreferred("t"); waits {
		t.Error("it has been given away, and waits for its preferred agents all the same")
	}
	engine.CheckIndexes(t, r.Engine)
}

// TestNoPreferredAgentServes: where none of the preferred agents can ever have the task, any may at once.
func TestNoPreferredAgentServes(t *testing.T) {
	for name, b := range map[string]*taskBuilder{
		"an agent that is not known":    job("t").kind("go").prefers("nobody"),
		"one that lacks the capability": job("t").kind("go").prefers("c"),
		"one that is excluded":          job("t").kind("go").prefers("a").not("a"),
		"none is named":                 job("t").kind("go"),
	} {
		p := two()
		p.Agents = append(p.Agents, worker("c").AgentSpec)
		r := ready(t, p)
		r.give(job("first").kind("go").prefers("a")) // a is full: only b is left
		if got := r.assign(b.widens(time.Minute)); len(got) != 1 || got[0] != "dispatch t.1 b" {
			t.Errorf("%s: %v, want it with b", name, got)
		}
	}
}

// TestWidensRatherThanFail: it would wait for 60 s, and may wait for 30 s: then b has it. With a deadline that
// comes first it fails by that.
func TestWidensRatherThanFail(t *testing.T) {
	p := two()
	p.Settings.CountsWaiting = true
	r := ready(t, p)
	r.give(job("first").kind("go").prefers("a"))
	want(t, r.assign(job("t").kind("go").prefers("a").widens(time.Minute)))
	want(t, r.pass(30*time.Second), "dispatch t.1 b")

	r = ready(t, two())
	r.give(job("first").kind("go").prefers("a"))
	b := job("t").kind("go").prefers("a").widens(time.Minute)
	b.Deadline = r.now.Add(5 * time.Second)
	want(t, r.assign(b))
	want(t, r.pass(5*time.Second), "fail t deadline_exceeded")
}

// TestPreferredOfARoute: the preferred agents of the task type are meant where the task names none, and a change of
// agents.yaml counts for what waits.
func TestPreferredOfARoute(t *testing.T) {
	p := two()
	p.Routes["go"] = coordinator.Route{Required: []string{"go"}, Preferred: []coordinator.AgentID{"a"}}
	r := ready(t, p)
	r.give(job("first").kind("go"))
	want(t, r.assign(job("t").kind("go").widens(10*time.Second)))
	next := two()
	next.Routes["go"] = coordinator.Route{Required: []string{"go"}, Preferred: []coordinator.AgentID{"b"}}
	want(t, r.apply(coordinator.PolicyChanged{Policy: &next.Policy}), "dispatch t.1 b")
	engine.CheckIndexes(t, r.Engine)
}
