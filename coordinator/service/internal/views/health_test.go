package views

import (
	"strings"
	"testing"

	"taskbus/coordinator"
	"taskbus/coordinator/view"
)

type fleetOf []coordinator.AgentSnapshot

// online is an agent that is there, in the state that why says.
func online(why coordinator.Ineligibility) coordinator.AgentSnapshot {
	spec := coordinator.AgentSpec{Capabilities: []string{"go", "gpu"}}
	return coordinator.AgentSnapshot{State: coordinator.AgentOnline, Eligibility: why, Spec: spec}
}

// ejected is an agent that could have a task but for the capabilities it is ejected from.
func ejected(from ...string) coordinator.AgentSnapshot {
	a := online(coordinator.Eligible)
	a.EjectedFrom = from
	return a
}

func TestHealthOfAFleet(t *testing.T) {
	stale := coordinator.AgentSnapshot{State: coordinator.AgentStale, Eligibility: coordinator.WentStale}
	unlisted := ejected("")
	unlisted.Spec.Capabilities = nil
	twice := online(coordinator.Eligible)
	twice.Spec.ID, twice.Instances = "a1", 2
	const healthy, degraded, critical = view.Healthy, view.Degraded, view.Critical
	for _, tc := range []struct {
		name   string
		agents fleetOf
		grace  bool
		want   string
		detail string
	}{
		{"no agent at all", nil, false, critical, "0 of 0 agents online, 0 can take a task now"},
		{"one that can", fleetOf{online(coordinator.Eligible)}, false, healthy,
			"1 of 1 agents online, 1 can take a task now"},

		{"two processes under one id", fleetOf{twice}, false, degraded,
			"1 can take a task now; several processes report as a1 (2): give each its own agent_id"},

		// At work, or about to ask for some: no slot is free, and that is no trouble.
		{"all full", fleetOf{online(coordinator.Full), online(coordinator.Full)}, false, healthy,
			"0 can take a task now: 2 full"},
		{"all busy", fleetOf{online(coordinator.NotReady)}, false, healthy, ": 1 busy"},
		{"all claim their tasks", fleetOf{online(coordinator.Pulling)}, false, healthy,
			": 1 claiming their tasks themselves"},
		{"one kept for a suspected task", fleetOf{online(coordinator.KeptFree)}, false, healthy, ": 1 kept for a task"},

		// None is eligible, nor will be when its work has ended.
		{"all cordoned", fleetOf{online(coordinator.Cordoned), online(coordinator.Cordoned)}, false, critical,
			"2 of 2 agents online, 0 can take a task now: 2 cordoned or draining"},
		{"all overloaded", fleetOf{online(coordinator.Overloaded)}, false, critical, ": 1 overloaded"},
		{"all with a minute of work", fleetOf{online(coordinator.Backlogged)}, false, critical,
			": 1 with a minute of work or more"},
		{"all ejected from all", fleetOf{ejected("go", "gpu"), ejected("go", "gpu")}, false, critical,
			": 2 ejected after failures"},
		{"the one without capabilities ejected", fleetOf{unlisted}, false, critical, ": 1 ejected after failures"},
		{"all stale, full before", fleetOf{stale, stale}, false, critical, "0 of 2 agents online, 0 can take a task now"},
		{"all without a queue", fleetOf{online(coordinator.QueueMissing)}, false, critical, ": 1 without a queue"},
		{"each for another reason", fleetOf{
			online(coordinator.Overloaded), stale, online(coordinator.Cordoned), online(coordinator.Suspect),
			ejected("go", "gpu"),
		}, false, critical,
			"4 of 5 agents online, 1 can take a task now: 1 cordoned or draining, 1 silent for a while, 1 overloaded, 1 " +
				"ejected after failures"},

		// Some are left.
		{"one stale, one full", fleetOf{stale, online(coordinator.Full)}, false, degraded,
			"1 of 2 agents online, 0 can take a task now: 1 full"},
		{"one ejected from a capability", fleetOf{ejected("gpu"), online(coordinator.Eligible)}, false, degraded,
			"2 can take a task now: 1 ejected after failures"},
		{"ejected from one, and it has another", fleetOf{ejected("gpu")}, false, degraded, ": 1 ejected after failures"},
		{"one without a consumer", fleetOf{online(coordinator.WentGone), online(coordinator.Eligible)}, false, degraded,
			": 1 without a consumer"},
		{"one cordoned: as an operator wished", fleetOf{online(coordinator.Cordoned), online(coordinator.Eligible)}, false,
			healthy, ": 1 cordoned or draining"},
		{"one overloaded", fleetOf{online(coordinator.Overloaded), online(coordinator.Eligible)}, false, healthy,
			": 1 overloaded"},

		// Just started: what is not there yet may come.
		{"no heartbeat yet", fleetOf{stale}, true, degraded, "; just started, waiting for their first heartbeats"},
		{"one cordoned, one not heard", fleetOf{stale, online(coordinator.Cordoned)}, true, degraded,
			": 1 cordoned or draining; just started"},
		{"all heard, all cordoned", fleetOf{online(coordinator.Cordoned)}, true, critical, ": 1 cordoned or draining"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := CheckAgents(coordinator.Snapshot{Agents: tc.agents, InGrace: tc.grace}, false, nil)
			if got.Status != tc.want || !strings.Contains(got.Detail, tc.detail) {
				t.Errorf("%s: %s\nwant %s: %s", got.Status, got.Detail, tc.want, tc.detail)
			}
		})
	}
}
