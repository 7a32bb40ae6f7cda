package service

import (
	"strings"
	"testing"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/bus"
	"taskbus/messages"
)

// Three agents fail the same task: it is parked with its headers, and told.
func TestPoisonedTaskIsParked(t *testing.T) {
	const three = `
agents:
  a1: {capabilities: [go], max_concurrent_tasks: 1}
  a2: {capabilities: [go], max_concurrent_tasks: 1}
  a3: {capabilities: [go], max_concurrent_tasks: 1}
  a4: {capabilities: [go], max_concurrent_tasks: 1}
task_routing:
  build: {required_capabilities: [go]}
`
	inRig(t, three, func(r *rig) {
		workers := make(map[string]*worker)
		for _, id := range []string{"a1", "a2", "a3", "a4"} {
			workers[id] = r.worker(id, true)
		}
		r.task("t-1", "build", "")
		for range 3 {
			for _, w := range workers {
				if len(w.has()) > 0 {
					w.finish("rejected", `,"attempted":true,"error":"it crashes"`)
				}
			}
			r.pass(10 * time.Second)
			for _, w := range workers {
				w.report()
			}
		}
		if m := r.only(bus.QueueFailed); m.text("reason_code") != "poisoned" || m.fields["retry_possible"] != false {
			t.Errorf("assignment.failed %s", m.Body)
		}
		dead := r.only(bus.QueueDead)
		if dead.text("task_id") != "t-1" || dead.Headers[messages.HeaderReasonCode] != "poisoned" ||
			dead.Headers[messages.HeaderTask] == nil ||
			!strings.Contains(messages.TextHeader(dead.Headers, messages.HeaderTried), `"failed":[`) {
			t.Errorf("parked %s with headers %v", dead.Body, dead.Headers)
		}
		c := r.status().Counters
		if c.Results["rejected"] != 3 || c.Failed != 1 || c.Parked != 0 {
			t.Errorf("results %v, %d failed, %d parked; want 3 rejected and one failure, not among the unreadable", c.Results,
				c.Failed, c.Parked)
		}
	})
}

// The headers of a task name the agents on which it has failed: a coordinator that knows nothing else
// counts on from there.
func TestPoisonIsCountedFromTheHeaders(t *testing.T) {
	inRig(t, fleet, func(r *rig) {
		task := taskNamed("t-1", time.Now())
		task.ContentHash = 7
		d := dispatchOf(task, "a1", 3, time.Now())
		d.Queue, d.Timeout, d.Tried = "agent.a1", time.Minute, []coordinator.AgentID{"x1", "x2"}
		d.Failed = d.Tried // and now a1: three are poisoned_after's default
		r.publish(bus.QueueReassign, string(messages.AppendDispatch(nil, d, []byte(`{}`))), func(p *bus.Properties) {
			p.Headers = map[string]any{
				messages.HeaderTask: messages.EncodeTaskHeader(task), messages.HeaderTried: messages.EncodeTriedHeader(d),
				messages.HeaderDeathReason: "delivery_limit",
			}
		})
		if m := r.only(bus.QueueFailed); m.text("reason_code") != "poisoned" {
			t.Errorf("assignment.failed %s", m.Body)
		}
		r.only(bus.QueueDead)
	})
}
