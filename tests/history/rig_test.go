package history

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"taskbus/agent"
	"taskbus/coordinator/bus/amqpbus"
	"taskbus/coordinator/view"
	"taskbus/tests/support/brokertest"
)

var httpClient = brokertest.HTTPClient(20 * time.Second)

// patience is how long anything may take that should happen at once.
const patience = 60 * time.Second

const agents = `
agents:
  a1: {capabilities: [llm], max_concurrent_tasks: 50, health_check_interval: 1}
  a2: {capabilities: [llm], max_concurrent_tasks: 50, health_check_interval: 1}
task_routing:
  ask: {required_capabilities: [llm]}
global_settings: {assignment_timeout_seconds: 120, stale_agent_threshold_seconds: 60}
`

// quotas has a price for input tokens alone: 2 micro-USD each.
const quotas = `
pool:
  limits: {total_tokens: {amount: 1000000000, per: month}}
groups:
  - {id: alpha, provider: openai, model: gpt-4o}
  - {id: beta, provider: anthropic, model: claude}
prices:
  - {provider: openai, input_per_million_tokens: 2}
  - {provider: anthropic, input_per_million_tokens: 2}
`

// The tokens of the admin, and of a gateway.
const (
	token        = "0123456789abcdef0123456789abcdef"
	gatewayToken = "fedcba9876543210fedcba9876543210"
)

// rig is a virtual host of a real broker with agents that use tokens.
type rig struct {
	t      *testing.T
	broker brokertest.Broker
	dir    string
	bill   *bill
	next   brokertest.Broker // to which everything is to be moved
	env    []string          // of coordinators, besides what all have
	sent   int
	// Agents work while they can have it for reading; begun is how many tasks they have begun.
	working sync.RWMutex
	begun   atomic.Int64
}

// pause has agents begin tasks, and end none until resume is called.
func (r *rig) pause() (resume func()) {
	r.working.Lock()
	resume = sync.OnceFunc(r.working.Unlock)
	r.t.Cleanup(resume)
	return resume
}

// begins waits until agents have begun all that was offered.
func (r *rig) begins() {
	r.t.Helper()
	r.eventually("all tasks are begun", func() (bool, string) {
		return r.begun.Load() >= int64(r.sent), fmt.Sprintf("%d of %d", r.begun.Load(), r.sent)
	})
}

// bill is what the agents have told, once for each dispatch.
type bill struct {
	mu    sync.Mutex
	calls map[string]call // by dispatch
}

type call struct {
	group, agent  string
	input, output int64
}

// busy are the tests that run side by side and use the machine, which [TestHistoryIsNotInTheWay]
// wants for itself. It need not wait for one that does little else than wait.
var busy sync.WaitGroup

// newRig makes one for a test that runs beside others.
func newRig(t *testing.T) *rig {
	t.Helper()
	busy.Add(1)
	t.Cleanup(busy.Done)
	return newIdleRig(t)
}

// newIdleRig is newRig for a test that mostly waits.
func newIdleRig(t *testing.T) *rig {
	t.Helper()
	t.Parallel()
	return newRigBeside(t)
}

// newRigBeside makes one more for a test.
func newRigBeside(t *testing.T) *rig {
	t.Helper()
	brokertest.DependOnProgram(t)
	r := &rig{t: t, broker: brokertest.Vhost(t), dir: t.TempDir(), bill: &bill{calls: make(map[string]call)}}
	r.write("agents.yaml", agents)
	r.write("quotas.yaml", quotas)
	return r
}

func (r *rig) write(name, text string) string {
	r.t.Helper()
	path := filepath.Join(r.dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		r.t.Fatal(err)
	}
	return path
}

// work runs the agents until the test ends.
func (r *rig) work() { r.t.Cleanup(r.workUntil()) }

// workUntil runs the agents until they are told to stop.
func (r *rig) workUntil() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var wait sync.WaitGroup
	for _, id := range []string{"a1", "a2"} {
		wait.Go(func() {
			err := agent.Run(ctx, agent.Config{
				ID: id, Slots: 50, Interval: time.Second, DrainTimeout: time.Second,
				Bus: amqpbus.New(amqpbus.Config{URL: r.broker.URL}),
			}, func(_ context.Context, t *agent.Task) (agent.Result, error) {
				h := fnv.New32a()
				h.Write([]byte(t.ID))
				c := call{agent: id, input: int64(h.Sum32() % 1000), output: int64(h.Sum32() % 77)}
				c.group = groupOf(string(t.ID))
				r.begun.Add(1)
				time.Sleep(5 * time.Millisecond)
				r.working.RLock()
				defer r.working.RUnlock()
				r.bill.mu.Lock()
				r.bill.calls[t.DispatchID] = c
				r.bill.mu.Unlock()
				return agent.Result{Usage: &agent.Usage{Requests: 1, InputTokens: float64(c.input),
					OutputTokens: float64(c.output)}}, nil
			})
			if err != nil {
				r.t.Errorf("run %s: %v", id, err)
			}
		})
	}
	return func() { cancel(); wait.Wait() }
}

// groupOf is the group of a task: two of one, two of the other. Were they in turn, as agents
// are, each group would have an agent of its own.
func groupOf(id string) string {
	n := int(id[len(id)-2]-'0')*10 + int(id[len(id)-1]-'0')
	return []string{"alpha", "beta"}[n/2%2]
}

// offer publishes tasks.
func (r *rig) offer(n int) {
	r.t.Helper()
	all := make([]amqp.Publishing, n)
	for i := range all {
		r.sent++
		id := fmt.Sprintf("t-%06d", r.sent)
		body, err := json.Marshal(map[string]any{
			"message_type": "task.assign", "task_id": id, "task_type": "ask", "correlation_id": "trace-" + id,
			"payload": map[string]any{}, "group": groupOf(id),
			"estimated_usage": map[string]any{"input_tokens": 1000, "output_tokens": 100},
		})
		if err != nil {
			r.t.Fatal(err)
		}
		all[i] = amqp.Publishing{Body: body, ContentType: "application/json", DeliveryMode: amqp.Persistent}
	}
	r.broker.PublishAll(r.t, "", "task.assign", all)
}

// process is a coordinator.
type process struct {
	r      *rig
	cmd    *exec.Cmd
	log    *brokertest.LogBook
	base   string
	exited chan struct{}
}

// start runs a coordinator that keeps its history there, and waits until it leads.
func (r *rig) start(history string) *process {
	r.t.Helper()
	p := r.launch(history)
	r.eventually("it leads", func() (bool, string) {
		var ready view.Readiness
		p.read(http.MethodGet, "/readyz", "", &ready)
		return ready.State == "active", ready.State
	})
	return p
}

// launch is start for one that need not lead.
func (r *rig) launch(history string) *process {
	r.t.Helper()
	p := &process{r: r, log: &brokertest.LogBook{}, exited: make(chan struct{})}
	p.cmd = exec.Command(program, "serve", "--config", filepath.Join(r.dir, "agents.yaml"), "--http", "127.0.0.1:0")
	p.cmd.Env = []string{
		"RABBITMQ_URL=" + r.broker.URL, "PATH=" + os.Getenv("PATH"), "HOME=" + r.dir, "TASKBUS_ADMIN_TOKEN=" + token,
		"TASKBUS_GATEWAY_TOKEN=" + gatewayToken, "TASKBUS_HISTORY=" + history,
	}
	p.cmd.Env = append(p.cmd.Env, r.env...)
	p.cmd.Stdout, p.cmd.Stderr = p.log, p.log
	if err := p.cmd.Start(); err != nil {
		r.t.Fatal(err)
	}
	go func() {
		_ = p.cmd.Wait() // how it ends is for the test to ask
		close(p.exited)
	}()
	r.t.Cleanup(func() {
		p.stop()
		if strings.Contains(p.log.String(), "panic:") || passwordIn(p.log.String(), history) {
			r.t.Error("the log has a panic or a password")
		}
		if r.t.Failed() {
			r.t.Logf("the end of a coordinator's log:\n%s", p.log.Tail(40))
		}
	})
	r.eventually("it answers", func() (bool, string) {
		p.base = p.log.Field("taskbus is starting", "http")
		return p.base != "", p.log.Tail(5)
	})
	return p
}

// signal ends it.
func (p *process) signal(s os.Signal) {
	p.r.t.Helper()
	select {
	case <-p.exited:
		return
	default:
	}
	_ = p.cmd.Process.Signal(s) // it may have ended just now
	select {
	case <-p.exited:
	case <-time.After(patience):
		_ = p.cmd.Process.Kill()
		p.r.t.Errorf("the coordinator did not end by %v", s)
	}
}

// stop ends it in order.
func (p *process) stop() { p.r.t.Helper(); p.signal(syscall.SIGTERM) }

func (p *process) kill() { p.r.t.Helper(); p.signal(syscall.SIGKILL) }

// read asks over HTTP, and gives the status.
func (p *process) read(method, path, body string, into any) int {
	p.r.t.Helper()
	q, err := http.NewRequest(method, p.base+path, strings.NewReader(body))
	if err != nil {
		p.r.t.Fatal(err)
	}
	q.Header.Set("Authorization", "Bearer "+token)
	a, err := httpClient.Do(q)
	if err != nil {
		p.r.t.Fatalf("%s %s: %v", method, path, err)
	}
	defer a.Body.Close()
	text, err := io.ReadAll(a.Body)
	if err != nil {
		p.r.t.Fatal(err)
	}
	if a.StatusCode < 300 && into != nil {
		if err := json.Unmarshal(text, into); err != nil {
			p.r.t.Fatalf("%s %s answered %s", method, path, text)
		}
	}
	return a.StatusCode
}

func (r *rig) eventually(what string, holds func() (bool, string)) {
	r.t.Helper()
	late := time.Now().Add(patience)
	for {
		ok, seen := holds()
		if ok {
			return
		}
		if time.Now().After(late) {
			r.t.Fatalf("not within %v: %s; last seen: %s", patience, what, seen)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// awaitAgents waits until the coordinator knows of n agents that they are online.
func (p *process) awaitAgents(n int) {
	p.r.t.Helper()
	p.r.eventually(fmt.Sprintf("%d agents are online", n), func() (bool, string) {
		var status view.Status
		p.read(http.MethodGet, "/status", "", &status)
		online := 0
		for _, a := range status.Agents {
			if a.State == "online" {
				online++
			}
		}
		return online == n, fmt.Sprint(online)
	})
}

// done waits until the agents have done all that was offered.
func (r *rig) done() {
	r.t.Helper()
	r.eventually("all tasks are done", func() (bool, string) {
		r.bill.mu.Lock()
		defer r.bill.mu.Unlock()
		return len(r.bill.calls) >= r.sent, fmt.Sprintf("%d of %d", len(r.bill.calls), r.sent)
	})
}

// sums are what was used, by group and agent.
type sums map[[2]string]view.HistoryCounts

// told is what the agents have told.
func (r *rig) told() sums {
	r.bill.mu.Lock()
	defer r.bill.mu.Unlock()
	all := sums{}
	for _, c := range r.bill.calls {
		k := [2]string{c.group, c.agent}
		n := all[k]
		n.Requests++
		n.InputTokens += c.input
		n.OutputTokens += c.output
		n.TotalTokens += c.input + c.output
		all[k] = n
	}
	return all
}

func (p *process) history() (view.HistoryList, sums, int) {
	p.r.t.Helper()
	var l view.HistoryList
	status := p.read(http.MethodGet, "/v1/quota/history?by=total", "", &l)
	return l, sumsOf(l), status
}

func sumsOf(l view.HistoryList) sums {
	all := sums{}
	for _, row := range l.Rows {
		k := [2]string{row.Group, row.Agent}
		n := all[k]
		n.Requests += row.Requests
		n.InputTokens += row.InputTokens
		n.OutputTokens += row.OutputTokens
		n.TotalTokens += row.TotalTokens
		all[k] = n
	}
	return all
}

// agrees waits until the history says exactly what the agents have told.
func (p *process) agrees() view.HistoryList {
	p.r.t.Helper()
	var l view.HistoryList
	want := fmt.Sprint(p.r.told())
	p.r.eventually("the history is what was told", func() (bool, string) {
		var got sums
		var status int
		l, got, status = p.history()
		return fmt.Sprint(got) == want, fmt.Sprintf("%d %v, %+v; want %s", status, got, l.Projection, want)
	})
	return l
}

// passwordIn tells whether a text has the password of a URL.
func passwordIn(text, place string) bool {
	u, err := url.Parse(place)
	if err != nil || u.User == nil {
		return false
	}
	password, _ := u.User.Password()
	return strings.Contains(text, password)
}
