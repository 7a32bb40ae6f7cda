package engine_test

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"pgregory.net/rapid"

	"taskbus/coordinator"
	"taskbus/coordinator/engine"
)

// deeds are what the world may do to a leader, alive or dying. Each is false when
// there is nothing to do it with.
func (s *succession) deeds() map[string]func(*rapid.T) bool {
	return map[string]func(*rapid.T) bool{
		"task": s.sendTask, "settle": s.settleOne, "result": s.sendResult, "return": s.returnOne,
		"redeliver": s.redeliver, "cancel": s.cancel, "call": s.call, "time": s.pass, "move": s.settleMove,
		"lane":  s.outOfLane,
		"alarm": s.alarm, "kill": s.kill, "revive": s.revive,
	}
}

// sendTask sends a task, under a new id or one that may have been used before.
func (s *succession) sendTask(t *rapid.T) bool {
	id := rapid.SampledFrom([]coordinator.TaskID{"t0", "t1", "t2", "", "", ""}).Draw(t, "id")
	// With lanes, where everybody has one slot, and with quotas an id that is used again would often
	// wait behind its own former message, or fail at once.
	if id == "" || s.policy.Lanes != nil || s.policy.Quotas != nil {
		id = coordinator.TaskID(fmt.Sprint("n", s.handle+1))
	}
	if s.untold[id] {
		return false
	}
	s.handle++
	s.do(coordinator.TaskReceived{Handle: s.handle, Task: &coordinator.Task{
		ID: id, Type: "any", AcceptedAt: s.now, ContentHash: 1, Priority: coordinator.PriorityNormal,
		Group: rapid.SampledFrom(quotaGroups).Draw(t, "group"), EstimatedUsage: drawUsage(t),
		Alternatives: drawAlternatives(t),
	}})
	return true
}

// call asks about a call.
func (s *succession) call(t *rapid.T) bool {
	if s.policy.Quotas == nil || !s.led {
		return false
	}
	s.do(coordinator.CallAsked{Token: 7, Calls: []coordinator.Call{drawCall(t)}})
	return true
}

// settleOne is the broker's answer to a dispatch.
func (s *succession) settleOne(t *rapid.T) bool {
	var open []coordinator.Handle
	for handle, o := range s.e.HeldTasks() {
		if o.State() == engine.StateDispatching && !s.unsent[handle] && s.l.receipts[handle].live != nil {
			open = append(open, handle)
		}
	}
	if len(open) == 0 {
		return false
	}
	slices.Sort(open)
	handle := rapid.SampledFrom(open).Draw(t, "handle")
	d, outcome := s.l.receipts[handle].live, coordinator.PublishConfirmed
	if !s.heard[d.DispatchID] {
		outcome = rapid.SampledFrom([]coordinator.PublishOutcome{
			coordinator.PublishConfirmed, coordinator.PublishConfirmed, coordinator.PublishConfirmed,
			coordinator.PublishConfirmed, coordinator.PublishRejected, coordinator.PublishNotSent,
		}).Draw(t, "outcome")
	}
	if outcome != coordinator.PublishConfirmed &&
		!s.l.life(d.Task.ID).attempts[coordinator.AttemptID(d.Task.ID, d.Attempt)].again {
		s.arrived = slices.DeleteFunc(s.arrived, func(x *coordinator.Dispatch) bool { return x == d }) // it never did
	}
	s.do(coordinator.DispatchSettled{Handle: handle, Outcome: outcome})
	return true
}

// one draws a dispatch of which its agent may tell.
func (s *succession) one(t *rapid.T) *coordinator.Dispatch {
	var can []*coordinator.Dispatch
	for _, d := range s.arrived {
		if s.early || s.l.life(d.Task.ID).attempts[coordinator.AttemptID(d.Task.ID, d.Attempt)].standing != published {
			can = append(can, d)
		}
	}
	if len(can) == 0 {
		return nil
	}
	d := rapid.SampledFrom(can).Draw(t, "dispatch")
	s.heard[d.DispatchID] = true
	return d
}

// sendResult has an agent tell how a dispatch ended, perhaps not for the first time.
func (s *succession) sendResult(t *rapid.T) bool {
	d := s.one(t)
	if d == nil {
		return false
	}
	ev := coordinator.ResultReported{Live: true, Result: coordinator.Result{
		Task: d.Task.ID, Agent: d.Agent, DispatchID: d.DispatchID, Timestamp: s.real(),
		Outcome:   coordinator.Outcome(rapid.IntRange(0, coordinator.NumOutcomes-1).Draw(t, "outcome")),
		Attempted: rapid.Bool().Draw(t, "attempted"), Usage: drawUsage(t),
	}}
	s.results = append(s.results, ev)
	s.do(ev)
	return true
}

// returnOne gives back a dispatch that an agent has or may have; some come twice.
func (s *succession) returnOne(t *rapid.T) bool {
	d := s.one(t)
	if d == nil {
		return false
	}
	if rapid.IntRange(0, 4).Draw(t, "twice at 0") > 0 {
		s.arrived = slices.DeleteFunc(s.arrived, func(x *coordinator.Dispatch) bool { return x == d })
	}
	s.handle++
	s.do(coordinator.TaskReturned{
		Handle: s.handle, Task: d.Task, Agent: d.Agent, Attempt: d.Attempt, Tried: d.Tried, Failed: d.Failed,
		Cause: coordinator.ReturnCause(rapid.IntRange(0, coordinator.NumReturnCauses-1).Draw(t, "cause")),
	})
	return true
}

// redeliver hands out again what a leader before had, or had acknowledged in vain.
func (s *succession) redeliver(t *rapid.T) bool {
	if len(s.lost) == 0 {
		return false
	}
	i := rapid.IntRange(0, len(s.lost)-1).Draw(t, "which")
	if s.untold[s.lost[i].task.ID] {
		return false
	}
	s.deliverAgain(i)
	return true
}

func (s *succession) deliverAgain(i int) {
	r := s.lost[i]
	s.lost = slices.Delete(s.lost, i, i+1)
	r.again = true
	s.former = r
	defer func() { s.former = nil }()
	s.handle++
	s.do(r.handedOutAgain(s.handle))
}

// cancel withdraws a task, in whatever state it is, now and then.
func (s *succession) cancel(t *rapid.T) bool {
	ids := slices.Sorted(maps.Keys(s.l.lives))
	if len(ids) == 0 || rapid.IntRange(0, 2).Draw(t, "at 0") > 0 {
		return false
	}
	s.do(coordinator.CancelRequested{Task: rapid.SampledFrom(ids).Draw(t, "id"), Token: 9})
	return true
}

// real is what time it is for the world and its agents.
func (s *succession) real() time.Time { return s.now.Add(-s.ahead) }

// pass lets time go by: mostly less than an acknowledgement is in doubt, or a session
// is short.
func (s *succession) pass(t *rapid.T) bool {
	most := rapid.SampledFrom([]int{500, 3000, 3000, 3000, 40_000}).Draw(t, "at most")
	s.now = s.now.Add(time.Duration(rapid.IntRange(0, most).Draw(t, "ms")) * time.Millisecond)
	s.do(coordinator.Tick{})
	return true
}

// tell lets the ledger know of an event before the engine does. What only a dying
// leader has heard the world knows in part.
func (s *succession) tell(ev coordinator.Event) {
	switch ev := ev.(type) {
	case coordinator.PublishingHeld:
		if s.held = ev.Held; s.held {
			s.stalls.begin(s.now)
		} else {
			s.stalls.end(s.now)
		}
	case coordinator.TaskReceived:
		s.l.receive(&receipt{handle: ev.Handle, task: ev.Task, redelivered: ev.Redelivered, lane: ev.Lane,
			maybe: ev.MaybeDuplicate, message: s.message()})
	case coordinator.LaneMoved: // whatever becomes of the leader, the broker has it, or not
		r := s.l.receipts[ev.Handle]
		if ev.Outcome == coordinator.PublishConfirmed {
			s.l.putInLane(r)
			s.l.life(r.task.ID).doubled = s.l.life(r.task.ID).doubled || s.dying == silent
		}
		r.moving = nil
	case coordinator.TaskReturned:
		s.l.receive(&receipt{handle: ev.Handle, task: ev.Task, redelivered: ev.Redelivered, returned: &ev,
			message: s.message()})
		if a := s.l.attempt(ev.Task.ID, ev.Agent, ev.Attempt); a != nil && s.dying != silent {
			a.standing = past // else a standby hears of it when it is delivered again
		}
	case coordinator.DispatchSettled:
		r := s.l.receipts[ev.Handle]
		switch a := s.l.life(r.task.ID).attempts[coordinator.AttemptID(r.task.ID, r.live.Attempt)]; {
		case s.dying == silent:
		case s.dying == alive || ev.Outcome != coordinator.PublishConfirmed:
			s.settled(r, ev.Outcome)
		case a.Dispatch == r.live && a.standing == published:
			a.standing = withAgent // so says the journal; its delivery is not acknowledged
		}
	}
}

// message names the message of a delivery: by its first handle.
func (s *succession) message() int {
	if s.former != nil {
		return s.former.message
	}
	if s.outOf != 0 {
		return s.outOf
	}
	return int(s.handle)
}

// settled notes what the broker has said, or will never say, of a dispatch.
func (s *succession) settled(r *receipt, o coordinator.PublishOutcome) {
	d := r.live
	a := s.l.life(d.Task.ID).attempts[coordinator.AttemptID(d.Task.ID, d.Attempt)]
	r.live = nil
	now := past
	switch o {
	case coordinator.PublishConfirmed:
		now = withAgent
	case coordinator.PublishUnknown:
		now = unanswered
	}
	a.arrived, a.settled = a.arrived || now != past, s.now
	if a.Dispatch == d && a.standing == published {
		a.standing = now
	}
}

// loseDeliveries ends the session of a leader that is killed: the broker will hand out
// again what it had not acknowledged, and perhaps what it had a moment ago.
func (s *succession) loseDeliveries(t *rapid.T) {
	for _, handle := range slices.Sorted(maps.Keys(s.l.receipts)) {
		switch r := s.l.receipts[handle]; {
		case r.open:
			if r.live != nil {
				s.settled(r, coordinator.PublishUnknown)
			}
			if r.moving != nil && rapid.Bool().Draw(t, fmt.Sprint("the move of ", handle, " has arrived")) {
				s.l.putInLane(r)
				s.l.life(r.task.ID).doubled = true
			}
			r.moving = nil
			r.open, r.void = false, true
			s.lost = append(s.lost, r)
		case s.real().Sub(r.acked) < engine.AckDoubt &&
			rapid.Bool().Draw(t, fmt.Sprint("the acknowledgement of ", handle, " is lost")):
			s.lost = append(s.lost, r)
			r.acked = time.Time{}
		}
	}
}

// judge holds one effect against the ledger. Of a dying leader only dispatches count,
// which the journal has, and which may have been published for all that is known.
func (s *succession) judge(f coordinator.Effect) error {
	if s.dying == silent {
		return nil
	}
	l := s.l
	switch f := f.(type) {
	case *coordinator.Dispatch:
		switch _, err := l.dispatched(f); {
		case err != nil:
			return err
		case f.Agent == s.dead && !s.e.HeldTask(f.Handle).Resumed(): // what it may have is left to it for a while
			return fmt.Errorf("%s goes to %s, which was killed before this leader led", f.DispatchID, f.Agent)
		}
		if s.dying == recorded {
			s.unsent[f.Handle] = true
			return nil
		}
		s.arrived = append(s.arrived, f)
	case coordinator.Ack:
		switch err := error(nil); {
		case s.dying == recorded:
		case f.Copy:
			if err = l.settle(f.Handle); err == nil {
				err = l.dropped(f.Handle)
			}
			return err
		default:
			l.receipts[f.Handle].acked = s.real()
			return l.settle(f.Handle)
		}
	case coordinator.MoveToLane:
		if s.dying == alive {
			return l.judgeMove(f)
		}
	case coordinator.DropLane:
		return l.judgeDrop(f)
	case coordinator.QuotaReached:
		told := fmt.Sprint(f.Node, f.Dimension, f.Percent, f.Ends)
		if s.reached[told] {
			return fmt.Errorf("it is told twice that %s has reached %d %% in %s", f.Node, f.Percent, f.Dimension)
		}
		s.reached[told] = true
	case *coordinator.Fail:
		return s.failed(f)
	case *coordinator.Completed:
		return s.completed(f)
	}
	return nil
}

func (s *succession) failed(f *coordinator.Fail) error {
	how, id := failed, f.Task.ID
	s.l.life(id).unsent = s.l.life(id).unsent || f.Failure.Reason == coordinator.ReasonInvalidMessage
	switch {
	case s.dying == recorded:
		s.untold[id] = true
		return nil
	case f.Handle == 0:
		how = timedOut
		s.owed = append(s.owed, id)
	default:
		if err := s.l.settle(f.Handle); err != nil || f.Failure.Reason == coordinator.ReasonDuplicateTask {
			return err
		}
		if err := s.l.mayLive(s.l.receipts[f.Handle]); err != nil {
			return err
		}
	}
	live, err := s.l.end(id, how)
	for _, a := range live {
		if how == timedOut && s.led && err == nil && a.by == s.e { // else it was owed, or another clock counts
			err = s.stalls.mayBeOverdue(s.now, a)
		}
	}
	return err
}

func (s *succession) completed(f *coordinator.Completed) error {
	how, id := doneFor, f.Result.Task
	if f.Result.Outcome == coordinator.OutcomeFailed {
		how = gaveUp
	}
	life := s.l.life(id)
	switch {
	case f.Task == nil && !life.unsent && (life.told.IsZero() || s.real().Sub(life.told) < engine.EndsTold):
		return fmt.Errorf("the end of %s is announced without what it was accepted with", id)
	case !f.Result.Outcome.Final():
		return fmt.Errorf("%s is announced to have ended, and its agent has said %s", id, f.Result.Outcome)
	case s.dying == recorded:
		s.untold[id] = true
		return nil
	case s.reading[id] && life.ended == how: // told twice is better than never
		return nil
	}
	life.told = s.real()
	_, err := s.l.end(id, how)
	return err
}

// checkAwaited: the end is waited for of what agents have. Of what results are
// still to be read again for the end may be known, and is announced then.
func (s *succession) checkAwaited(effects []coordinator.Effect) {
	s.t.Helper()
	ended, expected := endedBy(effects), expectedOf(s.e)
	for _, id := range s.e.OwedFailures() { // it is announced when the session opens
		ended[id] = true
	}
	for id, life := range s.l.lives {
		for _, a := range life.attempts {
			name := a.DispatchID
			switch {
			case life.ended != notEnded, ended[id], expected[name], s.reading[id]:
			case a.standing == withAgent:
				s.t.Fatalf("%s is with %s, and nobody waits for its end", name, a.Agent)
			}
		}
	}
}

// checkHeld: what the leader holds is open, and may begin again if it had ended.
func (s *succession) checkHeld() {
	s.t.Helper()
	for handle, o := range s.e.HeldTasks() {
		r := s.l.receipts[handle]
		if !r.open {
			s.t.Fatalf("handle %d (%s) is held, and is not open", handle, r.task.ID)
		}
		if o.Over() {
			continue
		}
		if err := s.l.mayLive(r); err != nil {
			s.t.Fatal(err)
		}
	}
}

// finish delivers and settles everything: then every task that was sent once has ended,
// or the leader at hand has it open.
func (s *succession) finish() {
	s.t.Helper()
	roomy := *s.policy
	roomy.LaneRoom = 0 // else what comes out of lanes, whether they are read or not, goes back at once
	s.do(coordinator.PolicyChanged{Policy: &roomy})
	for again := true; again; {
		again = false
		for len(s.lost) > 0 {
			s.deliverAgain(0)
		}
		for _, handle := range slices.Sorted(maps.Keys(s.e.HeldTasks())) {
			if o := s.e.HeldTask(handle); o != nil && o.State() == engine.StateDispatching {
				s.do(coordinator.DispatchSettled{Handle: handle, Outcome: coordinator.PublishConfirmed})
				again = true
			}
		}
		for _, handle := range s.l.moves() {
			s.do(coordinator.LaneMoved{Handle: handle, Outcome: coordinator.PublishConfirmed})
			again = true
		}
		for len(s.l.lanes) > 0 {
			s.comesOut(0)
			again = true
		}
	}
	for id, life := range s.l.lives {
		known := life.doubled && !life.told.IsZero() // a copy of its message may have been held for a new one for a while
		if life.ended == notEnded && !known && len(life.messages) == 1 && s.e.OpenTask(id) == nil {
			s.t.Fatalf("%s has not ended, and nobody leads it to its end", id)
		}
	}
}
