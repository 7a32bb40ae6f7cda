package fairshare

import (
	"taskbus/coordinator"
	"taskbus/coordinator/fairshare/billing"
)

const (
	// mostUsed is what the books say where more than that was used: of single amounts billing.Most is the bound.
	mostUsed int64 = 2 * billing.Most
	// mostGiven is how much of one reservation counts as given back: all that any limit can have.
	mostGiven int64 = 1 << 51
)

// tally is a sum of amounts of which each is at most billing.Most, however many there are. It is low + high·2⁶².
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

// dimensionsOf has a bit for each dimension of which something is asked, but for seats.
func dimensionsOf(a *coordinator.Amounts) (set uint8) {
	for d, amount := range a {
		if amount > 0 && coordinator.Dimension(d) != coordinator.DimConcurrency {
			set |= 1 << d
		}
	}
	return set
}
