package simulator

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"taskbus/config/yamlconf"
)

// pullScenario reads the file of a scenario with a pulling section.
func (r *reader) pullScenario(p spot, s *Scenario) {
	s.Pulling, s.Drain = new(Pulling), 0
	r.object(p, fields{
		"about":            r.text(&s.About),
		"duration_seconds": r.above0(&s.Duration),
		"warm_up_seconds":  r.seconds(&s.WarmUp, 0),
		"seeds":            r.seeds(&s.Seeds),
		"pulling":          r.pulling(s.Pulling),
	}, "duration_seconds")
	if len(r.Faults) == 0 {
		r.pullTogether(p, s)
	}
}

func (r *reader) pulling(into *Pulling) yamlconf.Reader {
	return func(p spot) {
		r.object(p, fields{
			"agents":      listOf(r, &into.Agents, "agents", r.puller),
			"loads":       listOf(r, &into.Loads, "loads", r.pullLoad),
			"controllers": listOf(r, &into.Controllers, "controllers", r.pullController),
		}, "agents", "loads", "controllers")
	}
}

func (r *reader) puller(a *Puller) yamlconf.Reader {
	return func(p spot) {
		a.Slots = 10_000
		r.object(p, fields{
			"name":                      r.Text(&a.Name, aName),
			"capacity_items_per_second": r.Number(&a.Capacity, 0.001, maxPullCapacity),
			"slots":                     r.Whole(&a.Slots, 1, maxPullItems),
		}, "name", "capacity_items_per_second")
	}
}

func (r *reader) pullLoad(l *PullLoad) yamlconf.Reader {
	return func(p spot) {
		r.Object(p, fields{
			"label":               r.text(&l.Label),
			"items":               r.Whole(&l.Items, 1, maxPullItems),
			"arrivals_per_second": r.Above(&l.Rate, 0, maxPullCapacity),
			"death": func(p spot) {
				r.object(p, fields{"agent": r.Text(&l.Death.Agent, aName), "at_seconds": r.above0(&l.Death.At)},
					"agent", "at_seconds")
			},
		})
		if len(r.Faults) == 0 && (l.Items == 0) == (l.Rate == 0) {
			r.Fault(p, "must have either items (so many at any time) or arrivals_per_second")
		}
		if l.Label == "" && l.Items > 0 {
			l.Label = fmt.Sprintf("%d items at any time", l.Items)
		}
		l.Label = cmp.Or(l.Label, fmt.Sprintf("%g items arrive per second", l.Rate))
	}
}

// pullController reads a controller: its mode, or a mapping that says more.
func (r *reader) pullController(c *PullController) yamlconf.Reader {
	return func(p spot) {
		*c = PullController{MaxClaimItems: 100, Base: time.Second}
		fair := ""
		mode := r.OneOf(&c.Mode, string(PullFixed), string(PullLiteral), string(PullLiteralShare), string(PullEqual))
		if p.Node.Value != "" {
			mode(p)
		} else {
			r.object(p, fields{
				"mode":                       mode,
				"label":                      r.text(&c.Label),
				"max_claim_items":            r.Whole(&c.MaxClaimItems, 1, 10_000),
				"base_discovery_interval_ms": r.Milliseconds(&c.Base, 200*time.Millisecond, 10*time.Second),
				"grants":                     r.OneOf(&fair, "fair_part", "all"),
			}, "mode")
		}
		c.Label = cmp.Or(c.Label, string(c.Mode))
		c.FairPart = fair == "fair_part" || fair == "" && c.Mode == PullEqual
	}
}

// pullTogether checks what no single setting can be blamed for.
func (r *reader) pullTogether(p spot, s *Scenario) {
	here := p.Child("pulling", p)
	ok := r.within(here, "agents", len(s.Pulling.Agents), 1, maxPullers)
	ok = r.within(here, "loads", len(s.Pulling.Loads), 1, maxPullLoads) && ok
	ok = r.within(here, "controllers", len(s.Pulling.Controllers), 1, maxVariants) && ok
	if s.WarmUp >= s.Duration {
		r.Fault(p.Child("warm_up_seconds", p),
			"must be less than duration_seconds (%g), or nothing is left to measure", s.Duration.Seconds())
	}
	if !ok {
		return
	}
	distinct(r, here, "agents", s.Pulling.Agents, "name", func(a *Puller) string { return a.Name })
	distinct(r, here, "loads", s.Pulling.Loads, "label", func(l *PullLoad) string { return l.Label })
	distinct(r, here, "controllers", s.Pulling.Controllers, "label", func(c *PullController) string { return c.Label })
	for i := range s.Pulling.Loads {
		l := &s.Pulling.Loads[i]
		dying := here.Child("loads", here).Item(i)
		switch {
		case l.Death == Death{}:
		case !slices.ContainsFunc(s.Pulling.Agents, func(a Puller) bool { return a.Name == l.Death.Agent }):
			r.Fault(dying, "the agent %q that dies is none of the agents", l.Death.Agent)
		case len(s.Pulling.Agents) == 1:
			r.Fault(dying, "the only agent dies; have another one to do its work")
		case l.Death.At >= s.Duration:
			r.Fault(dying, "the agent dies after duration_seconds (%g)", s.Duration.Seconds())
		}
	}
	if text := s.Pulling.excess(s); text != "" {
		r.Fault(spot{Node: p.Child("duration_seconds", p).Node}, "%s", text)
	}
}
