package service

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"taskbus/coordinator/bus"
)

// COORDINATOR's first scenario: one task, one agent.
func TestSingleAssignment(t *testing.T) {
	inRig(t, fleet, func(r *rig) {
		r.heartbeat("a1", 0)
		r.task("t-1", "build", `,"correlation_id":"trace-1"`, func(p *bus.Properties) {
			p.Headers = map[string]any{"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
				"tracestate": "vendor=1", "x-other": "stays behind"}
		})
		m := r.only("agent.a1")
		for field, want := range map[string]any{
			"message_type": "task.dispatch", "task_id": "t-1", "assigned_agent": "a1", "correlation_id": "trace-1",
			"queue": "agent.a1", "task_type": "build", "priority": 1.0, "dispatch_id": m.MessageID, "attempt": 1.0,
			"timeout_seconds": 300.0,
		} {
			if m.fields[field] != want {
				t.Errorf("%s = %v, want %v", field, m.fields[field], want)
			}
		}
		if attemptID(m.MessageID) != "t-1.1" || m.CorrelationID != "trace-1" || m.Type != "task.dispatch" ||
			m.AppID != "taskbus" {
			t.Errorf("properties %+v", m.Properties)
		}
		if m.Expiration != 60*time.Second {
			t.Errorf("expiration %s, want the agent's accept_timeout_seconds of 60 s", m.Expiration)
		}
		if m.Headers["traceparent"] != "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01" ||
			m.Headers["tracestate"] != "vendor=1" {
			t.Errorf("trace context not passed on: %v", m.Headers)
		}
		if _, ok := m.Headers["x-other"]; ok {
			t.Error("a foreign header was passed on")
		}
		// 12345678901234567890 does not survive a float64: the bytes must be the producer's.
		if !bytes.Contains(m.Body, []byte(`"payload":{"n":12345678901234567890, "of":"t-1"}`)) {
			t.Errorf("the payload's bytes have changed: %s", m.Body)
		}
		r.empty(bus.QueueAssign)
		r.empty(bus.QueueFailed)
	})
}

// The second: several at once, never more on an agent than its slots.
func TestConcurrentAssignmentsRespectSlots(t *testing.T) {
	inRig(t, fleet, func(r *rig) {
		r.heartbeat("a1", 0)
		r.heartbeat("a2", 0)
		for _, id := range []string{"t-1", "t-2", "t-3", "t-4", "t-5"} {
			r.task(id, "build", "")
		}
		if a, b := len(r.in("agent.a1")), len(r.in("agent.a2")); a != 1 || b != 1 {
			t.Fatalf("a1 has %d, a2 has %d; want one each, they have one slot", a, b)
		}
		if held := r.broker.Unacked(bus.QueueAssign); held != 3 {
			t.Errorf("%d tasks held unacknowledged, want the 3 that wait", held)
		}
		r.pass(time.Second)
		r.heartbeat("a1", 0) // it has finished its task
		if n := len(r.in("agent.a1")); n != 2 {
			t.Errorf("a1 got %d tasks, want its second after the heartbeat", n)
		}
	})
}

// The third and fourth: no agent can, no agent has room.
func TestRefusalsCarryReasonAndText(t *testing.T) {
	literal := strings.Replace(fleet, "assignment_timeout_seconds: 30",
		"assignment_timeout_seconds: 30, assignment_timeout_counts: waiting", 1)
	inRig(t, literal, func(r *rig) {
		r.heartbeat("a1", 0)
		r.task("full", "build", "") // takes a1's only slot
		for _, c := range []struct{ id, taskType, extra string }{
			{"nobody", "build", `,"required_capabilities":["cobol"]`},
			{"unknown", "paint", ""},
			{"misspelt", "biuld", ""},
			{"silent", "train", ""},
			{"waits", "build", `,"excluded_agents":["a2"]`},
			{"strategy", "build", `,"strategy":"astrology"`},
			{"late", "build", `,"deadline":"1999-01-01T00:00:00Z"`},
		} {
			r.task(c.id, c.taskType, c.extra)
		}
		r.pass(31 * time.Second)
		got := make(map[string]message)
		for _, m := range r.in(bus.QueueFailed) {
			got[m.text("task_id")] = m
		}
		for id, want := range map[string]struct {
			code  string
			retry bool
			text  string
		}{
			"nobody":   {"no_eligible_agents", false, "2 lack `cobol`"},
			"unknown":  {"unknown_task_type", false, `"paint" is not in task_routing`},
			"misspelt": {"unknown_task_type", false, `the task names no required_capabilities; did you mean build?`},
			"silent":   {"no_agents_online", true, "1 never reported"},
			"waits":    {"all_agents_at_capacity", true, "1 full"},
			"strategy": {"invalid_message", false, `"astrology" is not one of the enabled strategies`},
			"late":     {"deadline_exceeded", true, "deadline has passed"},
		} {
			m, ok := got[id]
			if !ok {
				t.Errorf("no assignment.failed for %s", id)
				continue
			}
			if m.text("reason_code") != want.code || m.fields["retry_possible"] != want.retry ||
				!strings.Contains(m.text("reason"), want.text) {
				t.Errorf("%s: %s", id, m.Body)
			}
			if m.text("suggested_action") == "" || m.text("correlation_id") == "" {
				t.Errorf("%s: no suggested action or trace id: %s", id, m.Body)
			}
		}
		if len(got) != 7 {
			t.Errorf("%d failures, want 7", len(got))
		}
		r.empty(bus.QueueAssign)
	})
}

// The fifth: a task of high priority overtakes those that wait.
func TestPriorityOrderOfWaitingTasks(t *testing.T) {
	inRig(t, fleet, func(r *rig) {
		for _, c := range []struct{ id, extra string }{
			{"low", `,"priority":0`}, {"normal-1", ""}, {"critical", `,"priority":3`}, {"normal-2", ""},
		} {
			r.task(c.id, "build", c.extra)
			r.pass(time.Millisecond)
		}
		var order []string
		for len(order) < 4 {
			r.pass(time.Second)
			r.heartbeat("a1", 0)
			order = nil
			for _, m := range r.in("agent.a1") {
				order = append(order, m.text("task_id"))
			}
		}
		if got := strings.Join(order, " "); got != "critical normal-1 normal-2 low" {
			t.Errorf("order %s", got)
		}
	})
}

func TestMissingAgentQueueIsDeclaredAgain(t *testing.T) {
	inRig(t, fleet, func(r *rig) {
		r.heartbeat("a1", 0)
		r.broker.DeleteQueue("agent.a1")
		r.task("t-1", "build", "")
		if m := r.only("agent.a1"); m.text("task_id") != "t-1" {
			t.Errorf("after the queue was declared again: %s", m.Body)
		}
		r.empty(bus.QueueAssign)
	})
}

func TestStaleAgentGoesAndComesBack(t *testing.T) {
	inRig(t, fleet, func(r *rig) {
		r.heartbeat("a1", 0)
		r.pass(120*time.Second - time.Millisecond)
		if st := r.agent("a1"); st.State != "online" {
			t.Errorf("just inside stale_agent_threshold_seconds: %s", st.State)
		}
		r.pass(time.Millisecond)
		if st := r.agent("a1"); st.State != "stale" || st.WhyNot != "stale" {
			t.Errorf("at stale_agent_threshold_seconds: %+v", st)
		}
		r.heartbeat("a1", 0)
		if st := r.agent("a1"); st.State != "online" || !st.Eligible {
			t.Errorf("after its next heartbeat: %+v", st)
		}
	})
}
