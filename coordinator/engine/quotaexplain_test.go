package engine_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/fairshare"
)

// An explanation of how a task would be decided names the quota that it lacks or waits for, and when
// that is back; and the agent that would have it with quota.
func TestExplainSaysWhatQuotaIsLacking(t *testing.T) {
	midnight := time.Date(2030, 1, 2, 0, 0, 0, 0, time.UTC)
	used := func(asked int) string {
		return fmt.Sprintf(
			"too little is left of the budget of pool/team in total_tokens: 100 left, %d asked; back when something of it ends",
			asked)
	}
	r := ready(t, policyOf(worker("a").slots(4), worker("b").slots(4)).
		quotas(quotasOf().group("team", 1, daily(1000)).group("free", 1, nil)))
	r.give(job("runs").of("team").tokens(600, 300))
	want(t, r.assign(job("waits").of("team").tokens(300, 300)))
	for name, c := range map[string]struct {
		task   *taskBuilder
		agent  coordinator.AgentID
		reason coordinator.Reason
		text   string // in Decision.Text
	}{
		"it waits": {job("waits").of("team").tokens(300, 300), "b", coordinator.ReasonQuotaExhausted,
			"would go to b once its quota allows: " + used(600) + " (b by capability_match, best of 2 eligible among 2 agents)"},
		"it would lack some": {job("new").of("team").prio(coordinator.PriorityHigh).tokens(200, 300), "b",
			coordinator.ReasonQuotaExhausted,
			"would go to b once its quota allows: " + used(500)},
		"it would wait behind who waits": {job("new").of("team").tokens(1, 1), "b", coordinator.ReasonQuotaExhausted,
			"would go to b once its quota allows: " + used(600)},
		"it goes before who waits": {job("new").of("team").prio(coordinator.PriorityHigh).tokens(1, 1), "b",
			coordinator.ReasonNone, "b by capability_match"},
		"it has what it needs": {job("runs").of("team").tokens(600, 300), "b", coordinator.ReasonNone,
			"b by capability_match"},
		"another group's": {job("new").of("free").tokens(1e6, 1), "b", coordinator.ReasonNone,
			"b by capability_match"},
		"more than there ever is": {job("new").of("team").tokens(900, 101), "", coordinator.ReasonExceedsQuota,
			"2 of 2 agents eligible"},
	} {
		c.task.AcceptedAt = r.now
		d, reason, text := r.Explain(r.now, &c.task.Task)
		if d.Agent != c.agent || reason != c.reason || !strings.HasPrefix(d.Text(), c.text) {
			t.Errorf("%s: %s, %s: %q", name, d.Agent, reason, d.Text())
		}
		lacks := reason == coordinator.ReasonQuotaExhausted
		if l := d.Lacks; lacks != (l != nil) || lacks && (!strings.Contains(c.text, text) || l.Text != text ||
			!l.RetryAt.Equal(midnight) ||
			l.Node != "pool/team" || l.Limit != "budget" || l.Dimension != coordinator.DimTotalTokens) {
			t.Errorf("%s: %q, %+v", name, text, l)
		}
	}
	if e, _, _ := r.Explain(r.now, &job("new").of("team").tokens(900, 101).Task); e.Lacks != nil {
		t.Errorf("it waits for nothing: %+v", e.Lacks)
	}
	// Nothing was charged or dispatched by all these questions, and what waits still does.
	r.used("pool/team", 0, 900)
	want(t, r.tell(says("a", "runs").used(300, 100)), "completed runs.1 a succeeded", "quota pool/team total_tokens 100%",
		"dispatch waits.1 b")
}

// While every agent is busy a task that waits for quota does not wait for an agent.
func TestExplainOfAParkedTaskWhileAgentsAreBusy(t *testing.T) {
	r := ready(t, policyOf(worker("a")).quotas(quotasOf().group("team", 1, daily(100)).group("free", 1, nil)))
	r.give(job("t1").of("team").tokens(90, 10))
	r.tell(says("a", "t1").used(90, 10))
	want(t, r.assign(job("t2").of("team").tokens(1, 1)))
	r.give(job("f1").of("free"))
	d, reason, _ := r.Explain(r.now, &job("t2").of("team").tokens(1, 1).Task)
	if reason != coordinator.ReasonQuotaExhausted || d.Agent != "" ||
		d.Text() != "0 of 1 agents eligible: 1 full; nearest: a (full); it waits for quota, too: "+
			"the budget of pool/team in total_tokens is used up; back at 2030-01-02T00:00:00Z" {
		t.Errorf("%s: %q", reason, d.Text())
	}
	// One that has not come yet would wait for an agent first.
	if _, reason, _ := r.Explain(r.now, &job("t3").of("team").tokens(1, 1).
		Task); reason != coordinator.ReasonAllAgentsAtCapacity {
		t.Errorf("%s", reason)
	}
}

// Where agents have quota of their own the one that is named is one that has some; and if none
// has, the time is when the first of them does.
func TestExplainOfAgentsWithQuotaOfTheirOwn(t *testing.T) {
	own := func(per time.Duration) func(*coordinator.QuotaNode) {
		return func(n *coordinator.QuotaNode) {
			n.Rates[coordinator.DimRequests] = &coordinator.QuotaLimit{Nominal: 1, Per: per, Burst: 1}
		}
	}
	r := ready(t, policyOf(worker("a").slots(9), worker("b").slots(9)).
		quotas(quotasOf().group("team", 1, nil).agent("a", "team", own(time.Hour)).agent("b", "team", own(time.Minute))))
	ask := func() (*coordinator.Decision, coordinator.Reason) {
		d, reason, _ := r.Explain(r.now, &job("new").of("team").Task)
		return d, reason
	}
	for _, agent := range []coordinator.AgentID{"a", "b"} {
		d, reason := ask()
		if reason != coordinator.ReasonNone || d.Lacks != nil {
			t.Errorf("%s: %+v", reason, d.Lacks)
		}
		want(t, r.assign(job("t"+coordinator.TaskID(agent)).of("team")), "dispatch t"+string(agent)+".1 "+string(d.Agent))
	}
	d, reason := ask()
	if reason != coordinator.ReasonQuotaExhausted || d.Lacks == nil || d.Lacks.Node != "pool/team/b" ||
		!d.Lacks.RetryAt.Equal(r.now.Add(time.Minute)) {
		t.Errorf("%s: %+v", reason, d.Lacks)
	}
}

// One that would be offered to agents first is not while it lacks quota.
func TestExplainOfAnAuctionThatWaitsForQuota(t *testing.T) {
	for name, q := range map[string]*quotaTree{
		"the group's": quotasOf().group("team", 1, requests(1, 1)),
		// A seat comes back when something ends: it is not known when.
		"each agent's seat": quotasOf().group("team", 1, nil).agent("a", "team", seats(1)).agent("b", "team", seats(0)),
	} {
		t.Run(name, func(t *testing.T) {
			r := ready(t, policyOf(worker("a").slots(5), worker("b").slots(5)).market(everybody).quotas(q))
			first := job("first").of("team").by("market")
			r.assign(first)
			r.pass(time.Second)
			if len(r.dispatches) != 1 {
				t.Fatalf("%d go", len(r.dispatches))
			}
			d, reason, text := r.Explain(r.now, &job("second").of("team").by("market").Task)
			if reason != coordinator.ReasonQuotaExhausted || d.Lacks == nil || !strings.HasPrefix(d.Lacks.Node, "pool/team") ||
				text != d.Lacks.Text {
				t.Fatalf("%s %q %+v", reason, text, d.Lacks)
			}
			want(t, r.assign(job("second").of("team").by("market"))) // no agent is asked
			if lack, ok := r.LacksQuota(&job("second").of("team").Task); !ok || lack != text {
				t.Errorf("it waits for %q, and would for %q", lack, text)
			}
		})
	}
}

// What a budget lacks is said with what is left, lent and asked, and that a bound on borrowing is what is in the way.
func TestLackOfABudget(t *testing.T) {
	for want, v := range map[string]fairshare.Verdict{
		"too little is left of the budget of x in cost_usd: $2.4167 left, $10 asked; back when something of it ends": {
			Left: 2_416_700, Asked: 10_000_000},
		"the budget of x in cost_usd is used up ($7 lent to others); back when something of it ends": {
			Lent: 7_000_000, Asked: 1},
		"y may not borrow so much cost_usd: $1 left, $3 asked; back when something of it ends": {
			By: "y", Left: 1_000_000, Asked: 3_000_000},
		"others leave too little of the budget of x in cost_usd so far: $3 to be borrowed; back when something of it ends": {
			Left: 9_000_000, Asked: 3_000_000},
	} {
		v.Node, v.Dimension, v.Limit = "x", coordinator.DimCost, fairshare.LimitBudget
		if got := v.Describe(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
