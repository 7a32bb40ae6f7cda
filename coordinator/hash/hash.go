package hash

import (
	"math/bits"
	"time"
)

// Of is FNV-1a over the text, finished with [Mix]: chance that repeats in a replay.
// Different seeds give unrelated hashes.
func Of(text string, seed uint64) uint64 {
	h := 14695981039346656037 ^ seed
	for i := 0; i < len(text); i++ {
		h = (h ^ uint64(text[i])) * 1099511628211
	}
	return Mix(h)
}

// Mix is the finishing step of SplitMix64 (Steele, Lea, Flood, OOPSLA 2014): every bit
// of h changes half of the bits of the result. Equal numbers give equal results.
func Mix(h uint64) uint64 {
	h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
	h = (h ^ h>>27) * 0x94d049bb133111eb
	return h ^ h>>31
}

// Stream is the generator SplitMix64: numbers that look random, and follow from its first value alone.
type Stream uint64

// Next is the next of them.
func (s *Stream) Next() uint64 {
	*s += 0x9e3779b97f4a7c15
	return Mix(uint64(*s))
}

// Unit makes a number strictly between 0 and 1 of a hash.
func Unit(h uint64) float64 { return (float64(h>>11) + 0.5) * 0x1p-53 }

// Spread is what is added to a wait of 0 or more that many are told, or keep, so that they do not all
// come at the moment at which it is over: less than a tenth of it, and less than a minute, by the
// chance of a hash. A longer wait is still the longer one with the same chance.
func Spread(wait time.Duration, chance uint64) time.Duration {
	more, _ := bits.Mul64(chance, uint64(min(wait/10, time.Minute)))
	return time.Duration(more)
}
