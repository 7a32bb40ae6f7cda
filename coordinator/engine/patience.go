package engine

import (
	"fmt"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/engine/internal/queue"
	"taskbus/coordinator/engine/internal/state"
)

// How long a task may wait. That others are before it is no reason to fail: a queue is there for
// that. That no agent can take it is, after the assignment timeout. So the timeout runs only while
// nothing moves for the tasks of its class, which is looked at when it is over, and not with every
// dispatch: the latest moment at which something moved is found from the agents of the class then,
// and the timer of the task set again. What bounds the wait whatever moves is in within.

// expired ends the waiting of a task that no agent could take in time, or the lease of one whose agent has not
// reported in time how it ended.
func (k *kernel) expired(now time.Time, t *state.Task) {
	if t.Stage == state.Leased {
		k.leaseExpired(now, t)
		return
	}
	delayed := t.Stage == state.Delayed
	if !delayed {
		if !k.Awaits(now, t) && k.triesAgain(now, t) {
			return
		}
		if until := k.GoesOnUntil(now, t); until.After(now) {
			t.Until = until
			k.Timers.Schedule(&t.Expire, until)
			return
		}
		if k.widenNow(now, t) { // rather than fail
			return
		}
	}
	k.leavePending(t)
	switch {
	case !delayed:
		k.failWaiting(now, t)
	case t.Late(now):
		k.Fail(now, t, coordinator.ReasonDeadlineExceeded, "the deadline has passed", nil)
	default:
		k.Fail(now, t, coordinator.ReasonRetriesExhausted, fmt.Sprintf(
			"so much came back that the retry budget (a tenth of the first dispatches plus %d a second) did not allow "+
				"another dispatch in time%s",
			queue.RetryFloor, t.CameBefore()), nil)
	}
}

// A task's preferred agents are tried first, and any other may have it at once when none of them has room.
// With widen_after_seconds it waits for them alone until then, and belongs to a class of its own as
// long: others that need the same do not wait behind it. When the time has come, or it would fail for want
// of an agent, it joins the class of all that need the same.

// widenLook is after how long an overdue task is checked again while bids are accepted for it, or it waits for its
// batch.
const widenLook = time.Second

// widenDue lets more agents have the task.
func (k *kernel) widenDue(now time.Time, t *state.Task) {
	switch t.Stage {
	case state.Waiting, state.Unscored:
		if at := t.Holdoffs.First(); at.IsZero() || at.After(now) {
			k.widenNow(now, t)
			return
		}
		k.leavePending(t)
		k.admit(now, t)
	case state.Gathering, state.Bidding:
		k.Timers.Schedule(t.Widen, now.Add(widenLook))
	}
}

// widenNow has a task that waits for its preferred agents alone judged anew, as one that any may have;
// false: it waits for any already.
func (k *kernel) widenNow(now time.Time, t *state.Task) bool {
	if !t.Narrow() {
		return false
	}
	k.leavePending(t)
	t.Widened = true
	k.admit(now, t)
	return true
}
