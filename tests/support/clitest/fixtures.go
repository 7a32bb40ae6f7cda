package clitest

import (
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/httpapi"
	"taskbus/coordinator/view"
)

// Dead is an address at which nothing listens.
func Dead(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return "http://" + l.Addr().String()
}

// CoordinatorThat is a coordinator in that state, which remembers one task that is called by it.
func CoordinatorThat(t *testing.T, is string) string {
	t.Helper()
	source := FixedSource{Is: is, Known: []view.Task{{ID: "of-" + is, State: "dispatched"}}}
	server := httptest.NewServer(httpapi.New(source, http.NotFoundHandler(), httpapi.Options{LoopbackHosts: true}))
	t.Cleanup(server.Close)
	return server.URL
}

// traced is what a task carries that has this trace id.
func traced(id string) coordinator.Carried { return coordinator.Carried{CorrelationID: id} }

// recent is what the coordinator of these tests remembers.
var recent = []view.Task{
	{
		ID: "task-4", Type: "train-embedding", Priority: 2, Carried: traced("trace-4"), State: "dispatched", Agent: "gpu-1",
		Strategy: "capability_match", Attempt: 2, AcceptedAt: Noon.Add(-4 * time.Second), DurationMS: 12.3,
		Explanation: &view.Explanation{
			Text: "gpu-1 by capability_match, best of 2 eligible among 6 agents", Fleet: 6, Eligible: 2,
			Candidates: []view.Candidate{
				{Agent: "gpu-1", Free: 3, Load: 0.25,
					Terms: []view.Term{{Name: "load", Value: 0.25}, {Name: "-capabilities", Value: -5}}},
				{Agent: "gpu-2", Free: 1, Load: 0.5,
					Terms: []view.Term{{Name: "load", Value: 0.5}, {Name: "-capabilities", Value: -4}}},
			},
			Refused: map[string]int{"lacks_capability": 1, "full": 1, "cordoned": 2}, Missing: map[string]int{"gpu": 1},
		},
	},
	{
		ID: "task-3", Type: "translate", Priority: 1, Carried: traced("trace-3"), State: "pending",
		AcceptedAt: Noon.Add(-90 * time.Second), DurationMS: 90_000,
		Reason: "0 of 4 agents eligible: 3 lack `translate`, 1 full; nearest: generalist-1 (full)",
		Explanation: &view.Explanation{
			Text: "0 of 4 agents eligible: 3 lack `translate`, 1 full; nearest: generalist-1 (full)", Fleet: 4},
	},
	{
		ID: "task-3b", Type: "embed", Priority: 1, Carried: traced("trace-3b"), State: "pending",
		AcceptedAt: Noon.Add(-2 * time.Second), DurationMS: 2000,
		Strategy: "reward_rate", Reason: "waits for its batch: 3 of at most 4, at most 18 s more",
		Explanation: &view.Explanation{
			Text: "waits for its batch: 3 of at most 4, at most 18 s more", Strategy: "reward_rate", Fleet: 3, Eligible: 1,
			Candidates: []view.Candidate{{Agent: "g2", Free: 2, Score: scored(0.9), Terms: terms("success", 0.9)}},
		},
	},
	{
		ID: "task-2", Type: "origami", Priority: 0, Carried: traced("trace-2"), State: "failed",
		AcceptedAt: Noon.Add(-2 * time.Hour),
		DurationMS: 10_500, ReasonCode: "unknown_task_type", Reason: "task type \"origami\" is not in task_routing",
	},
	{
		ID: "task-1", Type: "translate", Priority: 3, Carried: traced("trace-1"), State: "failed", Agent: "gpu-1", Attempt: 1,
		AcceptedAt: Noon.Add(-72 * time.Hour),
		DurationMS: 0.25, WorkMS: 61_000, Error: "no dictionary for Klingon on this machine", Strategy: "least_loaded",
		Explanation: &view.Explanation{Text: "gpu-1 by least_loaded, best of 1 eligible among 4 agents", Fleet: 4,
			Eligible: 1},
	},
	{ID: "task-0", Type: "translate", Priority: 1, Carried: traced("trace-0"), State: "succeeded", Agent: "gpu-1",
		AcceptedAt: Noon.Add(-96 * time.Hour), DurationMS: 3, WorkMS: 1500, Strategy: "least_loaded"},
}

// scored is a score, which in an answer may be absent.
func scored(n view.Number) *view.Number { return &n }

// terms makes named values: name, value, name, value, …
func terms(pairs ...any) (list []view.Term) {
	for i := 0; i < len(pairs); i += 2 {
		list = append(list, view.Term{Name: pairs[i].(string), Value: view.Number(pairs[i+1].(float64))})
	}
	return list
}

// nowExplained is a decision that is asked for: all agents are in it.
var nowExplained = view.Explanation{
	Text: "gpu-2 by reward_rate, best of 2 eligible among 9 agents", Strategy: "reward_rate", Fleet: 9, Eligible: 2,
	Explored: true,
	Candidates: []view.Candidate{
		{Agent: "gpu-2", Free: 2, Load: 0, Score: scored(0.95), Terms: terms("success", 0.95, "duration", 1.0, "load", 0.0)},
		{Agent: "gpu-7", Free: 1, Load: 0.4, Score: scored(0.6785714), Terms: terms("success", 0.95, "duration", math.NaN(),
			"load", 0.4)},
	},
	Refused: map[string]int{"full": 1, "cordoned": 1, "lacks_capability": 5},
	Refusals: []view.Refusal{
		{Agent: "gpu-1", Why: "full", FreeIn: 41.5}, {Agent: "gpu-3", Why: "cordoned"},
		{Agent: "a", Why: "lacks_capability"}, {Agent: "b", Why: "lacks_capability"}, {Agent: "c", Why: "lacks_capability"},
		{Agent: "d", Why: "lacks_capability"}, {Agent: "e", Why: "lacks_capability"},
	},
	Missing: map[string]int{"gpu": 5},
}

// LookedAt is what the coordinator of these tests knows.
var LookedAt = FixedSource{
	Known: recent,
	Explained: map[string]view.TaskExplanation{
		"task-5": {
			ID: "task-5", Type: "train-embedding", Carried: traced("trace-5"), State: "dispatched", Agent: "gpu-1", Attempt: 3,
			DecidedAt: Noon.Add(-2 * time.Second),
			Explanation: &view.Explanation{
				Text: "gpu-1 by reward_rate, best of 2 eligible among 9 agents", Strategy: "reward_rate", Fleet: 9, Eligible: 2,
				Candidates: []view.Candidate{
					{Agent: "gpu-1", Free: 1, Score: scored(0.9), Terms: terms("success", 0.9, "duration", 1.0, "load", 0.0)},
					{Agent: "gpu-2", Free: 1, Score: scored(0.85), Terms: terms("success", 0.95, "duration", 1.0, "load", 0.1)},
				},
				Refused: map[string]int{"already_tried": 2, "lacks_capability": 5},
				Refusals: []view.Refusal{
					{Agent: "gpu-7", Why: "already_tried"}, {Agent: "gpu-9", Why: "already_tried"},
					{Agent: "a", Why: "lacks_capability"}, {Agent: "b", Why: "lacks_capability"},
					{Agent: "c", Why: "lacks_capability"}, {Agent: "d", Why: "lacks_capability"},
					{Agent: "e", Why: "lacks_capability"},
				},
			},
			Attempts: []view.Attempt{
				{Agent: "gpu-9", Outcome: "returned"},
				{Number: 2, Agent: "gpu-7", DispatchID: "task-5.2", At: Noon.Add(-time.Minute), Outcome: "rejected",
					Detail: "out of memory"},
				{Number: 3, Agent: "gpu-1", DispatchID: "task-5.3", At: Noon.Add(-2 * time.Second)},
			},
			Now: &view.Prospect{ID: "task-5", Type: "train-embedding", Agent: "gpu-2", Explanation: &nowExplained},
		},
		"task-10": { // of a large fleet
			ID: "task-10", Type: "train-embedding", Carried: traced("trace-10"), State: "dispatched", Agent: "gpu-1", Attempt: 1,
			Explanation: &view.Explanation{
				Text: "gpu-1 by least_loaded, best of 12 eligible among 400 agents", Strategy: "least_loaded", Fleet: 400,
				Eligible: 12, WithoutQuota: 1,
				Candidates: []view.Candidate{{Agent: "gpu-1", Free: 3, Terms: terms("load", 0.1)},
					{Agent: "gpu-2", Free: 2, Terms: terms("load", 0.2)}, {Agent: "gpu-3", Free: 2, Terms: terms("load", 0.2)}},
				Refused: map[string]int{"full": 2, "stale": 1, "lacks_capability": 383, "excluded": 1},
				Refusals: []view.Refusal{{Agent: "gpu-4", Why: "full"}, {Agent: "gpu-9", Why: "full"},
					{Agent: "gpu-5", Why: "stale"}},
			},
		},
		"task-6": {
			ID: "task-6", Type: "train-embedding", Carried: traced("trace-6"), State: "pending", Agent: "gpu-7", Attempt: 1,
			Explanation: &view.Explanation{
				Text: "0 of 2 agents eligible: 1 had it before, 1 full; nearest: gpu-1 (full, free in about 42 s)", Fleet: 2,
				Refused:  map[string]int{"full": 1, "already_tried": 1},
				Refusals: []view.Refusal{{Agent: "gpu-1", Why: "full", FreeIn: 41.5}, {Agent: "gpu-7", Why: "already_tried"}},
				Nearest:  "gpu-1", NearestWhy: "full", NearestFreeIn: 41.5,
			},
			Attempts: []view.Attempt{{Number: 1, Agent: "gpu-7", At: Noon.Add(-time.Minute), Outcome: "expired"}},
		},
		"task-7": {
			ID: "task-7", Type: "embed", Carried: traced("trace-7"), State: "succeeded", Agent: "g1", Attempt: 1,
			Explanation: &view.Explanation{Text: "g1 by least_loaded, best of 1 eligible among 2 agents", Fleet: 2,
				Eligible: 1},
			NowUnknown: "this coordinator stands by and does not know the fleet; ask the one that leads, whose /readyz " +
				"answers 200",
		},
		"task-8": {
			ID: "task-8", Type: "embed", Carried: traced("trace-8"), State: "pending",
			Explanation: &view.Explanation{
				Text: "0 of 1 agents eligible: 1 full; nearest: g1 (full, free in about 1 s)", Fleet: 1,
				Refused:  map[string]int{"full": 1},
				Refusals: []view.Refusal{{Agent: "g1", Why: "full", FreeIn: 1e-9}}, // its task is overdue
			},
		},
	},
	stats: view.AgentStats{
		ActiveAgentCount: 3, TotalCapacity: 28, GlobalQueueDepth: 100, QueueDepth: view.QueueDepth{Agents: 49, Waiting: 3,
			Unread: 48},
		Agents: []view.AgentInfo{
			{ID: "agent-1", State: "online", Capacity: 16, CapacityReported: true, Pending: 28, Health: "HEALTHY",
				DrainSeconds: 1.75, SuccessRate: 0.98, DurationMS: 62, Load: 0.5, LoadFactor: 0.28, TargetLoadFactor: 16. / 28},
			{ID: "agent-2", State: "online", Capacity: 8, Pending: 14, Health: "BUSY", DrainSeconds: 45, SuccessRate: 0.9,
				DurationMS: 125, Load: 1, LoadFactor: 0.14, TargetLoadFactor: 8. / 28, EjectedFrom: []string{"cuda", "gpu"}},
			{ID: "agent-3", State: "online", Capacity: 4, WarmUp: true, Pending: 7, Health: "OVERLOADED", DrainSeconds: 605,
				SuccessRate: 0.9, Load: 1, LoadFactor: 0.07, TargetLoadFactor: 4. / 28},
			{ID: "agent-4", State: "stale", Capacity: 0.5, WarmUp: true, SuccessRate: 0.9},
		},
		Swarm: view.Swarm{
			Total: 4, Idle: 0, Busy: 3, Offline: 1, InFlight: 9, AverageSuccessRate: 0.9266, AverageLoad: 0.8333,
			AverageLatencyMS: 93.5,
			Bottlenecks: []view.Bottleneck{{ID: "agent-3", Why: []string{"full", "overloaded", "slow"}, DrainSeconds: 605,
				Load: 1}, {ID: "agent-2", Why: []string{"full"}, DrainSeconds: 45, Load: 1}},
		},
	},
	Can: []view.Capability{
		{Name: "code", Agents: 6, Online: 5, BusFactor: 4, Slots: 16, FreeSlots: 3, Waiting: 0, DemandPerMinute: 42.25},
		{Name: "gpu", Agents: 2, Online: 2, BusFactor: 1, Slots: 4, FreeSlots: 0, Waiting: 7, DemandPerMinute: 3},
		{Name: "sworn-translation", Agents: 0, Waiting: 1, DemandPerMinute: 0.1},
	},
	Prospect: view.Prospect{ID: "t-1", Type: "train-embedding", Agent: "gpu-2", Explanation: &nowExplained},
}

// RoutedAnswer is about a call that may go to OpenAI, by either of two keys, or to a lab of one's own.
func RoutedAnswer() view.QuotaAnswer {
	weights := coordinator.RouteTerms{Remaining: 1, Price: 2, Latency: 1, Success: 1}
	april := Noon.AddDate(0, 0, 31)
	route := func(provider, model string, score float64, terms coordinator.RouteTerms) coordinator.RouteScore {
		return coordinator.RouteScore{Service: coordinator.Service{Provider: provider, Model: model}, Pool: provider,
			Score: score, Terms: terms}
	}
	// (0 + 2·0.5 + 1 + 1)/5
	main := route("openai@main", "gpt-4o", 0.6, coordinator.RouteTerms{Price: 0.5, Latency: 1, Success: 1})
	main.Lacks = &coordinator.QuotaLack{
		Text:    "the rate of openai@main in requests is used up; back at 2026-03-01T12:00:20Z",
		RetryAt: Noon.Add(20 * time.Second)}
	// (0.9 + 1 + 1 + 1)/5
	spare := route("openai@spare", "gpt-4o", 0.78, coordinator.RouteTerms{Remaining: 0.9, Price: 0.5, Latency: 1,
		Success: 1})
	// (0.8 + 2 + 0.8 + 0.9)/5
	lab := route("lab", "", 0.9, coordinator.RouteTerms{Remaining: 0.8, Price: 1, Latency: 0.8, Success: 0.9})
	lab.Chosen = true
	return view.QuotaAnswer{
		Admitted: true, Reason: "there is quota", Group: "alpha", GroupKnown: true, Provider: "lab",
		Amounts: map[string]float64{"requests": 1, "input_tokens": 1000, "output_tokens": 500, "total_tokens": 1500,
			"concurrency": 1, "cost_usd": 0},
		Nodes: []string{"pool/alpha", "pool", "lab"},
		Limits: []view.QuotaLimit{{Node: "pool/alpha", Dimension: "total_tokens", Limit: "budget", Asked: 1500,
			Left: 235_000, Renews: april}, {Node: "lab", Dimension: "requests", Limit: "rate", Asked: 1, Left: 8}},
		Routes:  view.QuotaRoutesOf([]coordinator.RouteScore{main, spare, lab}, weights),
		Routing: new(view.CallRouteTerms(weights)),
	}
}

// Burning is a coordinator in the middle of a burst: 44,753 tasks in task.assign, 3,992 here, 12 in a lane.
var Burning = view.Status{
	Version: "1.4.0", Instance: "taskbus@host-1#4711", Now: Noon,
	Readiness: view.Readiness{Ready: true, State: "active"},
	Leader: &view.Leader{Instance: "taskbus@host-1#4711", Address: "http://host-1:8551", Version: "1.4.0", Epoch: 3,
		Since: Noon.Add(-3 * time.Hour)},
	Broker: view.Broker{URL: "amqp://broker:5672/", Connected: true, Since: Noon.Add(-3 * time.Hour)},
	Agents: []view.Agent{
		{ID: "a1", State: "online", InFlight: 4, Slots: 4, WhyNot: "full"},
		{ID: "a2", State: "online", InFlight: 4, Slots: 4, WhyNot: "full",
			Recent: view.AgentResults{Succeeded: 1, Failed: 5}},
		{ID: "a3", State: "online", InFlight: 1, Slots: 4, Eligible: true,
			Ejected: []view.Ejection{{Capability: "translate"}}},
		{ID: "a4", State: "stale", Slots: 4, WhyNot: "stale"},
	},
	Pending: view.Pending{
		Total: 3990, Moving: 2, Leased: 9, OldestSeconds: 31.5, DrainSeconds: 48_757 / 48.4,
		ByReason: map[string]int{"all_agents_at_capacity": 3980, "quota_exhausted": 10},
		Waits: []view.Wait{{Required: []string{"translate"}, Tasks: 3980, OldestSeconds: 31.5,
			ReasonCode: "all_agents_at_capacity",
			Reason:     "0 of 4 agents eligible: 1 silent for too long, 1 ejected after failures, 2 full; nearest: a1 (full)"}},
	},
	Queues: []view.Queue{{Name: "task.assign", Ready: 44_753}, {Name: "task.assign.high"},
		{Name: "task.dead", Ready: 7}},
	Lanes: []view.Lane{{Name: "task.lane.research", Ready: 12}},
	Rates: view.Rates{Received: 62.1, Assigned: 48.4, Succeeded: 9.96, Failed: 0.25},
	Health: view.Health{Status: view.Degraded, Checks: map[string]view.Check{
		"broker": {Status: view.Healthy, Detail: "connected, active"},
		"assignments": {
			Status: view.Degraded, Detail: "last minute: 2904 assigned, 0 failed; oldest waits 31.5s",
			Advice: "3980 tasks wait for `translate`, and all 8 slots of the agents that could are in use (besides, 1 " +
				"ejected after failures): add agents or slots (max_concurrent_tasks)",
		},
	}},
}
