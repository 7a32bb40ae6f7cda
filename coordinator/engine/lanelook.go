package engine

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"taskbus/coordinator"
)

// What is known of the queues of lanes: how many tasks are ready in each, whether it is there, and
// which of them may hold something, across sessions and leaders.

// laneSeen hears how many tasks are ready in a lane.
func (e *Engine) laneSeen(now time.Time, ev coordinator.LaneSeen) {
	l := e.lanes.byKey[ev.Lane]
	if l == nil || !e.connected {
		return
	}
	if ev.Dropped {
		if l.dropping = false; !ev.Missing {
			return // the next look says why
		}
	}
	asked := l.asked
	if asked && !ev.Missing {
		e.askBeside(l.key)
	}
	l.asked = false
	if e.setReady(l, ev.Ready); l.ready > 0 {
		e.knowLane(l)
	} else if asked && !l.known && e.policy.HasLane(l.key) {
		e.lanes.note(l.key)
		e.record(&coordinator.LaneKnown{Lane: l.key})
	}
	busy := now.Sub(l.usedAt) < laneQuiet
	e.readOn(now, l, busy)
	if l.ready > 0 || busy || l.window > 0 || !l.known || l.moving > 0 || l.dropping || e.holdsOutOf(l) {
		e.lanes.forget(l)
		return
	}
	if ev.Missing || e.policy.HasLane(l.key) {
		e.lanes.know(l, false)
		e.lanes.note(l.key)
		e.record(&coordinator.LaneKnown{Lane: l.key})
		e.lanes.forget(l)
		return
	}
	// It is of no use any more, and it is empty. The broker looks once more and then deletes it,
	// whatever has come in between.
	l.dropping = true
	e.lanes.unsort(l)
	e.emit(coordinator.DropLane{Lane: l.key})
}

// readOn begins or ends the reading of a lane after a look at its queue.
func (e *Engine) readOn(now time.Time, l *lane, busy bool) {
	othersWait := len(e.lanes.turns) > 0 && !l.held()
	switch {
	case l.window == 0:
		e.considerReading(now, l)
	case l.ready == 0 && !busy, l.window > 2*e.laneWindow() && !l.held():
		e.endReading(l)
	case othersWait && (l.ready == 0 || now.Sub(l.since) >= laneTurn):
		e.endReading(l)
	}
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

// lanesOpened begins a session.
func (e *Engine) lanesOpened() {
	e.rebuildBacklog() // shares may have been taken over
	for _, l := range e.lanes.order {
		l.lookedAt = time.Time{}
	}
	e.askNew()
}

// askNew has those lanes of the policy looked at, while there is a session, of which the journal says
// nothing: their queues may be older than it. What it says of lanes that the policy does not have any more is
// let go, so that they are looked at if they come back.
func (e *Engine) askNew() {
	s := &e.lanes
	maps.DeleteFunc(s.told, func(key string, _ struct{}) bool { return !e.policy.HasLane(key) })
	if !e.connected {
		return
	}
	for _, key := range e.policy.AllLanes() {
		if _, told := s.told[key]; !told {
			s.ask(key)
		}
	}
}

// ask has a lane looked at of which nothing is known.
func (s *lanes) ask(key string) {
	if l := s.lane(key); !l.known {
		l.asked = true
	}
}

// note remembers that the journal tells of a lane. Those beside others come and go; they are looked at
// with the one beside which they are.
func (s *lanes) note(key string) {
	if coordinator.LaneBase(key) == key {
		s.told[key] = struct{}{}
	}
}

// asksAhead is how many numbers of lanes beside one are asked for beyond one that there is: those
// in between may be gone.
const asksAhead = 8

// askBeside has those looked at that may be beside a lane of which only its queue is known.
func (e *Engine) askBeside(key string) {
	base := coordinator.LaneBase(key)
	number, _ := strconv.Atoi(strings.TrimPrefix(strings.TrimPrefix(key, base), "~"))
	for n := 1; n <= asksAhead && base != coordinator.LaneHeld; n++ {
		e.lanes.ask(coordinator.LaneBeside(base, number+n))
	}
}

// lanesClosed forgets what the shell did for us in a session.
func (e *Engine) lanesClosed() {
	s := &e.lanes
	s.clearLines()
	for _, l := range slices.Clone(s.order) {
		e.setReady(l, 0)
		l.window, l.taken, l.head, l.waitsTurn, l.asked, l.dropping = 0, 0, nil, false, false, false
		l.rest, l.noReading = time.Time{}, time.Time{}
		s.forget(l)
	}
	s.reads, s.turns, s.paused = nil, nil, false
	e.timers.cancel(&s.again)
}

// foldLane takes over whether a lane may hold something.
func (e *Engine) foldLane(r *coordinator.LaneKnown) {
	e.lanes.note(r.Lane)
	l := e.lanes.lane(r.Lane)
	e.lanes.know(l, r.Known)
	e.lanes.forget(l)
}

// imageLanes is which lanes may hold something, and which of the others have been looked at.
func (e *Engine) imageLanes(m *Image) {
	for _, l := range e.lanes.order {
		if l.known {
			m.others = append(m.others, &coordinator.LaneKnown{Lane: l.key, Known: true})
		}
	}
	for _, key := range slices.Sorted(maps.Keys(e.lanes.told)) {
		if l := e.lanes.byKey[key]; (l == nil || !l.known) && e.policy.HasLane(key) {
			m.others = append(m.others, &coordinator.LaneKnown{Lane: key})
		}
	}
}

func (e *Engine) lanesSnapshot() (list []coordinator.LaneSnapshot) {
	waiting := e.waitingFor()
	for _, l := range e.lanes.order {
		if n := waiting[l.key]; l.known || n > 0 {
			list = append(list, coordinator.LaneSnapshot{
				Lane: l.key, Ready: l.ready, Waiting: n, Moving: l.moving, Read: l.window > 0, Orphan: !e.policy.HasLane(coordinator.LaneBase(l.key)),
			})
		}
		delete(waiting, l.key)
	}
	for key, n := range waiting { // sorted below
		list = append(list, coordinator.LaneSnapshot{Lane: key, Waiting: n, Orphan: !e.policy.HasLane(coordinator.LaneBase(key))})
	}
	slices.SortFunc(list, func(a, b coordinator.LaneSnapshot) int { return strings.Compare(a.Lane, b.Lane) })
	return list
}

// waitingFor counts the tasks that wait here by the lane to which they would be moved, or out of
// which they came.
func (e *Engine) waitingFor() map[string]int {
	waiting := make(map[string]int)
	for key, n := range e.lanes.lines.rows { // order does not matter: these are sums
		for level, count := range n.levels {
			if count > 0 {
				waiting[e.lanes.laneHas(kind{e.policy.LaneOf(key.group), key.group, key.class, level})] += count
			}
		}
	}
	for _, l := range e.lanes.order {
		if n := l.out.tasks.Len(); n > 0 {
			waiting[l.key] += n
		}
	}
	return waiting
}
