package engine

import (
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/engine/internal/state"
)

// A task that came back is tried again by an agent that has not had it, if one is there, else by the agents that
// had it, after a longer wait: what prevented an agent from running it (a rate limit, a start that takes a while)
// is rarely over in a quarter of a second. Which of the two it is, is decided when the first wait is over, and once
// more if it waits for such an agent without success.
//
// That an agent asks not to be given it for a while (retry_after_ms) is no failure of the task, and no try.

// delay lets a returned task wait until it may be given away again.
func (k *kernel) delay(now time.Time, t *state.Task) {
	other, same, until := k.RetryRules().Delay(now, t.Task.ID, t.Tries, t.Came, t.MayAgain, t.Refused && !t.Exhausted)
	t.MayAgain, t.Stage = same, state.Delayed
	k.Pending.Count[t.Task.Priority]++
	t.Until = k.Within(t, until)
	k.Timers.Schedule(&t.Retry, other)
	k.Timers.Schedule(&t.Expire, t.Until)
}

// retryDue queues a returned task whose back-off is over for the retry budget. A task that its agent did not take
// in time, or lost, is placed at once: what a dead agent leaves behind is no storm of refusals, and is spread by
// the accept timeout.
func (k *kernel) retryDue(now time.Time, t *state.Task) {
	if t.Exhausted {
		k.leavePending(t)
		k.failExhausted(now, t)
		return
	}
	reason, _ := k.Resolve(t)
	switch at := k.heldOff(now, t); {
	case reason == coordinator.ReasonNone && !at.IsZero():
		k.waitUntil(t, at)
	case reason == coordinator.ReasonNone && now.Before(t.MayAgain) && !k.AnyThere(t, t.Tried):
		k.Timers.Schedule(&t.Retry, t.MayAgain)
	case t.Refused:
		k.Retries.Add(t)
		k.retryAffordable(now)
	default:
		k.leavePending(t)
		k.admit(now, t)
	}
}

// triesAgain has a task that has waited for an agent that has not had it go to any, if one that
// had it is there; false, and nothing has happened: none is, or the task is none of these.
func (k *kernel) triesAgain(now time.Time, t *state.Task) bool {
	until := k.FindsBy(now, t)
	if t.WaitedForOthers || len(t.Barred()) == 0 || now.Before(t.MayAgain) || !until.After(now) || !k.AnyThere(t, nil) {
		return false
	}
	k.leavePending(t)
	t.WaitedForOthers, t.Until = true, until
	k.admit(now, t)
	return true
}

// retryAffordable places returned tasks while the budget lasts.
func (k *kernel) retryAffordable(now time.Time) {
	for {
		t, wait, ok := k.Retries.Next(now, func(t *state.Task) bool { return t.Stage == state.Delayed })
		if !ok {
			if wait > 0 {
				k.Timers.Schedule(&k.retryEnd, now.Add(wait))
			}
			return
		}
		k.leavePending(t)
		t.Until = coordinator.Earlier(t.Until, k.Within(t, k.RetryRules().FindsBy(now)))
		k.admit(now, t)
	}
}

// holdOffAfterwards applies that an agent asks for time. Its message has come back before its result, and was taken
// for a refusal. It reports whether that still counts as a try.
func (k *kernel) holdOffAfterwards(now time.Time, t *state.Task, r *coordinator.Result) (counts bool) {
	k.HoldOff(now, t, r.Agent, r.RetryAfter)
	if !t.MayTryAgain() { // its next dispatch has counted it as a try
		return true
	}
	counts = !k.HoldsOffFreely(now, t)
	if !counts {
		if t.Tries--; len(t.Tried) > t.Tries { // else it had it before
			t.Tried, t.Untouched = state.Without(t.Tried, r.Agent), state.With(t.Untouched, r.Agent)
			k.ForgiveFault(now, t, r.Agent)
		}
		t.Exhausted = false
	}
	k.leavePending(t)
	k.Retries.Remove(t)
	k.delay(now, t)
	return counts
}

// heldOff is until when the task has to wait because agents ask for time; zero: it has not. The task has been resolved,
// and is again if some of these times are over.
func (k *kernel) heldOff(now time.Time, t *state.Task) time.Time {
	if n := len(t.Holdoffs); n > 0 {
		if t.Holdoffs = t.Holdoffs.After(now); len(t.Holdoffs) < n {
			k.Resolve(t)
		}
	}
	if len(t.Holdoffs) == 0 || !t.Holdoffs.Shared() && k.AnyThere(t, nil) {
		return time.Time{}
	}
	return t.Holdoffs.First()
}

// waitUntil has a delayed task wait until then, and for an agent after that.
func (k *kernel) waitUntil(t *state.Task, at time.Time) {
	t.Until = coordinator.Later(t.Until, k.FindsBy(at, t))
	k.Timers.Schedule(&t.Retry, at)
	k.Timers.Schedule(&t.Expire, t.Until)
}
