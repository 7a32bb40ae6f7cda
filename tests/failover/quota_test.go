package failover

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"taskbus/agent"
	"taskbus/coordinator"
	"taskbus/coordinator/view"
	"taskbus/tests/support/brokertest"
)

// The pool has tokens for exactly so many of the tasks offered at one time: each is thought
// to take estimate tokens, and takes fewer.
const (
	limitedTasks = 1000
	offeredTasks = 1200
	estimate     = 100
	poolTokens   = limitedTasks * estimate
)

// quotas is the quotas.yaml of these tests: one pool of tokens, two groups.
const quotas = `
pool:
  limits: {total_tokens: {amount: 100000, per: year}}
groups:
  - {id: project_alpha, weight: 1}
  - {id: project_beta, weight: 1}
`

// usageOf is what a task takes, by its id: at most estimate.
func usageOf(id string) int {
	h := fnv.New32a()
	h.Write([]byte(id))
	return 40 + int(h.Sum32()%61)
}

// TestQuotasSurvive kills the leader in the middle of reserving quota for 1,000 tasks, and
// again in the middle of settling them. The next leader has used and reserved exactly what
// the journal says, which is what agents got and told; and never is more used and reserved
// than there is.
func TestQuotasSurvive(t *testing.T) {
	t.Parallel()
	t.Run("it starts again", func(t *testing.T) {
		t.Parallel()
		quotasSurvive(t, func(r *rig, leader *process) *process {
			leader.kill()
			next := r.launch("the one that starts again", r.url)
			next.awaitState("active")
			return next
		}, func(*rig) {})
	})
	t.Run("a standby takes over", func(t *testing.T) {
		t.Parallel()
		var standby *process
		quotasSurvive(t, func(r *rig, leader *process) *process {
			next := standby
			leader.kill()
			next.awaitState("active")
			standby = r.launch("another standby", r.url)
			standby.awaitState("standby")
			return next
		}, func(r *rig) {
			standby = r.launch("the standby", r.url)
			standby.awaitState("standby")
		})
	})
}

// quotasSurvive plays one run: next kills the leader and gives the one after it; prepare
// comes when the first leads.
func quotasSurvive(t *testing.T, next func(*rig, *process) *process, prepare func(*rig)) {
	r := newRig(t, brokertest.Vhost(t).URL)
	r.configure(strings.Replace(strings.Replace(fleet, "keeper: {capabilities: [keeping], max_concurrent_tasks: 8",
		"keeper: {capabilities: [keeping], max_concurrent_tasks: 1300", 1),
		"assignment_timeout_seconds: 5", "assignment_timeout_seconds: 300", 1))
	if err := os.WriteFile(filepath.Join(filepath.Dir(r.config), "quotas.yaml"), []byte(quotas), 0o600); err != nil {
		t.Fatal(err)
	}
	leader := r.launch("the first", r.url)
	leader.awaitState("active")
	prepare(r)
	k := &meter{keeper: keeper{gate: make(chan struct{})}, tasks: make(map[string]bool), begun: make(chan struct{}),
		told: make(chan struct{})}
	r.sdk("keeper", 1300, k.work)
	leader.awaitStatus("its agent is online", func(s view.Status) bool {
		for _, a := range s.Agents {
			if a.ID == "keeper" && a.Eligible {
				return true
			}
		}
		return false
	})
	tasks := make([]request, offeredTasks)
	for i := range tasks {
		tasks[i] = task(fmt.Sprint("q-", i), "keep")
		tasks[i].Group = []string{"project_alpha", "project_beta"}[i%2]
		tasks[i].Usage = map[string]int{"input_tokens": 80, "output_tokens": 20}
	}
	offered := make(chan struct{})
	r.helpers.Go(func() {
		defer close(offered)
		r.offer(tasks...)
	})

	await(r, k.begun, "some quota is reserved")
	leader = next(r, leader)
	<-offered
	r.eventually(patience, "all that there is quota for is with the agent", func() (bool, string) {
		n := k.holding()
		return n == limitedTasks && leader.pool().Reserved == poolTokens, fmt.Sprintf("%d tasks, %+v", n, leader.pool())
	})
	if p := leader.pool(); p.Used != 0 || p.Reserved != poolTokens {
		t.Errorf("with %d tasks dispatched the pool has %v used and %v reserved", limitedTasks, p.Used, p.Reserved)
	}

	k.letGo()
	await(r, k.told, "some have told")
	leader = next(r, leader)
	sum := 0
	for _, q := range tasks {
		sum += usageOf(q.TaskID)
	}
	r.eventually(patience, "all have told", func() (bool, string) {
		p := leader.pool()
		return p.Reserved == 0 && p.Used == float64(sum), fmt.Sprintf("%+v, and it should be %d; %d are with the agent", p,
			sum, k.holding())
	})

	// What is announced has been written: then the journal has all of it.
	for _, q := range tasks {
		r.eventually(patience, "the producer hears of it", func() (bool, string) { // perhaps twice: better than never
			e := r.book.look(q.TaskID)
			return len(e.ends) > 0, fmt.Sprintf("%s: %+v", q.TaskID, e)
		})
		e := r.book.look(q.TaskID)
		if e.ends[0].what != "succeeded" {
			t.Errorf("%s: %+v", q.TaskID, e)
		}
		for _, run := range e.runs {
			if run.dispatch != e.runs[0].dispatch {
				t.Errorf("%s was dispatched as %s and as %s", q.TaskID, e.runs[0].dispatch, run.dispatch)
			}
		}
	}
	leader.awaitStatus("nothing is left", func(s view.Status) bool {
		return s.Pending.Total == 0 &&
			s.Pending.Leased == 0
	})
	status := leader.status()
	if status.Audit.Violations > 0 {
		t.Errorf("the auditor has found %+v", status.Audit.Found)
	}
	books := &quotaBooks{reserved: map[coordinator.TaskKey]int64{}}
	r.readJournalWith(status.Journal.Records, books.take)
	t.Logf("by the journal %d reservations, %d used, %d reserved, %d at most of both", books.made, books.used, books.sum(),
		books.most)
	if books.used != int64(sum) || books.sum() != 0 || books.made < offeredTasks {
		t.Errorf("and it should be %d of at least %d", sum, offeredTasks)
	}
	if books.most > poolTokens {
		t.Errorf("%d were used and reserved at one time, of %d", books.most, poolTokens)
	}
}

// meter holds its tasks until it lets go, and then tells what each has taken. begun is closed
// when it has got some hundred, told when some hundred are done: in the middle of both.
type meter struct {
	keeper
	mu          sync.Mutex
	tasks       map[string]bool
	done        int
	begun, told chan struct{}
}

const middle = 300

func (m *meter) work(ctx context.Context, t *agent.Task) (agent.Result, error) {
	m.mu.Lock()
	before := len(m.tasks)
	if m.tasks[t.ID] = true; before < middle && len(m.tasks) == middle {
		close(m.begun)
	}
	m.mu.Unlock()
	select {
	case <-m.gate:
	case <-ctx.Done():
		return agent.Result{}, ctx.Err()
	}
	m.mu.Lock()
	defer m.mu.Unlock() // one after the other
	if m.done++; m.done == middle {
		close(m.told)
	}
	time.Sleep(time.Millisecond)
	return agent.Result{Usage: &agent.Usage{Requests: 1, InputTokens: float64(usageOf(t.ID) - 10), OutputTokens: 10}}, nil
}

// await waits until the channel is closed.
func await(r *rig, what <-chan struct{}, why string) {
	r.t.Helper()
	select {
	case <-what:
	case <-time.After(patience):
		r.t.Fatalf("%s: not within %v", why, patience)
	}
}

// holding is how many tasks it has got.
func (m *meter) holding() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.tasks)
}

// pool is what the leader says of the pool's tokens.
func (c *process) pool() view.QuotaBudget {
	_, body := c.get("/v1/quota")
	var q view.Quotas
	if err := json.Unmarshal([]byte(body), &q); err != nil {
		return view.QuotaBudget{Used: -1}
	}
	for _, n := range q.Nodes {
		for _, b := range n.Budgets {
			if n.Parent == "" && b.Dimension == "total_tokens" {
				return b
			}
		}
	}
	return view.QuotaBudget{Used: -1}
}

// quotaBooks is what the journal says of tokens, added up as they were written.
type quotaBooks struct {
	reserved   map[coordinator.TaskKey]int64
	made       int
	used, most int64
}

func (b *quotaBooks) take(records []coordinator.Record) {
	for _, r := range records {
		switch r := r.(type) {
		case *coordinator.QuotaReserved:
			if !r.Before {
				b.made++
				b.reserved[r.Key] = r.Amounts[coordinator.DimTotalTokens]
			}
		case *coordinator.QuotaEnded:
			delete(b.reserved, r.Key)
			b.used += r.Used[coordinator.DimTotalTokens]
		}
	}
	b.most = max(b.most, b.used+b.sum())
}

func (b *quotaBooks) sum() (n int64) {
	for _, amount := range b.reserved {
		n += amount
	}
	return n
}
