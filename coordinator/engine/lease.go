package engine

import (
	"cmp"
	"fmt"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/engine/internal/admission"
	"taskbus/coordinator/engine/internal/dedupe"
	"taskbus/coordinator/engine/internal/state"
)

// leaseRetry is how long an overdue lease waits while its result could not have come.
const leaseRetry = time.Second

// leaseExpired ends a task whose agent has not reported in time how it ended. The agent is sent the order to stop;
// its slot stays taken until its own report says otherwise.
func (k *kernel) leaseExpired(now time.Time, t *state.Task) {
	a := t.Agent
	switch {
	case k.Fleet.Deaf(): // no report could have reached us
		k.Timers.Schedule(&t.Expire, now.Add(leaseRetry))
		return
	case t.Unanswered: // should the broker still have it, it is as good as new
		k.Close(t, coordinator.FateForgotten, coordinator.Remembered{})
		return
	case !a.Tracked:
		k.LetGo(t)
		k.Discharge(t)
		k.wake(now, a)
		return
	}
	since := "the dispatch reached its queue"
	if !t.Renewed.IsZero() {
		since = "it last reported progress"
	} else if t.RunsFrom.Equal(t.Unlisted) {
		since = "its latest report that did not list the task yet"
	}
	reason, text := coordinator.ReasonTaskTimeout, fmt.Sprintf(
		"%s has not told how it ended: %s (timeout_seconds), and %s for its word, have passed since %s (dispatch %s)",
		a.Spec.ID, t.Timeout, state.LeaseMargin, since, t.DispatchID)
	fate := coordinator.FateTimedOut
	switch {
	case t.Withdrawn:
		reason, text = coordinator.ReasonCancelled, cmp.Or(t.CancelReason, "it was withdrawn")+fmt.Sprintf(
			"; %s was told and has not said within %s that it stopped", a.Spec.ID, t.Timeout)
		fate = coordinator.FateCancelled
		if r := k.RecordOf(t); r != nil {
			r.Flags |= dedupe.Overdue
		}
	case t.Returning:
		text = fmt.Sprintf("%s said that it gives it back, but it did not come back within %s (dispatch %s)", a.Spec.ID,
			t.Timeout, t.DispatchID)
	}
	k.AddPendingFailure(&coordinator.Fail{Task: t.Task, Failure: coordinator.Failure{
		Reason: reason, Text: text, Attempts: t.Tries + 1, FailedAt: now, Agent: a.Spec.ID,
	}})
	k.EndQuota(now, t, admission.Gone, nil)
	if !t.Returning && !t.Withdrawn {
		k.Withdraw(t, reason.String(), 0)
		k.FailedAt(now, a, t, coordinator.Learnt{Attribution: coordinator.AttributedTimeout})
		k.RecordFault(now, a, t)
	}
	k.Close(t, fate, coordinator.Remembered{})
}
