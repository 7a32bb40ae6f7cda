package engine

import (
	"slices"
	"time"

	"taskbus/coordinator"
)

// How tasks come back from their lanes: those are read that hold something and of which few
// tasks are held here, each with a small window, so that what is stuck stops the reading by
// itself. They are read however many others wait: what is in a lane came before what comes
// now, and its group's turn may be next. All windows together are about half of the room, and
// what they displace is moved (relieve). What has been held out of a lane for long, without
// getting on, while more stands behind it goes to the lane's end (heldTooLong), so that all
// of them are looked at in time.

// laneCopy tells whether a message out of a lane is a copy of a task that is taken care of
// otherwise. What a lane has and the journal does not say is in it is one: it was moved by
// a leader that ended before it could write that down, and its queue of before has it, too.
func (r *record) laneCopy(ev *coordinator.TaskReceived) bool {
	if ev.Lane == "" || r.content != ev.Task.ContentHash {
		return false
	}
	switch r.fate {
	case coordinator.FateLaned, coordinator.FateForgotten, coordinator.FateWithdrawn, coordinator.FateUnsettled:
		return false // it goes on, or ends, with this message
	case coordinator.FateFailed: // it is not known whether that was told, if it was held then
		return !ev.Redelivered
	case coordinator.FateCancelled:
		return !r.untold(ev.Redelivered)
	}
	return true
}

// cameOutOf notes a message that came out of a lane.
func (e *Engine) cameOutOf(now time.Time, key string) {
	l := e.lanes.lane(key)
	e.knowLane(l)
	l.ready, l.usedAt = max(0, l.ready-1), now
}

// laneWindow is how many tasks of one lane are held at once: all lanes that may hold something
// have half of the room between them, and one each at least.
func (e *Engine) laneWindow() int {
	if most, bounded := e.room(); bounded {
		return max(1, min(laneWindow, most/2/max(1, e.lanes.known)))
	}
	return laneWindow
}

// considerReading begins to read a lane that holds something, if few that came out of it
// wait here.
func (e *Engine) considerReading(now time.Time, l *lane) {
	if !e.connected || l.ready == 0 || l.window > 0 || l.waitsTurn || l.noReading.After(now) || !e.wantsMore(l) {
		return
	}
	l.since = now
	if e.lanes.reading >= maxLanesRead {
		l.waitsTurn = true
		e.lanes.turns = append(e.lanes.turns, l)
		return
	}
	e.beginReading(now, l)
}

// wantsMore tells whether less than half of its window is held out of the lane, and there is
// room, or nothing else of the lane's waits here, or what does goes after what is in it.
func (e *Engine) wantsMore(l *lane) bool {
	window := e.laneWindow()
	if held := l.out.tasks.Len(); held > 0 && held >= window/2 {
		return false
	}
	if most, bounded := e.room(); !bounded || e.backlog()+window <= most || l.waiting == 0 {
		return true
	}
	return l.precedes(l.lines.Items[0].tasks.Items[0])
}

// standing is where the task stands, for others to be compared with.
func (t *openTask) standing() *openTask {
	return &openTask{level: t.level, rank: t.rank, arrival: t.arrival}
}

// precedes tells whether what is first in the lane may go before the task.
func (l *lane) precedes(t *openTask) bool {
	return l.head == nil || l.out.tasks.Before(t, l.head)
}

func (e *Engine) beginReading(now time.Time, l *lane) {
	l.window, l.since, l.usedAt = e.laneWindow(), now, now
	e.lanes.reading++
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
	l.window = 0
	e.lanes.reading--
	for len(e.lanes.turns) > 0 && e.lanes.reading < maxLanesRead {
		next := e.lanes.turns[0]
		e.lanes.turns = slices.Delete(e.lanes.turns, 0, 1)
		next.waitsTurn = false
		if next.ready > 0 && e.wantsMore(next) {
			e.beginReading(now, next)
		}
	}
}

// laneEnded hears that a lane is not read any more, or could not be.
func (e *Engine) laneEnded(now time.Time, ev coordinator.LaneEnded) {
	if l := e.lanes.byKey[ev.Lane]; l != nil && l.window > 0 {
		l.noReading = now.Add(laneRest)
		e.readingEnded(now, l)
	}
}

// laneSeen hears how many tasks are ready in a lane.
func (e *Engine) laneSeen(now time.Time, ev coordinator.LaneSeen) {
	l := e.lanes.byKey[ev.Lane]
	if l == nil || !e.connected {
		return
	}
	l.asked = false
	if l.ready = ev.Ready; l.ready > 0 {
		e.knowLane(l)
	}
	busy := now.Sub(l.usedAt) < laneQuiet
	switch {
	case l.window == 0 && l.ready > 0:
		e.considerReading(now, l)
	case l.window > 0 && (l.ready == 0 && !busy || l.window > 2*e.laneWindow() ||
		len(e.lanes.turns) > 0 && now.Sub(l.since) >= laneTurn):
		e.endReading(l)
	}
	if l.ready > 0 || busy || l.window > 0 || !l.known || l.moving > 0 || e.holdsOutOf(l) {
		e.lanes.forget(l)
		return
	}
	if ev.Missing || e.policy.HasLane(l.key) {
		e.lanes.know(l, false)
		e.record(&coordinator.LaneKnown{Lane: l.key})
		e.lanes.forget(l)
		return
	}
	e.emit(coordinator.DropLane{Lane: l.key}) // the policy no longer has it, and it is empty
}

// holdsOutOf tells whether any task is held that came out of the lane. It looks at all that
// are held, which is done only when a lane seems empty.
func (e *Engine) holdsOutOf(l *lane) bool {
	for _, t := range e.held { // order does not matter: it is a question
		if t.from == l.key {
			return true
		}
	}
	return false
}

// laneLook is how often a lane is looked at.
const laneLook = time.Second

// LanesWatched names the lanes at which the shell should look now, at most so many: those
// that may hold something, each about once a second.
func (e *Engine) LanesWatched(now time.Time, most int) (keys []string) {
	s := &e.lanes
	for range s.order {
		if len(keys) >= most {
			break
		}
		l := s.order[s.next%len(s.order)]
		s.next = (s.next + 1) % len(s.order)
		if (l.known || l.asked) && now.Sub(l.lookedAt) >= laneLook {
			l.lookedAt = now
			keys = append(keys, l.key)
		}
	}
	return keys
}

// lanesOpened begins a session. Whoever has folded nothing knows of no lane, and looks at
// all that the policy has: their queues may be older than the journal.
func (e *Engine) lanesOpened() {
	for _, l := range e.lanes.order {
		l.lookedAt = time.Time{}
	}
	if e.recalls || e.policy.Lanes == nil {
		return
	}
	for _, key := range append([]string{coordinator.LaneOther}, e.policy.Lanes...) {
		if l := e.lanes.lane(key); !l.known {
			l.asked = true
		}
	}
}

// lanesClosed forgets what the shell did for us in a session.
func (e *Engine) lanesClosed() {
	s := &e.lanes
	s.clearLines()
	for _, l := range slices.Clone(s.order) {
		l.window, l.ready, l.head, l.waitsTurn, l.asked = 0, 0, nil, false, false
		l.rest, l.noReading = time.Time{}, time.Time{}
		s.forget(l)
	}
	s.reading, s.turns, s.paused = 0, nil, false
	e.timers.cancel(&s.again)
}

// foldLane takes over whether a lane may hold something.
func (e *Engine) foldLane(r *coordinator.LaneKnown) {
	l := e.lanes.lane(r.Lane)
	e.lanes.know(l, r.Known)
	e.lanes.forget(l)
}

// imageLanes is which lanes may hold something.
func (e *Engine) imageLanes(m *Image) {
	for _, l := range e.lanes.order {
		if l.known {
			m.others = append(m.others, &coordinator.LaneKnown{Lane: l.key, Known: true})
		}
	}
}

func (e *Engine) lanesSnapshot() (list []coordinator.LaneSnapshot) {
	for _, l := range e.lanes.order {
		if waiting := l.all(); l.known || waiting > 0 {
			list = append(list, coordinator.LaneSnapshot{
				Lane: l.key, Ready: l.ready, Waiting: waiting, Moving: l.moving, Read: l.window > 0, Orphan: !e.policy.HasLane(l.key),
			})
		}
	}
	return list
}
