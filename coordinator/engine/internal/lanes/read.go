package lanes

import (
	"slices"
	"time"

	"taskbus/coordinator"
)

// How tasks come back from their lanes: those are read that hold something and of which few
// tasks are held here, each with a small window, so that what is stuck stops the reading by
// itself. They are read however many others wait: what is in a lane came before what comes
// now, and its group's turn may be next. All windows together are about half of the room, and
// what they displace is moved (Relieve). LaneHeld is read whole and at once: what is there has
// its place in the window.

// How lanes are read.
const (
	// laneWindow is how many tasks of one lane are held at once while it is read: enough
	// for some thousand dispatches a second, few enough for many lanes at a time.
	laneWindow = 64
	// MaxLanesRead bounds the lanes that are read at once: each is a consumer.
	MaxLanesRead = 64
	// LaneTurn is how long a lane is read that gives nothing while others wait for their turn,
	// and how long one waits for it before it goes first.
	LaneTurn = 10 * time.Second
)

// CameOut notes a message that came out of a lane.
func (p *Planner) CameOut(now time.Time, key string) []Action {
	p.begin()
	l := p.lane(key)
	p.mayHold(l)
	p.setReady(l, max(0, l.ready-1))
	l.usedAt = now
	l.taken++
	return p.actions
}

// window returns how many tasks of one lane are held at once: all lanes that may hold something
// have half of the room between them, and one each at least.
func (p *Planner) window() int {
	known := p.known
	if l := p.byKey[coordinator.LaneHeld]; l != nil && l.known {
		known--
	}
	if most, bounded := p.room(); bounded {
		return max(1, min(laneWindow, most/2/max(1, known)))
	}
	return laneWindow
}

// Consider answers whether a lane is read on, of which a task has been moved there.
func (p *Planner) Consider(now time.Time, key string) []Action {
	p.begin()
	if l := p.byKey[key]; l != nil {
		p.considerReading(now, l)
	}
	return p.actions
}

// considerReading begins to read a lane that holds something, if few that came out of it
// wait here.
func (p *Planner) considerReading(now time.Time, l *lane) {
	if !p.view.Connected() || l.ready == 0 || l.window > 0 || l.waitsTurn || l.noReading.After(now) || !p.wantsMore(l) {
		return
	}
	if l.since = now; len(p.reads) < MaxLanesRead || l.held() {
		p.beginReading(now, l)
		return
	}
	l.waitsTurn = true
	p.turns = append(p.turns, l)
	p.makeWay(now)
}

// wantsMore reports whether less than half of its window is held out of the lane, and there is
// room, or nothing else of its kind waits here, or what makes room for it goes after what is in it.
func (p *Planner) wantsMore(l *lane) bool {
	if l.held() {
		return true
	}
	window := p.window()
	if held := l.out.tasks.Len(); held > 0 && held >= window/2 {
		return false
	}
	if p.fits(window) || p.lines.waiting(l.kind) == 0 {
		return true
	}
	n := p.lines.rows[rowKey{l.kind.Group, l.kind.Class}]
	return l.precedes(n.tasks.Items[0].place()) && (l.mixed || p.lines.next() != n || p.afterLane(l, n))
}

// keepPlaces returns how many tasks wait here, with those that keep their place while their message is
// made new: what comes in meanwhile would displace them when they are back.
func (p *Planner) keepPlaces() int {
	n := p.view.Waiting()
	if l := p.byKey[coordinator.LaneHeld]; l != nil {
		n += l.ready + l.moving
	}
	return n
}

// fits reports whether there is room for so many more of a lane.
func (p *Planner) fits(window int) bool {
	most, bounded := p.room()
	return !bounded || p.keepPlaces()+window <= most
}

// afterLane reports whether all that makes room for what would come out of the lane goes after that:
// what does not would get behind everything there. n makes room. While too many wait these are moved
// first, and it is true only if all of the lane's kind go after it.
func (p *Planner) afterLane(l *lane, n *row) bool {
	most, _ := p.room()
	last := n.tasks.Items[0]
	if over := p.keepPlaces() - most; over <= 0 {
		over += min(p.window(), l.ready+l.moving)
		return n.after(l, 0, over) >= over
	}
	first, waits := p.view.First(last, l.kind.Level)
	return !waits || l.precedes(first)
}

func (p *Planner) beginReading(now time.Time, l *lane) {
	l.since, l.usedAt, l.taken = now, now, 0
	if l.held() {
		l.window = p.heldWindow()
	} else {
		l.window = p.window()
		p.reads = append(p.reads, l)
	}
	p.act(Action{Verb: Read, Lane: l.key, Window: l.window})
}

// endReading stops the reading of a lane, if it is read, and gives its turn to another.
func (p *Planner) endReading(now time.Time, l *lane) {
	if l.window > 0 {
		p.act(Action{Verb: Stop, Lane: l.key})
		p.readingEnded(now, l)
	}
}

func (p *Planner) readingEnded(now time.Time, l *lane) {
	if l.window = 0; l.held() {
		return
	}
	p.reads = slices.DeleteFunc(p.reads, func(o *lane) bool { return o == l })
	p.nextTurns(now)
}

// Ended takes over that a lane is not read any more, or could not be.
func (p *Planner) Ended(now time.Time, key string) []Action {
	p.begin()
	if l := p.byKey[key]; l != nil && l.window > 0 {
		l.noReading = now.Add(LaneRest)
		p.readingEnded(now, l)
	}
	return p.actions
}
