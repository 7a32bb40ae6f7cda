package quota_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"taskbus/agent/quota"
	"taskbus/config"
	"taskbus/config/quotas"
	"taskbus/coordinator/bus"
	"taskbus/coordinator/credential"
	"taskbus/coordinator/httpapi"
	"taskbus/coordinator/service"
	"taskbus/coordinator/view"
	"taskbus/tests/support/membus"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const secret = "a-secret-of-tests-by-which-agents-are-known"

// rig is real coordinators on a broker in memory, in virtual time, and the network before them.
type rig struct {
	t      *testing.T
	broker *membus.Broker
	yaml   string

	arrivals // of operations

	mu    sync.Mutex
	hosts map[string]*coordinator
}

// arrivals are what has arrived, in order. Any goroutine may use them.
type arrivals struct {
	lock sync.Mutex
	all  []string
}

func (a *arrivals) arrived(what string) {
	a.lock.Lock()
	defer a.lock.Unlock()
	a.all = append(a.all, what)
}

// list is all of it.
func (a *arrivals) list() []string {
	a.lock.Lock()
	defer a.lock.Unlock()
	return slices.Clone(a.all)
}

// count tells how often something has arrived so far.
func (a *arrivals) count(what string) (n int) {
	a.lock.Lock()
	defer a.lock.Unlock()
	for _, one := range a.all {
		if one == what {
			n++
		}
	}
	return n
}

// coordinator is one of them, at http://NAME.
type coordinator struct {
	service *service.Service
	handler http.Handler
	stop    context.CancelFunc
	ended   chan error
	// deaf: nothing reaches it. mute: it hears, but no answer comes back.
	deaf, mute bool
	bus        *gate
}

// gate is the way of one coordinator to the broker.
type gate struct {
	bus.Bus
	shut atomic.Bool
}

func (g *gate) Open(ctx context.Context, spec bus.SessionSpec) (bus.Session, error) {
	if g.shut.Load() {
		return nil, errors.New("connection refused")
	}
	return g.Bus.Open(ctx, spec)
}

// inRig runs a test with a coordinator "one" that leads.
func inRig(t *testing.T, quotasYAML string, test func(r *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := &rig{t: t, broker: membus.New(), yaml: quotasYAML, hosts: make(map[string]*coordinator)}
		defer func() {
			for name := range r.hosts {
				r.kill(name)
			}
		}()
		r.start("one")
		test(r)
	})
}

// start starts a coordinator; it leads, or stands by.
func (r *rig) start(name string) {
	r.t.Helper()
	cfg, err := config.Parse([]byte("agents: {a: {capabilities: [go], max_concurrent_tasks: 1}}"), "agents.yaml")
	if err != nil {
		r.t.Fatal(err)
	}
	quotas, err := quotas.Parse([]byte(r.yaml), "quotas.yaml")
	if err != nil {
		r.t.Fatalf("quotas of the test: %v", err)
	}
	way := &gate{Bus: r.broker}
	s, err := service.New(service.Options{
		Config: cfg.WithQuotas(quotas), ConfigPath: "agents.yaml", Bus: way, Logger: zerolog.Nop(),
		Registry: prometheus.NewRegistry(),
		Instance: "taskbus@" + name, BrokerURL: "mem://", Version: "test",
	})
	if err != nil {
		r.t.Fatal(err)
	}
	c := &coordinator{service: s, bus: way,
		handler: httpapi.New(s, http.NotFoundHandler(), httpapi.Options{AgentSecret: []byte(secret)}),
		ended:   make(chan error, 1)}
	ctx, cancel := context.WithCancel(context.Background())
	c.stop = cancel
	go func() { c.ended <- s.Run(ctx) }()
	r.mu.Lock()
	r.hosts[name] = c
	r.mu.Unlock()
	time.Sleep(time.Second) // it claims the lead
	synctest.Wait()
}

// kill ends a coordinator: from now on it does not answer.
func (r *rig) kill(name string) {
	r.t.Helper()
	r.mu.Lock()
	c := r.hosts[name]
	delete(r.hosts, name)
	r.mu.Unlock()
	c.stop()
	if err := <-c.ended; err != nil {
		r.t.Errorf("coordinator %s ended with %v", name, err)
	}
}

// RoundTrip is the network.
func (r *rig) RoundTrip(req *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	c := r.hosts[req.URL.Host]
	deaf, mute := c == nil || c.deaf, c != nil && c.mute
	r.mu.Unlock()
	if deaf {
		return nil, errors.New("connection refused")
	}
	r.arrived(strings.TrimPrefix(req.URL.Path, "/v1/quota/"))
	served := req.Clone(req.Context())
	served.Body = io.NopCloser(bytes.NewReader(body))
	w := httptest.NewRecorder()
	c.handler.ServeHTTP(w, served)
	if err := req.Context().Err(); err != nil {
		return nil, err
	}
	if mute {
		return nil, errors.New("connection reset")
	}
	return w.Result(), nil
}

// set changes how the network treats a coordinator.
func (r *rig) set(name string, change func(c *coordinator)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change(r.hosts[name])
}

// client is one for an agent, of coordinators one and two.
func (r *rig) client(agent string, change ...func(o *quota.Options)) *quota.Client {
	r.t.Helper()
	o := quota.Options{
		URLs: []string{"http://one", "http://two/"}, Agent: agent, Token: credential.AgentToken([]byte(secret), agent),
		HTTP: &http.Client{Transport: r},
	}
	for _, f := range change {
		f(&o)
	}
	c, err := quota.New(o)
	if err != nil {
		r.t.Fatal(err)
	}
	return c
}

// close closes a client and insists that it has told everything.
func (r *rig) close(c *quota.Client) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := c.Close(ctx); err != nil {
		r.t.Error(err)
	}
	if s := c.Stats(); s.Lost > 0 || s.Untold > 0 {
		r.t.Errorf("after the end: %+v", s)
	}
}

// budget is what a coordinator says of the pool's tokens: used and set aside.
func (r *rig) budget(at string) (used, reserved int) {
	r.t.Helper()
	synctest.Wait()
	q, err := r.hosts[at].service.Quotas(context.Background(), view.QuotaSelection{Limit: 1000})
	if err != nil {
		r.t.Fatal(err)
	}
	for _, n := range q.Nodes {
		if n.ID == "pool" && len(n.Budgets) == 1 {
			return int(n.Budgets[0].Used), int(n.Budgets[0].Reserved)
		}
	}
	r.t.Fatalf("no budget of the pool in %+v", q.Nodes)
	return 0, 0
}

// stands insists on it.
func (r *rig) stands(at string, used, reserved int) {
	r.t.Helper()
	if u, s := r.budget(at); u != used || s != reserved {
		r.t.Errorf("the pool: %d tokens used and %d set aside, want %d and %d", u, s, used, reserved)
	}
}

// pool is a budget that agents share as they come.
func pool(tokens int, more string) string {
	return fmt.Sprintf("pool: {limits: {total_tokens: {amount: %d, per: day}}}\n%s", tokens, more)
}

// taking is a call of which it is known what it takes.
func taking(in, out int64) quota.Call {
	return quota.Call{Provider: "openai", Model: "m", InputTokens: new(in), OutputTokens: new(out)}
}

func used(in, out int64) *quota.Usage { return &quota.Usage{InputTokens: in, OutputTokens: out} }
