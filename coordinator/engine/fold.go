package engine

import (
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/auction"
	"taskbus/coordinator/capacity"
	"taskbus/coordinator/engine/internal/dedupe"
	"taskbus/coordinator/engine/internal/fleet"
	"taskbus/coordinator/engine/internal/queue"
	"taskbus/coordinator/learning"
)

// Following another engine: what it records is folded here, so that this one can go
// on where that one stops. Reports of agents are applied meanwhile as ever; nothing
// ends and nothing begins but by a record.

// Follow has a new engine follow another, until Lead.
func (e *Engine) Follow() { e.following = true }

// Fold takes over what a record says; at is when it was written. Records come in
// their order, before the first session opens.
func (e *Engine) Fold(at time.Time, r coordinator.Record) {
	e.now, e.fleet.Now = at, at
	if row, ok := r.(*coordinator.LearntBefore); ok {
		e.recallRow(row)
		return
	}
	e.recollect()
	switch r := r.(type) {
	case *coordinator.Assigned:
		e.foldAssigned(r)
	case *coordinator.Settled:
		e.foldSettled(r)
	case *coordinator.LeaseChanged:
		if t := e.leaseOf(r.Key, r.Attempt); t != nil {
			t.withdrawn, t.cancelReason, t.returning, t.attempted = r.Withdrawn, r.Reason, r.Returning, r.Begun
			t.failed, t.breakerFaults, t.learnerFaults = r.Failed, r.Blamed, r.Taught
			t.said, t.retryAfter = r.Said, r.RetryAfter
			if t.returning && t.On() {
				e.settleAccount(at, t)
			}
		}
	case *coordinator.Remembered:
		e.foldRemembered(at, r)
	case *coordinator.Learnt:
		e.foldLearnt(r)
	case *coordinator.Forgiven:
		if a := e.fleet.ByID[r.Agent]; a != nil {
			e.learner.Forgive(a.Number, e.learner.Type(r.Type), r.At)
		}
	case *coordinator.BreakerChanged:
		e.applyBreakers(e.ejections.Fold(at, r))
		e.out = nil // the leader has announced it
	case *coordinator.Joined:
		e.foldJoined(at, r)
	case *coordinator.QuotaReserved, *coordinator.QuotaExtended, *coordinator.QuotaEnded, *coordinator.QuotaBefore,
		*coordinator.QuotaTold, *coordinator.EstimateBefore, *coordinator.ShareBefore, *coordinator.PoolHeard:
		e.foldQuota(r)
	case *coordinator.QuotaControlled:
		e.controls.Fold(e.quotas.Ledger, at, r)
	case *coordinator.LaneKnown:
		e.lanes.Fold(r)
	default:
		e.foldAgent(at, r)
	}
}

// Succeed notes that a leader's term has ended: at is when the latest record of it was
// written, lasted how long it has led. What it acknowledged shortly before may be
// delivered again, and what it never answered.
func (e *Engine) Succeed(at time.Time, lasted time.Duration) {
	e.messages.SessionLost(at, lasted, e.mayBeHeld)
	e.ends.TermEnded(at)
	e.replayed = true
}

// Lead ends following: from now on this engine decides. Results are read again, then SessionOpened comes: the usage
// that they report is charged to periods of now, whatever time records contain.
func (e *Engine) Lead(now time.Time) {
	e.recollect()
	e.adoptReservations()
	e.following = false
	e.controls.Installed() // it has the policy already
	e.quotasNotAfter(now)
	e.scheduleControls()
	e.scheduleDay()
	for _, a := range e.fleet.Agents {
		a.HeldByUs = true // the leader before may have taken its queue back, until it has been empty
	}
}

// agentOf returns the agent of that id. For an agent that the policy does not list (yet) it stores what the records
// say.
func (e *Engine) agentOf(id coordinator.AgentID) *agent {
	if a := e.fleet.Known(id); a != nil {
		return a
	}
	a := rejoin(nil)
	a.Spec.ID, a.Number, a.Serial = id, -1, e.fleet.SerialOf(id)
	e.fleet.Left[id] = a
	return a
}

// leaseOf is the open dispatch of that attempt; nil when there is none.
func (e *Engine) leaseOf(key coordinator.TaskKey, attempt int) *openTask {
	if t := e.tasks.of(e.dedupe.Peek(key)); t != nil && t.attempt == attempt {
		return t
	}
	return nil
}

// foldAssigned begins the lease of a dispatch of which it is not known yet whether it was published: until Settled
// comes the broker still holds its task, too.
func (e *Engine) foldAssigned(r *coordinator.Assigned) {
	key := coordinator.KeyOf(r.Task.ID)
	if before := e.tasks.of(e.lookup(r.At, key)); before != nil {
		// A dispatch that came back goes on in its place: the task's own message may come yet.
		e.foldEnd(r.At, before, before.ownMessage && !r.OwnMessage)
	}
	a := e.agentOf(r.Agent)
	e.arrivals++
	t := &openTask{
		task: r.Task, key: key, attempt: r.Attempt, state: stateLeased, assignedAt: r.At,
		tried: r.Tried, tries: max(r.Tries, len(r.Tried)), failed: r.Failed, untouched: r.Untouched, suspected: r.Suspected,
		breakerFaults: r.Blamed, learnerFaults: r.Taught,
		maybeDuplicate: r.MaybeDuplicate, ownMessage: r.OwnMessage,
		due: queue.Due(r.Task), arrival: e.arrivals, index: -1,
		lease: lease{
			dispatchID: coordinator.DispatchID(r.Task, r.Attempt), Dispatch: fleet.Dispatch{Settled: r.At}, unanswered: true,
			generation: r.Generation, probe: r.Probe, batch: r.Batch, service: r.Service,
			timeout: r.Timeout, deadline: r.At.Add(r.Timeout + leaseMargin), runsFrom: r.At,
		},
	}
	t.expire = newTimer(dutyExpire, t, nil)
	t.retry = newTimer(dutyRetry, t, nil)
	e.tasks.add(t)
	t.record, _ = e.dedupe.Insert(r.At, key, r.Task.ContentHash, coordinator.FateUnsettled, t.number)
	e.dedupe.Update(t.key, t.record, coordinator.FateUnsettled, t.number, t.attempt)
	a.Capacity.NotAfter(r.At)
	if len(a.Open) == 0 {
		a.Capacity.InHand(r.At, 1)
	}
	t.alone = e.mustBeAlone(t)
	t.agent = a
	e.fleet.Take(a, t, t.alone)
	e.messages.Unanswered(key)
	e.watchLease(t)
}

// foldSettled notes that the dispatch has arrived: its task was acknowledged then.
func (e *Engine) foldSettled(r *coordinator.Settled) {
	t := e.leaseOf(r.Key, r.Attempt)
	if !r.Heard {
		if t == nil || t.unanswered { // one that has ended before was in doubt until now
			e.messages.Came(r.Key)
		}
		e.messages.Acked(r.At, r.Key)
	}
	if t == nil {
		return
	}
	if !r.Heard {
		t.agent.Assigned++
		t.agent.Given, t.agent.Moved = r.At, r.At
	}
	t.unanswered, t.Settled = false, r.At
	t.deadline, t.runsFrom = r.At.Add(t.timeout+leaseMargin), r.At
	e.dedupe.Update(t.key, t.record, coordinator.FateDispatched, t.number, t.attempt)
	e.timers.cancel(&t.expire)
	e.watchLease(t)
}

// foldEnd ends a dispatch without sending anything, and without learning from it. The message of a dispatch that
// was never answered may stay in doubt.
func (e *Engine) foldEnd(at time.Time, t *openTask, inDoubt bool) {
	if t.unanswered && !inDoubt {
		e.messages.Came(t.key)
	}
	e.timers.cancel(&t.expire)
	e.tasks.drop(t)
	e.ends.Keep(at, t.key, t.task)
	t.Over, t.probe = true, false
	t.agent.Moved = later(t.agent.Moved, at)
	if t.On() {
		e.settleAccount(at, t)
	}
}

// settleAccount takes a dispatch off its agent's account. If the agent's latest
// report counts it as active, it is credited.
func (e *Engine) settleAccount(at time.Time, t *openTask) {
	a := t.agent
	if !a.Heard.IsZero() {
		stamp := at
		if a.Clock.Known {
			stamp = at.Add(-a.Clock.Offset)
		}
		a.Note(fleet.Ending{Task: t.task.ID, Stamp: stamp, Settled: t.Settled, Heard: at}, t.Covered)
	}
	t.agent.Give(t)
	a.Measure(at)
	e.fleet.Refresh(a)
}

// foldRemembered takes over what is known of a task id that no agent has.
func (e *Engine) foldRemembered(at time.Time, r *coordinator.Remembered) {
	rec := e.lookup(at, r.Key)
	switch t := e.tasks.of(rec); {
	case t != nil:
		e.foldEnd(at, t, !endsWithDelivery(r))
	case rec != nil && rec.Fate == coordinator.FateForgotten && rec.Attempt > 0 && r.Fate.HasEnded() &&
		!endsWithDelivery(r):
		e.messages.Expect(r.Key) // it ended while the broker had it
	}
	if rec == nil {
		_, rec = e.dedupe.Insert(r.Seen, r.Key, r.Content, r.Fate, 0)
	}
	e.dedupe.DropReason(r.Key)
	rec.Content, rec.Fate, rec.Ref = r.Content, r.Fate, e.fleet.SerialOf(r.Agent)
	rec.Attempt, rec.Flags = dedupe.CapAttempt(r.Attempt), dedupe.FlagsOf(r.Flags)
	if rec.IsWithdrawn() {
		e.dedupe.KeepReason(r.Key, r.Reason)
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

// recallRow collects one row of what was learnt before.
func (e *Engine) recallRow(r *coordinator.LearntBefore) {
	if r.First || e.learntBefore == nil {
		e.learntBefore = &learning.State{AsOf: r.AsOf}
	}
	s, tally := e.learntBefore, learning.Tally{Successes: r.Sums[0], Outcomes: r.Sums[1], Seconds: r.Sums[2], Timed: r.Sums[3]}
	switch {
	case r.First:
	case !r.Typed && r.Agent == "":
		s.Fleet = tally
	case !r.Typed:
		s.Agents = append(s.Agents, learning.AgentState{
			Agent: r.Agent, Successes: r.Sums[0], Expected: r.Sums[1], Paces: r.Sums[2], Paced: r.Sums[3],
			Dollars: r.Sums[4], Costed: r.Sums[5],
		})
	case r.Agent == "":
		s.Types = append(s.Types, learning.TypeState{Type: r.Type, Fleet: tally})
	case len(s.Types) > 0:
		of := &s.Types[len(s.Types)-1]
		of.Agents = append(of.Agents, learning.PairState{Agent: r.Agent, Tally: tally})
	}
}

// recollect puts what was learnt before in its place, once all of it is there. What
// cannot have been learnt is left out: it is learnt anew.
func (e *Engine) recollect() {
	if e.learntBefore == nil {
		return
	}
	if e.learner.Import(*e.learntBefore, e.fleet.Number) == nil {
		for _, a := range e.fleet.Agents {
			a.MeanCost, _ = e.learner.Cost(a.Number)
			e.fleet.Refresh(a)
		}
	}
	e.learntBefore = nil
}

// How records about agents are folded.

// foldAgent applies a record about one agent, or about a message that is still to be sent to it.
func (e *Engine) foldAgent(at time.Time, r coordinator.Record) {
	switch r := r.(type) {
	case *coordinator.Ordered:
		if e.fleet.Order(r.Agent, r.Order); e.fleet.ByID[r.Agent] != nil {
			e.fleet.Refresh(e.fleet.ByID[r.Agent])
		}
	case *coordinator.Tracked:
		e.track(e.agentOf(r.Agent))
	case *coordinator.Consumed:
		a := e.agentOf(r.Agent)
		a.HadConsumer, a.ConsumedTold = r.Ever, r.Told
	case *coordinator.Doubted:
		e.messages.SetExpected(r.Key, r.Messages)
	case *coordinator.AgentBefore:
		a := e.agentOf(r.Agent)
		a.Assigned = r.Assigned
		a.Capacity = capacity.State{Items: r.Items, BusySeconds: r.BusySeconds, Samples: r.Samples}.Estimator()
		a.Capacity.InHand(at, len(a.Open))
		e.fleet.Assignments = max(e.fleet.Assignments, r.LastAssigned)
		if a.Number >= 0 {
			e.fleet.Views[a.Number].LastAssigned = r.LastAssigned
		}
	case *coordinator.Calibrated:
		e.agentOf(r.Agent).bidding.Calibration = auction.CalibrationState{
			Ratio: r.Ratio, Brier: r.Brier, Bias: r.Bias, Timed: r.Timed, Judged: r.Judged,
		}.Calibration()
	case *coordinator.Owed:
		e.ends.AddFailure(&coordinator.Fail{Task: r.Task, Failure: r.Failure})
	case *coordinator.EndedBefore:
		e.ends.Keep(at, coordinator.KeyOf(r.Task.ID), r.Task)
	case *coordinator.Paid:
		e.ends.AckFailure(r.Key)
	}
}

// foldLearnt learns what the leader has learnt.
func (e *Engine) foldLearnt(r *coordinator.Learnt) {
	a := e.fleet.ByID[r.Agent]
	if a == nil {
		return
	}
	e.learner.NotAfter(r.At) // what is learnt in one term is in order
	a.Capacity.NotAfter(r.At)
	o := learning.Outcome{Duration: r.Duration, CostUSD: r.CostUSD}
	switch r.Attribution {
	case coordinator.AttributedSuccess:
		o.Attribution = learning.Succeeded
		a.Capacity.Done(r.At)
	case coordinator.AttributedAgentFault:
		o.Attribution = learning.AgentFault
	case coordinator.AttributedTimeout:
		o.Attribution = learning.TimedOut
	}
	e.learner.Observe(r.At, a.Number, e.learner.Type(r.Type), o)
	if r.CostUSD > 0 {
		a.MeanCost, _ = e.learner.Cost(a.Number)
	}
	e.fleet.Refresh(a)
}

// foldJoined takes over which agents have joined by themselves, and which have left.
func (e *Engine) foldJoined(at time.Time, r *coordinator.Joined) {
	e.fleet.FoldJoined(r, e.policy)
	e.install(at, e.policy)
	e.out = nil // the world has heard of them
}
