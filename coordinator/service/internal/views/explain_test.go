package views

import (
	"math"
	"slices"
	"testing"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/view"
)

// Every field of a decision reaches the reader; what JSON does not know does no harm.
func TestExplanationRendersADecision(t *testing.T) {
	d := &coordinator.Decision{
		Strategy: "load_balanced", Terms: []string{"success", "load"}, Scored: true, Explored: true, Agent: "a1", Fleet: 3,
		Eligible: 1,
		Candidates: []coordinator.Candidate{{Agent: "a1", Free: 2, Load: 0.4,
			Key: coordinator.Key{First: -0.95 / 1.4, Second: 0}, Terms: coordinator.TermValues{0.95, math.NaN()}}},
		Missing: []coordinator.MissingCapability{{Capability: "gpu", Agents: 1}},
		Nearest: &coordinator.Refusal{Agent: "a2", Why: coordinator.Full, FreeIn: 40 * time.Second},
		Refusals: []coordinator.Refusal{
			{Agent: "a2", Why: coordinator.Full, FreeIn: 40 * time.Second}, {Agent: "a3", Why: coordinator.LacksCapability},
		},
	}
	d.Refused[coordinator.Full], d.Refused[coordinator.LacksCapability] = 1, 1
	x := Explanation(d)
	c := x.Candidates[0]
	if c.Score == nil || math.Abs(float64(*c.Score)-0.6786) > 1e-4 || !x.Explored { // 0.95 / (1 + 0.4)
		t.Errorf("score %v, want 0.6786", c.Score)
	}
	if len(c.Terms) != 2 || c.Terms[0] != (view.Term{Name: "success", Value: 0.95}) || c.Terms[1].Name != "load" {
		t.Errorf("terms %+v", c.Terms)
	}
	if want := []view.Refusal{{Agent: "a2", Why: "full", FreeIn: 40},
		{Agent: "a3", Why: "lacks_capability"}}; !slices.Equal(x.Refusals, want) {
		t.Errorf("refusals %+v, want %+v", x.Refusals, want)
	}
	if x.Nearest != "a2" || x.NearestWhy != "full" || x.NearestFreeIn != 40 || x.Missing["gpu"] != 1 ||
		x.Refused["full"] != 1 {
		t.Errorf("%+v", x)
	}
	// A fleet that is merely full is said in a number, with a few names.
	for range 279 {
		d.Refusals = append(d.Refusals, coordinator.Refusal{Agent: "a4", Why: coordinator.Full})
	}
	d.Refused[coordinator.Full] += 279
	// 8 full, 1 that lacks a capability
	if x := Explanation(d); len(x.Refusals) != coordinator.MaxNamed+1 || x.Refused["full"] != 280 {
		t.Errorf("%d refusals by name, of %d that are full", len(x.Refusals), x.Refused["full"])
	}
	d.Scored = false
	if c := Explanation(d).Candidates[0]; c.Score != nil {
		t.Errorf("a strategy that does not score has the score %v", *c.Score)
	}
}
