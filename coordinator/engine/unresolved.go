package engine

import (
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/engine/internal/dedupe"
	"taskbus/coordinator/engine/internal/state"
)

// What the end of a session, or of a coordinator before this one, leaves open: whether a message that was
// acknowledged will be delivered again (package unresolved counts them), and how tasks stand that another
// coordinator assigned.

// isOwnMessage reports whether a delivery is the message of a task that has ended, come
// again: because it was expected, or because a coordinator before this one assigned it
// and it was done. One that failed then is tried again instead: a message that was
// only prefetched by that coordinator is redelivered, too, and may be a new
// submission.
func (k *kernel) isOwnMessage(ev *coordinator.TaskReceived, key coordinator.TaskKey, r *dedupe.Record) bool {
	if !ev.Redelivered {
		return false
	}
	own := k.Messages.Came(key) && r.Content == ev.Task.ContentHash
	if !r.Fate.HasEnded() {
		return false
	}
	if r.Flags&dedupe.Adopted != 0 {
		if r.Fate.MayComeAgain() {
			return false
		}
		r.Content = ev.Task.ContentHash
		r.Flags &^= dedupe.Adopted
		k.Noted(r, ev.Task.ID, coordinator.Remembered{})
		return true
	}
	return own
}

// triedBefore is the agent from which the task came back, where its own message is delivered again before
// the one that came back, which alone knows of all agents before.
func (k *kernel) triedBefore(ev *coordinator.TaskReceived, r *dedupe.Record) []coordinator.AgentID {
	if r == nil || r.Fate != coordinator.FateForgotten || r.Flags&dedupe.WasTried == 0 ||
		r.Content != ev.Task.ContentHash || !ev.Redelivered {
		return nil
	}
	return state.With(nil, k.Fleet.Named(r.Ref))
}

// mayAdopt reports whether the result may be of a dispatch made by a coordinator before this one: its agent names a
// dispatch and is of the fleet, and either lists the task, or could have been given more time than has passed since
// its report and since we began. A dispatch is not too old while its result has not been announced. Where there is a
// journal, and it is empty, only an agent's list is evidence of such a dispatch.
func (k *kernel) mayAdopt(now time.Time, ev *coordinator.ResultReported, rec *dedupe.Record, attempt int) bool {
	r := &ev.Result
	a := k.Fleet.ByID[r.Agent]
	switch {
	case k.Replayed, a == nil, attempt <= 0, r.Outcome == coordinator.OutcomeRejected: // what is given back comes back
		return false
	case rec == nil, rec.Attempt == 0 && (rec.Fate == coordinator.FateForgotten || rec.Fate == coordinator.FateWithdrawn):
	case rec.Flags&dedupe.Adopted != 0 && rec.Fate.MayComeAgain() && attempt > int(rec.Attempt): // tried again after all
	default:
		return false
	}
	switch _, listed := a.Listed[r.Task]; {
	case listed:
		return true
	case k.Recorder.On: // an empty journal says that there was none
		return false
	case ev.Untold:
		return true
	}
	told := r.Timestamp
	if a.Clock.Known {
		told = a.Clock.Ours(told)
	}
	return now.Before(k.adoptUntil) && now.Sub(told) < k.adoptFor
}

// adopt counts the end of a task that a coordinator before this one assigned. Its message, should the broker still
// have it, is then known to be done. Results from the stream's past have been announced by the coordinator that
// read them as new, unless they say otherwise.
func (k *kernel) adopt(now time.Time, ev coordinator.ResultReported, attempt int) {
	r := &ev.Result
	a := k.Fleet.ByID[r.Agent]
	_, rec := k.Dedupe.Insert(now, coordinator.KeyOf(r.Task), 0, fateOf(r.Outcome), a.Serial)
	rec.Attempt, rec.Flags = dedupe.CapAttempt(attempt), dedupe.Adopted
	k.Noted(rec, r.Task, worked(r))
	k.Track(a)
	k.FinishedPast(now, a, r, attempt, false)
	if ev.Live || ev.Untold {
		k.Emit(&coordinator.Completed{Result: *r, Attempt: attempt, At: now})
	}
	k.wake(now, a)
}

// beginAdopting is called with every session; only the first counts.
func (k *kernel) beginAdopting(now time.Time) {
	if !k.adoptUntil.IsZero() {
		return
	}
	var longest time.Duration
	for _, a := range k.Fleet.Agents {
		longest = max(longest, a.Spec.Timeout)
	}
	if d := k.Fleet.Rules(); d != nil {
		longest = max(longest, d.Template.Timeout)
	}
	k.adoptFor = longest + state.LeaseMargin
	k.adoptUntil = now.Add(k.adoptFor)
}

// isLaneCopy reports whether a message out of a lane is a copy of a task that is taken care of
// otherwise. What a lane has and the journal does not say is in it is one: it was moved by
// a leader that ended before it could write that down, and its queue of before has it, too.
func isLaneCopy(ev *coordinator.TaskReceived, r *dedupe.Record) bool {
	if ev.Lane == "" || r.Content != ev.Task.ContentHash {
		return false
	}
	switch r.Fate {
	case coordinator.FateLaned, coordinator.FateForgotten, coordinator.FateWithdrawn, coordinator.FateUnsettled:
		return false // it goes on, or ends, with this message
	case coordinator.FateFailed: // it is not known whether that was announced, if it was held then
		return !ev.Redelivered
	case coordinator.FateCancelled:
		return !r.Unconfirmed(ev.Redelivered)
	}
	return true
}

// mayBeLaneCopy reports whether a task that comes out of a lane may have run, as far as is known:
// its id is forgotten, and a session has ended since it was accepted, so that another of its
// messages may have been in another queue.
func (k *kernel) mayBeLaneCopy(ev *coordinator.TaskReceived, r *dedupe.Record) bool {
	switch {
	case ev.Lane == "":
		return false
	case r == nil:
		return ev.Task.AcceptedAt.Before(k.Fleet.OpenedAt)
	}
	return r.Fate == coordinator.FateForgotten && r.Attempt > 0
}
