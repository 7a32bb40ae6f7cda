package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/gateway"
	"taskbus/coordinator/view"
)

// fakeSource answers from fields; the tests set what they need.
type fakeSource struct {
	health    view.Health
	ready     view.Readiness
	status    view.Status
	statusErr error
	list      []view.Task
	asked     view.TaskFilter
	panics    bool

	submission Submission
	submitErr  error
	outputs    map[string]*coordinator.Output // by task and agent: "task-1/agent-a"
	news       chan struct{}                  // of any task
	watchers   int32                          // changed atomically

	lossReported bool // until it is acknowledged
	// done are the changes that were made; doneErr refuses them.
	done    []string
	doneErr error
	cancel  view.Cancellation
	agent   view.Agent

	calls       []coordinator.Call // that were asked about
	callAnswers []coordinator.CallAnswer
	callErr     error

	explained    map[string]view.TaskExplanation
	prospect     view.Prospect
	prospectErr  error
	whatIf       []byte // the body that was asked about
	stats        view.AgentStats
	capabilities []view.Capability
	fleetErr     error
	quotas       view.Quotas
	quotasErr    error
	selected     view.QuotaSelection
	quotaAnswer  view.QuotaAnswer
	quotaAsked   view.QuotaQuestion
	controls     view.QuotaControls
	changed      view.QuotaChanged
	quotaChange  view.QuotaChange
	quotaEntry   view.QuotaEntry

	dead      view.DeadList
	deadAsked view.DeadFilter
	deadDone  view.DeadDone
}

func (f *fakeSource) DeadLetters(ctx context.Context, filter view.DeadFilter) (view.DeadList, error) {
	f.deadAsked = filter
	return f.dead, f.change(ctx, "dead")
}

func (f *fakeSource) DeadLetter(ctx context.Context, key string, body bool) (view.DeadMessage, bool, error) {
	err := f.change(ctx, fmt.Sprintf("dead %s %t", key, body))
	for _, m := range f.dead.Messages {
		if m.Key == key {
			return m, true, err
		}
	}
	return view.DeadMessage{}, false, err
}

func (f *fakeSource) ResendDead(ctx context.Context, keys []string) (view.DeadDone, error) {
	return f.deadDone, f.change(ctx, "resend "+strings.Join(keys, " "))
}

func (f *fakeSource) DropDead(ctx context.Context, keys []string) (view.DeadDone, error) {
	return f.deadDone, f.change(ctx, "drop "+strings.Join(keys, " "))
}

func (f *fakeSource) QuotaControls(ctx context.Context) (view.QuotaControls, error) {
	if _, bounded := ctx.Deadline(); !bounded {
		return view.QuotaControls{}, errors.New("asked without a deadline")
	}
	return f.controls, f.quotasErr
}

func (f *fakeSource) ControlQuota(ctx context.Context, q view.QuotaChange) (view.QuotaChanged, error) {
	f.quotaChange = q
	return f.changed, f.change(ctx, "control "+q.Node)
}

func (f *fakeSource) UncontrolQuota(ctx context.Context, id string) (view.QuotaChanged, error) {
	return f.changed, f.change(ctx, "uncontrol "+id)
}

func (f *fakeSource) RegisterQuota(ctx context.Context, q view.QuotaEntry) (view.QuotaChanged, error) {
	f.quotaEntry = q
	return f.changed, f.change(ctx, "register "+q.ID)
}

func (f *fakeSource) UnregisterQuota(ctx context.Context, agent bool, id string) (view.QuotaChanged, error) {
	return f.changed, f.change(ctx, "unregister "+entryName(agent)+" "+id)
}

func (f *fakeSource) Quotas(ctx context.Context, of view.QuotaSelection) (view.Quotas, error) {
	if _, bounded := ctx.Deadline(); !bounded {
		return view.Quotas{}, errors.New("asked without a deadline")
	}
	f.selected = of
	return f.quotas, f.quotasErr
}

func (f *fakeSource) ExplainQuota(ctx context.Context, q view.QuotaQuestion) (view.QuotaAnswer, error) {
	if _, bounded := ctx.Deadline(); !bounded {
		return view.QuotaAnswer{}, errors.New("asked without a deadline")
	}
	f.quotaAsked = q
	return f.quotaAnswer, f.quotasErr
}

func (f *fakeSource) Explain(ctx context.Context, id string) (view.TaskExplanation, bool) {
	_, bounded := ctx.Deadline()
	x, known := f.explained[id]
	return x, known && bounded
}

func (f *fakeSource) WhatIf(ctx context.Context, body []byte) (view.Prospect, error) {
	if _, bounded := ctx.Deadline(); !bounded {
		return view.Prospect{}, errors.New("asked without a deadline")
	}
	f.whatIf = body
	return f.prospect, f.prospectErr
}

func (f *fakeSource) AgentStats(ctx context.Context) (view.AgentStats, error) {
	if _, bounded := ctx.Deadline(); !bounded {
		return view.AgentStats{}, errors.New("asked without a deadline")
	}
	return f.stats, f.fleetErr
}

func (f *fakeSource) Capabilities(ctx context.Context) ([]view.Capability, error) {
	if _, bounded := ctx.Deadline(); !bounded {
		return nil, errors.New("asked without a deadline")
	}
	return f.capabilities, f.fleetErr
}

func (f *fakeSource) ReportCapacity(ctx context.Context, agent string, r CapacityReport) error {
	return f.change(ctx, fmt.Sprintf("%s %g items/s, %d pending", agent, r.Capacity, r.Pending))
}

func (f *fakeSource) Cancel(ctx context.Context, id, reason string) (view.Cancellation, error) {
	return f.cancel, f.change(ctx, "cancel "+id+" "+reason)
}

func (f *fakeSource) Order(ctx context.Context, agent string, order coordinator.Order) (view.Agent, error) {
	return f.agent, f.change(ctx, order.String()+" "+agent)
}

func (f *fakeSource) change(ctx context.Context, what string) error {
	if f.panics {
		panic("the source is broken")
	}
	if _, bounded := ctx.Deadline(); !bounded {
		return errors.New("asked without a deadline")
	}
	f.done = append(f.done, strings.TrimSpace(what))
	return f.doneErr
}

func (f *fakeSource) Health(context.Context) view.Health {
	if f.panics {
		panic("the source is broken")
	}
	return f.health
}
func (f *fakeSource) Ready(context.Context) view.Readiness { return f.ready }
func (f *fakeSource) Status(ctx context.Context) (view.Status, error) {
	if _, bounded := ctx.Deadline(); !bounded {
		return view.Status{}, errors.New("asked without a deadline")
	}
	return f.status, f.statusErr
}
func (f *fakeSource) SubmitTask(ctx context.Context, t Submission) (string, error) {
	f.submission = t
	if _, bounded := ctx.Deadline(); !bounded {
		return "", errors.New("asked without a deadline")
	}
	return "t-1", f.submitErr
}

func (f *fakeSource) TaskOutput(task, agent string) *coordinator.Output {
	return f.outputs[task+"/"+agent]
}

func (f *fakeSource) WatchTask(string) (news <-chan struct{}, stop func()) {
	atomic.AddInt32(&f.watchers, 1)
	return f.news, func() { atomic.AddInt32(&f.watchers, -1) }
}

func (f *fakeSource) TaskStory(ctx context.Context, id string) (view.TaskStory, bool) {
	t, known := f.Task(ctx, id)
	return view.TaskStory{Task: t, Attempts: f.explained[id].Attempts}, known
}

func (f *fakeSource) Task(_ context.Context, id string) (view.Task, bool) {
	for _, t := range f.list {
		if t.ID == id {
			return t, true
		}
	}
	return view.Task{}, false
}
func (f *fakeSource) Tasks(_ context.Context, filter view.TaskFilter) []view.Task {
	f.asked = filter
	return f.list
}

var metrics = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
	_,
		_ = io.WriteString(w, "taskbus_up 1\n")
})

// ask sends one request straight into the handler.
func ask(h http.Handler, method, target, host string) *http.Response {
	r := httptest.NewRequest(method, "/", nil)
	r.Host = host
	path, query, _ := strings.Cut(target, "?")
	r.URL.Path, r.URL.RawQuery = path, query
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result()
}

// body reads an answer. Whatever it is to, one of those that are to be asked for again says when.
func body(t *testing.T, r *http.Response) string {
	t.Helper()
	again := r.StatusCode == http.StatusServiceUnavailable || r.StatusCode == http.StatusTooManyRequests
	if seconds, err := strconv.Atoi(r.Header.Get("Retry-After")); again && (err != nil || seconds < 1) {
		t.Errorf("%s with Retry-After %q, want seconds", r.Status, r.Header.Get("Retry-After"))
	}
	b, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatalf("reading the answer: %v", err)
	}
	return string(b)
}

func TestEndpoints(t *testing.T) {
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	task := view.Task{
		ID: "task-1", Type: "summarise", Priority: 2, Carried: coordinator.Carried{CorrelationID: "trace-1"},
		State: "dispatched", Agent: "agent-a",
		AcceptedAt: at,
		Explanation: &view.Explanation{Text: "agent-a by least_loaded, best of 2 eligible among 3 agents", Fleet: 3,
			Eligible: 2},
	}
	score := view.Number(0.85)
	explained := view.TaskExplanation{
		ID: "task-1", State: "dispatched", DecidedAt: at, Explanation: task.Explanation,
		Attempts: []view.Attempt{{Number: 1, Agent: "agent-b", Outcome: "expired"}, {Number: 2, Agent: "agent-a"}},
		Now: &view.Prospect{ID: "task-1", Agent: "agent-b", Explanation: &view.Explanation{Candidates: []view.Candidate{
			{Agent: "agent-b", Score: &score, Terms: []view.Term{{Name: "success", Value: view.Number(math.NaN())}}},
		}}},
	}
	for _, tc := range []struct {
		name   string
		source fakeSource
		target string
		status int
		typ    string
		has    []string // what the body must contain
	}{
		{"healthy is 200", fakeSource{health: view.Health{Status: view.Healthy}}, "/health", 200, "application/json",
			[]string{`"status": "healthy"`}},
		{"degraded is 200: it still works", fakeSource{health: view.Health{Status: view.Degraded}}, "/health", 200,
			"application/json",
			[]string{`"degraded"`}},
		{"critical is 503", fakeSource{health: view.Health{Status: view.Critical,
			Checks: map[string]view.Check{"fleet": {Status: "critical", Detail: "0 of 3 agents online"}}}},
			"/health", 503, "application/json", []string{`"critical"`, "0 of 3 agents online"}},
		{"an unknown word is not healthy", fakeSource{health: view.Health{Status: "fine"}}, "/health", 503,
			"application/json",
			nil},

		{"alive even when critical and not ready", fakeSource{health: view.Health{Status: view.Critical}}, "/livez", 200,
			"application/json", []string{`"alive": true`}},
		{"ready", fakeSource{ready: view.Readiness{Ready: true, State: "active"}}, "/readyz", 200, "application/json",
			[]string{`"active"`}},
		{"standby is not ready", fakeSource{ready: view.Readiness{State: "standby", Detail: "another instance leads"}},
			"/readyz",
			503, "application/json",
			[]string{`"standby"`, "another instance leads"}},

		{"status", fakeSource{status: view.Status{Version: "v1", Instance: "i-1"}}, "/status", 200, "application/json",
			[]string{`"version": "v1"`, `"agents": []`, `"queues": []`}},
		{"status not available", fakeSource{statusErr: errors.New("the engine does not answer")}, "/status", 503,
			"application/problem+json",
			[]string{"the engine does not answer", "Try again"}},
		{"a value JSON does not know", fakeSource{status: view.Status{Agents: []view.Agent{{Load: math.NaN()}}}}, "/status",
			500,
			"application/problem+json",
			[]string{"report it"}},

		{"metrics", fakeSource{}, "/metrics", 200, "", []string{"taskbus_up 1"}},

		{"no tasks is an empty list", fakeSource{}, "/tasks", 200, "application/json",
			[]string{`"tasks": []`, `"limit": 50`}},
		{"tasks", fakeSource{list: []view.Task{task}}, "/tasks", 200, "application/json", []string{`"task-1"`}},
		{"an unknown state", fakeSource{}, "/tasks?state=lost", 400, "application/problem+json",
			[]string{"pending, dispatching, dispatched"}},
		{"a misspelt parameter", fakeSource{}, "/tasks?stat=failed", 400, "application/problem+json",
			[]string{"known are state, agent and limit"}},
		{"limit 0", fakeSource{}, "/tasks?limit=0", 400, "application/problem+json", []string{"from 1 to 1000"}},
		{"limit beyond the bound", fakeSource{}, "/tasks?limit=1001", 400, "application/problem+json", nil},
		{"limit that is no number", fakeSource{}, "/tasks?limit=1e9", 400, "application/problem+json", nil},
		{"limit beyond int64", fakeSource{}, "/tasks?limit=99999999999999999999", 400, "application/problem+json", nil},
		{"a state of tasks that have ended", fakeSource{}, "/tasks?state=succeeded", 200, "application/json", nil},
		{"a parameter given twice", fakeSource{}, "/tasks?state=failed&state=pending", 400, "application/problem+json",
			[]string{"given 2 times"}},
		{"a broken query", fakeSource{}, "/tasks?state=%zz", 400, "application/problem+json", nil},
		{"an agent id that is none", fakeSource{}, "/tasks?agent=../x", 400, "application/problem+json", nil},

		{"one task", fakeSource{list: []view.Task{task}}, "/tasks/task-1", 200, "application/json",
			[]string{`"task_id": "task-1"`, `"correlation_id": "trace-1"`}},
		{"a task that is not remembered", fakeSource{}, "/tasks/task-2", 404, "application/problem+json",
			[]string{"task-2", "window of the duplicate check", "assignment.failed"}},
		{"an explanation", fakeSource{explained: map[string]view.TaskExplanation{"task-1": explained}},
			"/tasks/task-1/explain",
			200, "application/json",
			[]string{"best of 2 eligible among 3", `"decided_at": "2026-03-01T12:00:00Z"`, `"outcome": "expired"`, `"now": {`,
				`"value": null`, `"score": 0.85`}},
		{"no explanation kept", fakeSource{explained: map[string]view.TaskExplanation{"task-3": {ID: "task-3"}}},
			"/tasks/task-3/explain", 200, "application/json",
			[]string{`"explanation": null`, `"attempts": []`}},
		{"explaining a task that is not remembered", fakeSource{}, "/tasks/task-2/explain", 404, "application/problem+json",
			nil},
		{"explaining what is no id", fakeSource{}, "/tasks/..x/explain", 400, "application/problem+json", nil},

		{"an empty fleet: zeros and empty lists", fakeSource{}, "/agents/stats", 200, "application/json",
			[]string{`"agents": []`, `"bottlenecks": []`, `"total_capacity": 0,`, `"average_success_rate": 0,`}},
		{"statistics", fakeSource{stats: view.AgentStats{TotalCapacity: 28,
			Agents: []view.AgentInfo{{ID: "a1", Capacity: 16, Health: "HEALTHY"}, {ID: "a2"}}}}, "/agents/stats", 200,
			"application/json",
			[]string{`"total_capacity": 28`, `"capacity_items_per_second": 16`, `"health": "HEALTHY"`, `"capabilities": []`}},
		{"statistics not available", fakeSource{fleetErr: errors.New("the engine does not answer")}, "/agents/stats", 503,
			"application/problem+json", []string{"the engine does not answer"}},
		{"no capabilities is an empty list", fakeSource{}, "/capabilities", 200, "application/json",
			[]string{`"capabilities": []`}},
		{"capabilities", fakeSource{capabilities: []view.Capability{{Name: "gpu", BusFactor: 1}}}, "/capabilities", 200,
			"application/json", []string{`"capability": "gpu"`, `"bus_factor": 1`}},
		{"capabilities not available", fakeSource{fleetErr: errors.New("the engine does not answer")}, "/capabilities", 503,
			"application/problem+json", nil},

		{"the list of endpoints", fakeSource{}, "/", 200, "text/plain; charset=utf-8",
			[]string{"/health", "/tasks/{id}/explain", "only reads", "is off", "* DELETE", "/agents/{id}/uncordon"}},
		{"no such endpoint", fakeSource{}, "/admin", 404, "application/problem+json", []string{"GET / lists"}},
		{"a slash too many", fakeSource{}, "/health/", 404, "application/problem+json", nil},
		{"no profiles unless asked for", fakeSource{}, "/debug/pprof/", 404, "application/problem+json", nil},

		{"a huge id", fakeSource{}, "/tasks/" + strings.Repeat("a", 1<<20), 400, "application/problem+json",
			[]string{"1 to 128"}},
		{"an id with a slash in it", fakeSource{}, "/tasks/a/b", 404, "application/problem+json", nil},
		{"an id with control characters", fakeSource{}, "/tasks/a\r\nSet-Cookie: x", 400, "application/problem+json", nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := ask(New(&tc.source, metrics, Options{LoopbackHosts: true}), http.MethodGet, tc.target, "localhost:8551")
			text := body(t, r)
			if r.StatusCode != tc.status {
				t.Errorf("status %d, want %d; body %.300s", r.StatusCode, tc.status, text)
			}
			if got := r.Header.Get("Content-Type"); tc.typ != "" && got != tc.typ {
				t.Errorf("content type %q, want %q", got, tc.typ)
			}
			for _, want := range tc.has {
				if !strings.Contains(text, want) {
					t.Errorf("body lacks %q: %.600s", want, text)
				}
			}
			if got := r.Header.Get("X-Content-Type-Options"); got != "nosniff" {
				t.Errorf("X-Content-Type-Options %q, want nosniff", got)
			}
			if r.Header.Get("Content-Security-Policy") == "" || r.Header.Get("Cache-Control") != "no-store" {
				t.Errorf("security headers are missing: %v", r.Header)
			}
			if strings.HasSuffix(tc.typ, "json") && !json.Valid([]byte(text)) {
				t.Errorf("not JSON: %.300s", text)
			}
			if tc.typ == "application/problem+json" {
				var p gateway.Problem
				if err := json.Unmarshal([]byte(text), &p); err != nil || p.Status != tc.status || p.Title == "" || p.Detail == "" {
					t.Errorf("incomplete problem %+v (%v)", p, err)
				}
			}
		})
	}
}

// What the query says is what the source is asked for.
func TestTasksFilter(t *testing.T) {
	for query, want := range map[string]view.TaskFilter{
		"":                                  {Limit: 50},
		"state=&agent=&limit=":              {Limit: 50},
		"state=failed":                      {State: "failed", Limit: 50},
		"agent=gpu-1&limit=1000":            {Agent: "gpu-1", Limit: 1000},
		"limit=1&agent=a%3Ab&state=pending": {State: "pending", Agent: "a:b", Limit: 1},
		"state=failed&agent=" + longest():   {State: "failed", Agent: longest(), Limit: 50},
	} {
		src := &fakeSource{}
		r := ask(New(src, metrics, Options{}), http.MethodGet, "/tasks?"+query, "anything")
		if r.StatusCode != http.StatusOK || src.asked != want {
			t.Errorf("?%s: status %d, asked for %+v, want %+v", query, r.StatusCode, src.asked, want)
		}
	}
}

// A parameter that is not used would look like an answer to the question.
func TestUnknownParameters(t *testing.T) {
	src := &fakeSource{
		health: view.Health{Status: view.Healthy}, ready: view.Readiness{Ready: true}, list: []view.Task{{ID: "t"}},
		explained: map[string]view.TaskExplanation{"t": {ID: "t"}},
		quotas: view.Quotas{Nodes: []view.QuotaNode{{ID: "t", Kind: "group", Name: "t"},
			{ID: "t/t", Kind: "agent", Name: "t"}}},
	}
	h := New(src, metrics, Options{})
	for _, e := range (&api{src: src, permission: newPermission(nil)}).endpoints(metrics) {
		if e.read == nil || strings.HasPrefix(e.path, "/dead") { // TestDeadLetters asks with the token
			continue
		}
		path := strings.NewReplacer("{id}", "t", "{id...}", "t").Replace(e.path)
		for query, status := range map[string]int{"": 200, "?": 200, "?colour=red": 400, "?colour": 400, "?%zz": 400} {
			if r := ask(h, http.MethodGet, path+query, "localhost"); r.StatusCode != status {
				t.Errorf("GET %s%s: status %d, want %d", path, query, r.StatusCode, status)
			}
		}
	}
	for target, status := range map[string]int{
		"/?colour=red": 400, "/metrics?name[]=a&name[]=b": 200, "/metrics?name[]=a&colour=red": 400, "/metrics?name=a": 400,
	} {
		if r := ask(h, http.MethodGet, target, "localhost"); r.StatusCode != status {
			t.Errorf("GET %s: status %d, want %d", target, r.StatusCode, status)
		}
	}
}

func longest() string { return "a" + strings.Repeat("b", 127) } // an id has at most 128 characters

// Every path answers 405 to a method that it does not have, and says which it has.
func TestMethods(t *testing.T) {
	const reading = "GET, HEAD"
	h := New(&fakeSource{}, metrics, Options{AdminToken: []byte(token)})
	for path, allow := range map[string]string{
		"/": reading, "/health": reading, "/status": reading, "/metrics": reading, "/nowhere": reading,
		"/tasks":                   "GET, HEAD, POST",
		"/tasks/task-1":            "GET, HEAD, DELETE",
		"/tasks/task-1/explain":    reading,
		"/agents/gpu-1/cordon":     "POST",
		"/agents/gpu-1/drain":      "POST",
		"/agents/gpu-1/uncordon":   "POST",
		"/agents/gpu-1/frobnicate": reading,
		"/agents/gpu-1/capacity":   "PUT",
		"/agents/stats":            reading,
		"/capabilities":            reading,
		"/whatif":                  "POST",
	} {
		for _, method := range []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "CONNECT", "TRACE",
			"PURGE"} {
			r := ask(h, method, path, "localhost")
			if slices.Contains(strings.Split(allow, ", "), method) {
				if r.StatusCode == http.StatusMethodNotAllowed {
					t.Errorf("%s %s: not allowed", method, path)
				}
				continue
			}
			if r.StatusCode != http.StatusMethodNotAllowed || r.Header.Get("Allow") != allow {
				t.Errorf("%s %s: status %d, Allow %q; want 405, %q", method, path, r.StatusCode, r.Header.Get("Allow"), allow)
			}
		}
	}
}

func TestHead(t *testing.T) {
	server := httptest.NewServer(New(&fakeSource{health: view.Health{Status: view.Critical}}, metrics,
		Options{LoopbackHosts: true}))
	defer server.Close()
	r, err := http.Head(server.URL + "/health")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	if r.StatusCode != http.StatusServiceUnavailable || r.ContentLength <= 0 || body(t, r) != "" {
		t.Errorf("HEAD /health: status %d, length %d; want 503, the length of the body, and no body", r.StatusCode,
			r.ContentLength)
	}
}

func TestHostAllowList(t *testing.T) {
	loopback := New(&fakeSource{}, metrics, Options{LoopbackHosts: true})
	open := New(&fakeSource{}, metrics, Options{})
	for _, tc := range []struct {
		host    string
		allowed bool
	}{
		{"localhost", true}, {"localhost:8551", true}, {"LOCALHOST:1", true},
		{"127.0.0.1", true}, {"127.0.0.1:8551", true}, {"127.0.0.2:80", true},
		{"[::1]", true}, {"[::1]:8551", true},
		{"", false}, {"evil.example", false}, {"evil.example:8551", false},
		{"localhost.evil.example", false}, {"127.0.0.1.evil.example:8551", false}, {"evil.example:127.0.0.1", false},
		{"0.0.0.0:8551", false}, {"192.0.2.1", false}, {"[::]:8551", false}, {"localhost:8551:8551", false},
		{"[localhost", true}, // brackets around a name mean nothing: it still is localhost
	} {
		r := ask(loopback, http.MethodGet, "/livez", tc.host)
		want := http.StatusMisdirectedRequest
		if tc.allowed {
			want = http.StatusOK
		}
		if r.StatusCode != want {
			t.Errorf("Host %q on loopback: status %d, want %d", tc.host, r.StatusCode, want)
		}
		if r := ask(open, http.MethodGet, "/livez", tc.host); r.StatusCode != http.StatusOK {
			t.Errorf("Host %q on an open address: status %d, want 200", tc.host, r.StatusCode)
		}
	}
}

// A path cannot leave its place, and a redirect that cleans one stays here.
func TestPathTraversal(t *testing.T) {
	h := New(&fakeSource{}, metrics, Options{})
	for _, path := range []string{"/tasks/../../etc/passwd", "//evil.example/", "/tasks/..%2f..%2fstatus",
		"/./status/../../x", "/tasks//explain"} {
		r := ask(h, http.MethodGet, path, "localhost")
		if r.StatusCode == http.StatusOK {
			t.Errorf("GET %s: 200", path)
		}
		location := r.Header.Get("Location")
		if strings.HasPrefix(location, "//") || strings.Contains(location, "://") {
			t.Errorf("GET %s: redirected elsewhere, to %q", path, location)
		}
	}
}

func TestPanicStaysInside(t *testing.T) {
	var path string
	var stack []byte
	h := New(&fakeSource{panics: true}, metrics, Options{Report: func(p string, _ any, s []byte) { path, stack = p, s }})
	r := ask(h, http.MethodGet, "/health", "localhost")
	if text := body(t, r); r.StatusCode != http.StatusInternalServerError ||
		strings.Contains(text, "the source is broken") {
		t.Errorf("status %d, body %q; want 500 without the cause", r.StatusCode, text)
	}
	if path != "/health" || !strings.Contains(string(stack), "fakeSource") {
		t.Errorf("reported path %q, stack %.200s", path, stack)
	}
	if r := ask(New(&fakeSource{panics: true}, metrics, Options{}), http.MethodGet, "/health",
		"localhost"); r.StatusCode != http.StatusInternalServerError {
		t.Errorf("without a Report: status %d, want 500", r.StatusCode)
	}
}

func TestProfilesWhenAskedFor(t *testing.T) {
	profiles := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "profiles") })
	h := New(&fakeSource{}, metrics, Options{LoopbackHosts: true, Profiles: profiles})
	if r := ask(h, http.MethodGet, "/debug/pprof/heap", "localhost"); r.StatusCode != http.StatusOK {
		t.Errorf("status %d, want 200", r.StatusCode)
	}
	if r := ask(h, http.MethodPost, "/debug/pprof/symbol", "localhost"); r.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("POST: status %d, want 405", r.StatusCode)
	}
	if r := ask(h, http.MethodGet, "/debug/pprof/heap", "evil.example"); r.StatusCode != http.StatusMisdirectedRequest {
		t.Errorf("for another host: status %d, want 421", r.StatusCode)
	}
}

func TestTaskStatesBelongToTheCaller(t *testing.T) {
	view.TaskStates()[0] = "changed"
	if !slices.Contains(view.TaskStates(), "pending") {
		t.Error("a caller changed the list for all")
	}
}

func (s *fakeSource) AskCalls(_ context.Context, calls []coordinator.Call) ([]coordinator.CallAnswer, error) {
	s.calls = append(s.calls, calls...)
	return s.callAnswers, s.callErr
}

func (s *fakeSource) AcknowledgeLoss(context.Context) error {
	defer func() { s.lossReported = false }()
	if !s.lossReported {
		return ErrNothingLost
	}
	return nil
}

func (s *fakeSource) AskLeader(ctx context.Context, calls []coordinator.Call) ([]coordinator.CallAnswer, error) {
	return s.AskCalls(ctx, calls)
}
