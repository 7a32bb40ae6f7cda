package simulator

import (
	"time"

	"taskbus/coordinator"
)

// priorityScenario reads the file of a scenario with a priorities section.
func (r *reader) priorityScenario(p spot, s *Scenario) {
	s.Drain = 0
	s.Priorities = &Priorities{Order: coordinator.PriorityOrder{Weights: coordinator.DefaultPriorityWeights()},
		Ageing: 5 * time.Second}
	r.object(p, fields{
		"about":      r.text(&s.About),
		"seeds":      r.seeds(&s.Seeds),
		"priorities": r.overload(s.Priorities),
	})
	if len(r.faults) == 0 {
		if text := s.Priorities.excess(len(s.Seeds)); text != "" {
			r.fault(p, "%s", text)
		}
	}
}

func (r *reader) overload(into *Priorities) func(spot) {
	return func(p spot) {
		r.object(p, fields{
			"slots":           whole(r, &into.Slots, 1, MaxSlots),
			"service_seconds": r.distribution(&into.Duration),
			"load":            r.number(&into.Load, 0.01, 100),
			"seconds":         r.seconds(&into.For, 0, true),
			"mix":             r.priorities(&into.Mix),
			"weights":         r.priorityWeights(&into.Order),
			"ageing_seconds":  r.seconds(&into.Ageing, 0, true),
		}, "slots", "service_seconds", "load", "seconds", "mix")
	}
}
