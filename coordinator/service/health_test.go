package service

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/bus"
	"taskbus/coordinator/view"
)

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
					`{"message_type":"agent.status","agent_id":%q,"status":"ready","current_load":%g,"active_tasks":0,`+
						`"available_capacity":1,"timestamp":%q}`,
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
