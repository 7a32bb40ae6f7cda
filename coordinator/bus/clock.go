package bus

import "time"

// farthest is how far two clocks may be apart to be compared: one that has lost its battery tells 1970.
const farthest = 100 * 365 * 24 * time.Hour

// ClockOffset finds how far the broker's clock is ahead of ours (behind: negative), by a message of a
// stream that came at a time by ours. reached tells whether the broker stored it at t or later by its
// own (see [Since]). Clocks that are apart by no more than the tolerance give 0; other offsets are exact
// to a sixteenth, or to the second. ok is false when the answers fit no clock.
func ClockOffset(
	at time.Time, tolerance time.Duration, reached func(t time.Time) (bool, error),
) (offset time.Duration, ok bool, err error) {
	asked := func(d time.Duration) bool { // the offset is d or more
		if err != nil {
			return false
		}
		var yes bool
		yes, err = reached(at.Add(d))
		return yes
	}
	sign := time.Duration(1)
	beyond := asked // the offset is as far or farther in the direction of its sign
	if !asked(tolerance) {
		sign, beyond = -1, func(d time.Duration) bool { return !asked(-d) && err == nil }
		if err != nil || !beyond(tolerance) {
			return 0, err == nil, err
		}
	}
	low, high := tolerance, 2*tolerance
	for beyond(high) {
		if low, high = high, 2*high; low > farthest {
			return 0, false, nil
		}
	}
	for high-low > max(time.Second, low/16) {
		if middle := low + (high-low)/2; beyond(middle) {
			low = middle
		} else {
			high = middle
		}
	}
	if err != nil {
		return 0, false, err
	}
	return sign * low, true, nil
}
