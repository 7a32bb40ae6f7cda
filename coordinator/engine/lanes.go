package engine

import (
	"cmp"
	"slices"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/fairshare"
)

// Lanes: a task that waits holds a place in the window, and what stands behind it in
// task.assign is not seen. So tasks that crowd the window are moved to a queue of their own, a
// lane, and taken back in turn; and one that is held for long goes to the lane of those that
// are held and comes back at once, as a new message. They lose nothing by it: the message goes
// there as it came, with when it was accepted, and is acknowledged only when the broker and
// the journal have that.
//
//	waiting ──► moving ──► in a lane ──► waiting
//	   ▲           │ refused
//	   └───────────┘
//
// A queue hands out what is first in it. So that nobody stands there behind others that are to
// go later, or never can, a lane has tasks of one kind: of a group and priority that the same
// agents could take. The first kind that a group's lane gets has it for itself until it is
// empty; others go to lanes beside it, that come and go.
//
// This file is the lanes; lanekinds.go is which of them a task is moved to, lanerows.go who waits
// and makes room, lanemove.go how a task gets there, laneread.go how it comes back, laneturn.go
// which lane is read first, lanelook.go what is known of their queues.
//
// Only what has never been given to anybody is moved: a message of its producer's, without
// a history. What comes back from agents is bounded by its own prefetch.

// How tasks are moved and read back.
const (
	// heldLong is how long a task of task.assign waits in the window before it is moved: longer
	// than most wait for a slot, and soon enough that the broker need not keep the log of
	// task.assign from there on.
	heldLong = time.Minute
	// heldMost is how long a task that came out of a lane is held although nothing stands
	// behind it: well below the 30 minutes after which a broker closes the channel of a
	// consumer that holds a message.
	heldMost = 10 * time.Minute
	// heldAtOnce bounds the tasks that are held out of LaneHeld: some brokers give a consumer
	// of a quorum queue no more.
	heldAtOnce = 2000
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
	// laneTurn is how long a lane is read that gives nothing while others wait for their turn,
	// and how long one waits for it before it goes first.
	laneTurn = 10 * time.Second
	// laneQuiet is how long nothing may have gone in or out of a lane that counts as empty:
	// longer than a look at a queue may be under way, and an acknowledgement.
	laneQuiet = 15 * time.Second
	// maxLanes bounds the lanes that may hold something, while one is sought for another kind:
	// each is a queue.
	maxLanes = 1000
	// fewOfKind: a kind of which no more crowd the window at a time is not worth a lane.
	fewOfKind = 8
)

// lanes are those that have anything to do with the tasks at hand.
type lanes struct {
	byKey map[string]*lane
	order []*lane // all of them, by their keys
	// told are the lanes of groups of which the journal says whether they may hold something.
	told map[string]struct{}
	// kinds are the lanes to which tasks of a kind are moved, while they may hold something.
	kinds map[kind]*lane
	// backlog has the lanes that hold something, so that their groups count as waiting when
	// turns are counted, although nothing of theirs may be here.
	backlog *fairshare.Backlog[*lane]
	lines   lines
	moving  int
	known   int // of them
	// reads are those that are read, but for LaneHeld, turns those that should be as soon as
	// one of these has had its turn.
	reads, turns []*lane
	// intake is how many tasks of task.assign the shell holds at most; 0: it has not said.
	intake int
	// again is when to go on with what was too much for one event (paused), or when a lane
	// has rested.
	again  timer
	paused bool
	next   int // where the next look at the lanes begins
}

// lane is one of them: a queue, and the tasks that came out of it and wait here.
type lane struct {
	key string
	// known: the journal says that it may hold something. asked: nothing is known of it,
	// and it is looked at once.
	known, asked bool
	// kind that it has; sorted: that is known. A leader that takes over sees it when the first
	// task comes out.
	kind   kind
	sorted bool
	// mixed: it has others as well.
	mixed bool
	// out are those that came out of the lane. They do not make room: there are no more
	// than it is read with, and what came in since is later than they are.
	out       *row
	moving    int
	head      *placing  // where the first in its queue stands; nil: that is not known
	ready     int       // in its queue, as far as is known: see setReady
	leaf      int       // of the shares, as which it is in the backlog
	index     int       // there; -1: it is not
	usedAt    time.Time // when anything went in or out
	lookedAt  time.Time // when the shell was last asked to look
	rest      time.Time // no moves before
	dropping  bool      // its queue is to be deleted, and nothing is moved there before the answer
	window    int       // it is read with this prefetch; 0: it is not
	taken     int       // came out in this turn
	since     time.Time // it has been read, or waits for its turn
	waitsTurn bool
	noReading time.Time // before then
}

func newLanes(s *fairshare.Shares) lanes {
	return lanes{
		byKey:   make(map[string]*lane),
		told:    make(map[string]struct{}),
		kinds:   make(map[kind]*lane),
		lines:   newLines(),
		backlog: fairshare.NewBacklog(s, func(a, b *lane) bool { return a.key < b.key }, func(l *lane, i int) { l.index = i }),
		again:   newTimer(dutyLanes, nil, nil),
	}
}

// lane finds or makes the one of that key.
func (s *lanes) lane(key string) *lane {
	if l := s.byKey[key]; l != nil {
		return l
	}
	l := &lane{key: key, out: newRow(nil, rowKey{}), index: -1}
	l.out.lane = l
	s.byKey[key] = l
	at, _ := slices.BinarySearchFunc(s.order, key, func(l *lane, key string) int { return cmp.Compare(l.key, key) })
	s.order = slices.Insert(s.order, at, l)
	return l
}

// forget lets go of a lane of which nothing is to be known.
func (s *lanes) forget(l *lane) {
	if l.known || l.asked || l.moving > 0 || l.window > 0 || l.waitsTurn || l.out.tasks.Len() > 0 {
		return
	}
	delete(s.byKey, l.key)
	s.order = slices.DeleteFunc(s.order, func(o *lane) bool { return o == l })
}

// held tells whether the lane is that of tasks which keep their place in the window.
func (l *lane) held() bool { return l.key == coordinator.LaneHeld }

// know notes whether a lane may hold something.
func (s *lanes) know(l *lane, known bool) {
	switch {
	case known && !l.known:
		s.known++
	case !known && l.known:
		s.known--
		s.unsort(l)
	}
	l.known = known
}

// unsort makes an empty lane no kind's any more.
func (s *lanes) unsort(l *lane) {
	if s.kinds[l.kind] == l {
		delete(s.kinds, l.kind)
	}
	l.kind, l.sorted, l.mixed = kind{}, false, false
}

// rests reports whether nothing may be moved to the lane now.
func (l *lane) rests(now time.Time) bool { return l.dropping || l.rest.After(now) }

// knowLane writes down that a lane may hold something from now on.
func (e *Engine) knowLane(l *lane) {
	l.asked = false
	if !l.known {
		e.lanes.know(l, true)
		e.lanes.note(l.key)
		e.record(&coordinator.LaneKnown{Lane: l.key, Known: true})
	}
}
