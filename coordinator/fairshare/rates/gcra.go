package rates

import (
	"taskbus/coordinator/fairshare/arith"
	"time"
)

// Bucket lets amount pass for every per, and burst of it at once. It is the generic cell
// rate algorithm (ITU-T I.371, "virtual scheduling"): instead of a bucket that fills by
// itself it keeps the one instant at which the bucket will be full again, the theoretical
// arrival time
//
//	TAT' = max(now, TAT) + cost·per/amount    passes  ⇔  TAT' - burst·per/amount ≤ now
//
// All in integers, ns since the Unix epoch. A charge is rounded up to the next ns, so that a
// rate is never faster than it should be, and slower by less than 1 ns for each call: rates
// above 1e9 per second are held to that by calls of one. "now" is of 1970 to 2116.
//
// # A clock that goes back
//
// A smaller now lets less pass, never more, for as long as it is smaller: TAT stays where it
// is. So whatever order the readings come in, of those within any window w no more than
// burst + w·amount/per, and 1 for rounding, passes, but for what correct gives back.
type Bucket struct {
	Amount, Burst int64 // at least 1
	Per           int64 // ns, at least 1
	Tau           int64 // ns: how far TAT may be ahead of now
	Tat           int64 // ns since the Unix epoch; 0: full. It and nothing else changes
}

const (
	// longest is the bound of all durations in here, 36 years, and latestTAT that of TAT:
	// sums of them fit into 63 bits.
	longest   int64 = 1 << 60
	latestTAT int64 = 3 << 61
)

// NewBucket makes a rate that is full. Its burst takes at most 36 years to fill again: of a
// larger one only so much is left.
func NewBucket(amount int64, per time.Duration, burst int64) Bucket {
	r := Bucket{Amount: amount, Per: min(int64(per), longest)}
	r.Burst = max(1, min(burst, arith.MulDiv(longest, r.Amount, r.Per)))
	r.Tau = r.increment(r.Burst)
	if r.Per%amount != 0 {
		// A burst that comes in small pieces is rounded up with each of them. It shall pass
		// none the less: as many ns more are allowed, as long as they are less than what
		// one more takes.
		r.Tau += max(0, min(r.Burst, r.Per/amount)-1)
	}
	return r
}

// increment returns how long it takes for the cost to flow in, rounded up.
func (r *Bucket) increment(cost int64) int64 {
	return min(arith.MulDivUp(cost, r.Per, r.Amount), longest)
}

// Check reports whether the cost may pass now, and if not, after how many ns it may, if
// nothing else is taken: not 1 ns sooner. What is more than the burst never may (forever).
// No cost passes always. Nothing changes.
func (r *Bucket) Check(now, cost int64) (ok bool, retryAfter int64) {
	switch {
	case cost <= 0:
		return true, 0
	case cost > r.Burst:
		return false, Forever
	}
	// The wait is positive only where TAT is after now, for no cost up to the burst is
	// longer than tau: therefore it is exact.
	wait := max(now, r.Tat) + r.increment(cost) - r.Tau - now
	return wait <= 0, max(0, wait)
}

// Take charges the cost, whether it may pass or not: what is not there becomes a debt.
func (r *Bucket) Take(now, cost int64) {
	if cost > 0 {
		r.Tat = min(max(now, r.Tat)+r.increment(cost), latestTAT)
	}
}

// Correct puts right what has been taken for a reservation when it is known what it really
// was. What was too much is given back. What was too little is charged as if it were taken
// now: the bucket may have been full for long, and time in which nothing more flowed in does
// not pay for it. It becomes a debt, but leads to no debt of more than cap, so that calls are not refused
// for longer than cap·per/amount; a debt that is larger already stays as it is.
//
// What is given back after the bucket has filled up again is more than it could have held:
// up to reserved - actual beyond the burst.
func (r *Bucket) Correct(now, reserved, actual, cap int64) {
	more := r.increment(actual) - r.increment(reserved)
	if actual <= reserved {
		r.Tat = max(0, r.Tat+more)
		return
	}
	limit := now + r.Tau + r.increment(cap)
	r.Tat = max(r.Tat, min(max(now, r.Tat)+more, limit, latestTAT))
}

// Since is TAT, or 0 while it is full: for how long it has been makes no difference.
func (r *Bucket) Since(now int64) int64 {
	if r.Tat <= now {
		return 0
	}
	return r.Tat
}

// Remaining returns how much may pass now, in one piece: 0 to the burst.
func (r *Bucket) Remaining(now int64) int64 {
	left := now + r.Tau - max(now, r.Tat)
	return min(arith.MulDiv(left, r.Amount, r.Per), r.Burst)
}

// Forgive takes down a debt of more than a burst to one burst.
func (r *Bucket) Forgive(now int64) {
	if r.Amount > 0 {
		r.Tat = min(r.Tat, now+r.Tau+r.increment(r.Burst))
	}
}

// Debt returns what must flow in before anything remains, in whole amounts, to the nearest.
func (r *Bucket) Debt(now int64) int64 {
	if r.Amount == 0 {
		return 0
	}
	return arith.Add(arith.MulDiv(2*max(0, r.Tat-now-r.Tau), r.Amount, r.Per), 1) / 2
}

// Resize makes it another rate, in which as much is left now as was before, in amounts: no
// more than the new burst, and no less debt. But what was a debt of one burst at most is no more
// than one of the new burst. By rounding it may lose up to 3 ns.
func (r *Bucket) Resize(now, amount int64, per time.Duration, burst int64) {
	n := NewBucket(amount, per, burst)
	full := n.increment(n.Burst)
	left := now + r.increment(r.Burst) - max(now, r.Tat)
	switch {
	case n.Amount == r.Amount && n.Per == r.Per && n.Burst == r.Burst:
		n.Tat = r.Tat
	case r.Tat <= now && n.Burst <= r.Burst: // what is full stays full: rounding would take of it
	case left >= 0:
		n.Tat = now + full - r.convert(left, &n) // before now, if it is more than the burst
	default:
		n.Tat = min(now+full+r.convert(-left, &n)+3, latestTAT) // +3: debts are rounded up
		if -left <= r.Tau {
			n.Forgive(now)
		}
	}
	*r = n
}

// convert returns how long the amount that flows in in d ns takes with the rate n, rounded down
// by less than 3 ns.
func (r *Bucket) convert(d int64, n *Bucket) int64 {
	whole := arith.MulDiv(d, r.Amount, r.Per)
	part := d*r.Amount - whole*r.Per // of an amount, in 1/per; the overflows cancel
	if whole == arith.NoBound {
		part = 0
	}
	return min(min(arith.MulDiv(whole, n.Per, n.Amount), longest)+arith.MulDiv(part, n.Per, r.Per)/n.Amount, longest)
}

// Follow takes over the level of a rate that was configured otherwise.
func (r *Bucket) Follow(now int64, old *Bucket) {
	if r.Amount == 0 || old.Amount == 0 {
		return
	}
	next := *old
	next.Resize(now, r.Amount, time.Duration(r.Per), r.Burst)
	*r = next
}

// rounding is for a million calls, each of which is charged to the next ns.
const rounding = int64(time.Millisecond)

// Passes is after how many ns, at most, the cost passes if as much is taken before as soon as it may be.
// Unless what is in the bucket is kept for these, others may have it first.
func (r *Bucket) Passes(now, before, cost int64, kept bool) int64 {
	flows := arith.MulDivUp(before, r.Per, r.Amount)
	if flows > longest {
		return arith.NoBound
	}
	lag := max(now, r.Tat) - now
	if !kept {
		lag = max(lag, r.Tau)
	}
	wait := lag + flows + r.increment(min(cost, r.Burst)) - r.Tau
	if wait <= 0 {
		return 0
	}
	return wait + rounding
}
