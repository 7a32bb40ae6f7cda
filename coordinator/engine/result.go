package engine

import (
	"cmp"
	"slices"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/engine/internal/admission"
	"taskbus/coordinator/engine/internal/dedupe"
	"taskbus/coordinator/engine/internal/state"
)

// attemptOf reads the attempt out of a dispatch id of the task; 0 when there is
// none, -1 when it is not one of this task.
func attemptOf(r *coordinator.Result) int {
	if r.DispatchID == "" {
		return 0
	}
	_, n, ok := coordinator.ParseDispatchID(r.Task, r.DispatchID)
	if !ok || n > dedupe.MaxAttempts {
		return -1
	}
	return n
}

// resulted applies one task.result. The first result of a task counts; what comes after it, or from an agent that
// never had the task, changes nothing.
func (k *kernel) resulted(now time.Time, ev coordinator.ResultReported) {
	k.takeResult(now, ev)
	if !ev.Untold {
		return
	}
	for _, f := range k.Out {
		if c, ok := f.(*coordinator.Completed); ok { // an agent may report it twice
			k.Ends.Announce(coordinator.KeyOf(c.Result.Task))
		}
	}
}

func (k *kernel) takeResult(now time.Time, ev coordinator.ResultReported) {
	r := &ev.Result
	rec := k.Lookup(now, coordinator.KeyOf(r.Task))
	attempt := attemptOf(r)
	if k.mayAdopt(now, &ev, rec, attempt) {
		k.adopt(now, ev, attempt)
		return
	}
	if rec == nil || attempt < 0 || rec.Attempt == 0 && rec.Fate != coordinator.FateOpen {
		k.refuseResult(ev, coordinator.ResultUnknown)
		return
	}
	t := k.Tasks.Of(rec)
	switch {
	case t == nil:
		k.resultOfClosed(now, ev, rec, attempt)
	case k.ofFormerLife(t, r):
		k.refuseResult(ev, coordinator.ResultUnknown)
	case t.Agent != nil && t.On() && t.Agent.Spec.ID == r.Agent && (attempt == 0 || attempt == t.Attempt),
		t.Returning && t.Agent.Spec.ID == r.Agent && (attempt == 0 || attempt == t.Attempt):
		k.resultOfLease(now, ev, t)
	case (slices.Contains(t.Tried, r.Agent) || slices.Contains(t.Untouched, r.Agent)) && attempt < t.Attempt:
		k.resultOfFormer(now, ev, t)
	case attempt > 0 && attempt < t.Attempt: // of a dispatch before this life of the task
		k.SettleLate(now, r, attempt)
		if a := k.Fleet.Known(r.Agent); a != nil {
			k.FinishedPast(now, a, r, attempt, false)
			defer k.wake(now, a)
		}
		k.refuseResult(ev, coordinator.ResultLate)
	default:
		k.refuseResult(ev, coordinator.ResultWrongAgent)
	}
}

// ofFormerLife reports whether a result is older than the task: of a task of the same id that was accepted before
// it, because its dispatch id says so, or because its agent, which may know tasks by their ids alone, has repeated
// what it reported of that one. A task that is marked may have been accepted by a coordinator before this one as
// well, not long before. If it was accepted by a clock that was ahead, nothing follows from what the agent's clock
// says.
func (k *kernel) ofFormerLife(t *state.Task, r *coordinator.Result) bool {
	life, _, _ := coordinator.ParseDispatchID(r.Task, r.DispatchID)
	first, window := t.Task.AcceptedAt, k.Policy.Settings.DedupeWindow
	if t.MaybeDuplicate {
		first = first.Add(-window)
	}
	if life != 0 && life < first.UnixMilli() {
		return true
	}
	a := k.Fleet.Known(r.Agent)
	return a != nil && a.Clock.Known && !r.Timestamp.IsZero() && !t.Task.AcceptedAt.After(k.Now) &&
		a.Clock.Ours(r.Timestamp).Before(t.Task.AcceptedAt.Add(-window))
}

// resultOfLease applies a result of the agent that has the dispatch.
func (k *kernel) resultOfLease(now time.Time, ev coordinator.ResultReported, t *state.Task) {
	r, a := &ev.Result, t.Agent
	if r.Outcome == coordinator.OutcomeRejected && t.Returning {
		k.refuseResult(ev, coordinator.ResultDuplicate)
		return
	}
	k.learnFrom(now, a, t, r)
	k.EndQuota(now, t, admission.Reported, r)
	if t.On() { // else it has said before that it gives it back
		a.Finished(now, &t.Dispatch, r)
		k.Discharge(t)
	}
	k.Fleet.Refresh(a) // what is known of it has changed in any case
	k.Track(a)
	if r.Outcome == coordinator.OutcomeRejected {
		c := t.LeaseChange()
		c.Returning, c.Begun, c.Said, c.RetryAfter = true, r.Attempted, state.Said(r.Error), r.RetryAfter
		k.ChangeLease(now, t, c)
		if t.Stage == state.Leased {
			if t.Unanswered { // it has arrived, and what comes back will be this dispatch
				t.Unanswered = false
				k.Dedupe.Update(t.Key, t.Record, coordinator.FateDispatched, t.Number, t.Attempt)
				k.Commit(&coordinator.Settled{Key: t.Key, Attempt: t.Attempt, At: t.Settled, Heard: true})
			}
			k.WatchLease(t) // it may be its agent's first message
		}
		k.Emit(coordinator.GivenBack{Result: *r, Attempt: t.Attempt})
		k.wake(now, a)
		return
	}
	k.Emit(&coordinator.Completed{Result: *r, Task: t.Task, Attempt: t.Attempt, At: now})
	k.Close(t, fateOf(r.Outcome), worked(r)) // one that is still on its way is held until it is settled
	k.wake(now, a)
}

// resultOfFormer applies a result of an agent whose dispatch came back, or was taken back, before: another agent
// has the task by now, or is about to get it. Completed work counts: the task has ended, and no agent needs to do
// it again. Anything else that it reports says nothing about the current dispatch.
func (k *kernel) resultOfFormer(now time.Time, ev coordinator.ResultReported, t *state.Task) {
	r := &ev.Result
	attempt := attemptOf(r)
	if attempt == 0 {
		attempt = t.Attempt - 1
	}
	k.SettleLate(now, r, attempt)
	if a := k.Fleet.Known(r.Agent); a != nil {
		k.Track(a)
		k.FinishedPast(now, a, r, attemptOf(r), false)
		defer k.wake(now, a)
	}
	switch {
	case r.Outcome == coordinator.OutcomeRejected && t.GaveBack == r.Agent:
		// The usual order: the message was faster than the result that explains it.
		t.GaveBack = ""
		t.Last.Said = state.Said(r.Error)
		counts := r.RetryAfter <= 0 || k.holdOffAfterwards(now, t, r)
		if r.Attempted {
			t.Last.End = coordinator.EndGivenUp
			if r.RetryAfter <= 0 {
				t.Failed = state.With(t.Failed, r.Agent)
			}
			if a := k.Fleet.Known(r.Agent); counts && a != nil {
				// its return has been put down to it already
				k.FailedAt(now, a, t, coordinator.Learnt{Attribution: coordinator.AttributedAgentFault})
			}
		}
		k.Commit(t.LeaseChange())
		if t.MayTryAgain() { // else its next dispatch has been recorded since
			k.RecordReturned(t, t.Last.Flags()|dedupe.WasTried,
				&coordinator.TaskReturned{Agent: r.Agent, Attempt: t.Attempt - 1})
		}
		k.Emit(coordinator.GivenBack{Result: *r, Attempt: t.Attempt - 1})
		k.poisonedInTime(now, t)
		return
	case r.Outcome != coordinator.OutcomeSucceeded:
		k.refuseResult(ev, coordinator.ResultLate)
		return
	}
	if a := k.Fleet.Known(r.Agent); a != nil {
		k.RecordOutcome(now, a, t, succeeded(r, r.Duration))
	}
	k.Emit(&coordinator.Completed{Result: *r, Task: t.Task, Attempt: attempt, Late: true, At: now})
	switch t.Stage {
	case state.Waiting, state.Unscored, state.Delayed, state.Bidding:
		k.leavePending(t)
		delete(k.Held, t.Handle)
		k.Emit(coordinator.Ack{Handle: t.Handle, Copy: true})
		k.SetFate(t, coordinator.FateSucceeded, k.Fleet.SerialOf(r.Agent), t.Attempt-1, worked(r))
		k.Tasks.Drop(t)
		k.Ends.Keep(now, t.Key, t.Task)
		k.Commit(&coordinator.EndedBefore{Task: t.Task}) // a snapshot knows nothing of what is pending
		return
	case state.Dispatching: // its agent is sent the order when it has it
		t.Withdrawn, t.CancelReason, t.CancelToken = true, "another agent has done it", 0
	default:
		if !t.Returning {
			k.Withdraw(t, "another agent has done it", 0)
		}
	}
	k.SetFate(t, coordinator.FateSucceeded, k.Fleet.SerialOf(r.Agent), t.Attempt, worked(r))
	k.Retire(t)
}

// poisonedInTime ends a task that waits to be tried again and turns out to have
// failed on too many agents.
func (k *kernel) poisonedInTime(now time.Time, t *state.Task) {
	if !t.MayTryAgain() || len(t.Failed) < k.Policy.Settings.PoisonedAfter {
		return
	}
	k.leavePending(t)
	k.failPoisoned(now, t)
}

// resultOfClosed is a result for a task that is not open: let go, ended, or given
// up until the broker delivers it again.
func (k *kernel) resultOfClosed(now time.Time, ev coordinator.ResultReported, rec *dedupe.Record, attempt int) {
	r := &ev.Result
	a := k.Fleet.Known(r.Agent)
	had := rec.Ref != 0 && k.Fleet.Named(rec.Ref) == r.Agent && (attempt == 0 || attempt == int(rec.Attempt))
	switch {
	case rec.Fate == coordinator.FateWithdrawn && rec.Attempt == 0:
		k.refuseResult(ev, coordinator.ResultUnknown)
	case (rec.Fate == coordinator.FateLetGo || rec.Fate == coordinator.FateForgotten) && had &&
		rec.Flags&dedupe.Returning == 0:
		k.SettleLate(now, r, int(rec.Attempt))
		if a != nil {
			k.FinishedPast(now, a, r, attempt, true)
			k.Track(a)
			defer k.wake(now, a)
		}
		if r.Outcome == coordinator.OutcomeRejected { // it will come back
			rec.Flags |= dedupe.Returning
			if r.Attempted {
				rec.Flags |= dedupe.Attempted
			}
			k.Noted(rec, r.Task, coordinator.Remembered{})
			k.Emit(coordinator.GivenBack{Result: *r, Attempt: int(rec.Attempt)})
			return
		}
		if rec.Fate == coordinator.FateForgotten { // the broker delivers it again
			k.Messages.Expect(coordinator.KeyOf(r.Task))
		}
		rec.Fate = fateOf(r.Outcome)
		k.Noted(rec, r.Task, worked(r))
		k.Emit(&coordinator.Completed{Result: *r, Task: k.EndsLate(now, rec.Key), Attempt: int(rec.Attempt), At: now})
	case rec.EndedByResult() && had:
		k.tellAgain(now, ev, rec, int(rec.Attempt))
		k.refuseResult(ev, coordinator.ResultDuplicate)
	case had || attempt != 0 && attempt <= int(rec.Attempt):
		k.SettleLate(now, r, cmp.Or(attempt, int(rec.Attempt)))
		if rec.Ref != 0 && k.Fleet.Named(rec.Ref) == r.Agent {
			k.tellAgain(now, ev, rec, attempt)
		}
		if a != nil {
			k.FinishedPast(now, a, r, attempt, false)
			defer k.wake(now, a)
		}
		if had && rec.Fate == coordinator.FateTimedOut && ev.Live {
			k.Noted(rec, r.Task, coordinator.Remembered{Late: &r.Outcome})
		}
		k.refuseResult(ev, coordinator.ResultLate)
	default:
		k.refuseResult(ev, coordinator.ResultWrongAgent)
	}
}

// worked has the record of an end say how long its agent worked. What an agent says of an error may quote the payload:
// task.result has that.
func worked(r *coordinator.Result) coordinator.Remembered {
	return coordinator.Remembered{Work: r.Duration}
}

// tellAgain announces an end that is known from the journal, but perhaps not to the
// world: its result is read for the second time because its leader died.
func (k *kernel) tellAgain(now time.Time, ev coordinator.ResultReported, rec *dedupe.Record, attempt int) {
	r := &ev.Result
	k.Ends.Heard(now, rec.Key)
	told := r.Outcome.Final() && rec.EndedByResult() && rec.Fate == fateOf(r.Outcome)
	if ev.Untold && told && !k.Ends.IsAnnounced(rec.Key) {
		attempt = cmp.Or(attempt, int(rec.Attempt))
		k.Emit(&coordinator.Completed{Result: *r, Task: k.Ends.Task(rec.Key), Attempt: attempt,
			Late: attempt < int(rec.Attempt), At: now})
	}
}

// refuseResult announces that a result changed nothing. Results that are repeated from the stream's past are not
// announced.
func (k *kernel) refuseResult(ev coordinator.ResultReported, why coordinator.ResultRefusal) {
	if ev.Live {
		r := &ev.Result
		k.Emit(coordinator.ResultRefused{
			Task: r.Task, Agent: r.Agent, Refusal: why, Outcome: r.Outcome, Attempt: max(0, attemptOf(r)),
		})
	}
}

// outcomeOf is the outcome by which a task has ended that may not come again.
func outcomeOf(f coordinator.Fate) coordinator.Outcome {
	if f == coordinator.FateCancelled {
		return coordinator.OutcomeCancelled
	}
	return coordinator.OutcomeSucceeded
}

func fateOf(o coordinator.Outcome) coordinator.Fate {
	switch o {
	case coordinator.OutcomeSucceeded:
		return coordinator.FateSucceeded
	case coordinator.OutcomeCancelled:
		return coordinator.FateCancelled
	default:
		return coordinator.FateGaveUp
	}
}
