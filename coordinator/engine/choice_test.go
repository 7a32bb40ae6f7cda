package engine_test

import (
	"fmt"
	"testing"

	"taskbus/coordinator"
	"taskbus/coordinator/engine"
)

// TestStrategies: which agent each strategy takes. Every agent has 10 slots.
func TestStrategies(t *testing.T) {
	crew := func() *policyBuilder {
		return policyOf(
			worker("a").slots(10).rank(3).can("x"),
			worker("b").slots(10).rank(1).can("x"),
			worker("c").slots(10).rank(5).can("x", "y"),
		).route("x", "x")
	}
	tests := []struct {
		name     string
		strategy string
		load     [3]float64 // reported by a, b, c
		active   [3]int
		task     *taskBuilder
		want     coordinator.AgentID
	}{
		// capability_match: min (load, −capabilities).
		// 0.1 < 0.2 < 0.3
		{"least loaded", "capability_match", [3]float64{0.2, 0.1, 0.3}, [3]int{}, job("t"), "b"},
		{"tie: most capabilities", "capability_match", [3]float64{0.1, 0.1, 0.1}, [3]int{}, job("t"), "c"}, // −2 < −1
		// (0.1, −1) < (0.2, −2)
		{"load before capabilities", "capability_match", [3]float64{0.1, 0.2, 0.2}, [3]int{}, job("t"), "a"},
		// none had work yet
		{"tie of both: smaller id", "capability_match", [3]float64{0.1, 0.1, 0.2}, [3]int{}, job("t"), "a"},
		// max(0.1, 4/10) = 0.4
		{"slots in use are load", "capability_match", [3]float64{0.1, 0.2, 0.3}, [3]int{4, 0, 0}, job("t"), "b"},
		{"only the capable", "capability_match", [3]float64{0.1, 0.1, 0.8}, [3]int{}, job("t").needs("y"), "c"},
		// least_loaded: min load.
		{"least loaded", "least_loaded", [3]float64{0.3, 0.2, 0.1}, [3]int{}, job("t"), "c"},
		{"tie: not by capabilities", "least_loaded", [3]float64{0.2, 0.1, 0.1}, [3]int{}, job("t"), "b"}, // smaller id
		// priority_based: high and critical by (rank, load), others by load.
		// (1, 0.8) < (3, 0.1)
		{"critical to rank 1", "priority_based", [3]float64{0.1, 0.8, 0.1}, [3]int{},
			job("t").prio(coordinator.PriorityCritical), "b"},
		{"high to rank 1", "priority_based", [3]float64{0.1, 0.8, 0.1}, [3]int{}, job("t").prio(coordinator.PriorityHigh),
			"b"},
		// 0.1
		{"normal by load", "priority_based", [3]float64{0.2, 0.8, 0.1}, [3]int{}, job("t").prio(coordinator.PriorityNormal),
			"c"},
		{"low by load", "priority_based", [3]float64{0.2, 0.8, 0.1}, [3]int{}, job("t").prio(coordinator.PriorityLow), "c"},
		// round_robin: the agent with work least recently; none had any: smaller id.
		{"first of the list", "round_robin", [3]float64{0.8, 0.1, 0.1}, [3]int{}, job("t"), "a"},
		// A strategy never overrules eligibility.
		{"best rank is overloaded", "priority_based", [3]float64{0.2, 0.9, 0.1}, [3]int{},
			job("t").prio(coordinator.PriorityCritical), "a"},
		{"first is full", "round_robin", [3]float64{}, [3]int{10, 0, 0}, job("t"), "b"},
	}
	for _, tt := range tests {
		t.Run(tt.strategy+"/"+tt.name, func(t *testing.T) {
			p := crew()
			p.Strategy = tt.strategy
			r := boot(t, p)
			for i, id := range []coordinator.AgentID{"a", "b", "c"} {
				r.hear(beat(id).load(tt.load[i]).active(tt.active[i]))
			}
			want(t, r.assign(tt.task.kind("x")), "dispatch t.1 "+string(tt.want))
			if d := r.latest().Decision; d.Strategy != tt.strategy || d.Candidates[0].Agent != tt.want || d.Fleet != 3 {
				t.Errorf("decision %+v", d)
			}
		})
	}
}

// TestRoundRobinWalks: on a constant fleet it is COORDINATOR's index over the
// list; one that was away does not get a burst when it is back.
func TestRoundRobinWalks(t *testing.T) {
	p := policyOf(worker("a").slots(9), worker("b").slots(9), worker("c").slots(9))
	p.Strategy = "round_robin"
	r := ready(t, p)
	take := func(n int, agent string) {
		t.Helper()
		want(t, r.assign(job(coordinator.TaskID(fmt.Sprint("t", n)))), fmt.Sprintf("dispatch t%d.1 %s", n, agent))
	}
	take(0, "a") // index 0 % 3
	take(1, "b") // 1 % 3
	take(2, "c") // 2 % 3
	take(3, "a") // 3 % 3
	r.hear(beat("b").status(coordinator.StatusOffline))
	take(4, "c")
	take(5, "a")
	r.now = r.now.Add(1)
	r.hear(beat("b"))
	take(6, "b") // served least recently (task 1)
	take(7, "c") // task 4
	take(8, "a") // task 5
	take(9, "b")
}

// TestTiesRotate: equal agents share the work, no strategy has a favourite.
func TestTiesRotate(t *testing.T) {
	for _, name := range []string{"capability_match", "least_loaded", "priority_based", "round_robin"} {
		p := policyOf(worker("a").slots(2), worker("b").slots(2))
		p.Strategy = name
		r := ready(t, p)
		want(t, r.assign(job("t1")), "dispatch t1.1 a") // 0/2 and 0/2, none served: smaller id
		want(t, r.settle(1, coordinator.PublishNotSent), "fail t1 invalid_message")
		want(t, r.assign(job("t2")), "dispatch t2.1 b") // 0/2 and 0/2 again, a was served last
	}
}

// TestStrategyPrecedence: task before task type before default.
func TestStrategyPrecedence(t *testing.T) {
	tests := []struct {
		name, byRoute, byTask, want string
	}{
		{"default", "", "", "least_loaded"},
		{"task type", "round_robin", "", "round_robin"},
		{"task", "", "priority_based", "priority_based"},
		{"task over task type", "round_robin", "priority_based", "priority_based"},
		{"task agrees with its type", "round_robin", "round_robin", "round_robin"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := policyOf(worker("a"))
			p.Strategy = "least_loaded"
			p.Routes["any"] = coordinator.Route{Strategy: tt.byRoute}
			r := ready(t, p)
			want(t, r.assign(job("t").by(tt.byTask)), "dispatch t.1 a")
			if got := r.latest().Decision.Strategy; got != tt.want {
				t.Errorf("strategy %s, want %s", got, tt.want)
			}
		})
	}
	t.Run("disabled", func(t *testing.T) {
		p := policyOf(worker("a"))
		p.Strategies = p.Strategies[:1]
		want(t, ready(t, p).assign(job("t").by("round_robin")), "fail t invalid_message")
	})
}

// TestPreferredAndExcluded: preferred agents come first while one of them is
// eligible; the task's list replaces its type's.
func TestPreferredAndExcluded(t *testing.T) {
	crew := policyOf(worker("a"), worker("b"), worker("c"))
	crew.Routes["any"] = coordinator.Route{Preferred: []coordinator.AgentID{"c", "nobody"}}
	tests := []struct {
		name      string
		task      *taskBuilder
		full      coordinator.AgentID
		want      coordinator.AgentID
		preferred bool
	}{
		{"the type's", job("t"), "", "c", true},
		{"the type's is full", job("t"), "c", "a", false},
		{"the task's instead", job("t").prefers("b"), "", "b", true},
		{"the task's is unknown", job("t").prefers("nobody"), "", "a", false},
		{"preferred, but excluded", job("t").not("c"), "", "a", false},
		{"excluded", job("t").prefers("nobody").not("a"), "", "b", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := ready(t, crew)
			if tt.full != "" {
				r.hear(beat(tt.full).active(1))
			}
			want(t, r.assign(tt.task), "dispatch t.1 "+string(tt.want))
			if got := r.latest().Decision.Preferred; got != tt.preferred {
				t.Errorf("preferred %v", got)
			}
		})
	}
}

// TestLargeFleetIsSampled: beyond exactLimit eligible agents the best of
// sampleSize is taken, from a place that depends on the task.
func TestLargeFleetIsSampled(t *testing.T) {
	const n = 8 * engine.ExactLimit
	var crew []*specBuilder
	for i := range n {
		crew = append(crew, worker(coordinator.AgentID(fmt.Sprintf("a%05d", i))))
	}
	r := ready(t, policyOf(crew...))
	places := make(map[int]bool)
	for i := range 400 {
		r.assign(job(coordinator.TaskID(fmt.Sprint("t", i))))
		d := r.latest()
		if d.Decision.Eligible != n-i || len(d.Decision.Candidates) != coordinator.MaxCandidates {
			t.Fatalf("task %d: %d eligible, want %d", i, d.Decision.Eligible, n-i)
		}
		places[r.FleetAgent(d.Agent).Number()/engine.SampleSize] = true
	}
	// 4096/256 = 16 stretches; 400 tasks that start anywhere miss none of them
	// but with a chance of 16 × (15/16)^400 < 10⁻⁹ (and the hash repeats).
	if len(places) != n/engine.SampleSize {
		t.Errorf("work went to %d of %d stretches of the fleet", len(places), n/engine.SampleSize)
	}
}

// TestExplain says how a task would be decided and decides nothing.
func TestExplain(t *testing.T) {
	r := ready(t, policyOf(worker("a").can("go"), worker("b").can("go"), worker("c")).route("go", "go"))
	r.hear(beat("a").active(1))
	d, _, _ := r.Explain(r.now, &job("t").kind("go").Task)
	if d.Agent != "b" || d.Eligible != 1 || d.Refused[coordinator.Full] != 1 ||
		d.Refused[coordinator.LacksCapability] != 1 {
		t.Errorf("decision %+v", d)
	}
	if d.Missing[0] != (coordinator.MissingCapability{Capability: "go", Agents: 1}) || d.Nearest.Agent != "a" {
		t.Errorf("missing %v, nearest %v", d.Missing, d.Nearest)
	}
	if d, reason, _ := r.Explain(r.now, &job("t").kind("nonsense").Task); reason != coordinator.ReasonUnknownTaskType ||
		d.Agent != "" || d.Fleet != 3 {
		t.Errorf("unknown type: %+v", d)
	}
	r.Explain(r.now, &job("t").needs("go", "rust").not("a").Task)
	if s := r.Snapshot(r.now); s.Dispatching != 0 || s.Remembered != 0 || r.PendingClasses() != 0 {
		t.Errorf("explaining left traces: %+v", s)
	}
}
