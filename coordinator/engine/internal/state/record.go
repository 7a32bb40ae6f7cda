package state

import (
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/engine/internal/dedupe"
)

// recorder gathers the records of one Apply: what must survive before its effects
// are carried out.
type recorder struct {
	On      bool
	records []coordinator.Record
}

// Record switches on that every Apply leaves records. It is off in a new engine.
func (s *State) Record(on bool) {
	s.Recorder.On = on
	s.Ejections.SetRecording(on)
}

// Records appends the records of everything applied since it was called last. The
// shell makes them last before it carries out any effect of the same Apply.
func (s *State) Records(dst []coordinator.Record) []coordinator.Record {
	dst = append(dst, s.Recorder.records...)
	clear(s.Recorder.records)
	s.Recorder.records = s.Recorder.records[:0]
	return dst
}

// Commit adds a record of what is applied, while records are wanted.
func (s *State) Commit(r coordinator.Record) {
	if s.Recorder.On {
		s.Recorder.records = append(s.Recorder.records, r)
	}
}

// Assignment is the record of a task's dispatch; the decision may be nil when it is
// not known any more.
func (t *Task) Assignment(d *coordinator.Decision) *coordinator.Assigned {
	r := &coordinator.Assigned{
		Task: t.Task, Agent: t.Agent.Spec.ID, Attempt: t.Attempt, At: t.AssignedAt, Timeout: t.Timeout,
		Tried: t.Tried, Tries: t.Tries, Failed: t.Failed, Untouched: t.Untouched, Suspected: t.Suspected,
		Blamed: t.BreakerFaults, Taught: t.LearnerFaults,
		Generation: t.Generation, Probe: t.Probe, Batch: t.Batch, Service: t.Service,
		MaybeDuplicate: t.MaybeDuplicate, OwnMessage: t.OwnMessage,
	}
	if d != nil {
		r.Strategy, r.Eligible, r.Fleet = d.Strategy, d.Eligible, d.Fleet
	}
	return r
}

// SetFate changes the fate of the id of an open task, and records that, with what say tells of it besides. It is not
// recorded where no dispatch was ever made under the id.
func (s *State) SetFate(t *Task, f coordinator.Fate, ref uint32, attempt int, say coordinator.Remembered) {
	s.Dedupe.Update(t.Key, t.Record, f, ref, attempt)
	if s.Recorder.On && (attempt > 0 || f != coordinator.FateForgotten || !t.AssignedAt.IsZero()) {
		s.Noted(s.RecordOf(t), t.Task.ID, say)
	}
}

// Noted records what has been changed in the record of an id that is not open, with what say tells of it besides; id
// names its task where the outcome is to be reported.
func (s *State) Noted(r *dedupe.Record, id coordinator.TaskID, say coordinator.Remembered) {
	if s.Recorder.On && r != nil {
		say.ID = id
		s.Commit(s.Remembered(r, say))
	}
}

// Remembered is what a record says, with what say tells besides. Of an open task the record refers to the task, and not
// to an agent.
func (s *State) Remembered(r *dedupe.Record, say coordinator.Remembered) *coordinator.Remembered {
	say.Key, say.Content, say.Fate, say.Seen = r.Key, r.Content, r.Fate, s.Dedupe.Seen(r)
	say.Attempt, say.Flags = int(r.Attempt), uint8(r.Flags)
	if !r.Fate.IsOpen() {
		say.Agent = s.Fleet.Named(r.Ref)
	}
	if say.Reason == "" && r.IsWithdrawn() {
		say.Reason = s.Dedupe.Reason(r.Key)
	}
	return &say
}

// RecordReturned records that a dispatch has come back: its agent has it no more. The flags record what the agent
// has reported, which may be late, and whether it was tried there.
func (s *State) RecordReturned(t *Task, flags dedupe.Flags, ev *coordinator.TaskReturned) {
	if s.Recorder.On {
		s.Commit(&coordinator.Remembered{
			Key: t.Key, ID: t.Task.ID, Content: t.Task.ContentHash, Fate: coordinator.FateForgotten,
			Seen: s.Now, Agent: ev.Agent, Attempt: ev.Attempt, Flags: uint8(flags), End: t.Last.End, Said: t.Last.Said,
		})
	}
}

// RecordUndelivered records that the latest dispatch of a task was not published, and why: no agent has it.
func (s *State) RecordUndelivered(t *Task, why coordinator.PublishOutcome) {
	if s.Recorder.On {
		r := s.cameBack(t)
		r.Key, r.ID, r.Content, r.Seen, r.Unpublished = t.Key, t.Task.ID, t.Task.ContentHash, s.Now, why
		s.Commit(&r)
	}
}

// Word returns what the agent that has the dispatch has reported about giving it back.
func (l *Lease) Word() (flags dedupe.Flags) {
	if l.Returning {
		flags |= dedupe.Returning
	}
	if l.Attempted {
		flags |= dedupe.Attempted
	}
	return flags
}

// LeaseChange is the record of what is known of a dispatch by now, for ChangeLease.
func (t *Task) LeaseChange() *coordinator.LeaseChanged {
	return &coordinator.LeaseChanged{
		Key: t.Key, Attempt: t.Attempt, Withdrawn: t.Withdrawn, Reason: t.CancelReason,
		Returning: t.Returning, Begun: t.Attempted, Failed: t.Failed, Blamed: t.BreakerFaults, Taught: t.LearnerFaults,
		Said: t.Said, RetryAfter: t.RetryAfter,
	}
}

// ChangeLease applies such a record, of this leader or of the one that it follows.
func (s *State) ChangeLease(at time.Time, t *Task, r *coordinator.LeaseChanged) {
	t.Withdrawn, t.CancelReason, t.Returning, t.Attempted = r.Withdrawn, r.Reason, r.Returning, r.Begun
	t.Failed, t.BreakerFaults, t.LearnerFaults = r.Failed, r.Blamed, r.Taught
	t.Said, t.RetryAfter = r.Said, r.RetryAfter
	if t.Returning { // what follows the leader has done by the result that says so
		if t.Probe = false; t.On() {
			s.settleAccount(at, t)
		}
		if t.Stage == Leased {
			s.WatchLease(t)
		}
	}
	s.Commit(r)
}
