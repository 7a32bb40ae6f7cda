package simulator

import (
	"time"

	"taskbus/config/yamlconf"
	"taskbus/coordinator"
)

// priorityScenario reads the file of a scenario with a priorities section.
func (r *reader) priorityScenario(p spot, s *Scenario) {
	s.Drain = 0
	s.Priorities = &Priorities{Order: coordinator.PriorityOrder{Weights: coordinator.DefaultPriorityWeights()},
		Ageing: 5 * time.Second}
	r.Object(p, fields{
		"about":      r.text(&s.About),
		"seeds":      r.seeds(&s.Seeds),
		"priorities": r.overload(s.Priorities),
	})
	if len(r.Faults) == 0 {
		if text := s.Priorities.excess(len(s.Seeds)); text != "" {
			r.Fault(p, "%s", text)
		}
	}
}

func (r *reader) overload(into *Priorities) yamlconf.Reader {
	return func(p spot) {
		r.object(p, fields{
			"slots":           r.Whole(&into.Slots, 1, MaxSlots),
			"service_seconds": r.distribution(&into.Duration),
			"load":            r.Number(&into.Load, 0.01, 100),
			"seconds":         r.above0(&into.For),
			"mix":             r.priorities(&into.Mix),
			"weights":         r.priorityWeights(&into.Order),
			"ageing_seconds":  r.above0(&into.Ageing),
		}, "slots", "service_seconds", "load", "seconds", "mix")
	}
}
