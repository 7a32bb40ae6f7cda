package service

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/httpapi"
	"taskbus/coordinator/service/internal/views"
	"taskbus/coordinator/view"
)

// slotted is an agent that can go, in the state that why says, with so many of so many slots free.
func slotted(why coordinator.Ineligibility, free, slots int) coordinator.AgentSnapshot {
	a := online(why)
	a.Free, a.Slots = free, slots
	return a
}

// What to do about tasks that wait follows from what they wait for: agents, slots, quota, lanes.
func TestCures(t *testing.T) {
	stale := coordinator.AgentSnapshot{State: coordinator.AgentStale,
		Spec: coordinator.AgentSpec{Capabilities: []string{"go"}}}
	lost := slotted(coordinator.Eligible, 2, 2)
	lost.EjectedFrom, lost.EjectedUntil = []string{"go"}, []time.Time{{}}
	kind := func(reason coordinator.Reason, required ...string) coordinator.WaitSnapshot {
		return coordinator.WaitSnapshot{Required: required, Tasks: 40, Oldest: time.Minute, Reason: reason,
			Text: "0 of 1 agents eligible"}
	}
	fresh := kind(coordinator.ReasonNoAgentsOnline, "go")
	fresh.Oldest = views.SlowPending // not for longer than that
	const full = coordinator.Full
	broken := slotted(full, 0, 1)
	broken.Outcomes, broken.Success = 13, 0.04
	hung := slotted(full, 0, 4)
	hung.Strays = 4
	const elsewhere = "elsewhere" // could have none of the tasks, although it has their capabilities
	other := slotted(coordinator.Eligible, 4, 4)
	other.Spec.ID = elsewhere
	for _, tc := range []struct {
		name   string
		agents fleetOf
		waits  []coordinator.WaitSnapshot
		quota  int // tasks that wait for quota
		unread int
		want   []string // all that is said
	}{
		{"slots", fleetOf{slotted(full, 0, 4), slotted(full, 0, 8)},
			[]coordinator.WaitSnapshot{kind(coordinator.ReasonAllAgentsAtCapacity, "go")}, 0, 0,
			[]string{
				"40 tasks wait for `go`, and all 12 slots of the 2 agents that could are in use: add agents or slots (max_concurrent_tasks)"}},
		{"slots of one agent", fleetOf{slotted(full, 0, 2)},
			[]coordinator.WaitSnapshot{kind(coordinator.ReasonAllAgentsAtCapacity, "go")}, 0, 0,
			[]string{
				"40 tasks wait for `go`, and all 2 slots of the agent that could are in use: add agents or slots (max_concurrent_tasks)"}},
		{"the only slot", fleetOf{slotted(full, 0, 1)},
			[]coordinator.WaitSnapshot{kind(coordinator.ReasonAllAgentsAtCapacity, "go")}, 0, 0,
			[]string{
				"40 tasks wait for `go`, and the only slot of the agent that could is in use: add agents or slots (max_concurrent_tasks)"}},
		{"an agent that other criteria keep from them", fleetOf{slotted(full, 0, 2), other},
			[]coordinator.WaitSnapshot{kind(coordinator.ReasonAllAgentsAtCapacity, "go")}, 0, 0,
			[]string{
				"40 tasks wait for `go`, and all 2 slots of the agent that could are in use: add agents or slots (max_concurrent_tasks)"}},
		{"an agent that fails", fleetOf{broken},
			[]coordinator.WaitSnapshot{kind(coordinator.ReasonAllAgentsAtCapacity, "go")}, 0, 0,
			[]string{
				"40 tasks wait for `go`, and the only agent that could fails most of its tasks: see why (`taskbus agents`: FAILED, and its log)"}},
		{"one of two fails", fleetOf{broken, slotted(full, 0, 1)},
			[]coordinator.WaitSnapshot{kind(coordinator.ReasonAllAgentsAtCapacity, "go")}, 0, 0,
			[]string{
				"40 tasks wait for `go`, and all 2 slots of the 2 agents that could are in use: add agents or slots (max_concurrent_tasks)"}},
		{"handlers that hang", fleetOf{slotted(full, 0, 2), hung},
			[]coordinator.WaitSnapshot{kind(coordinator.ReasonAllAgentsAtCapacity, "go")}, 0, 0,
			[]string{
				"40 tasks wait for `go`, and 4 of the 6 slots of the agents that could are taken by nothing that was given to them: see the check `agents`"}},
		{"some are kept from work", fleetOf{slotted(full, 0, 4), slotted(coordinator.Cordoned, 4, 4), lost},
			[]coordinator.WaitSnapshot{kind(coordinator.ReasonAllAgentsAtCapacity, "go")}, 0, 0,
			[]string{
				"40 tasks wait for `go`, and all 4 slots of the agents that could are in use (besides, 1 cordoned or draining, 1 ejected after failures): add agents or slots (max_concurrent_tasks)"}},
		{"all are kept from work", fleetOf{slotted(coordinator.Overloaded, 4, 4), lost, stale},
			[]coordinator.WaitSnapshot{kind(coordinator.ReasonAllAgentsAtCapacity, "go")}, 0, 0,
			[]string{
				"40 tasks wait for `go`, and the agents that could take nothing now (1 ejected after failures, 1 overloaded): `taskbus agents` shows each; give them work again, or add others"}},
		{"agents", fleetOf{stale}, []coordinator.WaitSnapshot{kind(coordinator.ReasonNoAgentsOnline, "go", "gpu")}, 0, 0,
			[]string{"40 tasks wait for `go` and `gpu`, and the agents that could are away: start them (`taskbus agents`)"}},
		{"capabilities", nil, []coordinator.WaitSnapshot{kind(coordinator.ReasonNoEligibleAgents, "cobol")}, 0, 0,
			[]string{
				"40 tasks wait for `cobol`, and no agent has all of that: add one to agents.yaml, or correct the task type's required_capabilities"}},
		{"queues", fleetOf{slotted(coordinator.QueueMissing, 1, 1)},
			[]coordinator.WaitSnapshot{kind(coordinator.ReasonAgentQueueMissing)}, 0, 0,
			[]string{
				"40 tasks wait that require no capability, and the queues of the agents that could do not exist: `taskbus topology apply`"}},
		{"claims", fleetOf{slotted(coordinator.Pulling, 1, 1)},
			[]coordinator.WaitSnapshot{kind(coordinator.ReasonNotClaimed, "go")}, 0, 0,
			[]string{
				"40 tasks wait for `go`, and the agents that could claim their tasks and do not ask for these: see that they run and claim"}},
		{"quota", nil, nil, 1, 0,
			[]string{
				"1 task waits for quota: `taskbus quota` shows which limit is used up and when there is more; raise it in quotas.yaml, or for a while with `taskbus quota boost`"}},
		{"lanes", fleetOf{slotted(coordinator.Eligible, 1, 1)}, []coordinator.WaitSnapshot{fresh}, 0, 500,
			[]string{
				"agents are free while tasks wait in task.assign behind those that none can take: let lanes keep them apart " +
					"(lanes in agents.yaml)"}},
		{"not for long", fleetOf{slotted(full, 0, 1)}, []coordinator.WaitSnapshot{fresh}, 0, 0,
			nil},
	} {
		for i := range tc.waits {
			for n := range tc.agents {
				if tc.agents[n].Spec.ID != elsewhere {
					tc.waits[i].Able = append(tc.waits[i].Able, n)
				}
			}
		}
		snap := coordinator.Snapshot{Agents: tc.agents, Waits: tc.waits,
			PendingReasons: map[coordinator.Reason]int{coordinator.ReasonQuotaExhausted: tc.quota}}
		if got := views.WaitAdvice(&snap, 0, tc.unread); got != strings.Join(tc.want, "; ") {
			t.Errorf("%s:\ngot  %s\nwant %s", tc.name, got, strings.Join(tc.want, "; "))
		}
	}
	// 40 wait for an agent that is away. Of 90 others one starts every second, of 20 one in two seconds: the 20 take
	// 40 s, the
	// 90 take 90 s. Then 300 in task.assign, 1.5 a second of late: 200 s.
	slow, quick := kind(coordinator.ReasonAllAgentsAtCapacity, "go"), kind(coordinator.ReasonAllAgentsAtCapacity, "gpu")
	slow.Tasks, slow.Among, slow.PerSecond = 20, 20, 0.5
	quick.Tasks, quick.Among, quick.PerSecond = 60, 90, 1 // 30 others of another kind wait for the same agents
	slow.Oldest, quick.Oldest = 0, 0
	snap := coordinator.Snapshot{Pending: [4]int{1: 150}, Waits: []coordinator.WaitSnapshot{fresh, slow, quick}}
	if got, want := views.WaitAdvice(&snap, 1.5, 300),
		"what can be assigned (380 tasks) is in about 290 s, if it goes on as now"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	// No pace is known of some: nothing is foretold.
	snap.Waits[1].PerSecond = 0
	if in, n := views.Drain(&snap, 300, 7); in != 0 || n != 380 {
		t.Errorf("%v for %d tasks", in, n)
	}
}

// What failed is to be looked at only where something did.
func TestAdviceOnWhatWaitsAndNothingFailed(t *testing.T) {
	snap := coordinator.Snapshot{OldestPending: 15600 * time.Millisecond}
	if c := views.CheckAssignments(snap, views.RecentCounts{views.RecentAssigned: 7}, 60,
		0); c.Advice != "`taskbus tasks --state pending` shows for what each waits" {
		t.Errorf("nothing failed: %+v", c)
	}
	if c := views.CheckAssignments(snap, views.RecentCounts{views.RecentRefused: 1}, 60,
		0); c.Advice != "`taskbus tasks --state failed` shows what failed, and why" {
		t.Errorf("one failed: %+v", c)
	}
}

// What is wrong with agents that are there comes before those that are away, of which that may be meant.
func TestFleetAdviceBeginsWithTheTrouble(t *testing.T) {
	stale := coordinator.AgentSnapshot{State: coordinator.AgentNeverSeen}
	hung := slotted(coordinator.Full, 0, 4)
	hung.Strays = 4
	const away = "start the agents that are away, or take them out of agents.yaml (`taskbus agents` shows when each was heard last)"
	for _, tc := range []struct {
		name  string
		fleet fleetOf
		want  string
	}{
		{"away alone", fleetOf{stale, online(coordinator.Eligible)}, away},
		{"hung", fleetOf{stale, hung}, views.StrayAdvice + "; " + away},
		{"all full", fleetOf{stale, online(coordinator.Full), online(coordinator.Full)},
			"all agents online are at work: if tasks wait for long, add agents or slots; " + away},
		{"without a queue", fleetOf{stale, online(coordinator.QueueMissing)},
			"`taskbus agents` shows what keeps each agent from work; " + away},
	} {
		if c := views.CheckAgents(coordinator.Snapshot{Agents: tc.fleet}, false, nil); c.Advice != tc.want {
			t.Errorf("%s: %s\nwant %s", tc.name, c.Advice, tc.want)
		}
	}
}

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
			"t-1": "waits for its preferred agents alone (a2) for at most 20 s more, then for any: 0 of 2 agents eligible: 1 lack `gpu`, 1 full; nearest: a2 (full)",
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

// What to do about handlers that hang is said once in all of /health, where the agents are named.
func TestHangingSlotsAreAdvisedOnOnce(t *testing.T) {
	hung := slotted(coordinator.Full, 0, 4)
	hung.Spec.ID, hung.State, hung.Strays = "a1", coordinator.AgentOnline, 4
	snap := coordinator.Snapshot{Agents: fleetOf{hung}, OldestPending: time.Minute, Waits: []coordinator.WaitSnapshot{
		{Required: []string{"go"}, Able: []int{0}, Tasks: 2, Oldest: time.Minute,
			Reason: coordinator.ReasonAllAgentsAtCapacity},
	}}
	agents, waits := views.CheckAgents(snap, false, nil), views.CheckAssignments(snap, views.RecentCounts{}, 60, 0)
	if all := agents.Advice + waits.Advice; strings.Count(all, "start these agents again") != 1 ||
		!strings.Contains(waits.Advice, "see the check `agents`") {
		t.Errorf("agents: %s\nassignments: %s", agents.Advice, waits.Advice)
	}
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
