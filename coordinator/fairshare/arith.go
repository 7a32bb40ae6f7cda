package fairshare

import (
	"math"
	"math/bits"

	"taskbus/coordinator"
)

// noBound stands for "no upper bound".
const noBound int64 = math.MaxInt64

// most bounds every amount that is asked for or reported, so that sums of a few do not overflow:
// a thousand times what any configured limit can be. Where more than that many times most
// was used, the books say so much and no more.
const (
	most     int64 = 1 << 60
	mostUsed int64 = 1 << 61
	// mostGiven is how much of one reservation counts as given back: all that any limit can have.
	mostGiven int64 = 1 << 51
)

// tally is a sum of amounts of which each is at most most, however many there are. It is low + high·2⁶².
type tally struct{ low, high int64 }

// add adds an amount, or takes it off (sign -1).
func (t *tally) add(amount, sign int64) {
	const carry = 1 << 62
	switch t.low += sign * amount; {
	case t.low >= carry:
		t.low, t.high = t.low-carry, t.high+1
	case t.low < 0 && t.high > 0:
		t.low, t.high = t.low+carry, t.high-1
	}
}

// sum returns what it comes to, or mostUsed if that is less.
func (t *tally) sum() int64 {
	if t.high > 0 {
		return mostUsed
	}
	return min(t.low, mostUsed)
}

// tidy brings amounts into their range.
func tidy(a *coordinator.Amounts) {
	for d := range a {
		a[d] = min(max(0, a[d]), most)
	}
}

// dimensionsOf has a bit for each dimension of which something is asked, but for seats.
func dimensionsOf(a *coordinator.Amounts) (set uint8) {
	for d, amount := range a {
		if amount > 0 && coordinator.Dimension(d) != coordinator.DimConcurrency {
			set |= 1 << d
		}
	}
	return set
}

// saturate adds two amounts of which the second may be without bound; the first may be less
// than nothing.
func saturate(a, b int64) int64 {
	if b > 0 && a > noBound-b {
		return noBound
	}
	return a + b
}

// mulDiv returns a·b/c rounded down, mulDivUp rounded up, for numbers of at least 0 and c of at
// least 1; what does not fit is the largest number.
func mulDiv(a, b, c int64) int64 {
	if a <= 0 || b <= 0 {
		return 0
	}
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	if hi >= uint64(c) {
		return noBound
	}
	q, _ := bits.Div64(hi, lo, uint64(c))
	return int64(min(q, uint64(noBound)))
}

func mulDivUp(a, b, c int64) int64 {
	if a <= 0 || b <= 0 {
		return 0
	}
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	if hi >= uint64(c) {
		return noBound
	}
	q, r := bits.Div64(hi, lo, uint64(c))
	if q >= uint64(noBound) { // before it wraps
		return noBound
	}
	if r > 0 {
		q++
	}
	return int64(q)
}

// forever is a time that does not come.
const forever int64 = math.MaxInt64
