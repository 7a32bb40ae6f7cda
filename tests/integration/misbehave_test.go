package integration

import (
	"fmt"
	"testing"
	"time"

	"taskbus/coordinator/bus"
	"taskbus/coordinator/view"
)

// patient promises a report every 30 s: what is older than the newest is out of
// order then, and no clock that was set back.
const patient = `
agents:
  a1: {capabilities: [code, go], max_concurrent_tasks: 2, priority: 1, health_check_interval: 30}
  a2: {capabilities: [code, gpu], max_concurrent_tasks: 3, priority: 2, health_check_interval: 30}
task_routing:
  build: {required_capabilities: [code]}
global_settings:
  assignment_timeout_seconds: 1
  stale_agent_threshold_seconds: 60
`

// heapLimit bounds the memory of a coordinator under a flood (S12): live data is
// a few MiB, the collector lets garbage grow to a multiple of it.
const heapLimit = 128 << 20

// One agent reports 5,000 times a second for three seconds. Everybody else's work
// goes on meanwhile.
func TestStatusFlood(t *testing.T) {
	t.Parallel()
	const seconds, rate, portions = 3, 5_000, 20 // a second
	r := newRig(t, replaced(t, fleet, "max_concurrent_tasks: 2", "max_concurrent_tasks: 1000"))
	c := r.start()
	r.online(c, "a1")
	flooder := connect(t, r.broker)
	flood := make(chan int)
	go func() {
		sent := 0
		ticks := time.NewTicker(time.Second / portions)
		defer ticks.Stop()
		for range seconds * portions {
			<-ticks.C
			beats := make([]heartbeat, rate/portions)
			for i := range beats {
				beats[i] = beat("a2", i%3, 3)
			}
			sent += count(flooder.tryPublish(bus.StreamStatus, inAMQP(beats)...))
		}
		flood <- sent
	}()
	var slowest time.Duration
	sent, tasks := -1, 0
	for sent < 0 {
		q := task(fmt.Sprint("t-", tasks), "build")
		tasks++
		begun := time.Now()
		r.assign(q)
		c.awaitStatus("it is assigned in the flood",
			func(s view.Status) bool { return s.Counters.Dispatched == uint64(tasks) })
		slowest = max(slowest, time.Since(begun))
		select {
		case sent = <-flood:
		default:
		}
	}
	if sent != seconds*rate {
		t.Fatalf("%d of %d heartbeats were sent", sent, seconds*rate)
	}
	if tasks < 5 || slowest > 5*time.Second {
		t.Errorf("%d tasks were assigned in the flood, the slowest after %v", tasks, slowest)
	}
	c.awaitStatus("every heartbeat is read",
		func(s view.Status) bool { return s.Counters.StatusReceived >= uint64(sent) })
	if heap := c.metric("go_memstats_heap_inuse_bytes"); heap > heapLimit {
		t.Errorf("%.0f MiB of heap in use after %d heartbeats", heap/(1<<20), sent)
	}
	t.Logf("%d heartbeats in %d s, %d tasks meanwhile, the slowest after %v", sent, seconds, tasks, slowest)
	r.finish(c)
}

// 10,000 invented agents: none is registered, and they cost neither memory nor a
// line of log each.
func TestUnknownAgentsFlood(t *testing.T) {
	t.Parallel()
	const invented, each = 10_000, 2
	r := newRig(t, fleet)
	c := r.start()
	for i := range invented * each / 1000 {
		beats := make([]heartbeat, 1000)
		for j := range beats {
			beats[j] = beat(fmt.Sprint("ghost-", (i*1000+j)%invented), 0, 1)
		}
		r.report(beats...)
	}
	c.awaitStatus("every one is counted", func(s view.Status) bool {
		return s.Counters.StatusRefused["unknown_agent"] == invented*each
	})
	if n := len(c.status().Agents); n != 2 {
		t.Errorf("%d agents, want the 2 of agents.yaml", n)
	}
	logged := map[any]int{}
	for _, e := range c.log.find("a heartbeat changes nothing (said once for each agent and cause)") {
		logged[e["agent_id"]]++
	}
	if len(logged) == 0 || len(logged) > 1000 {
		t.Errorf("%d invented agents in the log, want 1 to 1,000", len(logged))
	}
	for id, n := range logged {
		if n > 1 {
			t.Errorf("%v was logged %d times", id, n)
		}
	}
	if n := c.metric(`taskbus_status_refused_total{refusal="unknown_agent"}`); n != invented*each {
		t.Errorf("taskbus_status_refused_total is %v", n)
	}
	if heap := c.metric("go_memstats_heap_inuse_bytes"); heap > heapLimit {
		t.Errorf("%.0f MiB of heap in use", heap/(1<<20))
	}
	r.online(c, "a1")
	r.assign(task("t-1", "build"))
	r.dispatches("a1", 1)
	r.finish(c)
}

func TestReportsOutOfOrder(t *testing.T) {
	t.Parallel()
	r := newRig(t, patient)
	c := r.start()
	now := time.Now()
	at := func(active int, age time.Duration) heartbeat {
		h := beat("a1", active, 2)
		h.Timestamp = now.Add(-age).UTC().Format(time.RFC3339Nano)
		return h
	}
	r.reported(c, at(2, 0)) // full
	r.report(at(0, 5*time.Second), at(1, time.Nanosecond), at(0, 10*time.Minute))
	c.awaitStatus("the older ones change nothing (S9)",
		func(s view.Status) bool { return s.Counters.StatusRefused["out_of_order"] == 3 })
	if a := c.agent("a1"); a.FreeSlots != 0 || a.WhyNot != "full" {
		t.Errorf("after older reports: %+v", a)
	}
	r.reported(c, at(1, -time.Second))
	if a := c.agent("a1"); a.FreeSlots != 1 || !a.Eligible {
		t.Errorf("after a newer report: %+v", a)
	}
	r.finish(c)
}

// What an agent says of itself decides whether it gets work.
func TestReportedStateDecides(t *testing.T) {
	t.Parallel()
	r := newRig(t, patient)
	c := r.start()
	for _, tt := range []struct {
		name  string
		alter func(*heartbeat)
		why   string
	}{
		{"idle", func(*heartbeat) {}, ""},
		{"load just below 0.9", func(h *heartbeat) { h.Load = 0.89 }, ""},
		{"load 0.9", func(h *heartbeat) { h.Load = 0.9 }, "overloaded"},
		{"load 1", func(h *heartbeat) { h.Load = 1 }, "overloaded"},
		{"busy", func(h *heartbeat) { h.Status = "busy" }, "not_ready"},
		{"no capacity of its own", func(h *heartbeat) { h.Available = 0 }, "full"},
		{"all slots taken", func(h *heartbeat) { h.Active = 2 }, "full"},
		{"more tasks than slots", func(h *heartbeat) { h.Active = 1_000_000 }, "full"},
		{"offline", func(h *heartbeat) { h.Status = "offline" }, "offline"},
		{"back again", func(*heartbeat) {}, ""},
	} {
		h := beat("a1", 0, 2)
		tt.alter(&h)
		r.reported(c, h)
		if a := c.agent("a1"); a.WhyNot != tt.why || a.Eligible != (tt.why == "") {
			t.Errorf("%s: eligible %t, why not %q, want %q", tt.name, a.Eligible, a.WhyNot, tt.why)
		}
	}
	r.finish(c)
}

// An agent whose clock is ten minutes off, either way, works like any other: it
// is online, and its reports free its slots.
func TestClocksTenMinutesOff(t *testing.T) {
	t.Parallel()
	r := newRig(t, patient)
	c := r.start()
	for id, off := range map[string]time.Duration{"a1": -10 * time.Minute, "a2": 10 * time.Minute} {
		slots := c.agent(id).MaxConcurrent
		report := func(active int) {
			h := beat(id, active, slots)
			h.Timestamp = time.Now().Add(off).UTC().Format(time.RFC3339Nano)
			r.reported(c, h)
		}
		report(0)
		if a := c.agent(id); a.State != "online" || !a.Eligible {
			t.Fatalf("%s, %v off: %+v", id, off, a)
		}
		for round := range 2 {
			for i := range slots {
				r.assign(task(fmt.Sprintf("%s-%d-%d", id, round, i), "build"))
			}
			got := r.dispatches(id, slots)
			if a := c.agent(id); len(got) != slots || a.FreeSlots != 0 {
				t.Errorf("%s: %d dispatches, %+v", id, len(got), a)
			}
			report(0)
			if a := c.agent(id); a.FreeSlots != slots {
				t.Errorf("%s, %v off: a report after the work must free its slots: %+v", id, off, a)
			}
		}
		offline := beat(id, 0, slots)
		offline.Status = "offline"
		offline.Timestamp = time.Now().Add(off).UTC().Format(time.RFC3339Nano)
		r.reported(c, offline)
	}
	r.empty(bus.QueueFailed)
	r.finish(c)
}

// An agent that falls silent counts as offline on time, gets nothing more, and is
// back with its next report.
func TestSilentAgentGoesStaleAndReturns(t *testing.T) {
	t.Parallel()
	r := newRig(t, replaced(t, fleet, "stale_agent_threshold_seconds: 60", "stale_agent_threshold_seconds: 2"))
	c := r.start()
	r.online(c, "a1")
	c.awaitAgent("a1", "is stale", func(a view.Agent) bool { return a.State == "stale" && a.WhyNot == "stale" })
	e := c.log.await(t, "agent is stale")
	told, err := time.Parse(time.RFC3339, fmt.Sprint(e["time"]))
	if err != nil {
		t.Fatal(err)
	}
	if silent := told.Sub(c.agent("a1").LastHeartbeat); silent < 1990*time.Millisecond || silent > 4*time.Second {
		t.Errorf("told after %v of silence, want 2 s", silent) // log times are cut to milliseconds
	}
	r.assign(task("t-1", "build"))
	if f := r.failures(1)[0]; f.ReasonCode != "no_agents_online" || f.Candidates.Refused["stale"] != 1 {
		t.Errorf("%s", f.amqp.Body)
	}
	r.online(c, "a1")
	r.assign(task("t-2", "build"))
	r.dispatches("a1", 1)
	r.finish(c)
}
