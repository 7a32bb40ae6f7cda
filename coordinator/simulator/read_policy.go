package simulator

import (
	"cmp"
	"math"
	"slices"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/strategy"
)

// settings reads what agents.yaml has under global_settings, learning and
// circuit_breaker, as far as it matters to a choice, under the same names.
func (r *reader) settings(s *coordinator.Settings) func(spot) {
	return func(p spot) {
		r.object(p, fields{
			"max_retry_attempts":            whole(r, &s.MaxRetryAttempts, 0, 100),
			"poisoned_after_agents":         whole(r, &s.PoisonedAfter, 1, 100),
			"stale_agent_threshold_seconds": r.setting(&s.StaleAfter, 0, true),
			"suspect_after_intervals":       whole(r, &s.SuspectIntervals, 0, 1000),
			"dead_after_intervals":          whole(r, &s.DeadIntervals, 0, 1000),
			"slow_start_seconds":            r.setting(&s.SlowStart, 0),
			"max_queue_size":                whole(r, &s.MaxQueueSize, 1, 10_000_000),
			"assignment_timeout_seconds":    r.setting(&s.AssignmentTimeout, 0),
			"max_load":                      r.number(&s.MaxLoad, 0, 2, true),
			"priority_order":                r.priorityOrder(&s.Priorities),
			"priority_weights":              r.priorityWeights(&s.Priorities),
			"eligible_statuses":             r.eligible(&s.BusyIsEligible),
			"learning":                      r.learning(&s.Learning),
			"circuit_breaker":               r.breaker(&s.Breaker),
		})
	}
}

// priorityOrder reads how priorities take turns.
func (r *reader) priorityOrder(o *coordinator.PriorityOrder) func(spot) {
	return func(p spot) {
		order := "weighted"
		oneOf(r, &order, "weighted", "strict")(p)
		o.Strict = order == "strict"
	}
}

// priorityWeights reads the weights of the priorities.
func (r *reader) priorityWeights(o *coordinator.PriorityOrder) func(spot) {
	return func(p spot) {
		all := fields{}
		for level := range o.Weights {
			all[coordinator.Priority(level).String()] = whole(r, &o.Weights[level], 1, coordinator.MaxPriorityWeight)
		}
		r.object(p, all)
	}
}

// eligible reads which reported statuses may get work; `ready` always may.
func (r *reader) eligible(busy *bool) func(spot) {
	return func(p spot) {
		*busy = false
		r.list(p, func(item spot) {
			var status string
			oneOf(r, &status, "ready", "busy")(item)
			*busy = *busy || status == "busy"
		})
	}
}

func (r *reader) learning(l *coordinator.Learning) func(spot) {
	return func(p spot) {
		hours := l.HalfLife.Hours()
		r.object(p, fields{
			"prior":              r.number(&l.Prior, 0.001, 0.999),
			"prior_weight":       r.number(&l.PriorWeight, 0.1, 10_000),
			"half_life_hours":    r.number(&hours, 0.01, 8760),
			"half_life_outcomes": r.number(&l.HalfLifeOutcomes, 1, 1e6),
		})
		l.HalfLife = time.Duration(hours * float64(time.Hour))
	}
}

func (r *reader) breaker(b *coordinator.Breaker) func(spot) {
	return func(p spot) {
		enabled := !b.Off
		r.object(p, fields{
			"enabled":            r.boolean(&enabled),
			"consecutive_faults": whole(r, &b.Consecutive, 1, 1000),
			"base_seconds":       r.setting(&b.Base, 0, true),
			"longest_seconds":    r.setting(&b.Longest, 0, true),
			"max_ejected_share":  r.number(&b.MaxShare, 0, 1, true),
		})
		b.Off = !enabled
	}
}

// variant reads a strategy: its name, or a mapping that says more.
func (r *reader) variant(p spot, settings coordinator.Settings) Variant {
	v := Variant{Exploration: strategy.Defaults().Exploration, Settings: settings}
	before := len(r.faults)
	if p.node.Value != "" {
		r.strategyName(&v.Strategy)(p)
	} else {
		r.object(p, fields{
			"name":             r.strategyName(&v.Strategy),
			"label":            r.text(&v.Label),
			"weights":          r.weights(&v.Weights),
			"affinity_label":   r.text(&v.AffinityLabel),
			"session_label":    r.text(&v.SessionLabel),
			"exploration":      r.number(&v.Exploration, 0, 1),
			"prefer":           oneOf(r, &v.Prefer, strategy.PreferGeneralists, strategy.PreferSpecialists),
			"formula":          r.formula(&v),
			"advertised_slots": whole(r, &v.Advertised, 1, math.MaxInt32),
			"reports":          oneOf(r, &v.Reports, ReportFull, ReportResults, ReportHeartbeats),
			"settings":         r.settings(&v.Settings),
		}, "name")
	}
	v.Label = cmp.Or(v.Label, v.Strategy)
	if len(r.faults) > before {
		return v
	}
	var score strategy.Score
	if v.Formula != "" { // it is compiled when it is played; here any will do
		score = func(*coordinator.Case, *coordinator.AgentView, *coordinator.Standing) (float64, error) { return 0, nil }
	}
	if _, err := v.build(0, score); err != nil {
		r.fault(p, "%s", err)
	}
	return v
}

// formula reads a formula, of one line or several, and notes where it stands.
func (r *reader) formula(v *Variant) func(spot) {
	return func(p spot) {
		r.lines(&v.Formula)(p)
		v.formulaAt = Fault{Source: r.source, Line: p.node.Line, Path: p.path}
	}
}

// strategyName reads the name of a strategy or of a reference.
func (r *reader) strategyName(into *string) func(spot) {
	return func(p spot) {
		if p.node.Value == strategy.MarketName {
			r.fault(p,
				"agents of a simulation do not bid, and a market without bids is the strategy that it falls back to, only slower; name that")
			return
		}
		known := append(slices.DeleteFunc(strategy.Names(), func(name string) bool { return name == strategy.MarketName }),
			References()...)
		if !slices.Contains(known, p.node.Value) {
			r.fault(p, "no strategy is called %s%s", found(p.node), DidYouMean(p.node.Value, known))
			return
		}
		*into = p.node.Value
	}
}

func (r *reader) weights(into *map[string]float64) func(spot) {
	return func(p spot) {
		*into = make(map[string]float64)
		r.entries(p, func(key string, _, value spot) {
			var w float64
			r.number(&w, 0, strategy.MaxWeight)(value)
			(*into)[key] = w
		})
	}
}
