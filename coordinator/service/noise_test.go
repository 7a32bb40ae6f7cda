package service

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/bus"
	"taskbus/coordinator/service/internal/telemetry"
	"taskbus/messages"
)

// levelOf is the level of the only line with this message about this task.
func (r *rig) levelOf(task, message string) string {
	r.t.Helper()
	var levels []string
	for line := range strings.Lines(r.log.String()) {
		var fields struct {
			Level   string
			Message string
			Task    string `json:"task_id"`
		}
		if err := json.Unmarshal([]byte(line), &fields); err != nil {
			r.t.Fatalf("a log line is not JSON: %s", line)
		}
		if fields.Message == message && fields.Task == task {
			levels = append(levels, fields.Level)
		}
	}
	if len(levels) != 1 {
		r.t.Fatalf("%d lines %q about %s, want 1; log:\n%s", len(levels), message, task, r.log)
	}
	return levels[0]
}

// TestLevels: ERROR wakes an operator, WARN asks for a look, INFO is a fact.
func TestLevels(t *testing.T) {
	cancel := func(r *rig, task string) { <-r.cancel(task, "").done }
	tests := []struct {
		name string
		do   func(r *rig)
		line string // about task t
		want string
	}{
		{"no agent is there", func(r *rig) { r.task("t", "build", ""); r.pass(time.Minute) }, "task failed", "error"},
		{"a producer's fault: task type", func(r *rig) { r.task("t", "paint", "") }, "task refused", "warn"},
		{"a producer's fault: schema", func(r *rig) { r.task("t", "build", `,"priority":9`) }, "task refused", "warn"},
		{"a producer's fault: id used twice", func(r *rig) {
			r.task("t", "build", "")
			r.task("t", "build", `,"priority":3`)
		}, "task refused", "warn"},
		{"as was wished", func(r *rig) { r.task("t", "build", ""); cancel(r, "t") }, "task cancelled", "info"},
		{"and so is the cancel", func(r *rig) { r.task("t", "build", ""); cancel(r, "t") }, "task withdrawn", "info"},
		{"a cancel of what is not known withdraws nothing", func(r *rig) { cancel(r, "t") },
			"cancel noted: the task is not known; should it still come, it will not be assigned", "info"},
		{"nor does one that comes too late", func(r *rig) {
			w := r.worker("a1", true)
			r.task("t", "build", "")
			w.finish("succeeded", "")
			cancel(r, "t")
		}, "cancel too late: the task has ended", "info"},
		{"an agent is asked to stop", func(r *rig) { r.worker("a1", true); r.task("t", "build", ""); cancel(r, "t") },
			"cancel on its way to the agent that has the task", "info"},
		{"it does not answer: the task is over, the agent wants a look", func(r *rig) {
			w := r.worker("a1", true)
			r.task("t", "build", `,"timeout_seconds":1`)
			cancel(r, "t")
			w.report("t")
			r.pass(5 * time.Second)
		}, "task cancelled; its agent has not said that it stopped", "warn"},
		{"in time-out", func(r *rig) {
			w := r.worker("a1", true)
			r.task("t", "build", `,"timeout_seconds":1`)
			w.report("t")
			r.pass(5 * time.Second)
		}, "task overdue", "error"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			inRig(t, fleet, func(r *rig) {
				tt.do(r)
				if got := r.levelOf("t", tt.line); got != tt.want {
					t.Errorf("%q is %s, want %s", tt.line, got, tt.want)
				}
			})
		})
	}
	for state, want := range map[string]string{"offline": "info", "stale": "warn"} {
		t.Run("an agent is "+state, func(t *testing.T) {
			inRig(t, fleet, func(r *rig) {
				r.heartbeat("a1", 0)
				if state == "offline" {
					r.offline("a1")
				}
				r.pass(10 * time.Minute)
				if got := r.levelOf("", "agent is "+state); got != want {
					t.Errorf("%s, want %s", got, want)
				}
			})
		})
	}
	for _, c := range []struct {
		err  error
		want string
	}{{bus.ErrAccess, "error"}, {&bus.TopologyError{}, "error"}, {bus.ErrClosed, "warn"}} {
		t.Run(fmt.Sprintf("no session: %T %v", c.err, c.err), func(t *testing.T) {
			inRig(t, fleet, func(r *rig) {
				r.service.observe.SessionEnded(c.err, true, time.Second)
				if got := r.levelOf("", "no broker session; tasks stay in the broker; trying again"); got != c.want {
					t.Errorf("%s, want %s", got, c.want)
				}
			})
		})
	}
}

// TestInvalidReportsNameTheirAgent: the line names the agent to look for, or says that it is not known.
func TestInvalidReportsNameTheirAgent(t *testing.T) {
	for _, c := range []struct{ name, stream, body, has, lacks string }{
		{"a heartbeat", bus.StreamStatus, `{"message_type":"agent.status","agent_id":"gpu-1","status":"fine"}`,
			`"agent_id":"gpu-1","message":"invalid heartbeat ignored"`, "cannot be read"},
		{"of no valid id", bus.StreamStatus, `{"message_type":"agent.status","agent_id":"gpu\u001b[2J 1"}`,
			`"agent_id":"gpu [2J 1","message":"invalid heartbeat ignored"`, "cannot be read"},
		{"that is no JSON", bus.StreamStatus, "gpu-1", `"message":"invalid heartbeat ignored; its agent_id cannot be read"`,
			`"agent_id"`},
		{"a result", bus.StreamResult, `{"message_type":"task.result","agent_id":"gpu-1","outcome":"fine"}`,
			`"agent_id":"gpu-1","message":"invalid result ignored"`, "cannot be read"},
		{"a misspelt result", bus.StreamResult,
			`{"message_type":"task.result","agent_id":"gpu-1","task_id":"t-1","outcom":"succeeded","correlation_id":"c",` +
				`"timestamp":"2030-01-01T00:00:00Z"}`,
			`"reason":"the message: outcome is missing; it has outcom: did you mean outcome?","task_id":"t-1",` +
				`"agent_id":"gpu-1"`, "cannot be read"},
		{"a result of no agent", bus.StreamResult, `{}`, `"message":"invalid result ignored; its agent_id cannot be read"`,
			`"agent_id"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			inRig(t, fleet, func(r *rig) {
				r.publish(c.stream, c.body)
				if log := r.log.String(); !strings.Contains(log, c.has) || strings.Contains(log, c.lacks) {
					t.Errorf("%q is not in the log, or %q is:\n%s", c.has, c.lacks, log)
				}
			})
		})
	}
}

// TestFloodsAreGated: a thousand faults of one sender are a few lines a second,
// which hide nothing of another kind, and the next line says how many were left out.
func TestFloodsAreGated(t *testing.T) {
	floods := map[string]func(r *rig, i int){
		"task refused": func(r *rig,
			i int) {
			r.send(bus.QueueAssign, taskBody(fmt.Sprint("t", i), "paint", ""))
		},
		"second copy of a known task": func(r *rig, _ int) { r.send(bus.QueueAssign, taskBody("same", "build", "")) },
		"parked in task.dead":         func(r *rig, _ int) { r.send(bus.QueueAssign, "{") },
		"invalid heartbeat":           func(r *rig, _ int) { r.send(bus.StreamStatus, "{") },
		"invalid result":              func(r *rig, _ int) { r.send(bus.StreamResult, "{") },
		"invalid bid or claim":        func(r *rig, _ int) { r.send(bus.QueueRequest, `{"message_type":"task.bid"}`) },
		"cancel noted": func(r *rig, i int) {
			r.send(bus.QueueRequest, fmt.Sprintf(`{"message_type":"task.cancel","task_id":"t%d"}`, i))
		},
	}
	for line, publish := range floods {
		t.Run(line, func(t *testing.T) {
			inRig(t, fleet, func(r *rig) {
				const messages = 1000
				for i := range messages {
					publish(r, i)
				}
				r.settle()
				lines := strings.Count(r.log.String(), line)
				if lines != telemetry.LinesPerSecond {
					t.Errorf("%d lines within one moment, want %d", lines, telemetry.LinesPerSecond)
				}
				r.pass(time.Second)
				publish(r, messages)
				r.settle()
				left := messages - lines
				if line == "second copy of a known task" {
					left-- // the first is no copy
				}
				if want := fmt.Sprintf(`"held_back":%d,`, left); !strings.Contains(r.log.String(), want) {
					t.Errorf("no line says %s:\n%s", want, r.log)
				}
			})
		})
	}
}

// A budget that is used up is told of once in its period: however many others are at the same moment, it has its line.
func TestLinesOfBudgetsAreNotHeldBack(t *testing.T) {
	inRig(t, fleet, func(r *rig) {
		for i := range 4 * telemetry.LinesPerSecond {
			r.service.observe.Effect(coordinator.QuotaReached{Node: fmt.Sprint("pool/g", i), Percent: 100})
			r.service.observe.QuotaOverrun(&messages.QuotaOverrun{Node: fmt.Sprint("pool/g", i)})
		}
		for line, want := range map[string]int{"a quota has come to this part of its limit": 4 * telemetry.LinesPerSecond,
			"a quota will not last": 4 * telemetry.LinesPerSecond} {
			if n := strings.Count(r.log.String(), line); n != want {
				t.Errorf("%d lines %q, want %d", n, line, want)
			}
		}
	})
}

// What a flood has kept out of the log is counted when it is over, one line as one.
func TestOneLineHeldBack(t *testing.T) {
	inRig(t, fleet, func(r *rig) {
		for range telemetry.LinesPerSecond + 1 {
			r.send(bus.QueueAssign, "{")
		}
		r.pass(10 * time.Second)
		if want := `"1 more line held back: parked messages"`; !strings.Contains(r.log.String(), want) {
			t.Errorf("no line %s:\n%s", want, r.log)
		}
	})
}
