package service

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"taskbus/coordinator/bus"
)

func TestInvalidMessagesArePaidByNobodyElse(t *testing.T) {
	valid := taskBody("good", "build", "")
	for name, c := range map[string]struct {
		body, code, text string // code empty: no producer can be informed
		properties       func(*bus.Properties)
	}{
		"not JSON":       {body: `{"task_id":`, text: "JSON"},
		"no task id":     {body: `{"message_type":"task.assign"}`, text: "task_id"},
		"wrong priority": {body: taskBody("t-1", "build", `,"priority":7`), code: "invalid_message", text: "/priority"},
		"payload missing": {body: `{"message_type":"task.assign","task_id":"t-1","task_type":"build"}`,
			code: "invalid_message", text: "payload"},
		"duplicate key": {
			body: `{"message_type":"task.assign","task_id":"t-1","task_id":"t-2","task_type":"build","payload":{}}`,
			text: "task_id"},
		"case variant": {body: taskBody("t-1", "build", `,"Priority":3`), code: "invalid_message", text: "Priority"},
		"too large": {body: taskBody("t-1", "build", `,"labels":{"x":"`+strings.Repeat("x", 1<<20)+`"}`),
			text: "1048576"},
		"encoded": {body: valid, text: "content_encoding",
			properties: func(p *bus.Properties) { p.ContentEncoding = "gzip" }},
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
		if n := r.status().Counters.Duplicates; n != 1 {
			t.Errorf("%d duplicates counted, want 1", n)
		}
	})
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

// The whole window is taken from the broker once the tasks have proved small.
func TestWindowIsFilledFromTheBroker(t *testing.T) {
	inRig(t, fleet, func(r *rig) {
		for i := range 4100 {
			if err := r.outside.Publish(bus.Publication{Key: bus.QueueAssign,
				Body: []byte(taskBody(fmt.Sprint("t-", i), "build", ""))}); err != nil {
				t.Fatal(err)
			}
		}
		r.pass(time.Millisecond)
		if held := r.broker.Unacked(bus.QueueAssign); held != 4000 {
			t.Errorf("%d tasks held, want the window of 4,000", held)
		}
		if ready := len(r.broker.Messages(bus.QueueAssign)); ready != 100 {
			t.Errorf("%d tasks left in the broker, want 100", ready)
		}
	})
}
