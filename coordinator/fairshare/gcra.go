package fairshare

import "time"

// rate lets amount pass for every per, and burst of it at once. It is the generic cell
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
type rate struct {
	amount, burst int64 // at least 1
	per           int64 // ns, at least 1
	tau           int64 // ns: how far TAT may be ahead of now
	tat           int64 // ns since the Unix epoch; 0: full. It and nothing else changes
}

const (
	// longest is the bound of all durations in here, 36 years, and latestTAT that of TAT:
	// sums of them fit into 63 bits.
	longest   int64 = 1 << 60
	latestTAT int64 = 3 << 61
)

// newRate makes a rate that is full. Its burst takes at most 36 years to fill again: of a
// larger one only so much is left.
func newRate(amount int64, per time.Duration, burst int64) rate {
	r := rate{amount: amount, per: min(int64(per), longest)}
	r.burst = max(1, min(burst, mulDiv(longest, r.amount, r.per)))
	r.tau = r.increment(r.burst)
	if r.per%amount != 0 {
		// A burst that comes in small pieces is rounded up with each of them. It shall pass
		// none the less: as many ns more are allowed, as long as they are less than what
		// one more takes.
		r.tau += max(0, min(r.burst, r.per/amount)-1)
	}
	return r
}

// increment returns how long it takes for the cost to flow in, rounded up.
func (r *rate) increment(cost int64) int64 {
	return min(mulDivUp(cost, r.per, r.amount), longest)
}

// check reports whether the cost may pass now, and if not, after how many ns it may, if
// nothing else is taken: not 1 ns sooner. What is more than the burst never may (forever).
// No cost passes always. Nothing changes.
func (r *rate) check(now, cost int64) (ok bool, retryAfter int64) {
	switch {
	case cost <= 0:
		return true, 0
	case cost > r.burst:
		return false, forever
	}
	// The wait is positive only where TAT is after now, for no cost up to the burst is
	// longer than tau: therefore it is exact.
	wait := max(now, r.tat) + r.increment(cost) - r.tau - now
	return wait <= 0, max(0, wait)
}

// take charges the cost, whether it may pass or not: what is not there becomes a debt.
func (r *rate) take(now, cost int64) {
	if cost > 0 {
		r.tat = min(max(now, r.tat)+r.increment(cost), latestTAT)
	}
}

// correct puts right what has been taken for a reservation when it is known what it really
// was. What was too much is given back. What was too little is charged as if it were taken
// now: the bucket may have been full for long, and time in which nothing more flowed in does
// not pay for it. It becomes a debt, but leads to no debt of more than cap, so that calls are not refused
// for longer than cap·per/amount; a debt that is larger already stays as it is.
//
// What is given back after the bucket has filled up again is more than it could have held:
// up to reserved - actual beyond the burst.
func (r *rate) correct(now, reserved, actual, cap int64) {
	more := r.increment(actual) - r.increment(reserved)
	if actual <= reserved {
		r.tat = max(0, r.tat+more)
		return
	}
	limit := now + r.tau + r.increment(cap)
	r.tat = max(r.tat, min(max(now, r.tat)+more, limit, latestTAT))
}

// since is TAT, or 0 while it is full: for how long it has been makes no difference.
func (r *rate) since(now int64) int64 {
	if r.tat <= now {
		return 0
	}
	return r.tat
}

// remaining returns how much may pass now, in one piece: 0 to the burst.
func (r *rate) remaining(now int64) int64 {
	left := now + r.tau - max(now, r.tat)
	return min(mulDiv(left, r.amount, r.per), r.burst)
}

// forgive takes down a debt of more than a burst to one burst.
func (r *rate) forgive(now int64) {
	if r.amount > 0 {
		r.tat = min(r.tat, now+r.tau+r.increment(r.burst))
	}
}

// debt returns what must flow in before anything remains, in whole amounts, to the nearest.
func (r *rate) debt(now int64) int64 {
	if r.amount == 0 {
		return 0
	}
	return saturate(mulDiv(2*max(0, r.tat-now-r.tau), r.amount, r.per), 1) / 2
}

// resize makes it another rate, in which as much is left now as was before, in amounts: no
// more than the new burst, and no less debt. But what was a debt of one burst at most is no more
// than one of the new burst. By rounding it may lose up to 3 ns.
func (r *rate) resize(now, amount int64, per time.Duration, burst int64) {
	n := newRate(amount, per, burst)
	full := n.increment(n.burst)
	left := now + r.increment(r.burst) - max(now, r.tat)
	switch {
	case n.amount == r.amount && n.per == r.per && n.burst == r.burst:
		n.tat = r.tat
	case r.tat <= now && n.burst <= r.burst: // what is full stays full: rounding would take of it
	case left >= 0:
		n.tat = now + full - r.convert(left, &n) // before now, if it is more than the burst
	default:
		n.tat = min(now+full+r.convert(-left, &n)+3, latestTAT) // +3: debts are rounded up
		if -left <= r.tau {
			n.forgive(now)
		}
	}
	*r = n
}

// convert returns how long the amount that flows in in d ns takes with the rate n, rounded down
// by less than 3 ns.
func (r *rate) convert(d int64, n *rate) int64 {
	whole := mulDiv(d, r.amount, r.per)
	part := d*r.amount - whole*r.per // of an amount, in 1/per; the overflows cancel
	if whole == noBound {
		part = 0
	}
	return min(min(mulDiv(whole, n.per, n.amount), longest)+mulDiv(part, n.per, r.per)/n.amount, longest)
}
