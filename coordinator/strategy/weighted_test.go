package strategy

import (
	"math"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"taskbus/coordinator"
	"taskbus/coordinator/hash"
)

// Each term for one agent, with its arithmetic.
func TestTermValues(t *testing.T) {
	task := &coordinator.Task{Labels: map[string]string{"zone": "lab", "empty": ""}}
	tests := []struct {
		name string
		term string
		c    coordinator.Case
		a    coordinator.AgentView
		s    coordinator.Standing
		want float64
	}{
		{"2 of 2 capabilities are required", FitTerm, coordinator.Case{Required: 2}, coordinator.AgentView{Capabilities: 2},
			coordinator.Standing{}, 1},
		{"2 of 8", FitTerm, coordinator.Case{Required: 2}, coordinator.AgentView{Capabilities: 8}, coordinator.Standing{},
			0.25},
		{"nothing is required, 4 offered", FitTerm, coordinator.Case{}, coordinator.AgentView{Capabilities: 4},
			coordinator.Standing{}, 0},
		{"nothing is required of one that can nothing else", FitTerm, coordinator.Case{}, coordinator.AgentView{},
			coordinator.Standing{}, 1},
		{"3 of 4 slots", FreeTerm, coordinator.Case{}, coordinator.AgentView{Free: 3, Max: 4}, coordinator.Standing{}, 0.75},
		{"no slots at all", FreeTerm, coordinator.Case{}, coordinator.AgentView{}, coordinator.Standing{}, 0},
		{"success as it is", SuccessTerm, coordinator.Case{}, coordinator.AgentView{}, coordinator.Standing{Success: 0.8},
			0.8},
		{"as fast as the mean: 10 / (10 + 10)", SpeedTerm, coordinator.Case{Reference: 10}, coordinator.AgentView{},
			coordinator.Standing{Duration: 10}, 0.5},
		{"twice as fast: 10 / (10 + 5)", SpeedTerm, coordinator.Case{Reference: 10}, coordinator.AgentView{},
			coordinator.Standing{Duration: 5}, 2.0 / 3},
		{"half as fast: 10 / (10 + 20)", SpeedTerm, coordinator.Case{Reference: 10}, coordinator.AgentView{},
			coordinator.Standing{Duration: 20}, 1.0 / 3},
		{"speed not known of the agent", SpeedTerm, coordinator.Case{Reference: 10}, coordinator.AgentView{},
			coordinator.Standing{}, 0.5},
		{"nor of the type", SpeedTerm, coordinator.Case{}, coordinator.AgentView{}, coordinator.Standing{Duration: 3}, 0.5},
		{"1 − 2/8", CostTerm, coordinator.Case{MaxCost: 8}, coordinator.AgentView{Cost: 2}, coordinator.Standing{}, 0.75},
		{"the dearest: 1 − 8/8", CostTerm, coordinator.Case{MaxCost: 8}, coordinator.AgentView{Cost: 8},
			coordinator.Standing{}, 0},
		{"cost not known", CostTerm, coordinator.Case{MaxCost: 8}, coordinator.AgentView{}, coordinator.Standing{}, 0.5},
		{"same zone", AffinityTerm, coordinator.Case{AffinityLabel: "zone", Affinity: "lab"},
			coordinator.AgentView{Labels: map[string]string{"zone": "lab"}}, coordinator.Standing{}, 1},
		{"another zone", AffinityTerm, coordinator.Case{AffinityLabel: "zone", Affinity: "lab"},
			coordinator.AgentView{Labels: map[string]string{"zone": "hall"}}, coordinator.Standing{}, 0},
		{"neither has a zone", AffinityTerm, coordinator.Case{AffinityLabel: "zone"}, coordinator.AgentView{},
			coordinator.Standing{}, 0},
		{"no session", SessionTerm, coordinator.Case{}, coordinator.AgentView{Hash: 7}, coordinator.Standing{}, 0},
		{"priority 1: (5 − 1)/4", RankTerm, coordinator.Case{}, coordinator.AgentView{Rank: 1}, coordinator.Standing{}, 1},
		{"priority 3: (5 − 3)/4", RankTerm, coordinator.Case{}, coordinator.AgentView{Rank: 3}, coordinator.Standing{}, 0.5},
		{"priority 5: 0/4", RankTerm, coordinator.Case{}, coordinator.AgentView{Rank: 5}, coordinator.Standing{}, 0},
	}
	values := make(map[string]Term)
	for _, term := range Terms() {
		if values[term.Name].Value != nil || term.About == "" {
			t.Errorf("term %q is there twice, or says nothing of itself", term.Name)
		}
		values[term.Name] = term
	}
	for _, tt := range tests {
		t.Run(tt.term+": "+tt.name, func(t *testing.T) {
			tt.c.Task = task
			if got := values[tt.term].Value(&tt.c, &tt.a, &tt.s); math.Abs(got-tt.want) > 1e-12 {
				t.Errorf("%v, want %v", got, tt.want)
			}
		})
	}
}

// One agent with the default weights: every term is in the explanation, and their
// weighted sum is the score.
func TestWeightedSumsUp(t *testing.T) {
	s, err := Build(WeightedName, Options{Exploration: -1, AffinityLabel: "zone"})
	if err != nil {
		t.Fatal(err)
	}
	c := &coordinator.Case{Task: &coordinator.Task{Labels: map[string]string{"zone": "lab"}}, Required: 1, Reference: 10,
		MaxCost: 4}
	s.Prepare(c)
	a := &coordinator.AgentView{Capabilities: 2, Free: 3, Max: 4, Cost: 1, Rank: 1,
		Labels: map[string]string{"zone": "lab"}, Flexibility: 0.3}
	standing := &coordinator.Standing{Success: 0.9, Duration: 10}
	var got coordinator.TermValues
	s.Explain(c, a, standing, &got)
	if want := (coordinator.TermValues{1.0 / 2, 3.0 / 4, 0.9, 0.5, 1 - 1.0/4, 1, 0, 1}); got != want {
		t.Errorf("terms %v: %v, want %v", s.Terms, got, want)
	}
	// ½·0.5 + 1·0.75 + 2·0.9 + 1·0.5 + ½·0.75 + 1·1 + 7·0 + ¼·1 = 4.925
	k := s.Key(c, a, standing)
	if score, _ := s.Score(k); math.Abs(score-4.925) > 1e-12 || k.Second != 0.3 {
		t.Errorf("key %v, want −4.925 and 0.3", k)
	}
}

func TestWeightedIsWithinItsWeights(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		given, sum := make(map[string]float64), 0.0
		for _, w := range Weights() {
			given[w.Term] = rapid.Float64Range(0, MaxWeight).Draw(t, w.Term)
			sum += given[w.Term]
		}
		if sum == 0 {
			t.Skip("refused")
		}
		s, err := Build(WeightedName, Options{Exploration: -1, Weights: given})
		if err != nil {
			t.Fatal(err)
		}
		c, a, standing := drawCase(t), drawAgent(t), drawStanding(t)
		var v coordinator.TermValues
		s.Explain(c, a, &standing, &v)
		for i, x := range v {
			if !(x >= 0 && x <= 1) {
				t.Errorf("%s is %v, not from 0 to 1", s.Terms[i], x)
			}
		}
		if score, _ := s.Score(s.Key(c, a, &standing)); !(score >= 0 && score <= sum*(1+1e-12)) {
			t.Errorf("score %v, not from 0 to %v", score, sum)
		}
	})
}

// Tasks of one session prefer one agent, whichever others come or go; different
// sessions spread over all; and the preference is as clear among 1,000 as among 5.
func TestSessionsStick(t *testing.T) {
	s, err := Build(WeightedName, Options{Exploration: -1, SessionLabel: "user"})
	if err != nil {
		t.Fatal(err)
	}
	of := func(user string) *coordinator.Case {
		c := &coordinator.Case{Task: &coordinator.Task{Labels: map[string]string{"user": user}}}
		s.Prepare(c)
		return c
	}
	best := func(c *coordinator.Case, fleet []coordinator.AgentView) (first int, gap float64) {
		top, second := -1.0, -1.0
		for i := range fleet {
			if v := session(c, &fleet[i]); v > top {
				first, top, second = i, v, top
			} else if v > second {
				second = v
			}
		}
		return first, top - second
	}
	const sessions = 2000
	for _, n := range []int{5, 100, 1000} {
		fleet := make([]coordinator.AgentView, n)
		for i := range fleet {
			fleet[i] = coordinator.AgentView{ID: coordinator.AgentID(strconv.Itoa(i)),
				Hash: hash.Of("agent-"+strconv.Itoa(i), 0)}
		}
		counts, gaps := make([]int, n), 0.0
		for user := range sessions {
			c := of("user-" + strconv.Itoa(user))
			first, gap := best(c, fleet)
			counts[first]++
			gaps += gap
			if fewer := fleet[:n-1]; first < n-1 {
				if again, _ := best(c, fewer); again != first {
					t.Fatalf("user %d moved from agent %d to %d because agent %d went", user, first, again, n-1)
				}
			}
		}
		// Between the two largest of n Gumbel numbers lie r·ln r/(r − 1) on average, with
		// r = n/(n − 1): 1.12 for 5, and 1.00 for many. The term is a fourteenth of that.
		r := float64(n) / float64(n-1)
		if mean, want := gaps/sessions, r*math.Log(r)/(r-1)/14; math.Abs(mean-want) > 0.1*want {
			t.Errorf("%d agents: the first lies %.4f above the second on average, want %.4f", n, mean, want)
		}
		// χ² of n−1 degrees of freedom: mean n−1, deviation √(2(n−1)).
		chi, expected := 0.0, float64(sessions)/float64(n)
		for _, count := range counts {
			chi += (float64(count) - expected) * (float64(count) - expected) / expected
		}
		if limit := float64(n-1) + 5*math.Sqrt(2*float64(n-1)); chi > limit {
			t.Errorf("%d agents: χ² %.0f, want at most %.0f: %v", n, chi, limit, counts)
		}
	}
	if c := of(""); c.Session != 0 {
		t.Error("a task without the label has a session")
	}
}

func TestWeightedRefusesBadWeights(t *testing.T) {
	zero := make(map[string]float64)
	for _, w := range Weights() {
		zero[w.Term] = 0
	}
	for want, weights := range map[string]map[string]float64{
		"the weight of free must be from 0 to 100, not -1":  {FreeTerm: -1},
		"the weight of free must be from 0 to 100, not 101": {FreeTerm: 101},
		"the weight of free must be from 0 to 100, not NaN": {FreeTerm: math.NaN()},
		"a weight is given to something that is not a term": {"colour": 1},
		"every weight is 0": zero,
	} {
		if _, err := Build(WeightedName, Options{Weights: weights}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %q", weights, err, want)
		}
	}
}
