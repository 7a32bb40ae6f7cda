package engine

import (
	"strings"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/engine/internal/dedupe"
	"taskbus/coordinator/fairshare"
)

// How tasks that are held end: with a failure, or given up until the broker delivers them again. Package ends
// stores what may have to be announced again.

// failWaiting fails a task for the reason that kept it waiting.
func (e *Engine) failWaiting(now time.Time, t *openTask) {
	d := e.explain(now, t, false)
	reason, text := e.reasonOf(d, t)
	var back time.Time
	if lacks := e.lacking(now, t, d); lacks != nil {
		reason, text, back = coordinator.ReasonQuotaExhausted, lacks.Describe(), lacks.RetryAt
	}
	if t.late(now) {
		reason = coordinator.ReasonDeadlineExceeded
	}
	e.fail(now, t, reason, text+t.cameBefore()+e.whyNow(now, t), d)
	if f, ok := e.out[len(e.out)-1].(*coordinator.Fail); ok {
		f.Failure.RetryAt = back
	}
}

// lacking is the quota for want of which a task waits: of its group's that are parked or, if
// there is an agent that could have it (one that comes out of its lane too late was not tried),
// its own; nil: it is not quota.
func (e *Engine) lacking(now time.Time, t *openTask, d *coordinator.Decision) *fairshare.Verdict {
	if w := e.waitAt(t.needs.class, e.leafOf(t)); w != nil {
		return &w.Lacks
	}
	if d.Eligible == 0 {
		return nil
	}
	if able, lacks, _ := e.quotaMissing(now, t); able == nil {
		return lacks
	}
	return nil
}

// forget gives up a task that the broker will deliver again: it may come as if
// new, but for the number of dispatches already made under its id.
func (e *Engine) forget(t *openTask) {
	delete(e.held, t.handle)
	if t.attempt > 1 { // what an earlier dispatch of it comes to may end it meanwhile
		e.ends.Keep(e.now, t.key, t.task)
		if t.ownMessage {
			e.messages.Unanswered(t.key)
		}
	}
	fate := coordinator.FateForgotten
	if t.from != "" && t.attempt == 1 { // its lane has it again
		fate = coordinator.FateLaned
	}
	if r := e.recordOf(t); r != nil && t.attempt > 1 && len(t.tried) > 0 {
		r.Flags |= dedupe.WasTried
	}
	e.note(t, fate, e.lastAgent(t), t.attempt-1)
	e.tasks.drop(t)
}

// lastAgent returns the serial of the agent that had the task before it came back; 0 when no agent had it.
func (e *Engine) lastAgent(t *openTask) uint32 {
	if n := len(t.tried); n > 0 {
		return e.fleet.SerialOf(t.tried[n-1])
	}
	return 0
}

// fail ends a task that is held with a reason. Its id may come again as if new.
func (e *Engine) fail(now time.Time, t *openTask, reason coordinator.Reason, text string, d *coordinator.Decision) {
	if noted := e.note(t, coordinator.FateFailed, 0, t.attempt-1); noted != nil {
		noted.Why = reason
		t.tellsOfFailure(noted, text)
	}
	e.end(now, t, reason, text, d)
}

// failCancelled ends a task that is held because it was withdrawn.
func (e *Engine) failCancelled(now time.Time, t *openTask) {
	text := orElse(t.cancelReason, "it was withdrawn")
	if noted := e.note(t, coordinator.FateCancelled, 0, t.attempt-1); noted != nil {
		noted.Reason, noted.Why = t.cancelReason, coordinator.ReasonCancelled
		t.tellsOfFailure(noted, text)
	}
	e.end(now, t, coordinator.ReasonCancelled, text, nil)
}

// tellsOfFailure puts the reported text into the record of a failure; for a task that was never given to an agent
// no other record contains it.
func (t *openTask) tellsOfFailure(m *coordinator.Remembered, text string) {
	m.Text, m.Said = said(text), t.last.said
	if t.attempt == 1 {
		m.Task = t.task
	}
}

func (e *Engine) end(now time.Time, t *openTask, reason coordinator.Reason, text string, d *coordinator.Decision) {
	delete(e.held, t.handle)
	e.tasks.drop(t)
	e.emit(&coordinator.Fail{
		Handle: t.handle, Task: t.task, Decision: d,
		Failure: coordinator.Failure{Reason: reason, Text: text, Attempts: t.tries, Said: t.last.said, FailedAt: now},
	})
}

// refuse fails a delivery that never became an open task.
func (e *Engine) refuse(now time.Time, h coordinator.Handle, t *coordinator.Task, reason coordinator.Reason,
	text string) {
	e.emit(&coordinator.Fail{
		Handle: h, Task: t,
		Failure: coordinator.Failure{Reason: reason, Text: text, FailedAt: now},
	})
}

// addPendingFailure fails a task that has no unsettled delivery: its agent has not reported in time how it ended.
// The failure is sent in every session until it is acknowledged.
func (e *Engine) addPendingFailure(f *coordinator.Fail) {
	e.ends.AddFailure(f)
	e.record(&coordinator.Owed{Task: f.Task, Failure: f.Failure})
	if e.connected {
		e.emit(f)
	}
}

// failureAcked takes in that the broker has such a failure.
func (e *Engine) failureAcked(id coordinator.TaskID) {
	if e.ends.AckFailure(coordinator.KeyOf(id)) {
		e.record(&coordinator.Paid{Key: coordinator.KeyOf(id)})
	}
}

// resendFailures sends, in a new session, what the one before may not have got through.
func (e *Engine) resendFailures() {
	for _, f := range e.ends.Failures() {
		e.emit(f)
	}
}

// endsLate returns what a task was accepted with if its end comes after its dispatch was let go of. A snapshot may
// have been written without that: a reader of the repeated result then has it from the record.
func (e *Engine) endsLate(now time.Time, key coordinator.TaskKey) *coordinator.Task {
	t, late := e.ends.Heard(now, key)
	if late {
		e.record(&coordinator.EndedBefore{Task: t})
	}
	return t
}

// isForgotten reports whether it is not known if the task's dispatch has arrived: its agent may report its end
// however late.
func (e *Engine) isForgotten(key coordinator.TaskKey) bool {
	r := e.dedupe.Peek(key)
	return r != nil && r.Fate == coordinator.FateForgotten
}

func joinIDs(ids []coordinator.AgentID) string {
	parts := make([]string, len(ids))
	for i, id := range ids {
		parts[i] = string(id)
	}
	return strings.Join(parts, ", ")
}
