package breaker

import (
	"math"
	"time"
)

// rampFloor is the least share of its slots that an agent starts with.
const rampFloor = 0.1

// Ramp is how many of its slots an agent may use that has been there for that long
// (slow start, Envoy's formula):
//
//	max(1, ⌊slots · max(0.1, (since/window)^(1/aggression))⌋)
//
// With an aggression of 1 (what is not positive counts as that) they grow evenly
// over the window, above 1 faster at first. It bounds slots and is not a weight: a
// newcomer among newcomers gets work at once. A window of 0 switches it off.
func Ramp(slots int, since, window time.Duration, aggression float64) int {
	if slots <= 1 || window <= 0 || since >= window {
		return slots
	}
	if !(aggression > 0) {
		aggression = 1
	}
	share := math.Pow(max(0, since.Seconds()/window.Seconds()), 1/aggression)
	return min(slots, max(1, floor(float64(slots)*max(rampFloor, share))))
}
