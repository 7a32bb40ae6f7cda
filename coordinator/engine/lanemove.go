package engine

import (
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/engine/internal/dedupe"
)

// How a task gets into its lane: published there, confirmed, written down in the journal,
// acknowledged, in this order. So the lane has what the journal says is in it, and a task
// whose move was cut short is in two queues, and known as a copy in one of them.

// watchHeld has a waiting task looked at when it has been held for too long.
func (e *Engine) watchHeld(now time.Time, t *openTask) {
	if t.line == nil {
		return
	}
	most := heldLong
	if t.from == coordinator.LaneHeld {
		most = e.heldMost()
	}
	e.timers.schedule(&t.retry, later(t.came.Add(most), now.Add(1)))
}

// heldTooLong moves a task that has waited for so long that others should be seen, or that its
// message should be a new one.
func (e *Engine) heldTooLong(now time.Time, t *openTask) {
	if e.moveOn(now, t) {
		return
	}
	switch l, _ := e.wayOn(now, t); {
	case l == nil:
		e.timers.schedule(&t.retry, earlier(now.Add(heldLong), t.came.Add(e.heldMost())))
	case e.connected && l.rest.After(now):
		e.timers.schedule(&t.retry, l.rest)
	case e.lanes.moving >= maxMoving:
		e.timers.schedule(&t.retry, now.Add(moveAgain))
	default:
		e.timers.schedule(&t.retry, now.Add(laneRest))
	}
}

// moveOn moves a task that has been held for long, if it should be and can be now.
func (e *Engine) moveOn(now time.Time, t *openTask) bool {
	l, k := e.wayOn(now, t)
	if l == nil || !e.connected || e.lanes.moving >= maxMoving || l.rests(now) {
		return false
	}
	e.moveToLane(now, t, l, k)
	return true
}

// wayOn is where a task goes that has been held for heldLong or more; nil: it stays. What came
// out of a lane of which others may be behind it that could go goes to the end of that, if it does
// not get on, so that all of it is looked at in time. Everything else keeps its place, and has its
// message made new: that of task.assign at once, so that the broker need not keep all that came
// since; that of a lane when the broker's patience with its consumer is at stake.
func (e *Engine) wayOn(now time.Time, t *openTask) (*lane, kind) {
	out, overdue := t.line.lane, !now.Before(t.came.Add(e.heldMost()))
	switch {
	case out != nil && out.ready > 0 && (out.mixed || t.state == stateUnscored) && !e.advances(now, t):
		return e.laneFor(t)
	case t.from != "" && !overdue:
		return nil, kind{}
	}
	l := e.lanes.lane(coordinator.LaneHeld)
	others := e.lanes.lines.held + l.ready + l.moving
	if t.from == coordinator.LaneHeld { // it is one of them
		others--
	}
	if others < e.heldWindow() {
		return l, kind{}
	}
	return e.laneFor(t) // there are too many
}

// heldWindow is how many tasks may keep their place although they have been held for long: as many
// as there is room for.
func (e *Engine) heldWindow() int {
	if most, bounded := e.room(); bounded {
		return min(heldAtOnce, most)
	}
	return heldAtOnce
}

// advances tells whether tasks of the waiting task's class have been dispatched of late, and
// its group has quota.
func (e *Engine) advances(now time.Time, t *openTask) bool {
	c := t.needs.class
	return c != nil && now.Sub(c.served) < heldLong && e.waitAt(c, t.leaf) == nil
}

// heldMost is how long a task that came out of a lane is held although it could be moved: no
// longer than the broker allows (see within).
func (e *Engine) heldMost() time.Duration {
	if most := e.policy.Settings.MaxTimeout; most > 0 {
		return min(heldMost, most)
	}
	return heldMost
}

// relieve moves tasks out of the window while more wait than should.
func (e *Engine) relieve(now time.Time) {
	if !e.connected || e.lanes.paused {
		return
	}
	most, bounded := e.room()
	if !bounded {
		return
	}
	for n := 0; e.backlog() > most && e.lanes.moving < maxMoving; n++ {
		if n == movesPerEvent {
			e.lanes.paused = true
			e.timers.schedule(&e.lanes.again, now.Add(time.Millisecond))
			return
		}
		t, l, k := e.crowd()
		if t == nil {
			if len(e.lanes.lines.rows) > 0 { // their lanes rest
				e.timers.schedule(&e.lanes.again, now.Add(laneRest))
			}
			return
		}
		if !l.precedes(t) {
			e.endReading(l) // what is read there would displace what goes before it
		}
		t.line.moved[t.level]++
		e.lanes.lines.latest = t.line
		e.moveToLane(now, t, l, k)
	}
}

// moveToLane begins to move a task that waits to a lane for tasks of that kind.
func (e *Engine) moveToLane(now time.Time, t *openTask, l *lane, k kind) {
	if out := t.line.lane; out != nil && l.held() && !e.fits(out.window) {
		e.endReading(out) // what comes in for it would displace it when it is back
	}
	e.leavePending(t)
	e.knowLane(l)
	e.sort(l, k)
	t.state, t.to = stateMoving, l
	l.moving++
	l.usedAt = now
	e.lanes.moving++
	e.emit(coordinator.MoveToLane{Handle: t.handle, Task: t.task, Lane: l.key, MaybeDuplicate: t.maybeDuplicate})
}

// laneMoved hears what became of a move.
func (e *Engine) laneMoved(now time.Time, ev coordinator.LaneMoved) {
	t := e.held[ev.Handle]
	if t == nil || t.state != stateMoving {
		return // of a session that has ended
	}
	l, early := e.endMove(t), t.early
	t.early = nil
	switch ev.Outcome {
	case coordinator.PublishConfirmed:
		e.inLane(now, t)
		if e.setReady(l, l.ready+1); l.ready == 1 {
			first := t.placing()
			l.head = &first
		}
		l.usedAt = now
		if early != nil && e.connected { // else it goes back with everything that is held
			e.received(now, *early)
		}
		e.considerReading(now, l)
		return
	case coordinator.PublishUnknown, coordinator.PublishAbandoned: // the session ends
		e.forgetMoving(t)
		return
	case coordinator.PublishNotSent: // it never can be
		t.stays = true
	default:
		l.rest = now.Add(laneRest)
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
		e.admit(now, t) // under the policy of now, and somebody may be free by now
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

// endMove takes a move off the counts.
func (e *Engine) endMove(t *openTask) *lane {
	l := t.to
	t.to, t.state = nil, stateDeciding
	l.moving--
	e.lanes.moving--
	return l
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
	e.inDoubt.acked(now, t.key)
	e.tasks.drop(t)
}

// forgetMoving gives up a task whose move was cut short: its lane may have it, and the
// queue that it comes from has it again.
func (e *Engine) forgetMoving(t *openTask) {
	if t.ownMessage && t.attempt == 1 { // what comes out of its lane may end it before this message comes again
		e.inDoubt.unanswered[t.key]++
	}
	e.forget(t)
	if t.withdrawn { // neither copy may be assigned
		if e.recordOf(t) != nil {
			e.dedupe.KeepReason(t.key, t.cancelReason)
		}
		e.note(t, coordinator.FateWithdrawn, 0, t.attempt-1)
	}
}

// withdrawMoving notes a cancel of a task that is on its way into its lane: it fails when
// it comes out, or is not taken. Should this leader end before either, whoever follows
// knows it as one that must not be assigned.
func (e *Engine) withdrawMoving(t *openTask, reason string) {
	t.withdrawn, t.cancelReason = true, reason
	if r := e.recordOf(t); r != nil && e.recorder.on {
		e.record(&coordinator.Remembered{
			Key: t.key, ID: t.task.ID, Content: r.Content, Fate: coordinator.FateWithdrawn,
			Seen: e.dedupe.Seen(r), Attempt: t.attempt - 1, Reason: reason,
		})
	}
}

// withdrawLaned notes a cancel of a task that is in its lane.
func (e *Engine) withdrawLaned(r *dedupe.Record, reason string) {
	if r.Flags&dedupe.Withdrawn == 0 {
		e.dedupe.Withdraw(r, reason)
		e.noted(r, "")
	}
}
