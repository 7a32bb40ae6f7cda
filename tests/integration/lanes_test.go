package integration

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"taskbus/agent"
	"taskbus/coordinator/bus"
)

// lanes is a fleet that two groups have in common, and a lane for the group that is going to
// flood. One free slot of ten is enough to be given a task (max_load).
const lanes = `
agents:
  all: {capabilities: [work], max_concurrent_tasks: 10, health_check_interval: 1}
task_routing:
  crawl: {required_capabilities: [work]}
  answer: {required_capabilities: [work]}
global_settings:
  assignment_timeout_seconds: 3600
  stale_agent_threshold_seconds: 60
  max_load: 1
  lanes: [crawlers]
`

const laneOfCrawlers = "task.lane.crawlers"

// equals are the two groups, with the same weight and no limits.
const equals = `groups: [{id: crawlers}, {id: readers}]`

// One group sends 10,000 tasks that fill the only agent. What another group of the same weight
// and priority sends after them is seen, and has one of the next slots that become free, while
// the flood waits for the same; what waits can be looked at in its lane; and when the agent
// goes on, everything arrives, once. Meanwhile the group loses its lane: it is emptied all the
// same, and then its queue is gone.
func TestNobodyWaitsBehindAFlood(t *testing.T) {
	t.Parallel()
	const flood = 10_000
	r := newRig(t, lanes)
	if err := os.WriteFile(filepath.Join(filepath.Dir(r.config), "quotas.yaml"), []byte(equals), 0o600); err != nil {
		t.Fatal(err)
	}
	b := r.open()
	c := r.start()
	gate := make(chan struct{})
	crawler := r.member(b, agent.Config{ID: "all", Slots: 10, Capabilities: []string{"work"}}, func(ctx context.Context, _ *agent.Task) (agent.Result, error) {
		select {
		case <-gate:
			return agent.Result{}, nil
		case <-ctx.Done():
			return agent.Result{}, ctx.Err()
		}
	})
	c.awaitEligible("all")

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
	behind := task("behind", "answer")
	behind.Group = "readers"
	b.offer(r.client, behind)
	eventually(t, time.Minute, "what stands behind the flood is seen", func() (bool, string) {
		n := r.ready(bus.QueueAssign)
		return n == 0, plural(n, "task") + " in task.assign, " + fmt.Sprint(c.status().Pending.Total) + " held"
	})
	if begun, _ := crawler.count(); begun != 10 {
		t.Errorf("%d are begun, of which nothing can end yet; want as many as there are slots", begun)
	}
	// The readers have had nothing: theirs is the next turn, or the one after it.
	for ended := 1; len(b.begunBy("behind")) == 0; ended++ {
		if ended > 2 {
			t.Fatalf("%d slots have become free, and the flood had all of them", ended-1)
		}
		gate <- struct{}{}
		eventually(t, patience, "the slot is used", func() (bool, string) {
			begun, _ := crawler.count()
			return begun == 10+ended, plural(begun, "task") + " begun"
		})
	}
	// 2,000 may wait in the window, and 10 are with their agent.
	eventually(t, patience, "the flood waits in its lane", func() (bool, string) {
		n := r.ready(laneOfCrawlers)
		return n >= flood-10-4000, plural(n, "task")
	})
	t.Logf("behind %d tasks: begun after %v; %d wait in the lane", flood, time.Since(sent).Round(time.Millisecond), r.ready(laneOfCrawlers))

	close(gate)
	eventually(t, time.Minute, "the lane is being read", func() (bool, string) {
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
	r.close(c, b, nil)
}
