package simulator

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"taskbus/coordinator"
)

// The limits of a scenario: far above what is useful, far below what would not
// fit into memory.
const (
	maxAgents   = 100_000
	maxGroups   = 64 // a set of groups is one machine word
	maxVariants = 32
	maxSeeds    = 1000
	maxPrinted  = 1 << 53 // what every reader of JSON keeps exact
)

// Read reads a scenario from the text of its file; source names it in faults, name
// is what the scenario is called. The error is *Faults.
func Read(source, name string, data []byte) (*Scenario, error) {
	r := &reader{source: source}
	s := &Scenario{
		Name: name, Seeds: []uint64{1}, Drain: time.Hour,
		Settings: coordinator.Settings{
			PoisonedAfter: 3, MaxRetryAttempts: 3, StaleAfter: 120 * time.Second, MaxQueueSize: 10_000,
			AssignmentTimeout: 30 * time.Second, MaxLoad: 0.9, PriorityAgeing: 5 * time.Second,
			DedupeWindow: time.Hour, DedupeMaxIDs: 100_000, // what else there is has its own defaults
		},
	}
	if root := r.parse(data); root != nil {
		r.scenario(spot{root, ""}, s)
	}
	if len(r.faults) > 0 {
		slices.SortStableFunc(r.faults, func(a, b Fault) int { return cmp.Compare(a.Line, b.Line) })
		return nil, &Faults{r.faults}
	}
	return s, nil
}

// scenario reads the whole file. Variants come last, whatever the order of the
// file: they begin with the scenario's settings.
func (r *reader) scenario(p spot, s *Scenario) {
	var variants []spot
	r.object(p, fields{
		"about":            r.text(&s.About),
		"duration_seconds": r.seconds(&s.Duration, 0, true),
		"warm_up_seconds":  r.seconds(&s.WarmUp, 0),
		"drain_seconds":    r.seconds(&s.Drain, 0),
		"seeds":            r.seeds(&s.Seeds),
		"settings":         r.settings(&s.Settings),
		"fleet": func(p spot) {
			r.list(p, func(item spot) { s.Fleet = append(s.Fleet, r.group(item)) })
		},
		"workloads": func(p spot) {
			r.list(p, func(item spot) { s.Workloads = append(s.Workloads, r.workload(item)) })
		},
		"strategies": func(p spot) { r.list(p, func(item spot) { variants = append(variants, item) }) },
	}, "duration_seconds", "fleet", "workloads", "strategies")
	for _, item := range variants {
		s.Strategies = append(s.Strategies, r.variant(item, s.Settings))
	}
	if len(r.faults) == 0 {
		r.together(p, s)
	}
}

// together checks what no single setting can be blamed for.
func (r *reader) together(p spot, s *Scenario) {
	agents := 0
	for _, g := range s.Fleet {
		agents += g.Count
	}
	at := func(path string) spot { return spot{child(p.node, path), path} }
	switch {
	case agents == 0:
		r.fault(at("fleet"), "must have at least one agent")
	case len(s.Fleet) > maxGroups:
		r.fault(at("fleet"), "must have at most %d groups, not %d", maxGroups, len(s.Fleet))
	case agents > maxAgents:
		r.fault(at("fleet"), "must have at most %d agents, not %d", maxAgents, agents)
	case len(s.Workloads) == 0:
		r.fault(at("workloads"), "must have at least one workload")
	case len(s.Strategies) == 0 || len(s.Strategies) > maxVariants:
		r.fault(at("strategies"), "must name 1 to %d strategies, not %d", maxVariants, len(s.Strategies))
	case s.WarmUp >= s.Duration:
		r.fault(at("warm_up_seconds"), "must be less than duration_seconds (%g), or nothing is left to measure", s.Duration.Seconds())
	}
	required := make(map[string][]string)
	for i := range s.Workloads {
		w := &s.Workloads[i]
		here := spot{child(p.node, "workloads"), fmt.Sprintf("workloads[%d]", i)}
		if before, ok := required[w.Type]; ok && !slices.Equal(before, w.Required) {
			r.fault(here, "%s requires other capabilities than an earlier workload of that task_type; give one of them another name", w.Type)
		}
		required[w.Type] = w.Required
		if !slices.ContainsFunc(s.Fleet, func(g Group) bool { return g.capable(w.Required) }) {
			r.fault(here, "no agent of the fleet has all of %v", w.Required)
		}
		if w.Until == 0 {
			w.Until = s.Duration
		}
	}
	labels := make(map[string]bool)
	for i := range s.Strategies {
		label := s.Strategies[i].Label
		if labels[label] {
			r.fault(spot{child(p.node, "strategies"), fmt.Sprintf("strategies[%d]", i)}, "another one is called %q already; give it a label of its own", label)
		}
		labels[label] = true
	}
}

// seeds reads a number of seeds, which are then 1, 2, 3 …, or a list of them.
func (r *reader) seeds(into *[]uint64) func(spot) {
	return func(p spot) {
		*into = nil
		if len(p.node.Content) > 0 {
			r.list(p, func(item spot) {
				var seed uint64
				whole(r, &seed, 0, maxPrinted)(item)
				*into = append(*into, seed)
			})
			return
		}
		n := 0
		whole(r, &n, 1, maxSeeds)(p)
		for seed := range n {
			*into = append(*into, uint64(seed+1))
		}
	}
}
