package service

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"taskbus/coordinator/bus"
	"taskbus/coordinator/bus/membus"
	"taskbus/coordinator/engine"
	"taskbus/coordinator/httpapi"
	"taskbus/schemas"
)

// COORDINATOR's first scenario: one task, one agent.
func TestSingleAssignment(t *testing.T) {
	inRig(t, fleet, func(r *rig) {
		r.heartbeat("a1", 0)
		r.task("t-1", "build", `,"correlation_id":"trace-1"`, func(p *bus.Properties) {
			p.Headers = map[string]any{"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "tracestate": "vendor=1", "x-other": "stays behind"}
		})
		m := r.only("agent.a1")
		for field, want := range map[string]any{
			"message_type": "task.dispatch", "task_id": "t-1", "assigned_agent": "a1", "correlation_id": "trace-1",
			"queue": "agent.a1", "task_type": "build", "priority": 1.0, "dispatch_id": "t-1.1", "attempt": 1.0, "timeout_seconds": 300.0,
		} {
			if m.fields[field] != want {
				t.Errorf("%s = %v, want %v", field, m.fields[field], want)
			}
		}
		if m.MessageID != "t-1.1" || m.CorrelationID != "trace-1" || m.Type != "task.dispatch" || m.AppID != "taskbus" {
			t.Errorf("properties %+v", m.Properties)
		}
		if m.Expiration != 60*time.Second {
			t.Errorf("expiration %s, want the agent's accept_timeout_seconds of 60 s", m.Expiration)
		}
		if m.Headers["traceparent"] != "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01" || m.Headers["tracestate"] != "vendor=1" {
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

// The third and fourth: nobody can, nobody has room.
func TestRefusalsCarryReasonAndText(t *testing.T) {
	inRig(t, fleet, func(r *rig) {
		r.heartbeat("a1", 0)
		r.task("full", "build", "") // takes a1's only slot
		for _, c := range []struct{ id, taskType, extra string }{
			{"nobody", "build", `,"required_capabilities":["cobol"]`},
			{"unknown", "paint", ""},
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
			if m.text("reason_code") != want.code || m.fields["retry_possible"] != want.retry || !strings.Contains(m.text("reason"), want.text) {
				t.Errorf("%s: %s", id, m.Body)
			}
			if m.text("suggested_action") == "" || m.text("correlation_id") == "" {
				t.Errorf("%s: no suggested action or trace id: %s", id, m.Body)
			}
		}
		if len(got) != 6 {
			t.Errorf("%d failures, want 6", len(got))
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

func TestInvalidMessagesArePaidByNobodyElse(t *testing.T) {
	valid := taskBody("good", "build", "")
	for name, c := range map[string]struct {
		body, code, text string // code empty: nobody can be told
		properties       func(*bus.Properties)
	}{
		"not JSON":          {body: `{"task_id":`, text: "JSON"},
		"no task id":        {body: `{"message_type":"task.assign"}`, text: "task_id"},
		"wrong priority":    {body: taskBody("t-1", "build", `,"priority":7`), code: "invalid_message", text: "/priority"},
		"payload missing":   {body: `{"message_type":"task.assign","task_id":"t-1","task_type":"build"}`, code: "invalid_message", text: "payload"},
		"duplicate key":     {body: `{"message_type":"task.assign","task_id":"t-1","task_id":"t-2","task_type":"build","payload":{}}`, text: "task_id"},
		"case variant":      {body: taskBody("t-1", "build", `,"Priority":3`), code: "invalid_message", text: "Priority"},
		"too large":         {body: taskBody("t-1", "build", `,"labels":{"x":"`+strings.Repeat("x", 1<<20)+`"}`), text: "1048576"},
		"encoded":           {body: valid, text: "content_encoding", properties: func(p *bus.Properties) { p.ContentEncoding = "gzip" }},
		"not UTF-8":         {body: taskBody("t-1", "build", `,"group":"`+"\xff"+`"`), text: "UTF-8"},
		"number beyond all": {body: taskBody("t-1", "build", `,"timeout_seconds":1e9999999`), text: "number"},
	} {
		t.Run(name, func(t *testing.T) {
			inRig(t, fleet, func(r *rig) {
				r.heartbeat("a1", 0)
				if c.properties == nil {
					c.properties = func(*bus.Properties) {}
				}
				r.publish(bus.QueueAssign, c.body, c.properties)
				r.task("good", "build", "")

				dead := r.only(bus.QueueDead)
				if string(dead.Body) != c.body {
					t.Error("what was parked is not the original")
				}
				reason, _ := dead.Headers["x-taskbus-reason"].(string)
				if !strings.Contains(reason, c.text) || dead.Headers["x-taskbus-reason-code"] != "invalid_message" ||
					dead.Headers["x-taskbus-source-queue"] != "task.assign" {
					t.Errorf("headers %v, want a reason with %q", dead.Headers, c.text)
				}
				if c.code != "" {
					if m := r.only(bus.QueueFailed); m.text("reason_code") != c.code || !strings.Contains(m.text("reason"), c.text) {
						t.Errorf("assignment.failed %s, want %s with %q", m.Body, c.code, c.text)
					}
				}
				if m := r.only("agent.a1"); m.text("task_id") != "good" {
					t.Errorf("the valid task after it did not get through: %s", m.Body)
				}
				r.empty(bus.QueueAssign)
			})
		})
	}
}

func TestEverythingSentMatchesItsSchema(t *testing.T) {
	set, err := schemas.Compile()
	if err != nil {
		t.Fatal(err)
	}
	inRig(t, fleet+"events: {task_dispatched: true}\n", func(r *rig) {
		bindAll(r)
		r.heartbeat("a1", 0)
		r.task("t-1", "build", `,"deadline":"2100-01-01T00:00:00Z"`)
		r.task("t-1", "build", `,"deadline":"2100-01-01T00:00:00Z"`) // a second copy
		r.task("t-2", "paint", "")
		r.task("t-3", "build", `,"excluded_agents":["a1"]`)
		seen := make(map[string]bool)
		check := func(queue string) {
			for _, m := range r.in(queue) {
				seen[m.Type] = true
				if err := set.Validate(m.Type, any(m.fields)); err != nil {
					t.Errorf("%s: %v\n%s", m.Type, err, m.Body)
				}
			}
		}
		check("agent.a1")
		r.pass(121 * time.Second) // t-3 fails, a1 goes stale
		check(bus.QueueFailed)
		check("everything")
		for _, want := range []string{"task.dispatch", "assignment.failed", "task.duplicate", "task.dispatched", "agent.online", "agent.offline"} {
			if !seen[want] {
				t.Errorf("no %s was sent", want)
			}
		}
	})
}

// bindAll makes a queue that gets every event.
func bindAll(r *rig) {
	s, err := r.broker.Open(context.Background(), bus.SessionSpec{Name: "listener", Topology: bus.Topology{
		Mode:     bus.Declare,
		Queues:   []bus.Queue{{Name: "everything", Kind: bus.Classic}},
		Bindings: []bus.Binding{{Exchange: bus.ExchangeEvents, Queue: "everything", Key: "#"}},
	}})
	if err != nil {
		r.t.Fatal(err)
	}
	if err := s.Close(context.Background()); err != nil {
		r.t.Fatal(err)
	}
}

func TestDuplicates(t *testing.T) {
	inRig(t, fleet, func(r *rig) {
		r.heartbeat("a1", 0)
		r.heartbeat("a2", 0)
		r.task("t-1", "build", "")
		r.task("t-1", "build", "")              // the same again: dropped
		r.task("t-1", "build", `,"priority":3`) // something else under the same id: refused
		r.task("t-2", "paint", "")              // fails
		r.task("t-2", "build", `,"priority":0`) // what failed may come again
		if a, b := len(r.in("agent.a1")), len(r.in("agent.a2")); a+b != 2 {
			t.Errorf("%d dispatches, want t-1 once and t-2 once", a+b)
		}
		var codes []string
		for _, m := range r.in(bus.QueueFailed) {
			codes = append(codes, m.text("task_id")+":"+m.text("reason_code"))
		}
		if got := strings.Join(codes, " "); got != "t-1:duplicate_task t-2:unknown_task_type" {
			t.Errorf("failures %s", got)
		}
		if n := r.service.count.duplicates.Load(); n != 1 {
			t.Errorf("%d duplicates counted, want 1", n)
		}
	})
}

// What was published without an answer goes the same way again, marked.
func TestUnknownOutcomeIsRepeatedToTheSameAgent(t *testing.T) {
	inRig(t, fleet, func(r *rig) {
		r.heartbeat("a1", 0)
		r.heartbeat("a2", 0)
		r.broker.SetConfirm(func(p bus.Publication) membus.Reply {
			if p.Type == "task.dispatch" {
				return membus.Withhold // it arrives, but the answer does not
			}
			return membus.Answer
		})
		r.task("t-1", "build", "")
		queue := "agent.a1"
		if len(r.in(queue)) == 0 {
			queue = "agent.a2"
		}
		if r.broker.Unacked(bus.QueueAssign) != 1 {
			t.Fatal("the task was acknowledged before its dispatch was confirmed")
		}
		r.broker.SetConfirm(nil)
		r.broker.Cut()
		r.pass(20 * time.Second) // beyond the longest back-off
		r.connectAgain()
		got := r.in(queue)
		if len(got) != 2 {
			t.Fatalf("%s holds %d messages, want the dispatch and its repetition; log:\n%s", queue, len(got), r.log)
		}
		if got[1].MessageID != got[0].MessageID || got[1].Headers["x-taskbus-maybe-duplicate"] != true {
			t.Errorf("the repetition: id %s, headers %v", got[1].MessageID, got[1].Headers)
		}
		r.empty(bus.QueueAssign)
	})
}

func (r *rig) connectAgain() { r.connect() }

func TestReturnedTaskGoesToAnotherAgent(t *testing.T) {
	inRig(t, fleet, func(r *rig) {
		r.heartbeat("a1", 0)
		r.heartbeat("a2", 0)
		r.task("t-1", "build", `,"correlation_id":"trace-9"`, func(p *bus.Properties) { p.ReplyTo = "my.replies" })
		for i, want := range []string{"t-1.2", "t-1.3"} {
			queue := "agent.a1"
			if len(r.in(queue)) == 0 {
				queue = "agent.a2"
			}
			body := string(r.only(queue).Body)
			r.reject(queue)
			r.pass(time.Second)
			other := map[string]string{"agent.a1": "agent.a2", "agent.a2": "agent.a1"}[queue]
			if i == 1 { // both had it
				m := r.only(bus.QueueFailed)
				if m.text("reason_code") != "retries_exhausted" || m.text("correlation_id") != "trace-9" || m.fields["attempts"] != 2.0 {
					t.Errorf("after both had it: %s", m.Body)
				}
				break
			}
			m := r.only(other)
			if m.MessageID != want || m.text("correlation_id") != "trace-9" {
				t.Errorf("second dispatch %s: %s", m.MessageID, m.Body)
			}
			payload := body[strings.Index(body, `"payload"`):]
			if !strings.HasSuffix(string(m.Body), payload) {
				t.Errorf("the payload changed on its way back: %s", m.Body)
			}
		}
		r.empty(bus.QueueReassign)
	})
}

// reject refuses the one message of an agent's queue.
func (r *rig) reject(queue string) {
	r.t.Helper()
	rejected := make(chan struct{})
	err := r.outside.Subscribe(context.Background(), bus.Subscription{Queue: queue, Prefetch: 1, Handle: func(d bus.Delivery) {
		r.outside.Reject(d.Tag)
		close(rejected)
	}})
	if err != nil {
		r.t.Fatal(err)
	}
	<-rejected
	if err := r.outside.Close(context.Background()); err != nil {
		r.t.Fatal(err)
	}
	r.connect()
	synctest.Wait()
}

func TestForeignMessageInReassignIsParked(t *testing.T) {
	inRig(t, fleet, func(r *rig) {
		r.publish(bus.QueueReassign, `{"hello":"world"}`)
		if m := r.only(bus.QueueDead); string(m.Body) != `{"hello":"world"}` {
			t.Errorf("parked %s", m.Body)
		}
		r.empty(bus.QueueReassign)
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

func TestReplyToGetsACopyOfTheFailure(t *testing.T) {
	inRig(t, fleet, func(r *rig) {
		s, err := r.broker.Open(context.Background(), bus.SessionSpec{Name: "producer", Topology: bus.Topology{
			Mode: bus.Declare, Queues: []bus.Queue{{Name: "my.replies", Kind: bus.Classic}},
		}})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close(context.Background())
		replyTo := func(queue string) func(*bus.Properties) {
			return func(p *bus.Properties) { p.ReplyTo = queue }
		}
		r.task("t-1", "paint", "", replyTo("my.replies"))
		r.task("t-2", "paint", "", replyTo("no.such.queue")) // nobody's loss
		if m := r.only("my.replies"); m.text("task_id") != "t-1" {
			t.Errorf("copy %s", m.Body)
		}
		if n := len(r.in(bus.QueueFailed)); n != 2 {
			t.Errorf("%d failures in %s, want both", n, bus.QueueFailed)
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

func (r *rig) status() httpapi.Status {
	r.t.Helper()
	st, err := r.service.Status(context.Background())
	if err != nil {
		r.t.Fatal(err)
	}
	return st
}

func (r *rig) agent(id string) httpapi.Agent {
	r.t.Helper()
	for _, a := range r.status().Agents {
		if a.ID == id {
			return a
		}
	}
	r.t.Fatalf("no agent %s in /status", id)
	return httpapi.Agent{}
}

func TestSenderOfAHeartbeatIsChecked(t *testing.T) {
	for mode, wantOnline := range map[string]bool{"off": true, "warn": true, "strict": false} {
		t.Run(mode, func(t *testing.T) {
			inRig(t, strings.Replace(fleet, "agents:\n", "agents:\n  auth: "+mode+"\n", 1), func(r *rig) {
				r.heartbeat("a1", 0) // publishes no user_id
				if online := r.agent("a1").State == "online"; online != wantOnline {
					t.Errorf("online %v, want %v", online, wantOnline)
				}
			})
		})
	}
}

func TestReloadTakesEffectAndABrokenFileDoesNot(t *testing.T) {
	inRig(t, fleet, func(r *rig) {
		r.heartbeat("a1", 0)
		r.task("t-1", "paint", "") // unknown as yet
		old := r.status().Config.Version

		r.service.Reload(nil, errors.New("agents.yaml:3:5: agents.a1.max_concurrent_tasks: must be at least 1"))
		st := r.status()
		if st.Config.LastReloadOK || st.Config.Version != old || !strings.Contains(st.Config.LastReloadError, "agents.yaml:3:5") {
			t.Errorf("after a broken file: %+v", st.Config)
		}
		r.service.Reload(parseConfig(t, strings.Replace(fleet, "task_routing:\n",
			"  a3: {capabilities: [brush], max_concurrent_tasks: 1, health_check_interval: 5}\ntask_routing:\n  paint: {required_capabilities: [brush]}\n", 1)), nil)
		synctest.Wait()
		if st := r.status(); !st.Config.LastReloadOK || st.Config.Version == old {
			t.Errorf("after a good file: %+v", st.Config)
		}
		r.heartbeat("a3", 0)
		r.task("t-2", "paint", "")
		if m := r.only("agent.a3"); m.text("task_id") != "t-2" {
			t.Errorf("the new agent got %s", m.Body)
		}
	})
}

func TestAlarmHoldsUpAndLosesNothing(t *testing.T) {
	inRig(t, fleet, func(r *rig) {
		r.heartbeat("a1", 0)
		r.broker.Block(true)
		synctest.Wait()
		if ready := r.service.Ready(context.Background()); ready.Ready || ready.State != "blocked" {
			t.Errorf("during the alarm: %+v", ready)
		}
		if h := r.service.Health(context.Background()); h.Checks["broker"].Status != httpapi.Degraded {
			t.Errorf("during the alarm: %+v", h.Checks["broker"])
		}
		r.pass(5 * time.Minute)
		r.broker.Block(false)
		synctest.Wait()
		if ready := r.service.Ready(context.Background()); !ready.Ready {
			t.Errorf("after the alarm: %+v", ready)
		}
		if n := r.service.sessions.Load(); n != 1 {
			t.Errorf("%d sessions, want the first to have survived", n)
		}
	})
}

func TestSecondCoordinatorStandsByUntilTheFirstEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first := newRig(t, fleet)
		first.start()
		second := newRig(t, fleet)
		second.broker = first.broker
		second.service.options.Bus = first.broker
		second.start()
		if ready := second.service.Ready(context.Background()); ready.State != "standby" || ready.Ready {
			t.Errorf("the second while the first runs: %+v", ready)
		}
		if h := second.service.Health(context.Background()); h.Status != httpapi.Healthy {
			t.Errorf("a standby in good order: %+v", h)
		}
		first.close()
		second.pass(2 * time.Second)
		if ready := second.service.Ready(context.Background()); !ready.Ready {
			t.Errorf("the second after the first ended: %+v", ready)
		}
		second.heartbeat("a1", 0)
		second.task("t-1", "build", "")
		second.only("agent.a1")
		second.close()
	})
}

func TestDrainSettlesWhatIsInFlightAndLeavesTheRest(t *testing.T) {
	inRig(t, fleet, func(r *rig) {
		r.heartbeat("a1", 0)
		r.broker.SetConfirm(func(p bus.Publication) membus.Reply {
			if p.Type == "task.dispatch" {
				return membus.Withhold
			}
			return membus.Answer
		})
		r.task("in-flight", "build", "")
		r.task("waiting", "build", "")
		r.stop()
		synctest.Wait()
		if r.broker.Unacked(bus.QueueAssign) != 2 {
			t.Fatal("the drain did not wait for the confirm")
		}
		r.task("late", "build", "")
		r.broker.ReleaseConfirms()
		if err := <-r.finished; err != nil {
			t.Fatal(err)
		}
		r.finished <- nil
		var left []string
		for _, m := range r.in(bus.QueueAssign) {
			left = append(left, m.text("task_id"))
		}
		if got := strings.Join(left, " "); got != "waiting late" {
			t.Errorf("left in task.assign: %s, want what was not dispatched", got)
		}
		if n := len(r.in("agent.a1")); n != 1 {
			t.Errorf("a1 has %d messages", n)
		}
	})
}

// A broker that answers nothing any more (a memory alarm) must not keep the
// process beyond its grace.
func TestDrainGivesUpAfterItsGrace(t *testing.T) {
	inRig(t, fleet, func(r *rig) {
		r.heartbeat("a1", 0)
		r.broker.SetConfirm(func(p bus.Publication) membus.Reply {
			if p.Type == "task.dispatch" {
				return membus.Withhold
			}
			return membus.Answer
		})
		r.task("in-flight", "build", "")
		begun := time.Now()
		r.stop()
		if err := <-r.finished; err != nil {
			t.Fatal(err)
		}
		r.finished <- nil
		// shutdown_grace_seconds is 20, and closing gets closeLeast.
		if took := time.Since(begun); took < 20*time.Second || took > 20*time.Second+2*closeLeast {
			t.Errorf("the drain took %v, want 20 s and a moment", took)
		}
	})
}

// What a query that was given up would have written to belongs to its caller.
func TestQueryGivenUpNeverRuns(t *testing.T) {
	l := newLoop(time.Now, nil)
	given, cancel := context.WithCancel(context.Background())
	cancel()
	ran := false
	if err := l.query(given, func(time.Time, *engine.Engine) { ran = true }); !errors.Is(err, context.Canceled) {
		t.Fatalf("a query that nobody answers: %v", err)
	}
	running, stop := context.WithCancel(context.Background())
	go l.run(running)
	if err := l.query(context.Background(), func(time.Time, *engine.Engine) {}); err != nil {
		t.Fatal(err) // behind the first in the inbox
	}
	stop()
	<-l.stopped
	if ran {
		t.Error("it ran after its caller had gone")
	}
}

func TestBrokerAwayIsTriedForEverAndSaidSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, fleet)
		r.broker.SetOpenError(bus.ErrAccess)
		r.startAway()
		r.pass(10 * time.Minute)
		st := r.service.Health(context.Background())
		if st.Status != httpapi.Critical || !strings.Contains(st.Checks["broker"].Detail, "refused access") {
			t.Errorf("while the broker refuses: %+v", st)
		}
		// Full jitter under a bound of 15 s: on average at least one try every 15 s,
		// and no storm: at most one every 250 ms even in the beginning.
		if n := r.service.sessions.Load(); n < 20 || n > 2400 {
			t.Errorf("%d tries in ten minutes", n)
		}
		r.broker.SetOpenError(nil)
		r.pass(16 * time.Second)
		if ready := r.service.Ready(context.Background()); !ready.Ready {
			t.Errorf("after it lets in again: %+v", ready)
		}
		r.connect()
		r.close()
	})
}

func (r *rig) startAway() {
	ctx, cancel := context.WithCancel(context.Background())
	r.stop = cancel
	go func() { r.finished <- r.service.Run(ctx) }()
	synctest.Wait()
}

func TestHealthWords(t *testing.T) {
	inRig(t, fleet, func(r *rig) {
		health := func() httpapi.Health { return r.service.Health(context.Background()) }
		if h := health(); h.Status != httpapi.Degraded || !strings.Contains(h.Checks["agents"].Detail, "waiting for their first heartbeats") {
			t.Errorf("just started: %+v", h)
		}
		r.pass(6 * time.Second) // health_check_interval is 5 s
		if h := health(); h.Status != httpapi.Critical {
			t.Errorf("nobody has reported within the health interval: %+v", h)
		}
		r.heartbeat("a1", 0)
		if h := health(); h.Status != httpapi.Degraded {
			t.Errorf("one of two online: %+v", h)
		}
		r.heartbeat("a2", 0)
		if h := health(); h.Status != httpapi.Healthy {
			t.Errorf("all online: %+v", h)
		}
		for i := range 5 {
			r.task(fmt.Sprint("t-", i), "build", `,"required_capabilities":["cobol"]`)
			want := httpapi.Degraded // one hopeless task in a quiet minute is no catastrophe
			if i == 4 {
				want = httpapi.Critical
			}
			if h := health(); h.Status != want {
				t.Errorf("%d failed, none assigned: %+v", i+1, h)
			}
		}
		r.heartbeat("a1", 0)
		r.pass(61 * time.Second)
		if h := health(); h.Status != httpapi.Healthy {
			t.Errorf("a minute later: %+v", h)
		}
	})
}

func TestTaskViewTellsTheStory(t *testing.T) {
	inRig(t, fleet, func(r *rig) {
		r.heartbeat("a1", 0)
		r.task("t-1", "build", "")
		r.task("t-2", "build", "")
		done, ok := r.service.Task(context.Background(), "t-1")
		if !ok || done.State != "dispatched" || done.Agent != "a1" || done.Strategy != "capability_match" || done.DispatchID != "t-1.1" {
			t.Errorf("t-1: %+v", done)
		}
		if x := done.Explanation; x == nil || x.Eligible != 1 || x.Fleet != 2 || x.Candidates[0].Terms[0].Name != "load" {
			t.Errorf("why t-1 went to a1: %+v", x)
		}
		waiting, ok := r.service.Task(context.Background(), "t-2")
		if !ok || waiting.State != "pending" || waiting.Explanation == nil || waiting.Explanation.Refused["full"] != 1 {
			t.Errorf("t-2: %+v, %+v", waiting, waiting.Explanation)
		}
		if _, ok := r.service.Task(context.Background(), "t-3"); ok {
			t.Error("a task that never was is known")
		}
		list := r.service.Tasks(context.Background(), httpapi.TaskFilter{State: "pending"})
		if len(list) != 1 || list[0].ID != "t-2" {
			t.Errorf("pending tasks: %+v", list)
		}
	})
}

func TestLogLinesCarryIdsAndNoPayload(t *testing.T) {
	inRig(t, fleet, func(r *rig) {
		r.heartbeat("a1", 0)
		r.task("t-1", "build", `,"correlation_id":"trace-1","labels":{"k":"canary-label"}`)
		r.publish(bus.QueueAssign, `{"message_type":"task.assign","task_id":"t-2","task_type":"build","payload":"canary-payload"}`)
		var assigned bool
		for line := range strings.Lines(r.log.String()) {
			if strings.Contains(line, "canary") {
				t.Errorf("content in the log: %s", line)
			}
			var fields map[string]any
			if err := json.Unmarshal([]byte(line), &fields); err != nil {
				t.Fatalf("a log line is not JSON: %s", line)
			}
			if fields["message"] == "task assigned" {
				assigned = fields["trace_id"] == "trace-1" && fields["task_id"] == "t-1" && fields["agent_id"] == "a1" && fields["level"] == "info"
			}
		}
		if !assigned {
			t.Errorf("no proper line for the assignment in\n%s", r.log)
		}
	})
}

// When assignment.failed is gone it is declared again, and the failure gets there,
// within the same session.
func TestFailureThatCannotBePublishedIsNotLost(t *testing.T) {
	inRig(t, fleet, func(r *rig) {
		r.broker.DeleteQueue(bus.QueueFailed)
		r.task("t-1", "paint", "")
		r.pass(noticePause)
		if m := r.only(bus.QueueFailed); m.text("task_id") != "t-1" {
			t.Errorf("%s", m.Body)
		}
		r.empty(bus.QueueAssign)
		if n := r.service.sessions.Load(); n != 1 {
			t.Errorf("%d sessions, want the first to go on", n)
		}
	})
}

// A producer's full reply queue is the producer's business alone.
func TestFullReplyQueueStopsNobody(t *testing.T) {
	inRig(t, fleet, func(r *rig) {
		s, err := r.broker.Open(context.Background(), bus.SessionSpec{Name: "producer", Topology: bus.Topology{
			Mode: bus.Declare, Queues: []bus.Queue{{Name: "my.replies", Kind: bus.Quorum, DeliveryLimit: 5, MaxLength: 1}},
		}})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close(context.Background())
		for _, id := range []string{"t-1", "t-2", "t-3"} {
			r.task(id, "paint", "", func(p *bus.Properties) { p.ReplyTo = "my.replies" })
		}
		r.pass(time.Minute)
		if n := len(r.in(bus.QueueFailed)); n != 3 {
			t.Errorf("%d failures, want 3", n)
		}
		if n := r.service.sessions.Load(); n != 1 {
			t.Errorf("%d sessions, want the first to go on", n)
		}
		r.empty(bus.QueueAssign)
	})
}

// Nobody can have Taskbus write into queues that are not his.
func TestReplyToIntoOurQueuesIsRefused(t *testing.T) {
	inRig(t, fleet, func(r *rig) {
		for i, queue := range []string{"agent.a1", bus.QueueAssign, bus.StreamStatus, bus.QueueDead} {
			r.task(fmt.Sprint("t-", i), "paint", "", func(p *bus.Properties) { p.ReplyTo = queue })
		}
		if n := len(r.in(bus.QueueFailed)); n != 4 {
			t.Errorf("%d failures, want 4", n)
		}
		r.empty("agent.a1")
		r.empty(bus.QueueDead)
	})
}

// A dispatch that reached its agent, but not its confirm, must not make the task
// fail because the agent is busy with it.
func TestUnknownOutcomeAtABusyAgentIsRepeatedToIt(t *testing.T) {
	inRig(t, fleet, func(r *rig) {
		r.heartbeat("a2", 0)
		r.broker.SetConfirm(func(p bus.Publication) membus.Reply {
			if p.Type == "task.dispatch" {
				return membus.Withhold
			}
			return membus.Answer
		})
		r.task("t-1", "train", "") // only a2 can
		r.pass(time.Second)
		r.heartbeat("a2", 1) // it runs t-1: its one slot is taken
		r.broker.SetConfirm(nil)
		r.broker.Cut()
		r.pass(20 * time.Second)
		r.connect()
		r.empty(bus.QueueFailed)
		got := r.in("agent.a2")
		if len(got) != 2 || got[1].MessageID != got[0].MessageID || got[1].Headers["x-taskbus-maybe-duplicate"] != true {
			t.Errorf("a2's queue: %d messages, want the dispatch and its marked repetition", len(got))
		}
	})
}

// In verify mode nobody knows of a plain queue whether it gives back what expires.
func TestNoExpirationWithoutKnowledge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, fleet+"topology: off\n")
		s, err := r.broker.Open(context.Background(), bus.SessionSpec{Name: "operator", Topology: bus.Standard(bus.Declare, bus.ProfileQuorum, []string{"agent.a1", "agent.a2"})})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close(context.Background())
		r.start()
		defer r.close()
		r.heartbeat("a1", 0)
		r.task("t-1", "build", "")
		if m := r.only("agent.a1"); m.Expiration != 0 {
			t.Errorf("expiration %s in a queue that was not looked at", m.Expiration)
		}
	})
}

// A broker that holds up publishers must not cost memory without bound.
func TestAnnouncementsAreBounded(t *testing.T) {
	inRig(t, fleet, func(r *rig) {
		r.heartbeat("a1", 0)
		r.task("t-1", "build", "")
		r.broker.Block(true)
		synctest.Wait()
		body := taskBody("t-1", "build", "")
		other, err := r.broker.Open(context.Background(), bus.SessionSpec{Name: "flood", Window: 1, Topology: bus.Topology{Mode: bus.Off}})
		if err != nil {
			t.Fatal(err)
		}
		defer other.Close(context.Background())
		session := r.service.current.Load()
		for range 3 * maxAnnounced {
			session.announce("task.duplicate", "task.duplicate", "t-1", "trace", []byte(body))
		}
		if n := session.outbox.waiting(); n > maxAnnounced {
			t.Errorf("%d announcements wait, want at most %d", n, maxAnnounced)
		}
		r.broker.Block(false)
		synctest.Wait()
	})
}

// In a plain queue nothing gives back what expires, so nothing may expire there.
func TestNoExpirationWhereItWouldLoseTheTask(t *testing.T) {
	t.Run("classic profile", func(t *testing.T) {
		inRig(t, fleet+"queues: classic\n", func(r *rig) {
			r.heartbeat("a1", 0)
			r.task("t-1", "build", "")
			if m := r.only("agent.a1"); m.Expiration != 0 {
				t.Errorf("expiration %s", m.Expiration)
			}
		})
	})
	t.Run("a queue that the agent declared itself", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, fleet)
			s, err := r.broker.Open(context.Background(), bus.SessionSpec{Name: "agent", Topology: bus.Topology{
				Mode: bus.Declare, Queues: []bus.Queue{{Name: "agent.a1", Kind: bus.Classic}},
			}})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close(context.Background())
			r.start()
			defer r.close()
			r.heartbeat("a1", 0)
			r.heartbeat("a2", 0)
			r.task("plain", "build", `,"excluded_agents":["a2"]`)
			r.task("quorum", "build", `,"excluded_agents":["a1"]`)
			if m := r.only("agent.a1"); m.Expiration != 0 {
				t.Errorf("in the plain queue: expiration %s", m.Expiration)
			}
			if m := r.only("agent.a2"); m.Expiration != 60*time.Second {
				t.Errorf("in our own queue: expiration %s", m.Expiration)
			}
			if f := r.status().Broker.Findings; len(f) != 1 || f[0].Object != "agent.a1" {
				t.Errorf("findings in /status: %+v", f)
			}
		})
	})
}
