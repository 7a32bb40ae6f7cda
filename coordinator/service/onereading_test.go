package service

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"taskbus/coordinator/view"
)

// TestOneReading: what two screens show of an agent, or of the fleet, is one number: /status (taskbus
// agents, doctor), /agents/stats, /capabilities, /health and the metrics, at one moment, and what
// decisions go by.
func TestOneReading(t *testing.T) {
	const agentsYAML = `
agents:
  a1: {capabilities: [go], max_concurrent_tasks: 4, health_check_interval: 5}
  a2: {capabilities: [go], max_concurrent_tasks: 3, health_check_interval: 5}
  a3: {capabilities: [go], max_concurrent_tasks: 2, health_check_interval: 5}
  a4: {capabilities: [go], max_concurrent_tasks: 2, health_check_interval: 5}
task_routing:
  build: {required_capabilities: [go], strategy: load_balanced}
`
	inRig(t, agentsYAML, func(r *rig) {
		t := r.t
		says := func(agent, status string, active, available, most int) {
			r.publish("agent.status", fmt.Sprintf(`{"message_type":"agent.status","agent_id":%q,"status":%q,"current_load":0.4,`+
				`"active_tasks":%d,"available_capacity":%d,"max_concurrent_tasks":%d,"timestamp":%q}`,
				agent, status, active, available, most, time.Now().Format(time.RFC3339Nano)))
		}
		says("a1", "ready", 0, 2, 2) // half of what agents.yaml gives it
		says("a2", "ready", 1, 2, 3)
		says("a3", "ready", 0, 2, 2)
		says("a3", "offline", 0, 2, 2)
		for i := range 8 {
			r.task(fmt.Sprint("t-", i), "build", "")
		}
		r.pass(time.Second)
		for i, d := range append(r.in("agent.a1"), r.in("agent.a2")...) {
			outcome := []string{"succeeded", "failed"}[i%2]
			r.result(d.text("agent_id"), d.text("task_id"), outcome, "")
		}
		r.pass(time.Second)

		st, samples := r.status(), scraped(t, r.service.options.Registry)
		m := func(name string) float64 { return samples["taskbus_"+name] }
		of := func(name, id string) float64 { return m(fmt.Sprintf("%s{agent_id=%q}", name, id)) }
		stats, err := r.service.AgentStats(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		capabilities, err := r.service.Capabilities(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		same := func(what string, readings ...float64) {
			t.Helper()
			for _, v := range readings[1:] {
				if v != readings[0] {
					t.Errorf("%s: %v", what, readings)
					return
				}
			}
		}
		d, err := r.service.WhatIf(t.Context(), []byte(taskBody("x", "build", "")))
		if err != nil {
			t.Fatal(err)
		}
		decides := func(id string) float64 { // by a strategy that compares success rates
			for _, c := range d.Explanation.Candidates {
				for _, term := range c.Terms {
					if c.Agent == id && term.Name == "success" {
						return float64(term.Value)
					}
				}
			}
			t.Errorf("%s is no candidate: %+v", id, d)
			return math.NaN()
		}
		var used, slots, free, online, gone int
		for i, g := range st.Agents {
			a := stats.Agents[i]
			same(g.ID+" load", g.Load, a.Load, of("agent_load", g.ID))
			same(g.ID+" in flight", float64(g.InFlight), float64(a.InFlight))
			same(g.ID+" slots", float64(g.Slots), float64(a.Slots))
			same(g.ID+" load of ADR-018", float64(g.InFlight)/float64(g.Slots), of("agent_current_load", g.ID))
			same(g.ID+" free", float64(g.FreeSlots), of("agent_free_slots", g.ID))
			same(g.ID+" assigned", float64(g.Assigned), of("agent_assignments_total", g.ID))
			same(g.ID+" capacity", a.Capacity, of("agent_capacity_items_per_second", g.ID))
			same(g.ID+" pending", float64(a.Pending), of("agent_queue_depth", g.ID))
			same(g.ID+" success", a.SuccessRate, of("agent_success_rate", g.ID))
			if g.State != a.State {
				t.Errorf("%s is %s and %s", g.ID, g.State, a.State)
			}
			if g.Eligible {
				same(g.ID+" success in decisions", a.SuccessRate, decides(g.ID))
			}
			if g.Online() {
				online, used, slots, free = online+1, used+g.InFlight, slots+g.Slots, free+g.FreeSlots
			} else {
				gone++
			}
		}
		if online != 2 || used == 0 || slots != 5 {
			t.Fatalf("%d online, %d of %d slots: %+v", online, used, slots, st.Agents)
		}
		c := capabilities[0]
		same("online", float64(online), m(`agents{state="online"}`), float64(stats.Swarm.Idle+stats.Swarm.Busy),
			float64(c.Online))
		same("offline", float64(gone), float64(stats.Swarm.Offline))
		same("in flight", float64(used), m(`agent_slots{state="used"}`), float64(stats.Swarm.InFlight))
		same("free", float64(free), m(`agent_slots{state="free"}`), float64(c.FreeSlots))
		same("slots", float64(slots), float64(c.Slots))
		same("capacity", stats.TotalCapacity, m("capacity_items_per_second"))
		same("depth", float64(stats.GlobalQueueDepth), m("global_queue_depth"))
		same("waiting", float64(st.Pending.Total), float64(stats.QueueDepth.Waiting), float64(c.Waiting),
			m(`held{priority="low"}`)+m(`held{priority="normal"}`)+m(`held{priority="high"}`)+m(`held{priority="critical"}`))
		same("leased", float64(st.Pending.Leased), m("leases"))
		eligible, full := 0, 0
		for _, g := range st.Agents {
			if g.Eligible {
				eligible++
			}
			if g.Online() && g.WhyNot == "full" {
				full++
			}
		}
		want := fmt.Sprintf("%d of %d agents online, %d can take a task now", online, len(st.Agents), eligible)
		if full > 0 {
			want += fmt.Sprintf(": %d full", full)
		}
		if st.Health.Checks["agents"].Detail != want {
			t.Errorf("health says %q, want %q", st.Health.Checks["agents"].Detail, want)
		}
		if v := st.Health.Checks["config"].Detail; v != "version "+st.Config.Version {
			t.Errorf("health says %q, the status version %s", v, st.Config.Version)
		}
	})
}

// TestReadingsWithoutASession: while the broker is away no screen says that an agent can take a task.
func TestReadingsWithoutASession(t *testing.T) {
	inRig(t, fleet, func(r *rig) {
		t := r.t
		r.heartbeat("a1", 0)
		r.heartbeat("a2", 0)
		r.pass(time.Second)
		r.broker.SetOpenError(fmt.Errorf("connection refused"))
		r.broker.Cut()
		r.pass(time.Second)
		st := r.status()
		for _, g := range st.Agents {
			if g.Eligible || g.WhyNot != whyNoSession {
				t.Errorf("%s: %t, %s", g.ID, g.Eligible, g.WhyNot)
			}
		}
		if c := st.Health.Checks["agents"]; c.Status != view.Critical ||
			!strings.HasPrefix(c.Detail, "2 of 2 agents online, 0 can take a task now: there is no session") {
			t.Errorf("health says %+v", c)
		}
		if _, err := r.service.AgentStats(t.Context()); err == nil {
			t.Error("/agents/stats tells figures")
		}
		r.broker.SetOpenError(nil)
		r.pass(time.Minute)
	})
}
