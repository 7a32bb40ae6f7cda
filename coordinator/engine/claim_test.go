package engine_test

import (
	"fmt"
	"testing"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/engine"
)

// pulls has the agent claim its tasks itself.
func (b *specBuilder) pulls(mode coordinator.PullMode) *specBuilder { b.Pull = mode; return b }

// claimBuilder describes a claim: claim("a", 4).rate(16).waits(time.Second).
type claimBuilder struct{ coordinator.ClaimReceived }

func claim(agent coordinator.AgentID, items int) *claimBuilder {
	return &claimBuilder{coordinator.ClaimReceived{Agent: agent, ClaimID: "c", MaxItems: items, Token: 7}}
}

func (b *claimBuilder) rate(perSecond float64) *claimBuilder { b.Capacity = perSecond; return b }
func (b *claimBuilder) waits(d time.Duration) *claimBuilder  { b.Wait = d; return b }
func (r *rig) claim(b *claimBuilder) []string                { return r.apply(b.ClaimReceived) }

// wait lets so many tasks wait for agents that claim them.
func (r *rig) wait(from, n int) {
	r.t.Helper()
	for i := from; i < from+n; i++ {
		want(r.t, r.assign(job(coordinator.TaskID(fmt.Sprint("t", i)))))
	}
}

func TestClaim(t *testing.T) {
	t.Run("what waits, the oldest first", func(t *testing.T) {
		r := ready(t, policyOf(worker("a").slots(10).pulls(coordinator.PullShared)))
		r.wait(1, 3)
		want(t, r.claim(claim("a", 2)), "dispatch t1.1 a", "dispatch t2.1 a", "granted 2 to a ")
		if d := r.latest().Decision; d.Strategy != "pull" || d.Agent != "a" {
			t.Errorf("the decision says %+v", d)
		}
		r.slots("a", 2, 8)
		want(t, r.claim(claim("a", 2)), "dispatch t3.1 a", "granted 1 to a no_unclaimed_items")
		want(t, r.claim(claim("a", 2)), "granted 0 to a no_unclaimed_items")
	})
	t.Run("no more than slots", func(t *testing.T) {
		for _, mode := range []coordinator.PullMode{coordinator.PullShared, coordinator.PullLiteral} {
			r := ready(t, policyOf(worker("a").slots(2).pulls(mode)))
			r.wait(1, 5)
			want(t, r.claim(claim("a", 5)), "dispatch t1.1 a", "dispatch t2.1 a", "granted 2 to a no_free_slots")
			want(t, r.claim(claim("a", 5)), "granted 0 to a no_free_slots")
		}
	})
	t.Run("it waits for work", func(t *testing.T) {
		r := ready(t, policyOf(worker("a").slots(2).pulls(coordinator.PullShared)))
		want(t, r.claim(claim("a", 1).waits(5*time.Second)))
		r.now = r.now.Add(time.Second)
		want(t, r.assign(job("t1")), "dispatch t1.1 a", "granted 1 to a ")
		want(t, r.claim(claim("a", 1).waits(5*time.Second)))
		want(t, r.pass(5*time.Second-1))
		want(t, r.pass(1), "granted 0 to a no_unclaimed_items")
		want(t, r.assign(job("t2")))
	})
	t.Run("only what it can do", func(t *testing.T) {
		r := ready(t, policyOf(worker("a").slots(2).pulls(coordinator.PullShared),
			worker("gpu").can("gpu").pulls(coordinator.PullShared)).route("train", "gpu"))
		want(t, r.assign(job("t1").kind("train")))
		want(t, r.claim(claim("a", 1)), "granted 0 to a no_unclaimed_items")
		want(t, r.claim(claim("gpu", 1)), "dispatch t1.1 gpu", "granted 1 to gpu ")
	})
	t.Run("a second claim takes the place of the first", func(t *testing.T) {
		r := ready(t, policyOf(worker("a").pulls(coordinator.PullShared)))
		want(t, r.claim(claim("a", 1).waits(time.Minute)))
		want(t, r.claim(claim("a", 1).waits(time.Minute)), "granted 0 to a superseded")
	})
	t.Run("nobody's business", func(t *testing.T) {
		r := ready(t, policyOf(worker("pushed")))
		want(t, r.claim(claim("pushed", 1)), "granted 0 to pushed unknown_agent")
		want(t, r.claim(claim("stranger", 1)), "granted 0 to stranger unknown_agent")
	})
	t.Run("a drain answers what waits", func(t *testing.T) {
		r := ready(t, policyOf(worker("a").pulls(coordinator.PullShared)))
		r.claim(claim("a", 1).waits(time.Minute))
		want(t, r.apply(coordinator.DrainBegan{}), "granted 0 to a agent_unavailable")
	})
	t.Run("a new session has forgotten it", func(t *testing.T) {
		r := ready(t, policyOf(worker("a").pulls(coordinator.PullShared), worker("pushed")))
		r.claim(claim("a", 1).waits(time.Minute))
		want(t, r.apply(coordinator.SessionLost{}))
		want(t, r.apply(coordinator.SessionOpened{}), "claims of a forgotten")
		want(t, r.pass(time.Minute))
	})
	t.Run("slow work fills the slots", func(t *testing.T) { // one task takes 50 s
		r := ready(t, policyOf(worker("a").slots(4).pulls(coordinator.PullShared)))
		r.wait(1, 3)
		want(t, r.claim(claim("a", 3).rate(0.02)), "dispatch t1.1 a", "dispatch t2.1 a", "dispatch t3.1 a", "granted 3 to a ")
	})
	t.Run("the part of one that is full goes to others", func(t *testing.T) {
		r := ready(t, policyOf(worker("a").pulls(coordinator.PullShared), worker("b").slots(9).pulls(coordinator.PullShared)))
		r.wait(1, 1)
		want(t, r.claim(claim("a", 1).rate(16)), "dispatch t1.1 a", "granted 1 to a ")
		r.wait(2, 2)
		want(t, r.claim(claim("b", 2).rate(1)), "dispatch t2.1 b", "dispatch t3.1 b", "granted 2 to b ")
	})
	t.Run("the part of one that does not ask any more lapses", func(t *testing.T) {
		r := ready(t, policyOf(worker("a").slots(9).pulls(coordinator.PullShared),
			worker("b").slots(9).pulls(coordinator.PullShared)).
			set(func(s *coordinator.Settings) { s.AssignmentTimeout = time.Minute }))
		r.claim(claim("a", 9).rate(16))
		want(t, r.claim(claim("b", 2).rate(1)), "granted 0 to b no_unclaimed_items")
		r.wait(1, 2)
		want(t, r.claim(claim("b", 2).rate(1)), "dispatch t1.1 b", "granted 1 to b fair_share") // it holds nothing
		want(t, r.claim(claim("b", 1).rate(1).waits(50*time.Second)))
		r.hear(beat("a"))
		want(t, r.pass(31*time.Second), "dispatch t2.1 b", "granted 1 to b ") // a was heard 30 s ago
	})
	t.Run("a new session knows of no claim", func(t *testing.T) {
		r := ready(t, policyOf(worker("a").pulls(coordinator.PullShared)))
		r.claim(claim("a", 1).waits(time.Minute))
		r.apply(coordinator.SessionLost{})
		r.apply(coordinator.SessionOpened{})
		want(t, r.assign(job("t1")))
		engine.CheckIndexes(t, r.Engine)
	})
}

// TestNothingIsPushedToWhoPulls, whatever the strategy would like, and the task says why.
func TestNothingIsPushedToWhoPulls(t *testing.T) {
	r := ready(t, policyOf(worker("a").pulls(coordinator.PullShared)))
	want(t, r.assign(job("t1")))
	if why := r.whyNot("a"); why != coordinator.Pulling {
		t.Errorf("a is %s, want pulling", why)
	}
	want(t, r.pass(30*time.Second), "fail t1 not_claimed")
}

// TestNoPartForWhoDoesNotPullAnyMore: a and b have claimed, equally fast; then b is one
// that is pushed to. It is busy, so that four tasks wait: all are a's part.
func TestNoPartForWhoDoesNotPullAnyMore(t *testing.T) {
	r := ready(t, policyOf(worker("a").slots(9).pulls(coordinator.PullShared),
		worker("b").slots(9).pulls(coordinator.PullShared)))
	r.claim(claim("a", 9).rate(1))
	r.claim(claim("b", 9).rate(1))
	r.apply(coordinator.PolicyChanged{Policy: &policyOf(worker("a").slots(9).pulls(coordinator.PullShared),
		worker("b").slots(9)).Policy})
	r.hear(beat("b").status(coordinator.StatusBusy))
	r.wait(1, 4)
	want(t, r.claim(claim("a", 4).rate(1)), "dispatch t1.1 a", "dispatch t2.1 a", "dispatch t3.1 a", "dispatch t4.1 a",
		"granted 4 to a ")
}

// TestFairParts is BALANCING's example: 49 items and 16, 8 and 4 items a second make
// 28, 14 and 7, whichever asks first and however much it asks for. The literal mode alone
// gives what is asked for.
func TestFairParts(t *testing.T) {
	crew := func(mode coordinator.PullMode) *policyBuilder {
		return policyOf(worker("a1").slots(60).pulls(mode), worker("a2").slots(60).pulls(mode),
			worker("a3").slots(60).pulls(mode))
	}
	rates := map[coordinator.AgentID]float64{"a1": 16, "a2": 8, "a3": 4}
	r := ready(t, crew(coordinator.PullShared))
	for id, rate := range rates { // all have asked once, so that all have a part
		want(t, r.claim(claim(id, 50).rate(rate)), fmt.Sprintf("granted 0 to %s no_unclaimed_items", id))
	}
	r.wait(1, 49)
	for _, c := range []struct {
		agent coordinator.AgentID
		part  int
	}{{"a3", 7}, {"a1", 28}, {"a2", 14}} {
		lines := r.claim(claim(c.agent, 50).rate(rates[c.agent]))
		if got, last := len(lines)-1, lines[len(lines)-1]; got != c.part {
			t.Errorf("%s gets %d (%s), want %d", c.agent, got, last, c.part)
		}
	}
	r = ready(t, crew(coordinator.PullLiteral))
	for id, rate := range rates {
		r.claim(claim(id, 50).rate(rate))
	}
	r.wait(1, 49)
	if lines := r.claim(claim("a3", 40).rate(4)); len(lines) != 41 {
		t.Errorf("the literal mode gives %d, want 40", len(lines)-1)
	}
}

// TestClaimWaitsWhileTheFleetGrows beyond a word of the sets in which agents are kept,
// while a task waits that is none of its business.
func TestClaimWaitsWhileTheFleetGrows(t *testing.T) {
	crew := []*specBuilder{worker("a00").pulls(coordinator.PullShared)}
	for i := 1; i < 64; i++ {
		crew = append(crew, worker(coordinator.AgentID(fmt.Sprintf("a%02d", i))).can("go"))
	}
	r := ready(t, policyOf(crew...).route("go", "go"))
	want(t, r.claim(claim("a00", 1).waits(time.Minute)))
	for i := 1; i < 64; i++ {
		r.hear(beat(coordinator.AgentID(fmt.Sprintf("a%02d", i))).active(1))
	}
	want(t, r.assign(job("t1").kind("go")))
	crew = append(crew, worker("z").can("go"))
	want(t, r.apply(coordinator.PolicyChanged{Policy: &policyOf(crew...).route("go", "go").Policy}))
	want(t, r.assign(job("t2")), "dispatch t2.1 a00", "granted 1 to a00 ")
}

// TestClaimThatGetsNothingEnds: a task lacks quota of its own for the only agent that has it pushed.
// One that pulls could have it and has asked, but has no slot. The task is looked at once for that
// claim, and not for ever, again after each time that no agent can have it.
func TestClaimThatGetsNothingEnds(t *testing.T) {
	q := quotasOf().group("team", 1, nil).agent("a", "team", seats(1))
	p := patient(policyOf(worker("a").slots(2), worker("b").pulls(coordinator.PullShared)).quotas(q))
	r := ready(t, p)
	r.hear(beat("b").active(1).available(0))
	want(t, r.assign(job("t1").of("team")), "dispatch t1.1 a") // the seat of a
	want(t, r.assign(job("t2").of("team")))
	want(t, r.claim(claim("b", 1).waits(time.Minute))) // or it never returns
	want(t, r.hear(beat("b")), "dispatch t2.1 b", "granted 1 to b ")
	engine.CheckIndexes(t, r.Engine)
}

// TestClaimsOfAgentsThatLeft: two agents leave a large fleet while their claims wait, and tasks that others do.
func TestClaimsOfAgentsThatLeft(t *testing.T) {
	policy := func(n int) *coordinator.Policy {
		crew := []*specBuilder{worker("z").can("only")}
		for i := range n {
			id := coordinator.AgentID(fmt.Sprintf("a%03d", i))
			crew = append(crew, worker(id).can("go").pulls(coordinator.PullShared))
		}
		return &policyOf(crew...).route("any", "only").Policy
	}
	r := ready(t, &policyBuilder{*policy(130)})
	for i := range 130 { // 128 of them have a plan that answers may tell of twice
		r.claim(claim(coordinator.AgentID(fmt.Sprintf("a%03d", i)), 1).waits(time.Minute))
	}
	for i := range 3 { // z has one slot
		r.assign(job(coordinator.TaskID(fmt.Sprint("t", i))))
	}
	want(t, r.apply(coordinator.PolicyChanged{Policy: policy(128)}),
		"granted 0 to a128 unknown_agent", "granted 0 to a129 unknown_agent")
}
