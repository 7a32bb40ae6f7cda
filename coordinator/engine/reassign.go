package engine

import (
	"fmt"
	"slices"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/engine/internal/dedupe"
)

// returned takes a dispatch that came back.
func (e *Engine) returned(now time.Time, ev coordinator.TaskReturned) {
	key := coordinator.KeyOf(ev.Task.ID)
	r := e.lookup(now, key)
	if a := e.fleet.Known(ev.Agent); a != nil {
		if t := a.Find(ev.Task.ID, ev.Attempt); t != nil && t.Over {
			e.discharge(t) // what has ended otherwise has left the agent, too
			e.wake(now, a)
		}
	}
	if r != nil && r.Flags&dedupe.Adopted != 0 {
		r.Content = ev.Task.ContentHash // that of a task assigned by an earlier coordinator is not known
	}
	before := e.tasks.of(r) // the dispatch that came back, or a newer one that was never answered
	switch e.judgeReturn(r, &ev) {
	case anotherTask:
		e.refuse(now, ev.Handle, ev.Task, coordinator.ReasonDuplicateTask,
			"it came back from an agent, but another task with this task_id and different content has been seen since")
		return
	case copyOfKnown:
		// Dead-lettering is at-least-once, and what has ended may still come back.
		if before != nil && before.state < stateDispatching && ev.Attempt == before.attempt-1 {
			e.recordReturned(before, 0, &ev)                      // whoever follows may still believe it with its agent
			e.record(&coordinator.EndedBefore{Task: before.task}) // and its end may be reported to it
		}
		e.emit(coordinator.Ack{Handle: ev.Handle, Copy: true})
		return
	}
	flags, cancelled, reason := dedupe.Flags(0), false, e.dedupe.Reason(key)
	if r != nil {
		flags, cancelled = r.Flags, r.Fate == coordinator.FateWithdrawn || r.Fate == coordinator.FateCancelled
	}
	t := e.open(now, ev.Handle, ev.Task, key)
	t.attempt = max(t.attempt, ev.Attempt+1)
	t.last = lastTry{agent: ev.Agent, end: coordinator.EndOf(ev.Cause, ev.Redelivered, flags&dedupe.Attempted != 0)}
	if before != nil && before.attempt == ev.Attempt {
		t.last.end, t.last.said = coordinator.EndOf(ev.Cause, ev.Redelivered, before.attempted), before.said
	}
	if before != nil && before.attempt <= ev.Attempt {
		known := before.word()
		if ev.Cause != coordinator.ReturnTakenBack { // see history
			known |= dedupe.WasTried
		}
		e.recordReturned(t, known, &ev)
	}
	if before != nil && before.attempt == ev.Attempt {
		t.lot = before.lot // others have bid for it
	}
	from := e.fleet.Known(ev.Agent)
	// A mark stays for good: an agent that it warned of may run the task for as long as that takes. Of a forgotten
	// dispatch it is not known whether it has ended.
	t.maybeDuplicate = ev.Redelivered || ev.MaybeDuplicate || r == nil || before != nil && before.maybeDuplicate ||
		mayReachAgent(ev.Cause, before)
	// What an agent gives back because it goes is no refusal.
	t.refused = (ev.Cause == coordinator.ReturnRejected || ev.Cause == coordinator.ReturnDeliveryLimit) &&
		(from == nil || from.LeftAlone())
	counts := e.history(now, t, &ev, from, before, flags)
	e.spareSuspected(t)
	e.learnFromReturn(now, from, t, before, &ev)
	switch {
	case cancelled, flags&dedupe.Withdrawn != 0:
		t.cancelReason = reason
		e.failCancelled(now, t)
	case before != nil && before.attempt > ev.Attempt:
		e.decideUnanswered(now, t, before)
	case before == nil && lostChannel(ev.Cause) && from.lists(ev.Task.ID) && e.resumeListed(now, t, from, &ev):
		// The same, of a dispatch that was made by a coordinator before this one.
	case before == nil:
		if from.lists(ev.Task.ID) {
			e.stopLost(from, &ev)
		}
		e.retry(now, t, &ev, counts)
	case lostChannel(ev.Cause) && before.stillRuns() && e.resumeLost(now, t, before):
		// It has lost its channel, not its work.
	default: // a dispatch that is still on its way is held until it is settled
		if before.stillRuns() {
			e.stopLost(from, &ev)
		}
		t.withdrawn, t.cancelReason = before.withdrawn, before.cancelReason
		if ev.Cause == coordinator.ReturnExpired || ev.Cause == coordinator.ReturnTakenBack && !ev.Redelivered {
			e.releaseUnbegun(now, before)
		}
		e.retire(before)
		e.discharge(before)
		e.wake(now, before.agent) // its slot may serve another task that goes first
		e.retry(now, t, &ev, counts)
	}
}

// resumeLost sends a dispatch to the agent that has lost its channel and works on
// it; false, and nothing has happened, when it cannot. It is the same dispatch: the
// agent is not one that has had the task before.
func (e *Engine) resumeLost(now time.Time, t, before *openTask) bool {
	tried, tries, failed, suspected := t.tried, t.tries, t.failed, t.suspected
	t.tried, t.tries, t.failed, t.suspected = before.tried, before.tries, before.failed, before.suspected
	if !e.mayResume(now, t, before.agent) {
		t.tried, t.tries, t.failed, t.suspected = tried, tries, failed, suspected
		return false
	}
	e.resume(now, t, before)
	return true
}

// resumeListed is resumeLost for a dispatch of which nothing but its message is known: its agent
// lists the task, and what it says of its slots counts it.
func (e *Engine) resumeListed(now time.Time, t *openTask, a *agent, ev *coordinator.TaskReturned) bool {
	tried, tries, failed, suspected, attempt := t.tried, t.tries, t.failed, t.suspected, t.attempt
	t.tried, t.failed, t.suspected = without(ev.Tried, a.Spec.ID), without(ev.Failed, a.Spec.ID),
		slices.Clone(ev.Suspected)
	t.tries = max(ev.Tries, len(t.tried))
	if attempt != ev.Attempt+1 || !e.mayResume(now, t, a) {
		t.tried, t.tries, t.failed, t.suspected = tried, tries, failed, suspected
		return false
	}
	t.attempt, t.maybeDuplicate, t.resumed = ev.Attempt, true, true
	e.dispatch(now, t, a, e.noChoice(t.needs.strategy.Name, a))
	t.begun, t.Listed = true, true
	e.fleet.Cover(t.agent, t)
	return true
}

// stopLost sends an agent that works on a task that has lost its channel the message that another agent gets it.
func (e *Engine) stopLost(a *agent, ev *coordinator.TaskReturned) {
	if a != nil && !a.Gone() && lostChannel(ev.Cause) {
		e.emit(coordinator.Withdraw{
			Agent: ev.Agent, Task: ev.Task.ID, DispatchID: coordinator.DispatchID(ev.Task, ev.Attempt), TraceID: ev.Task.TraceID,
			Reason: "its message came back to the coordinator, and another agent gets the task",
		})
	}
}

// mayReachAgent reports whether an agent may run a dispatch that has come back. What was taken back may reach its
// agent all the same, should our session end before the broker has our acknowledgement. What an agent had in hand
// when its channel ended may go on there, unless it has reported that it ran the task, and does so no more.
func mayReachAgent(cause coordinator.ReturnCause, before *openTask) bool {
	switch cause {
	case coordinator.ReturnTakenBack, coordinator.ReturnDeliveryLimit:
		return true
	case coordinator.ReturnExpired:
		return before == nil || !before.begun || before.Listed || before.agent.Listed == nil
	}
	return false
}

// lists reports whether the agent, if there is any, says that it runs the task.
func (a *agent) lists(task coordinator.TaskID) bool {
	if a == nil {
		return false
	}
	_, listed := a.Listed[task]
	return listed
}

// lostChannel reports whether a dispatch that comes back so may still be worked on: its
// agent's channel ended, once after its time to be accepted or more often than its queue
// delivers a message.
func lostChannel(cause coordinator.ReturnCause) bool {
	return cause == coordinator.ReturnExpired || cause == coordinator.ReturnDeliveryLimit
}

// stillRuns reports whether the agent that has the dispatch says that it runs it.
func (t *openTask) stillRuns() bool { return t.Listed && !t.withdrawn && !t.returning }

// isCopy reports whether what came back has been decided again already, or ended. A return may be faster than the
// broker's answer to the dispatch.
func (e *Engine) isCopy(r *dedupe.Record, before *openTask, ev *coordinator.TaskReturned) bool {
	switch r.Fate {
	case coordinator.FateOpen, coordinator.FateDispatched:
		return before.state < stateDispatching || !before.isDispatch(ev)
	case coordinator.FateUnsettled: // the message behind a newer dispatch comes again, too
		return before.attempt <= ev.Attempt && !before.isDispatch(ev)
	case coordinator.FateLetGo:
		return int(r.Attempt) != ev.Attempt || e.fleet.Named(r.Ref) != ev.Agent
	case coordinator.FateFailed: // delivered again: it is not known whether its outcome got through
		return !ev.Redelivered && ev.Attempt <= int(r.Attempt)
	case coordinator.FateCancelled:
		return !r.Unconfirmed(ev.Redelivered)
	case coordinator.FateSucceeded:
		return true
	}
	return r.Fate.HasEnded() && ev.Attempt <= int(r.Attempt)
}

// returnVerdict is what a dispatch that comes back means for its task.
type returnVerdict uint8

const (
	goesOn      returnVerdict = iota // it is decided again
	anotherTask                      // its id is that of another task by now
	copyOfKnown                      // its task has ended, or goes on under another dispatch
)

// judgeReturn returns what a dispatch that comes back means; r is the record of its task's id, and may be nil.
func (e *Engine) judgeReturn(r *dedupe.Record, ev *coordinator.TaskReturned) returnVerdict {
	switch {
	case r == nil, r.Fate == coordinator.FateWithdrawn:
		return goesOn
	case r.Content != ev.Task.ContentHash && r.Flags&dedupe.Adopted == 0 && !r.Fate.MayComeAgain():
		return anotherTask
	case e.isCopy(r, e.tasks.of(r), ev):
		return copyOfKnown
	}
	return goesOn
}

// IsOver reports whether a dispatch that comes back changes nothing: its task has ended, or
// goes on under another dispatch. It asks, and remembers nothing of it.
func (e *Engine) IsOver(now time.Time, ev *coordinator.TaskReturned) bool {
	return e.judgeReturn(e.dedupe.Lookup(now, coordinator.KeyOf(ev.Task.ID), e.policy.Settings.DedupeWindow), ev) != goesOn
}

// isDispatch reports whether it is this dispatch of the task that came back.
func (t *openTask) isDispatch(ev *coordinator.TaskReturned) bool {
	return t.attempt == ev.Attempt && t.agent.Spec.ID == ev.Agent
}

// history notes which agents have had the task and on which it has failed, and reports whether this try counts
// among those after which the task fails. A dispatch that was taken out of an agent's queue before the agent had it
// in hand was never tried there; one that the agent had begun, or held when it went away, has failed on it.
//
// While a session has ended in which we consumed the agent's queue, it may be this coordinator that had it in hand.
func (e *Engine) history(now time.Time, t *openTask, ev *coordinator.TaskReturned, from *agent, before *openTask,
	flags dedupe.Flags) (counts bool) {
	t.tried, t.failed, t.suspected = slices.Clone(ev.Tried), slices.Clone(ev.Failed), slices.Clone(ev.Suspected)
	t.tries = max(ev.Tries, len(without(ev.Tried, ev.Agent)))
	begun, gaveUp, told, again := false, flags&dedupe.Attempted != 0, flags&dedupe.Returning != 0, false
	if before != nil {
		t.untouched, t.suspected, t.asked = before.untouched, before.suspected, before.asked
	}
	if before != nil && before.attempt != ev.Attempt {
		before = nil // another dispatch says nothing of how this one came back
	}
	if before != nil {
		begun, gaveUp, told, again = before.begun, before.attempted, before.returning, slices.Contains(before.tried, ev.Agent)
		// Of two copies the older may have come back, which knows less.
		t.tried, t.failed, t.tries = with(t.tried, before.tried...), with(t.failed, before.failed...),
			max(t.tries, before.tries)
	}
	inHand := begun || ev.Cause == coordinator.ReturnTakenBack && ev.Redelivered && (from == nil || !from.HeldByUs)
	if ev.Cause == coordinator.ReturnTakenBack && !inHand {
		if !again {
			t.tried = without(t.tried, ev.Agent)
			t.untouched = with(t.untouched, ev.Agent)
		}
		return false
	}
	if ev.Cause == coordinator.ReturnRejected && before != nil && before.retryAfter > 0 {
		t.asksFor(ev.Agent, e.asksUntil(now, t, before.retryAfter))
		if e.asksFreely(now, t) {
			if !again {
				t.tried = without(t.tried, ev.Agent)
			}
			t.untouched = with(t.untouched, ev.Agent)
			return false
		}
		gaveUp = false
	}
	t.tried = with(t.tried, ev.Agent)
	t.tries++
	switch ev.Cause {
	case coordinator.ReturnRejected:
		if !told {
			t.gaveBack = ev.Agent
		}
		inHand = gaveUp
	case coordinator.ReturnDeliveryLimit:
		inHand = true
	}
	switch {
	case inHand && ev.Cause != coordinator.ReturnRejected:
		// What went down with others and is to be alone next must have had that chance.
		return t.lostAt(from, before, ev) || !e.mustBeAlone(t)
	case inHand:
		t.failed = with(t.failed, ev.Agent)
	}
	return true
}

// retry decides again what came back: another try, or an end. counts is what history says.
func (e *Engine) retry(now time.Time, t *openTask, ev *coordinator.TaskReturned, counts bool) {
	switch {
	case t.withdrawn:
		e.failCancelled(now, t)
	case len(t.failed) >= e.policy.Settings.PoisonedAfter:
		e.failPoisoned(now, t)
	case counts && t.tries >= e.policy.Settings.MaxRetryAttempts:
		if a := e.fleet.Known(ev.Agent); t.gaveBack != "" && a != nil && a.Tracked {
			t.exhausted = true
			e.delay(now, t) // its result is on the way, and may report that the task failed on it
			return
		}
		e.failExhausted(now, t)
	case ev.Cause == coordinator.ReturnTakenBack:
		e.admit(now, t) // no agent refused it: there is nothing to wait for
	default:
		e.delay(now, t)
	}
}

// failExhausted ends a task that has come back as often as it may.
func (e *Engine) failExhausted(now time.Time, t *openTask) {
	if len(t.breakerFaults) >= e.policy.Settings.PoisonedAfter {
		e.forgive(now, t) // what so many turn away is no fault of theirs
	}
	e.fail(now, t, coordinator.ReasonRetriesExhausted, fmt.Sprintf(
		"%s came back (max_retry_attempts: %d), the last one as %s: %s %s; tried: %s",
		dispatches(t.tries), e.policy.Settings.MaxRetryAttempts, t.last.end, t.last.agent, t.last.end.Phrase(),
		joinIDs(t.tried)), nil)
}

// dispatches counts them for people.
func dispatches(n int) string {
	if n == 1 {
		return "1 dispatch"
	}
	return fmt.Sprintf("%d dispatches", n)
}

// failPoisoned parks a task that has failed on too many agents.
func (e *Engine) failPoisoned(now time.Time, t *openTask) {
	e.forgive(now, t)
	e.fail(now, t, coordinator.ReasonPoisoned, fmt.Sprintf(
		"it failed on %d different agents (%s); the original is parked in task.dead", len(t.failed), joinIDs(t.failed)), nil)
}

// without takes an agent out of a list.
func without(list []coordinator.AgentID, gone coordinator.AgentID) []coordinator.AgentID {
	return slices.DeleteFunc(slices.Clone(list), func(id coordinator.AgentID) bool { return id == gone })
}

// with adds agents to a list, except those that are in it already.
func with(list []coordinator.AgentID, ids ...coordinator.AgentID) []coordinator.AgentID {
	for _, id := range ids {
		if id != "" && !slices.Contains(list, id) {
			list = append(slices.Clip(list), id)
		}
	}
	return list
}
