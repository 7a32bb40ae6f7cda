package strategy

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"taskbus/coordinator"
)

// The three agents of ADR-018.
var (
	agentA = coordinator.AgentView{ID: "a", InFlight: 2, Max: 5, Free: 3, Load: 2.0 / 5}
	agentB = coordinator.AgentView{ID: "b", InFlight: 0, Max: 5, Free: 5, Load: 0.0 / 5}
	agentC = coordinator.AgentView{ID: "c", InFlight: 5, Max: 5, Free: 0, Load: 5.0 / 5}
)

// score is what people see of a strategy for one agent.
func score(t testing.TB, name string, c *coordinator.Case, a *coordinator.AgentView, s coordinator.Standing) float64 {
	t.Helper()
	strategy, err := Build(name, Defaults())
	if err != nil {
		t.Fatal(err)
	}
	got, scored := strategy.Score(strategy.Key(c, a, &s))
	if !scored {
		t.Fatalf("%s does not score", name)
	}
	return got
}

// ADR-018: test_assignment_score_calculation.
func TestAssignmentScoreCalculation(t *testing.T) {
	tests := []struct {
		name    string
		agent   coordinator.AgentView
		success float64
		want    float64
	}{
		{"A: 0.95 / (1 + 2/5) = 0.95 / 1.4 = 0.678571…", agentA, 0.95, 0.95 / 1.4},
		{"B: 0.85 / (1 + 0/5) = 0.85", agentB, 0.85, 0.85},
		{"C: 0.90 / (1 + 5/5) = 0.45; never asked for, being full", agentC, 0.90, 0.45},
		{"never succeeds: 0 / 1.4 = 0", agentA, 0, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := score(t, LoadBalancedName, &coordinator.Case{}, &tt.agent,
				coordinator.Standing{Success: tt.success}); math.Abs(got-tt.want) > 1e-12 {
				t.Errorf("%v, want %v", got, tt.want)
			}
		})
	}
	if got := score(t, LoadBalancedName, &coordinator.Case{}, &agentA,
		coordinator.Standing{Success: 0.95}); math.Round(got*100)/100 != 0.68 {
		t.Errorf("%v does not round to ADR-018's 0.68", got)
	}
}

// ADR-018: test_load_factor_impact. Load takes up to a half of the score.
func TestLoadFactorImpact(t *testing.T) {
	for _, tt := range []struct{ load, want float64 }{
		{0, 0.9},     // 0.9 / 1
		{0.25, 0.72}, // 0.9 / 1.25
		{0.5, 0.6},   // 0.9 / 1.5
		{0.8, 0.5},   // 0.9 / 1.8
		{1, 0.45},    // 0.9 / 2
	} {
		if got := score(t, LoadBalancedName, &coordinator.Case{}, &coordinator.AgentView{Load: tt.load},
			coordinator.Standing{Success: 0.9}); math.Abs(got-tt.want) > 1e-12 {
			t.Errorf("load %v: %v, want %v", tt.load, got, tt.want)
		}
	}
}

// ADR-018: test_select_best_agent. B, at 0.85, before A at 0.68; C, which the
// engine would not ask for, would come last.
func TestSelectBestAgent(t *testing.T) {
	s, err := Build(LoadBalancedName, Defaults())
	if err != nil {
		t.Fatal(err)
	}
	key := func(a coordinator.AgentView, success float64) coordinator.Key {
		return s.Key(&coordinator.Case{}, &a, &coordinator.Standing{Success: success})
	}
	a, b, c := key(agentA, 0.95), key(agentB, 0.85), key(agentC, 0.90)
	if !(b.First < a.First && a.First < c.First) {
		t.Errorf("A %v, B %v, C %v: want B first, then A, then C", a, b, c)
	}
}

// Equal scores go to the agent needed least for other work.
func TestLoadBalancedTieGoesToTheLeastFlexible(t *testing.T) {
	s, err := Build(LoadBalancedName, Defaults())
	if err != nil {
		t.Fatal(err)
	}
	standing := &coordinator.Standing{Success: 0.9}
	specialist := s.Key(&coordinator.Case{}, &coordinator.AgentView{Load: 0.5, Flexibility: 0.1}, standing)
	generalist := s.Key(&coordinator.Case{}, &coordinator.AgentView{Load: 0.5, Flexibility: 2.5}, standing)
	if specialist.First != generalist.First || !(specialist.Second < generalist.Second) {
		t.Errorf("specialist %v, generalist %v", specialist, generalist)
	}
}

// drawCase and drawAgent are any task and agent that the engine could show.
func drawCase(t *rapid.T) *coordinator.Case {
	share := rapid.Float64Range(0, 1e6)
	return &coordinator.Case{
		Task:          &coordinator.Task{Priority: coordinator.Priority(rapid.IntRange(0, 3).Draw(t, "priority"))},
		Required:      rapid.IntRange(0, 5).Draw(t, "required"),
		Reference:     rapid.OneOf(rapid.Just(0.0), share).Draw(t, "reference"),
		MaxCost:       rapid.OneOf(rapid.Just(0.0), share).Draw(t, "largest cost"),
		AffinityLabel: "zone", Affinity: rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "affinity"),
		Session: rapid.OneOf(rapid.Just(uint64(0)), rapid.Uint64()).Draw(t, "session"),
	}
}

func drawAgent(t *rapid.T) *coordinator.AgentView {
	slots := rapid.IntRange(1, 100).Draw(t, "slots")
	return &coordinator.AgentView{
		Load: rapid.Float64Range(0, 1).Draw(t, "load"), Max: slots, Free: rapid.IntRange(1, slots).Draw(t, "free"),
		Rank: rapid.IntRange(1, 5).Draw(t, "rank"), Capabilities: rapid.IntRange(0, 20).Draw(t, "capabilities"),
		Flexibility: rapid.Float64Range(0, 100).Draw(t, "flexibility"), Cost: rapid.Float64Range(0, 1e6).Draw(t, "cost"),
		Hash:   rapid.Uint64().Draw(t, "hash"),
		Labels: map[string]string{"zone": rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "zone")},
	}
}

func drawStanding(t *rapid.T) coordinator.Standing {
	return coordinator.Standing{
		Success:  rapid.Float64Range(0, 1).Draw(t, "success"),
		Duration: rapid.OneOf(rapid.Just(0.0), rapid.Float64Range(0, 1e6)).Draw(t, "duration"),
	}
}

// Of any agent: more success never lowers it, more load never raises it, and
// what the engine shows never gives NaN or an infinity.
func TestScoresAreMonotone(t *testing.T) {
	for _, name := range []string{LoadBalancedName, WeightedName, RewardRateName} {
		t.Run(name, func(t *testing.T) {
			s, err := Build(name, Defaults())
			if err != nil {
				t.Fatal(err)
			}
			rapid.Check(t, func(t *rapid.T) {
				c, a, standing := drawCase(t), drawAgent(t), drawStanding(t)
				k := s.Key(c, a, &standing)
				if k.Unscored() || !isNumber(k.First) || !isNumber(k.Second) {
					t.Fatalf("key %v", k)
				}
				better := standing
				better.Success = rapid.Float64Range(standing.Success, 1).Draw(t, "more success")
				if up := s.Key(c, a, &better); up.First > k.First {
					t.Errorf("success from %v to %v: score from %v down to %v", standing.Success, better.Success, -k.First, -up.First)
				}
				busier := *a
				busier.Load = rapid.Float64Range(a.Load, 1).Draw(t, "more load")
				busier.Free = rapid.IntRange(1, a.Free).Draw(t, "fewer free")
				if down := s.Key(c, &busier, &standing); down.First < k.First {
					t.Errorf("load from %v to %v, free from %d to %d: score from %v up to %v", a.Load, busier.Load, a.Free,
						busier.Free, -k.First, -down.First)
				}
			})
		})
	}
}
