package simulator

import (
	"cmp"
	"math"
	"slices"
	"time"

	"taskbus/config/yamlconf"
	"taskbus/coordinator"
	"taskbus/coordinator/strategy"
)

// settings reads what agents.yaml has under global_settings, learning and
// circuit_breaker, as far as it matters to a choice, under the same names.
func (r *reader) settings(s *coordinator.Settings) yamlconf.Reader {
	return func(p spot) {
		r.object(p, fields{
			"max_retry_attempts":            r.Whole(&s.MaxRetryAttempts, 0, 100),
			"poisoned_after_agents":         r.Whole(&s.PoisonedAfter, 1, 100),
			"stale_agent_threshold_seconds": r.time(&s.StaleAfter, leastSetting, 0, true),
			"suspect_after_intervals":       r.Whole(&s.SuspectIntervals, 0, 1000),
			"dead_after_intervals":          r.Whole(&s.DeadIntervals, 0, 1000),
			"slow_start_seconds":            r.time(&s.SlowStart, leastSetting, 0, false),
			"max_queue_size":                r.Whole(&s.MaxQueueSize, 1, 10_000_000),
			"assignment_timeout_seconds":    r.time(&s.AssignmentTimeout, leastSetting, 0, false),
			"max_load":                      r.Above(&s.MaxLoad, 0, 2),
			"priority_order":                r.OneOf(&s.Priorities.Strict, "weighted", "strict"),
			"priority_weights":              r.priorityWeights(&s.Priorities),
			"eligible_statuses":             r.eligible(&s.BusyIsEligible),
			"learning":                      r.learning(&s.Learning),
			"circuit_breaker":               r.breaker(&s.Breaker),
		})
	}
}

// priorityWeights reads the weights of the priorities.
func (r *reader) priorityWeights(o *coordinator.PriorityOrder) yamlconf.Reader {
	return func(p spot) {
		all := fields{}
		for level := range o.Weights {
			all[coordinator.Priority(level).String()] = r.Whole(&o.Weights[level], 1, coordinator.MaxPriorityWeight)
		}
		r.Object(p, all)
	}
}

// eligible reads which reported statuses may get work; `ready` always may.
func (r *reader) eligible(busy *bool) yamlconf.Reader {
	return func(p spot) {
		*busy = false
		r.Items(p, "statuses", func(item spot) {
			var status string
			r.OneOf(&status, "ready", "busy")(item)
			*busy = *busy || status == "busy"
		})
	}
}

func (r *reader) learning(l *coordinator.Learning) yamlconf.Reader {
	return func(p spot) {
		hours := l.HalfLife.Hours()
		r.object(p, fields{
			"prior":              r.Number(&l.Prior, 0.001, 0.999),
			"prior_weight":       r.Number(&l.PriorWeight, 0.1, 10_000),
			"half_life_hours":    r.Number(&hours, 0.01, 8760),
			"half_life_outcomes": r.Number(&l.HalfLifeOutcomes, 1, 1e6),
		})
		l.HalfLife = time.Duration(hours * float64(time.Hour))
	}
}

func (r *reader) breaker(b *coordinator.Breaker) yamlconf.Reader {
	return func(p spot) {
		enabled := !b.Off
		r.object(p, fields{
			"enabled":            r.Bool(&enabled),
			"consecutive_faults": r.Whole(&b.Consecutive, 1, 1000),
			"base_seconds":       r.time(&b.Base, leastSetting, 0, true),
			"longest_seconds":    r.time(&b.Longest, leastSetting, 0, true),
			"max_ejected_share":  r.Above(&b.MaxShare, 0, 1),
		})
		b.Off = !enabled
	}
}

// variant reads a strategy: its name, or a mapping that says more.
func (r *reader) variant(p spot, settings coordinator.Settings) Variant {
	v := Variant{Exploration: strategy.Defaults().Exploration, Settings: settings}
	before := len(r.Faults)
	if p.Node.Value != "" {
		r.strategyName(&v.Strategy)(p)
	} else {
		r.object(p, fields{
			"name":  r.strategyName(&v.Strategy),
			"label": r.text(&v.Label),
			"weights": mapOf(r, &v.Weights, "terms to weights",
				func(w *float64) yamlconf.Reader { return r.Number(w, 0, strategy.MaxWeight) }),
			"affinity_label":   r.text(&v.AffinityLabel),
			"session_label":    r.text(&v.SessionLabel),
			"exploration":      r.Number(&v.Exploration, 0, 1),
			"prefer":           r.OneOf(&v.Prefer, strategy.PreferGeneralists, strategy.PreferSpecialists),
			"formula":          r.formula(&v),
			"advertised_slots": r.Whole(&v.Advertised, 1, math.MaxInt32),
			"reports":          r.OneOf(&v.Reports, reports...),
			"settings":         r.settings(&v.Settings),
		}, "name")
	}
	v.Label = cmp.Or(v.Label, v.Strategy)
	if len(r.Faults) > before {
		return v
	}
	var score strategy.Score
	if v.Formula != "" { // it is compiled when it is played; here any will do
		score = func(*coordinator.Case, *coordinator.AgentView, *coordinator.Standing) (float64, error) { return 0, nil }
	}
	if _, err := v.build(0, score); err != nil {
		r.Fault(p, "%s", err)
	}
	return v
}

// formula reads a formula, of one line or several, and notes where it stands.
func (r *reader) formula(v *Variant) yamlconf.Reader {
	return func(p spot) {
		r.lines(&v.Formula)(p)
		v.formulaAt = Fault{Source: r.Source, Line: p.Node.Line, Column: p.Node.Column, Path: p.Path}
	}
}

// strategyName reads the name of a strategy or of a reference.
func (r *reader) strategyName(into *string) yamlconf.Reader {
	known := r.Known(into, "strategy", func() []string {
		names := slices.DeleteFunc(strategy.Names(), func(name string) bool { return name == strategy.MarketName })
		return append(names, References()...)
	})
	return func(p spot) {
		if p.Node.Value == strategy.MarketName {
			r.Fault(p,
				"agents of a simulation do not bid, and a market without bids is the strategy that it falls back to, only "+
					"slower; name that")
			return
		}
		known(p)
	}
}
