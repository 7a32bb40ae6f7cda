package faults

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"taskbus/tests/faults/proxy"
	"taskbus/tests/support/brokertest"
)

const (
	// patience is how long anything may take that should happen at once: the machine
	// may be busy with other cells.
	patience = 20 * time.Second
	// backoffCap is the longest pause of a coordinator between two tries.
	backoffCap = 15 * time.Second
	// grace is shutdown_grace_seconds of every fleet here.
	grace = 10 * time.Second
)

// rig is what one cell has: a virtual host, coordinators behind proxies, agents, a
// producer, and the book of all that.
type rig struct {
	t       *testing.T
	seed    uint64
	chance  *rand.Rand // the cell's own; for its goroutine only
	broker  brokertest.Broker
	node    *brokertest.Node // of cells that may do something to a whole node; else nil
	dir     string
	config  string // path of agents.yaml
	secrets []string
	trace   *proxy.Trace
	book    *book

	processes []*process
	agents    map[string]*agent
	producers []*producer
	probes    int             // tasks that were offered to see whether work goes on
	stopping  context.Context // ends with the cell
	stop      context.CancelFunc
	helpers   sync.WaitGroup

	mu      sync.Mutex
	strikes []strike
	mayTake int64    // bytes of memory, if more than usual
	fates   []fate   // how tasks should end that should not simply be run
	spoken  []string // what invariants have seen of interest
}

// strike is one fault: from when to when it may have doubled what was in flight.
type strike struct {
	what     string
	from, to time.Time // to zero: it lasts
	fired    int
}

// newRig makes what a cell starts with. Nothing runs yet.
func newRig(t *testing.T, node *brokertest.Node, config string, seed uint64) *rig {
	t.Helper()
	r := &rig{
		t: t, seed: seed, chance: rand.New(rand.NewPCG(seed, 1)), node: node, dir: t.TempDir(),
		trace: proxy.NewTrace(), agents: map[string]*agent{},
	}
	r.trace.Journal = true // it is on unless a configuration says otherwise
	if node != nil {
		r.broker = node.NewVhost(t)
	} else {
		r.broker = brokertest.Vhost(t)
	}
	r.book = newBook(r)
	r.secret(passwordOf(r.broker.URL))
	r.config = filepath.Join(r.dir, "agents.yaml")
	r.configure(config)
	r.stopping, r.stop = context.WithCancel(context.Background())
	t.Cleanup(r.end)
	return r
}

// secret is what must never be shown (S11).
func (r *rig) secret(s string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.secrets = append(r.secrets, s)
}

// secretIn tells whether a text tells one.
func (r *rig) secretIn(text string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.ContainsFunc(r.secrets, func(s string) bool { return strings.Contains(text, s) })
}

func passwordOf(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return ""
	}
	password, _ := u.User.Password()
	return password
}

// host is the broker's host and port.
func (r *rig) host() string {
	u, err := url.Parse(r.broker.URL)
	if err != nil {
		r.t.Fatal("the broker's URL does not parse")
	}
	return u.Host
}

// configure replaces agents.yaml in one step, as careful tools do.
func (r *rig) configure(content string) {
	r.t.Helper()
	next := r.config + ".next"
	if err := os.WriteFile(next, []byte(content), 0o600); err != nil {
		r.t.Fatal(err)
	}
	if err := os.Rename(next, r.config); err != nil {
		r.t.Fatal(err)
	}
}

// end stops whatever still runs.
func (r *rig) end() {
	r.stop()
	for _, c := range r.processes {
		if c.running() {
			_ = c.cmd.Process.Kill() // it may have ended just now
			<-c.exited
		}
		c.proxy.Close()
		if r.t.Failed() {
			r.t.Logf("the end of the log of %s:\n%s", c.name, c.log.Tail(40))
		}
	}
	r.helpers.Wait()
}

// eventually looks until the condition holds: at first every few milliseconds, then less
// and less often, since looking costs more than waiting.
func (r *rig) eventually(within time.Duration, what string, holds func() (ok bool, seen string)) {
	r.t.Helper()
	const rarest = 100 * time.Millisecond
	late, next := time.Now().Add(within), 5*time.Millisecond
	for {
		ok, seen := holds()
		if ok {
			return
		}
		if time.Now().After(late) {
			r.t.Fatalf("not within %v: %s; last seen: %s", within, what, seen)
		}
		r.pause(next)
		next = min(next*3/2, rarest)
	}
}

// pause lets a while of the cell pass. It is for letting a fault last, and for looking
// again; never for hoping that something has happened.
func (r *rig) pause(d time.Duration) {
	select {
	case <-time.After(d):
	case <-r.stopping.Done():
	}
}

// struck notes a fault of an instant, which has fired.
func (r *rig) struck(what string) {
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.strikes = append(r.strikes, strike{what, now, now, 1})
}

// noticing is how long a coordinator may go on with a session that is lost already.
const noticing = 40 * time.Second

// during notes a fault that lasts as long as f. fired is asked at the end how often it
// has fired: never is a failure of the cell.
func (r *rig) during(what string, f func(), fired func() int) {
	r.t.Helper()
	begun := time.Now()
	f()
	n := fired()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.strikes = append(r.strikes, strike{what, begun, time.Now().Add(noticing), n})
	// A session takes a moment to notice, and may double what it sent until then.
	if n < 1 {
		r.t.Errorf("the fault has not fired: %s", what)
	}
}

// proven asserts that a fault has fired that the cell itself has seen.
func (r *rig) proven(what string, fired int) {
	r.t.Helper()
	r.during(what, func() {}, func() int { return fired })
}

// say is for the log of the cell.
func (r *rig) say(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.spoken = append(r.spoken, fmt.Sprintf(format, args...))
}

// fleet is an agents.yaml: n agents a1, a2, … that write code, with slots each. more
// are lines of global_settings.
func fleet(n, slots int, more ...string) string {
	var b strings.Builder
	b.WriteString("agents:\n")
	for i := range n {
		fmt.Fprintf(&b,
			"  a%d: {capabilities: [code], max_concurrent_tasks: %d, health_check_interval: 1, accept_timeout_seconds: 600}\n",
			i+1, slots)
	}
	b.WriteString(`task_routing:
  build: {required_capabilities: [code]}
  translate: {required_capabilities: [french]}
circuit_breaker: {enabled: false}
global_settings:
  assignment_timeout_seconds: 60
  max_queue_size: 100000
  max_retry_attempts: 20
  stale_agent_threshold_seconds: 60
`)
	fmt.Fprintf(&b, "  shutdown_grace_seconds: %d\n", int(grace/time.Second))
	for _, line := range more {
		b.WriteString("  " + line + "\n")
	}
	return b.String()
}

// with is the text with old, which must be in it, replaced by new.
func (r *rig) with(text, old, new string) string {
	r.t.Helper()
	if !strings.Contains(text, old) {
		r.t.Fatalf("%q is not in the text", old)
	}
	return strings.ReplaceAll(text, old, new)
}

func (r *rig) agentIDs() []string {
	ids := make([]string, 0, len(r.agents))
	for id := range r.agents {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}
