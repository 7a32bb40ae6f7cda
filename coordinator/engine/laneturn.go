package engine

import (
	"slices"
	"time"

	"taskbus/coordinator"
)

// Which lane is read first. No more than maxLanesRead are read at once: each is a consumer. When
// more should be, one is read until it has given what it is read for, and the next is the one
// whose task would have the next turn if it were here: by fairshare.Shares, as for all tasks that
// wait. So what a lane is ahead or behind counts as it does for tasks, and new weights count from
// the next turn on.
//
// That Shares have the last word would not do alone: they say nothing of two lanes of one group, and
// a priority above all others could keep those below out. So who has waited for laneTurn goes first.
// With n lanes a lane is therefore read within laneTurn and n/maxLanesRead turns; a turn ends at
// the window's worth, and after laneTurn if the broker gives nothing.

// tookOut is called after a task has come out of a lane.
func (e *Engine) tookOut(now time.Time, key string) {
	if l := e.lanes.byKey[key]; l != nil && l.window > 0 && len(e.lanes.turns) > 0 && e.hadItsTurn(l) {
		e.endTurn(now, l)
	}
}

// hadItsTurn tells whether a lane that is read has given what it is read for.
func (e *Engine) hadItsTurn(l *lane) bool {
	return !l.held() && (l.ready == 0 || l.taken >= l.window || !e.wantsMore(l))
}

// makeWay ends the turn of the lane that has had its own, if there is one: while nobody else waited
// it went on.
func (e *Engine) makeWay(now time.Time) {
	var last *lane
	for _, l := range e.lanes.reads {
		if e.hadItsTurn(l) && (last == nil || e.readBefore(now, last, l)) {
			last = l
		}
	}
	if last != nil {
		e.endTurn(now, last)
	}
}

// endTurn has another lane read in place of this one, unless this one is next again.
func (e *Engine) endTurn(now time.Time, l *lane) {
	if l.ready > 0 && e.wantsMore(l) && e.readBefore(now, l, e.lanes.turns[e.nextTurn(now)]) {
		l.taken, l.since = 0, now
		return
	}
	e.endReading(l)
	e.considerReading(now, l)
}

// nextTurns begins to read as many of those that wait as may be read.
func (e *Engine) nextTurns(now time.Time) {
	s := &e.lanes
	for len(s.turns) > 0 && len(s.reads) < maxLanesRead {
		i := e.nextTurn(now)
		next := s.turns[i]
		s.turns = slices.Delete(s.turns, i, i+1)
		next.waitsTurn = false
		if next.ready > 0 && e.wantsMore(next) {
			e.beginReading(now, next)
		}
	}
}

// nextTurn is the place of the lane that is read next among those that wait for it.
func (e *Engine) nextTurn(now time.Time) (next int) {
	for i, l := range e.lanes.turns {
		if i > 0 && e.readBefore(now, l, e.lanes.turns[next]) {
			next = i
		}
	}
	return next
}

// readBefore tells which of two lanes is read first.
func (e *Engine) readBefore(now time.Time, a, b *lane) bool {
	x, y := a.waitsLong(now), b.waitsLong(now)
	switch {
	case x != y:
		return x
	case x:
		return a.since.Before(b.since)
	}
	if x, y := e.nothingHere(a), e.nothingHere(b); x != y {
		return x
	}
	if a.kind.level != b.kind.level {
		return a.kind.level > b.kind.level
	}
	if x, y := e.leafOfLane(a), e.leafOfLane(b); x != y {
		return e.quotas.shares.Before(x, y)
	}
	return a.since.Before(b.since)
}

// waitsLong tells whether the lane has waited so long for its turn that it goes first.
func (l *lane) waitsLong(now time.Time) bool { return l.waitsTurn && now.Sub(l.since) >= laneTurn }

// nothingHere tells whether no task of the lane's kind waits here, so that nobody can see whose
// turn it is.
func (e *Engine) nothingHere(l *lane) bool {
	return l.out.tasks.Len() == 0 && e.lanes.lines.waiting(l.kind) == 0
}

// group is whose turn the lane's tasks wait for, as far as is known.
func (l *lane) group() string {
	if l.sorted && l.kind.level != others {
		return l.kind.group
	}
	return coordinator.LaneBase(l.key)
}

// setReady notes how many tasks are in the lane's queue.
func (e *Engine) setReady(l *lane, n int) {
	b := e.lanes.backlog
	l.ready = n
	switch waits := e.waitsInTurns(l); {
	case waits && l.index < 0:
		l.leaf = e.leafOfLane(l)
		b.Push(l.leaf, l.kind.level, l)
	case !waits && l.index >= 0:
		b.Remove(l.leaf, l.kind.level, l.index)
	}
}

// waitsInTurns tells whether the lane has something, so that its group waits for its turn.
func (e *Engine) waitsInTurns(l *lane) bool {
	return l.ready > 0 && l.sorted && l.kind.level != others && e.quotas.ledger.Installed()
}

// inBacklog tells whether the lane is there where it says.
func (s *lanes) inBacklog(l *lane) bool {
	x, ok := s.backlog.At(l.leaf, l.kind.level, l.index)
	return ok && x == l
}

// leafOfLane is where the lane's tasks are charged, as far as is known.
func (e *Engine) leafOfLane(l *lane) int { return e.quotas.shares.Leaf(l.group()) }

// rebuildBacklog takes over another tree of groups.
func (e *Engine) rebuildBacklog() {
	e.lanes.backlog.Rebuild(func(l *lane) int {
		l.leaf = e.leafOfLane(l)
		return l.leaf
	})
}
