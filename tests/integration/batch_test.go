package integration

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"taskbus/agent"
	"taskbus/coordinator/view"
)

// batching is a fleet of two agents of ten slots, for tasks that are embedded ten at
// a time.
const batching = `
agents:
  a1: {capabilities: [gpu], max_concurrent_tasks: 10, health_check_interval: 1}
  a2: {capabilities: [gpu], max_concurrent_tasks: 10, health_check_interval: 1}
task_routing:
  embed: {required_capabilities: [gpu], batch: {max_size: 10, max_wait_ms: 5000}}
  single: {required_capabilities: [gpu]}
global_settings:
  stale_agent_threshold_seconds: 60
`

// batchLog is what batch handlers got, each slice as "a1: t-0 t-1".
type batchLog struct {
	mu   sync.Mutex
	list []string
}

func (l *batchLog) note(id string, batch []*agent.Member) {
	tasks := make([]string, len(batch))
	for i, m := range batch {
		tasks[i] = m.ID
	}
	slices.Sort(tasks)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.list = append(l.list, id+": "+strings.Join(tasks, " "))
}

func (l *batchLog) seen() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.list)
}

// batchAgent runs an agent with a batch handler in this process until the test ends.
func (r *rig) batchAgent(id string, handle agent.BatchHandler) {
	r.t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		done <- agent.RunBatches(ctx, agent.Config{ID: id, URL: r.broker.URL, Slots: 10, BatchWait: 5 * time.Second}, handle)
	}()
	r.t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			r.t.Errorf("agent %s: %v", id, err)
		}
	})
}

// Ten tasks of a type that is batched go to one of two idle agents and reach its
// handler as one slice; tasks of another type go alone, to both. Each task of the
// batch has an end of its own.
func TestTenTasksArriveInOneSlice(t *testing.T) {
	t.Parallel()
	r := newRig(t, batching)
	b := r.open()
	c := r.start()
	var got batchLog
	for _, id := range []string{"a1", "a2"} {
		r.batchAgent(id, func(_ context.Context, batch []*agent.Member) error {
			got.note(id, batch)
			for _, m := range batch {
				if m.ID == "t-3" {
					m.Finish(agent.Result{}, fmt.Errorf("nothing to embed in %s", m.ID))
				}
			}
			return nil
		})
	}
	c.awaitEligible("a1", "a2")
	var tasks []request
	var ids []string
	for i := range 10 {
		id := fmt.Sprintf("t-%d", i)
		tasks, ids = append(tasks, task(id, "embed")), append(ids, id)
	}
	b.offer(r.client, tasks...)
	agents := map[string]bool{}
	for _, id := range ids {
		e := b.end(t, id)
		agents[e.Agent] = true
		want := "succeeded"
		if id == "t-3" {
			want = "failed"
		}
		if e.What != want || e.Attempt != 1 {
			t.Errorf("%s: %+v, want %s at the first attempt", id, e, want)
		}
	}
	list := got.seen()
	if len(list) != 1 || len(agents) != 1 || !strings.HasSuffix(list[0], ": "+strings.Join(ids, " ")) {
		t.Errorf("slices %q at %v, want one of ten", list, agents)
	}
	b.offer(r.client, task("s-1", "single"))
	if e := b.end(t, "s-1"); e.What != "succeeded" {
		t.Errorf("%+v", e)
	}
	if list := got.seen(); len(list) != 2 || !strings.HasSuffix(list[1], ": s-1") {
		t.Errorf("slices %q, want one of one beside that of ten", list)
	}
	for _, id := range []string{"a1", "a2"} {
		c.awaitAgent(id, "is idle", func(a view.Agent) bool { return a.FreeSlots == 10 && a.Leased == 0 })
	}
	r.finish(c)
	r.upToDate(b)
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, id := range append(ids, "s-1") {
		if len(b.ends[id]) != 1 {
			t.Errorf("%s has ended %d times: %+v", id, len(b.ends[id]), b.ends[id])
		}
	}
}
