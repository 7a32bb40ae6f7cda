package state

import (
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/engine/internal/admission"
	"taskbus/coordinator/engine/internal/dedupe"
	"taskbus/coordinator/invariant"
)

// Table gives every task that has not ended a number, by which records of the dedupe window refer
// to it. Numbers begin with 1 and are used again.
type Table struct {
	All  []*Task
	Free []uint32
}

// add takes a task in and numbers it.
func (s *Table) add(t *Task) {
	if n := len(s.Free); n > 0 {
		t.Number, s.Free = s.Free[n-1], s.Free[:n-1]
		s.All[t.Number] = t
		return
	}
	t.Number = uint32(len(s.All))
	s.All = append(s.All, t)
}

// Drop lets a task go; its number may be given to another.
func (s *Table) Drop(t *Task) {
	s.All[t.Number] = nil
	s.Free = append(s.Free, t.Number)
	t.Number = 0
}

// Has reports whether a task is among them, by its number.
func (s *Table) Has(t *Task) bool { return int(t.Number) < len(s.All) && s.All[t.Number] == t }

// Check recounts the numbers.
func (s *Table) Check() (found invariant.Violations) {
	open := 0
	for _, t := range s.All[1:] {
		if t != nil {
			open++
		}
	}
	if n := len(s.All) - 1; open+len(s.Free) != n {
		found.Note(invariant.TaskRecord, "", "%d numbers are given to %d open tasks, and %d are free", n, open,
			len(s.Free))
	}
	return found
}

// Of is the open task of a record; nil when the record's task is not open.
func (s *Table) Of(r *dedupe.Record) *Task {
	if r == nil || !r.Fate.IsOpen() {
		return nil
	}
	return s.All[r.Ref]
}

// FindTask is the open task of an id; nil: it is not open.
func (s *State) FindTask(id coordinator.TaskID) *Task {
	return s.Tasks.Of(s.Dedupe.Peek(coordinator.KeyOf(id)))
}

// RecordOf is what the dedupe window has of the id of a task that is open, or was a moment ago; nil: it
// has been dropped.
func (s *State) RecordOf(t *Task) *dedupe.Record { return s.Dedupe.Record(t.Key, t.Record) }

// Lookup drops what is beyond the limits of the dedupe window, and returns the record of a task id; nil: it is not
// in the window. The id of a task that is being decided, or with an agent that will report how it ended, stays in
// it as if it had just been seen.
func (s *State) Lookup(now time.Time, key coordinator.TaskKey) *dedupe.Record {
	w, rules := &s.Dedupe, &s.Policy.Settings
	x := w.Evict(now, coordinator.Later(now, s.Now), dedupe.Limits{Age: rules.DedupeWindow, IDs: rules.DedupeMaxIDs})
	for x.Next() {
		t := s.Tasks.Of(x.Open)
		if t != nil && !s.mayForget(t, x.Since) {
			x.Keep()
			continue
		}
		if t != nil { // on its agent's account it stays
			s.letGoWith(x.Open, t)
		}
		x.Drop()
	}
	r, since := w.Lookup(now, key, rules.DedupeWindow), now.Add(-rules.DedupeWindow)
	if t := s.Tasks.Of(r); t != nil && !w.Seen(r).After(since) && s.mayForget(t, since) {
		s.letGoWith(r, t)
		return nil
	}
	return r
}

// mayForget reports whether the dispatch may be let go of with the record of its id: an agent that has
// reported nothing yet may still report what it got after since, however long that waited.
func (s *State) mayForget(t *Task, since time.Time) bool {
	return s.MayLetGo(t) && !t.Settled.After(since)
}

// letGoWith lets go of a dispatch together with the record of its id.
func (s *State) letGoWith(r *dedupe.Record, t *Task) {
	r.Fate, r.Ref = coordinator.FateForgotten, t.Agent.Serial
	s.Noted(r, "", coordinator.Remembered{}) // users are shown that it is with its agent
	s.EndQuota(s.Now, t, admission.Unreported, nil)
	s.Retire(t)
}

// MayBeHeld reports whether the message of a task may have been delivered in a session and held until that
// ended, without a record of it: the latest dispatch was never answered, or has come back, and none was
// made since.
func (s *State) MayBeHeld(key coordinator.TaskKey) bool {
	t := s.Tasks.Of(s.Dedupe.Peek(key))
	return s.isForgotten(key) || t != nil && t.Unanswered
}
