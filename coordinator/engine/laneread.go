package engine

import (
	"slices"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/engine/internal/dedupe"
)

// How tasks come back from their lanes: those are read that hold something and of which few
// tasks are held here, each with a small window, so that what is stuck stops the reading by
// itself. They are read however many others wait: what is in a lane came before what comes
// now, and its group's turn may be next. All windows together are about half of the room, and
// what they displace is moved (relieve). LaneHeld is read whole and at once: what is there has
// its place in the window.

// isLaneCopy reports whether a message out of a lane is a copy of a task that is taken care of
// otherwise. What a lane has and the journal does not say is in it is one: it was moved by
// a leader that ended before it could write that down, and its queue of before has it, too.
func isLaneCopy(ev *coordinator.TaskReceived, r *dedupe.Record) bool {
	if ev.Lane == "" || r.Content != ev.Task.ContentHash {
		return false
	}
	switch r.Fate {
	case coordinator.FateLaned, coordinator.FateForgotten, coordinator.FateWithdrawn, coordinator.FateUnsettled:
		return false // it goes on, or ends, with this message
	case coordinator.FateFailed: // it is not known whether that was told, if it was held then
		return !ev.Redelivered
	case coordinator.FateCancelled:
		return !r.Unconfirmed(ev.Redelivered)
	}
	return true
}

// mayBeLaneCopy reports whether a task that comes out of a lane may have run, as far as is known:
// its id is forgotten, and a session has ended since it was accepted, so that another of its
// messages may have been in another queue.
func (e *Engine) mayBeLaneCopy(ev *coordinator.TaskReceived, r *dedupe.Record) bool {
	switch {
	case ev.Lane == "":
		return false
	case r == nil:
		return ev.Task.AcceptedAt.Before(e.openedAt)
	}
	return r.Fate == coordinator.FateForgotten && r.Attempt > 0
}

// cameOutOf notes a message that came out of a lane.
func (e *Engine) cameOutOf(now time.Time, key string) {
	l := e.lanes.lane(key)
	e.knowLane(l)
	e.setReady(l, max(0, l.ready-1))
	l.usedAt = now
	l.taken++
}

// laneWindow is how many tasks of one lane are held at once: all lanes that may hold something
// have half of the room between them, and one each at least.
func (e *Engine) laneWindow() int {
	known := e.lanes.known
	if l := e.lanes.byKey[coordinator.LaneHeld]; l != nil && l.known {
		known--
	}
	if most, bounded := e.room(); bounded {
		return max(1, min(laneWindow, most/2/max(1, known)))
	}
	return laneWindow
}

// considerReading begins to read a lane that holds something, if few that came out of it
// wait here.
func (e *Engine) considerReading(now time.Time, l *lane) {
	if !e.connected || l.ready == 0 || l.window > 0 || l.waitsTurn || l.noReading.After(now) || !e.wantsMore(l) {
		return
	}
	if l.since = now; len(e.lanes.reads) < maxLanesRead || l.held() {
		e.beginReading(now, l)
		return
	}
	l.waitsTurn = true
	e.lanes.turns = append(e.lanes.turns, l)
	e.makeWay(now)
}

// wantsMore tells whether less than half of its window is held out of the lane, and there is
// room, or nothing else of its kind waits here, or what makes room for it goes after what is in it.
func (e *Engine) wantsMore(l *lane) bool {
	if l.held() {
		return true
	}
	window := e.laneWindow()
	if held := l.out.tasks.Len(); held > 0 && held >= window/2 {
		return false
	}
	if e.fits(window) || e.lanes.lines.waiting(l.kind) == 0 {
		return true
	}
	n := e.lanes.lines.rows[rowKey{l.kind.group, l.kind.class}]
	return l.precedes(n.tasks.Items[0]) && (l.mixed || e.lanes.lines.next() != n || e.afterLane(l, n))
}

// keepPlaces is how many tasks wait here, with those that keep their place while their message is
// made new: who comes in meanwhile would displace them when they are back.
func (e *Engine) keepPlaces() int {
	n := e.backlog()
	if l := e.lanes.byKey[coordinator.LaneHeld]; l != nil {
		n += l.ready + l.moving
	}
	return n
}

// fits tells whether there is room for so many more of a lane.
func (e *Engine) fits(window int) bool {
	most, bounded := e.room()
	return !bounded || e.keepPlaces()+window <= most
}

// afterLane tells whether all that makes room for what would come out of the lane goes after that:
// what does not would get behind everything there. n makes room. While too many wait these are moved
// first, and it is true only if all of the lane's kind go after it.
func (e *Engine) afterLane(l *lane, n *row) bool {
	most, _ := e.room()
	last := n.tasks.Items[0]
	if over := e.keepPlaces() - most; over <= 0 {
		over += min(e.laneWindow(), l.ready+l.moving)
		return n.after(l, 0, over) >= over
	}
	first, waits := last.needs.class.waiting.At(last.leaf, l.kind.level, 0)
	return !waits || l.precedes(first)
}

// precedes tells whether what is first in the lane may go before the task.
func (l *lane) precedes(t *openTask) bool { return l.head == nil || t.placing().later(*l.head) }

func (e *Engine) beginReading(now time.Time, l *lane) {
	l.since, l.usedAt, l.taken = now, now, 0
	if l.held() {
		l.window = e.heldWindow()
	} else {
		l.window = e.laneWindow()
		e.lanes.reads = append(e.lanes.reads, l)
	}
	e.emit(coordinator.ReadLane{Lane: l.key, Window: l.window})
}

// endReading stops the reading of a lane, if it is read, and gives its turn to another.
func (e *Engine) endReading(l *lane) {
	if l.window > 0 {
		e.emit(coordinator.ReadLane{Lane: l.key})
		e.readingEnded(e.now, l)
	}
}

func (e *Engine) readingEnded(now time.Time, l *lane) {
	if l.window = 0; l.held() {
		return
	}
	e.lanes.reads = slices.DeleteFunc(e.lanes.reads, func(o *lane) bool { return o == l })
	e.nextTurns(now)
}

// laneEnded hears that a lane is not read any more, or could not be.
func (e *Engine) laneEnded(now time.Time, ev coordinator.LaneEnded) {
	if l := e.lanes.byKey[ev.Lane]; l != nil && l.window > 0 {
		l.noReading = now.Add(laneRest)
		e.readingEnded(now, l)
	}
}
