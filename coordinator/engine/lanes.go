package engine

import (
	"cmp"
	"slices"
	"taskbus/coordinator/heap"
	"time"
)

// Lanes: a task that waits holds a place in the window, and what stands behind it in
// task.assign is not seen. So tasks that cannot go now, or that crowd the window, are moved
// to a queue of their own, the lane of their group, and taken back in turn. They lose
// nothing by it: the message goes there as it came, with when it was accepted, and is
// acknowledged only when the broker and the journal have that.
//
//	waiting ──► moving ──► in its lane ──► waiting
//	   ▲           │ refused
//	   └───────────┘
//
// This file is who waits, by lanes; lanemove.go is how a task gets there, laneread.go how
// it comes back.
//
// Only what has never been given to anybody is moved: a message of its producer's, without
// a history. What comes back from agents is bounded by its own prefetch.

// How tasks are moved and read back.
const (
	// heldLong is how long a task waits in the window before it is moved: longer than most
	// wait for a slot, and soon enough that the broker need not keep the log of task.assign
	// from there on.
	heldLong = time.Minute
	// heldMost is how long a task that came out of a lane is held although nothing stands
	// behind it: well below the 30 minutes after which a broker closes the channel of a
	// consumer that holds a message.
	heldMost = 10 * time.Minute
	// maxMoving bounds the moves on their way: they share the publisher's window with
	// dispatches, which should not wait for them.
	maxMoving = 256
	// moveAgain is when the next look is at a task for which there was no room among them.
	moveAgain = 100 * time.Millisecond
	// movesPerEvent bounds the work of one Apply. One event adds a task or two to those
	// that wait, so that this many is enough to catch up.
	movesPerEvent = 16
	// laneRest is how long nothing is moved to a lane that did not take a task, or read
	// from one that could not be read.
	laneRest = 5 * time.Second
	// laneWindow is how many tasks of one lane are held at once while it is read: enough
	// for some thousand dispatches a second, few enough for many lanes at a time.
	laneWindow = 64
	// maxLanesRead bounds the lanes that are read at once: each is a consumer.
	maxLanesRead = 64
	// laneTurn is how long a lane is read while others wait for their turn.
	laneTurn = 10 * time.Second
	// laneQuiet is how long nothing may have gone in or out of a lane that counts as empty:
	// longer than a look at a queue may be under way, and an acknowledgement.
	laneQuiet = 15 * time.Second
)

// lanes are those that have anything to do with the tasks at hand.
type lanes struct {
	byKey map[string]*lane
	order []*lane // all of them, by their keys
	// lines are the lanes in which somebody waits who makes room, the longest first.
	lines  heap.Heap[*lane]
	moving int
	known  int // of them
	// reading is how many are read, turns those that should be as soon as there is room.
	reading int
	turns   []*lane
	// intake is how many tasks of task.assign the shell holds at most; 0: it has not said.
	intake int
	// again is when to go on with what was too much for one event (paused), or when a lane
	// has rested.
	again  timer
	paused bool
	next   int // where the next look at the lanes begins
}

// row is tasks that wait here and may be moved, the last of them first.
type row struct {
	of    *lane
	group string // whose tasks they are; empty: of those that came out of the lane
	tasks heap.Heap[*openTask]
	place int // in the lane's lines; -1: nobody waits, or it is out
}

// lane is one of them: a queue, and the tasks that wait here and would go there.
type lane struct {
	key string
	// known: the journal says that it may hold something. asked: nothing is known of it,
	// and it is looked at once.
	known, asked bool
	// lines are of those that make room for others: tasks of task.assign, by group, so that
	// the group with most makes room. The longest is first.
	lines   heap.Heap[*row]
	groups  map[string]*row
	waiting int // in all of these
	place   int // in lanes.lines; -1: nobody waits
	// out are those that came out of the lane. They do not make room: there are no more
	// than it is read with, and what came in since is later than they are.
	out       *row
	moving    int
	head      *openTask // stands where the first in its queue does; nil: that is not known
	ready     int       // in its queue, as far as is known
	usedAt    time.Time // when anything went in or out
	lookedAt  time.Time // when the shell was last asked to look
	rest      time.Time // no moves before
	window    int       // it is read with this prefetch; 0: it is not
	since     time.Time // it has been, or waits for its turn
	waitsTurn bool
	noReading time.Time // before then
}

func newLanes() lanes {
	return lanes{
		byKey: make(map[string]*lane),
		lines: heap.Heap[*lane]{
			Before: func(a, b *lane) bool {
				return cmp.Or(cmp.Compare(b.waiting, a.waiting), cmp.Compare(a.key, b.key)) < 0
			},
			Place: func(l *lane, i int) { l.place = i },
		},
		again: newTimer(dutyLanes, nil, nil),
	}
}

// lane finds or makes the one of that key.
func (s *lanes) lane(key string) *lane {
	if l := s.byKey[key]; l != nil {
		return l
	}
	l := &lane{key: key, place: -1, groups: make(map[string]*row), lines: heap.Heap[*row]{
		Before: func(a, b *row) bool {
			return cmp.Or(cmp.Compare(b.tasks.Len(), a.tasks.Len()), cmp.Compare(a.group, b.group)) < 0
		},
		Place: func(n *row, i int) { n.place = i },
	}}
	l.out = l.newRow("")
	s.byKey[key] = l
	at, _ := slices.BinarySearchFunc(s.order, key, func(l *lane, key string) int { return cmp.Compare(l.key, key) })
	s.order = slices.Insert(s.order, at, l)
	return l
}

func (l *lane) newRow(group string) *row {
	return &row{of: l, group: group, place: -1, tasks: heap.Heap[*openTask]{
		Before: func(a, b *openTask) bool { return cmp.Or(cmp.Compare(a.level, b.level), byRank(b, a)) < 0 },
		Place:  func(t *openTask, i int) { t.linePlace = i },
	}}
}

// all is how many tasks wait that may be moved there, or came out of it and may be moved.
func (l *lane) all() int { return l.waiting + l.out.tasks.Len() }

// forget lets go of a lane of which nothing is to be known.
func (s *lanes) forget(l *lane) {
	if l.known || l.asked || l.moving > 0 || l.window > 0 || l.waitsTurn || l.all() > 0 {
		return
	}
	delete(s.byKey, l.key)
	s.order = slices.DeleteFunc(s.order, func(o *lane) bool { return o == l })
}

// mayMove tells whether the task may be moved to a lane, should it have to wait.
func (e *Engine) mayMove(t *openTask) bool {
	return e.policy.Lanes != nil && t.ownMessage && t.attempt == 1 && len(t.tried) == 0 && !t.withdrawn && !t.stays
}

// joinLine counts a task that begins to wait among those that may be moved.
func (e *Engine) joinLine(now time.Time, t *openTask) {
	if !e.mayMove(t) {
		return
	}
	t.to = e.lanes.lane(e.policy.LaneOf(t.task.Group))
	if t.from != "" {
		t.line = e.lanes.lane(t.from).out
		t.line.of.head = t.standing()
		t.line.tasks.Push(t)
	} else {
		e.lanes.join(t, e.turnOf(t))
	}
	e.watchHeld(now, t)
}

// turnOf is the group whose turn the task waits for, or without quotas its own.
func (e *Engine) turnOf(t *openTask) string {
	if e.quotas.ledger.Installed() {
		return e.quotas.shares.Name(t.leaf)
	}
	return t.task.Group
}

// join puts a task into the line of its group.
func (s *lanes) join(t *openTask, group string) {
	l := t.to
	n := l.groups[group]
	if n == nil {
		n = l.newRow(group)
		l.groups[group] = n
	}
	t.line = n
	n.tasks.Push(t)
	l.waiting++
	if n.place < 0 {
		l.lines.Push(n)
	} else {
		l.lines.Fix(n.place)
	}
	if l.place < 0 {
		s.lines.Push(l)
	} else {
		s.lines.Fix(l.place)
	}
}

// leaveLine is for one that waits no more.
func (e *Engine) leaveLine(t *openTask) {
	n := t.line
	if n == nil {
		return
	}
	t.line, t.to = nil, nil
	n.tasks.Remove(t.linePlace)
	if n != n.of.out {
		e.lanes.shrank(n)
	}
	e.considerReading(e.now, n.of)
}

// shrank puts a line that has lost a task, and its lane, where they belong.
func (s *lanes) shrank(n *row) {
	l := n.of
	l.waiting--
	// What is removed must stand where its length says, until it is gone.
	if l.lines.Fix(n.place); n.tasks.Len() == 0 {
		l.lines.Remove(n.place)
		delete(l.groups, n.group)
	}
	if s.lines.Fix(l.place); l.waiting == 0 {
		s.lines.Remove(l.place)
	}
}

// under begins anew with who waits where, and forgets lanes that are nobody's.
func (s *lanes) under() {
	s.clearLines()
	for _, l := range slices.Clone(s.order) {
		s.forget(l)
	}
}

// clearLines empties all lines: whoever waited waits no more, or is to begin anew.
func (s *lanes) clearLines() {
	for _, l := range s.order {
		for _, n := range append(l.lines.Items, l.out) {
			for _, t := range n.tasks.Items {
				t.line, t.to = nil, nil
			}
		}
		l.lines.Items, l.out.tasks.Items, l.waiting, l.place = nil, nil, 0, -1
		clear(l.groups)
	}
	s.lines.Items = nil
}

// crowd is the waiting task that makes room for others: of the lane in which most wait, and of
// the group that has most of them, the one that would go last; nil when none may be moved now.
func (e *Engine) crowd() *openTask {
	s := &e.lanes
	var most *lane
	switch items := s.lines.Items; {
	case len(items) == 0:
		return nil
	case !items[0].rest.After(e.now):
		most = items[0]
	default: // it did not take one a moment ago
		for _, l := range items {
			if !l.rest.After(e.now) && (most == nil || s.lines.Before(l, most)) {
				most = l
			}
		}
	}
	if most == nil {
		return nil
	}
	return most.lines.Items[0].tasks.Items[0]
}

// room is how many tasks may wait before some are moved; false: as many as can.
func (e *Engine) room() (most int, bounded bool) {
	p := e.policy
	if p.Lanes == nil || p.LaneRoom <= 0 {
		return 0, false
	}
	most = min(p.LaneRoom, p.Settings.MaxQueueSize/2) // beyond max_queue_size tasks fail
	if e.lanes.intake > 0 {
		most = min(most, e.lanes.intake/2)
	}
	return max(1, most), true
}
