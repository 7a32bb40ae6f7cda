package integration

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"taskbus/agent"
	"taskbus/coordinator/bus"
)

// lanes is a fleet of two kinds, and lanes for the group that is going to flood.
const lanes = `
agents:
  slow: {capabilities: [slow], max_concurrent_tasks: 200, health_check_interval: 1}
  quick: {capabilities: [quick], max_concurrent_tasks: 5, health_check_interval: 1}
task_routing:
  crawl: {required_capabilities: [slow]}
  answer: {required_capabilities: [quick]}
global_settings:
  assignment_timeout_seconds: 3600
  stale_agent_threshold_seconds: 60
  lanes: [crawlers]
`

const laneOfCrawlers = "task.lane.crawlers"

// One group sends 20,000 tasks that hardly any agent can take now. What another group sends
// after them is seen and dispatched nevertheless; what waits can be looked at in its lane;
// and when there are agents, everything arrives, once. Meanwhile the group loses its lane:
// it is emptied all the same, and then its queue is gone.
func TestNobodyWaitsBehindAFlood(t *testing.T) {
	t.Parallel()
	const flood = 20_000
	r := newRig(t, lanes)
	b := r.open()
	c := r.start()
	gate := make(chan struct{})
	crawler := r.member(b, agent.Config{ID: "slow", Slots: 200, Capabilities: []string{"slow"}}, func(ctx context.Context, _ *agent.Task) (agent.Result, error) {
		select {
		case <-gate:
			return agent.Result{}, nil
		case <-ctx.Done():
			return agent.Result{}, ctx.Err()
		}
	})
	quick := r.member(b, agent.Config{ID: "quick", Slots: 5, Capabilities: []string{"quick"}}, lasting(0))
	c.awaitEligible("slow", "quick")

	tasks := make([]request, 0, flood)
	for i := range flood {
		q := task(fmt.Sprintf("flood-%05d", i), "crawl")
		q.Group = "crawlers"
		tasks = append(tasks, q)
	}
	for len(tasks) > 0 { // not all at once: confirms are waited for
		n := min(len(tasks), 2000)
		b.offer(r.client, tasks[:n]...)
		tasks = tasks[n:]
	}
	sent := time.Now()
	b.offer(r.client, task("behind", "answer"))
	eventually(t, time.Minute, "what stands behind the flood is done", func() (bool, string) {
		return len(b.begunBy("behind")) > 0, plural(r.ready(bus.QueueAssign), "task") + " in task.assign, " + fmt.Sprint(c.status().Pending.Total) + " held"
	})
	if begun, _ := crawler.count(); begun != 200 {
		t.Errorf("%d of the flood are begun, of which nothing can end yet; want as many as there are slots", begun)
	}
	// 2,000 may wait in the window, and 200 are with their agent.
	eventually(t, patience, "the flood waits in its lane", func() (bool, string) {
		n := r.ready(laneOfCrawlers)
		return n >= flood-200-4000, plural(n, "task")
	})
	t.Logf("behind %d tasks: begun after %v; %d wait in the lane", flood, time.Since(sent).Round(time.Millisecond), r.ready(laneOfCrawlers))

	close(gate)
	eventually(t, patience, "the lane is being read", func() (bool, string) {
		begun, _ := crawler.count()
		return begun > 2500, plural(begun, "task") + " begun"
	})
	r.writeConfig(strings.Replace(lanes, "[crawlers]", "[]", 1))
	c.log.await(t, "new configuration in force")
	begun := time.Now()
	b.allEnd(t, 3*time.Minute)
	t.Logf("all done %v after the group lost its lane", time.Since(begun).Round(time.Millisecond))
	for id, all := range b.dispatched {
		if len(all) != 1 || all[0].marked {
			t.Errorf("%s was begun %d times (%+v)", id, len(all), all)
		}
	}
	c.log.await(t, "a lane that the configuration no longer has is empty; its queue is deleted")
	if queues := r.broker.Ctl(t, "-q", "-p", r.broker.VHost, "list_queues", "name"); strings.Contains(queues, laneOfCrawlers) {
		t.Errorf("the queue of the lane is still there:\n%s", queues)
	}
	crawler.retire()
	quick.retire()
	r.close(c, b, nil)
}
