package engine_test

import (
	"fmt"
	"testing"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/engine"
)

// ownRig has 20 groups g with 1,000 tokens of a day each, divided among so many agents in all, and
// one group z that has no agents of its own. In each g a task has all that its agent may have at noon:
// its own 200, if they are 100, and of the four others the 100 that have accrued to each. Another one
// waits for that.
func ownRig(t testing.TB, agents int) *rig {
	q, all := quotasOf(), []*specBuilder(nil)
	for g := range 20 {
		q.group(fmt.Sprint("g", g), 1, daily(1000))
	}
	for i := range agents {
		id := fmt.Sprintf("w%05d", i)
		all = append(all, worker(coordinator.AgentID(id)).slots(4))
		q.agent(id, fmt.Sprint("g", i%20), func(n *coordinator.QuotaNode) { daily(coordinator.ByWeight)(n) })
	}
	r := ready(t, patient(policyOf(all...).quotas(q.group("z", 1, daily(1_000_000)))))
	for g := range 20 {
		r.assign(job(coordinator.TaskID(fmt.Sprint("u", g))).of(fmt.Sprint("g", g)).tokens(500, 100))
		r.assign(job(coordinator.TaskID(fmt.Sprint("v", g))).of(fmt.Sprint("g", g)).tokens(500, 100))
	}
	return r
}

// roundTrip has z's next task of two tokens go, and end.
func (r *rig) roundTrip(i int) {
	id := coordinator.TaskID(fmt.Sprint("z", i))
	r.assign(job(id).of("z").tokens(1, 1))
	r.tell(says(r.latest().Agent, id).used(1, 0))
}

// What another group gives back causes no look at all of its agents: what waits for what agents have
// of their own tries when something comes back on its own way, or to one of these.
func TestQuotaOwnWaitsHearOfTheirOwnAlone(t *testing.T) {
	r := ownRig(t, 100)
	before := r.refusals()
	r.roundTrip(0)
	if n := r.refusals() - before; n != 0 {
		t.Errorf("%d refusals for what z gives back", n)
	}
	r.tell(says(r.open("u7").Agent().Spec().ID, "u7").used(0, 401))
	want(t, []string{string(r.latest().Task.ID)}, "z0") // 401 are used, and v7 lacks the last of its 600
	if n := r.refusals() - before; n != 1 {
		t.Errorf("%d refusals for what g7 gives back, want one of v7", n)
	}
	r.tell(says(r.open("u8").Agent().Spec().ID, "u8").but(coordinator.OutcomeRejected))
	want(t, []string{string(r.latest().Task.ID)}, "v8")
}

// Where some agents have quota of their own and others have none, what the first lack the others
// need not: a task goes to them, or waits for one that is free.
func TestQuotaOfAgentsWithoutTheirOwn(t *testing.T) {
	q := quotasOf().group("team", 1, nil).agent("a", "team", seats(1)).agent("b", "team", seats(1))
	r := ready(t, policyOf(worker("a").slots(5), worker("b").slots(5), worker("c").slots(1), worker("d").slots(1)).
		quotas(q))
	got := make(map[coordinator.AgentID]int)
	for i := range 6 {
		r.assign(job(coordinator.TaskID(fmt.Sprint("t", i))).of("team"))
	}
	for _, d := range r.dispatches {
		got[d.Agent]++
	}
	if len(r.dispatches) != 4 || len(got) != 4 {
		t.Errorf("dispatched to %v, want one to each", got)
	}
	d := r.dispatches[0]
	r.tell(says(d.Agent, d.Task.ID))
	if r.latest().Agent != d.Agent {
		t.Errorf("what %s gives back is for who waits, and it has gone to %s", d.Agent, r.latest().Agent)
	}
	r.tell(says("c", taskOf(r, "c")))
	if r.latest().Agent != "c" {
		t.Errorf("c is free, and the last goes to %s", r.latest().Agent)
	}
}

// A task without a group is charged to the group of the agent that gets it, at the price of that group's
// model. Of 2 requests a day team has one, which it does not lend. With x second takes 1,000·$100 and
// 500·$200 for a million tokens, $0.20, and team has $0.10: x never gets it. With y, which is not listed,
// it takes a request of the pool, and none of team's money. First has taken that of today: second waits
// until midnight, although x has a request left.
func TestQuotaOfATaskWithoutGroupIsThatOfItsAgent(t *testing.T) {
	r := ready(t, patient(policyOf(worker("x").slots(2), worker("y").slots(2)).under(t, `
pool: {limits: {requests: {amount: 2, per: day}}}
groups:
  - id: team
    provider: openai
    model: big
    limits: {requests: {amount: 1, per: day}, cost_usd: {amount: 0.10, per: day}}
    lending: {limit: 0}
agents: [{id: x, group_id: team}]
prices: [{provider: openai, model: big, input_per_million_tokens: 100, output_per_million_tokens: 200}]
`)))
	// Both ask y first, so that what second is to be charged, when it is refused, is the charge for y.
	want(t, keepDispatches(r.assign(job("first").tokens(1000, 500).prefers("y"))), "dispatch first.1 y")
	want(t, keepDispatches(r.assign(job("second").tokens(1000, 500).prefers("y"))))
	engine.CheckParked(t, r.Engine)
	midnight := epoch.Add(12 * time.Hour)
	want(t, keepDispatches(r.pass(midnight.Sub(r.now)-time.Nanosecond)))
	r.holds("pool/team", coordinator.DimRequests, 0, 0)
	engine.CheckParked(t, r.Engine)
	want(t, keepDispatches(r.pass(time.Nanosecond)), "dispatch second.1 y")
}

// taskOf is the first task that the agent has been given.
func taskOf(r *rig, id coordinator.AgentID) coordinator.TaskID {
	for _, d := range r.dispatches {
		if d.Agent == id {
			return d.Task.ID
		}
	}
	return ""
}

// BenchmarkQuotaAgentsOwn: a task of another group comes and goes while 20 wait whose agents all have
// quota of their own.
func BenchmarkQuotaAgentsOwn(b *testing.B) {
	for _, agents := range []int{100, 1000, 10_000} {
		b.Run(fmt.Sprint(agents), func(b *testing.B) {
			r := ownRig(b, agents)
			for i := 0; b.Loop(); i++ {
				r.roundTrip(i)
			}
		})
	}
}
