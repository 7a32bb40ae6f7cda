package engine

import (
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/engine/internal/lanes"
	"taskbus/coordinator/engine/internal/state"
)

// How a task gets into its lane and out of it. Package lanes decides which task moves, and where to. A task that
// moves is published there, confirmed, written to the journal, acknowledged, in this order. So the lane has what
// the journal says is in it, and a task whose move was interrupted is in two queues, and known as a copy in one of
// them. It loses nothing by it: the message is published there as it came, with the time at which it was accepted.
//
// Only tasks that were never given to an agent are moved: a message of its producer, without a history. What comes
// back from agents is bounded by their own prefetch.

// carryOut does what the planner says, in its order.
func (k *kernel) carryOut(actions []lanes.Action) {
	for i := range actions {
		switch a := &actions[i]; a.Verb {
		case lanes.Read, lanes.Stop:
			k.Emit(coordinator.ReadLane{Lane: a.Lane, Window: a.Window})
		case lanes.Drop:
			k.Emit(coordinator.DropLane{Lane: a.Lane})
		case lanes.Record:
			k.Commit(&coordinator.LaneKnown{Lane: a.Lane, Known: a.Known})
		case lanes.Wake:
			k.Timers.Schedule(&k.relieveAgain, a.At)
		}
	}
}

// joinLine counts a task that begins to wait as one that may be moved.
func (k *kernel) joinLine(now time.Time, t *state.Task) {
	if !k.MayMove(t) {
		return
	}
	k.Lanes.Join(&t.Lane, lanes.Entry{
		Handle: t.Handle, Kind: k.LaneKind(t), Due: t.Due, Arrival: t.Arrival, From: t.From,
	})
	k.watchHeld(now, t)
}

// watchHeld has a waiting task looked at when it has been held for too long.
func (k *kernel) watchHeld(now time.Time, t *state.Task) {
	if t.Lane.InLine() {
		k.Timers.Schedule(&t.Retry, coordinator.Later(t.Came.Add(k.Lanes.HeldLimit(t.From)), now.Add(1)))
	}
}

// heldTooLong moves a task that has been held for long, if it should be and can be now; else it is looked at again, and
// false is returned.
func (k *kernel) heldTooLong(now time.Time, t *state.Task) bool {
	h := lanes.Held{Kind: k.LaneKind(t), Came: t.Came, Unready: t.Stage == state.Unscored}
	if c := t.Needs.Class; c != nil && k.WaitAt(c, t.Leaf) == nil {
		h.Served = c.Served
	}
	m, again, actions := k.Lanes.Overdue(now, &t.Lane, h)
	if k.carryOut(actions); m.Ticket == nil {
		k.Timers.Schedule(&t.Retry, again)
		return false
	}
	k.moveToLane(now, t, m)
	return true
}

// relieve moves tasks out of the window while more wait than should.
func (k *kernel) relieve(now time.Time) {
	for n := 0; k.Backlog() > 0 && k.Lanes.Crowded(now); n++ {
		m, actions := k.Lanes.Relieve(now, n)
		if k.carryOut(actions); m.Ticket == nil {
			return
		}
		k.moveToLane(now, k.Held[m.Ticket.Handle], m)
	}
}

func (k *kernel) moveToLane(now time.Time, t *state.Task, m lanes.Move) {
	k.leavePending(t)
	k.carryOut(k.Lanes.Begin(now, m))
	t.Stage = state.Moving
	k.Emit(coordinator.MoveToLane{Handle: t.Handle, Task: t.Task, Lane: m.Lane, MaybeDuplicate: t.MaybeDuplicate})
}

// laneMoved takes over what became of a move.
func (k *kernel) laneMoved(now time.Time, ev coordinator.LaneMoved) {
	t := k.Held[ev.Handle]
	if t == nil || t.Stage != state.Moving {
		return // of a session that has ended
	}
	lane, is := k.Lanes.Moved(now, &t.Lane, ev.Outcome)
	early, heard := t.Early, t.Early != nil && k.Fleet.Connected // else it goes back with everything that is held
	t.Stage, t.Early, t.Stays = state.Deciding, nil, t.Stays || is == lanes.Immovable
	if heard && is >= lanes.Refused { // a copy from before: the lane did not take this one
		k.Emit(coordinator.Ack{Handle: early.Handle, Copy: true})
	}
	switch {
	case is == lanes.InLane:
		k.inLane(now, t)
		if heard {
			k.received(now, *early)
		}
		k.carryOut(k.Lanes.Consider(now, lane))
	case is == lanes.Interrupted:
		k.forgetMoving(t)
	case t.Withdrawn:
		k.FailCancelled(now, t)
	case !k.Fleet.Connected:
		k.Forget(t)
	default:
		k.admit(now, t) // under the policy of now, and an agent may be free by now
	}
}

// cameEarly keeps what its lane has handed out before the confirm of its move was heard: until
// then the message that was moved is not acknowledged, and afterwards this one is the task. A
// second one is a copy.
func (k *kernel) cameEarly(t *state.Task, ev coordinator.TaskReceived) {
	if t.Early != nil {
		k.Emit(coordinator.Ack{Handle: ev.Handle, Copy: true})
		return
	}
	t.Early = &ev
}
