package engine_test

import (
	"fmt"
	"strings"
	"testing"

	"taskbus/coordinator"
	"taskbus/coordinator/engine"
)

// A team of $1 a day, and a model of $100 for a million tokens sent and $200 received. more is what
// quotas.yaml says besides.
func teamOfOneDollar(more string) string { return priced("1", 100) + more + "\n" }

// called is a call through a gateway, of a model.
func called(id, group, provider, model string, in, out float64) *coordinator.Call {
	c := tokens(coordinator.CallConsume, id, in, out)
	c.Agent, c.Group, c.Usage.Provider, c.Usage.Model = "", group, provider, model
	return c
}

// unpricedOf are the effects that tell of models without a price.
func unpricedOf(effects []coordinator.Effect) (all []string) {
	for _, f := range effects {
		if u, is := f.(coordinator.ModelUnpriced); is {
			all = append(all, fmt.Sprintf("%s/%s of %s at %s, refused: %t", u.Service.Provider, u.Service.Model, u.Group, u.Node,
				u.Refused))
		}
	}
	return all
}

// With a budget of money a team cannot get past it by naming a model that has no price: such a call is
// refused for good, whichever is asked again, and told of. What says itself what it costs is no such call.
func TestCallOfAModelWithoutAPrice(t *testing.T) {
	const cost = coordinator.DimCost
	stated := called("3", "team", "openai", "new", 1000, 500)
	stated.Usage.CostUSD = 0.25
	for name, c := range map[string]struct {
		more string
		call *coordinator.Call
		want coordinator.CallState
		used int64 // µ$
		told string
	}{
		// 1000·100 + 500·200
		"one with a price": {"", called("1", "team", "openai", "big", 1000, 500), coordinator.CallGranted, 200_000, ""},
		"one without": {"", called("2", "team", "openai", "new", 1000, 500), coordinator.CallNever, 0,
			"openai/new of team at pool/team, refused: true"},
		"one of another provider": {"", called("2", "team", "acme", "", 1000, 500), coordinator.CallNever, 0,
			"acme/ of team at pool/team, refused: true"},
		"nobody names one": {"", called("2", "team", "", "", 1000, 500), coordinator.CallNever, 0,
			"/ of team at pool/team, refused: true"},
		"a request without tokens": {"", called("2", "team", "", "", 0, 0), coordinator.CallGranted, 0, ""}, // of no model
		"it says what it costs":    {"", stated, coordinator.CallGranted, 250_000, ""},
		"warn": {"unpriced: warn", called("4", "team", "openai", "new", 1000, 500),
			coordinator.CallGranted, 0, "openai/new of team at pool/team, refused: false"},
		// 1000·10 + 500·30 µ$
		"price": {
			"unpriced: price\nunpriced_price: {input_per_million_tokens: 10, output_per_million_tokens: 30}",
			called("5", "team", "openai", "new", 1000, 500), coordinator.CallGranted, 25_000,
			"openai/new of team at pool/team, refused: false"},
		"the group has no such limit": {"unknown_callers: allow", called("6", "elsewhere", "openai", "new", 1000, 500),
			coordinator.CallGranted, 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := calls(t, teamOfOneDollar(c.more))
			effects := r.Apply(r.now, coordinator.CallAsked{Token: 1, Calls: []coordinator.Call{*c.call}}, nil)
			a := effects[len(effects)-1].(*coordinator.CallAnswered).Answers[0]
			if a.State != c.want {
				t.Errorf("it is %s, want %s: %+v", a.State, c.want, a.Lacks)
			}
			if c.want == coordinator.CallNever {
				if text := a.Lacks.Text; a.Lacks.Limit != "price" ||
					!strings.Contains(text, "has no price, and cost_usd of pool/team is limited") {
					t.Errorf("%+v", a.Lacks)
				}
			}
			if got := strings.Join(unpricedOf(effects), "; "); got != c.told {
				t.Errorf("told: %q, want %q", got, c.told)
			}
			r.holds("pool/team", cost, c.used, 0)
		})
	}
}

// Of several models that a call may go to, one without a price is passed over.
func TestCallPassesOverAModelWithoutAPrice(t *testing.T) {
	r := calls(t, teamOfOneDollar(""))
	c := called("1", "team", "", "", 1000, 500)
	c.Routes = []coordinator.Service{{Provider: "acme", Model: "free"}, {Provider: "openai", Model: "big"}}
	if a := r.state(c, coordinator.CallGranted); a.Provider != "openai" || a.Model != "big" {
		t.Errorf("it goes to %s/%s", a.Provider, a.Model)
	}
}

// A task that names a model without a price fails; one of which nothing says that it uses an LLM is not
// concerned.
func TestTaskOfAModelWithoutAPrice(t *testing.T) {
	r := ready(t, policyOf(worker("a").slots(10)).under(t, teamOfOneDollar("")))
	want(t, r.assign(job("t1").of("team").tokens(50, 25).with("new")), "unpriced openai/new refused",
		"fail t1 exceeds_quota")
	if f := r.failures[0].Failure; !strings.Contains(f.Text, "openai/new has no price") {
		t.Errorf("%+v", f)
	}
	// tokens of a model that is not named
	want(t, r.assign(job("t2").of("team").tokens(50, 25)), "unpriced / refused", "fail t2 exceeds_quota")
	want(t, r.assign(job("t3").of("team")), "dispatch t3.1 a")
	want(t, r.assign(job("t4").of("team").tokens(50, 25).with("big")), "dispatch t4.1 a")
}

// An agent that was given a model with a price, and tells of one without, is charged what was set aside:
// 50·100 + 25·200 µ$.
func TestResultOfAModelWithoutAPrice(t *testing.T) {
	r := ready(t, policyOf(worker("a").slots(10)).under(t, teamOfOneDollar("")))
	r.give(job("t1").of("team").tokens(50, 25).with("big"))
	b := says("a", "t1").used(40, 20)
	b.Usage.Provider, b.Usage.Model = "openai", "new"
	r.tell(b)
	r.holds("pool/team", coordinator.DimCost, 10_000, 0)
}

// A gateway that names a group or an agent that quotas.yaml does not list, or neither, and an agent that it
// does not list and that asks for itself, are refused with the name that may have been meant: no group
// would pay for the call. That holds for what was used already, too, unless a coordinator has admitted it.
func TestGatewayNamesNobody(t *testing.T) {
	ask := func(agent coordinator.AgentID, group string, own bool) *coordinator.Call {
		c := tokens(coordinator.CallConsume, "1", 10, 5)
		c.Agent, c.Group, c.OwnOnly = agent, group, own
		return c
	}
	charged := ask("", "tema", false)
	charged.Op = coordinator.CallCharge
	before := *charged
	admitted := &before
	admitted.Admitted = true // by a coordinator that could ask no leader
	provider := ask("", "", false)
	provider.Usage.Provider, provider.Usage.Model = "openai", "big"
	of := *provider
	part := &of
	part.Meant = coordinator.UsagePart
	spent := *part
	spent.Op = coordinator.CallCharge
	const team = "groups: [{id: team, limits: {total_tokens: {amount: 1000, per: day}}}]\nagents: [{id: worker-1, " +
		"group_id: team}]\n"
	for name, c := range map[string]struct {
		file string
		call *coordinator.Call
		want coordinator.CallState
		says string
	}{
		"a group": {team, ask("", "team", false), coordinator.CallGranted, ""},
		"a misspelt group": {team, ask("", "tema", false), coordinator.CallUnlisted,
			`quotas.yaml lists no group "tema"; did you mean team? Else correct group_id`},
		"whatever its agent": {team, ask("worker-1", "tema", false), coordinator.CallUnlisted, `no group "tema"`},
		"an agent":           {team, ask("worker-1", "", false), coordinator.CallGranted, ""},
		"a misspelt agent": {team, ask("Worker_1x", "", false), coordinator.CallUnlisted,
			`quotas.yaml lists no agent "Worker_1x"; did you mean worker-1?`},
		"an agent that is like none": {team, ask("gpu", "", false), coordinator.CallUnlisted,
			`quotas.yaml lists no agent "gpu"; name the group that is charged (group_id)`},
		"whose group is named": {team, ask("gpu", "team", false), coordinator.CallGranted, ""},
		"that asks for itself": {team, ask("gpu", "", true), coordinator.CallUnlisted,
			`quotas.yaml lists no agent "gpu"; list the agent there with its group_id`},
		"misspelt":               {team, ask("Worker_1x", "", true), coordinator.CallUnlisted, "did you mean worker-1?"},
		"listed":                 {team, ask("worker-1", "", true), coordinator.CallGranted, ""},
		"what was used already":  {team, charged, coordinator.CallUnlisted, "did you mean team?"},
		"as was admitted before": {team, admitted, coordinator.CallGranted, ""},
		"neither": {team, provider, coordinator.CallUnlisted,
			"the call names neither a group nor an agent"},
		"a part alone": {team, part, coordinator.CallUnlisted,
			"no descriptor of the request names a group or an agent"},
		"a part that was used":  {team, &spent, coordinator.CallGranted, ""},
		"a part alone, allowed": {team + "unknown_callers: allow\n", part, coordinator.CallGranted, ""},
		"neither, allowed":      {team + "unknown_callers: allow\n", provider, coordinator.CallGranted, ""},
		"allowed": {team + "unknown_callers: allow\n", ask("", "tema", false), coordinator.CallGranted,
			""},
		"no groups are listed": {"pool: {limits: {total_tokens: {amount: 1000, per: day}}}\n", ask("gpu", "", false),
			coordinator.CallGranted, ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := calls(t, c.file)
			a := r.state(c.call, c.want)
			if c.want == coordinator.CallUnlisted && !strings.Contains(a.Lacks.Text, c.says) {
				t.Errorf("it says %q, want %q", a.Lacks.Text, c.says)
			}
		})
	}
}

// A part of a call, Envoy's descriptor, may name a provider alone beside one that names its group or agent.
func TestPartsOfACallNameItsCallerOnce(t *testing.T) {
	part := func(id, group string) *coordinator.Call {
		c := tokens(coordinator.CallConsume, id, 10, 0)
		c.Meant, c.Agent, c.Group, c.Usage.Provider = coordinator.UsagePart, "", group, "openai"
		return c
	}
	for group, want := range map[string]coordinator.CallState{"team": coordinator.CallGranted,
		"tema": coordinator.CallUnlisted} {
		r := calls(t, "groups: [{id: team, limits: {total_tokens: {amount: 1000, per: day}}}]\n")
		answers := r.ask(part("1", ""), part("2", group))
		if answers[1].State != want || want == coordinator.CallGranted && answers[0].State != want {
			t.Errorf("beside group %s: %+v", group, answers)
		}
	}
}

// A task of a group that quotas.yaml does not list is refused, with the name that may have been meant: what it
// uses would count for no group.
func TestTaskOfAnUnknownGroup(t *testing.T) {
	const team = "groups: [{id: team, limits: {total_tokens: {amount: 1000, per: day}}}]\n"
	for name, c := range map[string]struct{ file, group, says string }{
		"listed": {team, "team", ""},
		"none":   {team, "", ""},
		"misspelt": {team, "tema",
			`/group: quotas.yaml lists no group "tema"; did you mean team? Else correct group, list the group, or set ` +
				`unknown_callers: allow there`},
		"like none": {team, "research",
			`/group: quotas.yaml lists no group "research"; correct group, list the group, or set unknown_callers: allow there`},
		"an agent's id":        {team + "agents: [{id: a, group_id: team}]\n", "a", `lists no group "a"`},
		"allowed":              {team + "unknown_callers: allow\n", "tema", ""},
		"no groups are listed": {"pool: {limits: {total_tokens: {amount: 1000, per: day}}}\n", "tema", ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := ready(t, policyOf(worker("a").slots(10)).under(t, c.file))
			_, explained, why := r.Explain(r.now, &job("t1").of(c.group).Task)
			if c.says == "" {
				want(t, r.assign(job("t1").of(c.group)), "dispatch t1.1 a")
			} else {
				want(t, r.assign(job("t1").of(c.group)), "fail t1 invalid_message")
				if f := r.failures[0].Failure; !strings.Contains(f.Text, c.says) || why != f.Text || explained != f.Reason {
					t.Errorf("it says %q, explained %v %q; want %q", f.Text, explained, why, c.says)
				}
			}
			a, _ := r.Quotas(r.now).Explain(&engine.QuotaQuestion{Group: c.group})
			if "/group: "+a.Unlisted != why && why+a.Unlisted != "" {
				t.Errorf("of its quota it is said %q, of the task %q", a.Unlisted, why)
			}
			engine.CheckIndexes(t, r.Engine)
		})
	}
}

// So is a task that waits when its group is taken out; what has begun goes on.
func TestTaskWaitsWhileItsGroupIsTakenOut(t *testing.T) {
	r := ready(t, policyOf(worker("a")).quotas(quotasOf().group("team", 1, nil).group("else", 1, nil)))
	r.give(job("t1").of("team"))
	want(t, r.assign(job("t2").of("team")))
	want(t, r.assign(job("t3").of("else")))
	want(t, r.reload(quotasOf().group("else", 1, nil)), "fail t2 invalid_message")
	want(t, r.tell(says("a", "t1")), "completed t1.1 a succeeded", "dispatch t3.1 a")
	engine.CheckIndexes(t, r.Engine)
}

// A task of which nothing says that it uses an LLM takes no tokens: an ungrouped producer's thousand, of
// 2,560 tokens each by a guess, would be more than the pool has. It counts as a request all the same.
func TestTaskWithoutLLMTakesNoTokens(t *testing.T) {
	const pool = "pool: {limits: {total_tokens: {amount: 100000, per: day}, requests: {amount: 50, per: day}}}\n" +
		"groups: [{id: team, provider: openai, model: big}]\nproviders: [{provider: openai}]\n"
	none := job("t").of("team").tokens(0, 0)
	none.NoTokens = true
	for name, c := range map[string]struct {
		task *taskBuilder
		want int64
	}{
		"nothing is said":                {job("t"), 0},
		"its group calls a model":        {job("t").of("team"), 0},
		"and it says what it sends":      {job("t").of("team").tokens(100, 0), 100 + 512},
		"and it says that it takes none": {none, 0},
		"it names a model":               {job("t").tokens(0, 0).with("big"), 2048 + 512},
		"it says what it sends":          {job("t").tokens(100, 0), 100 + 512},
	} {
		t.Run(name, func(t *testing.T) {
			r := ready(t, policyOf(worker("a").slots(100)).under(t, pool))
			r.give(c.task)
			r.holds("pool", coordinator.DimTotalTokens, 0, c.want)
			r.holds("pool", coordinator.DimRequests, 0, 1)
		})
	}
	r := ready(t, policyOf(worker("a").slots(100)).
		under(t, "pool: {limits: {total_tokens: {amount: 100000, per: day}, requests: {amount: 50, per: day}}}"))
	for i := range 50 {
		r.give(job(coordinator.TaskID(fmt.Sprint("t", i))))
	}
	r.holds("pool", coordinator.DimRequests, 0, 50)
	// What was learnt of its type counts: after 20 that tell of 30 tokens the next one takes about that.
	r = ready(t, policyOf(worker("a").slots(100)).under(t, pool))
	for i := range 20 {
		id := coordinator.TaskID(fmt.Sprint("t", i))
		r.give(job(id))
		r.tell(says("a", id).used(20, 10))
	}
	r.give(job("next"))
	n, _ := r.Ledger().Node(r.now, "pool")
	for _, b := range n.Budgets {
		if b.Dimension == coordinator.DimTotalTokens && (b.Reserved < 30 || b.Reserved > 40) {
			t.Errorf("%d tokens are set aside, want 30 or a bucket more", b.Reserved)
		}
	}
}

// A group has what its agents have not used: a gateway's call for it, without an agent, has all $100 of the
// month on its first day, although the agents share them by weight, and whatever is said of borrowing and
// lending. What it has used of an agent's part that one has not any more.
func TestCallOfAGroupHasWhatItsAgentsLeave(t *testing.T) {
	const cost = coordinator.DimCost
	for _, terms := range []string{"", ", borrowing: {rule: never}", ", borrowing: {limit: 0}", ", lending: {limit: 0}"} {
		r := calls(t, "groups: [{id: team, limits: {cost_usd: {amount: 100, per: month}}"+terms+"}]\n"+
			"agents: [{id: x, group_id: team, weight: 3}, {id: y, group_id: team}]\n")
		dollars := func(id string, agent coordinator.AgentID, usd float64,
			want coordinator.CallState) coordinator.CallAnswer {
			c := tokens(coordinator.CallConsume, id, 0, 0)
			c.Agent, c.Group, c.Usage.CostUSD = agent, "team", usd
			return r.state(c, want)
		}
		if a := dollars("1", "", 60, coordinator.CallGranted); a.Borrowed { // of x, which has $75
			t.Errorf("%q: it is its own: %+v", terms, a)
		}
		dollars("2", "y", 25, coordinator.CallGranted) // its own
		dollars("3", "x", 15, coordinator.CallGranted) // what is left to it
		dollars("4", "", 0.5, coordinator.CallRefused) // nothing is
		dollars("5", "", 100.5, coordinator.CallNever) // and so much never is
		r.holds("pool/team", cost, 100_000_000, 0)
	}
}

// A task without a group is charged to the group of its agent, so it costs what the calls of that one do:
// 900·100 + 450·200 µ$ are $0.18 of $1, nine million are $1,800, which no day has. One that goes to an
// agent of a group without a model states tokens of no model, and is refused. A model that is named without
// its provider is that of the only one with a price for it.
func TestTaskWithoutAGroupCostsWhatItsAgentsModelDoes(t *testing.T) {
	const cost = coordinator.DimCost
	file := strings.Replace(teamOfOneDollar("agents: [{id: a, group_id: team}]"), "{id: team, ",
		"{id: team, provider: openai, model: big, ", 1)
	plain := teamOfOneDollar("agents: [{id: a, group_id: team}]")
	named := func(b *taskBuilder, model string) *taskBuilder {
		b = b.with(model)
		b.EstimatedUsage.Provider = ""
		return b
	}
	for name, c := range map[string]struct {
		file string
		task *taskBuilder
		want []string
		used int64
	}{
		"its agent's model":       {file, job("t").tokens(900, 450), []string{"dispatch t.1 a"}, 180_000},
		"more than there ever is": {file, job("t").tokens(9e6, 9e6), []string{"fail t exceeds_quota"}, 0},
		// 900·100 + 512·200 µ$ by the guess
		"what is guessed is no such thing": {strings.Replace(file, "amount: 1,", "amount: 0.1,", 1), job("t").tokens(900, 0),
			[]string{"quota pool/team cost_usd 80%", "quota pool/team cost_usd 90%", "quota pool/team cost_usd 100%",
				"dispatch t.1 a"}, 100_000},
		"nothing is said": {file, job("t"), []string{"dispatch t.1 a"}, 0},
		"its agent has no model": {plain, job("t").tokens(900, 450),
			[]string{"unpriced / refused", "fail t exceeds_quota"}, 0},
		"a model without its provider": {plain, named(job("t").tokens(900, 450), "big"), []string{"dispatch t.1 a"},
			180_000},
		"that nothing has a price for": {plain, named(job("t").tokens(900, 450), "new"),
			[]string{"unpriced /new refused", "fail t exceeds_quota"}, 0},
		"that two providers have": {strings.Replace(plain, "prices:\n",
			"prices:\n  - {provider: acme, model: big, per_request: 0}\n", 1), named(job("t").tokens(900, 450), "big"),
			[]string{"unpriced /big refused", "fail t exceeds_quota"}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			r := ready(t, policyOf(worker("a").slots(10)).under(t, c.file))
			want(t, r.assign(c.task), c.want...)
			r.holds("pool/team", cost, 0, c.used)
			if c.used == 180_000 { // as it was thought, for nothing else is told
				r.tell(says("a", "t"))
				r.holds("pool/team", cost, c.used, 0)
			}
		})
	}
	// A call of a model without its provider, too.
	r := calls(t, teamOfOneDollar(""))
	r.state(called("1", "team", "", "big", 1000, 500), coordinator.CallGranted)
	r.holds("pool/team", cost, 200_000, 0)
}

// What no one says uses an LLM needs none of its group's tokens, and does not wait behind what does: a
// group that calls a model has tasks of both sorts, and 1,000 tokens of a day. The type's results teach what
// it takes: 30 tokens each, as those of a group without a model do.
func TestTaskWithoutLLMDoesNotWaitForTokens(t *testing.T) {
	const team = "groups: [{id: team, provider: openai, model: big, limits: {total_tokens: {amount: 1000, per: " +
		"day}}}]\nproviders: [{provider: openai}]\n"
	r := ready(t, policyOf(worker("a").slots(100)).under(t, team))
	r.give(job("t1").of("team").tokens(500, 300))
	want(t, r.assign(job("t2").of("team").tokens(200, 200))) // it waits
	want(t, r.assign(job("t3").of("team")), "dispatch t3.1 a")
	none := job("t4").of("team").tokens(0, 0)
	none.NoTokens = true
	want(t, r.assign(none), "dispatch t4.1 a")
	want(t, r.assign(job("t5").of("team").tokens(10, 10))) // it takes some
	r.holds("pool/team", coordinator.DimTotalTokens, 0, 800)

	r = ready(t, policyOf(worker("a").slots(100)).under(t, strings.Replace(team, "1000,", "100000,", 1)))
	for i := range 20 {
		id := coordinator.TaskID(fmt.Sprint("t", i))
		r.give(job(id).of("team"))
		r.tell(says("a", id).used(20, 10))
	}
	r.holds("pool/team", coordinator.DimTotalTokens, 600, 0)
	r.give(job("next").of("team"))
	if n, _ := r.Ledger().Node(r.now, "pool/team"); n.Budgets[0].Reserved < 30 || n.Budgets[0].Reserved > 40 {
		t.Errorf("%d tokens are set aside, want 30 or a bucket more", n.Budgets[0].Reserved)
	}
}

// A call that says it takes no tokens is refused while its group is in debt: it may say so for ever. $2 of
// $1 a day were charged afterwards: 10,000·100 + 5,000·200 µ$.
func TestCallOfNothingWaitsForADebt(t *testing.T) {
	r := calls(t, teamOfOneDollar(""))
	none := func(id string) *coordinator.Call {
		c := called(id, "team", "openai", "big", 0, 0)
		c.Meant = coordinator.UsageExact
		return c
	}
	r.state(none("1"), coordinator.CallGranted)
	spent := called("2", "team", "openai", "big", 10_000, 5_000)
	spent.Op = coordinator.CallCharge
	r.state(spent, coordinator.CallGranted)
	if a := r.state(none("3"), coordinator.CallRefused); a.Lacks.Node != "pool/team" || a.Lacks.RetryAt.IsZero() {
		t.Errorf("%+v", a.Lacks)
	}
	reserve := none("4")
	reserve.Op = coordinator.CallReserve
	r.state(reserve, coordinator.CallRefused)
}

// What was used already of a model without a price is charged, and told of: a charge, and the end of a
// reservation that was made for another model. With a price for all others it costs that:
// 1,000·10 + 500·30 µ$.
func TestUseOfAModelWithoutAPriceIsTold(t *testing.T) {
	const price = "unpriced: price\nunpriced_price: {input_per_million_tokens: 10, output_per_million_tokens: 30}"
	for more, cost := range map[string]int64{"": 0, price: 25_000} {
		r := calls(t, teamOfOneDollar(more))
		tell := func(c *coordinator.Call) string {
			return strings.Join(unpricedOf(r.Apply(r.now, coordinator.CallAsked{Token: 1, Calls: []coordinator.Call{*c}}, nil)),
				"; ")
		}
		c := called("1", "team", "openai", "new", 1000, 500)
		c.Op = coordinator.CallCharge
		if got := tell(c); got != "openai/new of team at pool/team, refused: false" {
			t.Errorf("a charge: %q", got)
		}
		r.holds("pool/team", coordinator.DimCost, cost, 0)
		c = called("2", "team", "openai", "big", 1000, 500)
		c.Op = coordinator.CallReserve
		r.state(c, coordinator.CallGranted)
		c.Op, c.Usage.Model, c.Meant = coordinator.CallSettle, "new", coordinator.UsageExact
		if got := tell(c); got != "openai/new of team at pool/team, refused: false" {
			t.Errorf("an end: %q", got)
		}
	}
}
