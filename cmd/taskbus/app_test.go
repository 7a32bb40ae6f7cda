package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"flag"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"taskbus/coordinator"
	"taskbus/coordinator/bus"
	"taskbus/coordinator/httpapi"
	"taskbus/tests/support/membus"
)

var update = flag.Bool("update", false, "write the golden files anew")

// noon is the clock of every test that prints a time.
var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// syncBuffer is an output that a running command and its test may share.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// rig is an app whose world is in memory.
type rig struct {
	app
	env      map[string]string
	out, err syncBuffer
	signals  chan os.Signal
	broker   *membus.Broker
}

func newRig() *rig {
	r := &rig{env: map[string]string{}, signals: make(chan os.Signal, 4), broker: membus.New()}
	r.app = app{
		in: strings.NewReader(""), out: &r.out, err: &r.err,
		getenv:  func(name string) string { return r.env[name] },
		now:     func() time.Time { return noon },
		openBus: func(string, zerolog.Logger) bus.Bus { return r.broker },
		notify:  func() <-chan os.Signal { return r.signals },
	}
	return r
}

func (r *rig) run(t *testing.T, args ...string) int { return r.app.run(t.Context(), args) }

// versions of configurations, which change with every setting that is added.
var versions = regexp.MustCompile(`(version"?:? "?)[0-9a-f]{12}`)

// golden compares with testdata/name.
func golden(t *testing.T, name, got string) {
	t.Helper()
	got = versions.ReplaceAllString(got, "${1}HASH")
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v (write it with: go test ./cmd/taskbus -update)", err)
	}
	if got != string(want) {
		t.Errorf("%s differs.\ngot:\n%s\nwant:\n%s", path, got, want)
	}
	for _, line := range strings.Split(got, "\n") {
		if n := len([]rune(line)); strings.HasSuffix(name, ".txt") && !unbroken.MatchString(line) && n > 100 {
			t.Errorf("%s: a line of %d columns, more than the 100 that people have: %s", path, n, line)
		}
	}
}

// unbroken lines may be as long as they are: faults, warnings and commands, for
// programs to read and terminals to wrap.
var unbroken = regexp.MustCompile(`^(testdata/|warning: |rabbitmqctl )`)

// fixedSource is a coordinator that always says the same.
type fixedSource struct {
	tasks []httpapi.Task
	// explained are the explanations, by task id; of other tasks they are made of
	// what is in tasks.
	explained map[string]httpapi.TaskExplanation
	// prospect answers /whatif; asked is where the body goes.
	prospect     httpapi.Prospect
	prospectErr  error
	asked        *string
	stats        httpapi.AgentStats
	capabilities []httpapi.Capability
	readiness    httpapi.Readiness // in Status
	is           string            // state of Ready; empty: active
	status       *httpapi.Status   // nil: some agents
	away         bool              // there is no session with the broker
	word         string            // of Health; empty: healthy
	quotas       httpapi.Quotas
	quotasErr    error
	quotaAnswer  httpapi.QuotaAnswer
	controls     httpapi.QuotaControls
	// cancelled are the answers to a cancel, by task id; to any other it has none.
	cancelled map[string]httpapi.Cancellation
}

func (s fixedSource) Health(context.Context) httpapi.Health {
	return httpapi.Health{Status: cmp.Or(s.word, httpapi.Healthy), Checks: map[string]httpapi.Check{
		"agents": {Status: httpapi.Degraded,
			Detail: "2 of 3 agents online, 1 can take a task now: 1 cordoned or draining"},
		"assignments": {Status: httpapi.Healthy, Detail: "last minute: 40 assigned, 0 failed; oldest waits 0s"},
	}}
}
func (s fixedSource) Ready(context.Context) httpapi.Readiness {
	state := cmp.Or(s.is, "active")
	return httpapi.Readiness{Ready: state == "active", State: state}
}
func (s fixedSource) Status(context.Context) (httpapi.Status, error) {
	if s.status != nil {
		return *s.status, nil
	}
	return httpapi.Status{Readiness: s.readiness, Broker: httpapi.Broker{Connected: !s.away}, Agents: []httpapi.Agent{
		{ID: "gpu-1", State: "online", Status: "ready", Load: 0.25, InFlight: 1, Leased: 1, Slots: 4, MaxConcurrent: 4,
			Rank: 1, Assigned: 1200, LastHeartbeat: noon.Add(-3 * time.Second), Eligible: true,
			Ejected: []httpapi.Ejection{{Capability: "cuda"}, {Capability: "gpu", Until: noon.Add(100 * time.Second)}},
			Recent:  httpapi.AgentResults{Succeeded: 9, Failed: 1}},
		{ID: "reviewer-1", State: "online", Status: "busy", Load: 1, InFlight: 3, Leased: 3, Slots: 3, MaxConcurrent: 3,
			Rank: 2, Assigned: 7, LastHeartbeat: noon.Add(-500 * time.Millisecond), WhyNot: "full",
			Recent: httpapi.AgentResults{Succeeded: 2, Failed: 3, Overdue: 1}},
		{ID: "researcher-1", State: "stale", Status: "ready", Load: 0, Slots: 3, MaxConcurrent: 3, Rank: 3,
			LastHeartbeat: noon.Add(-10 * time.Minute), WhyNot: "stale"},
		{ID: "archivist-1", State: "never_seen", Status: "unknown", Slots: 1, MaxConcurrent: 1, Rank: 5, WhyNot: "never_seen",
			Cordoned: true},
		{ID: "worker-17", State: "online", Status: "ready", Load: 0.5, InFlight: 2, Slots: 3, MaxConcurrent: 4, Rank: 3,
			Assigned: 40, LastHeartbeat: noon, Leased: 2, WhyNot: "cordoned", Cordoned: true, Draining: true, Discovered: true},
		{ID: "worker-18", State: "gone", Status: "ready", Slots: 4, MaxConcurrent: 4, Rank: 3,
			LastHeartbeat: noon.Add(-time.Second), WhyNot: "gone", Cordoned: true, Draining: true, Drained: true,
			Discovered: true},
	}}, nil
}

func (s fixedSource) Explain(ctx context.Context, id string) (httpapi.TaskExplanation, bool) {
	if x, ok := s.explained[id]; ok {
		return x, true
	}
	t, ok := s.Task(ctx, id)
	return httpapi.TaskExplanation{
		ID: t.ID, Type: t.Type, TraceID: t.TraceID, State: t.State, Agent: t.Agent, Attempt: t.Attempt,
		ReasonCode: t.ReasonCode, Reason: t.Reason, Error: t.Error, Explanation: t.Explanation,
	}, ok
}

func (s fixedSource) WhatIf(_ context.Context, body []byte) (httpapi.Prospect, error) {
	if s.asked != nil {
		*s.asked = string(body)
	}
	return s.prospect, s.prospectErr
}

func (s fixedSource) AgentStats(context.Context) (httpapi.AgentStats, error) { return s.stats, nil }

func (s fixedSource) Capabilities(context.Context) ([]httpapi.Capability, error) {
	return s.capabilities, nil
}

// Quotas gives those that were asked for, as far as their names go.
func (s fixedSource) Quotas(_ context.Context, of httpapi.QuotaSelection) (httpapi.Quotas, error) {
	q := s.quotas
	q.Nodes = nil
	for _, n := range s.quotas.Nodes {
		switch {
		case of.Node != "" && n.ID != of.Node, of.Group != "" && !strings.Contains("/"+n.ID+"/", "/"+of.Group+"/"),
			of.Agent != "" && n.Name != of.Agent && n.Kind != "group", of.Provider != "" &&
				(of.Provider == "pool" || !strings.HasPrefix(n.ID+"/", of.Provider+"/")):
			continue
		}
		q.Nodes = append(q.Nodes, n)
	}
	return q, s.quotasErr
}

func (s fixedSource) ExplainQuota(context.Context, httpapi.QuotaQuestion) (httpapi.QuotaAnswer, error) {
	return s.quotaAnswer, s.quotasErr
}

func (s fixedSource) AskCalls(context.Context, []coordinator.Call) ([]coordinator.CallAnswer, error) {
	return nil, errors.New("nothing is asked here")
}

func (s fixedSource) AcknowledgeLoss(context.Context) error { return nil }

func (s fixedSource) AskLeader(context.Context, []coordinator.Call) ([]coordinator.CallAnswer, error) {
	return nil, errors.New("nothing is asked here")
}

func (s fixedSource) QuotaControls(context.Context) (httpapi.QuotaControls, error) {
	return s.controls, s.quotasErr
}

// ControlQuota answers with what was asked for.
func (s fixedSource) ControlQuota(_ context.Context, q httpapi.QuotaChange) (httpapi.QuotaChanged, error) {
	if q.Node == "pool/zeta" {
		return httpapi.QuotaChanged{}, &httpapi.BadControl{Why: "no node of the quota trees is called pool/zeta"}
	}
	var changed httpapi.QuotaChanged
	for _, v := range q.Values {
		c := httpapi.QuotaControl{ID: "set-1", Kind: "set", Target: q.Node, Key: v.Key, Value: v.Value, At: noon,
			Until: q.Until, By: q.By, Reason: q.Reason}
		if q.Boost {
			c.ID, c.Kind = "boost-1", "boost"
		}
		if q.Correct {
			c.ID, c.Kind, c.Asked = "correct-1", "correct", v.Value
			if v.Key == "requests" { // of which alpha has used 500 itself
				c.Value = map[bool]string{true: "-500", false: "0"}[q.Node == "pool/alpha"]
			}
		}
		if q.For > 0 {
			c.Until = noon.Add(q.For)
		}
		changed.Controls = append(changed.Controls, c)
	}
	all, err := s.Quotas(context.Background(), httpapi.QuotaSelection{Node: q.Node})
	changed.Nodes = all.Nodes
	if q.Preview {
		name, _, _ := strings.Cut(q.Values[0].Key, ".")
		changed.Moves = []httpapi.QuotaMove{
			{Node: "pool", Spare: true, Dimension: name, Before: 20_000, After: 0},
			{Node: q.Node, Dimension: name, Before: 300_000, After: 450_000},
			{Node: q.Node + "/below", Dimension: name, Before: 300_000, After: 450_000},
			{Node: "pool/beta", Dimension: name, Before: 200_000, After: 70_000},
		}
	}
	return changed, err
}

func (fixedSource) DeadLetters(context.Context, httpapi.DeadFilter) (httpapi.DeadList, error) {
	return httpapi.DeadList{}, nil
}

func (fixedSource) DeadLetter(context.Context, string, bool) (httpapi.DeadMessage, bool, error) {
	return httpapi.DeadMessage{}, false, nil
}

func (fixedSource) ResendDead(context.Context, []string) (httpapi.DeadDone, error) {
	return httpapi.DeadDone{}, nil
}

func (fixedSource) DropDead(context.Context, []string) (httpapi.DeadDone, error) {
	return httpapi.DeadDone{}, nil
}

func (s fixedSource) UncontrolQuota(_ context.Context, id string) (httpapi.QuotaChanged, error) {
	for _, c := range s.controls.Controls {
		if c.ID == id {
			return httpapi.QuotaChanged{Removed: []httpapi.QuotaControl{c}}, nil
		}
	}
	return httpapi.QuotaChanged{}, httpapi.ErrNoControl
}

func (s fixedSource) RegisterQuota(_ context.Context, q httpapi.QuotaEntry) (httpapi.QuotaChanged, error) {
	return httpapi.QuotaChanged{Controls: []httpapi.QuotaControl{{ID: "group-1", Kind: "group", Target: q.ID,
		Value: q.Entry, By: q.By, Reason: q.Reason}}}, nil
}

func (s fixedSource) UnregisterQuota(_ context.Context, _ bool, id string) (httpapi.QuotaChanged, error) {
	return httpapi.QuotaChanged{}, httpapi.ErrOfFile
}

func (fixedSource) ReportCapacity(context.Context, string, httpapi.CapacityReport) error { return nil }

func (s fixedSource) Cancel(_ context.Context, id, _ string) (httpapi.Cancellation, error) {
	if c, ok := s.cancelled[id]; ok {
		return c, nil
	}
	return httpapi.Cancellation{}, errors.New("no session with the broker")
}

func (s fixedSource) Order(ctx context.Context, id string, order coordinator.Order) (httpapi.Agent, error) {
	status, err := s.Status(ctx)
	for _, g := range status.Agents {
		if g.ID == id {
			g.Cordoned, g.Draining = order != coordinator.OrderUncordon, order == coordinator.OrderDrain
			return g, err
		}
	}
	return httpapi.Agent{}, httpapi.ErrNoAgent
}
func (s fixedSource) Task(_ context.Context, id string) (httpapi.Task, bool) {
	for _, t := range s.tasks {
		if t.ID == id {
			return t, true
		}
	}
	return httpapi.Task{}, false
}
func (s fixedSource) Tasks(_ context.Context, f httpapi.TaskFilter) []httpapi.Task {
	var found []httpapi.Task
	for _, t := range s.tasks {
		if (f.State == "" || f.State == t.State) && (f.Agent == "" || f.Agent == t.Agent) && len(found) < f.Limit {
			found = append(found, t)
		}
	}
	return found
}

// adminToken is that of the coordinators of these tests: 32 characters.
const adminToken = "canary-0123456789-abcdefghijklmn"

// startCoordinator serves src over HTTP and points the rig at it.
func (r *rig) startCoordinator(t *testing.T, src httpapi.Source) {
	t.Helper()
	server := httptest.NewServer(httpapi.New(src, http.NotFoundHandler(),
		httpapi.Options{LoopbackHosts: true, AdminToken: []byte(adminToken)}))
	t.Cleanup(server.Close)
	r.env["TASKBUS_HTTP_URL"] = server.URL
}

// everyCommand calls visit for each command but cobra's own.
func everyCommand(c *cobra.Command, visit func(*cobra.Command)) {
	visit(c)
	for _, sub := range c.Commands() {
		if sub.Name() != "help" && sub.Name() != "completion" {
			everyCommand(sub, visit)
		}
	}
}
