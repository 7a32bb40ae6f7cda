package config

import (
	"time"

	"taskbus/coordinator"
)

// defaultLearning and defaultBreaker are the defaults of the packages learning and
// breaker, written out so that a file that repeats them has the same version.
func defaultLearning() coordinator.Learning {
	return coordinator.Learning{Prior: 0.9, PriorWeight: 10, HalfLife: 24 * time.Hour, HalfLifeOutcomes: 200}
}

func defaultBreaker() coordinator.Breaker {
	return coordinator.Breaker{Consecutive: 5, Base: 30 * time.Second, Longest: 300 * time.Second, MaxShare: 0.1}
}

// learning reads the section `learning`.
func (d *decoder) learning(c *Config) reader {
	l := &c.policy.Settings.Learning
	return func(p place) {
		hours := l.HalfLife.Hours()
		d.object(p, readers{
			"prior":              d.number(&l.Prior, 0.001, 0.999),
			"prior_weight":       d.number(&l.PriorWeight, 0.1, 10_000),
			"half_life_hours":    d.number(&hours, 0.01, 8760),
			"half_life_outcomes": d.number(&l.HalfLifeOutcomes, 1, 1e6),
		})
		l.HalfLife = time.Duration(hours * float64(time.Hour))
	}
}

// breaker reads the section `circuit_breaker`.
func (d *decoder) breaker(c *Config) reader {
	b := &c.policy.Settings.Breaker
	return func(p place) {
		enabled := true
		d.object(p, readers{
			"enabled":            d.boolean(&enabled),
			"consecutive_faults": whole(d, &b.Consecutive, 1, 1000),
			"base_seconds":       d.seconds(&b.Base, 1, day),
			"longest_seconds":    d.seconds(&b.Longest, 1, day),
			"max_ejected_share":  d.fraction(&b.MaxShare),
		})
		b.Off = !enabled
		longest := child(p, "longest_seconds", p)
		if b.Longest < b.Base && !d.faulty(longest.path) && !d.faulty(join(p.path, "base_seconds")) {
			d.fault(longest,
				"%d is less than base_seconds (%d): the first ejection would be longer than the longest; raise this or lower that",
				b.Longest/time.Second, b.Base/time.Second)
		}
	}
}

// checkIntervals sees that an agent is suspect before it is dead.
func (d *decoder) checkIntervals(p place, s *coordinator.Settings) {
	dead := child(p, "dead_after_intervals", p)
	if s.DeadIntervals > 0 && s.DeadIntervals <= s.SuspectIntervals && !d.faulty(dead.path) {
		d.fault(dead,
			"%d is not above suspect_after_intervals (%d): an agent would be dead before it is suspect; raise this or lower that", s.DeadIntervals, s.SuspectIntervals)
	}
}
