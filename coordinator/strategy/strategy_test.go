package strategy

import (
	"slices"
	"testing"

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
		{"capability_match", CapabilityMatchName, coordinator.PriorityNormal, coordinator.Key{0.5, -3}},
		// COORDINATOR: current_load = 0.5.
		{"least_loaded", LeastLoadedName, coordinator.PriorityNormal, coordinator.Key{0.5, 0}},
		// COORDINATOR: the next of the list, here the one not served for longest: 7.
		{"round_robin", RoundRobinName, coordinator.PriorityNormal, coordinator.Key{7, 0}},
		// COORDINATOR: task_priority ≥ HIGH (2): (priority, current_load) = (2, 0.5).
		{"priority_based, critical", PriorityBasedName, coordinator.PriorityCritical, coordinator.Key{2, 0.5}},
		{"priority_based, high", PriorityBasedName, coordinator.PriorityHigh, coordinator.Key{2, 0.5}},
		// Below HIGH: current_load = 0.5.
		{"priority_based, normal", PriorityBasedName, coordinator.PriorityNormal, coordinator.Key{0.5, 0}},
		{"priority_based, low", PriorityBasedName, coordinator.PriorityLow, coordinator.Key{0.5, 0}},
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

func TestRegistry(t *testing.T) {
	names := Names()
	if !slices.IsSorted(names) {
		t.Errorf("names are not sorted, the search would miss some: %v", names)
	}
	if want := []string{"capability_match", "least_loaded", "priority_based", "round_robin"}; !slices.Equal(names, want) {
		t.Errorf("names %v, want COORDINATOR's four %v", names, want)
	}
	for _, name := range names {
		s, err := Build(name, Defaults())
		if err != nil || s.Name != name || s.Key == nil || s.About == "" || len(s.Terms) == 0 {
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
