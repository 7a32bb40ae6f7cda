package clitest

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"taskbus/cmd/taskbus/cli"
	"taskbus/coordinator"
	"taskbus/coordinator/bus"
	"taskbus/coordinator/httpapi"
	"taskbus/coordinator/view"
	"taskbus/tests/support/membus"
)

var update = flag.Bool("update", false, "write the golden files anew")

// Noon is the clock of every test that prints a time.
var Noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// syncBuffer is an output that a running command and its test may share.
type syncBuffer struct {
	mu sync.Mutex
	B  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.B.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.B.String()
}

// Rig is an app with its environment, streams, signals and broker in memory.
type Rig struct {
	cli.App
	Root     func(*cli.App) *cobra.Command
	Env      map[string]string
	Out, Err syncBuffer
	Signals  chan os.Signal
	Broker   *membus.Broker
}

// New makes a rig for the commands below the root command that root makes.
func New(root func(*cli.App) *cobra.Command) *Rig {
	r := &Rig{Root: root, Env: map[string]string{}, Signals: make(chan os.Signal, 4), Broker: membus.New()}
	r.App = cli.App{
		Version: "devel",
		In:      strings.NewReader(""), Out: &r.Out, Err: &r.Err,
		Getenv:  func(name string) string { return r.Env[name] },
		Now:     func() time.Time { return Noon },
		OpenBus: func(string, zerolog.Logger) bus.Bus { return r.Broker },
		Notify:  func() <-chan os.Signal { return r.Signals },
	}
	return r
}

// Root makes a root command with these below it.
func Root(commands ...func(*cli.App) *cobra.Command) func(*cli.App) *cobra.Command {
	return func(a *cli.App) *cobra.Command {
		root := &cobra.Command{Use: "taskbus"}
		for _, make := range commands {
			root.AddCommand(make(a))
		}
		return a.Frame(root)
	}
}

// Run carries out a command line, and returns its exit code.
func (r *Rig) Run(t *testing.T, args ...string) int {
	return r.App.Run(t.Context(), r.Root(&r.App), args)
}

// Written is what write puts on a page, with Noon for its time.
func Written(t *testing.T, write func(*cli.Page)) string {
	t.Helper()
	r := New(nil)
	if err := r.Text(write); err != nil {
		t.Fatal(err)
	}
	return r.Out.String()
}

// versions of configurations, which change with every setting that is added.
var versions = regexp.MustCompile(`(version"?:? "?)[0-9a-f]{12}`)

// Golden compares with testdata/name.
func Golden(t *testing.T, name, got string) {
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
		t.Fatalf("%v (write it with: go test, with -update)", err)
	}
	if got != string(want) {
		t.Errorf("%s differs in line %s\n(if that is meant, write it with: go test, with -update); all of it:\n%s", path,
			firstDifference(got, string(want)), got)
	}
	for _, line := range strings.Split(got, "\n") {
		if n := len([]rune(line)); strings.HasSuffix(name, ".txt") && !unbroken.MatchString(line) && n > 100 {
			t.Errorf("%s: a line of %d columns, more than the 100 that people have: %s", path, n, line)
		}
	}
}

// firstDifference is the first line in which two texts differ, with its number.
func firstDifference(got, want string) string {
	g, w := strings.Split(got, "\n"), strings.Split(want, "\n")
	n := 0
	for n < min(len(g), len(w)) && g[n] == w[n] {
		n++
	}
	lineOf := func(lines []string) string {
		if n == len(lines) {
			return "the end"
		}
		return strconv.Quote(lines[n])
	}
	return fmt.Sprintf("%d: %s, want %s", n+1, lineOf(g), lineOf(w))
}

// unbroken lines may be as long as they are: faults, warnings and commands, for
// programs to read and terminals to wrap.
var unbroken = regexp.MustCompile(`^(testdata/|warning: |rabbitmqctl )`)

// FixedSource is a coordinator that always says the same.
type FixedSource struct {
	Known []view.Task
	// Explained are the explanations, by task id; of other tasks they are made of
	// what is in tasks.
	Explained map[string]view.TaskExplanation
	// Prospect answers /whatif; asked is where the body goes.
	Prospect    view.Prospect
	ProspectErr error
	Asked       *string
	stats       view.AgentStats
	Can         []view.Capability
	Readiness   view.Readiness // in Status
	Is          string         // state of Ready; empty: active
	Says        *view.Status   // nil: some agents
	Away        bool           // there is no session with the broker
	Word        string         // of Health; empty: healthy
	Nodes       view.Quotas
	QuotasErr   error
	QuotaAnswer view.QuotaAnswer
	Controls    view.QuotaControls
	// Cancelled are the answers to a cancel, by task id; to any other it has none.
	Cancelled map[string]view.Cancellation
}

func (s FixedSource) Health(context.Context) view.Health {
	return view.Health{Status: cmp.Or(s.Word, view.Healthy), Checks: map[string]view.Check{
		"agents": {Status: view.Degraded,
			Detail: "2 of 3 agents online, 1 can take a task now: 1 cordoned or draining"},
		"assignments": {Status: view.Healthy, Detail: "last minute: 40 assigned, 0 failed; oldest waits 0s"},
	}}
}
func (s FixedSource) Ready(context.Context) view.Readiness {
	state := cmp.Or(s.Is, "active")
	return view.Readiness{Ready: state == "active", State: state}
}
func (s FixedSource) Status(context.Context) (view.Status, error) {
	if s.Says != nil {
		return *s.Says, nil
	}
	return view.Status{Readiness: s.Readiness, Broker: view.Broker{Connected: !s.Away}, Agents: []view.Agent{
		{ID: "gpu-1", State: "online", Status: "ready", Load: 0.25, InFlight: 1, Leased: 1, Slots: 4, MaxConcurrent: 4,
			Rank: 1, Assigned: 1200, LastHeartbeat: Noon.Add(-3 * time.Second), Eligible: true,
			Ejected: []view.Ejection{{Capability: "cuda"}, {Capability: "gpu", Until: Noon.Add(100 * time.Second)}},
			Recent:  view.AgentResults{Succeeded: 9, Failed: 1}},
		{ID: "reviewer-1", State: "online", Status: "busy", Load: 1, InFlight: 3, Leased: 3, Slots: 3, MaxConcurrent: 3,
			Rank: 2, Assigned: 7, LastHeartbeat: Noon.Add(-500 * time.Millisecond), WhyNot: "full",
			Recent: view.AgentResults{Succeeded: 2, Failed: 3, Overdue: 1}},
		{ID: "researcher-1", State: "stale", Status: "ready", Load: 0, Slots: 3, MaxConcurrent: 3, Rank: 3,
			LastHeartbeat: Noon.Add(-10 * time.Minute), WhyNot: "stale"},
		{ID: "archivist-1", State: "never_seen", Status: "unknown", Slots: 1, MaxConcurrent: 1, Rank: 5, WhyNot: "never_seen",
			Cordoned: true},
		{ID: "worker-17", State: "online", Status: "ready", Load: 0.5, InFlight: 2, Slots: 3, MaxConcurrent: 4, Rank: 3,
			Assigned: 40, LastHeartbeat: Noon, Leased: 2, WhyNot: "cordoned", Cordoned: true, Draining: true, Discovered: true},
		{ID: "worker-18", State: "gone", Status: "ready", Slots: 4, MaxConcurrent: 4, Rank: 3,
			LastHeartbeat: Noon.Add(-time.Second), WhyNot: "gone", Cordoned: true, Draining: true, Drained: true,
			Discovered: true},
	}}, nil
}

func (s FixedSource) Explain(ctx context.Context, id string) (view.TaskExplanation, bool) {
	if x, ok := s.Explained[id]; ok {
		return x, true
	}
	t, ok := s.Task(ctx, id)
	return view.TaskExplanation{
		ID: t.ID, Type: t.Type, Carried: t.Carried, State: t.State, Agent: t.Agent, Attempt: t.Attempt,
		ReasonCode: t.ReasonCode, Reason: t.Reason, Error: t.Error, Explanation: t.Explanation,
	}, ok
}

func (s FixedSource) WhatIf(_ context.Context, body []byte) (view.Prospect, error) {
	if s.Asked != nil {
		*s.Asked = string(body)
	}
	return s.Prospect, s.ProspectErr
}

func (s FixedSource) AgentStats(context.Context) (view.AgentStats, error) { return s.stats, nil }

func (s FixedSource) Capabilities(context.Context) ([]view.Capability, error) {
	return s.Can, nil
}

// Quotas gives those that were asked for, as far as their names go.
func (s FixedSource) Quotas(_ context.Context, of view.QuotaSelection) (view.Quotas, error) {
	q := s.Nodes
	q.Nodes = nil
	for _, n := range s.Nodes.Nodes {
		switch {
		case of.Node != "" && n.ID != of.Node, of.Group != "" && !strings.Contains("/"+n.ID+"/", "/"+of.Group+"/"),
			of.Agent != "" && n.Name != of.Agent && n.Kind != "group", of.Provider != "" &&
				(of.Provider == "pool" || !strings.HasPrefix(n.ID+"/", of.Provider+"/")):
			continue
		}
		q.Nodes = append(q.Nodes, n)
	}
	return q, s.QuotasErr
}

func (s FixedSource) ExplainQuota(context.Context, view.QuotaQuestion) (view.QuotaAnswer, error) {
	return s.QuotaAnswer, s.QuotasErr
}

func (s FixedSource) AskCalls(context.Context, []coordinator.Call) ([]coordinator.CallAnswer, error) {
	return nil, errors.New("nothing is asked here")
}

func (s FixedSource) AcknowledgeLoss(context.Context) error { return nil }

func (s FixedSource) AskLeader(context.Context, []coordinator.Call) ([]coordinator.CallAnswer, error) {
	return nil, errors.New("nothing is asked here")
}

func (s FixedSource) QuotaControls(context.Context) (view.QuotaControls, error) {
	return s.Controls, s.QuotasErr
}

// ControlQuota answers with what was asked for.
func (s FixedSource) ControlQuota(_ context.Context, q view.QuotaChange) (view.QuotaChanged, error) {
	if q.Node == "pool/zeta" {
		return view.QuotaChanged{}, &httpapi.BadControl{Why: "no node of the quota trees is called pool/zeta"}
	}
	var changed view.QuotaChanged
	for _, v := range q.Values {
		c := view.QuotaControl{ID: "set-1", Kind: "set", Target: q.Node, Key: v.Key, Value: v.Value, At: Noon,
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
			c.Until = Noon.Add(q.For)
		}
		changed.Controls = append(changed.Controls, c)
	}
	all, err := s.Quotas(context.Background(), view.QuotaSelection{Node: q.Node})
	changed.Nodes = all.Nodes
	if q.Preview {
		name, _, _ := strings.Cut(q.Values[0].Key, ".")
		changed.Moves = []view.QuotaMove{
			{Node: "pool", Spare: true, Dimension: name, Before: 20_000, After: 0},
			{Node: q.Node, Dimension: name, Before: 300_000, After: 450_000},
			{Node: q.Node + "/below", Dimension: name, Before: 300_000, After: 450_000},
			{Node: "pool/beta", Dimension: name, Before: 200_000, After: 70_000},
		}
	}
	return changed, err
}

func (FixedSource) DeadLetters(context.Context, view.DeadFilter) (view.DeadList, error) {
	return view.DeadList{}, nil
}

func (FixedSource) DeadLetter(context.Context, string, bool) (view.DeadMessage, bool, error) {
	return view.DeadMessage{}, false, nil
}

func (FixedSource) ResendDead(context.Context, []string) (view.DeadDone, error) {
	return view.DeadDone{}, nil
}

func (FixedSource) DropDead(context.Context, []string) (view.DeadDone, error) {
	return view.DeadDone{}, nil
}

func (s FixedSource) UncontrolQuota(_ context.Context, id string) (view.QuotaChanged, error) {
	for _, c := range s.Controls.Controls {
		if c.ID == id {
			return view.QuotaChanged{Removed: []view.QuotaControl{c}}, nil
		}
	}
	return view.QuotaChanged{}, httpapi.ErrNoControl
}

func (s FixedSource) RegisterQuota(_ context.Context, q view.QuotaEntry) (view.QuotaChanged, error) {
	return view.QuotaChanged{Controls: []view.QuotaControl{{ID: "group-1", Kind: "group", Target: q.ID,
		Value: q.Entry, By: q.By, Reason: q.Reason}}}, nil
}

func (s FixedSource) UnregisterQuota(_ context.Context, _ bool, id string) (view.QuotaChanged, error) {
	return view.QuotaChanged{}, httpapi.ErrOfFile
}

func (FixedSource) ReportCapacity(context.Context, string, httpapi.CapacityReport) error { return nil }

func (s FixedSource) Cancel(_ context.Context, id, _ string) (view.Cancellation, error) {
	if c, ok := s.Cancelled[id]; ok {
		return c, nil
	}
	return view.Cancellation{}, errors.New("no session with the broker")
}

func (s FixedSource) Order(ctx context.Context, id string, order coordinator.Order) (view.Agent, error) {
	status, err := s.Status(ctx)
	for _, g := range status.Agents {
		if g.ID == id {
			g.Cordoned, g.Draining = order != coordinator.OrderUncordon, order == coordinator.OrderDrain
			return g, err
		}
	}
	return view.Agent{}, httpapi.ErrNoAgent
}
func (FixedSource) SubmitTask(context.Context, httpapi.Submission) (string, error) { return "", nil }
func (FixedSource) TaskOutput(string, string) *coordinator.Output                  { return nil }
func (FixedSource) WatchTask(string) (<-chan struct{}, func())                     { return nil, func() {} }
func (s FixedSource) TaskStory(ctx context.Context, id string) (view.TaskStory, bool) {
	t, known := s.Task(ctx, id)
	return view.TaskStory{Task: t}, known
}
func (s FixedSource) Task(_ context.Context, id string) (view.Task, bool) {
	for _, t := range s.Known {
		if t.ID == id {
			return t, true
		}
	}
	return view.Task{}, false
}
func (s FixedSource) Tasks(_ context.Context, f view.TaskFilter) []view.Task {
	var found []view.Task
	for _, t := range s.Known {
		if (f.State == "" || f.State == t.State) && (f.Agent == "" || f.Agent == t.Agent) && len(found) < f.Limit {
			found = append(found, t)
		}
	}
	return found
}

// AdminToken is that of the coordinators of these tests: 32 characters.
const AdminToken = "canary-0123456789-abcdefghijklmn"

// StartCoordinator serves src over HTTP and points the rig at it.
func (r *Rig) StartCoordinator(t *testing.T, src httpapi.Source) {
	t.Helper()
	server := httptest.NewServer(httpapi.New(src, http.NotFoundHandler(),
		httpapi.Options{LoopbackHosts: true, AdminToken: []byte(AdminToken)}))
	t.Cleanup(server.Close)
	r.Env["TASKBUS_HTTP_URL"] = server.URL
}

// EveryCommand calls visit for each command but cobra's own.
func EveryCommand(c *cobra.Command, visit func(*cobra.Command)) {
	visit(c)
	for _, sub := range c.Commands() {
		if sub.Name() != "help" && sub.Name() != "completion" {
			EveryCommand(sub, visit)
		}
	}
}
