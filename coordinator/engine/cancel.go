package engine

import (
	"cmp"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/engine/internal/dedupe"
	"taskbus/coordinator/engine/internal/state"
)

// cancel withdraws a task in whatever state it is.
func (k *kernel) cancel(now time.Time, ev coordinator.CancelRequested) {
	key := coordinator.KeyOf(ev.Task)
	r := k.Lookup(now, key)
	answer := coordinator.CancelAnswered{Token: ev.Token, Task: ev.Task, State: coordinator.CancelTooLate}
	t := k.Tasks.Of(r)
	switch {
	case r == nil, r.Fate == coordinator.FateForgotten, r.Fate == coordinator.FateWithdrawn:
		attempt, reason := uint16(0), ev.Reason
		if r != nil {
			attempt, reason = r.Attempt, cmp.Or(reason, k.Dedupe.Reason(key))
		}
		_, r = k.Dedupe.Insert(now, key, 0, coordinator.FateWithdrawn, 0)
		r.Attempt = attempt
		k.Dedupe.KeepReason(key, reason)
		k.Noted(r, ev.Task, coordinator.Remembered{})
		answer.State = coordinator.CancelNoted
		for _, a := range k.Fleet.Agents { // of a coordinator before this one, perhaps
			if _, runs := a.Listed[ev.Task]; runs {
				answer.State, answer.Agent = coordinator.CancelAsked, a.Spec.ID
				k.Emit(coordinator.Withdraw{Agent: a.Spec.ID, Task: ev.Task, Reason: ev.Reason, Token: ev.Token})
			}
		}
	case t == nil && r.Fate == coordinator.FateLaned:
		k.withdrawLaned(r, ev.Reason)
		answer.State = coordinator.CancelDone
	case t != nil && t.Stage == state.Moving:
		k.withdrawMoving(t, ev.Reason)
		answer.State = coordinator.CancelDone
	case t == nil && r.Fate == coordinator.FateLetGo:
		k.Dedupe.Withdraw(r, ev.Reason)
		k.Noted(r, ev.Task, coordinator.Remembered{})
		answer.State, answer.Agent = coordinator.CancelAsked, k.Fleet.Named(r.Ref)
		k.Emit(coordinator.Withdraw{
			Agent: answer.Agent, Task: ev.Task, DispatchID: k.letGoID(ev.Task, int(r.Attempt)),
			Reason: ev.Reason, Token: ev.Token,
		})
	case t == nil && r.Fate == coordinator.FateCancelled && r.Ref == 0:
		answer.State = coordinator.CancelDone
	case t == nil:
		answer.Agent = k.Fleet.Named(r.Ref)
	case t.Stage == state.Waiting || t.Stage == state.Unscored || t.Stage == state.Delayed || t.Stage == state.Gathering ||
		t.Stage == state.Bidding:
		k.leavePending(t)
		t.CancelReason = ev.Reason
		k.FailCancelled(now, t)
		answer.State = coordinator.CancelDone
	default:
		c := t.LeaseChange()
		c.Withdrawn, c.Reason = true, ev.Reason
		k.ChangeLease(now, t, c)
		answer.State, answer.Agent = coordinator.CancelAsked, t.Agent.Spec.ID
		if t.Stage == state.Dispatching { // sent once the agent has it
			t.CancelToken = ev.Token
		} else {
			k.Withdraw(t, ev.Reason, ev.Token)
		}
	}
	k.Emit(answer)
}

// withdrawAgain repeats, in a new session, the cancel messages that may not have got through in the one before: an
// agent stops only when it receives such a message.
func (k *kernel) withdrawAgain() {
	for _, t := range k.Tasks.All {
		if t != nil && t.Withdrawn && t.Stage == state.Leased && !t.Returning {
			k.Withdraw(t, t.CancelReason, 0)
		}
	}
}

// letGoID is the dispatch id of an attempt that was let go of; empty when it was too long ago:
// whichever the agent has of the task.
func (k *kernel) letGoID(task coordinator.TaskID, attempt int) string {
	if t := k.Ends.Task(coordinator.KeyOf(task)); t != nil {
		return coordinator.DispatchID(t, attempt)
	}
	return ""
}

// withdrawMoving notes a cancel of a task that is on its way into its lane: it fails when
// it comes out, or is not taken. Should this leader end before either, the one that
// follows knows it as one that must not be assigned.
func (k *kernel) withdrawMoving(t *state.Task, reason string) {
	t.Withdrawn, t.CancelReason = true, reason
	if r := k.RecordOf(t); r != nil && k.Recorder.On {
		k.Commit(&coordinator.Remembered{
			Key: t.Key, ID: t.Task.ID, Content: r.Content, Fate: coordinator.FateWithdrawn,
			Seen: k.Dedupe.Seen(r), Attempt: t.Attempt - 1, Reason: reason,
		})
	}
}

// withdrawLaned notes a cancel of a task that is in its lane.
func (k *kernel) withdrawLaned(r *dedupe.Record, reason string) {
	if r.Flags&dedupe.Withdrawn == 0 {
		k.Dedupe.Withdraw(r, reason)
		k.Noted(r, "", coordinator.Remembered{})
	}
}
