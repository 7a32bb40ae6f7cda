package engine_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"taskbus/coordinator"
)

// Tasks without a group are charged to the group of the agent that does them: twenty of them, and the
// group's own, have its one request a second between them.
func TestPlaceBehindTasksWithoutGroup(t *testing.T) {
	r := lendingRig(t, quotasOf().group("alpha", 1, requests(1, 1)).agent("x", "alpha", func(*coordinator.QuotaNode) {}))
	r.give(job("first").of("alpha").tokens(10, 10))
	for i := range 20 {
		r.assign(job(coordinator.TaskID(fmt.Sprint("nobody", i))).tokens(10, 10))
	}
	last := job("last").of("alpha").tokens(10, 10)
	r.assign(last)
	p := r.place(last)
	if p.Unbounded != "" || p.QuotaDelay < 21*time.Second {
		t.Errorf("%+v, want at least 21 s for the twenty and itself", p)
	}
	before := len(r.dispatches)
	if r.pass(p.QuotaDelay); !strings.Contains(fmt.Sprint(idsOf(r.dispatches)), "last") {
		t.Errorf("it has not started after %v", p.QuotaDelay)
	}
	if n := len(r.dispatches) - before; n > 21 {
		t.Errorf("%d have started in %v", n, p.QuotaDelay)
	}
}

// A task without a group costs what the model of its agent's group does: 2 tokens of alpha's model are 1 USD, of which
// the group may use one a minute; beta's model costs a tenth. The first takes the 2 USD that are there. Before the
// last, which takes 1 USD, go one of 1 USD and four of 2 USD: it starts after 1 + 4·2 + 1 = 10 min. The groups have
// weight 0, so that no others are thought to go before it.
func TestPlaceOfATaskWithoutAGroup(t *testing.T) {
	r := ready(t, patient(policyOf(worker("y").slots(100).can("y"), worker("x").can("x").slots(100)).under(t, `
groups:
  - {id: alpha, weight: 0, provider: openai, model: big, limits: {cost_usd: {rate: 1, per: minute, burst: 2}}}
  - {id: beta, weight: 0, provider: openai, model: mini}
agents: [{id: y, group_id: beta}, {id: x, group_id: alpha}]
providers: [{provider: openai}]
prices:
  - {provider: openai, model: big, input_per_million_tokens: 500000, output_per_million_tokens: 500000}
  - {provider: openai, model: mini, input_per_million_tokens: 50000, output_per_million_tokens: 50000}
`)))
	r.give(job("first").needs("x").tokens(2, 2))
	r.assign(job("second").needs("x").tokens(1, 1))
	for i := range 4 {
		r.assign(job(coordinator.TaskID(fmt.Sprint("next", i))).needs("x").tokens(2, 2))
	}
	last := job("last").needs("x").tokens(1, 1)
	r.assign(last)
	p := r.place(last)
	if p.Unbounded != "" || p.QuotaLikely < 10*time.Minute || p.QuotaDelay < p.QuotaLikely {
		t.Errorf("%+v, want at least 10 min", p)
	}
	if r.pass(10*time.Minute - time.Nanosecond); r.latest().Task.ID == last.ID {
		t.Error("it went before")
	}
	if r.pass(time.Nanosecond); r.latest().Task.ID != last.ID {
		t.Errorf("after 10 min it is the turn of %s", r.latest().Task.ID)
	}
}

func idsOf(all []coordinator.Dispatch) (ids []coordinator.TaskID) {
	for _, d := range all {
		ids = append(ids, d.Task.ID)
	}
	return ids
}

// One member may use all that the others leave, another nothing but its own: that one's six tasks of
// 100 tokens take six days, however much the first leaves.
func TestPlaceBesideAMemberThatUsesAll(t *testing.T) {
	rule := func(rule coordinator.BorrowRule, tokens int64) func(*coordinator.QuotaNode) {
		return func(n *coordinator.QuotaNode) {
			daily(tokens)(n)
			n.Borrowing.Rule = rule
		}
	}
	q := quotasOf().pool(daily(1000)).group("own", 1, rule(coordinator.BorrowNever, 100)).
		group("all", 1, rule(coordinator.BorrowGroupRemaining, 900))
	q.RepayPercent = 0
	r := ready(t, patient(policyOf(worker("x").slots(100)).quotas(q)).
		set(func(s *coordinator.Settings) { s.AssignmentTimeout = 1000 * time.Hour }))
	r.hear(beat("x").available(100))
	r.flood(5, 50, 50, "own") // the first goes today
	last := job("last").of("own").tokens(50, 50)
	r.assign(last)
	p := r.place(last)
	sixth := epoch.Truncate(24 * time.Hour).Add(5 * 24 * time.Hour).Sub(r.now)
	if r.pass(sixth - time.Nanosecond); r.latest().Task.ID == last.ID {
		t.Fatal("it went before the sixth day")
	}
	if r.pass(time.Nanosecond); r.latest().Task.ID != last.ID || p.Unbounded != "" || p.QuotaDelay < sixth {
		t.Errorf("%s; %+v", r.latest().Task.ID, p)
	}
}

// A seat that is kept for a group below its part is none for others: b has both of the pool's, and waits
// for the one of its provider.
func TestPlaceBehindKeptSeats(t *testing.T) {
	r := ready(t, patient(policyOf(worker("x").slots(9)).under(t, `
pool: {limits: {concurrency: {amount: 2}}}
groups:
  - {id: a, limits: {concurrency: {amount: 0}}}
  - {id: b, provider: openai, limits: {concurrency: {amount: 2}}}
providers: [{provider: openai, limits: {concurrency: {amount: 1}}}]
`)))
	r.give(job("b1").of("b"))
	want(t, keepDispatches(r.assign(job("b2").of("b"))))
	task := job("a1").of("a")
	want(t, keepDispatches(r.assign(task)))
	if p := r.place(task); p.Lacks == nil || !p.Lacks.Kept ||
		!strings.Contains(p.Unbounded, "something ends that has the seats of pool/a") {
		t.Errorf("%+v, %+v", p, p.Lacks)
	}
}

// The rate of one agent never lets so much pass at once, that of another does when it has filled up: what
// is told is the time of that one. It has been emptied, and 5,000 of 100 a second take 50 s.
func TestPlaceByTheAgentThatMayHaveIt(t *testing.T) {
	tokens := func(n, burst int64) func(*coordinator.QuotaNode) {
		return func(node *coordinator.QuotaNode) {
			node.Rates[coordinator.DimTotalTokens] = &coordinator.QuotaLimit{Nominal: n, Per: time.Second, Burst: burst}
		}
	}
	r := ready(t, patient(policyOf(worker("small").slots(9), worker("large").slots(9)).
		quotas(quotasOf().group("team", 1, nil).agent("small", "team", tokens(1000, 1000)).agent("large", "team",
			tokens(100, 10_000)))))
	r.give(job("first").of("team").tokens(5000, 5000))
	task := job("next").of("team").tokens(2500, 2500)
	want(t, keepDispatches(r.assign(task)))
	if p := r.place(task); p.Unbounded != "" || p.QuotaDelay != 50*time.Second+rounding {
		t.Errorf("%+v", p)
	}
	want(t, keepDispatches(r.pass(50*time.Second)), "dispatch next.1 large")
}

// rounding is what is added for calls that are charged to the next ns.
const rounding = time.Millisecond
