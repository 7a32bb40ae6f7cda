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
	h := coordinator.Hash(coordinator.AttemptID(t.ID, attempt), seed)
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
	retryPatience = 10 * time.Second                       // least time that a returned task has to find an agent
)

// earn credits one first dispatch.
func (b *retryBudget) earn() { b.milli = min(retryBurst, b.milli+retryEarned) }

// spend takes one retry out of the budget, or says how long it takes, without
// any traffic, to earn what is missing.
func (b *retryBudget) spend(now time.Time) (ok bool, wait time.Duration) {
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
	return false, time.Duration(retryCost-b.milli)*earnEvery - now.Sub(b.at)
}

// retryQueue holds the returned tasks whose back-off is over, first in, first
// out, until the budget affords them.
type retryQueue struct {
	tasks      []*openTask // those that have expired since are still among them
	affordable timer
}

func newRetryQueue() retryQueue { return retryQueue{affordable: newTimer(dutyBudget, nil, nil)} }

// delay lets a returned task wait for its back-off, then for the budget if an agent has refused it, then for
// an agent: for that as long as any other task may wait, but at least retryPatience, and all in all no
// longer than its message may be held.
func (e *Engine) delay(now time.Time, t *openTask) {
	due := now.Add(backoff(t.task, len(t.tried)+1, e.policy.Settings.Seed))
	t.state = stateDelayed
	e.pending.count[t.task.Priority]++
	t.until = e.findsBy(due, t)
	if t.refused && !t.exhausted {
		t.until = later(t.until, now.Add(e.policy.Settings.MaxTimeout))
	}
	if d := t.task.Deadline; !d.IsZero() && d.Before(t.until) {
		t.until = d
	}
	e.timers.schedule(&t.retry, due)
	e.timers.schedule(&t.expire, t.until)
}

// findsBy is until when a returned task that may be given away again from then on has to find an agent.
func (e *Engine) findsBy(from time.Time, t *openTask) time.Time {
	return from.Add(max(e.mayWait(t), retryPatience))
}

// retryDue queues a returned task whose back-off is over for the budget. One that
// its agent did not take in time, or lost, is placed at once: what a dead agent
// leaves behind is no storm of refusals, and is spread by the accept timeout.
func (e *Engine) retryDue(now time.Time, t *openTask) {
	if t.exhausted {
		e.leavePending(t)
		e.failExhausted(now, t, coordinator.ReturnRejected)
		return
	}
	if !t.refused {
		e.leavePending(t)
		e.admit(now, t)
		return
	}
	e.retries.tasks = append(e.retries.tasks, t)
	e.retryAffordable(now)
}

// retryAffordable places returned tasks while the budget lasts.
func (e *Engine) retryAffordable(now time.Time) {
	for len(e.retries.tasks) > 0 {
		t := e.retries.tasks[0]
		if t.state == stateDelayed {
			ok, wait := e.budget.spend(now)
			if !ok {
				e.timers.schedule(&e.retries.affordable, now.Add(wait))
				return
			}
			e.leavePending(t)
			t.until = earlier(t.until, e.findsBy(now, t))
			e.admit(now, t)
		}
		e.retries.tasks[0] = nil
		e.retries.tasks = e.retries.tasks[1:]
	}
}
