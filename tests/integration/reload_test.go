package integration

import (
	"strings"
	"syscall"
	"testing"

	"taskbus/coordinator/bus"
	"taskbus/coordinator/view"
)

func TestReload(t *testing.T) {
	t.Parallel()
	r := newRig(t, fleet)
	c := r.start()
	r.online(c, "a1")
	first := c.status().Config

	t.Log("a new agent and a new route, without a restart")
	grown := replaced(t, fleet, "task_routing:",
		"  a3: {capabilities: [french], max_concurrent_tasks: 1, health_check_interval: 1}\ntask_routing:\n  speak: "+
			"{required_capabilities: [french]}")
	r.writeConfig(grown)
	c.awaitStatus("the new agent is known", func(s view.Status) bool { return len(s.Agents) == 3 })
	if got := c.status().Config; got.Version == first.Version || !got.LastReloadOK {
		t.Errorf("/status after the change: %+v", got)
	}
	if a := c.agent("a1"); a.State != "online" {
		t.Errorf("a1 was forgotten by the reload: %+v", a)
	}
	r.online(c, "a3")
	r.assign(task("t-1", "speak"))
	// A quorum queue can be seen before it can be read: a client that reads then loses the connection
	// (INTERNAL_ERROR, noproc). What is confirmed is in it.
	c.awaitStatus("it is in the new queue", func(s view.Status) bool { return s.Counters.Dispatched == 1 })
	if d := r.dispatches("a3", 1)[0]; d.TaskID != "t-1" {
		t.Errorf("a3 got %s", d.TaskID)
	}
	if q := r.broker.QueueInfo(t, "agent.a3"); q.Type != "quorum" {
		t.Errorf("the new agent's queue: %+v", q)
	}

	t.Log("a broken file: what was in force stays, and everybody can see why")
	for _, broken := range []string{
		replaced(t, grown, "max_concurrent_tasks: 1", "max_concurrent_task: 1"),
		grown[:len(grown)/2] + "\n: [",
		"",
	} {
		r.writeConfig(broken)
		c.awaitStatus("the fault is told", func(s view.Status) bool { return !s.Config.LastReloadOK })
		s := c.status()
		if len(s.Agents) != 3 || !strings.Contains(s.Config.LastReloadError, "agents.yaml") ||
			s.Health.Checks["config"].Status != view.Degraded {
			t.Errorf("/status: %+v, health %+v", s.Config, s.Health.Checks["config"])
		}
		if v := c.metric("taskbus_config_last_reload_successful"); v != 0 {
			t.Errorf("taskbus_config_last_reload_successful is %v", v)
		}
		e := c.log.await(t, "the configuration file is broken; the configuration before it stays in force")
		if e["level"] != "error" || !strings.Contains(e["error"].(string), "agents.yaml") {
			t.Errorf("log line %v", e)
		}
		r.assign(task("t-"+strings.Repeat("x", len(broken)%100+1), "build"))
		r.dispatches("a1", 1)
		r.report(beat("a1", 0, 2))

		r.writeConfig(grown)
		c.awaitStatus("the repair is noticed", func(s view.Status) bool { return s.Config.LastReloadOK })
		if v := c.metric("taskbus_config_last_reload_successful"); v != 1 {
			t.Errorf("taskbus_config_last_reload_successful is %v after the repair", v)
		}
	}

	t.Log("SIGHUP reads an unchanged file, too, and ends nothing")
	c.signal(syscall.SIGHUP)
	c.log.await(t, "configuration read again: nothing has changed")

	t.Log("an agent that is taken out of the file gets nothing more")
	r.writeConfig(fleet)
	c.awaitStatus("a3 is gone", func(s view.Status) bool { return len(s.Agents) == 2 })
	r.assign(task("t-2", "speak"))
	if f := r.failures(1)[0]; f.ReasonCode != "unknown_task_type" {
		t.Errorf("after the route was taken out: %s", f.amqp.Body)
	}
	r.empty("agent.a1", "agent.a3", bus.QueueDead)
	r.finish(c)
}

// agents.yaml default < ASSIGNMENT_STRATEGY < task type < the task itself.
func TestStrategyPrecedence(t *testing.T) {
	t.Parallel()
	r := newRig(t, replaced(t, fleet, "task_routing:",
		"task_routing:\n  urgent: {required_capabilities: [code], strategy: priority_based}"))
	for _, tt := range []struct{ env, taskType, own, want string }{
		{"", "build", "", "capability_match"},
		{"round_robin", "build", "", "round_robin"},
		{"round_robin", "urgent", "", "priority_based"},
		{"round_robin", "urgent", "least_loaded", "least_loaded"},
	} {
		c := r.start("ASSIGNMENT_STRATEGY=" + tt.env)
		r.online(c, "a1", "a2")
		q := task("t-"+tt.env+tt.taskType+tt.own, tt.taskType)
		q.Strategy = tt.own
		r.assign(q)
		c.awaitStatus("it is assigned", func(s view.Status) bool { return s.Counters.Dispatched == 1 })
		if got := c.task(q.TaskID).Strategy; got != tt.want {
			t.Errorf("%+v: got %s", tt, got)
		}
		r.finish(c)
	}
	c := r.launchBroken(r.broker.URL, "ASSIGNMENT_STRATEGY=random")
	if c.code != 78 || !strings.Contains(c.log.String(), "random") {
		t.Errorf("an unknown strategy: exit code %d, %s", c.code, c.log)
	}
}
