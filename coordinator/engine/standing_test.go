package engine_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/engine"
	"taskbus/coordinator/strategy"
)

// rate states the agent's success rate, as agents.yaml may.
func (b *specBuilder) rate(p float64) *specBuilder {
	b.SuccessRate, b.SuccessStated = p, true
	return b
}

// by makes this the policy's strategy.
func (b *policyBuilder) by(name string) *policyBuilder { b.Strategy = name; return b }

// took says how long the work took.
func (b *resultBuilder) took(d time.Duration) *resultBuilder { b.Duration = d; return b }

// numbered is the i-th task of a test.
func numbered(i int) coordinator.TaskID { return coordinator.TaskID(fmt.Sprint("t", i)) }

// TestAssignmentSequence is ADR-018's verification of that name: its three agents
// get fifteen tasks, none of which ends. Score = rate / (1 + n/5).
func TestAssignmentSequence(t *testing.T) {
	r := ready(t, policyOf(worker("A").slots(5).rate(0.95), worker("B").slots(5).rate(0.85),
		worker("C").slots(5).rate(0.90)).
		by(strategy.LoadBalancedName))
	expected := []struct {
		agent coordinator.AgentID
		score float64
	}{
		{"A", 0.95}, {"C", 0.90}, {"B", 0.85}, // idle
		{"A", 0.95 / 1.2}, {"C", 0.90 / 1.2}, {"B", 0.85 / 1.2}, // 0.792, 0.75, 0.708
		{"A", 0.95 / 1.4}, {"C", 0.90 / 1.4}, {"B", 0.85 / 1.4}, // ADR-018's 0.68 is the first
		{"A", 0.95 / 1.6}, {"C", 0.90 / 1.6}, {"B", 0.85 / 1.6},
		{"A", 0.95 / 1.8}, {"C", 0.90 / 1.8}, {"B", 0.85 / 1.8},
	}
	for i, e := range expected {
		d := r.give(job(numbered(i)))
		best := d.Decision.Candidates[0]
		if d.Agent != e.agent || math.Abs(-best.Key.First-e.score) > 1e-12 {
			t.Fatalf("task %d: %s with score %g, want %s with %g", i, d.Agent, -best.Key.First, e.agent, e.score)
		}
	}
	// All fifteen slots are taken. ADR-018's code would go on with the best score; its
	// agent C with 5 of 5 (0.45) is never asked here.
	want(t, r.assign(job("one too many")))
}

// TestRoles: ADR-018 filters by role, which is a capability like any other, and looks
// at Ready and Busy agents alike, which is a setting.
func TestRoles(t *testing.T) {
	r := ready(t, policyOf(worker("dev").can("role:developer").slots(5).rate(0.99), worker("rev").can("role:reviewer").
		slots(5).rate(0.5)).
		route("review", "role:reviewer").by(strategy.LoadBalancedName).
		set(func(s *coordinator.Settings) { s.BusyIsEligible = true }))
	r.hear(beat("rev").status(coordinator.StatusBusy).active(4).available(1))
	if d := r.give(job("t1").kind("review")); d.Agent != "rev" {
		t.Errorf("%s got it, want the reviewer", d.Agent)
	}
	want(t, r.assign(job("t2").kind("review"))) // the reviewer is full now: no other is asked
}

// TestFairDistribution is ADR-018's: equal agents get equal shares, under every
// strategy but the market, which asks them (see TestMarketHasNoFavourite). Half of the slots are in use: a task
// ends when ten others have come.
// With n agents and k·n tasks χ² = Σ(xᵢ−k)²/k; beyond 27.9 is one case in a
// thousand with 9 degrees of freedom.
//
// Where success is learnt, equals differ by what they happened to show, and one that has
// shown more is asked first as long as its load allows: then none may have more
// than twice its share.
func TestFairDistribution(t *testing.T) {
	for _, s := range strategy.All() {
		if s.Market != nil {
			continue
		}
		for _, learnt := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, learnt: %v", s.Name, learnt), func(t *testing.T) {
				fairDistribution(t, s.Name, learnt)
			})
		}
	}
}

func fairDistribution(t *testing.T, name string, learnt bool) {
	const agents, each = 10, 50
	var crew []*specBuilder
	for i := range agents {
		w := worker(coordinator.AgentID(fmt.Sprint("a", i))).slots(2)
		if !learnt {
			w.rate(0.9)
		}
		crew = append(crew, w)
	}
	r := ready(t, policyOf(crew...).by(name))
	got := make(map[coordinator.AgentID]int)
	for i := range agents * each {
		d := r.give(job(numbered(i)).prio(coordinator.PriorityHigh)) // urgent tasks explore nothing
		got[d.Agent]++
		r.now = r.now.Add(10 * time.Millisecond)
		if i >= agents {
			d := r.dispatches[i-agents]
			r.tell(says(d.Agent, d.Task.ID).took(time.Second))
		}
	}
	chi, most := 0.0, 0
	for _, n := range got {
		chi += float64((n-each)*(n-each)) / each
		most = max(most, n)
	}
	if len(got) != agents || !learnt && chi > 27.9 || most > 2*each {
		t.Errorf("χ² = %g over %v", chi, got)
	}
}

// TestLearnedChoice: an agent that fails loses rank with tasks of that type, as far
// as the posterior says and no further.
func TestLearnedChoice(t *testing.T) {
	p := policyOf(worker("a").slots(100), worker("b").slots(100)).by(strategy.LoadBalancedName).route("other")
	r := ready(t, p.set(func(s *coordinator.Settings) {
		s.Learning = coordinator.Learning{Prior: 0.8, PriorWeight: 10}
		s.Breaker.Off = true
	}))
	d := r.give(job("t1"))
	if d.Agent != "a" {
		t.Fatalf("%s got the first, want a: all is equal", d.Agent)
	}
	r.tell(says("a", "t1").but(coordinator.OutcomeFailed))
	// Fleet: (10·0.8+0)/(10+1) = 8/11; type: (10·8/11+0)/11 = 80/121 = 0.661. b's is that.
	// a over all types: (10+0)/(10+0.8) = 0.926 of what the fleet does; before it failed
	// the type stood at 0.8. Its prior is 0.661·0.926 = 0.612, and with its own outcome
	// (10·0.612+0)/11 = 0.557.
	d = r.give(job("t2"))
	if d.Agent != "b" {
		t.Fatalf("%s got the second, want b", d.Agent)
	}
	success := map[coordinator.AgentID]float64{}
	for _, c := range d.Decision.Candidates {
		success[c.Agent] = c.Terms[0]
	}
	if math.Abs(success["b"]-80.0/121) > 1e-3 || math.Abs(success["a"]-0.5565) > 1e-3 {
		t.Errorf("success %v, want a 0.5565, b %.4f", success, 80.0/121)
	}
	// Of another type only what a has shown in general counts: 8/11·0.926 = 0.673.
	dec, _, _ := r.Explain(r.now, &job("t3").kind("other").Task)
	for _, c := range dec.Candidates {
		if want := map[coordinator.AgentID]float64{"a": 0.6734, "b": 0.7273}[c.Agent]; math.Abs(c.Terms[0]-want) > 1e-3 {
			t.Errorf("other type: %s %.4f, want %.4f", c.Agent, c.Terms[0], want)
		}
	}
}

// TestWhatTeaches: which ends of a dispatch change what is known of its agent.
func TestWhatTeaches(t *testing.T) {
	tests := []struct {
		name  string
		end   func(r *rig, d coordinator.Dispatch)
		moves int // −1: success falls, +1: rises, 0: stays
	}{
		{"succeeded", func(r *rig, d coordinator.Dispatch) { r.tell(says("a", "t")) }, +1},
		{"failed", func(r *rig, d coordinator.Dispatch) { r.tell(says("a", "t").but(coordinator.OutcomeFailed)) }, -1},
		{"gave up", func(r *rig, d coordinator.Dispatch) { r.tell(says("a", "t").gaveUp()) }, -1},
		{"overdue", func(r *rig, d coordinator.Dispatch) {
			for range 11 { // it is there all the time, and says that it runs the task
				r.hear(beat("a").running("t"))
				r.pass(interval)
			}
		}, -1},
		{"returned too often", func(r *rig, d coordinator.Dispatch) { r.returns(d, coordinator.ReturnDeliveryLimit, false) },
			-1},
		{"cancelled", func(r *rig, d coordinator.Dispatch) { r.tell(says("a", "t").but(coordinator.OutcomeCancelled)) }, 0},
		{"refused", func(r *rig, d coordinator.Dispatch) { r.tell(says("a", "t").but(coordinator.OutcomeRejected)) }, 0},
		{"refused without a word", func(r *rig, d coordinator.Dispatch) { r.giveBack(d) }, 0},
		{"not taken in time", func(r *rig, d coordinator.Dispatch) { r.returns(d, coordinator.ReturnExpired, false) }, 0},
		{"taken back", func(r *rig, d coordinator.Dispatch) { r.returns(d, coordinator.ReturnTakenBack, false) }, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := ready(t, policyOf(worker("a").slots(4)))
			before := r.seen("a").Success
			tt.end(r, r.give(job("t")))
			r.hear(beat("a"))
			got := r.seen("a").Success
			if move := cmpFloat(got, before); move != tt.moves {
				t.Errorf("success went from %g to %g, want it to move by %+d", before, got, tt.moves)
			}
		})
	}
}

// cmpFloat tells whether x is below, at, or above y.
func cmpFloat(x, y float64) int {
	switch {
	case math.Abs(x-y) < 1e-9:
		return 0
	case x < y:
		return -1
	}
	return 1
}

// TestExploration: about a share ε of the tasks that may be tried on an agent is
// decided by draws, urgent ones and second attempts never are.
func TestExploration(t *testing.T) {
	r := ready(t, policyOf(worker("a").slots(2000), worker("b").slots(2000)).by(strategy.RewardRateName).
		set(func(s *coordinator.Settings) { s.MaxQueueSize = 10_000 }))
	for _, id := range []coordinator.AgentID{"a", "b"} {
		r.hear(beat(id).available(2000))
	}
	const n = 2000
	explored := 0
	for i := range n {
		if r.give(job(numbered(i))).Decision.Explored {
			explored++
		}
	}
	// Binomial(2000, 0.05): 100 ± 9.7; four sigma.
	if explored < 61 || explored > 139 {
		t.Errorf("%d of %d explored, want about %d", explored, n, n/20)
	}
	for i := range 200 {
		if d := r.give(job(numbered(n + i)).prio(coordinator.PriorityHigh)); d.Decision.Explored {
			t.Fatal("an urgent task was an occasion to try somebody")
		}
	}
}

// TestMeasuredCost: what tasks have cost counts where agents.yaml states nothing. Per
// task 0.30 and 0.10 dollars: 1 − 0.3/0.3 = 0 and 1 − 0.1/0.3 = 2/3.
func TestMeasuredCost(t *testing.T) {
	s, err := strategy.Build(strategy.WeightedName, strategy.Options{Exploration: -1, Weights: map[string]float64{
		"cost": 1, "fit": 0, "free": 0, "success": 0, "speed": 0, "affinity": 0, "session": 0, "rank": 0,
	}})
	if err != nil {
		t.Fatal(err)
	}
	p := policyOf(worker("a").slots(9), worker("b").slots(9)).by(strategy.WeightedName)
	p.Strategies = []coordinator.Strategy{s}
	r := ready(t, p)
	for id, dollars := range map[coordinator.AgentID]float64{"a": 0.3, "b": 0.1} {
		d := r.give(job(coordinator.TaskID("costs-" + id)).prefers(id))
		done := says(id, d.Task.ID)
		done.Usage = &coordinator.Usage{CostUSD: dollars}
		r.tell(done)
	}
	d := r.give(job("t")).Decision
	if len(d.Candidates) != 2 || d.Agent != "b" || math.Abs(-d.Candidates[0].Key.First-2.0/3) > 1e-9 ||
		d.Candidates[1].Key.First != 0 {
		t.Errorf("%s: %+v, want b with 2/3 before a with 0", d.Agent, d.Candidates)
	}
	engine.CheckIndexes(t, r.Engine)
}

// TestFreeIn: of full agents that is nearest whose task will end first, as tasks of
// its type do with it; one that is overdue is expected to take a tenth more.
func TestFreeIn(t *testing.T) {
	r := ready(t, policyOf(worker("a"), worker("b")))
	for _, id := range []coordinator.AgentID{"a", "b"} { // each takes 40 s
		d := r.give(job(coordinator.TaskID("first-" + id)))
		r.pass(40 * time.Second)
		r.tell(says(d.Agent, d.Task.ID))
		r.hear(beat("a").running())
		r.hear(beat("b").running())
	}
	r.give(job("t1")) // a, from now on
	r.pass(10 * time.Second)
	r.give(job("t2")) // b, ten seconds later
	r.pass(10 * time.Second)
	r.assign(job("t3"))
	d, reason, text := r.Explain(r.now, &job("t4").Task)
	if reason != coordinator.ReasonAllAgentsAtCapacity || d.Nearest.Agent != "a" ||
		d.Nearest.FreeIn.Round(time.Second) != 20*time.Second {
		t.Errorf("%v: nearest %+v, want a in 40 − 20 = 20 s", reason, d.Nearest)
	}
	if want := "0 of 2 agents eligible: 2 full; nearest: a (full, free in about 20 s)"; text != want {
		t.Errorf("text %q, want %q", text, want)
	}
	if len(d.Refusals) != 2 || d.Refusals[1].Agent != "b" || d.Refusals[1].FreeIn.Round(time.Second) != 30*time.Second {
		t.Errorf("refusals %+v, want b second, in 40 − 10 = 30 s", d.Refusals)
	}
	r.pass(25 * time.Second) // a is 5 s overdue: 40/10 = 4 s; b has 5 s left
	if d, _, _ := r.Explain(r.now, &job("t4").Task); d.Nearest.Agent != "a" ||
		d.Nearest.FreeIn.Round(time.Second) != 4*time.Second {
		t.Errorf("nearest %+v, want a in 4 s", d.Nearest)
	}
}
