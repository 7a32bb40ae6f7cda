package adjust

import (
	"math"
	"math/bits"
	"time"
)

// Due is how much of a budget is its owner's for a day: nominal · day / period, rounded down. All
// at least 0.
func Due(nominal int64, period, day time.Duration) int64 {
	return share(nominal, int64(day), int64(period))
}

// Part is how much of what siblings have used all together would have been one's by weight.
func Part(all, weight, weights int64) int64 { return share(all, weight, weights) }

// share is whole · part / of without overflow; 0 where of is 0.
func share(whole, part, of int64) int64 {
	if whole <= 0 || part <= 0 || of <= 0 {
		return 0
	}
	hi, lo := bits.Mul64(uint64(whole), uint64(part))
	if hi >= uint64(of) {
		return math.MaxInt64
	}
	q, _ := bits.Div64(hi, lo, uint64(of))
	return int64(min(q, math.MaxInt64))
}
