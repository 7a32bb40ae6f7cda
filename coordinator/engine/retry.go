package engine

import (
	"time"

	"taskbus/coordinator"
)

// Back-off of a dispatch that came back: doubled with each attempt, capped, and
// spread over its upper half by a hash of task and attempt, so that what came
// back together does not go out together.
const (
	backoffFirst = 250 * time.Millisecond
	backoffMax   = 10 * time.Second
)

// backoff is how long to wait before the given attempt (2 is the first retry):
// between half and all of min(backoffMax, backoffFirst × 2^(attempt−2)).
func backoff(t *coordinator.Task, attempt int, seed uint64) time.Duration {
	d := backoffFirst
	for i := 2; i < attempt && d < backoffMax; i++ {
		d *= 2
	}
	d = min(d, backoffMax)
	h := hash64(coordinator.DispatchID(t.ID, attempt), seed)
	return d/2 + time.Duration(h%uint64(d/2+1))
}

// retryBudget bounds retries to a tenth of the first dispatches, so that a fleet
// that refuses everything does not drown in its own returns. On top of that a
// floor of retryFloor per second lets a quiet system retry at all.
type retryBudget struct {
	milli int64 // thousandths of a retry at hand
	at    time.Time
}

const (
	retryCost     = 1000
	retryEarned   = 100                                    // per first dispatch: 10 %
	retryFloor    = 10                                     // retries per second without any traffic
	retryBurst    = 100 * retryCost                        // what may be saved up
	earnEvery     = time.Second / (retryFloor * retryCost) // the time that earns a thousandth of a retry
	budgetRecheck = time.Second                            // how long an unaffordable retry waits at most
)

// earn credits one first dispatch.
func (b *retryBudget) earn() { b.milli = min(retryBurst, b.milli+retryEarned) }

// spend takes one retry out of the budget, or says how long to wait for one.
func (b *retryBudget) spend(now time.Time, spread uint64) (ok bool, wait time.Duration) {
	if b.at.IsZero() {
		b.milli = retryBurst
		b.at = now
	}
	if elapsed := now.Sub(b.at); elapsed > 0 {
		// Beyond the time that fills it, elapsed adds nothing (and would overflow).
		earned := min(elapsed, time.Hour) / earnEvery
		b.milli = min(retryBurst, b.milli+int64(earned))
		b.at = now.Add(-(elapsed % earnEvery)) // what is left over counts next time
	}
	if b.milli >= retryCost {
		b.milli -= retryCost
		return true, 0
	}
	const least = time.Second / retryFloor
	return false, least + time.Duration(spread%uint64(budgetRecheck-least))
}
