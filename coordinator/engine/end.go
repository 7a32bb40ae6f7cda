package engine

import (
	"strings"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/engine/internal/state"
	"taskbus/coordinator/fairshare"
)

// How tasks that are held end: with a failure, or given up until the broker delivers them again. Package ends
// stores what may have to be announced again.

// failWaiting fails a task for the reason that kept it waiting.
func (k *kernel) failWaiting(now time.Time, t *state.Task) {
	d := k.Explain(now, t, false)
	reason, text := k.ReasonOf(d, t)
	var back time.Time
	if lacks := k.lacking(now, t, d); lacks != nil {
		reason, text, back = coordinator.ReasonQuotaExhausted, lacks.Describe(), lacks.RetryAt
	}
	if t.Late(now) {
		reason = coordinator.ReasonDeadlineExceeded
	}
	k.Fail(now, t, reason, text+t.CameBefore()+k.WhyNow(now, t), d)
	if f, ok := k.Out[len(k.Out)-1].(*coordinator.Fail); ok {
		f.Failure.RetryAt = back
	}
}

// lacking is the quota for want of which a task waits: of its group's that are parked or, if
// there is an agent that could have it (one that comes out of its lane too late was not tried),
// its own; nil: it is not quota.
func (k *kernel) lacking(now time.Time, t *state.Task, d *coordinator.Decision) *fairshare.Verdict {
	if w := k.WaitAt(t.Needs.Class, k.LeafOf(t)); w != nil {
		return &w.Lacks
	}
	if d.Eligible == 0 {
		return nil
	}
	if r := k.QuotaMissing(now, t); r.Able == nil && r.Refused {
		return &r.Lacks
	}
	return nil
}

// inLane ends the task here: its lane has it.
func (k *kernel) inLane(now time.Time, t *state.Task) {
	delete(k.Held, t.Handle)
	if r := k.RecordOf(t); r != nil && t.Withdrawn { // it ends when it comes back
		k.Dedupe.Withdraw(r, t.CancelReason)
	}
	k.SetFate(t, coordinator.FateLaned, 0, t.Attempt-1, coordinator.Remembered{})
	k.SettleOver(&coordinator.Settled{Key: t.Key, At: now, Nowhere: true}) // its message of before
	k.Emit(coordinator.Ack{Handle: t.Handle})
	k.Tasks.Drop(t)
}

// forgetMoving gives up a task after its move was interrupted: its lane may have it, and the queue that it comes from
// has it again.
func (k *kernel) forgetMoving(t *state.Task) {
	if t.OwnMessage && t.Attempt == 1 { // what comes out of its lane may end it before this message comes again
		k.Messages.Unanswered(t.Key)
	}
	k.ForgetWithdrawn(t)
}

func joinIDs(ids []coordinator.AgentID) string {
	parts := make([]string, len(ids))
	for i, id := range ids {
		parts[i] = string(id)
	}
	return strings.Join(parts, ", ")
}
