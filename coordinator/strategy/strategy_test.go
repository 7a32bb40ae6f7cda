package strategy

import (
	"slices"
	"testing"
	"time"

	"taskbus/coordinator"
)

// TestKeys shows the key of every strategy for one agent: load 0.5, rank 2,
// three capabilities, last given work by dispatch 7. The smaller key goes first.
func TestKeys(t *testing.T) {
	agent := &coordinator.AgentView{ID: "a1", Load: 0.5, Rank: 2, Capabilities: 3, LastAssigned: 7}
	tests := []struct {
		name     string
		strategy string
		priority coordinator.Priority
		want     coordinator.Key
	}{
		// COORDINATOR: (current_load, −len(capabilities)) = (0.5, −3).
		{"capability_match", CapabilityMatchName, coordinator.PriorityNormal, coordinator.Key{First: 0.5, Second: -3}},
		// COORDINATOR: current_load = 0.5.
		{"least_loaded", LeastLoadedName, coordinator.PriorityNormal, coordinator.Key{First: 0.5, Second: 0}},
		// COORDINATOR: the next of the list, here the one not served for longest: 7.
		{"round_robin", RoundRobinName, coordinator.PriorityNormal, coordinator.Key{First: 7, Second: 0}},
		// COORDINATOR: task_priority ≥ HIGH (2): (priority, current_load) = (2, 0.5).
		{"priority_based, critical", PriorityBasedName, coordinator.PriorityCritical, coordinator.Key{First: 2, Second: 0.5}},
		{"priority_based, high", PriorityBasedName, coordinator.PriorityHigh, coordinator.Key{First: 2, Second: 0.5}},
		// Below HIGH: current_load = 0.5.
		{"priority_based, normal", PriorityBasedName, coordinator.PriorityNormal, coordinator.Key{First: 0.5, Second: 0}},
		{"priority_based, low", PriorityBasedName, coordinator.PriorityLow, coordinator.Key{First: 0.5, Second: 0}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s, err := Build(tt.strategy, Defaults())
			if err != nil {
				t.Fatal(err)
			}
			if got := s.Key(&coordinator.Case{Task: &coordinator.Task{Priority: tt.priority}}, agent, nil); got != tt.want {
				t.Errorf("key %v, want %v", got, tt.want)
			}
		})
	}
}

// TestSpecialistsFirst: an idle all-rounder and a specialist with two of its four slots taken. By COORDINATOR's rule
// the less loaded one goes first, and of equally loaded ones the all-rounder; where specialists are preferred the one
// that others need less, whatever the load.
func TestSpecialistsFirst(t *testing.T) {
	key := func(prefer bool, a coordinator.AgentView) coordinator.Key {
		o := Defaults()
		o.Specialists = prefer
		s, err := Build(CapabilityMatchName, o)
		if err != nil {
			t.Fatal(err)
		}
		return s.Key(&coordinator.Case{}, &a, nil)
	}
	first := func(a, b coordinator.Key) bool { return a.First < b.First || a.First == b.First && a.Second < b.Second }
	for _, tt := range []struct {
		name                         string
		specialist, allRounder       coordinator.AgentView
		byCoordinator, bySpecialists bool // the specialist goes first
	}{
		// Flexibility is demand / supply, summed: 12 tasks for four agents that code are 3; of contracts there are 6 for two.
		{"half full", coordinator.AgentView{Load: 0.5, Capabilities: 1, Flexibility: 3},
			coordinator.AgentView{Capabilities: 2, Flexibility: 6}, false, true},
		{"both idle", coordinator.AgentView{Capabilities: 1, Flexibility: 3},
			coordinator.AgentView{Capabilities: 2, Flexibility: 6}, false, true},
		{"no work yet", coordinator.AgentView{Capabilities: 1}, coordinator.AgentView{Capabilities: 2}, false, true},
		// alike to three digits
		{"in demand", coordinator.AgentView{Capabilities: 1, Flexibility: 6.001},
			coordinator.AgentView{Capabilities: 2, Flexibility: 6}, false, true},
		{"the narrower one is needed more", coordinator.AgentView{Capabilities: 1, Flexibility: 9},
			coordinator.AgentView{Capabilities: 2, Flexibility: 6}, false, false},
		{"equals, by load", coordinator.AgentView{Load: 0.25, Capabilities: 2, Flexibility: 3},
			coordinator.AgentView{Load: 0.5, Capabilities: 2, Flexibility: 3}, true, true},
	} {
		if got := first(key(false, tt.specialist), key(false, tt.allRounder)); got != tt.byCoordinator {
			t.Errorf("%s: by COORDINATOR's rule the specialist goes first: %t", tt.name, got)
		}
		if got := first(key(true, tt.specialist), key(true, tt.allRounder)); got != tt.bySpecialists {
			t.Errorf("%s: where specialists are preferred the specialist goes first: %t", tt.name, got)
		}
	}
}

func TestRegistry(t *testing.T) {
	names := Names()
	if !slices.IsSorted(names) {
		t.Errorf("names are not sorted, the search would miss some: %v", names)
	}
	want := []string{"capability_match", "expression", "least_loaded", "load_balanced", "market", "priority_based",
		"reward_rate", "round_robin", "weighted"}
	if !slices.Equal(names, want) {
		t.Errorf("names %v, want %v", names, want)
	}
	for _, name := range names {
		o := Defaults()
		if name == ExpressionName {
			o.Formula, o.FormulaText = byLoad, "1 - load"
		}
		s, err := Build(name, o)
		if err != nil || s.Name != name || s.Key == nil || s.About == "" || len(s.Terms) == 0 ||
			len(s.Terms) > coordinator.MaxTerms {
			t.Errorf("%s: %v, incomplete: %+v", name, err, s.Terms)
		}
	}
	for _, name := range []string{"", "a", "first_fit", "zzz"} {
		if _, err := Build(name, Defaults()); err == nil || Known(name) {
			t.Errorf("%q is found", name)
		}
	}
	if !Known(Default) || Default != "capability_match" {
		t.Errorf("the default is %q, COORDINATOR's is capability_match", Default)
	}
}

// All but expression need no options; that one is there where agents.yaml lists it.
func TestAllNeedNoOptions(t *testing.T) {
	var names []string
	for _, s := range All() {
		names = append(names, s.Name)
	}
	if want := slices.DeleteFunc(Names(), func(name string) bool { return name == ExpressionName }); !slices.Equal(names,
		want) {
		t.Errorf("all are %v, want %v", names, want)
	}
}

// A strategy refuses the options of others instead of ignoring them.
func TestOptionsOfOthersAreRefused(t *testing.T) {
	tests := []struct {
		name    string
		options Options
		want    string
	}{
		{LeastLoadedName, Options{Weights: map[string]float64{FreeTerm: 1}},
			"weights is an option of weighted, not of least_loaded; remove it"},
		{LoadBalancedName, Options{Exploration: 0.1},
			"exploration is an option of reward_rate, not of load_balanced; remove it"},
		{RewardRateName, Options{AffinityLabel: "zone"},
			"affinity_label is an option of expression and weighted, not of reward_rate; remove it"},
		{RewardRateName, Options{SessionLabel: "user"},
			"session_label is an option of expression and weighted, not of reward_rate; remove it"},
		{WeightedName, Options{FormulaText: "load"}, "formula is an option of expression, not of weighted; remove it"},
		{LoadBalancedName, Options{Market: MarketOptions{BidWindow: time.Second}},
			"bid_window_ms is an option of market, not of load_balanced; remove it"},
		{LoadBalancedName, Options{Market: MarketOptions{MinBidWindow: time.Second}},
			"min_bid_window_ms is an option of market, not of load_balanced; remove it"},
		{LoadBalancedName, Options{Market: MarketOptions{FirstMatch: true}},
			"fallback is an option of market, not of load_balanced; remove it"},
		{LoadBalancedName, Options{Market: MarketOptions{InviteAll: true}},
			"invite is an option of market, not of load_balanced; remove it"},
		{LeastLoadedName, Options{Specialists: true},
			"prefer is an option of capability_match, not of least_loaded; remove it"},
		{LoadBalancedName, Options{Market: MarketOptions{Reported: true}},
			"fitness is an option of market, not of load_balanced; remove it"},
		{MarketName, Options{Exploration: 0.1}, "exploration is an option of reward_rate, not of market; remove it"},
		{ExpressionName, Options{},
			`strategy expression: a formula is missing; write one, e.g. formula: "success_rate / (1.0 + load)"`},
	}
	for _, tt := range tests {
		if _, err := Build(tt.name, tt.options); err == nil || err.Error() != tt.want {
			t.Errorf("%s: %v, want %s", tt.name, err, tt.want)
		}
	}
}

// What is configured differently has other parameters, and so another version of
// the configuration; what is written out as the default has not.
func TestParametersTellConfigurationsApart(t *testing.T) {
	seen := make(map[string]Options)
	for _, o := range []Options{
		{Exploration: -1},
		{Exploration: -1, Weights: map[string]float64{FreeTerm: 3}},
		{Exploration: -1, Weights: map[string]float64{FitTerm: 3}},
		{Exploration: -1, AffinityLabel: "zone"},
		{Exploration: -1, SessionLabel: "zone"},
		{Exploration: -1, AffinityLabel: "zone", SessionLabel: "zone"},
	} {
		s, err := Build(WeightedName, o)
		if err != nil {
			t.Fatal(err)
		}
		if other, taken := seen[s.Parameters]; taken {
			t.Errorf("%+v has the parameters of %+v: %s", o, other, s.Parameters)
		}
		seen[s.Parameters] = o
	}
	written, err := Build(WeightedName, Options{Weights: map[string]float64{FreeTerm: 1, SuccessTerm: 2}})
	if err != nil {
		t.Fatal(err)
	}
	if _, same := seen[written.Parameters]; !same {
		t.Errorf("the defaults, written out, have other parameters: %s", written.Parameters)
	}
}
