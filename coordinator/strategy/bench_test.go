package strategy

import (
	"testing"

	"taskbus/coordinator"
)

// BenchmarkKey is what one agent costs in a decision. expression is measured with
// its formula, in config/formula.
func BenchmarkKey(b *testing.B) {
	for _, name := range []string{CapabilityMatchName, LoadBalancedName, WeightedName, RewardRateName} {
		b.Run(name, func(b *testing.B) { benchmarkKey(b, name, Defaults()) })
	}
	b.Run("weighted, affinity and session", func(b *testing.B) {
		benchmarkKey(b, WeightedName, Options{Exploration: -1, AffinityLabel: "zone", SessionLabel: "user"})
	})
}

func benchmarkKey(b *testing.B, name string, o Options) {
	s, err := Build(name, o)
	if err != nil {
		b.Fatal(err)
	}
	labels := map[string]string{"zone": "lab", "user": "u-1"}
	c := &coordinator.Case{Task: &coordinator.Task{Labels: labels}, Required: 1, Reference: 10, MaxCost: 4}
	if s.Prepare != nil {
		s.Prepare(c)
	}
	a := &coordinator.AgentView{Load: 0.4, Max: 5, Free: 3, Rank: 3, Capabilities: 2, Cost: 1, Hash: 7, Labels: labels,
		Flexibility: 0.3}
	standing := &coordinator.Standing{Success: 0.95, Duration: 8}
	b.ReportAllocs()
	for b.Loop() {
		s.Key(c, a, standing)
	}
}

// No strategy but expression allocates for a key.
func TestKeysDoNotAllocate(t *testing.T) {
	c := &coordinator.Case{Task: &coordinator.Task{}, Session: 1, AffinityLabel: "zone", Affinity: "lab", Reference: 10,
		MaxCost: 1}
	a := &coordinator.AgentView{Max: 4, Free: 2, Capabilities: 3, Cost: 0.5, Labels: map[string]string{"zone": "lab"}}
	standing := &coordinator.Standing{Success: 0.95, Duration: 8}
	for _, s := range All() {
		if n := testing.AllocsPerRun(100, func() { s.Key(c, a, standing) }); n > 0 {
			t.Errorf("%s allocates %v times for a key", s.Name, n)
		}
	}
}
