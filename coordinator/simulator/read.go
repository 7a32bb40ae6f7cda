package simulator

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"taskbus/coordinator"
)

// Read reads a scenario from the text of its file; source names it in faults, name
// is what the scenario is called. The error is *Faults.
func Read(source, name string, data []byte) (*Scenario, error) {
	r := &reader{source: source}
	s := &Scenario{
		Name: name, Seeds: []uint64{1}, Drain: time.Hour,
		Settings: coordinator.Settings{
			PoisonedAfter: 3, MaxRetryAttempts: 3, StaleAfter: 120 * time.Second, MaxQueueSize: 10_000,
			AssignmentTimeout: 30 * time.Second, MaxLoad: 0.9,
			Priorities:   coordinator.PriorityOrder{Weights: coordinator.DefaultPriorityWeights()},
			DedupeWindow: time.Hour, DedupeMaxIDs: 100_000, // what else there is has its own defaults
		},
	}
	if root := r.parse(data); root != nil {
		switch {
		case child(root, "pulling") != root:
			r.pullScenario(spot{root, ""}, s)
		case child(root, "sharing") != root:
			r.shareScenario(spot{root, ""}, s)
		case child(root, "priorities") != root:
			r.priorityScenario(spot{root, ""}, s)
		default:
			r.scenario(spot{root, ""}, s)
		}
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
		r.fault(at("warm_up_seconds"), "must be less than duration_seconds (%g), or nothing is left to measure",
			s.Duration.Seconds())
	}
	required := make(map[string][]string)
	for i := range s.Workloads {
		w := &s.Workloads[i]
		here := item(p, "workloads", i)
		if before, ok := required[w.Type]; ok && !slices.Equal(before, w.Required) {
			r.fault(here,
				"%s requires other capabilities than an earlier workload of that task_type; give one of them another name", w.Type)
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
			r.fault(item(p, "strategies", i), "another one is called %q already; give it a label of its own", label)
		}
		labels[label] = true
	}
	if len(r.faults) == 0 {
		r.affordable(p, s)
	}
}

// affordable checks that the scenario fits into memory, and ends.
func (r *reader) affordable(p spot, s *Scenario) {
	sum := 0.0
	for i := range s.Workloads {
		n := s.expected(&s.Workloads[i])
		if sum += n; sum > maxTasks {
			r.fault(item(p, "workloads", i),
				"about %.3g tasks of it arrive in one run, with those before it %.3g, and %.3g are the most; "+
					"let fewer arrive at a time, set a count, or shorten the time (until_seconds, duration_seconds)", n, sum,
				float64(maxTasks))
			return
		}
	}
	if text := s.cost().excess(); text != "" {
		r.fault(spot{child(p.node, "duration_seconds"), ""}, "%s", text)
	}
}

// item is one of the items of a list of the file.
func item(p spot, key string, i int) spot {
	return spot{child(p.node, key).Content[i], fmt.Sprintf("%s[%d]", key, i)}
}

// seeds reads a number of seeds, which are then 1, 2, 3 …, or a list of them.
func (r *reader) seeds(into *[]uint64) func(spot) {
	return func(p spot) {
		*into = nil
		if n := len(p.node.Content); n > MaxSeeds {
			r.fault(p, "must be at most %d seeds, not %d", MaxSeeds, n)
			return
		}
		if len(p.node.Content) > 0 {
			lines := make(map[uint64]int)
			r.list(p, func(item spot) {
				var seed uint64
				before := len(r.faults)
				whole(r, &seed, 0, maxPrinted)(item)
				if line := lines[seed]; line > 0 && len(r.faults) == before {
					r.fault(item, "is in line %d already: the same seed gives the same run, which counts once; remove one of the two",
						line)
				}
				lines[seed] = item.node.Line
				*into = append(*into, seed)
			})
			return
		}
		n := 0
		whole(r, &n, 1, MaxSeeds)(p)
		*into = Seeds(n)
	}
}

// Seeds are n seeds: 1, 2, 3 …
func Seeds(n int) []uint64 {
	seeds := make([]uint64, n)
	for i := range seeds {
		seeds[i] = uint64(i + 1)
	}
	return seeds
}
