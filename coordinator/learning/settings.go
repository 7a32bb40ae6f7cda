package learning

import "time"

// Settings of a [Learner]. A value that is zero, or outside its range, is taken
// as the default.
type Settings struct {
	// Prior is the success rate, between 0.001 and 0.999, of an agent of a fleet of
	// which nothing is known yet. Default 0.9: a working agent succeeds mostly, so
	// that one which has shown 0.95 goes before a newcomer and a newcomer before
	// one which has shown 0.8; some ten outcomes of the fleet replace it.
	Prior float64
	// Weight is m: how many outcomes a prior counts for. Default 10.
	Weight float64
	// HalfLife is the age at which an outcome counts half; at least a second.
	// Default 24 hours.
	HalfLife time.Duration
	// HalfLifeOutcomes is after how many later outcomes an outcome counts half; at
	// least 1. Default 200.
	HalfLifeOutcomes float64
	// MaxTypes is how many task types have a record of their own; all others share one record.
	// Default 1024. Each costs 32 bytes for each agent, from its first outcome on.
	MaxTypes int
}

const (
	priorDefault            = 0.9
	weightDefault           = 10
	halfLifeDefault         = 24 * time.Hour
	halfLifeOutcomesDefault = 200
	maxTypesDefault         = 1024
)

// withDefaults replaces what is not in its range; NaN is in none.
func (s Settings) withDefaults() Settings {
	if !(s.Prior >= minSuccess && s.Prior <= maxSuccess) {
		s.Prior = priorDefault
	}
	if !(s.Weight > 0 && s.Weight <= 1e6) {
		s.Weight = weightDefault
	}
	if s.HalfLife < time.Second {
		s.HalfLife = halfLifeDefault
	}
	if !(s.HalfLifeOutcomes >= 1 && s.HalfLifeOutcomes <= 1e9) {
		s.HalfLifeOutcomes = halfLifeOutcomesDefault
	}
	if s.MaxTypes <= 0 {
		s.MaxTypes = maxTypesDefault
	}
	return s
}
