package engine

import (
	"cmp"
	"slices"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/engine/internal/dedupe"
	"taskbus/coordinator/learning"
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
func (e *Engine) resulted(now time.Time, ev coordinator.ResultReported) {
	e.takeResult(now, ev)
	if !ev.Untold {
		return
	}
	for _, f := range e.out {
		if c, ok := f.(*coordinator.Completed); ok { // an agent may report it twice
			e.ends.Announce(coordinator.KeyOf(c.Result.Task))
		}
	}
}

func (e *Engine) takeResult(now time.Time, ev coordinator.ResultReported) {
	r := &ev.Result
	rec := e.lookup(now, coordinator.KeyOf(r.Task))
	attempt := attemptOf(r)
	if e.mayAdopt(now, &ev, rec, attempt) {
		e.adopt(now, ev, attempt)
		return
	}
	if rec == nil || attempt < 0 || rec.Attempt == 0 && rec.Fate != coordinator.FateOpen {
		e.refuseResult(ev, coordinator.ResultUnknown)
		return
	}
	t := e.tasks.of(rec)
	switch {
	case t == nil:
		e.resultOfClosed(now, ev, rec, attempt)
	case e.ofFormerLife(t, r):
		e.refuseResult(ev, coordinator.ResultUnknown)
	case t.agent != nil && t.On() && t.agent.Spec.ID == r.Agent && (attempt == 0 || attempt == t.attempt),
		t.returning && t.agent.Spec.ID == r.Agent && (attempt == 0 || attempt == t.attempt):
		e.resultOfLease(now, ev, t)
	case (slices.Contains(t.tried, r.Agent) || slices.Contains(t.untouched, r.Agent)) && attempt < t.attempt:
		e.resultOfFormer(now, ev, t)
	case attempt > 0 && attempt < t.attempt: // of a dispatch before this life of the task
		e.settleLate(now, r, attempt)
		if a := e.fleet.Known(r.Agent); a != nil {
			e.finishedPast(now, a, r, attempt, false)
			defer e.wake(now, a)
		}
		e.refuseResult(ev, coordinator.ResultLate)
	default:
		e.refuseResult(ev, coordinator.ResultWrongAgent)
	}
}

// ofFormerLife reports whether a result is older than the task: of a task of the same id that was accepted before
// it, because its dispatch id says so, or because its agent, which may know tasks by their ids alone, has repeated
// what it reported of that one. A task that is marked may have been accepted by a coordinator before this one as
// well, not long before. If it was accepted by a clock that was ahead, nothing follows from what the agent's clock
// says.
func (e *Engine) ofFormerLife(t *openTask, r *coordinator.Result) bool {
	life, _, _ := coordinator.ParseDispatchID(r.Task, r.DispatchID)
	first, window := t.task.AcceptedAt, e.policy.Settings.DedupeWindow
	if t.maybeDuplicate {
		first = first.Add(-window)
	}
	if life != 0 && life < first.UnixMilli() {
		return true
	}
	a := e.fleet.Known(r.Agent)
	return a != nil && a.Clock.Known && !r.Timestamp.IsZero() && !t.task.AcceptedAt.After(e.now) &&
		a.Clock.Ours(r.Timestamp).Before(t.task.AcceptedAt.Add(-window))
}

// resultOfLease applies a result of the agent that has the dispatch.
func (e *Engine) resultOfLease(now time.Time, ev coordinator.ResultReported, t *openTask) {
	r, a := &ev.Result, t.agent
	if r.Outcome == coordinator.OutcomeRejected && t.returning {
		e.refuseResult(ev, coordinator.ResultDuplicate)
		return
	}
	e.learnFrom(now, a, t, r)
	e.settleQuota(now, t, r)
	if t.On() { // else it has said before that it gives it back
		a.Finished(now, &t.Dispatch, r)
		e.discharge(t)
	}
	e.fleet.Refresh(a) // what is known of it has changed in any case
	e.track(a)
	if r.Outcome == coordinator.OutcomeRejected {
		t.returning, t.attempted, t.said, t.retryAfter = true, r.Attempted, said(r.Error), r.RetryAfter
		e.leaseChanged(t)
		if t.state == stateLeased {
			if t.unanswered { // it has arrived, and what comes back will be this dispatch
				t.unanswered = false
				e.dedupe.Update(t.key, t.record, coordinator.FateDispatched, t.number, t.attempt)
				e.record(&coordinator.Settled{Key: t.key, Attempt: t.attempt, At: now, Heard: true})
			}
			e.watchLease(t) // it may be its agent's first message
		}
		e.emit(coordinator.GivenBack{Result: *r, Attempt: t.attempt})
		e.wake(now, a)
		return
	}
	e.emit(&coordinator.Completed{Result: *r, Task: t.task, Attempt: t.attempt, At: now})
	tellsOf(e.close(t, fateOf(r.Outcome)), r) // one that is still on its way is held until it is settled
	e.wake(now, a)
}

// resultOfFormer applies a result of an agent whose dispatch came back, or was taken back, before: another agent
// has the task by now, or is about to get it. Completed work counts: the task has ended, and no agent needs to do
// it again. Anything else that it reports says nothing about the current dispatch.
func (e *Engine) resultOfFormer(now time.Time, ev coordinator.ResultReported, t *openTask) {
	r := &ev.Result
	attempt := attemptOf(r)
	if attempt == 0 {
		attempt = t.attempt - 1
	}
	e.settleLate(now, r, attempt)
	if a := e.fleet.Known(r.Agent); a != nil {
		e.track(a)
		e.finishedPast(now, a, r, attemptOf(r), false)
		defer e.wake(now, a)
	}
	switch {
	case r.Outcome == coordinator.OutcomeRejected && t.gaveBack == r.Agent:
		// The usual order: the message was faster than the result that explains it.
		t.gaveBack = ""
		t.last.said = said(r.Error)
		counts := r.RetryAfter <= 0 || e.asksAfterwards(now, t, r)
		if r.Attempted {
			t.last.end = coordinator.EndGivenUp
			if r.RetryAfter <= 0 {
				t.failed = with(t.failed, r.Agent)
			}
			if a := e.fleet.Known(r.Agent); counts && a != nil {
				// its return has been put down to it already
				e.failedAt(now, a, t, learning.Outcome{Attribution: learning.AgentFault})
			}
		}
		e.leaseChanged(t)
		if t.mayTryAgain() { // else its next dispatch has been recorded since
			e.recordReturned(t, t.last.word()|dedupe.WasTried, &coordinator.TaskReturned{Agent: r.Agent, Attempt: t.attempt - 1})
		}
		e.emit(coordinator.GivenBack{Result: *r, Attempt: t.attempt - 1})
		e.poisonedInTime(now, t)
		return
	case r.Outcome != coordinator.OutcomeSucceeded:
		e.refuseResult(ev, coordinator.ResultLate)
		return
	}
	if a := e.fleet.Known(r.Agent); a != nil {
		e.recordOutcome(now, a, t, succeeded(r, r.Duration))
	}
	e.emit(&coordinator.Completed{Result: *r, Task: t.task, Attempt: attempt, Late: true, At: now})
	switch t.state {
	case stateWaiting, stateUnscored, stateDelayed, stateBidding:
		e.leavePending(t)
		delete(e.held, t.handle)
		e.emit(coordinator.Ack{Handle: t.handle, Copy: true})
		tellsOf(e.note(t, coordinator.FateSucceeded, e.fleet.SerialOf(r.Agent), t.attempt-1), r)
		e.tasks.drop(t)
		e.ends.Keep(now, t.key, t.task)
		e.record(&coordinator.EndedBefore{Task: t.task}) // a snapshot knows nothing of what is pending
		return
	case stateDispatching: // its agent is sent the order when it has it
		t.withdrawn, t.cancelReason, t.cancelToken = true, "another agent has done it", 0
	default:
		if !t.returning {
			e.withdraw(t, "another agent has done it", 0)
		}
	}
	tellsOf(e.note(t, coordinator.FateSucceeded, e.fleet.SerialOf(r.Agent), t.attempt), r)
	e.retire(t)
}

// mayTryAgain reports whether it is pending after it has come back.
func (t *openTask) mayTryAgain() bool {
	return t.state == stateWaiting || t.state == stateUnscored || t.state == stateDelayed || t.state == stateBidding
}

// poisonedInTime ends a task that waits to be tried again and turns out to have
// failed on too many agents.
func (e *Engine) poisonedInTime(now time.Time, t *openTask) {
	if !t.mayTryAgain() || len(t.failed) < e.policy.Settings.PoisonedAfter {
		return
	}
	e.leavePending(t)
	e.failPoisoned(now, t)
}

// resultOfClosed is a result for a task that is not open: let go, ended, or given
// up until the broker delivers it again.
func (e *Engine) resultOfClosed(now time.Time, ev coordinator.ResultReported, rec *dedupe.Record, attempt int) {
	r := &ev.Result
	a := e.fleet.Known(r.Agent)
	had := rec.Ref != 0 && e.fleet.Named(rec.Ref) == r.Agent && (attempt == 0 || attempt == int(rec.Attempt))
	switch {
	case rec.Fate == coordinator.FateWithdrawn && rec.Attempt == 0:
		e.refuseResult(ev, coordinator.ResultUnknown)
	case (rec.Fate == coordinator.FateLetGo || rec.Fate == coordinator.FateForgotten) && had &&
		rec.Flags&dedupe.Returning == 0:
		e.settleLate(now, r, int(rec.Attempt))
		if a != nil {
			e.finishedPast(now, a, r, attempt, true)
			e.track(a)
			defer e.wake(now, a)
		}
		if r.Outcome == coordinator.OutcomeRejected { // it will come back
			rec.Flags |= dedupe.Returning
			if r.Attempted {
				rec.Flags |= dedupe.Attempted
			}
			e.noted(rec, r.Task)
			e.emit(coordinator.GivenBack{Result: *r, Attempt: int(rec.Attempt)})
			return
		}
		if rec.Fate == coordinator.FateForgotten { // the broker delivers it again
			e.messages.Expect(coordinator.KeyOf(r.Task))
		}
		rec.Fate = fateOf(r.Outcome)
		tellsOf(e.noted(rec, r.Task), r)
		e.emit(&coordinator.Completed{Result: *r, Task: e.endsLate(now, rec.Key), Attempt: int(rec.Attempt), At: now})
	case rec.EndedByResult() && had:
		e.tellAgain(now, ev, rec, int(rec.Attempt))
		e.refuseResult(ev, coordinator.ResultDuplicate)
	case had || attempt != 0 && attempt <= int(rec.Attempt):
		e.settleLate(now, r, cmp.Or(attempt, int(rec.Attempt)))
		if rec.Ref != 0 && e.fleet.Named(rec.Ref) == r.Agent {
			e.tellAgain(now, ev, rec, attempt)
		}
		if a != nil {
			e.finishedPast(now, a, r, attempt, false)
			defer e.wake(now, a)
		}
		if had && rec.Fate == coordinator.FateTimedOut && ev.Live {
			if m := e.noted(rec, r.Task); m != nil {
				m.Late = &r.Outcome
			}
		}
		e.refuseResult(ev, coordinator.ResultLate)
	default:
		e.refuseResult(ev, coordinator.ResultWrongAgent)
	}
}

// tellsOf has the record of an end say how long its agent worked; nil: there is none. What an agent
// says of an error may quote the payload: task.result has that.
func tellsOf(m *coordinator.Remembered, r *coordinator.Result) {
	if m != nil {
		m.Work = r.Duration
	}
}

// tellAgain announces an end that is known from the journal, but perhaps not to the
// world: its result is read for the second time because its leader died.
func (e *Engine) tellAgain(now time.Time, ev coordinator.ResultReported, rec *dedupe.Record, attempt int) {
	r := &ev.Result
	e.ends.Heard(now, rec.Key)
	told := r.Outcome.Final() && rec.EndedByResult() && rec.Fate == fateOf(r.Outcome)
	if ev.Untold && told && !e.ends.IsAnnounced(rec.Key) {
		attempt = cmp.Or(attempt, int(rec.Attempt))
		e.emit(&coordinator.Completed{Result: *r, Task: e.ends.Task(rec.Key), Attempt: attempt,
			Late: attempt < int(rec.Attempt), At: now})
	}
}

// refuseResult announces that a result changed nothing. Results that are repeated from the stream's past are not
// announced.
func (e *Engine) refuseResult(ev coordinator.ResultReported, why coordinator.ResultRefusal) {
	if ev.Live {
		r := &ev.Result
		e.emit(coordinator.ResultRefused{
			Task: r.Task, Agent: r.Agent, Refusal: why, Outcome: r.Outcome, Attempt: max(0, attemptOf(r)),
		})
	}
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
