package fairshare

import "taskbus/coordinator"

// Excess is that a settlement reports far more than was reserved: no estimate is that wrong, so the count
// is wrong, or a lie. It is charged all the same, as what is spent is spent, and may use up a pool for the
// rest of its period: operators must see it. The zero value says that there is none.
type Excess struct {
	Dimension      coordinator.Dimension
	Reserved, Used int64
}

// What is used is in excess beyond excessTimes what was reserved; less than leastEstimate in
// units of the dimension (tokens, millionths of a US dollar, requests) counts as that much, for a
// call of one token may well come to a thousand. Of what nothing was reserved there was no
// estimate.
const (
	excessTimes   = 1000
	leastEstimate = 1000
)

// excessOf finds the dimension in which most times as much was used as reserved, of several the
// first.
func excessOf(reserved, used *coordinator.Amounts) (x Excess) {
	times := int64(excessTimes)
	for d := range coordinator.DimConcurrency {
		if reserved[d] == 0 {
			continue
		}
		if n := (used[d] - 1) / max(reserved[d], leastEstimate); n >= times {
			times, x = n+1, Excess{d, reserved[d], used[d]}
		}
	}
	return x
}
