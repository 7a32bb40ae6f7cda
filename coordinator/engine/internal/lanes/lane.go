package lanes

import (
	"cmp"
	"iter"
	"slices"
	"time"

	"taskbus/coordinator"
)

// MaxLanes bounds the lanes that may hold something, while one is sought for another kind: each is a queue.
const MaxLanes = 1000

// fewOfKind: a kind of which no more crowd the window at a time is not worth a lane.
const fewOfKind = 8

// MixedLevel is the level of the kind that stands for those which are not worth a lane of their own.
const MixedLevel = -1

// lane is a queue, and the tasks that came out of it and wait here.
type lane struct {
	key string
	// known: the journal says that it may hold something. asked: nothing is known of it,
	// and it is looked at once.
	known, asked bool
	// kind that it has; sorted: that is known. A leader that takes over sees it when the first
	// task comes out.
	kind   Kind
	sorted bool
	mixed  bool // it has others as well
	// out are the tasks that came out of the lane. They do not make room: there are no more
	// than it is read with, and what came in since is later than they are.
	out       *row
	into      *row // where the tickets are of those that move to it; it has no list of them
	moving    int
	head      *Place    // where the first in its queue stands; nil: that is not known
	ready     int       // in its queue, as far as is known: see setReady
	leaf      int       // of the shares, as which it is in the backlog
	index     int       // there; -1: it is not
	usedAt    time.Time // when anything went in or out
	lookedAt  time.Time // when it was last to be looked at
	rest      time.Time // no moves before
	dropping  bool      // its queue is to be deleted, and nothing is moved there before the answer
	window    int       // it is read with this prefetch; 0: it is not
	taken     int       // came out in this turn
	since     time.Time // it has been read, or waits for its turn
	waitsTurn bool
	noReading time.Time // before then
}

// lane finds or makes the one of that key.
func (p *Planner) lane(key string) *lane {
	if l := p.byKey[key]; l != nil {
		return l
	}
	l := &lane{key: key, out: newRow(nil, rowKey{}), index: -1}
	l.out.lane = l
	l.into = &row{lane: l, moves: true}
	p.byKey[key] = l
	at, _ := slices.BinarySearchFunc(p.order, key, func(l *lane, key string) int { return cmp.Compare(l.key, key) })
	p.order = slices.Insert(p.order, at, l)
	return l
}

// forget lets go of a lane of which nothing is to be known.
func (p *Planner) forget(l *lane) {
	if l.known || l.asked || l.moving > 0 || l.window > 0 || l.waitsTurn || l.out.tasks.Len() > 0 {
		return
	}
	delete(p.byKey, l.key)
	p.order = slices.DeleteFunc(p.order, func(o *lane) bool { return o == l })
}

// held reports whether the lane is that of tasks which keep their place in the window.
func (l *lane) held() bool { return l.key == coordinator.LaneHeld }

// rests reports whether nothing may be moved to the lane now.
func (l *lane) rests(now time.Time) bool { return l.dropping || l.rest.After(now) }

// precedes reports whether what is first in the lane may go before the place.
func (l *lane) precedes(at Place) bool { return l.head == nil || at.later(*l.head) }

// setKnown notes whether a lane may hold something.
func (p *Planner) setKnown(l *lane, known bool) {
	switch {
	case known && !l.known:
		p.known++
	case !known && l.known:
		p.known--
		p.unsort(l)
	}
	l.known = known
}

// mayHold records that a lane may hold something from now on.
func (p *Planner) mayHold(l *lane) {
	l.asked = false
	if !l.known {
		p.setKnown(l, true)
		p.setRecorded(l.key)
		p.act(Action{Verb: Record, Lane: l.key, Known: true})
	}
}

// unsort makes an empty lane one of no kind.
func (p *Planner) unsort(l *lane) {
	if p.kinds[l.kind] == l {
		delete(p.kinds, l.kind)
	}
	l.kind, l.sorted, l.mixed = Kind{}, false, false
}

// sort notes that the lane has a task of the kind: it is that kind's, if it is of none yet. More of
// it is moved there if it is a lane that the policy has for it, or beside that: an orphan gets
// nothing.
func (p *Planner) sort(l *lane, k Kind) {
	if l.held() {
		return
	}
	if !l.sorted {
		l.kind, l.sorted = k, true
		p.setReady(l, l.ready)
	}
	if l.kind == k && p.kinds[k] == nil && !l.dropping && coordinator.LaneBase(l.key) == k.Base {
		p.kinds[k] = l
	}
	k.Base = l.kind.Base // it may be another since
	l.mixed = l.mixed || k != l.kind || k.Level == MixedLevel
}

// laneFor returns the lane to which a task of the kind is moved if it makes room, and the kind that it stands
// for: the lane of its kind; else that of its group if nothing is in it; else a new one beside
// that, for its kind if much of it waits, for all of which there is little if not; and when
// there are too many lanes that of its group, whatever is in it.
func (p *Planner) laneFor(k Kind) (*lane, Kind) {
	if l := p.kinds[k]; l != nil {
		return l, k
	}
	l := p.lane(k.Base)
	if !l.known || l.sorted && l.kind == k {
		return l, k
	}
	if !p.lines.crowds(k) {
		k = Kind{Base: k.Base, Level: MixedLevel}
		if l := p.kinds[k]; l != nil {
			return l, k
		}
	}
	if p.known < MaxLanes {
		return p.beside(k.Base), k
	}
	return l, k
}

// beside returns the first lane beside another that holds nothing.
func (p *Planner) beside(base string) *lane {
	for n := 1; ; n++ {
		key := coordinator.LaneBeside(base, n)
		if l := p.byKey[key]; l == nil || !l.known && !l.asked {
			return p.lane(key)
		}
	}
}

// LaneOf returns the lane in which a task of the kind waits if it waits in one, and how many tasks are ready there,
// as far as is known.
func (p *Planner) LaneOf(k Kind) (key string, ready int) {
	key = k.Base
	if l := p.kinds[k]; l != nil {
		key = l.key
	} else if l := p.kinds[Kind{Base: k.Base, Level: MixedLevel}]; l != nil {
		key = l.key
	}
	if l := p.byKey[key]; l != nil {
		ready = l.ready
	}
	return key, ready
}

// Lane is what is known of a lane.
type Lane struct {
	Key    string
	Kind   Kind // zero: that is not known
	Mixed  bool // it may have tasks of other kinds as well
	Ready  int  // tasks in its queue
	Moving int  // tasks on their way there
	Window int  // with which it is read; 0: it is not
	// Known: it may hold something. Dropping: its queue is to be deleted.
	Known, Dropping bool
}

// All yields the lanes, by their keys. Nothing may be changed meanwhile.
func (p *Planner) All() iter.Seq[Lane] {
	return func(yield func(Lane) bool) {
		for _, l := range p.order {
			if !yield(Lane{l.key, l.kind, l.mixed, l.ready, l.moving, l.window, l.known, l.dropping}) {
				return
			}
		}
	}
}
