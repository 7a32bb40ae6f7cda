package breaker

import (
	"math"
	"time"
)

// Settings of a [Set]. A value that is zero, or outside its range, is taken as the
// default. The defaults are those of Envoy's outlier detection, whose rules these
// are, but for the panic threshold.
type Settings struct {
	// Faults is how many tasks in a row an agent must fail to be ejected. Default 5.
	Faults int
	// Base is how long a breaker stays open the first time, and Max at most. Default
	// 30 and 300 seconds.
	Base, Max time.Duration
	// MaxShare is the share, up to 1, of the agents offering a capability that may be
	// ejected from it; one may be in any case. Default 0.1.
	MaxShare float64
	// PanicShare is the share, up to 1, beyond which ejection is ignored. Default 0.5.
	PanicShare float64
}

const (
	faultsDefault     = 5
	baseDefault       = 30 * time.Second
	maxDefault        = 300 * time.Second
	maxShareDefault   = 0.1
	panicShareDefault = 0.5
)

// withDefaults replaces what is not in its range; NaN is in none.
func (s Settings) withDefaults() Settings {
	if s.Faults <= 0 {
		s.Faults = faultsDefault
	}
	if s.Base <= 0 {
		s.Base = baseDefault
	}
	if s.Max <= 0 {
		s.Max = maxDefault
	}
	s.Max = max(s.Max, s.Base)
	if !(s.MaxShare > 0 && s.MaxShare <= 1) {
		s.MaxShare = maxShareDefault
	}
	if !(s.PanicShare > 0 && s.PanicShare <= 1) {
		s.PanicShare = panicShareDefault
	}
	return s
}

// limit is how many of n agents may be ejected.
func (s *Settings) limit(n int) int { return max(1, floor(s.MaxShare*float64(n))) }

// openFor is how long a breaker stays open that has opened that often of late.
func (s *Settings) openFor(opened int) time.Duration {
	if opened >= s.maxOpened() {
		return s.Max
	}
	return time.Duration(opened) * s.Base
}

// maxOpened is the multiplier that reaches Max. It is not counted beyond, so that
// an agent that has recovered is back to the first after Max at the latest.
func (s *Settings) maxOpened() int { return int((s.Max-1)/s.Base) + 1 }

// floor rounds down, but not what is a whole number but for the last bits of a
// float64: 0.29 × 100 is 28.999999999999996.
func floor(x float64) int { return int(math.Floor(x + 1e-9)) }
