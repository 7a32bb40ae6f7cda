package state

import (
	"cmp"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/engine/internal/dedupe"
)

// Forget gives up a task that the broker will deliver again: it may come as if
// new, but for the number of dispatches already made under its id.
func (s *State) Forget(t *Task) {
	delete(s.Held, t.Handle)
	if t.Attempt > 1 { // what an earlier dispatch of it comes to may end it meanwhile
		s.Ends.Keep(s.Now, t.Key, t.Task)
		if t.OwnMessage {
			s.Messages.Unanswered(t.Key)
		}
	}
	fate := coordinator.FateForgotten
	if t.From != "" && t.Attempt == 1 { // its lane has it again
		fate = coordinator.FateLaned
	}
	if r := s.RecordOf(t); r != nil && t.Attempt > 1 && len(t.Tried) > 0 {
		r.Flags |= dedupe.WasTried
	}
	s.SetFate(t, fate, s.lastAgent(t), t.Attempt-1, coordinator.Remembered{})
	s.Tasks.Drop(t)
}

// lastAgent returns the serial of the agent that had the task before it came back; 0 when no agent had it.
func (s *State) lastAgent(t *Task) uint32 {
	if n := len(t.Tried); n > 0 {
		return s.Fleet.SerialOf(t.Tried[n-1])
	}
	return 0
}

// Fail ends a task that is held with a reason. Its id may come again as if new.
func (s *State) Fail(now time.Time, t *Task, reason coordinator.Reason, text string, d *coordinator.Decision) {
	s.SetFate(t, coordinator.FateFailed, 0, t.Attempt-1, t.failure(reason, text))
	s.end(now, t, reason, text, d)
}

// FailCancelled ends a task that is held because it was withdrawn.
func (s *State) FailCancelled(now time.Time, t *Task) {
	text := cmp.Or(t.CancelReason, "it was withdrawn")
	say := t.failure(coordinator.ReasonCancelled, text)
	say.Reason = t.CancelReason
	s.SetFate(t, coordinator.FateCancelled, 0, t.Attempt-1, say)
	s.end(now, t, coordinator.ReasonCancelled, text, nil)
}

// failure is what the record of a failure says besides. Of a task that was never given to an agent no other record has
// the task.
func (t *Task) failure(why coordinator.Reason, text string) coordinator.Remembered {
	say := coordinator.Remembered{Why: why, Text: Said(text), Said: t.Last.Said}
	if t.Attempt == 1 {
		say.Task = t.Task
	}
	return say
}

func (s *State) end(now time.Time, t *Task, reason coordinator.Reason, text string, d *coordinator.Decision) {
	delete(s.Held, t.Handle)
	s.Tasks.Drop(t)
	s.Emit(&coordinator.Fail{
		Handle: t.Handle, Task: t.Task, Decision: d,
		Failure: coordinator.Failure{Reason: reason, Text: text, Attempts: t.Tries, Said: t.Last.Said, FailedAt: now},
	})
}

// Refuse fails a delivery that never became an open task.
func (s *State) Refuse(now time.Time, h coordinator.Handle, t *coordinator.Task, reason coordinator.Reason,
	text string) {
	s.Emit(&coordinator.Fail{
		Handle: h, Task: t,
		Failure: coordinator.Failure{Reason: reason, Text: text, FailedAt: now},
	})
}

// AddPendingFailure fails a task that has no unsettled delivery: its agent has not reported in time how it ended.
// The failure is sent in every session until it is acknowledged.
func (s *State) AddPendingFailure(f *coordinator.Fail) {
	s.Ends.AddFailure(f)
	s.Commit(&coordinator.Owed{Task: f.Task, Failure: f.Failure})
	if s.Fleet.Connected {
		s.Emit(f)
	}
}

// FailureAcked takes in that the broker has such a failure.
func (s *State) FailureAcked(id coordinator.TaskID) {
	if s.Ends.AckFailure(coordinator.KeyOf(id)) {
		s.Commit(&coordinator.Paid{Key: coordinator.KeyOf(id)})
	}
}

// ResendFailures sends, in a new session, what the one before may not have got through.
func (s *State) ResendFailures() {
	for _, f := range s.Ends.Failures() {
		s.Emit(f)
	}
}

// EndsLate returns what a task was accepted with if its end comes after its dispatch was let go of. A snapshot may
// have been written without that: a reader of the repeated result then has it from the record.
func (s *State) EndsLate(now time.Time, key coordinator.TaskKey) *coordinator.Task {
	t, late := s.Ends.Heard(now, key)
	if late {
		s.Commit(&coordinator.EndedBefore{Task: t})
	}
	return t
}

// isForgotten reports whether it is not known if the task's dispatch has arrived: its agent may report its end
// however late.
func (s *State) isForgotten(key coordinator.TaskKey) bool {
	r := s.Dedupe.Peek(key)
	return r != nil && r.Fate == coordinator.FateForgotten
}

// Withdraw sends the agent that has the dispatch the order to drop it.
func (s *State) Withdraw(t *Task, why string, token uint64) {
	s.Emit(coordinator.Withdraw{
		Agent: t.Agent.Spec.ID, Task: t.Task.ID, DispatchID: t.DispatchID, TraceID: t.Task.CorrelationID,
		Reason: why, Token: token,
	})
}

// ForgetWithdrawn gives up a task that the broker will deliver again. If it was withdrawn, no copy may be assigned.
func (s *State) ForgetWithdrawn(t *Task) {
	s.Forget(t)
	if !t.Withdrawn {
		return
	}
	if s.RecordOf(t) != nil {
		s.Dedupe.KeepReason(t.Key, t.CancelReason)
	}
	s.SetFate(t, coordinator.FateWithdrawn, 0, t.Attempt-1, coordinator.Remembered{})
}
