package engine_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/engine"
)

// either are the models that a task may go to, written "provider/model".
func (b *taskBuilder) either(routes ...string) *taskBuilder {
	for _, r := range routes {
		provider, model, _ := strings.Cut(r, "/")
		b.Alternatives = append(b.Alternatives, coordinator.Service{Provider: provider, Model: model})
	}
	return b
}

// sentTo checks which model the dispatch made last names.
func (r *rig) sentTo(provider, model string) {
	r.t.Helper()
	if s := r.latest().Service; s.Provider != provider || s.Model != model {
		r.t.Errorf("%s was sent to %+v, want %s/%s", r.latest().DispatchID, s, provider, model)
	}
}

// twoBudgets has 1,000 tokens a day with openai and 500 an hour with the lab, and takes the first of
// those that have quota: no term counts.
const twoBudgets = `
groups: [{id: team}]
providers:
  - {provider: openai, limits: {total_tokens: {amount: 1000, per: day}}}
  - {provider: lab, limits: {total_tokens: {amount: 500, per: hour}}}
routing: {remaining: 0, price: 0, latency: 0, success: 0}
alert_percents: []
`

func twoPools(t *testing.T, agents ...*specBuilder) *rig {
	t.Helper()
	return ready(t, patient(policyOf(agents...).under(t, twoBudgets)))
}

const totalTokens = coordinator.DimTotalTokens

// The first pool that has room is charged; when none has, the task waits for the one that has it again
// first, and those of its group that come after it wait behind it.
func TestTaskGoesWhereThereIsQuota(t *testing.T) {
	r := twoPools(t, worker("a").slots(100))
	want(t, r.assign(job("t1").of("team").tokens(700, 100).either("openai/big", "lab")), "dispatch t1.1 a") // 800 of 1,000
	r.sentTo("openai", "big")
	// 800 + 300 > 1,000; 300 of 500
	want(t, r.assign(job("t2").of("team").tokens(200, 100).either("openai/big", "lab")), "dispatch t2.1 a")
	r.sentTo("lab", "")
	r.holds("openai", totalTokens, 0, 800)
	r.holds("lab", totalTokens, 0, 300)
	want(t, r.assign(job("t3").of("team").tokens(200, 100).either("openai/big", "lab"))) // 300 + 300 > 500
	want(t, r.assign(job("t4").of("team").tokens(9, 1).either("openai/big", "lab")))     // would fit, but t3 is first
	r.tell(says("a", "t2").used(200, 100))
	engine.CheckIndexes(t, r.Engine)
	if why, waits := r.LacksQuota(r.open("t3").Task()); !waits || !strings.Contains(why, "lab") {
		t.Errorf("it waits for %q", why) // whose hour is over before openai's day
	}
	got := r.pass(time.Hour)
	want(t, got, "dispatch t3.1 a", "dispatch t4.1 a")
	r.holds("lab", totalTokens, 0, 300) // of the new hour
	r.holds("openai", totalTokens, 0, 810)
	engine.CheckIndexes(t, r.Engine)
}

// A task that waits for one pool goes to another to which something comes back first.
func TestTaskGoesWhereQuotaComesBack(t *testing.T) {
	r := twoPools(t, worker("a").slots(100))
	r.give(job("t1").of("team").tokens(900, 100).either("openai/big", "lab"))
	r.give(job("t2").of("team").tokens(400, 100).either("openai/big", "lab"))
	want(t, r.assign(job("t3").of("team").tokens(400, 50).either("openai/big", "lab"))) // for the lab, back in an hour
	// 550 of 1,000 were used: 450 more fit.
	want(t, r.tell(says("a", "t1").used(500, 50)), "completed t1.1 a succeeded", "dispatch t3.1 a")
	r.sentTo("openai", "big")
	r.holds("openai", totalTokens, 550, 450)
	r.holds("lab", totalTokens, 0, 500)
	want(t, r.tell(says("a", "t3").used(400, 40)), "completed t3.1 a succeeded")
	r.holds("openai", totalTokens, 990, 0)
	engine.CheckIndexes(t, r.Engine)
}

// A task for which the pool has enough stands behind another group's that is to borrow from it, and goes when its
// group's own rate is back, although that one still waits. Tokens, and seconds:
//
//	at 0   big1 takes the 2 that are big's own: 58 are left of the pool's 60. own1 takes the 30 of its
//	       group's own: 28. big2 asks for 40: its own is not back within the hour; with what is kept for its sibling
//	       it needs all 60 of the pool, which gets 1 a second: at 32.
//	at 10  own2 asks for 2. Its group has 0.1 a second, and so 1: it has 2 at 20. The pool has 38, of which 30 + 1 are
//	       kept: that is enough, but big2 is first.
//	at 20  own2 takes its group's 2. The pool has 48 - 2 = 46, and big2 its 60 at 34.
func TestTaskBehindABorrowerGoesWithItsOwnRate(t *testing.T) {
	for _, models := range [][]string{{"openai"}, {"lab", "openai"}} {
		r := ready(t, patient(policyOf(worker("a").slots(100)).under(t, `
groups: [{id: own}, {id: big}]
providers:
  - {provider: lab, limits: {requests: {amount: 1, per: day}}}
  - provider: openai
    limits: {total_tokens: {rate: 60, per: minute, burst: 60}}
    groups:
      - {group: own, limits: {total_tokens: {rate: 6, per: minute, burst: 30}}}
      - {group: big, limits: {total_tokens: {rate: 2, per: hour, burst: 2}}}
alert_percents: []
`)))
		want(t, r.assign(job("lab1").of("own").either("lab")), "dispatch lab1.1 a") // none is left of the lab's day
		ask := func(id coordinator.TaskID, group string, tokens float64) []string {
			return r.assign(job(id).of(group).tokens(tokens-1, 1).either(models...))
		}
		want(t, ask("big1", "big", 2), "dispatch big1.1 a")
		want(t, ask("own1", "own", 30), "dispatch own1.1 a")
		want(t, ask("big2", "big", 40))
		want(t, r.pass(10*time.Second))
		want(t, ask("own2", "own", 2))
		want(t, r.pass(10*time.Second-time.Nanosecond))
		want(t, r.pass(time.Nanosecond), "dispatch own2.1 a")
		want(t, r.pass(14*time.Second-time.Nanosecond))
		want(t, r.pass(time.Nanosecond), "dispatch big2.1 a")
		engine.CheckIndexes(t, r.Engine)
	}
}

// A task that stood behind the head of one model's queue, and waits for another model, goes when that head has left and
// the next is of a lower priority. Tokens of openai, which gets 1 a second, and seconds:
//
//	at 0   first takes 50 of 60: 10 are left. high asks for 60: at 50. lab1 takes the lab's only request: the next is
//	       there at 40. middle asks for 5 of either: openai has them, but high is first. It waits for the lab, which is
//	       back sooner. low asks for 40, and stands behind high.
//	at 10  high leaves. Of the 20 that are there low gets none, and is the head until 30. It is of a lower priority
//	       than middle, which takes 5: 15 are left, and low has its 40 at 35.
func TestTaskGoesPastALowerHead(t *testing.T) {
	r := ready(t, patient(policyOf(worker("x").can("x").slots(100), worker("y").can("y").slots(100)).under(t, `
groups: [{id: first}, {id: high}, {id: middle}, {id: low}]
providers:
  - {provider: lab, limits: {requests: {rate: 1.5, per: minute, burst: 1}}}
  - {provider: openai, limits: {total_tokens: {rate: 60, per: minute, burst: 60}}}
alert_percents: []
`)))
	ask := func(group string, p coordinator.Priority, agent string, tokens float64, models ...string) []string {
		return r.assign(job(coordinator.TaskID(group)).of(group).prio(p).needs(agent).tokens(tokens-1, 1).either(models...))
	}
	want(t, ask("first", coordinator.PriorityNormal, "y", 50, "openai"), "dispatch first.1 y")
	want(t, r.assign(job("lab1").of("first").needs("y").either("lab")), "dispatch lab1.1 y")
	want(t, ask("high", coordinator.PriorityHigh, "y", 60, "openai"))
	want(t, ask("middle", coordinator.PriorityNormal, "x", 5, "lab", "openai"))
	want(t, ask("low", coordinator.PriorityLow, "y", 40, "openai"))
	want(t, r.pass(10*time.Second))
	want(t, r.withdraw("high"), "fail high cancelled", "cancel high: done", "dispatch middle.1 x")
	r.sentTo("openai", "")
	want(t, r.pass(25*time.Second-time.Nanosecond))
	want(t, r.pass(time.Nanosecond), "dispatch low.1 y")
	engine.CheckIndexes(t, r.Engine)
}

// What no limit of some models ever allows waits for those that do; what none allows fails.
func TestTaskExceedsSomeOfItsModels(t *testing.T) {
	r := twoPools(t, worker("a").slots(100))
	r.give(job("t1").of("team").tokens(900, 100).either("openai"))
	want(t, r.assign(job("t2").of("team").tokens(500, 100).either("lab", "openai"))) // 600 > 500, the lab's whole hour
	want(t, r.assign(job("t3").of("team").tokens(1000, 1).either("lab", "openai")), "fail t3 exceeds_quota")
	want(t, r.tell(says("a", "t1").used(300, 100)), "completed t1.1 a succeeded", "dispatch t2.1 a") // 400 + 600 = 1,000
	r.sentTo("openai", "")
}

// What one agent may never have another may, also if what a pool never allows comes first: the task waits for that one.
func TestTaskExceedsWhatOneAgentMayHave(t *testing.T) {
	r := ready(t, patient(policyOf(worker("a").slots(1), worker("b").slots(1)).under(t, `
groups: [{id: team}]
agents: [{id: a, group_id: team}, {id: b, group_id: team, weight: 9}]
providers:
  - {provider: lab, limits: {total_tokens: {amount: 50, per: hour}}}
  - {provider: openai, limits: {total_tokens: {amount: 1000, per: day}}, share: by_weight, borrowing: {rule: never}}
routing: {remaining: 0, price: 0, latency: 0, success: 0}
`)))
	small := func(id coordinator.TaskID) *taskBuilder {
		return job(id).of("team").tokens(1, 1).either("lab", "openai")
	}
	first, second := r.give(small("t1")), r.give(small("t2"))
	want(t, r.assign(small("t3")))                                                   // no agent is free
	want(t, r.assign(job("t4").of("team").tokens(300, 100).either("lab", "openai"))) // a's part of openai is 100, b's 900
	r.tell(says(first.Agent, "t1").used(1, 0))
	r.tell(says(second.Agent, "t2").used(1, 0))
	if d := r.latest(); d.Task.ID != "t4" || d.Agent != "b" {
		t.Errorf("%s went to %s", d.DispatchID, d.Agent)
	}
	engine.CheckIndexes(t, r.Engine)
}

// With each attempt the model is chosen anew: what was set aside for the first is free again.
func TestTaskChoosesAnewWithEachAttempt(t *testing.T) {
	r := twoPools(t, worker("a").slots(2), worker("b").slots(2))
	first := r.give(job("t1").of("team").tokens(400, 80).either("openai", "lab"))
	r.sentTo("openai", "")
	r.give(job("t2").of("team").tokens(250, 50).either("openai"))        // 780 of 1,000
	r.give(job("t0").of("team").tokens(400, 50).either("openai", "lab")) // 780 + 450 > 1,000
	r.sentTo("lab", "")
	r.tell(says(r.latest().Agent, "t0").used(0, 1))    // 1 of 500
	r.returns(first, coordinator.ReturnExpired, false) // 300 of 1,000
	r.give(job("t3").of("team").tokens(600, 100).either("openai"))
	r.holds("openai", totalTokens, 0, 1000)
	r.pass(time.Minute)
	if d := r.latest(); d.Task.ID != "t1" || d.Attempt != 2 {
		t.Fatalf("%s", d.DispatchID)
	}
	r.sentTo("lab", "") // 1 + 480 of 500
	r.holds("lab", totalTokens, 1, 480)
	engine.CheckIndexes(t, r.Engine)
}

// The next leader settles what is open in the pool that was charged, and sends what waits where there
// is quota.
func TestTaskChoiceSurvivesATakeOver(t *testing.T) {
	r := leads(t, patient(policyOf(worker("a").slots(100)).under(t, twoBudgets)))
	r.give(job("t1").of("team").tokens(900, 100).either("openai/big", "lab"))
	second := r.give(job("t2").of("team").tokens(200, 100).either("openai/big", "lab"))
	r.sentTo("lab", "")
	for how, heir := range heirs(r) {
		heir.holds("openai", totalTokens, 0, 1000)
		heir.holds("lab", totalTokens, 0, 300)
		heir.tell(says("a", "t2").of(second.DispatchID).used(100, 50))
		heir.holds("openai", totalTokens, 0, 1000)
		heir.holds("lab", totalTokens, 150, 0)
		if v := heir.Audit(heir.now); v != nil {
			t.Errorf("%s: %+v", how, v)
		}
	}
}

// TestTaskIsSentOnceMoreToTheSameModel: a dispatch of which the broker has not said that it has it is sent
// once more by the next leader, and names the model that it named, also one that has no limits and of which
// so nothing was set aside, and although another has room by now.
func TestTaskIsSentOnceMoreToTheSameModel(t *testing.T) {
	r := leads(t, patient(policyOf(worker("a").slots(100)).under(t, twoBudgets)))
	first := r.give(job("t1").of("team").tokens(900, 100).either("openai"))
	second := job("t2").of("team").tokens(200, 100).either("openai/big", "free/small") // 1,000 of 1,000; without a limit
	want(t, r.assign(second), "dispatch t2.1 a")
	r.sentTo("free", "small")
	r.tell(says("a", "t1").of(first.DispatchID).used(100, 0)) // 100 of 1,000
	for how, heir := range heirs(r) {
		want(t, heir.assign(second), "dispatch t2.1 a again?")
		if heir.sentTo("free", "small"); t.Failed() {
			t.Fatal(how)
		}
		heir.holds("openai", totalTokens, 100, 0)
	}
}

// Without quotas there is nothing to choose by: the first is named.
func TestTaskWithoutQuotasGoesToTheFirst(t *testing.T) {
	r := ready(t, policyOf(worker("a").slots(1)))
	r.assign(job("t1").tokens(1, 1).either("openai/big", "lab"))
	r.sentTo("openai", "big")
	r = ready(t, policyOf(worker("a").slots(1)).under(t, twoProviders)) // its keys are pools of their own
	r.assign(job("t1").of("team").tokens(1, 1).either("openai/big", "lab"))
	if s := r.latest().Service; s.Provider == "openai" {
		t.Errorf("no key is named: %+v", s)
	}
}

// The decision of a dispatch says how its models were judged, and a question what each lacks for a task that
// waits, or for the first of its group, behind which it waits; of what is dispatched nothing is judged anew.
func TestExplainOfATaskWithAChoice(t *testing.T) {
	r := twoPools(t, worker("a").slots(100))
	stands := func(m *coordinator.RouteChoice) (s []string) {
		if m == nil {
			return nil
		}
		for _, x := range m.Routes {
			word := x.Pool + " passed over"
			if x.Chosen {
				word = x.Pool + " chosen"
			}
			if x.Lacks != nil {
				word += ": " + x.Lacks.Text
			}
			s = append(s, word)
		}
		return s
	}
	explained := func(id coordinator.TaskID, task *coordinator.Task, want ...string) {
		t.Helper()
		d, _, _ := r.Explain(r.now, task)
		if got := stands(d.Models); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", id, got, want)
		}
	}
	const openai = "openai passed over: too little is left of the budget of openai in total_tokens: 200 left, 300 " +
		"asked; back when something of it ends"
	const lab = "lab passed over: too little is left of the budget of lab in total_tokens: 200 left, 300 asked; back " +
		"when something of it ends"
	t1 := job("t1").of("team").tokens(700, 100).either("openai/big", "lab")
	explained("before t1", &t1.Task, "openai chosen",
		"lab passed over: it needs more total_tokens at once than the budget of lab ever allows")
	r.give(t1)
	r.give(job("t2").of("team").tokens(200, 100).either("openai/big", "lab"))
	if got := stands(r.latest().Decision.Models); !slices.Equal(got, []string{openai, "lab chosen"}) ||
		r.latest().Decision.Models.Weights != (coordinator.RouteTerms{}) {
		t.Errorf("t2 was dispatched: %q", got)
	}
	r.assign(job("t3").of("team").tokens(200, 100).either("openai/big", "lab"))
	r.assign(job("t4").of("team").tokens(9, 1).either("openai/big", "lab"))
	explained("t2", r.open("t2").Task())
	explained("t3", r.open("t3").Task(), openai, lab)
	explained("t4", r.open("t4").Task(), openai, lab)
	t5 := job("t5").of("team").tokens(9, 1).either("openai/big", "lab")
	t5.AcceptedAt = r.now
	explained("t5", &t5.Task, openai, lab)
	explained("no choice", &job("t6").of("team").tokens(9, 1).Task)
	r = ready(t, policyOf(worker("a")))
	explained("no quotas", &job("t1").either("openai", "lab").Task)
}
