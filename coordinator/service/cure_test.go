package service

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"taskbus/coordinator/httpapi"
	"taskbus/coordinator/view"
)

// Every task that waits says why, with the counts of a refusal; those of one kind the same.
func TestTasksSayWhyTheyWait(t *testing.T) {
	inRig(t, fleet, func(r *rig) {
		r.heartbeat("a1", 0)
		r.heartbeat("a2", 0)
		for i := range 4 { // two run
			r.task(fmt.Sprint("b-", i), "build", "")
		}
		r.task("t-0", "train", "")
		r.task("t-1", "train", `,"preferred_agents":["a2"],"widen_after_seconds":20`)
		want := map[string]string{
			"b-2": "0 of 2 agents eligible: 2 full; nearest: a1 (full)",
			"b-3": "0 of 2 agents eligible: 2 full; nearest: a1 (full)",
			"t-0": "0 of 2 agents eligible: 1 lack `gpu`, 1 full; nearest: a2 (full)",
			"t-1": "waits for its preferred agents alone (a2) for at most 20 s more, then for any: 0 of 2 agents eligible: 1 " +
				"lack `gpu`, 1 full; nearest: a2 (full)",
		}
		found := r.service.Tasks(context.Background(), view.TaskFilter{State: "pending"})
		for _, k := range found {
			if k.Reason != want[k.ID] || k.ReasonCode != "" {
				t.Errorf("%s: %q (%s), want %q", k.ID, k.Reason, k.ReasonCode, want[k.ID])
			}
		}
		if len(found) != len(want) {
			t.Errorf("%d tasks wait, want %d", len(found), len(want))
		}
		st := r.status()
		if w := st.Pending.Waits; len(w) == 0 || w[0].Tasks != 2 || w[0].ReasonCode != "all_agents_at_capacity" ||
			!strings.HasPrefix(w[0].Reason, "0 of 2 agents eligible: 2 full") {
			t.Errorf("/status: %+v", w)
		}
	})
}

// Tasks of more kinds than one look at the engine explains say why as well.
func TestTasksOfManyKindsSayWhyTheyWait(t *testing.T) {
	const kinds = 70 // three looks: 32, 32, 6
	var offered []string
	for i := range kinds {
		offered = append(offered, fmt.Sprint("c", i))
	}
	inRig(t,
		fmt.Sprintf(
			"agents: {a1: {capabilities: [%s], max_concurrent_tasks: 1, health_check_interval: 5}}\ntask_routing: {build: "+
				"{required_capabilities: []}}\n",
			strings.Join(offered, ", ")), func(r *rig) {
			r.heartbeat("a1", 0)
			r.task("runs", "build", "")
			for i := range 2 * kinds {
				r.task(fmt.Sprint("t-", i), "build", fmt.Sprintf(`,"required_capabilities":[%q]`, offered[i%kinds]))
			}
			found := r.service.Tasks(context.Background(), view.TaskFilter{State: "pending", Limit: httpapi.MaxTaskLimit})
			if len(found) != 2*kinds {
				t.Fatalf("%d tasks wait, want %d", len(found), 2*kinds)
			}
			for _, k := range found {
				if k.Reason != "0 of 1 agents eligible: 1 full; nearest: a1 (full)" {
					t.Errorf("%s: %q", k.ID, k.Reason)
				}
			}
		})
}

// Rates are those of the last minute, of a process that started just now those since then. What an agent
// made of its tasks is told of it for ten minutes.
func TestRatesAndResultsOfAgents(t *testing.T) {
	inRig(t, fleet, func(r *rig) {
		a1 := r.worker("a1", true)
		for i := range 6 {
			r.task(fmt.Sprint("t-", i), "build", "")
			outcome := "succeeded"
			if i%2 == 1 {
				outcome = "failed"
			}
			a1.finish(outcome, "")
			r.pass(10 * time.Second)
		}
		st := r.status()
		_, span := r.service.observe.LastMinute()
		if n := st.Rates.Received * span; n < 4.9 || n > 6.1 || st.Rates.Assigned != st.Rates.Received ||
			st.Rates.Succeeded <= 0 || st.Rates.Failed <= 0 {
			t.Errorf("%+v in %v s: want 5 or 6 tasks", st.Rates, span)
		}
		if got := r.agent("a1").Recent; got != (view.AgentResults{Succeeded: 3, Failed: 3}) || !got.Failing() {
			t.Errorf("a1: %+v, want 3 and 3, which is failing", got)
		}
		r.task("t-slow", "build", `,"timeout_seconds":1`)
		r.pass(20 * time.Second)
		if got := r.agent("a1").Recent; got.Overdue != 1 {
			t.Errorf("a1: %+v, want 1 overdue", got)
		}
		r.pass(10 * time.Minute)
		if got := r.agent("a1").Recent; got != (view.AgentResults{}) {
			t.Errorf("ten minutes later: %+v", got)
		}
	})
}
