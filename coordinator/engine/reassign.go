package engine

import (
	"fmt"
	"slices"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/engine/internal/admission"
	"taskbus/coordinator/engine/internal/dedupe"
	"taskbus/coordinator/engine/internal/state"
)

// returned takes a dispatch that came back.
func (k *kernel) returned(now time.Time, ev coordinator.TaskReturned) {
	key := coordinator.KeyOf(ev.Task.ID)
	r := k.Lookup(now, key)
	if a := k.Fleet.Known(ev.Agent); a != nil {
		if t := a.Find(ev.Task.ID, ev.Attempt); t != nil && t.Over {
			k.Discharge(t) // what has ended otherwise has left the agent, too
			k.wake(now, a)
		}
	}
	if r != nil && r.Flags&dedupe.Adopted != 0 {
		r.Content = ev.Task.ContentHash // that of a task assigned by an earlier coordinator is not known
	}
	before := k.Tasks.Of(r) // the dispatch that came back, or a newer one that was never answered
	switch k.JudgeReturn(r, &ev) {
	case state.AnotherTask:
		k.Refuse(now, ev.Handle, ev.Task, coordinator.ReasonDuplicateTask,
			"it came back from an agent, but another task with this task_id and different content has been seen since")
		return
	case state.CopyOfKnown:
		// Dead-lettering is at-least-once, and what has ended may still come back.
		if before != nil && before.Stage < state.Dispatching && ev.Attempt == before.Attempt-1 {
			k.RecordReturned(before, 0, &ev)                      // a standby may still have it with its agent
			k.Commit(&coordinator.EndedBefore{Task: before.Task}) // and its end may be reported to it
		}
		k.Emit(coordinator.Ack{Handle: ev.Handle, Copy: true})
		return
	}
	flags, cancelled, reason := dedupe.Flags(0), false, k.Dedupe.Reason(key)
	if r != nil {
		flags, cancelled = r.Flags, r.Fate == coordinator.FateWithdrawn || r.Fate == coordinator.FateCancelled
	}
	t := k.Open(now, ev.Handle, ev.Task, key)
	if before != nil && before.Task.ReplyTo != "" && before.Task.ReplyTo != ev.Task.ReplyTo {
		k.Readdress(t, before.Task.ReplyTo) // a copy has named it since
	}
	t.Attempt = max(t.Attempt, ev.Attempt+1)
	t.Last = state.LastTry{Agent: ev.Agent, End: coordinator.EndOf(ev.Cause, ev.Redelivered, flags&dedupe.Attempted != 0)}
	if before != nil && before.Attempt == ev.Attempt {
		t.Last.End, t.Last.Said = coordinator.EndOf(ev.Cause, ev.Redelivered, before.Attempted), before.Said
	}
	if before != nil && before.Attempt <= ev.Attempt {
		known := before.Word()
		if ev.Cause != coordinator.ReturnTakenBack { // see history
			known |= dedupe.WasTried
		}
		k.RecordReturned(t, known, &ev)
	}
	if before != nil && before.Attempt == ev.Attempt {
		t.Lot = before.Lot // others have bid for it
	}
	from := k.Fleet.Known(ev.Agent)
	// A mark stays for good: an agent that it warned of may run the task for as long as that takes. Of a forgotten
	// dispatch it is not known whether it has ended.
	t.MaybeDuplicate = ev.Redelivered || ev.MaybeDuplicate || r == nil || before != nil && before.MaybeDuplicate ||
		mayReachAgent(ev.Cause, before)
	// What an agent gives back because it goes is no refusal.
	t.Refused = (ev.Cause == coordinator.ReturnRejected || ev.Cause == coordinator.ReturnDeliveryLimit) &&
		(from == nil || from.LeftAlone())
	counts := k.NoteTry(now, t, &ev, from, before, flags)
	k.spareSuspected(t)
	k.learnFromReturn(now, from, t, before, &ev)
	switch {
	case cancelled, flags&dedupe.Withdrawn != 0:
		t.CancelReason = reason
		k.FailCancelled(now, t)
	case before != nil && before.Attempt > ev.Attempt:
		k.decideUnanswered(now, t, before)
	case before == nil && lostChannel(ev.Cause) && from.Lists(ev.Task.ID) && k.resumeListed(now, t, from, &ev):
		// The same, of a dispatch that was made by a coordinator before this one.
	case before == nil:
		if from.Lists(ev.Task.ID) {
			k.stopLost(from, &ev)
		}
		k.retry(now, t, &ev, counts)
	case lostChannel(ev.Cause) && before.StillRuns() && k.resumeLost(now, t, before):
		// It has lost its channel, not its work.
	default: // a dispatch that is still on its way is held until it is settled
		if before.StillRuns() {
			k.stopLost(from, &ev)
		}
		t.Withdrawn, t.CancelReason = before.Withdrawn, before.CancelReason
		if ev.Cause == coordinator.ReturnExpired || ev.Cause == coordinator.ReturnTakenBack && !ev.Redelivered {
			k.EndQuota(now, before, admission.TakenBack, nil)
		}
		k.Retire(before)
		k.Discharge(before)
		k.wake(now, before.Agent) // its slot may serve another task that goes first
		k.retry(now, t, &ev, counts)
	}
}

// resumeLost sends a dispatch to the agent that has lost its channel and works on
// it; false, and nothing has happened, when it cannot. It is the same dispatch: the
// agent is not one that has had the task before.
func (k *kernel) resumeLost(now time.Time, t, before *state.Task) bool {
	tried, tries, failed, suspected := t.Tried, t.Tries, t.Failed, t.Suspected
	t.Tried, t.Tries, t.Failed, t.Suspected = before.Tried, before.Tries, before.Failed, before.Suspected
	if !k.mayResume(now, t, before.Agent) {
		t.Tried, t.Tries, t.Failed, t.Suspected = tried, tries, failed, suspected
		return false
	}
	k.resume(now, t, before)
	return true
}

// resumeListed is resumeLost for a dispatch of which nothing but its message is known: its agent
// lists the task, and what it says of its slots counts it.
func (k *kernel) resumeListed(now time.Time, t *state.Task, a *state.Agent, ev *coordinator.TaskReturned) bool {
	tried, tries, failed, suspected, attempt := t.Tried, t.Tries, t.Failed, t.Suspected, t.Attempt
	t.Tried, t.Failed, t.Suspected = state.Without(ev.Tried, a.Spec.ID), state.Without(ev.Failed, a.Spec.ID),
		slices.Clone(ev.Suspected)
	t.Tries = max(ev.Tries, len(t.Tried))
	if attempt != ev.Attempt+1 || !k.mayResume(now, t, a) {
		t.Tried, t.Tries, t.Failed, t.Suspected = tried, tries, failed, suspected
		return false
	}
	t.Attempt, t.MaybeDuplicate, t.Resumed = ev.Attempt, true, true
	k.dispatch(now, t, a, k.NoChoice(t.Needs.Strategy.Name, a))
	t.Begun, t.Listed = true, true
	k.Fleet.Cover(t.Agent, t)
	return true
}

// stopLost sends an agent that works on a task that has lost its channel the message that another agent gets it.
func (k *kernel) stopLost(a *state.Agent, ev *coordinator.TaskReturned) {
	if a != nil && !a.Gone() && lostChannel(ev.Cause) {
		k.Emit(coordinator.Withdraw{
			Agent: ev.Agent, Task: ev.Task.ID, DispatchID: coordinator.DispatchID(ev.Task, ev.Attempt),
			TraceID: ev.Task.CorrelationID,
			Reason:  "its message came back to the coordinator, and another agent gets the task",
		})
	}
}

// mayReachAgent reports whether an agent may run a dispatch that has come back. What was taken back may reach its
// agent all the same, should our session end before the broker has our acknowledgement. What an agent had in hand
// when its channel ended may go on there, unless it has reported that it ran the task, and does so no more.
func mayReachAgent(cause coordinator.ReturnCause, before *state.Task) bool {
	switch cause {
	case coordinator.ReturnTakenBack, coordinator.ReturnDeliveryLimit:
		return true
	case coordinator.ReturnExpired:
		return before == nil || !before.Begun || before.Listed || before.Agent.Listed == nil
	}
	return false
}

// lostChannel reports whether a dispatch that comes back so may still be worked on: its
// agent's channel ended, once after its time to be accepted or more often than its queue
// delivers a message.
func lostChannel(cause coordinator.ReturnCause) bool {
	return cause == coordinator.ReturnExpired || cause == coordinator.ReturnDeliveryLimit
}

// retry decides again what came back: another try, or an end. counts is what history says.
func (k *kernel) retry(now time.Time, t *state.Task, ev *coordinator.TaskReturned, counts bool) {
	switch {
	case t.Withdrawn:
		k.FailCancelled(now, t)
	case len(t.Failed) >= k.Policy.Settings.PoisonedAfter:
		k.failPoisoned(now, t)
	case counts && t.Tries >= k.Policy.Settings.MaxRetryAttempts:
		if a := k.Fleet.Known(ev.Agent); t.GaveBack != "" && a != nil && a.Tracked {
			t.Exhausted = true
			k.delay(now, t) // its result is on the way, and may report that the task failed on it
			return
		}
		k.failExhausted(now, t)
	case ev.Cause == coordinator.ReturnTakenBack:
		k.admit(now, t) // no agent refused it: there is nothing to wait for
	default:
		k.delay(now, t)
	}
}

// failExhausted ends a task that has come back as often as it may.
func (k *kernel) failExhausted(now time.Time, t *state.Task) {
	if len(t.BreakerFaults) >= k.Policy.Settings.PoisonedAfter {
		k.Forgive(now, t) // what so many turn away is no fault of theirs
	}
	k.Fail(now, t, coordinator.ReasonRetriesExhausted, fmt.Sprintf(
		"%s came back (max_retry_attempts: %d), the last one as %s: %s %s; tried: %s",
		state.Dispatches(t.Tries), k.Policy.Settings.MaxRetryAttempts, t.Last.End, t.Last.Agent, t.Last.End.Phrase(),
		joinIDs(t.Tried)), nil)
}

// failPoisoned parks a task that has failed on too many agents.
func (k *kernel) failPoisoned(now time.Time, t *state.Task) {
	k.Forgive(now, t)
	k.Fail(now, t, coordinator.ReasonPoisoned, fmt.Sprintf(
		"it failed on %d different agents (%s); the original is parked in task.dead", len(t.Failed), joinIDs(t.Failed)), nil)
}
