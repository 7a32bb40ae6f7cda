package service

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"taskbus/config/quotas"
	"taskbus/coordinator"
	"taskbus/coordinator/bus"
	"taskbus/coordinator/httpapi"
	"taskbus/coordinator/view"
	"taskbus/schemas"
)

// limited are two groups of 1,000 and 10,000 tokens a day, and a provider of 2 requests a
// second.
const limited = `
groups:
  - {id: poor, weight: 1, limits: {total_tokens: {amount: 1000, per: day}}}
  - {id: rich, weight: 3, provider: openai, limits: {total_tokens: {amount: 10000, per: day}, cost_usd: {amount: 5, per: day}}}
agents:
  - {id: a1, group_id: poor}
providers:
  - {provider: openai, limits: {requests: {rate: 2, per: second, burst: 2}}}
prices:
  - {provider: openai, per_request: 0.5}
  - {provider: nobody, per_request: 0}
`

// quotaFleet is two agents of many slots each, and time to wait.
const quotaFleet = `
agents:
  a1: {capabilities: [go], max_concurrent_tasks: 10, health_check_interval: 5}
task_routing:
  build: {required_capabilities: [go]}
global_settings: {assignment_timeout_seconds: 30, assignment_timeout_counts: waiting}
`

func inQuotaRig(t *testing.T, test func(r *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, quotaFleet)
		r.limit()
		r.start()
		defer r.close()
		r.tenSlots()
		test(r)
	})
}

// limit gives a coordinator that has not started the quotas.
func (r *rig) limit() {
	r.t.Helper()
	r.under(limited)
}

// under gives it other quotas, as before it starts.
func (r *rig) under(text string) {
	r.t.Helper()
	r.service.controls.Under(r.service.config.Load().WithQuotas(quotasIn(r.t, text)))
}

// quotasIn reads a quotas.yaml.
func quotasIn(t *testing.T, text string) *coordinator.Quotas {
	t.Helper()
	q, err := quotas.Parse([]byte(text), "quotas.yaml")
	if err != nil {
		t.Fatalf("quotas of the test: %v", err)
	}
	return q
}

// tenSlots reports a1 as idle.
func (r *rig) tenSlots(properties ...func(*bus.Properties)) {
	r.t.Helper()
	r.publish(bus.StreamStatus, fmt.Sprintf(
		`{"message_type":"agent.status","agent_id":"a1","status":"ready","current_load":0.0,"active_tasks":0,`+
			`"available_capacity":10,"timestamp":%q}`,
		time.Now().Format(time.RFC3339Nano)), properties...)
}

func (r *rig) quotas(of view.QuotaSelection) map[string]view.QuotaNode {
	r.t.Helper()
	of.Limit = 1000
	q, err := r.service.Quotas(context.Background(), of)
	if err != nil {
		r.t.Fatal(err)
	}
	nodes := make(map[string]view.QuotaNode)
	for _, n := range q.Nodes {
		nodes[n.ID] = n
	}
	return nodes
}

func usage(in, out int, group string) string {
	return fmt.Sprintf(`,"group":%q,"estimated_usage":{"input_tokens":%d,"output_tokens":%d}`, group, in, out)
}

// A group that has used its quota up: as an event, a log line, in the reads, the explanation of a task that
// waits for it, and when that fails.
func TestQuotaUsedUp(t *testing.T) {
	inQuotaRig(t, func(r *rig) {
		set, err := schemas.Compile()
		if err != nil {
			t.Fatal(err)
		}
		bindAll(r)
		r.task("t-1", "build", usage(700, 210, "poor")) // 910 of 1,000
		r.task("t-2", "build", usage(50, 50, "poor"))   // 1,010
		r.task("t-3", "build", usage(10, 10, "poor"))   // waits behind t-2

		told := r.events(schemas.QuotaReached) // of the group, and not of its agent's part, which is all of it
		if len(told) != 2 || told[0].text("node") != "pool/poor" || told[0].fields["percent"] != 80. ||
			told[1].fields["percent"] != 90. || told[1].fields["used"] != 910. ||
			told[1].fields["limit"] != 1000. || told[1].RoutingKey != "quota.reached.90" ||
			told[1].text("dimension") != "total_tokens" {
			t.Errorf("told: %v", told)
		}
		for _, m := range told {
			if err := set.Validate(schemas.QuotaReached, any(m.fields)); err != nil {
				t.Errorf("%v\n%s", err, m.Body)
			}
		}
		if n := strings.Count(r.log.String(), "a quota has come to this part of its limit"); n != 2 {
			t.Errorf("%d lines of it in the log", n)
		}

		x := r.explained("t-3")
		if x.State != "pending" || !strings.HasPrefix(x.Reason,
			"waits for quota: too little is left of the budget of pool/poor in total_tokens: 90 left, 100 asked; back when "+
				"something of it ends") || x.Queued == nil {
			t.Fatalf("%+v", x)
		}
		tomorrow := time.Now().UTC().Truncate(24 * time.Hour).Add(24 * time.Hour)
		if q := x.Queued; q.Group != "poor" || q.Ahead != 1 || q.Quota == nil || q.Quota.Node != "pool/poor" ||
			q.Quota.Limit != "budget" || !q.Quota.RetryAt.Equal(tomorrow) ||
			q.CostBefore <= 0 || q.StartsWithin <= 0 || q.Unbounded != "" ||
			q.Text != "1 of 2 tasks of group poor with priority normal go before it" || !strings.HasPrefix(q.Start, "within ") ||
			!strings.Contains(q.Start, ", for 24 h of which quota may keep it") ||
			q.QuotaDelay != time.Until(tomorrow).Seconds() || q.StartsLikely <= q.QuotaDelay {
			t.Errorf("%+v", q)
		}
		if brief, _ := r.service.Task(context.Background(), "t-3"); brief.Queued == nil || brief.Reason != x.Reason {
			t.Errorf("in brief: %+v", brief)
		}
		for _, k := range r.service.Tasks(context.Background(), view.TaskFilter{State: "pending"}) {
			if k.Reason != x.Reason {
				t.Errorf("in the list: %s: %q", k.ID, k.Reason)
			}
		}

		n := r.quotas(view.QuotaSelection{Group: "poor"})
		if b := n["pool/poor"].Budgets[0]; b.Limit != 1000 || b.Reserved != 910 || b.Used != 0 || b.Remaining != 90 ||
			!b.ResetTime.Equal(tomorrow) || len(n) != 2 {
			t.Errorf("%d nodes, %+v; want that of the group and of its agent", len(n), b)
		}
		if n := r.quotas(view.QuotaSelection{Agent: "a1"}); len(n) != 2 || n["pool/poor/a1"].Kind != "agent" {
			t.Errorf("the agent and its group: %v", n)
		}
		if n := r.quotas(view.QuotaSelection{Provider: "openai"}); len(n) != 1 || n["openai"].Rates[0].Burst != 2 {
			t.Errorf("the provider: %v", n)
		}
		// dollars
		if n := r.quotas(view.QuotaSelection{Node: "pool/rich"}); len(n) != 1 || n["pool/rich"].Budgets[1].Limit != 5 {
			t.Errorf("the node: %v", n)
		}

		r.pass(31 * time.Second)
		failed := r.in(bus.QueueFailed)
		if len(failed) != 2 || failed[0].text("reason_code") != "quota_exhausted" || failed[0].text("retry_at") == "" {
			t.Fatalf("failed: %v", failed)
		}
		if err := set.Validate(schemas.AssignmentFailed, any(failed[0].fields)); err != nil {
			t.Errorf("%v\n%s", err, failed[0].Body)
		}
		if k, _ := r.service.Task(context.Background(), "t-2"); !k.RetryAt.Equal(tomorrow) ||
			k.ReasonCode != "quota_exhausted" {
			t.Errorf("%+v", k)
		}
		r.task("t-4", "build", usage(900, 101, "poor"))
		if last := r.in(bus.QueueFailed); last[len(last)-1].text("reason_code") != "exceeds_quota" ||
			last[len(last)-1].fields["retry_at"] != nil {
			t.Errorf("what never fits: %v", last[len(last)-1].fields)
		}

		r.tenSlots()
		r.task("t-5", "build", usage(80, 10, "poor")) // 910 + 90 are exactly the 1,000
		told = r.events(schemas.QuotaReached)
		if len(told) != 3 {
			t.Fatalf("told: %v", told)
		}
		m := told[2]
		if m.text("node") != "pool/poor" || m.RoutingKey != "quota.reached.100" || m.fields["percent"] != 100. ||
			m.fields["used"] != 1000. || m.fields["limit"] != 1000. ||
			m.text("dimension") != "total_tokens" || m.text("resets_at") != tomorrow.Format("2006-01-02T15:04:05.000000Z") {
			t.Errorf("told: %s %v", m.RoutingKey, m.fields)
		}
		if err := set.Validate(schemas.QuotaReached, any(m.fields)); err != nil {
			t.Errorf("%v\n%s", err, m.Body)
		}
	})
}

// A task that may go to several models: its dispatch names the one that is charged, the result settles it
// there, and explanations say why it was chosen, or what each lacks.
func TestTaskWithAlternatives(t *testing.T) {
	const twoModels = `
groups: [{id: team}]
providers:
  - {provider: openai, limits: {total_tokens: {amount: 1000, per: day}}}
  - {provider: lab, limits: {total_tokens: {amount: 500, per: hour}}}
alert_percents: []
`
	const either = `,"group":"team","estimated_usage":{"input_tokens":%d,"output_tokens":100,` +
		`"alternatives":[{"provider":"openai","model":"big"},{"provider":"lab"}]}`
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, quotaFleet)
		r.under(twoModels)
		r.start()
		defer r.close()
		r.tenSlots()
		set, err := schemas.Compile()
		if err != nil {
			t.Fatal(err)
		}
		r.task("t-1", "build", fmt.Sprintf(either, 700)) // 800 of 1,000; the lab's hour has 500
		r.task("t-2", "build", fmt.Sprintf(either, 200)) // 300 of 500
		r.task("t-3", "build", fmt.Sprintf(either, 200)) // neither has as much left
		sent := r.in("agent.a1")
		if len(sent) != 2 || sent[0].text("provider") != "openai" || sent[0].text("model") != "big" ||
			sent[1].text("provider") != "lab" || sent[1].fields["model"] != nil {
			t.Fatalf("sent: %v", sent)
		}
		for _, m := range sent {
			if err := set.Validate(schemas.TaskDispatch, any(m.fields)); err != nil {
				t.Errorf("%v\n%s", err, m.Body)
			}
		}
		charged := func(provider string) [2]float64 {
			b := r.quotas(view.QuotaSelection{Provider: provider})[provider].Budgets[0]
			return [2]float64{b.Used, b.Reserved}
		}
		if o, l := charged("openai"), charged("lab"); o != [2]float64{0, 800} || l != [2]float64{0, 300} {
			t.Errorf("used and set aside: %v with openai, %v with the lab", o, l)
		}

		why := func(x *view.Explanation) (all []string) {
			for _, m := range x.Routes {
				all = append(all, fmt.Sprintf("%s %v: %s", m.Pool, m.Chosen, m.Why))
			}
			return all
		}
		made, waits := r.explained("t-2"), r.explained("t-3")
		lacksLab :=
			"lab false: it has no quota: too little is left of the budget of lab in total_tokens: 200 left, 300 asked; back " +
				"when something of it ends"
		if got := why(made.Explanation); len(got) != 2 ||
			!strings.HasPrefix(got[0],
				"openai false: it has no quota: too little is left of the budget of openai in total_tokens: 200 left, 300 asked;"+
					" back when something of it ends") || got[1] != "lab true: it alone has quota now" ||
			made.Explanation.Routing == nil {
			t.Errorf("why it was sent there: %q", got)
		}
		if got := why(waits.Explanation); len(got) != 2 || !strings.HasPrefix(got[1], lacksLab) ||
			!strings.HasPrefix(waits.Reason, "waits for quota: too little is left of the budget of lab ") {
			t.Errorf("what it waits for: %q, %q", got, waits.Reason)
		}
		for _, k := range r.service.Tasks(context.Background(), view.TaskFilter{}) {
			if k.Explanation != nil && (k.Explanation.Routes != nil || k.Explanation.Routing != nil) {
				t.Errorf("%s has them in the list", k.ID)
			}
		}

		// It waits for the lab, which has room again first, and goes where something comes back.
		r.result("a1", "t-1", "succeeded", `,"usage":{"input_tokens":400,"output_tokens":100}`)
		if sent = r.in("agent.a1"); len(sent) != 3 || sent[2].text("task_id") != "t-3" ||
			sent[2].text("provider") != "openai" || sent[2].text("model") != "big" {
			t.Fatalf("sent: %v", sent)
		}
		r.result("a1", "t-2", "succeeded", `,"usage":{"input_tokens":40,"output_tokens":10}`)
		if o, l := charged("openai"), charged("lab"); o != [2]float64{500, 300} || l != [2]float64{50, 0} {
			t.Errorf("in the end: %v with openai, %v with the lab", o, l)
		}
	})
}

// A question is answered with what binds, and changes nothing.
func TestExplainQuota(t *testing.T) {
	inQuotaRig(t, func(r *rig) {
		ask := func(q view.QuotaQuestion) view.QuotaAnswer {
			t.Helper()
			a, err := r.service.ExplainQuota(context.Background(), q)
			if err != nil {
				t.Fatal(err)
			}
			return a
		}
		a := ask(view.QuotaQuestion{Group: "rich", InputTokens: 500, OutputTokens: 500})
		if !a.Admitted || a.Reason != "there is quota" || a.Provider != "openai" || a.Amounts["cost_usd"] != 0.5 ||
			a.Amounts["total_tokens"] != 1000 || strings.Join(a.Nodes, " ") != "pool/rich pool openai" {
			t.Errorf("%+v", a)
		}
		a = ask(view.QuotaQuestion{Group: "poor", InputTokens: 500, OutputTokens: 501})
		if a.Admitted || !a.Permanent || a.Node != "pool/poor" || a.Dimension != "total_tokens" || a.Limit != "budget" ||
			!strings.Contains(a.Reason, "more total_tokens at once") {
			t.Errorf("%+v", a)
		}
		// A call may go to OpenAI or to a provider without limits: one is chosen, and it is said of both why.
		a = ask(view.QuotaQuestion{Agent: "a1", Group: "rich", InputTokens: 1, OutputTokens: 1,
			Alternatives: []coordinator.Service{{Provider: "openai"}, {Provider: "nobody"}}})
		if !a.Admitted || a.Group != "rich" || len(a.Routes) != 2 || a.Routes[0].Why == "" || a.Routes[1].Why == "" ||
			a.Routes[0].Chosen == a.Routes[1].Chosen || a.Routing == nil {
			t.Errorf("%+v", a)
		}
		for range 2 {
			r.task(fmt.Sprint("t-", time.Now().UnixNano()), "build", usage(1, 1, "rich"))
		}
		a = ask(view.QuotaQuestion{Group: "rich", InputTokens: 1, OutputTokens: 1,
			Alternatives: []coordinator.Service{{Provider: "openai"}, {Provider: "nobody"}}})
		if !a.Admitted || a.Provider != "nobody" || a.Routes[1].Why != "it alone has quota now" ||
			!strings.HasPrefix(a.Routes[0].Why, "it has no quota: the rate of openai in requests") {
			t.Errorf("%+v", a)
		}
		a = ask(view.QuotaQuestion{Group: "poor", InputTokens: 500, OutputTokens: 501,
			Alternatives: []coordinator.Service{{Provider: "openai"}, {Provider: "nobody"}}})
		if a.Admitted || !a.Permanent ||
			!strings.HasPrefix(a.Reason, "none of the alternatives ever has room for it: it needs more total_tokens at once") {
			t.Errorf("%+v", a)
		}
		// 2 a second: the next in half a second
		a = ask(view.QuotaQuestion{Group: "rich", InputTokens: 1, OutputTokens: 1})
		if a.Admitted || a.Node != "openai" || a.Limit != "rate" || time.Until(a.RetryAt) <= 0 ||
			time.Until(a.RetryAt) > 500*time.Millisecond {
			t.Errorf("%+v", a)
		}
		a = ask(view.QuotaQuestion{Group: "nobody"})
		if a.Admitted || a.GroupKnown || !a.Permanent ||
			!strings.HasPrefix(a.Reason, `quotas.yaml lists no group "nobody"; `) {
			t.Errorf("%+v", a)
		}
		r.service.Reload(withLimits(r, limited+"unknown_callers: allow\n"), nil)
		r.settle()
		if a = ask(view.QuotaQuestion{Group: "nobody"}); !a.Admitted || a.GroupKnown || a.Permanent {
			t.Errorf("allowed: %+v", a)
		}
	})
	inRig(t, fleet, func(r *rig) {
		if _, err := r.service.ExplainQuota(context.Background(), view.QuotaQuestion{}); !errors.Is(err,
			httpapi.ErrNoQuotas) {
			t.Errorf("without quotas: %v", err)
		}
		if _, err := r.service.Quotas(context.Background(), view.QuotaSelection{Limit: 1}); !errors.Is(err,
			httpapi.ErrNoQuotas) {
			t.Errorf("without quotas: %v", err)
		}
	})
}

// A misspelt group is refused as an invalid message is: told, counted, explained and kept.
func TestTaskOfAnUnknownGroupIsRefused(t *testing.T) {
	inQuotaRig(t, func(r *rig) {
		const why = `/group: quotas.yaml lists no group "poro"; did you mean poor? Else correct group, list the group, or ` +
			`set unknown_callers: allow there`
		if p, err := r.service.WhatIf(context.Background(),
			[]byte(taskBody("t-1", "build", `,"group":"poro"`))); err != nil || p.ReasonCode != "invalid_message" ||
			p.Reason != why {
			t.Errorf("before: %+v, %v", p, err)
		}
		r.task("t-1", "build", `,"group":"poro"`)
		if m := r.only(bus.QueueFailed); m.text("reason_code") != "invalid_message" || m.text("reason") != why ||
			m.fields["retry_possible"] != false {
			t.Errorf("told %s", m.Body)
		}
		if m := r.only(bus.QueueDead); m.text("task_id") != "t-1" {
			t.Errorf("kept %s", m.Body)
		}
		if x := r.explained("t-1"); x.State != "failed" || x.ReasonCode != "invalid_message" || x.Reason != why {
			t.Errorf("explained %+v", x)
		}
		if got := scraped(t,
			r.service.options.Registry)[`taskbus_assignments_total{reason="invalid_message",result="failed",`+
			`strategy=""}`]; got != 1 {
			t.Errorf("%g are counted, want 1", got)
		}
		r.task("t-2", "build", `,"group":"poor"`)
		r.only("agent.a1")
	})
}

// A standby shows the same of quotas as the leader, and announces nothing.
func TestStandbyTellsOfQuotas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, second := newRig(t, quotaFleet), newRig(t, quotaFleet)
		second.broker = first.broker
		second.service.options.Bus, second.service.options.Instance = first.broker, "taskbus@second"
		first.limit()
		second.limit()
		first.start()
		second.start()
		first.tenSlots()
		first.task("t-1", "build", usage(700, 210, "poor"))
		first.task("t-2", "build", usage(500, 500, "rich"))
		for _, id := range []string{"pool/poor", "pool/rich"} {
			leads, follows := first.quotas(view.QuotaSelection{Node: id})[id],
				second.quotas(view.QuotaSelection{Node: id})[id]
			if len(leads.Budgets) == 0 || leads.Budgets[0].Reserved == 0 || !reflect.DeepEqual(leads.Budgets, follows.Budgets) {
				t.Errorf("%s: %+v at the one that leads, %+v at the other", id, leads.Budgets, follows.Budgets)
			}
		}
		a, err := second.service.ExplainQuota(context.Background(), view.QuotaQuestion{Group: "poor", InputTokens: 50,
			OutputTokens: 50})
		if err != nil || a.Admitted || a.Node != "pool/poor" && a.Node != "pool/poor/a1" {
			t.Errorf("%+v, %v", a, err)
		}
		if log := second.log.String(); strings.Contains(log, "a quota has come to") {
			t.Errorf("the one that stands by announces quotas:\n%s", log)
		}
		first.close()
		second.close()
	})
}

// onePool are two groups of one pool.
const onePool = `
unpriced: warn
pool: {limits: {total_tokens: {amount: 10000, per: month}, cost_usd: {amount: 1000, per: month}}}
groups:
  - {id: liars, weight: 1, limits: {total_tokens: {amount: 1000, per: month}, cost_usd: {amount: 100, per: month}}}
  - {id: others, weight: 9, limits: {total_tokens: {amount: 9000, per: month}, cost_usd: {amount: 900, per: month}}}
`

// One result of one valid agent, under agents.auth: strict, says that it has used 10^15 of everything. What is
// its group's own is used up, and nine tenths of what the others have are left to them, tokens and dollars. An
// operator reads whose it was: one line for a task, and a number.
func TestUsageBeyondBelief(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, strings.Replace(quotaFleet, "agents:\n", "agents:\n  auth: strict\n", 1))
		r.under(onePool)
		r.start()
		defer r.close()
		as := func(p *bus.Properties) { p.UserID = "a1" }
		r.tenSlots(as)
		r.task("t-1", "build", usage(300, 100, "liars"))
		for range 2 {
			r.result("a1", "t-1", "succeeded",
				`,"usage":{"requests":1,"input_tokens":1e15,"output_tokens":1e15,"cost_usd":1e15}`, as)
		}
		for i := range 8 { // 8,000 of their 9,000, where 8,100 must be left
			id := fmt.Sprintf("t-2%d", i)
			r.task(id, "build", usage(500, 500, "others"))
			r.result("a1", id, "succeeded", `,"usage":{"requests":1,"input_tokens":500,"output_tokens":500,"cost_usd":100}`, as)
		}
		got := r.quotas(view.QuotaSelection{})
		for node, want := range map[string][2]float64{"pool/liars": {1900, 190}, "pool/others": {8000, 800},
			"pool": {9900, 990}} {
			for _, b := range got[node].Budgets {
				if i := slices.Index([]string{"total_tokens", "cost_usd"}, b.Dimension); b.Used != want[i] {
					t.Errorf("%v of %s used by %s, want %v", b.Used, b.Dimension, node, want[i])
				}
			}
		}
		var lines []string
		for text := range strings.Lines(r.log.String()) {
			if strings.Contains(text,
				"a task is said to have used more than can be believed; its group is charged with as much as is") {
				lines = append(lines, text)
			}
		}
		if len(lines) != 1 {
			t.Fatalf("%d lines: %v", len(lines), lines)
		}
		for _, want := range []string{`"level":"warn"`, `"task_id":"t-1"`, `"agent_id":"a1"`, `"group":"liars"`,
			`"dimension":"total_tokens"`, `"estimated":400`, `"reported":2000000000000000`, `"charged":1900`} {
			if !strings.Contains(lines[0], want) {
				t.Errorf("%s is not in %s", want, lines[0])
			}
		}
		if n := r.quotaMetrics()["taskbus_quota_usage_excessive_total held"]; n != 1 {
			t.Errorf("%v are counted", n)
		}
	})
}

// What an operator reads of usage beyond belief is what became of it; a call is none of a task.
func TestUsageExcessiveIsTold(t *testing.T) {
	for _, c := range []struct {
		of      coordinator.UsageExcessive
		text    string
		outcome string
	}{
		{coordinator.UsageExcessive{Task: "t-1", Reported: 5000, Charged: 5000},
			"a task is said to have used over a thousand times what was estimated; its group is charged with it", "charged"},
		{coordinator.UsageExcessive{Task: "t-1", Reported: 5000},
			"a task is said to have used more than can be believed; its group is charged with as much as is", "held"},
		{coordinator.UsageExcessive{Reported: 5000, Charged: 5000},
			"a call is said to have used over a thousand times what was estimated; its group is charged with it", "charged"},
		{coordinator.UsageExcessive{Reported: 5000},
			"a call is said to have used more than can be believed; that was refused, and nothing is charged", "refused"},
	} {
		r := newRig(t, quotaFleet)
		r.service.observe.Effect(c.of)
		if text := r.log.String(); !strings.Contains(text, c.text) || strings.Contains(text, "task_id") != (c.of.Task != "") {
			t.Errorf("of %+v it says %s", c.of, text)
		}
		if n := r.quotaMetrics()["taskbus_quota_usage_excessive_total "+c.outcome]; n != 1 {
			t.Errorf("%v of %s are counted", n, c.outcome)
		}
	}
}

// A question about a task that waits for quota, or would, is answered with the agent, what it lacks and
// when that is back; an agent that is there is not named as if it had been chosen.
func TestWhatIfSaysWhatQuotaIsLacking(t *testing.T) {
	inQuotaRig(t, func(r *rig) {
		r.task("t-1", "build", usage(700, 300, "poor")) // all of 1,000
		r.task("t-2", "build", usage(50, 50, "poor"))
		tomorrow := time.Now().UTC().Truncate(24 * time.Hour).Add(24 * time.Hour)
		const used = "the budget of pool/poor in total_tokens is used up or set aside; back when something of it ends"
		check := func(name string, x *view.Explanation) {
			t.Helper()
			if x == nil || !strings.HasPrefix(x.Text, "would go to a1 once its quota allows: "+used) || x.Quota == nil ||
				x.Quota.Node != "pool/poor" || x.Quota.Dimension != "total_tokens" || x.Quota.Limit != "budget" ||
				!x.Quota.RetryAt.Equal(tomorrow) {
				t.Errorf("%s: %+v", name, x)
			}
		}
		p, err := r.service.WhatIf(context.Background(), []byte(taskBody("t-3", "build", usage(50, 50, "poor"))))
		if err != nil || p.Agent != "a1" || p.ReasonCode != "quota_exhausted" || !strings.HasPrefix(p.Reason, used) ||
			p.SuggestedAction == "" {
			t.Errorf("%v: %+v", err, p)
		}
		check("what if", p.Explanation)
		x := r.explained("t-2")
		check("explain", x.Explanation)
		if !strings.HasPrefix(x.Reason, "waits for quota: "+used) {
			t.Errorf("%q", x.Reason)
		}
		brief, _ := r.service.Task(context.Background(), "t-2")
		check("in brief", brief.Explanation)

		p, _ = r.service.WhatIf(context.Background(), []byte(taskBody("t-3", "build", usage(500, 501, "poor"))))
		if p.Agent != "" || p.ReasonCode != "exceeds_quota" || p.Explanation.Quota != nil ||
			p.Reason != "it needs more total_tokens at once than the budget of pool/poor ever allows" {
			t.Errorf("%+v, %+v", p, p.Explanation)
		}
		p, _ = r.service.WhatIf(context.Background(), []byte(taskBody("t-3", "build", usage(5, 5, "rich"))))
		if p.Agent != "a1" || p.ReasonCode != "" || p.Explanation.Quota != nil {
			t.Errorf("%+v, %+v", p, p.Explanation)
		}
	})
}
