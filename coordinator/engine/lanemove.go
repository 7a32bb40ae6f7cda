package engine

import (
	"time"

	"taskbus/coordinator"
)

// How a task gets into its lane: published there, confirmed, written down in the journal,
// acknowledged, in this order. So the lane has what the journal says is in it, and a task
// whose move was cut short is in two queues, and known as a copy in one of them.

// watchHeld has a waiting task looked at when it has been held for too long.
func (e *Engine) watchHeld(now time.Time, t *openTask) {
	if t.line != nil {
		e.timers.schedule(&t.retry, later(later(t.came.Add(heldLong), t.to.rest), now.Add(1)))
	}
}

// heldTooLong moves a task that has waited for so long that others should be seen.
func (e *Engine) heldTooLong(now time.Time, t *openTask) {
	switch {
	case e.mayGoNow(now, t):
		e.moveToLane(now, t)
	case e.staysHeld(now, t):
		e.timers.schedule(&t.retry, earlier(now.Add(heldLong), t.came.Add(e.heldMost())))
	case e.lanes.moving >= maxMoving:
		e.timers.schedule(&t.retry, now.Add(moveAgain))
	default:
		e.timers.schedule(&t.retry, now.Add(laneRest))
	}
}

// staysHeld tells whether nothing is gained by moving the task: it came out of the lane to
// which it would go, and nothing stands behind it there; or tasks like it are being dispatched,
// so that its turn will come, and it would lose that to those behind it.
func (e *Engine) staysHeld(now time.Time, t *openTask) bool {
	return t.from == t.to.key && (t.to.ready == 0 || e.advances(now, t)) && now.Before(t.came.Add(e.heldMost()))
}

// advances tells whether tasks of the waiting task's class have been dispatched of late, and
// its group has quota.
func (e *Engine) advances(now time.Time, t *openTask) bool {
	c := t.needs.class
	return c != nil && now.Sub(c.served) < heldLong && e.quotas.waits.find(c, t.leaf) == nil
}

// heldMost is how long a task that came out of a lane is held although it could be moved: no longer than the broker allows (see mayWait).
func (e *Engine) heldMost() time.Duration {
	if most := e.policy.Settings.MaxTimeout; most > 0 {
		return min(heldMost, most)
	}
	return heldMost
}

func (e *Engine) mayGoNow(now time.Time, t *openTask) bool {
	return e.connected && !e.staysHeld(now, t) && e.lanes.moving < maxMoving && !t.to.rest.After(now)
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
		t := e.crowd()
		if t == nil {
			if len(e.lanes.lines.Items) > 0 { // they rest
				e.timers.schedule(&e.lanes.again, now.Add(laneRest))
			}
			return
		}
		if !t.to.precedes(t) {
			e.endReading(t.to) // what is read there would displace what goes before it
		}
		e.moveToLane(now, t)
	}
}

// moveToLane begins to move a task that waits.
func (e *Engine) moveToLane(now time.Time, t *openTask) {
	l := t.to
	e.leavePending(t)
	e.knowLane(l)
	t.state, t.to = stateMoving, l
	l.moving++
	l.usedAt = now
	e.lanes.moving++
	e.emit(coordinator.MoveToLane{Handle: t.handle, Task: t.task, Lane: l.key, MaybeDuplicate: t.maybeDuplicate})
}

// knowLane writes down that a lane may hold something from now on.
func (e *Engine) knowLane(l *lane) {
	l.asked = false
	if !l.known {
		e.lanes.know(l, true)
		e.record(&coordinator.LaneKnown{Lane: l.key, Known: true})
	}
}

// know notes whether a lane may hold something.
func (s *lanes) know(l *lane, known bool) {
	switch {
	case known && !l.known:
		s.known++
	case !known && l.known:
		s.known--
	}
	l.known = known
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
		if l.ready++; l.ready == 1 {
			l.head = t.standing()
		}
		l.usedAt = now
		if early != nil {
			e.received(now, *early)
		}
		e.considerReading(now, l)
		return
	case coordinator.PublishUnknown, coordinator.PublishAbandoned: // the session ends
		e.forgetMoving(t)
		return
	case coordinator.PublishNotSent: // it never can be
		t.stays = true
		t.until = earlier(t.until, now.Add(e.mayWait(t)))
	default:
		l.rest = now.Add(laneRest)
	}
	if early != nil { // a copy from before: the lane did not take this one
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
	if r := e.memory.record(t.key, t.record); r != nil && t.withdrawn { // it ends when it comes back
		r.flags |= withdrawn
		e.memory.reasons.keep(t.key, t.cancelReason)
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
	e.forget(t)
	if t.withdrawn { // neither copy may be assigned
		if e.memory.record(t.key, t.record) != nil {
			e.memory.reasons.keep(t.key, t.cancelReason)
		}
		e.note(t, coordinator.FateWithdrawn, 0, t.attempt-1)
	}
}

// withdrawMoving notes a cancel of a task that is on its way into its lane: it fails when
// it comes out, or is not taken. Should this leader end before either, whoever follows
// knows it as one that must not be assigned.
func (e *Engine) withdrawMoving(t *openTask, reason string) {
	t.withdrawn, t.cancelReason = true, reason
	if r := e.memory.record(t.key, t.record); r != nil && e.recorder.on {
		e.record(&coordinator.Remembered{
			Key: t.key, ID: t.task.ID, Content: r.content, Fate: coordinator.FateWithdrawn,
			Seen: e.memory.epoch.Add(r.seen), Attempt: t.attempt - 1, Reason: reason,
		})
	}
}

// withdrawLaned notes a cancel of a task that is in its lane.
func (e *Engine) withdrawLaned(r *record, reason string) {
	if r.flags&withdrawn == 0 {
		r.flags |= withdrawn
		e.memory.reasons.keep(r.key, reason)
		e.noted(r)
	}
}
