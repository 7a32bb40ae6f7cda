package engine

import (
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/engine/internal/dedupe"
	"taskbus/coordinator/engine/internal/queue"
	"taskbus/coordinator/engine/internal/state"
)

// received takes a task from task.assign, unless it is known already.
func (k *kernel) received(now time.Time, ev coordinator.TaskReceived) {
	key := coordinator.KeyOf(ev.Task.ID)
	r := k.Lookup(now, key)
	if ev.Lane != "" {
		k.carryOut(k.Lanes.CameOut(now, ev.Lane))
		if t := k.Tasks.Of(r); t != nil && t.Stage == state.Moving && t.Task.ContentHash == ev.Task.ContentHash {
			k.cameEarly(t, ev)
			return
		}
	}
	var before *state.Task
	outOfLane, tried := k.mayBeLaneCopy(&ev, r), k.triedBefore(&ev, r)
	switch {
	case r == nil:
	case isLaneCopy(&ev, r):
		k.Emit(coordinator.Ack{Handle: ev.Handle, Copy: true})
		if ev.Redelivered {
			k.Messages.Came(key)
		}
		return
	// none that is in doubt: its lane has stored it
	case ev.Lane != "" && r.Fate == coordinator.FateLaned && r.Content == ev.Task.ContentHash:
		if r.Flags&dedupe.Withdrawn != 0 {
			k.failWithdrawn(now, &ev, key)
			return
		}
	case !r.Unconfirmed(ev.Redelivered) && k.isOwnMessage(&ev, key, r): // announced twice is better than never
		k.dropCopy(&ev, r)
		k.Messages.Acked(now, key)
		return
	case r.Fate.MayComeAgain(), r.Flags&dedupe.Adopted != 0:
	case r.Fate == coordinator.FateWithdrawn:
		k.failWithdrawn(now, &ev, key)
		return
	case r.Content != ev.Task.ContentHash:
		k.Refuse(now, ev.Handle, ev.Task, coordinator.ReasonDuplicateTask,
			"another task with this task_id and different content was seen before")
		return
	case r.Unconfirmed(ev.Redelivered):
		k.FailCancelled(now, k.Open(now, ev.Handle, ev.Task, key))
		return
	case r.Fate == coordinator.FateUnsettled:
		before = k.Tasks.Of(r)
	default:
		k.dropCopy(&ev, r)
		if r.Fate == coordinator.FateOpen || !ev.Redelivered {
			k.Emit(coordinator.Duplicate{Task: ev.Task})
		}
		return
	}
	t := k.Open(now, ev.Handle, ev.Task, key)
	t.MaybeDuplicate, t.OwnMessage, t.From = ev.Redelivered || ev.MaybeDuplicate || outOfLane, true, ev.Lane
	t.Tried, t.Tries = tried, len(tried)
	if before != nil {
		k.decideUnanswered(now, t, before)
		return
	}
	t.Fresh = !t.MaybeDuplicate
	k.admit(now, t)
	if c := t.Needs.Class; c != nil {
		k.asked(now, c)
	}
}

// dropCopy acknowledges a copy of a task that is known. If it names a queue for the answer, the task's end goes there:
// at once, if the task has ended by its agent's word; instead of where it was to go, if the task is open.
func (k *kernel) dropCopy(ev *coordinator.TaskReceived, r *dedupe.Record) {
	replyTo := ev.Task.ReplyTo
	if replyTo != "" && r.EndedByResult() && r.Ref != 0 && !k.toldThere(ev, r) { // one that has failed would begin anew
		k.Emit(&coordinator.Asked{Handle: ev.Handle, Task: ev.Task, Agent: k.Fleet.Named(r.Ref),
			Outcome: outcomeOf(r.Fate), Attempt: int(r.Attempt)})
		return
	}
	k.Emit(coordinator.Ack{Handle: ev.Handle, Copy: true})
	if t := k.Tasks.Of(r); replyTo != "" && t != nil && !r.Fate.HasEnded() && t.Task.ReplyTo != replyTo {
		k.Readdress(t, replyTo)
		k.Commit(&coordinator.Readdressed{Key: t.Key, ReplyTo: replyTo})
	}
}

// toldThere reports whether a message is the task's own, delivered once more, and names the queue that the task's end
// went to.
func (k *kernel) toldThere(ev *coordinator.TaskReceived, r *dedupe.Record) bool {
	end := k.Ends.Task(r.Key)
	return ev.Redelivered && end != nil && end.ReplyTo == ev.Task.ReplyTo
}

// failWithdrawn fails a task that was withdrawn before it came.
func (k *kernel) failWithdrawn(now time.Time, ev *coordinator.TaskReceived, key coordinator.TaskKey) {
	reason := k.Dedupe.Reason(key) // which open forgets
	t := k.Open(now, ev.Handle, ev.Task, key)
	t.CancelReason = reason
	k.FailCancelled(now, t)
}

// mayResume reports whether the task can go the same way again: its agent is there, and may still have it. It needs
// no free slot: the agent may be busy with this very task.
func (k *kernel) mayResume(now time.Time, t *state.Task, a *state.Agent) bool {
	if a.Number < 0 || a.State != coordinator.AgentOnline || a.Draining || a.QueueMissing || t.Late(now) {
		return false
	}
	t.Repeats = queue.RepeatAny // it is no other try
	if reason, _ := k.Resolve(t); reason == coordinator.ReasonNone && t.Needs.Class.Criteria.Set.Has(a.Number) {
		return true
	}
	t.Repeats = queue.NoRepeat
	return false
}

// resume sends a task whose dispatch was never answered, or has come back from
// an agent that still works on it, to the same agent under the same dispatch id,
// marked. It takes no slot that it did not have already.
func (k *kernel) resume(now time.Time, t, before *state.Task) {
	a := before.Agent
	t.MaybeDuplicate, t.Attempt = true, before.Attempt
	k.acceptedWith(t, before)
	covered := before.Covered && before.On()  // else it was given back since
	t.Quota, before.Quota = before.Quota, nil // it is the same dispatch
	k.Retire(before)
	k.Discharge(before) // dispatch counts it again
	t.Resumed, t.Service = true, before.Service
	k.dispatch(now, t, a, k.NoChoice(t.Needs.Strategy.Name, a))
	if t.Begun = before.Begun; t.Begun {
		t.Listed = before.Listed
		if !before.Deadline.IsZero() { // else its time begins with the confirm
			t.Deadline = before.Deadline.Add(max(0, t.Timeout-before.Timeout)) // the policy may grant more by now
			t.RunsFrom = before.RunsFrom
		}
	}
	if covered {
		k.Fleet.Cover(t.Agent, t)
	}
	k.wake(now, a) // by the policy of now it may need its agent to itself no more
}

// acceptedWith lets a task whose message came once more continue the life that it has: the ids of its dispatches
// depend on when it was accepted.
func (k *kernel) acceptedWith(t, before *state.Task) {
	if t.Task.AcceptedAt.Equal(before.Task.AcceptedAt) {
		return
	}
	same := *t.Task
	same.AcceptedAt = before.Task.AcceptedAt
	t.Task, t.Due = &same, queue.Due(&same)
}

// decideUnanswered decides a task again whose dispatch was published and never
// answered: the same way if that is possible, else as the next attempt; the first
// copy, which may have arrived, then goes on counting.
func (k *kernel) decideUnanswered(now time.Time, t, before *state.Task) {
	t.Tried, t.Failed = state.With(before.Tried, t.Tried...), state.With(before.Failed, t.Failed...)
	t.MaybeDuplicate = true
	t.Tries = max(t.Tries, before.Tries, len(t.Tried))
	if t.Last.Agent == "" {
		t.Last = before.Last
	}
	t.CancelReason, t.Attempt = before.CancelReason, before.Attempt
	// What has come back may be another dispatch than the one behind this.
	t.Untouched, t.Suspected = state.With(before.Untouched, t.Untouched...), state.With(before.Suspected, t.Suspected...)
	k.acceptedWith(t, before)
	k.spareSuspected(t)
	if !before.Withdrawn && k.mayResume(now, t, before.Agent) {
		k.resume(now, t, before)
		return
	}
	t.Attempt++
	k.Retire(before)
	if before.Withdrawn {
		k.Withdraw(before, before.CancelReason, before.CancelToken) // should it have arrived
		k.FailCancelled(now, t)
	} else {
		k.admit(now, t)
	}
	k.wake(now, before.Agent) // it may have had to be alone there
}

// wait makes the task pending for as long as it may be (see GoesOnUntil).
func (k *kernel) wait(now time.Time, t *state.Task) {
	if t.Until.IsZero() {
		t.Until = k.PendingUntil(now, t)
	}
	if t.Until = k.Within(t, t.Until); !t.Until.After(now) {
		t.Until = k.GoesOnUntil(now, t)
	}
	switch {
	case !t.Until.After(now):
		k.failWaiting(now, t)
		return
	case !k.rejudging && k.NeedsRoom(t) && k.Backlog() >= k.Policy.Settings.MaxQueueSize:
		k.failFull(now, t)
		return
	}
	t.Stage, t.Leaf, t.Level = state.Waiting, k.LeafOf(t), state.LevelOf(t)
	k.Pending.Count[t.Task.Priority]++
	k.Enter(now, t)
	k.Unpark(k.Quotas.Waits.Overtaken(t.Needs.Class, t.Leaf, t.Level, t), true)
	k.Claims.Wanted(t.Needs.Class.Usable)
	if at := t.Holdoffs.First(); !at.IsZero() {
		t.Until = coordinator.Later(t.Until, k.FindsBy(at, t))
	}
	k.Timers.Schedule(&t.Expire, t.Until)
	k.ScheduleWiden(t)
	k.joinLine(now, t)
	if t.Alone {
		k.Isolated.Add(t, t.Needs.Class, t.Leaf, t.Level)
	}
}

// leavePending ends a task's waiting or delay.
func (k *kernel) leavePending(t *state.Task) {
	k.CancelWiden(t)
	switch t.Stage {
	case state.Bidding:
		k.lotsFreed(k.Now, []state.Closed{k.abandon(k.Now, t)})
		return
	case state.Waiting:
		k.Quotas.Waits.Left(t.Needs.Class, t.Leaf, t)
		k.Pending.Leave(t)
	case state.Gathering:
		k.Batches.Leave(state.BatchKeyOf(t), t)
	}
	k.Isolated.Remove(t)
	k.carryOut(k.Lanes.Leave(k.Now, &t.Lane))
	k.Pending.Count[t.Task.Priority]--
	k.Timers.Cancel(&t.Expire)
	k.Timers.Cancel(&t.Retry)
	t.Stage = state.Deciding
}
