package service

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/bus"
	"taskbus/coordinator/service/internal/agentqueues"
	"taskbus/coordinator/service/internal/telemetry"
)

// TestManyNewAgentsByMistake: a file that lists thousands of new agents for some seconds costs the broker
// no more queues than fit into that time, and the log a line.
func TestManyNewAgentsByMistake(t *testing.T) {
	inRig(t, fleet, func(r *rig) {
		const many = 2000
		var b strings.Builder
		for i := range many {
			fmt.Fprintf(&b, "  b%04d: {capabilities: [go], max_concurrent_tasks: 1, health_check_interval: 5}\n", i)
		}
		r.service.Reload(parseConfig(t, strings.Replace(fleet, "task_routing:\n", b.String()+"task_routing:\n", 1)), nil)
		r.pass(5 * time.Second)
		before := len(r.log.String())
		r.service.Reload(parseConfig(t, fleet), nil)
		r.pass(time.Minute)
		there := 0
		for i := range many {
			switch _, err := r.outside.Depth(context.Background(), fmt.Sprintf("agent.b%04d", i)); {
			case err == nil:
				there++
			case !errors.Is(err, bus.ErrNoQueue):
				t.Fatal(err)
			}
		}
		if most := int(5*time.Second/agentqueues.DeclarePause) + 1; there < most/2 || there > most {
			t.Errorf("%d queues in 5 s, want up to %d", there, most)
		}
		var declared, unwanted int
		after := r.log.String()[before:]
		if i := strings.Index(after, `"declared":`); i >= 0 {
			if _, err := fmt.Sscanf(after[i:], `"declared":%d,"no_longer_wanted":%d,`, &declared, &unwanted); err != nil {
				t.Error(err)
			}
		}
		if lines := strings.Count(r.log.String(), "\n"); declared+unwanted != many || declared > there ||
			lines > 6*telemetry.LinesPerSecond+10 {
			t.Errorf("%d lines in the log, %d declared and %d not wanted; after the good file:\n%.3000s", lines, declared,
				unwanted, after)
		}
	})
}

// TestNoQueueForOneThatHasLeft: a question that is answered late brings back no queue of an agent that the
// fleet has no more.
func TestNoQueueForOneThatHasLeft(t *testing.T) {
	inRig(t, fleet, func(r *rig) {
		r.service.Reload(parseConfig(t,
			strings.Replace(fleet, "  a2: {capabilities: [go, gpu], max_concurrent_tasks: 1, health_check_interval: 5}\n", "",
				1)), nil)
		r.settle()
		r.broker.DeleteQueue("agent.a2")
		r.service.current.Load().queues.Check(coordinator.EnsureQueue{Agent: "a2", Queue: "agent.a2"})
		r.pass(time.Second)
		if _, err := r.outside.Depth(context.Background(), "agent.a2"); !errors.Is(err, bus.ErrNoQueue) {
			t.Errorf("the queue of an agent that has left: %v", err)
		}
		r.broker.DeleteQueue("agent.a1")
		r.service.current.Load().queues.Check(coordinator.EnsureQueue{Agent: "a1", Queue: "agent.a1"})
		r.pass(time.Second)
		if _, err := r.outside.Depth(context.Background(), "agent.a1"); err != nil {
			t.Errorf("the queue of one that has not: %v", err)
		}
	})
}
