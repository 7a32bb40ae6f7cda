package service

import (
	"encoding/json"
	"strings"
	"testing"

	"taskbus/coordinator/bus"
)

func TestLogLinesCarryIdsAndNoPayload(t *testing.T) {
	inRig(t, fleet, func(r *rig) {
		r.heartbeat("a1", 0)
		r.task("t-1", "build", `,"correlation_id":"trace-1","labels":{"k":"canary-label"}`)
		r.publish(bus.QueueAssign,
			`{"message_type":"task.assign","task_id":"t-2","task_type":"build","payload":"canary-payload"}`)
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
				assigned = fields["trace_id"] == "trace-1" && fields["task_id"] == "t-1" && fields["agent_id"] == "a1" &&
					fields["level"] == "info"
			}
		}
		if !assigned {
			t.Errorf("no proper line for the assignment in\n%s", r.log)
		}
	})
}
