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
// flood. One free slot of ten is enough to be given a task (max_load). The window is a quarter
// of what it is by default, so that two and a half thousand tasks are two and a half of it.
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
  window: 1000
  lanes: [crawlers]
`

const laneOfCrawlers = "task.lane.crawlers"

// equals are the two groups, with the same weight and no limits.
const equals = `groups: [{id: crawlers}, {id: readers}]`

// floodable is a coordinator with the two groups and their agent, whose ten slots are taken until
// something is sent to the gate, or it is closed.
func floodable(t *testing.T) (r *rig, b *books, c *process, crawler *member, gate chan struct{}) {
	r = newRig(t, lanes)
	if err := os.WriteFile(filepath.Join(filepath.Dir(r.config), "quotas.yaml"), []byte(equals), 0o600); err != nil {
		t.Fatal(err)
	}
	b = r.open()
	c = r.start()
	gate = make(chan struct{})
	crawler = r.member(b, agent.Config{ID: "all", Slots: 10, Capabilities: []string{"work"}},
		func(ctx context.Context, _ *agent.Task) (agent.Result, error) {
			select {
			case <-gate:
				return agent.Result{}, nil
			case <-ctx.Done():
				return agent.Result{}, ctx.Err()
			}
		})
	c.awaitEligible("all")
	return r, b, c, crawler, gate
}

// beginsWithin has one slot after the other become free until the task "behind" has one of them.
func beginsWithin(t *testing.T, b *books, crawler *member, gate chan struct{}, most int) {
	t.Helper()
	for ended := 1; len(b.begunBy("behind")) == 0; ended++ {
		if ended > most {
			t.Fatalf("%d slots have become free, and the flood had all of them", ended-1)
		}
		gate <- struct{}{}
		eventually(t, patience, "the slot is used", func() (bool, string) {
			begun, _ := crawler.count()
			return begun == 10+ended, plural(begun, "task") + " begun"
		})
	}
}

// lanesWindow is the window of lanes. Half of it may be taken by what waits.
const lanesWindow = 1000

// One group sends 2,500 tasks that fill the only agent. What another group of the same weight
// and priority sends after them is seen, and has one of the next slots that become free, while
// the flood waits for the same; what waits can be looked at in its lane; and when the agent
// goes on, everything arrives, once. Meanwhile the group loses its lane: it is emptied all the
// same, and then its queue is gone.
func TestNobodyWaitsBehindAFlood(t *testing.T) {
	t.Parallel()
	const flood = 5 * lanesWindow / 2
	r, b, c, crawler, gate := floodable(t)
	tasks := make([]request, 0, flood)
	for i := range flood {
		q := task(fmt.Sprintf("flood-%05d", i), "crawl")
		q.Group = "crawlers"
		tasks = append(tasks, q)
	}
	for len(tasks) > 0 { // not all at once: confirms are waited for
		n := min(len(tasks), 500)
		b.offer(r.client, tasks[:n]...)
		tasks = tasks[n:]
	}
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
	// The bound of start-time fair queueing for a group that has had nothing, of equal weights and with
	// estimates that are right: W/1 − 0/1 ≤ 1·(c/1), so one task of every other group. There are two,
	// the crawlers and all that name no group, and a task without tokens costs 1,000 in turns. As
	// none of the latter comes, the second slot is the readers'.
	eventually(t, time.Minute, "it stands behind at most two tasks", func() (bool, string) {
		q := c.task("behind").Queued // nil: the coordinator has it, and has not looked at it yet
		return q != nil && q.CostLikely > 0 && q.CostLikely <= 2*1000, fmt.Sprintf("%+v", q)
	})
	beginsWithin(t, b, crawler, gate, 2)
	// Half of the window may wait in it, and 10 are with their agent.
	eventually(t, patience, "the flood waits in its lane", func() (bool, string) {
		n := r.ready(laneOfCrawlers)
		return n >= flood-10-lanesWindow, plural(n, "task")
	})

	close(gate)
	eventually(t, time.Minute, "the lane is being read", func() (bool, string) {
		begun, _ := crawler.count()
		return begun > 5*lanesWindow/8, plural(begun, "task") + " begun"
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
	if queues := r.broker.Ctl(t, "-q", "-p", r.broker.VHost, "list_queues", "name"); strings.Contains(queues,
		laneOfCrawlers) {
		t.Errorf("the queue of the lane is still there:\n%s", queues)
	}
	crawler.retire()
	r.close(c, b, nil)
}
