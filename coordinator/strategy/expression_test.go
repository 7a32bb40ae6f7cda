package strategy

import (
	"errors"
	"math"
	"slices"
	"testing"

	"taskbus/coordinator"
)

// byLoad stands in for a compiled formula.
func byLoad(_ *coordinator.Case, a *coordinator.AgentView, _ *coordinator.Standing) (float64, error) {
	return 1 - a.Load, nil
}

func TestExpression(t *testing.T) {
	tests := []struct {
		name  string
		score float64
		err   error
		want  coordinator.Key
		none  bool
	}{
		{"the score, then who is needed least", 0.7, nil, coordinator.Key{First: -0.7, Second: 2}, false},
		{"a score may be negative", -3, nil, coordinator.Key{First: 3, Second: 2}, false},
		{"NaN is none", math.NaN(), nil, coordinator.Key{}, true},
		{"an infinity is none: everything would go there", math.Inf(1), nil, coordinator.Key{}, true},
		{"nor is the other", math.Inf(-1), nil, coordinator.Key{}, true},
		{"what failed has none", 5, errors.New("division by zero"), coordinator.Key{}, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s, err := Build(ExpressionName,
				Options{FormulaText: "load", Formula: func(*coordinator.Case, *coordinator.AgentView,
					*coordinator.Standing) (float64, error) {
					return tt.score, tt.err
				}})
			if err != nil {
				t.Fatal(err)
			}
			got := s.Key(&coordinator.Case{}, &coordinator.AgentView{Flexibility: 2}, &coordinator.Standing{})
			if got.Unscored() != tt.none || !tt.none && got != tt.want {
				t.Errorf("key %v, want %v, none: %v", got, tt.want, tt.none)
			}
		})
	}
}

// An explanation shows the terms that stand in the formula.
func TestExpressionExplainsItsTerms(t *testing.T) {
	tests := []struct {
		formula string
		want    []string
		learned bool
	}{
		{"success_rate / (1.0 + load)", []string{"success_rate", "load"}, true},
		{"load + load * free", []string{"load", "free"}, false},
		{"labels.load == 'free' ? rank : math.least(duration_s, 1e3)", []string{"rank", "duration_s"}, true},
		{`task_type == "free" ? 1 : 0`, []string{"load"}, false},
		{"fit+free+success+speed+cost+affinity+session+rank+load", []string{"fit", "free", "success", "speed", "cost",
			"affinity", "session", "rank"}, true},
	}
	for _, tt := range tests {
		s, err := Build(ExpressionName, Options{Formula: byLoad, FormulaText: tt.formula})
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(s.Terms, tt.want) || s.Learned != tt.learned {
			t.Errorf("%s: terms %v, learned %v; want %v, %v", tt.formula, s.Terms, s.Learned, tt.want, tt.learned)
		}
	}
	s, err := Build(ExpressionName, Options{Formula: byLoad, FormulaText: "load + free_slots"})
	if err != nil {
		t.Fatal(err)
	}
	var v coordinator.TermValues
	s.Explain(&coordinator.Case{}, &coordinator.AgentView{Load: 0.25, Free: 3}, &coordinator.Standing{}, &v)
	if want := (coordinator.TermValues{0.25, 3}); v != want {
		t.Errorf("%v: %v, want %v", s.Terms, v, want)
	}
}
