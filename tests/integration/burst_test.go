package integration

import (
	"context"
	"fmt"
	"testing"
	"time"

	"taskbus/agent"
	"taskbus/coordinator/bus"
)

// Nothing is said of lanes. Ten tasks may wait in the window of 20, and no more than 20 in all.
const small = `
agents:
  all: {capabilities: [work], max_concurrent_tasks: 4, health_check_interval: 1}
task_routing:
  crawl: {required_capabilities: [work]}
global_settings: {assignment_timeout_seconds: 1, window: 20, max_queue_size: 20, max_load: 1}
`

// A burst that takes the fleet longer than the assignment timeout, and of which more waits than
// max_queue_size, waits: 120 tasks of 0.1 s on 4 slots are 30 rounds, 3 s. What crowds the window is
// moved to lanes, of which there is none before.
func TestBurstWaits(t *testing.T) {
	t.Parallel()
	r := newRig(t, small)
	b := r.open()
	c := r.start()
	all := r.member(b, agent.Config{ID: "all", Slots: 4, Capabilities: []string{"work"}},
		func(ctx context.Context, _ *agent.Task) (agent.Result, error) {
			select {
			case <-time.After(100 * time.Millisecond):
				return agent.Result{}, nil
			case <-ctx.Done():
				return agent.Result{}, ctx.Err()
			}
		})
	c.awaitEligible("all")
	if lanes := c.status().Lanes; len(lanes) > 0 {
		t.Errorf("nothing waits, and there are lanes: %+v", lanes)
	}
	tasks := make([]request, 120)
	for i := range tasks {
		tasks[i] = task(fmt.Sprintf("t-%03d", i), "crawl")
	}
	b.offer(r.client, tasks...)
	b.allEnd(t, time.Minute)
	s := c.status().Counters
	if s.Failed > 0 || s.Moved == 0 {
		t.Errorf("%d failed, %d were moved to lanes", s.Failed, s.Moved)
	}
	r.empty(bus.QueueFailed, bus.QueueDead)
	all.retire()
	r.close(c, b, nil)
}
