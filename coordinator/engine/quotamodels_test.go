package engine_test

import (
	"strings"
	"testing"
	"time"

	"taskbus/config/quotas"
	"taskbus/coordinator"
	"taskbus/coordinator/engine"
)

// under reads a quotas.yaml.
func (b *policyBuilder) under(t testing.TB, text string) *policyBuilder {
	t.Helper()
	quotas, err := quotas.Parse([]byte(text), "quotas.yaml")
	if err != nil {
		t.Fatal(err)
	}
	b.Quotas = quotas
	return b
}

// with is the model of openai that the task is to use.
func (b *taskBuilder) with(model string) *taskBuilder {
	b.EstimatedUsage.Provider, b.EstimatedUsage.Model = "openai", model
	return b
}

// holds checks what is used and set aside of a node's budget in a dimension.
func (r *rig) holds(node string, d coordinator.Dimension, used, reserved int64) {
	r.t.Helper()
	n, _ := r.Ledger().Node(r.now, node)
	for _, b := range n.Budgets {
		if b.Dimension == d {
			if b.Used != used || b.Reserved != reserved {
				r.t.Errorf("%s of %s: %d used and %d set aside, want %d and %d", d, node, b.Used, b.Reserved, used, reserved)
			}
			return
		}
	}
	r.t.Errorf("%s has no budget of %s", node, d)
}

// A model's budget is its own calls' alone: when it is used up its sibling and a model that is not
// listed go on, up to what the provider allows for all of them.
func TestQuotaOfAModel(t *testing.T) {
	r := ready(t, patient(policyOf(worker("a").slots(100)).under(t, `
groups: [{id: team}]
providers:
  - provider: openai
    limits: {output_tokens: {amount: 100, per: day}}
    models:
      - {model: big, limits: {input_tokens: {amount: 500, per: day}}}
      - {model: small}
`)))
	big, all := "openai/big", "openai"
	const in, out = coordinator.DimInputTokens, coordinator.DimOutputTokens
	want(t, r.assign(job("b1").of("team").tokens(400, 30).with("big")), "quota openai/big input_tokens 80%",
		"dispatch b1.1 a")
	want(t, r.assign(job("b2").of("team").tokens(101, 10).with("big"))) // 400 + 101 > 500
	want(t, r.assign(job("s1").of("team").tokens(1000, 30).with("small")), "dispatch s1.1 a")
	want(t, r.assign(job("n1").of("team").tokens(1000, 30).with("new")), // 30 + 30 + 30 of 100
		"quota openai output_tokens 80%", "quota openai output_tokens 90%", "dispatch n1.1 a")
	r.holds(big, in, 0, 400)
	r.holds(all, out, 0, 90)
	for _, model := range []string{"small", "new"} { // 90 + 11 > 100
		want(t, r.assign(job(coordinator.TaskID("over-"+model)).of("team").tokens(1, 11).with(model)))
	}
	// What no limit ever allows fails, by the limit of the one that has one.
	want(t, r.assign(job("b3").of("team").tokens(501, 1).with("big")), "fail b3 exceeds_quota")
	want(t, r.assign(job("n2").of("team").tokens(501, 101).with("new")), "fail n2 exceeds_quota")
	for i, limit := range []string{"input_tokens at once than the budget of openai/big ever",
		"output_tokens at once than the budget of openai ever"} {
		if text := r.failures[i].Failure.Text; !strings.Contains(text, limit) {
			t.Errorf("it says %q, want %q", text, limit)
		}
	}
	// b1 has used 1 less of one, and 10 less of the other: b2 fits exactly, 399 + 101 of 500 and 80 + 10 of 100,
	// and the others lack 1 still: 90 + 11.
	want(t, r.tell(says("a", "b1").used(399, 20)), "completed b1.1 a succeeded",
		"quota openai/big input_tokens 90%", "quota openai/big input_tokens 100%", "dispatch b2.1 a")
	r.holds(big, in, 399, 101)
	r.holds(all, out, 20, 70)
	// 89 + 11
	want(t, r.tell(says("a", "b2").used(101, 9)), "completed b2.1 a succeeded", "quota openai output_tokens 100%",
		"dispatch over-small.1 a")
	// The day is over: what waits goes.
	r.tell(says("a", "s1").used(1000, 30))
	r.tell(says("a", "n1").used(1000, 30))
	want(t, r.pass(12*time.Hour-2*interval))
	want(t, r.pass(interval), "dispatch over-new.1 a")
	engine.CheckIndexes(t, r.Engine)
}

// The same with rates: a model's paces its own calls, the provider's all of them.
func TestQuotaRateOfAModel(t *testing.T) {
	r := ready(t, patient(policyOf(worker("a").slots(100)).under(t, `
groups: [{id: team}]
providers:
  - provider: openai
    limits: {input_tokens: {rate: 100, per: second}}
    models:
      - {model: big, limits: {output_tokens: {rate: 10, per: second, burst: 20}}}
      - {model: small}
`)))
	want(t, r.assign(job("b1").of("team").tokens(40, 20).with("big")), "dispatch b1.1 a")
	want(t, r.assign(job("b2").of("team").tokens(10, 10).with("big"))) // in 1 s there are 10 output tokens
	want(t, r.assign(job("s1").of("team").tokens(30, 900).with("small")), "dispatch s1.1 a")
	want(t, r.assign(job("n1").of("team").tokens(30, 900).with("new")), "dispatch n1.1 a") // 40 + 30 + 30 of 100
	want(t, r.assign(job("n2").of("team").tokens(20, 900).with("new")))                    // in 200 ms there are 20
	want(t, r.pass(199*time.Millisecond))
	want(t, r.pass(time.Millisecond), "dispatch n2.1 a")
	want(t, r.pass(799*time.Millisecond))
	want(t, r.pass(time.Millisecond), "dispatch b2.1 a")
	engine.CheckIndexes(t, r.Engine)
}

// Below a model that is shared by weight an agent has its part as in the pool: one that has used its part does
// not keep the task from another, and what no agent has is waited for. Of 120 output tokens a minute
// team has the half; a third of that is a's, two thirds are b's. They borrow nothing.
func TestQuotaOfAnAgentBelowAModel(t *testing.T) {
	r := ready(t, patient(policyOf(worker("a").slots(100), worker("b").slots(100)).by("round_robin").under(t, `
groups: [{id: team}, {id: rest}]
agents: [{id: a, group_id: team}, {id: b, group_id: team, weight: 2}]
providers:
  - provider: openai
    borrowing: {rule: never}
    models:
      - {model: big, limits: {output_tokens: {amount: 120, per: minute}}, share: by_weight}
`)))
	task := func(id coordinator.TaskID) *taskBuilder { return job(id).of("team").tokens(1, 20).with("big") }
	for i, agent := range []string{"a", "b", "b"} { // the third would be a's turn, which had 60/3 = 20
		id := coordinator.TaskID([]string{"t1", "t2", "t3"}[i])
		want(t, keepDispatches(r.assign(task(id))), "dispatch "+string(id)+".1 "+agent)
	}
	want(t, r.assign(task("t4"))) // 20 and 40 are set aside
	r.holds("openai/big/team", coordinator.DimOutputTokens, 0, 60)
	r.holds("openai/big/team/a", coordinator.DimOutputTokens, 0, 20)
	r.holds("openai/big/team/b", coordinator.DimOutputTokens, 0, 40)
	// b has used 20 less: the next is its own again.
	want(t, keepDispatches(r.tell(says("b", "t2").used(1, 0))), "dispatch t4.1 b")
	engine.CheckIndexes(t, r.Engine)
}
