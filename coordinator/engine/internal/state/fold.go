package state

import (
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/auction"
	"taskbus/coordinator/capacity"
	"taskbus/coordinator/engine/internal/dedupe"
	"taskbus/coordinator/engine/internal/fleet"
)

// Follow has a new engine follow another, until Lead.
func (s *State) Follow() { s.Following, s.Fleet.Following = true, true }

// Succeed notes that a leader's term has ended: at is when the latest record of it was written, lasted how long it
// has led. What it acknowledged shortly before may be delivered again, and what it never answered.
func (s *State) Succeed(at time.Time, lasted time.Duration) {
	s.Messages.SessionLost(at, lasted, s.MayBeHeld)
	s.Ends.TermEnded(at)
	s.Replayed = true
}

// Fold takes over what a record of another engine says; at is when it was written. Reports of agents are applied
// meanwhile as ever; nothing ends and nothing begins but by a record.
func (s *State) Fold(at time.Time, r coordinator.Record) {
	s.Now, s.Fleet.Now = at, at
	if row, ok := r.(*coordinator.LearntBefore); ok {
		if row.First {
			s.learntBefore = nil
		}
		s.learntBefore = append(s.learntBefore, row)
		return
	}
	s.Recollect()
	switch r := r.(type) {
	case *coordinator.Assigned:
		s.foldAssigned(r)
	case *coordinator.BatchSealed:
		s.SealBatch(r)
	case *coordinator.Settled:
		s.foldSettled(r)
	case *coordinator.Readdressed:
		if t := s.Tasks.Of(s.Dedupe.Peek(r.Key)); t != nil {
			s.Readdress(t, r.ReplyTo)
		}
	case *coordinator.Renewed:
		s.foldRenewed(r)
	case *coordinator.LeaseChanged:
		if t := s.LeaseOf(r.Key, r.Attempt); t != nil {
			s.ChangeLease(at, t, r)
		}
	case *coordinator.Remembered:
		s.foldRemembered(at, r)
	case *coordinator.Learnt:
		s.learn(r)
	case *coordinator.Forgiven:
		s.forgiven(r)
	case *coordinator.BreakerChanged:
		s.ApplyBreakers(s.Ejections.Fold(at, r))
	case *coordinator.Joined:
		s.Fleet.Joined(r, s.Policy)
	case *coordinator.QuotaReserved, *coordinator.QuotaExtended, *coordinator.QuotaEnded, *coordinator.QuotaBefore,
		*coordinator.QuotaTold, *coordinator.EstimateBefore, *coordinator.ShareBefore, *coordinator.PoolHeard:
		s.foldQuota(r)
	case *coordinator.QuotaControlled:
		s.Controls.Fold(s.Quotas.Ledger, at, r)
	case *coordinator.LaneKnown:
		s.Lanes.Fold(r)
	default:
		s.foldAgent(at, r)
	}
}

// agentOf returns the agent of that id. For an agent that the policy does not list (yet) it stores what the records
// say.
func (s *State) agentOf(id coordinator.AgentID) *Agent {
	if a := s.Fleet.Known(id); a != nil {
		return a
	}
	a := Rejoin(nil)
	a.Spec.ID, a.Number, a.Serial = id, -1, s.Fleet.SerialOf(id)
	s.Fleet.Left[id] = a
	return a
}

// LeaseOf is the open dispatch of that attempt; nil when there is none.
func (s *State) LeaseOf(key coordinator.TaskKey, attempt int) *Task {
	if t := s.Tasks.Of(s.Dedupe.Peek(key)); t != nil && t.Attempt == attempt {
		return t
	}
	return nil
}

// foldAssigned begins the lease of a dispatch of which it is not known yet whether it was published: until Settled
// comes the broker still holds its task, too.
func (s *State) foldAssigned(r *coordinator.Assigned) {
	key := coordinator.KeyOf(r.Task.ID)
	if before := s.Tasks.Of(s.Lookup(r.At, key)); before != nil {
		// A dispatch that came back goes on in its place: the task's own message may come yet.
		s.foldEnd(r.At, before, before.OwnMessage && !r.OwnMessage)
	}
	a := s.agentOf(r.Agent)
	t, _ := s.newTask(r.At, r.Task, key, coordinator.FateUnsettled)
	t.Attempt, t.AssignedAt = r.Attempt, r.At
	t.Tried, t.Tries, t.Failed = r.Tried, max(r.Tries, len(r.Tried)), r.Failed
	t.Untouched, t.Suspected, t.BreakerFaults, t.LearnerFaults = r.Untouched, r.Suspected, r.Blamed, r.Taught
	t.MaybeDuplicate, t.OwnMessage, t.Alone = r.MaybeDuplicate, r.OwnMessage, s.MustBeAlone(t)
	t.Lease = Lease{Timeout: r.Timeout, Generation: r.Generation, Probe: r.Probe, Batch: r.Batch, Service: r.Service}
	a.Capacity.NotAfter(r.At)
	s.Assigned(t, a)
	s.BeginLease(r.At, t, coordinator.FateUnsettled)
}

// foldSettled notes that the dispatch has arrived: its task was acknowledged then, unless its agent alone has said so.
func (s *State) foldSettled(r *coordinator.Settled) {
	t := s.LeaseOf(r.Key, r.Attempt)
	if !r.Heard && (t == nil || t.Unanswered) { // one that has ended before was in doubt until now
		s.Messages.Came(r.Key)
	}
	if t != nil {
		t.Deadline = time.Time{} // its time begins now
		s.Timers.Cancel(&t.Expire)
	}
	switch {
	case t == nil && !r.Heard:
		s.SettleOver(r)
	case t != nil && !r.Heard:
		s.Confirmed(r.At, t)
	case t != nil:
		s.BeginLease(r.At, t, coordinator.FateDispatched)
	}
}

// foldEnd ends a dispatch without sending anything, and without learning from it. The message of a dispatch that
// was never answered may stay in doubt.
func (s *State) foldEnd(at time.Time, t *Task, inDoubt bool) {
	if t.Unanswered && !inDoubt {
		s.Messages.Came(t.Key)
	}
	s.over(at, t)
	t.Probe = false
	if t.On() {
		s.settleAccount(at, t)
	}
}

// foldUndelivered takes back a dispatch that was not published: its task's message is held, or was failed.
func (s *State) foldUndelivered(t *Task) {
	if t.Unanswered {
		s.Messages.Came(t.Key)
	}
	s.drop(t)
	t.Probe = false
	s.Discharge(t)
}

// settleAccount takes a dispatch off its agent's account. If the agent's latest
// report counts it as active, it is credited.
func (s *State) settleAccount(at time.Time, t *Task) {
	a := t.Agent
	if !a.Heard.IsZero() {
		stamp := at
		if a.Clock.Known {
			stamp = at.Add(-a.Clock.Offset)
		}
		a.Note(fleet.Ending{Task: t.Task.ID, Stamp: stamp, Settled: t.Settled, Heard: at}, t.Covered)
	}
	t.Agent.Give(t)
	a.Measure(at)
	s.Fleet.Refresh(a)
}

// foldRemembered takes over what is known of a task id that no agent has.
func (s *State) foldRemembered(at time.Time, r *coordinator.Remembered) {
	rec := s.Lookup(at, r.Key)
	switch t := s.Tasks.Of(rec); {
	case t != nil && r.Attempt < t.Attempt:
		s.foldUndelivered(t)
	case t != nil:
		s.foldEnd(at, t, !endsWithDelivery(r))
	case rec != nil && rec.Fate == coordinator.FateForgotten && rec.Attempt > 0 && r.Fate.HasEnded() &&
		!endsWithDelivery(r):
		s.Messages.Expect(r.Key) // it ended while the broker had it
	}
	if rec == nil {
		_, rec = s.Dedupe.Insert(r.Seen, r.Key, r.Content, r.Fate, 0)
	}
	s.Dedupe.DropReason(r.Key)
	rec.Content, rec.Fate, rec.Ref = r.Content, r.Fate, s.Fleet.SerialOf(r.Agent)
	rec.Attempt, rec.Flags = dedupe.CapAttempt(r.Attempt), dedupe.FlagsOf(r.Flags)
	if rec.IsWithdrawn() {
		s.Dedupe.KeepReason(r.Key, r.Reason)
	}
}

// endsWithDelivery reports whether the message of a task was failed, or has no owner left, when its dispatch ended
// so. Otherwise the message of a dispatch that was never answered may come yet: it is acknowledged later, or was
// not when its leader died.
func endsWithDelivery(r *coordinator.Remembered) bool {
	switch r.Fate {
	case coordinator.FateCancelled:
		return r.Agent == "" // else its agent has said so, or not in time
	case coordinator.FateForgotten:
		return r.Attempt == 0 // else it came back, or was given up, and ends under another attempt
	}
	return !r.Fate.HasEnded()
}

// Recollect puts what was learnt before in its place, once all of it is there. What
// cannot have been learnt is left out: it is learnt anew.
func (s *State) Recollect() {
	if s.learntBefore == nil {
		return
	}
	if s.Learner.Import(s.learntBefore, s.Fleet.Number) == nil {
		for _, a := range s.Fleet.Agents {
			a.MeanCost, _ = s.Learner.Cost(a.Number)
			s.Fleet.Refresh(a)
		}
	}
	s.learntBefore = nil
}

// foldAgent applies a record about one agent, or about a message that is still to be sent to it.
func (s *State) foldAgent(at time.Time, r coordinator.Record) {
	switch r := r.(type) {
	case *coordinator.Ordered:
		s.Fleet.Order(r.Agent, r.Order)
	case *coordinator.Tracked:
		if a := s.agentOf(r.Agent); r.Ended {
			s.Untrack(a)
		} else {
			s.Track(a)
		}
	case *coordinator.Consumed:
		a := s.agentOf(r.Agent)
		a.HadConsumer, a.ConsumedTold = r.Ever, r.Told
	case *coordinator.Doubted:
		s.Messages.SetExpected(r.Key, r.Messages)
	case *coordinator.AgentBefore:
		a := s.agentOf(r.Agent)
		a.Assigned = r.Assigned
		a.Capacity = capacity.State{Items: r.Items, BusySeconds: r.BusySeconds, Samples: r.Samples}.Estimator()
		a.Capacity.InHand(at, len(a.Open))
		s.Fleet.Assignments = max(s.Fleet.Assignments, r.LastAssigned)
		if a.Number >= 0 {
			s.Fleet.Views[a.Number].LastAssigned = r.LastAssigned
		}
	case *coordinator.Calibrated:
		s.agentOf(r.Agent).Bidding.Calibration = auction.CalibrationState{
			Ratio: r.Ratio, Brier: r.Brier, Bias: r.Bias, Timed: r.Timed, Judged: r.Judged,
		}.Calibration()
	case *coordinator.Owed:
		s.Ends.AddFailure(&coordinator.Fail{Task: r.Task, Failure: r.Failure})
	case *coordinator.EndedBefore:
		s.Ends.Keep(at, coordinator.KeyOf(r.Task.ID), r.Task)
	case *coordinator.Paid:
		s.Ends.AckFailure(r.Key)
	}
}
