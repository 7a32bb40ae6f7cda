package strategy

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"taskbus/coordinator"
)

func TestRewardRate(t *testing.T) {
	tests := []struct {
		name      string
		reference float64
		agent     coordinator.AgentView
		standing  coordinator.Standing
		want      coordinator.Key
	}{
		// ADR-018's agents, of whose speed nothing is known: its scores to three digits.
		{"A: 0.95 / 1.4 = 0.6786", 0, agentA, coordinator.Standing{Success: 0.95}, coordinator.Key{First: -0.679, Second: 0}},
		{"B: 0.85 / 1", 0, agentB, coordinator.Standing{Success: 0.85}, coordinator.Key{First: -0.85, Second: 0}},
		{"C: 0.90 / 2", 0, agentC, coordinator.Standing{Success: 0.9}, coordinator.Key{First: -0.45, Second: 0}},
		{"as fast as the mean: 0.85 / (10/10 · 1)", 10, agentB, coordinator.Standing{Success: 0.85, Duration: 10},
			coordinator.Key{First: -0.85, Second: 0}},
		{"twice as fast: 0.85 / (5/10)", 10, agentB, coordinator.Standing{Success: 0.85, Duration: 5},
			coordinator.Key{First: -1.7, Second: 0}},
		{"A, half as fast: 0.95 / (20/10 · 1.4) = 0.3393", 10, agentA, coordinator.Standing{Success: 0.95, Duration: 20},
			coordinator.Key{First: -0.339, Second: 0}},
		{"speed not known of the agent alone", 10, agentB, coordinator.Standing{Success: 0.85},
			coordinator.Key{First: -0.85, Second: 0}},
		// It fails 98 of 100 within a millisecond, where others take 10 s: taken at its word
		// it would score 0.02/0.0001 = 200. Ten times faster is the most that is believed.
		{"a sinkhole: 0.02 / 0.1", 10, agentB, coordinator.Standing{Success: 0.02, Duration: 0.001},
			coordinator.Key{First: -0.2, Second: 0}},
		{"stuck: 0.9 / 10", 10, agentB, coordinator.Standing{Success: 0.9, Duration: 1e6},
			coordinator.Key{First: -0.09, Second: 0}},
		{"never succeeds", 10, agentB, coordinator.Standing{Duration: 1}, coordinator.Key{First: 0, Second: 0}},
		{"flexibility breaks ties", 0, coordinator.AgentView{Flexibility: 1.5}, coordinator.Standing{Success: 0.9},
			coordinator.Key{First: -0.9, Second: 1.5}},
	}
	s, err := Build(RewardRateName, Defaults())
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := s.Key(&coordinator.Case{Reference: tt.reference}, &tt.agent, &tt.standing); got != tt.want {
				t.Errorf("key %v, want %v", got, tt.want)
			}
		})
	}
	var v coordinator.TermValues
	s.Explain(&coordinator.Case{Reference: 10}, &coordinator.AgentView{Load: 0.4, Flexibility: 1.5},
		&coordinator.Standing{Success: 0.95, Duration: 20}, &v)
	if want := (coordinator.TermValues{0.95, 2, 0.4, 1.5}); v != want {
		t.Errorf("%v: %v, want %v", s.Terms, v, want)
	}
}

// Two agents that have shown 0.9002 and 0.8998 are equals: the one with fewer other
// uses goes first, although the other one's score is larger in the fourth digit.
func TestRewardRateIsNotDecidedByTheFourthDigit(t *testing.T) {
	s, err := Build(RewardRateName, Defaults())
	if err != nil {
		t.Fatal(err)
	}
	generalist := s.Key(&coordinator.Case{}, &coordinator.AgentView{Flexibility: 3},
		&coordinator.Standing{Success: 0.9002})
	specialist := s.Key(&coordinator.Case{}, &coordinator.AgentView{Flexibility: 1},
		&coordinator.Standing{Success: 0.8998})
	if generalist.First != specialist.First || !(specialist.Second < generalist.Second) {
		t.Errorf("generalist %v, specialist %v", generalist, specialist)
	}
	better := s.Key(&coordinator.Case{}, &coordinator.AgentView{Flexibility: 3}, &coordinator.Standing{Success: 0.91})
	if !(better.First < specialist.First) {
		t.Errorf("0.91 %v is not before 0.90 %v", better, specialist)
	}
}

func TestRewardRateExploration(t *testing.T) {
	for _, tt := range []struct {
		given, want float64
		refused     bool
	}{
		{given: -1, want: 0.05}, {given: 0, want: 0}, {given: 0.5, want: 0.5},
		{given: 0.51, refused: true}, {given: math.NaN(), refused: true},
	} {
		s, err := Build(RewardRateName, Options{Exploration: tt.given})
		if refused := err != nil; refused != tt.refused || !refused && s.Exploration != tt.want {
			t.Errorf("%v: %v, %v", tt.given, s.Exploration, err)
		}
	}
}

func TestThreeDigits(t *testing.T) {
	for _, tt := range []struct{ x, want float64 }{
		{0, 0}, {1e-10, 0}, {0.678571, 0.679}, {0.85, 0.85}, {0.1234, 0.123}, {0.09996, 0.1},
		{1, 1}, {9.996, 10}, {12.34, 12.3}, {123.4, 123}, {1234, 1230}, {99960, 100000},
	} {
		if got := threeDigits(tt.x); math.Abs(got-tt.want) > 1e-9*tt.want {
			t.Errorf("%v: %v, want %v", tt.x, got, tt.want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		x := rapid.Float64Range(1e-8, 1e9).Draw(t, "x")
		y := rapid.Float64Range(x, 1e9).Draw(t, "larger")
		if a, b := threeDigits(x), threeDigits(y); a > b || math.Abs(a-x) > 0.00501*x {
			t.Errorf("%v and %v become %v and %v", x, y, a, b)
		}
	})
}
