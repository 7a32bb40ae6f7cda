package lanes

import (
	"slices"
	"time"

	"taskbus/coordinator"
)

// Which lane is read first. No more than MaxLanesRead are read at once: each is a consumer. When
// more should be, one is read until it has given what it is read for, and the next is the one
// with the task that would have the next turn if it were here: by fairqueue.Shares, as for all tasks that
// wait. So what a lane is ahead or behind counts as it does for tasks, and new weights count from
// the next turn on.
//
// That Shares have the last word would not do alone: they say nothing of two lanes of one group, and
// a priority above all others could keep those below out. So what has waited for LaneTurn goes first.
// With n lanes a lane is therefore read within LaneTurn and n/MaxLanesRead turns; a turn ends at
// the window's worth, and after LaneTurn if the broker gives nothing.

// TookOut answers whether it is another lane's turn after a task of this one has been dealt with.
func (p *Planner) TookOut(now time.Time, key string) []Action {
	p.begin()
	if l := p.byKey[key]; l != nil && l.window > 0 && len(p.turns) > 0 && p.hadItsTurn(l) {
		p.endTurn(now, l)
	}
	return p.actions
}

// hadItsTurn reports whether a lane that is read has given what it is read for.
func (p *Planner) hadItsTurn(l *lane) bool {
	return !l.held() && (l.ready == 0 || l.taken >= l.window || !p.wantsMore(l))
}

// makeWay ends the turn of the lane that has had its own, if there is one: while no other waited
// it went on.
func (p *Planner) makeWay(now time.Time) {
	var last *lane
	for _, l := range p.reads {
		if p.hadItsTurn(l) && (last == nil || p.readBefore(now, last, l)) {
			last = l
		}
	}
	if last != nil {
		p.endTurn(now, last)
	}
}

// endTurn gives the reading of this lane to another, unless this one is next again.
func (p *Planner) endTurn(now time.Time, l *lane) {
	if l.ready > 0 && p.wantsMore(l) && p.readBefore(now, l, p.turns[p.nextTurn(now)]) {
		l.taken, l.since = 0, now
		return
	}
	p.endReading(now, l)
	p.considerReading(now, l)
}

// nextTurns begins to read as many of those that wait as may be read.
func (p *Planner) nextTurns(now time.Time) {
	for len(p.turns) > 0 && len(p.reads) < MaxLanesRead {
		i := p.nextTurn(now)
		next := p.turns[i]
		p.turns = slices.Delete(p.turns, i, i+1)
		next.waitsTurn = false
		if next.ready > 0 && p.wantsMore(next) {
			p.beginReading(now, next)
		}
	}
}

// nextTurn returns the place of the lane that is read next among those that wait for it.
func (p *Planner) nextTurn(now time.Time) (next int) {
	for i, l := range p.turns {
		if i > 0 && p.readBefore(now, l, p.turns[next]) {
			next = i
		}
	}
	return next
}

// readBefore reports whether lane a is read before lane b.
func (p *Planner) readBefore(now time.Time, a, b *lane) bool {
	x, y := a.waitsLong(now), b.waitsLong(now)
	switch {
	case x != y:
		return x
	case x:
		return a.since.Before(b.since)
	}
	if x, y := p.nothingHere(a), p.nothingHere(b); x != y {
		return x
	}
	if a.kind.Level != b.kind.Level {
		return a.kind.Level > b.kind.Level
	}
	if x, y := p.leafOfLane(a), p.leafOfLane(b); x != y {
		return p.shares.Before(x, y)
	}
	return a.since.Before(b.since)
}

// waitsLong reports whether the lane has waited so long for its turn that it goes first.
func (l *lane) waitsLong(now time.Time) bool { return l.waitsTurn && now.Sub(l.since) >= LaneTurn }

// nothingHere reports whether no task of the lane's kind waits here, so that it cannot be seen which
// group has its turn.
func (p *Planner) nothingHere(l *lane) bool {
	return l.out.tasks.Len() == 0 && p.lines.waiting(l.kind) == 0
}

// group returns the group that has the turn which the lane's tasks wait for, as far as is known.
func (l *lane) group() string {
	if l.sorted && l.kind.Level != MixedLevel {
		return l.kind.Group
	}
	return coordinator.LaneBase(l.key)
}

// setReady notes how many tasks are in the lane's queue.
func (p *Planner) setReady(l *lane, n int) {
	b := p.backlog
	l.ready = n
	switch waits := p.waitsInTurns(l); {
	case waits && l.index < 0:
		l.leaf = p.leafOfLane(l)
		b.Push(l.leaf, l.kind.Level, l)
	case !waits && l.index >= 0:
		b.Remove(l.leaf, l.kind.Level, l.index)
	}
}

// waitsInTurns reports whether the lane has something, so that its group waits for its turn.
func (p *Planner) waitsInTurns(l *lane) bool {
	return l.ready > 0 && l.sorted && l.kind.Level != MixedLevel && p.view.TakesTurns()
}

// inBacklog reports whether the lane is there where it says.
func (p *Planner) inBacklog(l *lane) bool {
	x, ok := p.backlog.At(l.leaf, l.kind.Level, l.index)
	return ok && x == l
}

// leafOfLane returns where the lane's tasks are charged, as far as is known.
func (p *Planner) leafOfLane(l *lane) int { return p.shares.Leaf(l.group()) }

// rebuildBacklog takes over another tree of groups.
func (p *Planner) rebuildBacklog() {
	p.backlog.Rebuild(func(l *lane) int {
		l.leaf = p.leafOfLane(l)
		return l.leaf
	})
}
