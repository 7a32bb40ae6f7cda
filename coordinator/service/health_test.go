package service

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/bus"
	"taskbus/coordinator/service/internal/views"
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
			got := views.CheckAgents(coordinator.Snapshot{Agents: tc.agents, InGrace: tc.grace}, false, nil)
			if got.Status != tc.want || !strings.Contains(got.Detail, tc.detail) {
				t.Errorf("%s: %s\nwant %s: %s", got.Status, got.Detail, tc.want, tc.detail)
			}
		})
	}
}

// What agents make of tasks counts: 12 that fail are no "0 failed".
func TestHealthCountsFailuresAtAgents(t *testing.T) {
	inRig(t, fleet, func(r *rig) {
		a1, a2 := r.worker("a1", true), r.worker("a2", true)
		check := func(want, detail string) {
			t.Helper()
			h := r.service.Health(context.Background())
			if c := h.Checks["results"]; c.Status != want || c.Detail != "last minute: "+detail {
				t.Errorf("%+v, want %s: %s", c, want, detail)
			}
		}
		run := func(id, outcome, extra string) {
			t.Helper()
			r.task(id, "build", "")
			for _, w := range []*worker{a1, a2} {
				for len(w.has()) > 0 {
					w.finish(outcome, extra)
				}
			}
		}
		check(view.Healthy, "0 succeeded at agents, 0 failed there or were not done in time")
		run("t-ok", "succeeded", "")
		run("t-bad", "failed", "")
		check(view.Healthy, "1 succeeded at agents, 1 failed there or were not done in time")
		run("t-bad-2", "failed", "")
		check(view.Degraded, "1 succeeded at agents, 2 failed there or were not done in time")
		run("t-declined", "rejected", "") // declined by both: not failed
		check(view.Degraded, "1 succeeded at agents, 2 failed there or were not done in time")
		run("t-bad-3", "failed", "")
		r.task("t-tried", "build", "")
		for _, w := range []*worker{a1, a2} {
			if len(w.has()) > 0 {
				w.finish("rejected", `,"attempted":true`) // begun, and given up
				break
			}
		}
		check(view.Degraded,
			"1 succeeded at agents, 4 failed there or were not done in time; in ten minutes most failed at a2 (4 of 5)")
		r.task("t-slow", "train", `,"timeout_seconds":1`)
		r.pass(20 * time.Second)
		check(view.Critical,
			"1 succeeded at agents, 5 failed there or were not done in time; in ten minutes most failed at a2 (5 of 6)")
		r.pass(61 * time.Second)
		check(view.Healthy, "0 succeeded at agents, 0 failed there or were not done in time")
	})
}

// Heartbeats under ids that are not listed and results that are not valid are told of until they have stopped for a
// minute, with the id that was meant and what to do.
func TestHealthTellsOfWhatAgentsSendInVain(t *testing.T) {
	inRig(t, fleet, func(r *rig) {
		a1 := r.worker("a1", true)
		check := func(name, want, detail, advice string) {
			t.Helper()
			c := r.service.Health(context.Background()).Checks[name]
			if c.Status != want || !strings.HasSuffix(c.Detail, detail) || !strings.Contains(c.Advice, advice) {
				t.Errorf("%s: %+v, want %s: …%s → …%s…", name, c, want, detail, advice)
			}
		}
		r.heartbeat("a-2", 0) // a2 is not online: that is meant
		r.heartbeat("a-2", 0)
		r.heartbeat("stranger", 0)
		check("agents", view.Degraded,
			"; heartbeats of the last minute name ids that agents.yaml does not list: a-2 (2, did you mean a2?), stranger (1)",
			"list the agents")
		r.publish(bus.StreamResult, `{"message_type":"task.result","agent_id":"a1","task_id":"t-1","outcome":"splendid"}`)
		r.publish(bus.StreamResult, `{"message_type":"task.result","agent_id":"a1","task_id":"t-2"}`)
		r.publish(bus.StreamResult, `nonsense`)
		check("results", view.Degraded, "; 3 invalid and ignored, of a1 (2), an agent_id that cannot be read (1)",
			"correct the task.result")
		for range 12 {
			r.pass(5 * time.Second)
			a1.report()
			r.heartbeat("a2", 0)
		}
		check("agents", view.Healthy, "2 of 2 agents online, 2 can take a task now", "")
		check("results", view.Healthy, "0 failed there or were not done in time", "")
	})
}

// Orders and loads that agents report reach /health.
func TestHealthOfAFleetThatTakesNothing(t *testing.T) {
	inRig(t, fleet, func(r *rig) {
		word := func() string { return r.service.Health(context.Background()).Status }
		r.heartbeat("a1", 0)
		r.heartbeat("a2", 0)
		order := func(o coordinator.Order) {
			t.Helper()
			for _, agent := range []string{"a1", "a2"} {
				if _, err := r.service.Order(context.Background(), agent, o); err != nil {
					t.Fatal(err)
				}
			}
		}
		load := func(load float64) {
			for _, agent := range []string{"a1", "a2"} {
				r.publish(bus.StreamStatus, fmt.Sprintf(
					`{"message_type":"agent.status","agent_id":%q,"status":"ready","current_load":%g,"active_tasks":0,"available_capacity":1,"timestamp":%q}`,
					agent, load, time.Now().Format(time.RFC3339Nano)))
			}
		}
		expect := func(what, want string) {
			t.Helper()
			if got := word(); got != want {
				t.Errorf("%s: %s, want %s", what, got, want)
			}
		}
		expect("both ready", view.Healthy)
		order(orderCordon)
		expect("both cordoned", view.Critical)
		order(orderUncordon)
		expect("both ready again", view.Healthy)
		load(0.95) // max_load is 0.9
		expect("both overloaded", view.Critical)
		load(0)
		expect("both at ease", view.Healthy)
	})
}
