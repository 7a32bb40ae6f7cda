package engine_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"taskbus/coordinator"
	"taskbus/coordinator/engine"
)

// TestTaskNeverWaitsWhileAModelHasRoom plays random histories of tasks that may go to some of three pools,
// each with a budget, a rate or seats of its own and of its own time: after every event what waits for
// quota has none with any of its models.
func TestTaskNeverWaitsWhileAModelHasRoom(t *testing.T) {
	ids := []coordinator.AgentID{"a", "b"}
	rapid.Check(t, func(rt *rapid.T) {
		r := ready(t, patient(policyOf(worker(ids[0]).slots(60), worker(ids[1]).slots(3)).under(t, drawThreePools(rt))))
		var open []coordinator.Dispatch
		seen := 0
		tasks := 0
		send := func() {
			j := job(coordinator.TaskID(fmt.Sprint("t", tasks))).of(rapid.SampledFrom([]string{"g1", "g2"}).Draw(rt, "group"))
			tasks++
			j.Priority = coordinator.Priority(rapid.SampledFrom([]int{1, 1, 1, 2}).Draw(rt, "priority"))
			j.tokens(float64(rapid.IntRange(1, 400).Draw(rt, "tokens")), 1)
			r.assign(j.either(rapid.SampledFrom([][]string{{"p1", "p2"}, {"p1", "p2"}, {"p2", "p1"}, {"p1", "p2", "p3"}, {"p3"},
				{"p3/big", "p1"}}).Draw(rt, "models")...))
		}
		rt.Repeat(map[string]func(*rapid.T){
			"task":  func(*rapid.T) { send() },
			"burst": func(*rapid.T) { send(); send(); send() },
			"result": func(rt *rapid.T) {
				if len(open) == 0 {
					rt.Skip("no task is with an agent")
				}
				i := rapid.IntRange(0, len(open)-1).Draw(rt, "which")
				d := open[i]
				open = append(open[:i:i], open[i+1:]...)
				r.tell(says(d.Agent, d.Task.ID).of(d.DispatchID).used(float64(rapid.IntRange(0, 400).Draw(rt, "used")), 1))
			},
			"time": func(rt *rapid.T) {
				r.pass(time.Duration(rapid.SampledFrom([]int{1, 100, 3000, 61_000}).Draw(rt, "ms")) * time.Millisecond)
			},
			"": func(rt *rapid.T) {
				for ; seen < len(r.dispatches); seen++ {
					d := r.dispatches[seen]
					open = append(open, d)
					r.confirm(d.Handle)
				}
				engine.CheckHolds(rt, r.Engine)
				engine.CheckParked(rt, r.Engine)
			},
		})
	})
}

// drawThreePools draws quotas of two groups and three providers, so small that each is now used up, now not.
func drawThreePools(t *rapid.T) string {
	var b strings.Builder
	b.WriteString("alert_percents: []\ngroups: [{id: g1}, {id: g2, weight: 3}]\nproviders:\n")
	for i := range 3 {
		limit := rapid.SampledFrom([]string{
			"total_tokens: {amount: 500, per: day}", "total_tokens: {amount: 900, per: hour}",
			"requests: {rate: 2, per: minute, burst: 2}",
			"total_tokens: {rate: 600, per: minute, burst: 600}", "concurrency: {amount: 2}",
		}).Draw(t, "limit")
		fmt.Fprintf(&b, "  - {provider: p%d, limits: {%s}, share: %s}\n", i+1, limit,
			rapid.SampledFrom([]string{"first_come", "first_come", "by_weight"}).Draw(t, "share"))
	}
	if rapid.Bool().Draw(t, "the first of those that have quota") {
		b.WriteString("routing: {remaining: 0, price: 0, latency: 0, success: 0}\n")
	}
	return b.String()
}
