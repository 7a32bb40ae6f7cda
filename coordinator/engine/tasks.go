package engine

import (
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/engine/internal/dedupe"
)

// openTasks gives every task that has not ended a number, by which records of the dedupe window refer
// to it. Numbers begin with 1 and are used again.
type openTasks struct {
	all  []*openTask
	free []uint32
}

func newOpenTasks() openTasks { return openTasks{all: make([]*openTask, 1)} }

// add takes a task in and numbers it.
func (s *openTasks) add(t *openTask) {
	if n := len(s.free); n > 0 {
		t.number, s.free = s.free[n-1], s.free[:n-1]
		s.all[t.number] = t
		return
	}
	t.number = uint32(len(s.all))
	s.all = append(s.all, t)
}

// drop lets a task go; its number may be given to another.
func (s *openTasks) drop(t *openTask) {
	s.all[t.number] = nil
	s.free = append(s.free, t.number)
	t.number = 0
}

// has reports whether a task is among them, by its number.
func (s *openTasks) has(t *openTask) bool { return int(t.number) < len(s.all) && s.all[t.number] == t }

// of is the open task of a record; nil when the record's task is not open.
func (s *openTasks) of(r *dedupe.Record) *openTask {
	if r == nil || !r.Fate.IsOpen() {
		return nil
	}
	return s.all[r.Ref]
}

// openTask is the open task of an id; nil: it is not open.
func (e *Engine) openTask(id coordinator.TaskID) *openTask {
	return e.tasks.of(e.dedupe.Peek(coordinator.KeyOf(id)))
}

// recordOf is what the dedupe window has of the id of a task that is open, or was a moment ago; nil: it
// has been dropped.
func (e *Engine) recordOf(t *openTask) *dedupe.Record { return e.dedupe.Record(t.key, t.record) }

// lookup drops what is beyond the limits of the dedupe window, and returns the record of a task id; nil: it is not
// in the window. The id of a task that is being decided, or with an agent that will report how it ended, stays in
// it as if it had just been seen.
func (e *Engine) lookup(now time.Time, key coordinator.TaskKey) *dedupe.Record {
	w, s := &e.dedupe, &e.policy.Settings
	x := w.Evict(now, later(now, e.now), dedupe.Limits{Age: s.DedupeWindow, IDs: s.DedupeMaxIDs})
	for x.Next() {
		t := e.tasks.of(x.Open)
		if t != nil && !e.mayForget(t, x.Since) {
			x.Keep()
			continue
		}
		if t != nil { // on its agent's account it stays
			e.letGoWith(x.Open, t)
		}
		x.Drop()
	}
	r, since := w.Lookup(now, key, s.DedupeWindow), now.Add(-s.DedupeWindow)
	if t := e.tasks.of(r); t != nil && !w.Seen(r).After(since) && e.mayForget(t, since) {
		e.letGoWith(r, t)
		return nil
	}
	return r
}

// mayForget reports whether the dispatch may be let go of with the record of its id: an agent that has
// reported nothing yet may still report what it got after since, however long that waited.
func (e *Engine) mayForget(t *openTask, since time.Time) bool {
	return e.mayLetGo(t) && !t.Settled.After(since)
}

// letGoWith lets go of a dispatch together with the record of its id.
func (e *Engine) letGoWith(r *dedupe.Record, t *openTask) {
	r.Fate, r.Ref = coordinator.FateForgotten, t.agent.Serial
	e.noted(r, "") // users are shown that it is with its agent
	e.settleAsEstimated(t)
	e.retire(t)
}

// Known is what the duplicate check knows of a task id, with its task while that is open; nil: it is
// not in the window.
func (e *Engine) Known(now time.Time, id coordinator.TaskID) *coordinator.Remembered {
	r := e.dedupe.Lookup(now, coordinator.KeyOf(id), e.policy.Settings.DedupeWindow)
	if r == nil {
		return nil
	}
	m := e.remembered(r)
	if t := e.tasks.of(r); t != nil {
		m.Task, m.Attempt, m.Agent = t.task, t.attempt, ""
		if t.agent != nil {
			m.Agent = t.agent.Spec.ID
		}
	}
	return m
}

// Overdue reports whether a task has ended because its agent had not reported in time how it ended, or that it has
// stopped.
func Overdue(r *coordinator.Remembered) bool {
	return r.Fate == coordinator.FateTimedOut ||
		r.Fate == coordinator.FateCancelled && dedupe.Flags(r.Flags)&dedupe.Overdue != 0
}
