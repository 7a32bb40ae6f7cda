package queue

import (
	"slices"
	"time"
)

// Retries are the tasks that an agent has refused and that are past their back-off, first in, first out, until the
// budget allows another dispatch of them. It bounds retries to a tenth of the first dispatches, so that a fleet
// that refuses everything does not drown in its own returns. On top of that a floor of RetryFloor per second
// lets a quiet system retry at all.
type Retries[T comparable] struct {
	budget budget
	tasks  []T // those that wait for it no more are still among them
}

// budget is counted in thousandths of a retry.
type budget struct {
	milli int64
	at    time.Time // until when what is earned with time was counted; zero: nothing was spent yet
}

const (
	RetryFloor  = 10                                     // retries per second without any traffic
	RetryBurst  = 100                                    // retries that may be saved up
	retryCost   = 1000                                   // of one retry
	retryEarned = 100                                    // per first dispatch: 10 %
	mostMilli   = RetryBurst * retryCost                 // what may be saved up
	earnEvery   = time.Second / (RetryFloor * retryCost) // the time that earns a thousandth of a retry
)

// Earn credits one first dispatch.
func (r *Retries[T]) Earn() { r.budget.milli = min(mostMilli, r.budget.milli+retryEarned) }

// Add puts a task among those that wait for the budget.
func (r *Retries[T]) Add(t T) { r.tasks = append(r.tasks, t) }

// Next takes the next task out of those that wait, and the cost of its retry out of the budget. Those for
// which waits is false are left out. false: there is none, or it has to wait, for that long if no first
// dispatch earns anything.
func (r *Retries[T]) Next(now time.Time, waits func(T) bool) (t T, wait time.Duration, ok bool) {
	var none T
	for len(r.tasks) > 0 {
		if t = r.tasks[0]; waits(t) {
			if wait, ok = r.budget.spend(now); !ok {
				return none, wait, false
			}
		}
		r.tasks[0] = none
		if r.tasks = r.tasks[1:]; ok {
			return t, 0, true
		}
	}
	return none, 0, false
}

// Remove takes a task from those that wait for the budget.
func (r *Retries[T]) Remove(t T) {
	r.tasks = slices.DeleteFunc(r.tasks, func(o T) bool { return o == t })
}

// All returns the tasks that wait, or did, in their order.
func (r *Retries[T]) All() []T { return r.tasks }

// Clear removes all tasks that wait. What the budget has is kept.
func (r *Retries[T]) Clear() { r.tasks = nil }

// spend takes one retry out of the budget, or says how long it takes, without any traffic, to earn what is
// missing.
func (b *budget) spend(now time.Time) (wait time.Duration, ok bool) {
	if b.at.IsZero() {
		b.milli = mostMilli
		b.at = now
	}
	if elapsed := now.Sub(b.at); elapsed > 0 {
		// Beyond the time that fills it, elapsed adds nothing (and would overflow).
		earned := min(elapsed, time.Hour) / earnEvery
		b.milli = min(mostMilli, b.milli+int64(earned))
		b.at = now.Add(-(elapsed % earnEvery)) // what is left over counts next time
	}
	if b.milli >= retryCost {
		b.milli -= retryCost
		return 0, true
	}
	return time.Duration(retryCost-b.milli)*earnEvery - now.Sub(b.at), false
}
