package state

import (
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/engine/internal/admission"
	"taskbus/coordinator/engine/internal/fleet"
)

// Lease is the part of an open task that begins with its dispatch: which agent
// has it, since when, and for how long it may.
//
// A lease ends with the agent's result, with the return of the dispatch, or with its deadline. A dispatch to an agent
// that says no more than heartbeats (see Agent.Tracked) has none: it is let go as soon as a heartbeat speaks for it.
type Lease struct {
	Agent      *Agent // that has the dispatch; nil before the first
	DispatchID string
	fleet.Dispatch
	Unanswered bool // it is not known whether it arrived: the broker still has its task
	Begun      bool // a report has listed it
	// Returning: the agent has said that it gives it back; attempted: it had begun.
	Returning, Attempted bool
	Probe                bool // it is the one task by which a half-open breaker tries its agent
	// Said is the text that it sent with that, RetryAfter how long it asks not to be given the task again.
	Said       string
	RetryAfter time.Duration
	Generation uint64              // of its agent's breakers when it was made
	Batch      string              // the batch that it is dispatched with; empty: alone
	Service    coordinator.Service // the model that its agent is to use; zero: the task names no alternatives
	Timeout    time.Duration       // how long the agent may work on it
	Deadline   time.Time           // when its result is overdue; zero until it is confirmed
	RunsFrom   time.Time           // when that time began to run
	Renewed    time.Time           // when progress was reported, as far as it is written; zero: never
}

// Try returns the id of the task and its attempt.
func (t *Task) Try() (coordinator.TaskID, int) { return t.Task.ID, t.Attempt }

// LeaseMargin is how much longer than the agent may work we wait for its result: an agent that notices itself that
// time is up should report first.
const LeaseMargin = time.Second

// BeginLease notes that a dispatch is in its agent's queue, or may be.
func (s *State) BeginLease(now time.Time, t *Task, f coordinator.Fate) {
	t.Stage, t.Settled, t.Unanswered = Leased, now, f == coordinator.FateUnsettled
	s.Dedupe.Update(t.Key, t.Record, f, t.Number, t.Attempt)
	if t.Unanswered {
		s.Messages.Unanswered(t.Key)
	}
	if t.Deadline.IsZero() {
		t.Deadline, t.RunsFrom = now.Add(t.Timeout+LeaseMargin), now
	}
	s.WatchLease(t)
}

// WatchLease sets the timer of a lease that is watched.
func (s *State) WatchLease(t *Task) {
	if t.IsWatched() {
		s.Timers.Schedule(&t.Expire, t.Deadline)
	}
}

// IsWatched reports whether the deadline of a lease is watched: if its agent reports ends. A lease of a task with a
// history is watched in any case: an agent that had it before may still report. So is one that was never answered: it
// waits for a copy of its task. So is one that has its agent to itself, because the agent gets nothing else before that
// is over, and one that is given back: its message may not come.
func (t *Task) IsWatched() bool {
	return t.Agent.Tracked || len(t.Tried) > 0 || t.Unanswered || t.Apart || t.Returning
}

// Track begins to expect results of an agent: it has sent one, or says exactly what it runs.
func (s *State) Track(a *Agent) {
	if a.Tracked {
		return
	}
	a.Tracked = true
	s.Commit(&coordinator.Tracked{Agent: a.Spec.ID})
	for _, t := range a.Open {
		if t.Stage == Leased && !t.Over {
			s.WatchLease(t)
		}
	}
}

// Untrack ends that: the leases of the agent are let go by its heartbeats from now on.
func (s *State) Untrack(a *Agent) {
	a.Tracked = false
	s.Commit(&coordinator.Tracked{Agent: a.Spec.ID, Ended: true})
	for _, t := range a.Open {
		if t.Stage == Leased && !t.IsWatched() {
			s.Timers.Cancel(&t.Expire)
		}
	}
}

// renew notes that the agent has begun to work on a dispatch, which the first report that lists it, or
// lists it anew, says. Its time counts from when it reached the agent's queue, unless a report since then
// did not list it: then it waited there, and its time counts from the latest of these. It does not count
// from the first report that lists it, which may come an interval after the work has begun, nor from any
// later one: the deadline would mean nothing to a handler that hangs.
func (s *State) renew(t *Task) {
	t.Begun = true
	if t.Stage != Leased || t.Over || t.Unlisted.IsZero() {
		return
	}
	// after an alarm it may have more
	t.Deadline, t.RunsFrom = coordinator.Later(t.Deadline, t.Unlisted.Add(t.Timeout+LeaseMargin)), t.Unlisted
	s.WatchLease(t)
}

// Close ends an open task that an agent has: its outcome is announced. Say is as in SetFate.
func (s *State) Close(t *Task, f coordinator.Fate, say coordinator.Remembered) {
	s.SetFate(t, f, t.Agent.Serial, t.Attempt, say)
	s.Retire(t)
}

// Retire makes an ended dispatch of an open one. What the reports of
// its agent do not speak for yet goes on counting against the agent's slots.
func (s *State) Retire(t *Task) {
	s.EndQuota(s.Now, t, admission.Gone, nil)
	s.ReleaseProbe(t)
	s.over(s.Now, t)
	if t.Covered || t.Agent.Gone() {
		s.Discharge(t)
	}
}

// over ends the lease of a task that is open no more.
func (s *State) over(at time.Time, t *Task) {
	s.drop(t)
	t.Agent.Moved = at
	s.Ends.Keep(at, t.Key, t.Task)
}

// drop takes a dispatch out of the open tasks; its agent's account may keep it.
func (s *State) drop(t *Task) {
	t.Over = true
	s.Timers.Cancel(&t.Expire)
	s.Tasks.Drop(t)
}

// LetGo forgets a dispatch: its agent's heartbeats count it, and no agent will report how it ended. The caller takes it
// off the account.
func (s *State) LetGo(t *Task) {
	if r := s.RecordOf(t); r != nil && t.Withdrawn {
		s.Dedupe.Withdraw(r, t.CancelReason)
	}
	s.SetFate(t, coordinator.FateLetGo, t.Agent.Serial, t.Attempt, coordinator.Remembered{})
	s.EndQuota(s.Now, t, admission.Unreported, nil)
	s.Retire(t)
}

// Discharge takes a dispatch off its agent's account.
func (s *State) Discharge(t *Task) {
	s.ReleaseProbe(t)
	if t.On() {
		t.Agent.Give(t)
		t.Agent.Measure(s.Now)
		s.Fleet.Refresh(t.Agent)
	}
}

// Assigned has the agent be given the task, under the terms of its lease.
func (s *State) Assigned(t *Task, a *Agent) {
	t.Agent, t.DispatchID = a, coordinator.DispatchID(t.Task, t.Attempt)
	if len(a.Open) == 0 {
		a.Capacity.InHand(t.AssignedAt, 1)
	}
	s.Fleet.Take(a, t, t.Alone)
}

// SealBatch applies the record of a batch, of this leader or of the one that it follows.
func (s *State) SealBatch(r *coordinator.BatchSealed) {
	for _, key := range r.Tasks {
		if t := s.Tasks.Of(s.Dedupe.Peek(key)); t != nil {
			t.Batch = r.Batch
		}
	}
	s.Commit(r)
}

// Confirmed begins the lease of a dispatch that its agent's queue has: its task was acknowledged.
func (s *State) Confirmed(at time.Time, t *Task) {
	t.Agent.received(at)
	s.Messages.Acked(at, t.Key)
	s.BeginLease(at, t, coordinator.FateDispatched)
}

// SettleOver applies the record of a message that was acknowledged without an open dispatch, of this leader or of the
// one that it follows. The dispatch may have arrived although its task has ended, by an earlier agent's result perhaps.
func (s *State) SettleOver(r *coordinator.Settled) {
	s.Messages.Acked(r.At, r.Key)
	if a := s.Fleet.Known(r.Agent); a != nil {
		a.received(r.At)
	}
	s.Commit(r)
}

// NextAttempt counts a dispatch that did not get through, but of which an earlier
// copy may have: its id must not stand for another.
func (t *Task) NextAttempt() {
	if t.Resumed {
		t.Attempt++
		t.Resumed = false
	}
}
