package simulator

import (
	"slices"
	"time"

	"taskbus/config/yamlconf"
	"taskbus/coordinator"
)

// Read reads a scenario from the text of its file; source names it in faults, name
// is what the scenario is called. The error is *Faults.
func Read(source, name string, data []byte) (*Scenario, error) {
	r := &reader{&yamlconf.Decoder{Source: source, File: scenarioFile}}
	s := &Scenario{
		Name: name, Seeds: []uint64{1}, Drain: time.Hour,
		Settings: coordinator.Settings{
			PoisonedAfter: 3, MaxRetryAttempts: 3, StaleAfter: 120 * time.Second, MaxQueueSize: 10_000,
			AssignmentTimeout: 30 * time.Second, MaxLoad: 0.9,
			Priorities:   coordinator.PriorityOrder{Weights: coordinator.DefaultPriorityWeights()},
			DedupeWindow: time.Hour, DedupeMaxIDs: 100_000, // what else there is has its own defaults
		},
	}
	if root := r.Parse(data); root != nil {
		p := spot{Node: root}
		switch {
		case p.Has("pulling"):
			r.pullScenario(p, s)
		case p.Has("sharing"):
			r.shareScenario(p, s)
		case p.Has("priorities"):
			r.priorityScenario(p, s)
		default:
			r.scenario(p, s)
		}
	}
	if err := yamlconf.ErrorOf(r.Faults); err != nil {
		return nil, err
	}
	return s, nil
}

// scenario reads the whole file. Variants come last, whatever the order of the
// file: they begin with the scenario's settings.
func (r *reader) scenario(p spot, s *Scenario) {
	var variants []spot
	r.object(p, fields{
		"about":            r.text(&s.About),
		"duration_seconds": r.above0(&s.Duration),
		"warm_up_seconds":  r.seconds(&s.WarmUp, 0),
		"drain_seconds":    r.seconds(&s.Drain, 0),
		"seeds":            r.seeds(&s.Seeds),
		"settings":         r.settings(&s.Settings),
		"fleet":            listOf(r, &s.Fleet, "groups of agents", r.group),
		"workloads":        listOf(r, &s.Workloads, "workloads", r.workload),
		"strategies": func(p spot) {
			r.Items(p, "strategies", func(item spot) { variants = append(variants, item) })
		},
	}, "duration_seconds", "fleet", "workloads", "strategies")
	for _, item := range variants {
		s.Strategies = append(s.Strategies, r.variant(item, s.Settings))
	}
	if len(r.Faults) == 0 {
		r.together(p, s)
	}
}

// together checks what no single setting can be blamed for.
func (r *reader) together(p spot, s *Scenario) {
	agents := 0
	for _, g := range s.Fleet {
		agents += g.Count
	}
	at := func(key string) spot { return p.Child(key, p) }
	switch {
	case agents == 0:
		r.Fault(at("fleet"), "must have at least one agent")
	case len(s.Fleet) > maxGroups:
		r.Fault(at("fleet"), "must have at most %d groups, not %d", maxGroups, len(s.Fleet))
	case agents > maxAgents:
		r.Fault(at("fleet"), "must have at most %d agents, not %d", maxAgents, agents)
	case len(s.Workloads) == 0:
		r.Fault(at("workloads"), "must have at least one workload")
	case len(s.Strategies) == 0 || len(s.Strategies) > maxVariants:
		r.Fault(at("strategies"), "must name 1 to %d strategies, not %d", maxVariants, len(s.Strategies))
	case s.WarmUp >= s.Duration:
		r.Fault(at("warm_up_seconds"), "must be less than duration_seconds (%g), or nothing is left to measure",
			s.Duration.Seconds())
	}
	required := make(map[string][]string)
	for i := range s.Workloads {
		w := &s.Workloads[i]
		here := p.Child("workloads", p).Item(i)
		if before, ok := required[w.Type]; ok && !slices.Equal(before, w.Required) {
			r.Fault(here,
				"%s requires other capabilities than an earlier workload of that task_type; give one of them another name", w.Type)
		}
		required[w.Type] = w.Required
		if !slices.ContainsFunc(s.Fleet, func(g Group) bool { return g.capable(w.Required) }) {
			r.Fault(here, "no agent of the fleet has all of %v", w.Required)
		}
		if w.Until == 0 {
			w.Until = s.Duration
		}
	}
	distinct(r, p, "strategies", s.Strategies, "label", func(v *Variant) string { return v.Label })
	if len(r.Faults) == 0 {
		r.affordable(p, s)
	}
}

// affordable checks that the scenario fits into memory, and ends.
func (r *reader) affordable(p spot, s *Scenario) {
	sum := 0.0
	for i := range s.Workloads {
		n := s.expected(&s.Workloads[i])
		if sum += n; sum > maxTasks {
			r.Fault(p.Child("workloads", p).Item(i),
				"about %.3g tasks of it arrive in one run, with those before it %.3g, and %.3g are the most; "+
					"let fewer arrive at a time, set a count, or shorten the time (until_seconds, duration_seconds)", n, sum,
				float64(maxTasks))
			return
		}
	}
	if text := s.cost().excess(); text != "" {
		r.Fault(spot{Node: p.Child("duration_seconds", p).Node}, "%s", text)
	}
}
