package main

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"taskbus/coordinator/httpapi"
)

// recent is what the coordinator of these tests remembers.
var recent = []httpapi.Task{
	{
		ID: "task-4", Type: "train-embedding", Priority: 2, TraceID: "trace-4", State: "dispatched", Agent: "gpu-1",
		Strategy: "capability_match", Attempt: 2, AcceptedAt: noon.Add(-4 * time.Second), DurationMS: 12.3,
		Explanation: &httpapi.Explanation{
			Text: "gpu-1 by capability_match, best of 2 eligible among 6 agents", Fleet: 6, Eligible: 2,
			Candidates: []httpapi.Candidate{
				{Agent: "gpu-1", Free: 3, Load: 0.25, Terms: []httpapi.Term{{Name: "load", Value: 0.25}, {Name: "-capabilities", Value: -5}}},
				{Agent: "gpu-2", Free: 1, Load: 0.5, Terms: []httpapi.Term{{Name: "load", Value: 0.5}, {Name: "-capabilities", Value: -4}}},
			},
			Refused: map[string]int{"lacks_capability": 1, "full": 1, "cordoned": 2}, Missing: map[string]int{"gpu": 1},
		},
	},
	{
		ID: "task-3", Type: "translate", Priority: 1, TraceID: "trace-3", State: "pending", AcceptedAt: noon.Add(-90 * time.Second),
		Explanation: &httpapi.Explanation{Text: "0 of 4 agents eligible: 3 lack `translate`, 1 full; nearest: generalist-1 (full)", Fleet: 4},
	},
	{
		ID: "task-2", Type: "origami", Priority: 0, TraceID: "trace-2", State: "failed", AcceptedAt: noon.Add(-2 * time.Hour),
		DurationMS: 10_500, ReasonCode: "unknown_task_type", Reason: "task type \"origami\" is not in task_routing",
	},
	{
		ID: "task-1", Type: "translate", Priority: 3, TraceID: "trace-1", State: "failed", Agent: "gpu-1", Attempt: 1, AcceptedAt: noon.Add(-72 * time.Hour),
		DurationMS: 0.25, WorkMS: 61_000, Error: "no dictionary for Klingon on this machine", Strategy: "least_loaded",
		Explanation: &httpapi.Explanation{Text: "gpu-1 by least_loaded, best of 1 eligible among 4 agents", Fleet: 4, Eligible: 1},
	},
	{ID: "task-0", Type: "translate", Priority: 1, TraceID: "trace-0", State: "succeeded", Agent: "gpu-1", AcceptedAt: noon.Add(-96 * time.Hour), DurationMS: 3, WorkMS: 1500, Strategy: "least_loaded"},
}

func TestLooking(t *testing.T) {
	for _, tc := range []struct {
		golden string
		args   string
		code   int
	}{
		{"agents.txt", "agents", exitOK},
		{"agents.json", "agents -o json", exitOK},
		{"tasks.txt", "tasks", exitOK},
		{"tasks-failed.json", "tasks --state failed -o json", exitOK},
		{"tasks-none.txt", "tasks --agent nobody", exitOK},
		{"tasks-limit.txt", "tasks --limit 2", exitOK},
		{"explain-dispatched.txt", "explain task-4", exitOK},
		{"explain-pending.txt", "explain task-3", exitOK},
		{"explain-failed.txt", "explain task-2", exitOK},
		{"explain-failed.json", "explain task-2 -o json", exitOK},
		{"explain-failed-at-agent.txt", "explain task-1", exitOK},
		{"explain-unknown.txt", "explain task-9", exitFailed},
		{"health.json", "health -o json", exitOK},
	} {
		t.Run(tc.golden, func(t *testing.T) {
			r := newRig()
			r.startCoordinator(t, fixedSource{tasks: recent})
			if code := r.run(t, strings.Fields(tc.args)...); code != tc.code {
				t.Errorf("exit code %d, want %d; stderr: %s", code, tc.code, r.err.String())
			}
			if tc.code != exitOK {
				// What the coordinator says against it, in one line on standard error.
				if text := r.err.String(); r.out.String() != "" || !strings.Contains(text, "task-9") || strings.Count(text, "\n") != 1 {
					t.Errorf("stdout %q, stderr %q", r.out.String(), text)
				}
				return
			}
			golden(t, tc.golden, r.out.String())
		})
	}
}

// Whatever listens at the address, the answer is one helpful line.
func TestLookingAtSomethingElse(t *testing.T) {
	for name, handler := range map[string]http.HandlerFunc{
		"a web page":       func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>")) },
		"a 404 of its own": http.NotFound,
		"a 500":            func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) },
		"control codes": func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusTeapot)
			_, _ = w.Write([]byte(`{"title":"\u001b[2Jowned\n","detail":"x"}`))
		},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(handler)
			defer server.Close()
			r := newRig()
			if code := r.run(t, "agents", "--url", server.URL); code != exitFailed {
				t.Errorf("exit code %d, want %d", code, exitFailed)
			}
			if text := r.err.String(); strings.Count(text, "\n") != 1 || strings.Contains(text, "\x1b") {
				t.Errorf("stderr %q", text)
			}
		})
	}
}

func TestWhereTheCoordinatorIs(t *testing.T) {
	for _, tc := range []struct {
		flag string
		env  map[string]string
		want string
	}{
		{"", nil, "http://127.0.0.1:8551"},
		{"", map[string]string{"COORDINATOR_PORT": "9000"}, "http://127.0.0.1:9000"},
		{"", map[string]string{"COORDINATOR_PORT": "9000", "TASKBUS_HTTP_URL": "http://a:1/"}, "http://a:1"},
		{"https://b:2", map[string]string{"TASKBUS_HTTP_URL": "http://a:1"}, "https://b:2"},
	} {
		r := newRig()
		r.env = tc.env
		if c, err := r.newClient(tc.flag); err != nil || c.base != tc.want {
			t.Errorf("--url %q, %v: %v, %v; want %s", tc.flag, tc.env, c, err, tc.want)
		}
	}
}
