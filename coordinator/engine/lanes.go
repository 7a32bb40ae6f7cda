package engine

import (
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/engine/internal/lanes"
)

// How a task gets into its lane and out of it. Package lanes decides which task moves, and where to. A task that
// moves is published there, confirmed, written to the journal, acknowledged, in this order. So the lane has what
// the journal says is in it, and a task whose move was interrupted is in two queues, and known as a copy in one of
// them. It loses nothing by it: the message is published there as it came, with the time at which it was accepted.
//
// Only tasks that were never given to an agent are moved: a message of its producer, without a history. What comes
// back from agents is bounded by their own prefetch.

// laneView is what the planner of lanes reads of the engine.
type laneView Engine

func (v *laneView) Policy() *coordinator.Policy { return v.policy }
func (v *laneView) TakesTurns() bool            { return v.quotas.Installed() }
func (v *laneView) Connected() bool             { return v.connected }
func (v *laneView) Waiting() int                { return (*Engine)(v).backlog() }

func (v *laneView) First(t *lanes.Ticket, level int) (lanes.Place, bool) {
	of := v.held[t.Handle]
	first, ok := of.needs.class.Waiting.At(of.leaf, level, 0)
	if !ok {
		return lanes.Place{}, false
	}
	return lanes.Place{Level: first.level, Due: first.due, Arrival: first.arrival}, true
}

// Holds looks at all tasks that are held.
func (v *laneView) Holds(lane string) bool {
	for _, t := range v.held { // order does not matter: it is a question
		if t.from == lane {
			return true
		}
	}
	return false
}

// carryOut does what the planner says, in its order.
func (e *Engine) carryOut(actions []lanes.Action) {
	for i := range actions {
		switch a := &actions[i]; a.Verb {
		case lanes.Read:
			e.emit(coordinator.ReadLane{Lane: a.Lane, Window: a.Window})
		case lanes.Stop:
			e.emit(coordinator.ReadLane{Lane: a.Lane})
		case lanes.Drop:
			e.emit(coordinator.DropLane{Lane: a.Lane})
		case lanes.Record:
			e.record(&coordinator.LaneKnown{Lane: a.Lane, Known: a.Known})
		case lanes.Wake:
			e.timers.schedule(&e.relieveAgain, a.At)
		}
	}
}

// laneKind is what the task has in common with all of its lane.
func (e *Engine) laneKind(t *openTask) lanes.Kind {
	group := t.task.Group
	if e.quotas.Installed() {
		group = e.quotas.Shares.Name(t.leaf)
	}
	return lanes.Kind{Base: e.policy.LaneOf(t.task.Group), Group: group, Class: t.needs.class.Key, Level: t.level}
}

// mayMove reports whether the task may be moved to a lane, should it have to wait.
func (e *Engine) mayMove(t *openTask) bool {
	return e.policy.Lanes != nil && t.ownMessage && t.attempt == 1 && len(t.tried) == 0 && !t.withdrawn && !t.stays
}

// joinLine counts a task that begins to wait as one that may be moved.
func (e *Engine) joinLine(now time.Time, t *openTask) {
	if !e.mayMove(t) {
		return
	}
	e.lanes.Join(&t.lane, lanes.Entry{
		Handle: t.handle, Kind: e.laneKind(t), Due: t.due, Arrival: t.arrival, From: t.from,
	})
	e.watchHeld(now, t)
}

// leaveLine is for one that waits no more.
func (e *Engine) leaveLine(t *openTask) {
	if t.lane.InLine() {
		e.carryOut(e.lanes.Leave(e.now, &t.lane))
	}
}

// watchHeld has a waiting task looked at when it has been held for too long.
func (e *Engine) watchHeld(now time.Time, t *openTask) {
	if t.lane.InLine() {
		e.timers.schedule(&t.retry, later(t.came.Add(e.lanes.HeldLimit(t.from)), now.Add(1)))
	}
}

// heldTooLong moves a task that has waited for so long that others should be seen, or that its
// message should be a new one.
func (e *Engine) heldTooLong(now time.Time, t *openTask) {
	if again, moved := e.moveOn(now, t); !moved {
		e.timers.schedule(&t.retry, again)
	}
}

// moveOn moves a task that has been held for long, if it should be and can be now.
func (e *Engine) moveOn(now time.Time, t *openTask) (again time.Time, moved bool) {
	m, again, actions := e.lanes.Overdue(now, &t.lane, lanes.Held{
		Kind: e.laneKind(t), Came: t.came, Unready: t.state == stateUnscored, Advances: e.advances(now, t),
	})
	if m.Ticket == nil {
		return again, false
	}
	e.moveToLane(now, t, m, actions)
	return again, true
}

// advances reports whether tasks of the waiting task's class have been dispatched of late, and
// its group has quota.
func (e *Engine) advances(now time.Time, t *openTask) bool {
	c := t.needs.class
	return c != nil && now.Sub(c.served) < lanes.HeldLong && e.waitAt(c, t.leaf) == nil
}

// relieve moves tasks out of the window while more wait than should.
func (e *Engine) relieve(now time.Time) {
	for n := 0; e.lanes.Crowded(now); n++ {
		m, actions := e.lanes.Relieve(now, n)
		if m.Ticket == nil {
			e.carryOut(actions)
			return
		}
		e.moveToLane(now, e.held[m.Ticket.Handle], m, actions)
	}
}

// moveToLane begins a move after the actions that go before it.
func (e *Engine) moveToLane(now time.Time, t *openTask, m lanes.Move, before []lanes.Action) {
	e.carryOut(before)
	e.leavePending(t)
	e.carryOut(e.lanes.Begin(now, m))
	t.state = stateMoving
	e.emit(coordinator.MoveToLane{Handle: t.handle, Task: t.task, Lane: m.Lane, MaybeDuplicate: t.maybeDuplicate})
}

// laneMoved takes over what became of a move.
func (e *Engine) laneMoved(now time.Time, ev coordinator.LaneMoved) {
	t := e.held[ev.Handle]
	if t == nil || t.state != stateMoving {
		return // of a session that has ended
	}
	lane, early := e.lanes.Moved(now, &t.lane, ev.Outcome), t.early
	t.state, t.early = stateDeciding, nil
	switch ev.Outcome {
	case coordinator.PublishConfirmed:
		e.inLane(now, t)
		if early != nil && e.connected { // else it goes back with everything that is held
			e.received(now, *early)
		}
		e.carryOut(e.lanes.Consider(now, lane))
		return
	case coordinator.PublishUnknown, coordinator.PublishAbandoned: // the session ends
		e.forgetMoving(t)
		return
	case coordinator.PublishNotSent: // it never can be
		t.stays = true
	}
	if early != nil && e.connected { // a copy from before: the lane did not take this one
		e.emit(coordinator.Ack{Handle: early.Handle, Copy: true})
	}
	switch {
	case t.withdrawn:
		e.failCancelled(now, t)
	case !e.connected:
		e.forget(t)
	default:
		e.admit(now, t) // under the policy of now, and an agent may be free by now
	}
}

// cameEarly keeps what its lane has handed out before the confirm of its move was heard: until
// then the message that was moved is not acknowledged, and afterwards this one is the task. A
// second one is a copy.
func (e *Engine) cameEarly(t *openTask, ev coordinator.TaskReceived) {
	if t.early != nil {
		e.emit(coordinator.Ack{Handle: ev.Handle, Copy: true})
		return
	}
	t.early = &ev
}

// inLane ends the task here: its lane has it.
func (e *Engine) inLane(now time.Time, t *openTask) {
	delete(e.held, t.handle)
	if r := e.recordOf(t); r != nil && t.withdrawn { // it ends when it comes back
		e.dedupe.Withdraw(r, t.cancelReason)
	}
	e.note(t, coordinator.FateLaned, 0, t.attempt-1)
	e.record(&coordinator.Settled{Key: t.key, At: now, Nowhere: true}) // its message of before
	e.emit(coordinator.Ack{Handle: t.handle})
	e.messages.Acked(now, t.key)
	e.tasks.drop(t)
}

// forgetMoving gives up a task whose move was interrupted: its lane may have it, and the queue that it comes from
// has it again.
func (e *Engine) forgetMoving(t *openTask) {
	if t.ownMessage && t.attempt == 1 { // what comes out of its lane may end it before this message comes again
		e.messages.Unanswered(t.key)
	}
	e.forgetWithdrawn(t)
}

// LanesWatched returns the names of the lanes that the shell should check now, at most so many: lanes that may
// contain something, each about once a second.
func (e *Engine) LanesWatched(now time.Time, most int) []string { return e.lanes.Watched(now, most) }
