package views

import (
	"strings"
	"testing"
	"time"

	"taskbus/coordinator"
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
	fresh.Oldest = SlowPending // not for longer than that
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
				"40 tasks wait for `go`, and all 12 slots of the 2 agents that could are in use: add agents or slots " +
					"(max_concurrent_tasks)"}},
		{"slots of one agent", fleetOf{slotted(full, 0, 2)},
			[]coordinator.WaitSnapshot{kind(coordinator.ReasonAllAgentsAtCapacity, "go")}, 0, 0,
			[]string{
				"40 tasks wait for `go`, and all 2 slots of the agent that could are in use: add agents or slots " +
					"(max_concurrent_tasks)"}},
		{"the only slot", fleetOf{slotted(full, 0, 1)},
			[]coordinator.WaitSnapshot{kind(coordinator.ReasonAllAgentsAtCapacity, "go")}, 0, 0,
			[]string{
				"40 tasks wait for `go`, and the only slot of the agent that could is in use: add agents or slots " +
					"(max_concurrent_tasks)"}},
		{"an agent that other criteria keep from them", fleetOf{slotted(full, 0, 2), other},
			[]coordinator.WaitSnapshot{kind(coordinator.ReasonAllAgentsAtCapacity, "go")}, 0, 0,
			[]string{
				"40 tasks wait for `go`, and all 2 slots of the agent that could are in use: add agents or slots " +
					"(max_concurrent_tasks)"}},
		{"an agent that fails", fleetOf{broken},
			[]coordinator.WaitSnapshot{kind(coordinator.ReasonAllAgentsAtCapacity, "go")}, 0, 0,
			[]string{
				"40 tasks wait for `go`, and the only agent that could fails most of its tasks: see why (`taskbus agents`: " +
					"FAILED, and its log)"}},
		{"one of two fails", fleetOf{broken, slotted(full, 0, 1)},
			[]coordinator.WaitSnapshot{kind(coordinator.ReasonAllAgentsAtCapacity, "go")}, 0, 0,
			[]string{
				"40 tasks wait for `go`, and all 2 slots of the 2 agents that could are in use: add agents or slots " +
					"(max_concurrent_tasks)"}},
		{"handlers that hang", fleetOf{slotted(full, 0, 2), hung},
			[]coordinator.WaitSnapshot{kind(coordinator.ReasonAllAgentsAtCapacity, "go")}, 0, 0,
			[]string{
				"40 tasks wait for `go`, and 4 of the 6 slots of the agents that could are taken by nothing that was given to " +
					"them: see the check `agents`"}},
		{"some are kept from work", fleetOf{slotted(full, 0, 4), slotted(coordinator.Cordoned, 4, 4), lost},
			[]coordinator.WaitSnapshot{kind(coordinator.ReasonAllAgentsAtCapacity, "go")}, 0, 0,
			[]string{
				"40 tasks wait for `go`, and all 4 slots of the agents that could are in use (besides, 1 cordoned or draining, " +
					"1 ejected after failures): add agents or slots (max_concurrent_tasks)"}},
		{"all are kept from work", fleetOf{slotted(coordinator.Overloaded, 4, 4), lost, stale},
			[]coordinator.WaitSnapshot{kind(coordinator.ReasonAllAgentsAtCapacity, "go")}, 0, 0,
			[]string{
				"40 tasks wait for `go`, and the agents that could take nothing now (1 ejected after failures, 1 overloaded): " +
					"`taskbus agents` shows each; give them work again, or add others"}},
		{"agents", fleetOf{stale}, []coordinator.WaitSnapshot{kind(coordinator.ReasonNoAgentsOnline, "go", "gpu")}, 0, 0,
			[]string{"40 tasks wait for `go` and `gpu`, and the agents that could are away: start them (`taskbus agents`)"}},
		{"capabilities", nil, []coordinator.WaitSnapshot{kind(coordinator.ReasonNoEligibleAgents, "cobol")}, 0, 0,
			[]string{
				"40 tasks wait for `cobol`, and no agent has all of that: add one to agents.yaml, or correct the task type's " +
					"required_capabilities"}},
		{"queues", fleetOf{slotted(coordinator.QueueMissing, 1, 1)},
			[]coordinator.WaitSnapshot{kind(coordinator.ReasonAgentQueueMissing)}, 0, 0,
			[]string{
				"40 tasks wait that require no capability, and the queues of the agents that could do not exist: `taskbus " +
					"topology apply`"}},
		{"claims", fleetOf{slotted(coordinator.Pulling, 1, 1)},
			[]coordinator.WaitSnapshot{kind(coordinator.ReasonNotClaimed, "go")}, 0, 0,
			[]string{
				"40 tasks wait for `go`, and the agents that could claim their tasks and do not ask for these: see that they " +
					"run and claim"}},
		{"quota", nil, nil, 1, 0,
			[]string{
				"1 task waits for quota: `taskbus quota` shows which limit is used up and when there is more; raise it in " +
					"quotas.yaml, or for a while with `taskbus quota boost`"}},
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
		if got := WaitAdvice(&snap, 0, tc.unread); got != strings.Join(tc.want, "; ") {
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
	if got, want := WaitAdvice(&snap, 1.5, 300),
		"what can be assigned (380 tasks) is in about 290 s, if it goes on as now"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	// No pace is known of some: nothing is foretold.
	snap.Waits[1].PerSecond = 0
	if in, n := Drain(&snap, 300, 7); in != 0 || n != 380 {
		t.Errorf("%v for %d tasks", in, n)
	}
}

// What failed is to be looked at only where something did.
func TestAdviceOnWhatWaitsAndNothingFailed(t *testing.T) {
	snap := coordinator.Snapshot{OldestPending: 15600 * time.Millisecond}
	if c := CheckAssignments(snap, RecentCounts{RecentAssigned: 7}, 60,
		0); c.Advice != "`taskbus tasks --state pending` shows for what each waits" {
		t.Errorf("nothing failed: %+v", c)
	}
	if c := CheckAssignments(snap, RecentCounts{RecentRefused: 1}, 60,
		0); c.Advice != "`taskbus tasks --state failed` shows what failed, and why" {
		t.Errorf("one failed: %+v", c)
	}
}

// What is wrong with agents that are there comes before those that are away, of which that may be meant.
func TestFleetAdviceBeginsWithTheTrouble(t *testing.T) {
	stale := coordinator.AgentSnapshot{State: coordinator.AgentNeverSeen}
	hung := slotted(coordinator.Full, 0, 4)
	hung.Strays = 4
	const away = "start the agents that are away, or take them out of agents.yaml (`taskbus agents` shows when each " +
		"was heard last)"
	for _, tc := range []struct {
		name  string
		fleet fleetOf
		want  string
	}{
		{"away alone", fleetOf{stale, online(coordinator.Eligible)}, away},
		{"hung", fleetOf{stale, hung}, StrayAdvice + "; " + away},
		{"all full", fleetOf{stale, online(coordinator.Full), online(coordinator.Full)},
			"all agents online are at work: if tasks wait for long, add agents or slots; " + away},
		{"without a queue", fleetOf{stale, online(coordinator.QueueMissing)},
			"`taskbus agents` shows what keeps each agent from work; " + away},
	} {
		if c := CheckAgents(coordinator.Snapshot{Agents: tc.fleet}, false, nil); c.Advice != tc.want {
			t.Errorf("%s: %s\nwant %s", tc.name, c.Advice, tc.want)
		}
	}
}

// What to do about handlers that hang is said once in all of /health, where the agents are named.
func TestHangingSlotsAreAdvisedOnOnce(t *testing.T) {
	hung := slotted(coordinator.Full, 0, 4)
	hung.Spec.ID, hung.State, hung.Strays = "a1", coordinator.AgentOnline, 4
	snap := coordinator.Snapshot{Agents: fleetOf{hung}, OldestPending: time.Minute, Waits: []coordinator.WaitSnapshot{
		{Required: []string{"go"}, Able: []int{0}, Tasks: 2, Oldest: time.Minute,
			Reason: coordinator.ReasonAllAgentsAtCapacity},
	}}
	agents, waits := CheckAgents(snap, false, nil), CheckAssignments(snap, RecentCounts{}, 60, 0)
	if all := agents.Advice + waits.Advice; strings.Count(all, "start these agents again") != 1 ||
		!strings.Contains(waits.Advice, "see the check `agents`") {
		t.Errorf("agents: %s\nassignments: %s", agents.Advice, waits.Advice)
	}
}
