package engine

import (
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/engine/internal/dedupe"
	"taskbus/coordinator/learning"
)

// recorder gathers the records of one Apply: what must survive before its effects
// are carried out.
type recorder struct {
	on      bool
	records []coordinator.Record
	// assigned are the dispatches of this Apply. Their records have their places among
	// the others, and are filled in at the end: which of them share a batch is not known
	// before.
	assigned []assigned
}

// assigned is a dispatch and its record, which is still empty.
type assigned struct {
	task     *openTask
	decision *coordinator.Decision
	record   *coordinator.Assigned
}

// Record switches on that every Apply leaves records. It is off in a new engine.
func (e *Engine) Record(on bool) {
	e.recorder.on = on
	e.ejections.SetRecording(on)
}

// Records appends the records of everything applied since it was called last. The
// shell makes them last before it carries out any effect of the same Apply.
func (e *Engine) Records(dst []coordinator.Record) []coordinator.Record {
	dst = append(dst, e.recorder.records...)
	clear(e.recorder.records)
	e.recorder.records = e.recorder.records[:0]
	return dst
}

func (e *Engine) record(r coordinator.Record) {
	if e.recorder.on {
		e.recorder.records = append(e.recorder.records, r)
	}
}

// recordDispatch keeps a place for the record of a dispatch.
func (e *Engine) recordDispatch(t *openTask, d *coordinator.Decision) {
	if e.recorder.on {
		r := &coordinator.Assigned{}
		e.recorder.records = append(e.recorder.records, r)
		e.recorder.assigned = append(e.recorder.assigned, assigned{t, d, r})
	}
}

// recordAssigned writes down what was dispatched in this Apply.
func (e *Engine) recordAssigned() {
	for _, a := range e.recorder.assigned {
		*a.record = *a.task.assignment(a.decision)
	}
	clear(e.recorder.assigned)
	e.recorder.assigned = e.recorder.assigned[:0]
}

// assignment is the record of a task's dispatch; the decision may be nil when it is
// not known any more.
func (t *openTask) assignment(d *coordinator.Decision) *coordinator.Assigned {
	r := &coordinator.Assigned{
		Task: t.task, Agent: t.agent.Spec.ID, Attempt: t.attempt, At: t.assignedAt, Timeout: t.timeout,
		Tried: t.tried, Tries: t.tries, Failed: t.failed, Untouched: t.untouched, Suspected: t.suspected,
		Blamed: t.breakerFaults, Taught: t.learnerFaults,
		Generation: t.generation, Probe: t.probe, Batch: t.batch, Service: t.service,
		MaybeDuplicate: t.maybeDuplicate, OwnMessage: t.ownMessage,
	}
	if d != nil {
		r.Strategy, r.Eligible, r.Fleet = d.Strategy, d.Eligible, d.Fleet
	}
	return r
}

// note changes the fate of the id of an open task. The record is nil when it is not needed: no dispatch was ever
// made under the id.
func (e *Engine) note(t *openTask, f coordinator.Fate, ref uint32, attempt int) *coordinator.Remembered {
	e.dedupe.Update(t.key, t.record, f, ref, attempt)
	if !e.recorder.on || f.IsOpen() || attempt == 0 && f == coordinator.FateForgotten && t.assignedAt.IsZero() {
		return nil
	}
	r := e.recordOf(t)
	if r == nil {
		return nil
	}
	remembered := e.remembered(r)
	remembered.ID = t.task.ID
	e.record(remembered)
	return remembered
}

// noted records what has been changed in the record of an id that is not open; id names its task where the outcome
// is to be reported.
func (e *Engine) noted(r *dedupe.Record, id coordinator.TaskID) *coordinator.Remembered {
	if !e.recorder.on || r == nil {
		return nil
	}
	m := e.remembered(r)
	m.ID = id
	e.record(m)
	return m
}

// remembered is what a record says. Of an open task the record refers to the task, and not to an agent.
func (e *Engine) remembered(r *dedupe.Record) *coordinator.Remembered {
	m := &coordinator.Remembered{
		Key: r.Key, Content: r.Content, Fate: r.Fate, Seen: e.dedupe.Seen(r),
		Attempt: int(r.Attempt), Flags: uint8(r.Flags),
	}
	if !r.Fate.IsOpen() {
		m.Agent = e.fleet.Named(r.Ref)
	}
	if r.IsWithdrawn() {
		m.Reason = e.dedupe.Reason(r.Key)
	}
	return m
}

// recordReturned records that a dispatch has come back: its agent has it no more. The flags record what the agent
// has reported, which may be late, and whether it was tried there.
func (e *Engine) recordReturned(t *openTask, flags dedupe.Flags, ev *coordinator.TaskReturned) {
	if e.recorder.on {
		e.record(&coordinator.Remembered{
			Key: t.key, ID: t.task.ID, Content: t.task.ContentHash, Fate: coordinator.FateForgotten,
			Seen: e.now, Agent: ev.Agent, Attempt: ev.Attempt, Flags: uint8(flags), End: t.last.end, Said: t.last.said,
		})
	}
}

// word returns what the agent that has the dispatch has reported about giving it back.
func (l *lease) word() (flags dedupe.Flags) {
	if l.returning {
		flags |= dedupe.Returning
	}
	if l.attempted {
		flags |= dedupe.Attempted
	}
	return flags
}

// leaseChanged records what has become known of a dispatch.
func (e *Engine) leaseChanged(t *openTask) {
	if e.recorder.on {
		e.record(t.leaseChange())
	}
}

func (t *openTask) leaseChange() *coordinator.LeaseChanged {
	return &coordinator.LeaseChanged{
		Key: t.key, Attempt: t.attempt, Withdrawn: t.withdrawn, Reason: t.cancelReason,
		Returning: t.returning, Begun: t.attempted, Failed: t.failed, Blamed: t.breakerFaults, Taught: t.learnerFaults,
		Said: t.said, RetryAfter: t.retryAfter,
	}
}

var attributions = [...]coordinator.Attribution{
	learning.Succeeded:  coordinator.AttributedSuccess,
	learning.AgentFault: coordinator.AttributedAgentFault,
	learning.TimedOut:   coordinator.AttributedTimeout,
}

// recordLearnt records an outcome that was observed.
func (e *Engine) recordLearnt(now time.Time, a *agent, kind *learning.Type, o learning.Outcome) {
	if e.recorder.on && o.Attribution.Counts() {
		e.record(&coordinator.Learnt{
			Agent: a.Spec.ID, Type: kind.Name(), Attribution: attributions[o.Attribution],
			At: now, Duration: o.Duration, CostUSD: o.CostUSD,
		})
	}
}
