package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"taskbus/coordinator/credential"
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
				{Agent: "gpu-1", Free: 3, Load: 0.25,
					Terms: []httpapi.Term{{Name: "load", Value: 0.25}, {Name: "-capabilities", Value: -5}}},
				{Agent: "gpu-2", Free: 1, Load: 0.5,
					Terms: []httpapi.Term{{Name: "load", Value: 0.5}, {Name: "-capabilities", Value: -4}}},
			},
			Refused: map[string]int{"lacks_capability": 1, "full": 1, "cordoned": 2}, Missing: map[string]int{"gpu": 1},
		},
	},
	{
		ID: "task-3", Type: "translate", Priority: 1, TraceID: "trace-3", State: "pending",
		AcceptedAt: noon.Add(-90 * time.Second), DurationMS: 90_000,
		Reason: "0 of 4 agents eligible: 3 lack `translate`, 1 full; nearest: generalist-1 (full)",
		Explanation: &httpapi.Explanation{
			Text: "0 of 4 agents eligible: 3 lack `translate`, 1 full; nearest: generalist-1 (full)", Fleet: 4},
	},
	{
		ID: "task-3b", Type: "embed", Priority: 1, TraceID: "trace-3b", State: "pending",
		AcceptedAt: noon.Add(-2 * time.Second), DurationMS: 2000,
		Strategy: "reward_rate", Reason: "waits for its batch: 3 of at most 4, at most 18 s more",
		Explanation: &httpapi.Explanation{
			Text: "waits for its batch: 3 of at most 4, at most 18 s more", Strategy: "reward_rate", Fleet: 3, Eligible: 1,
			Candidates: []httpapi.Candidate{{Agent: "g2", Free: 2, Score: scored(0.9), Terms: terms("success", 0.9)}},
		},
	},
	{
		ID: "task-2", Type: "origami", Priority: 0, TraceID: "trace-2", State: "failed", AcceptedAt: noon.Add(-2 * time.Hour),
		DurationMS: 10_500, ReasonCode: "unknown_task_type", Reason: "task type \"origami\" is not in task_routing",
	},
	{
		ID: "task-1", Type: "translate", Priority: 3, TraceID: "trace-1", State: "failed", Agent: "gpu-1", Attempt: 1,
		AcceptedAt: noon.Add(-72 * time.Hour),
		DurationMS: 0.25, WorkMS: 61_000, Error: "no dictionary for Klingon on this machine", Strategy: "least_loaded",
		Explanation: &httpapi.Explanation{Text: "gpu-1 by least_loaded, best of 1 eligible among 4 agents", Fleet: 4,
			Eligible: 1},
	},
	{ID: "task-0", Type: "translate", Priority: 1, TraceID: "trace-0", State: "succeeded", Agent: "gpu-1",
		AcceptedAt: noon.Add(-96 * time.Hour), DurationMS: 3, WorkMS: 1500, Strategy: "least_loaded"},
}

// scored is a score, which in an answer may be absent.
func scored(n httpapi.Number) *httpapi.Number { return &n }

// terms makes named values: name, value, name, value, …
func terms(pairs ...any) (list []httpapi.Term) {
	for i := 0; i < len(pairs); i += 2 {
		list = append(list, httpapi.Term{Name: pairs[i].(string), Value: httpapi.Number(pairs[i+1].(float64))})
	}
	return list
}

// nowExplained is a decision that is asked for: all agents are in it.
var nowExplained = httpapi.Explanation{
	Text: "gpu-2 by reward_rate, best of 2 eligible among 9 agents", Strategy: "reward_rate", Fleet: 9, Eligible: 2,
	Explored: true,
	Candidates: []httpapi.Candidate{
		{Agent: "gpu-2", Free: 2, Load: 0, Score: scored(0.95), Terms: terms("success", 0.95, "duration", 1.0, "load", 0.0)},
		{Agent: "gpu-7", Free: 1, Load: 0.4, Score: scored(0.6785714), Terms: terms("success", 0.95, "duration", math.NaN(),
			"load", 0.4)},
	},
	Refused: map[string]int{"full": 1, "cordoned": 1, "lacks_capability": 5},
	Refusals: []httpapi.Refusal{
		{Agent: "gpu-1", Why: "full", FreeIn: 41.5}, {Agent: "gpu-3", Why: "cordoned"},
		{Agent: "a", Why: "lacks_capability"}, {Agent: "b", Why: "lacks_capability"}, {Agent: "c", Why: "lacks_capability"},
		{Agent: "d", Why: "lacks_capability"}, {Agent: "e", Why: "lacks_capability"},
	},
	Missing: map[string]int{"gpu": 5},
}

// lookedAt is what the coordinator of these tests knows.
var lookedAt = fixedSource{
	tasks: recent,
	explained: map[string]httpapi.TaskExplanation{
		"task-5": {
			ID: "task-5", Type: "train-embedding", TraceID: "trace-5", State: "dispatched", Agent: "gpu-1", Attempt: 3,
			DecidedAt: noon.Add(-2 * time.Second),
			Explanation: &httpapi.Explanation{
				Text: "gpu-1 by reward_rate, best of 2 eligible among 9 agents", Strategy: "reward_rate", Fleet: 9, Eligible: 2,
				Candidates: []httpapi.Candidate{
					{Agent: "gpu-1", Free: 1, Score: scored(0.9), Terms: terms("success", 0.9, "duration", 1.0, "load", 0.0)},
					{Agent: "gpu-2", Free: 1, Score: scored(0.85), Terms: terms("success", 0.95, "duration", 1.0, "load", 0.1)},
				},
				Refused: map[string]int{"already_tried": 2, "lacks_capability": 5},
				Refusals: []httpapi.Refusal{
					{Agent: "gpu-7", Why: "already_tried"}, {Agent: "gpu-9", Why: "already_tried"},
					{Agent: "a", Why: "lacks_capability"}, {Agent: "b", Why: "lacks_capability"},
					{Agent: "c", Why: "lacks_capability"}, {Agent: "d", Why: "lacks_capability"},
					{Agent: "e", Why: "lacks_capability"},
				},
			},
			Attempts: []httpapi.Attempt{
				{Agent: "gpu-9", Outcome: "returned"},
				{Number: 2, Agent: "gpu-7", DispatchID: "task-5.2", At: noon.Add(-time.Minute), Outcome: "rejected",
					Detail: "out of memory"},
				{Number: 3, Agent: "gpu-1", DispatchID: "task-5.3", At: noon.Add(-2 * time.Second)},
			},
			Now: &httpapi.Prospect{ID: "task-5", Type: "train-embedding", Agent: "gpu-2", Explanation: &nowExplained},
		},
		"task-10": { // of a large fleet
			ID: "task-10", Type: "train-embedding", TraceID: "trace-10", State: "dispatched", Agent: "gpu-1", Attempt: 1,
			Explanation: &httpapi.Explanation{
				Text: "gpu-1 by least_loaded, best of 12 eligible among 400 agents", Strategy: "least_loaded", Fleet: 400,
				Eligible: 12, WithoutQuota: 1,
				Candidates: []httpapi.Candidate{{Agent: "gpu-1", Free: 3, Terms: terms("load", 0.1)},
					{Agent: "gpu-2", Free: 2, Terms: terms("load", 0.2)}, {Agent: "gpu-3", Free: 2, Terms: terms("load", 0.2)}},
				Refused: map[string]int{"full": 2, "stale": 1, "lacks_capability": 383, "excluded": 1},
				Refusals: []httpapi.Refusal{{Agent: "gpu-4", Why: "full"}, {Agent: "gpu-9", Why: "full"},
					{Agent: "gpu-5", Why: "stale"}},
			},
		},
		"task-6": {
			ID: "task-6", Type: "train-embedding", TraceID: "trace-6", State: "pending", Agent: "gpu-7", Attempt: 1,
			Explanation: &httpapi.Explanation{
				Text: "0 of 2 agents eligible: 1 had it before, 1 full; nearest: gpu-1 (full, free in about 42 s)", Fleet: 2,
				Refused:  map[string]int{"full": 1, "already_tried": 1},
				Refusals: []httpapi.Refusal{{Agent: "gpu-1", Why: "full", FreeIn: 41.5}, {Agent: "gpu-7", Why: "already_tried"}},
				Nearest:  "gpu-1", NearestWhy: "full", NearestFreeIn: 41.5,
			},
			Attempts: []httpapi.Attempt{{Number: 1, Agent: "gpu-7", At: noon.Add(-time.Minute), Outcome: "expired"}},
		},
		"task-7": {
			ID: "task-7", Type: "embed", TraceID: "trace-7", State: "succeeded", Agent: "g1", Attempt: 1,
			Explanation: &httpapi.Explanation{Text: "g1 by least_loaded, best of 1 eligible among 2 agents", Fleet: 2,
				Eligible: 1},
			NowUnknown: "this coordinator stands by and does not know the fleet; ask the one that leads, whose /readyz answers 200",
		},
		"task-8": {
			ID: "task-8", Type: "embed", TraceID: "trace-8", State: "pending",
			Explanation: &httpapi.Explanation{
				Text: "0 of 1 agents eligible: 1 full; nearest: g1 (full, free in about 1 s)", Fleet: 1,
				Refused:  map[string]int{"full": 1},
				Refusals: []httpapi.Refusal{{Agent: "g1", Why: "full", FreeIn: 1e-9}}, // its task is overdue
			},
		},
	},
	stats: httpapi.AgentStats{
		ActiveAgentCount: 3, TotalCapacity: 28, GlobalQueueDepth: 100, QueueDepth: httpapi.QueueDepth{Agents: 49, Waiting: 3,
			Unread: 48},
		Agents: []httpapi.AgentInfo{
			{ID: "agent-1", State: "online", Capacity: 16, CapacityReported: true, Pending: 28, Health: "HEALTHY",
				DrainSeconds: 1.75, SuccessRate: 0.98, DurationMS: 62, Load: 0.5, LoadFactor: 0.28, TargetLoadFactor: 16. / 28},
			{ID: "agent-2", State: "online", Capacity: 8, Pending: 14, Health: "BUSY", DrainSeconds: 45, SuccessRate: 0.9,
				DurationMS: 125, Load: 1, LoadFactor: 0.14, TargetLoadFactor: 8. / 28, EjectedFrom: []string{"cuda", "gpu"}},
			{ID: "agent-3", State: "online", Capacity: 4, WarmUp: true, Pending: 7, Health: "OVERLOADED", DrainSeconds: 605,
				SuccessRate: 0.9, Load: 1, LoadFactor: 0.07, TargetLoadFactor: 4. / 28},
			{ID: "agent-4", State: "stale", Capacity: 0.5, WarmUp: true, SuccessRate: 0.9},
		},
		Swarm: httpapi.Swarm{
			Total: 4, Idle: 0, Busy: 3, Offline: 1, InFlight: 9, AverageSuccessRate: 0.9266, AverageLoad: 0.8333,
			AverageLatencyMS: 93.5,
			Bottlenecks: []httpapi.Bottleneck{{ID: "agent-3", Why: []string{"full", "overloaded", "slow"}, DrainSeconds: 605,
				Load: 1}, {ID: "agent-2", Why: []string{"full"}, DrainSeconds: 45, Load: 1}},
		},
	},
	capabilities: []httpapi.Capability{
		{Name: "code", Agents: 6, Online: 5, BusFactor: 4, Slots: 16, FreeSlots: 3, Waiting: 0, DemandPerMinute: 42.25},
		{Name: "gpu", Agents: 2, Online: 2, BusFactor: 1, Slots: 4, FreeSlots: 0, Waiting: 7, DemandPerMinute: 3},
		{Name: "sworn-translation", Agents: 0, Waiting: 1, DemandPerMinute: 0.1},
	},
	prospect: httpapi.Prospect{ID: "t-1", Type: "train-embedding", Agent: "gpu-2", Explanation: &nowExplained},
}

func TestLooking(t *testing.T) {
	for _, tc := range []struct {
		golden string
		args   string
		code   int
	}{
		{"agents.txt", "agents", exitOK},
		{"agents.json", "agents -o json", exitOK},
		{"tasks-failed.json", "tasks --state failed -o json", exitOK},
		{"tasks-none.txt", "tasks --agent nobody", exitOK},
		{"tasks-limit.txt", "tasks --limit 2", exitOK},
		{"explain-dispatched.txt", "explain task-4", exitOK},
		{"explain-pending.txt", "explain task-3", exitOK},
		{"explain-failed.txt", "explain task-2", exitOK},
		{"explain-failed.json", "explain task-2 -o json", exitOK},
		{"explain-failed-at-agent.txt", "explain task-1", exitOK},
		{"explain-attempts.txt", "explain task-5", exitOK},
		{"explain-many.txt", "explain task-10", exitOK},
		{"explain-attempts.json", "explain task-5 -o json", exitOK},
		{"explain-again.txt", "explain task-6", exitOK},
		{"explain-batch.txt", "explain task-3b", exitOK},
		{"explain-standby.txt", "explain task-7", exitOK},
		{"explain-overdue.txt", "explain task-8", exitOK},
		{"tasks-pending.txt", "tasks --state pending", exitOK},
		{"explain-unknown.txt", "explain task-9", exitFailed},
		{"whatif.txt", "whatif testdata/task.json", exitOK},
		{"whatif.json", "whatif testdata/task.json -o json", exitOK},
		{"capabilities.txt", "capabilities", exitOK},
		{"capabilities.json", "capabilities -o json", exitOK},
		{"agents-stats.txt", "agents stats", exitOK},
		{"agents-stats.json", "agents stats -o json", exitOK},
		{"health.txt", "health", exitOK},
		{"health.json", "health -o json", exitOK},
		{"health-live.json", "health --live -o json", exitOK},
	} {
		t.Run(tc.golden, func(t *testing.T) {
			r := newRig()
			r.startCoordinator(t, lookedAt)
			if code := r.run(t, strings.Fields(tc.args)...); code != tc.code {
				t.Errorf("exit code %d, want %d; stderr: %s", code, tc.code, r.err.String())
			}
			if tc.code != exitOK {
				// What the coordinator says against it, in one line on standard error.
				if text := r.err.String(); r.out.String() != "" || !strings.Contains(text, "task-9") ||
					strings.Count(text, "\n") != 1 {
					t.Errorf("stdout %q, stderr %q", r.out.String(), text)
				}
				return
			}
			golden(t, tc.golden, r.out.String())
		})
	}
}

// Cells are cut for a terminal alone: what goes to a file or another program is whole.
func TestTasksAreCutForATerminalAlone(t *testing.T) {
	var cut strings.Builder
	if err := printTasks(&cut, httpapi.TaskList{Tasks: lookedAt.tasks, Limit: 50}, noon, false); err != nil {
		t.Fatal(err)
	}
	golden(t, "tasks.txt", cut.String())

	long := httpapi.Task{ID: strings.Repeat("x", 128), State: "pending", AcceptedAt: noon,
		Reason: "0 of 9 agents eligible: 1 lack `gpu`, " +
			"2 cordoned or draining, 3 ejected after failures, 3 with a minute of work or more; nearest: gpu-1 (full)"}
	failed := httpapi.Task{ID: "task-1", State: "failed", AcceptedAt: noon,
		Error: "no dictionary for Klingon on this machine"}
	r := newRig()
	r.startCoordinator(t, fixedSource{tasks: []httpapi.Task{long, failed}})
	if code := r.run(t, "tasks"); code != exitOK {
		t.Fatalf("exit code %d: %s", code, r.err.String())
	}
	for _, whole := range []string{long.ID, failed.Error,
		"  1 lack gpu, 2 cordoned or draining, 3 ejected after failures, 3 with a minute of work or more  "} {
		if !strings.Contains(r.out.String(), whole) {
			t.Errorf("%q is cut in\n%s", whole, r.out.String())
		}
	}
}

// The word and the exit code of `taskbus health` are those of /health: an answer of 503 is one, and
// no answer is none. With --live only the process counts.
func TestHealthWordAndExitCode(t *testing.T) {
	for _, tc := range []struct {
		word       string
		code, live int
	}{
		{httpapi.Healthy, exitOK, exitOK},
		{httpapi.Degraded, exitOK, exitOK},
		{httpapi.Critical, exitFailed, exitOK},
		{"unheard-of", exitFailed, exitOK},
	} {
		r := newRig()
		r.startCoordinator(t, fixedSource{word: tc.word})
		code := r.run(t, "health")
		if code != tc.code || !strings.HasPrefix(r.out.String(), tc.word+"\n") || r.err.String() != "" {
			t.Errorf("%s: exit code %d, want %d; stdout %q, stderr %q", tc.word, code, tc.code, r.out.String(), r.err.String())
		}
		asJSON := newRig()
		asJSON.startCoordinator(t, fixedSource{word: tc.word})
		var answer httpapi.Health
		code = asJSON.run(t, "health", "-o", "json")
		if err := json.Unmarshal([]byte(asJSON.out.String()), &answer); err != nil || code != tc.code ||
			answer.Status != tc.word {
			t.Errorf("%s as JSON: exit code %d, want %d; %s", tc.word, code, tc.code, asJSON.out.String())
		}
		if code := r.run(t, "health", "--live"); code != tc.live {
			t.Errorf("%s: --live ends with %d, want %d", tc.word, code, tc.live)
		}
	}
	for name, answer := range map[string]http.HandlerFunc{
		"a problem of its own": func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = w.Write([]byte(`{"title":"Too busy","detail":"Try again."}`))
		},
		"a proxy without a coordinator behind it": func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusServiceUnavailable)
		},
	} {
		server := httptest.NewServer(answer)
		defer server.Close()
		r := newRig()
		code := r.run(t, "health", "--url", server.URL)
		if code != exitFailed || r.out.String() != "" ||
			!strings.Contains(r.err.String(), "is something else listening there?") {
			t.Errorf("%s: exit code %d, stdout %q, stderr %q", name, code, r.out.String(), r.err.String())
		}
	}
}

// What a coordinator without its broker knows of agents is shown, and is no success.
func TestAgentsWithoutASession(t *testing.T) {
	server := httptest.NewServer(httpapi.New(fixedSource{away: true}, http.NotFoundHandler(),
		httpapi.Options{LoopbackHosts: true}))
	defer server.Close()
	r := newRig()
	if code := r.run(t, "agents", "--url", server.URL); code != exitFailed ||
		!strings.Contains(r.err.String(), "no session with its broker") ||
		!strings.Contains(r.out.String(), "gpu-1") {
		t.Errorf("exit code %d, want %d; %q %q", code, exitFailed, r.out.String(), r.err.String())
	}
}

// A decision of a coordinator that led before, of which a snapshot tells that it was made: the journal has it.
func TestExplainNamesTheJournal(t *testing.T) {
	var out strings.Builder
	e := httpapi.TaskExplanation{ID: "t-1", Type: "build", State: "succeeded", Agent: "a1",
		Attempts: []httpapi.Attempt{{Number: 1, Agent: "a1"}}}
	if err := printTaskExplanation(&out, e, noon); err != nil ||
		!strings.Contains(out.String(), "`taskbus journal show t-1` has it") {
		t.Errorf("%v: %s", err, out.String())
	}
}

// Of a task that may go to several models it is said why one was chosen, and why not the others.
func TestExplainSaysWhyAModelWasChosen(t *testing.T) {
	x := routedAnswer()
	e := httpapi.TaskExplanation{ID: "t-1", Type: "build", State: "dispatched", Agent: "a1",
		Explanation: &httpapi.Explanation{Routes: x.Routes, Routing: x.Routing}}
	var out strings.Builder
	if err := printTaskExplanation(&out, e, noon); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"\nlab                  0.80       1.00   0.80     0.90     0.90\n",
		"\nlab: chosen\n  the best score of the 2 that have quota now\n",
		"\nopenai@main/gpt-4o: passed over\n  it has no quota: the rate of openai@main in requests is used up; back at 2026-03-01T12:00:20Z\n",
		": remaining 1, price 2, latency 1, success 1\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is missing in\n%s", want, out.String())
		}
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

func TestWhatIf(t *testing.T) {
	const task = `{"task_id": "t-1", "task_type": "x", "payload": {}}`
	nobody := httpapi.Prospect{
		ID: "t-1", Type: "x", ReasonCode: "no_eligible_agents", Reason: "0 of 2 agents eligible: 2 lack `gpu`",
		SuggestedAction: "add an agent",
		Explanation: &httpapi.Explanation{Text: "0 of 2 agents eligible: 2 lack `gpu`",
			Refused: map[string]int{"lacks_capability": 2}, Missing: map[string]int{"gpu": 2}},
	}
	lacking := func(offered int) httpapi.Prospect {
		return httpapi.Prospect{ID: "t-1", Type: "x", Agent: "a1", OfferedTo: offered, ReasonCode: "quota_exhausted",
			SuggestedAction: "wait",
			Reason:          "the budget of pool/x in requests is used up; back at 2030-01-02T00:00:00Z",
			Explanation:     &httpapi.Explanation{Quota: &httpapi.QuotaLack{Node: "pool/x"}}}
	}
	for _, tc := range []struct {
		name     string
		source   fixedSource
		args     string
		in       string
		code     int
		out, err string
	}{
		{"from standard input, as it is", fixedSource{prospect: httpapi.Prospect{ID: "t-1", Type: "x", Agent: "a1"}},
			"whatif -", task, exitOK, "t-1 (x): a1 would get it\na1\n", ""},
		{"agents would be asked", fixedSource{prospect: httpapi.Prospect{ID: "t-1", Type: "x", Agent: "a1", OfferedTo: 3}},
			"whatif -", task, exitOK,
			"t-1 (x): bids would be asked for (of 3); without any a1 would get it\na1\n", ""},
		{"it would have to be claimed",
			fixedSource{prospect: httpapi.Prospect{ID: "t-1", Type: "x", ReasonCode: "not_claimed",
				Reason: "0 of 1 agents eligible"}}, "whatif -", task, exitFailed,
			"t-1 (x): it would wait until an agent claims it\nnot_claimed: 0 of 1 agents eligible\n", ""},
		{"it would wait for quota", fixedSource{prospect: lacking(0)}, "whatif -", task, exitFailed,
			"t-1 (x): a1 would get it once its quota allows\nquota_exhausted: the budget of pool/x in requests is used up; back at 2030-01-02T00:00:00Z\nwhat to do: wait\n", ""},
		{"agents would be asked when there is quota", fixedSource{prospect: lacking(3)}, "whatif -", task, exitFailed,
			"t-1 (x): bids would be asked for (of 3) once its quota allows\nquota_exhausted: the budget of pool/x in requests is used up; back at 2030-01-02T00:00:00Z\nwhat to do: wait\n", ""},
		{"no agent would", fixedSource{prospect: nobody}, "whatif -", task, exitFailed,
			"t-1 (x): no agent would get it\nno_eligible_agents: 0 of 2 agents eligible: 2 lack `gpu`\nwhat to do: add an agent\n", ""},
		{"what is no task", fixedSource{prospectErr: &httpapi.BadTask{Text: "/task_id: missing"}}, "whatif -", "{}",
			exitFailed, "", "Not a task: The body must be a task.assign"},
		{"not known", fixedSource{prospectErr: errors.New("the coordinator has stopped")}, "whatif -", task, exitFailed, "",
			"the coordinator has stopped"},
		{"one that stands by", fixedSource{
			prospectErr: errors.New(
				"this coordinator stands by and does not know the fleet; ask the one that leads, whose /readyz answers 200")},
			"whatif -", task, exitFailed, "",
			"this coordinator stands by and does not know the fleet; ask the one that leads, whose /readyz answers 200"},
		{"no such file", fixedSource{}, "whatif testdata/nowhere.json", "", exitFailed, "", "nowhere.json"},
		{"a file beyond all bounds", fixedSource{}, "whatif -", strings.Repeat(" ", maxLine+1), exitFailed, "",
			"longer than"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r, asked := newRig(), ""
			tc.source.asked = &asked
			r.startCoordinator(t, tc.source)
			r.in = strings.NewReader(tc.in)
			if code := r.run(t, strings.Fields(tc.args)...); code != tc.code {
				t.Errorf("exit code %d, want %d", code, tc.code)
			}
			if r.out.String() != tc.out || !strings.Contains(r.err.String(), tc.err) ||
				(r.err.String() == "") != (tc.err == "") {
				t.Errorf("stdout %q, stderr %q; want %q, %q", r.out.String(), r.err.String(), tc.out, tc.err)
			}
			if tc.code == exitOK && asked != tc.in {
				t.Errorf("asked about %q", asked)
			}
		})
	}
}

// What explain says of a task it says once: the state that is also the reason, and the reason of a decision that would
// be the same now.
func TestExplainSaysThingsOnce(t *testing.T) {
	const none = "0 of 1 agents eligible: 1 lack `gpu`"
	refused := httpapi.Explanation{Text: none}
	for _, tc := range []struct {
		of   httpapi.TaskExplanation
		want string
	}{
		{httpapi.TaskExplanation{ID: "t", Type: "x", State: "cancelled", ReasonCode: "cancelled",
			Reason: "cancelled by its producer"},
			"t (x): cancelled\ncancelled by its producer\nno decision was made for it\n"},
		{httpapi.TaskExplanation{ID: "t", Type: "x", State: "failed", ReasonCode: "no_eligible_agents", Reason: none,
			Explanation: &refused,
			Now:         &httpapi.Prospect{ReasonCode: "no_eligible_agents", Reason: none}},
			"t (x): failed, no_eligible_agents\n" + none + "\n\ndecided now: no_eligible_agents, for the same reason\n"},
		{httpapi.TaskExplanation{ID: "t", Type: "x", State: "failed", ReasonCode: "retries_exhausted",
			Reason: none + "; its agent says: \"no\"", Explanation: &refused},
			"t (x): failed, retries_exhausted\n" + none + "; its agent says: \"no\"\n"},
	} {
		var out strings.Builder
		if err := printTaskExplanation(&out, tc.of, noon); err != nil || out.String() != tc.want {
			t.Errorf("%v; got\n%swant\n%s", err, out.String(), tc.want)
		}
	}
}

// Very many candidates do not fill the screen, an empty fleet leaves it readable.
func TestExtremes(t *testing.T) {
	crowd := httpapi.Explanation{Text: "a1 by x", Fleet: 500, Eligible: 400, Candidates: make([]httpapi.Candidate, 200)}
	for i := range crowd.Candidates {
		crowd.Candidates[i].Agent = fmt.Sprint("a", i+1)
	}
	for _, tc := range []struct {
		name   string
		source fixedSource
		args   string
		lines  int
		says   string
	}{
		// 2 + 1 + 1 + 20 + 1
		{"many candidates", fixedSource{prospect: httpapi.Prospect{ID: "t", Type: "x", Agent: "a1", Explanation: &crowd}},
			"whatif testdata/task.json", 25, "… and 380 more eligible\n"},
		{"no agents", fixedSource{}, "agents stats", 3, "0 agents: 0 idle, 0 busy, 0 offline; 0 tasks in flight\n"},
		{"no capabilities", fixedSource{}, "capabilities", 1, "no agent offers anything"},
	} {
		r := newRig()
		r.startCoordinator(t, tc.source)
		code := r.run(t, strings.Fields(tc.args)...)
		if text := r.out.String(); code != exitOK || strings.Count(text, "\n") != tc.lines ||
			!strings.Contains(text, tc.says) {
			t.Errorf("%s: exit code %d, %d lines, want %d with %q:\n%s", tc.name, code, strings.Count(text, "\n"), tc.lines,
				tc.says, text)
		}
	}
}

func TestAgentToken(t *testing.T) {
	const secret = "canary-agents-0123456789-abcdefg"
	want := credential.AgentToken([]byte(secret), "gpu-1")
	for _, tc := range []struct {
		args string
		env  map[string]string
		code int
		out  string
		err  string
	}{
		{"agents token gpu-1", map[string]string{"TASKBUS_AGENT_SECRET": secret}, exitOK, want + "\n", ""},
		{"agents token gpu-1 -o json", map[string]string{"TASKBUS_AGENT_SECRET": secret}, exitOK,
			"{\n  \"agent_id\": \"gpu-1\",\n  \"token\": \"" + want + "\"\n}\n", ""},
		{"agents token gpu-1", nil, exitConfig, "", "set TASKBUS_AGENT_SECRET_FILE"},
		{"agents token gpu-1", map[string]string{"TASKBUS_AGENT_SECRET": "short"}, exitConfig, "",
			"fewer than 32 characters"},
		{"agents token a/b", map[string]string{"TASKBUS_AGENT_SECRET": secret}, exitUsage, "", "not an agent id"},
		{"agents token", nil, exitUsage, "", "accepts 1 arg"},
	} {
		r := newRig()
		r.env = tc.env
		if code := r.run(t, strings.Fields(tc.args)...); code != tc.code || r.out.String() != tc.out ||
			!strings.Contains(r.err.String(), tc.err) {
			t.Errorf("%s: exit code %d, %q, %q; want %d, %q, %q", tc.args, code, r.out.String(), r.err.String(), tc.code, tc.out,
				tc.err)
		}
		if strings.Contains(r.out.String()+r.err.String(), secret[:8]) {
			t.Errorf("%s: the secret was printed", tc.args)
		}
	}
}
