package simulator

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// pullScenario reads the file of a scenario with a pulling section.
func (r *reader) pullScenario(p spot, s *Scenario) {
	s.Pulling, s.Drain = new(Pulling), 0
	r.object(p, fields{
		"about":            r.text(&s.About),
		"duration_seconds": r.seconds(&s.Duration, 0, true),
		"warm_up_seconds":  r.seconds(&s.WarmUp, 0),
		"seeds":            r.seeds(&s.Seeds),
		"pulling":          r.pulling(s.Pulling),
	}, "duration_seconds")
	if len(r.faults) == 0 {
		r.pullTogether(p, s)
	}
}

func (r *reader) pulling(into *Pulling) func(spot) {
	return func(p spot) {
		r.object(p, fields{
			"agents": func(p spot) {
				r.list(p, func(item spot) { into.Agents = append(into.Agents, r.puller(item)) })
			},
			"loads": func(p spot) {
				r.list(p, func(item spot) { into.Loads = append(into.Loads, r.pullLoad(item)) })
			},
			"controllers": func(p spot) {
				r.list(p, func(item spot) { into.Controllers = append(into.Controllers, r.pullController(item)) })
			},
		}, "agents", "loads", "controllers")
	}
}

func (r *reader) puller(p spot) Puller {
	a := Puller{Slots: 10_000}
	r.object(p, fields{
		"name":                      r.name(&a.Name),
		"capacity_items_per_second": r.number(&a.Capacity, 0.001, maxPullCapacity),
		"slots":                     whole(r, &a.Slots, 1, maxPullItems),
	}, "name", "capacity_items_per_second")
	return a
}

func (r *reader) pullLoad(p spot) PullLoad {
	var l PullLoad
	r.object(p, fields{
		"label":               r.text(&l.Label),
		"items":               whole(r, &l.Items, 1, maxPullItems),
		"arrivals_per_second": r.number(&l.Rate, 0, maxPullCapacity, true),
		"death": func(p spot) {
			r.object(p, fields{
				"agent":      r.name(&l.Death.Agent),
				"at_seconds": r.seconds(&l.Death.At, 0, true),
			}, "agent", "at_seconds")
		},
	})
	if len(r.faults) == 0 && (l.Items == 0) == (l.Rate == 0) {
		r.fault(p, "must have either items (so many at any time) or arrivals_per_second")
	}
	if l.Label == "" && l.Items > 0 {
		l.Label = fmt.Sprintf("%d items at any time", l.Items)
	}
	l.Label = cmp.Or(l.Label, fmt.Sprintf("%g items arrive per second", l.Rate))
	return l
}

// pullController reads a controller: its mode, or a mapping that says more.
func (r *reader) pullController(p spot) PullController {
	c := PullController{MaxClaimItems: 100, Base: time.Second}
	base, fair := 1000, ""
	mode := oneOf(r, &c.Mode, PullFixed, PullLiteral, PullLiteralShare, PullEqual)
	if p.node.Value != "" {
		mode(p)
	} else {
		r.object(p, fields{
			"mode":                       mode,
			"label":                      r.text(&c.Label),
			"max_claim_items":            whole(r, &c.MaxClaimItems, 1, 10_000),
			"base_discovery_interval_ms": whole(r, &base, 200, 10_000),
			"grants":                     oneOf(r, &fair, "fair_part", "all"),
		}, "mode")
	}
	c.Label = cmp.Or(c.Label, string(c.Mode))
	c.Base = time.Duration(base) * time.Millisecond
	c.FairPart = fair == "fair_part" || fair == "" && c.Mode == PullEqual
	return c
}

// pullTogether checks what no single setting can be blamed for.
func (r *reader) pullTogether(p spot, s *Scenario) {
	here := spot{child(p.node, "pulling"), "pulling"}
	within := func(key string, n, most int) bool {
		if n < 1 || n > most {
			r.fault(spot{child(here.node, key), join(here.path, key)}, "must be a list of 1 to %d, not of %d", most, n)
		}
		return n >= 1 && n <= most
	}
	ok := within("agents", len(s.Pulling.Agents), maxPullers)
	ok = within("loads", len(s.Pulling.Loads), maxPullLoads) && ok
	ok = within("controllers", len(s.Pulling.Controllers), maxVariants) && ok
	if s.WarmUp >= s.Duration {
		r.fault(spot{child(p.node, "warm_up_seconds"), "warm_up_seconds"},
			"must be less than duration_seconds (%g), or nothing is left to measure", s.Duration.Seconds())
	}
	if !ok {
		return
	}
	r.distinct(here, "agents", len(s.Pulling.Agents), func(i int) string { return s.Pulling.Agents[i].Name })
	r.distinct(here, "loads", len(s.Pulling.Loads), func(i int) string { return s.Pulling.Loads[i].Label })
	r.distinct(here, "controllers", len(s.Pulling.Controllers),
		func(i int) string { return s.Pulling.Controllers[i].Label })
	for i := range s.Pulling.Loads {
		l := &s.Pulling.Loads[i]
		dying := item(here, "loads", i)
		dying.path = join(here.path, dying.path)
		switch {
		case l.Death == Death{}:
		case !slices.ContainsFunc(s.Pulling.Agents, func(a Puller) bool { return a.Name == l.Death.Agent }):
			r.fault(dying, "the agent %q that dies is none of the agents", l.Death.Agent)
		case len(s.Pulling.Agents) == 1:
			r.fault(dying, "the only agent dies; have another one to do its work")
		case l.Death.At >= s.Duration:
			r.fault(dying, "the agent dies after duration_seconds (%g)", s.Duration.Seconds())
		}
	}
	if text := s.Pulling.excess(s); text != "" {
		r.fault(spot{child(p.node, "duration_seconds"), ""}, "%s", text)
	}
}

// distinct checks that no two items of a list have the same name.
func (r *reader) distinct(p spot, key string, n int, name func(int) string) {
	seen := make(map[string]bool)
	for i := range n {
		if seen[name(i)] {
			at := item(p, key, i)
			r.fault(spot{at.node, join(p.path, at.path)}, "another one is called %q already; give it a name of its own", name(i))
		}
		seen[name(i)] = true
	}
}
