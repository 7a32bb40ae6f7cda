package engine

import (
	"cmp"
	"slices"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/fairshare"
	"taskbus/coordinator/heap"
)

// Who waits here and may be moved. When the window is crowded, the party of which most waits
// makes room: a group, as turns are counted, so that who floods is the one that is moved, and
// who has little is seen, however much others have. Of what it has waiting it is the class of
// which there is most, so that those which nobody can take now do not drive out the others, and
// of these the one that would go last.

// lines are all who make room.
type lines struct {
	parties heap.Heap[*party] // the largest first
	byName  map[string]*party
	rows    map[rowKey]*row
	held    int  // of them came out of LaneHeld
	latest  *row // that made room; nil: none did
}

// party is a group, as turns are counted; without quotas, where there are no turns and anybody may
// send under any name, those who have a lane in common.
type party struct {
	name    string
	rows    heap.Heap[*row] // the longest first
	waiting int             // in all of these
	place   int
}

// row is tasks that wait here and may be moved, the last of them first.
type row struct {
	key    rowKey
	of     *party
	lane   *lane // whose out it is; nil: they make room
	tasks  heap.Heap[*openTask]
	levels [fairshare.Levels]int // how many of each
	// moved of each since somebody waits here.
	moved [fairshare.Levels]int
	place int
}

// rowKey is a kind but for its level.
type rowKey struct{ group, class string }

// placing is where a task stands in its group.
type placing struct {
	level   int
	due     int64
	arrival uint64
}

func (t *openTask) placing() placing { return placing{t.level, t.due, t.arrival} }

// later tells whether it goes after another.
func (a placing) later(b placing) bool {
	return cmp.Or(cmp.Compare(a.level, b.level), cmp.Compare(b.due, a.due), cmp.Compare(b.arrival, a.arrival)) < 0
}

func newLines() lines {
	return lines{byName: make(map[string]*party), rows: make(map[rowKey]*row), parties: heap.Heap[*party]{
		Before: func(a, b *party) bool {
			return cmp.Or(cmp.Compare(b.waiting, a.waiting), cmp.Compare(a.name, b.name)) < 0
		},
		Place: func(p *party, i int) { p.place = i },
	}}
}

func newParty(name string) *party {
	return &party{name: name, place: -1, rows: heap.Heap[*row]{
		Before: func(a, b *row) bool {
			return cmp.Or(cmp.Compare(b.tasks.Len(), a.tasks.Len()), cmp.Compare(a.key.group, b.key.group), cmp.Compare(a.key.class, b.key.class)) < 0
		},
		Place: func(n *row, i int) { n.place = i },
	}}
}

func newRow(of *party, key rowKey) *row {
	return &row{of: of, key: key, place: -1, tasks: heap.Heap[*openTask]{
		Before: func(a, b *openTask) bool { return a.placing().later(b.placing()) },
		Place:  func(t *openTask, i int) { t.linePlace = i },
	}}
}

func (n *row) push(t *openTask) {
	t.line = n
	n.tasks.Push(t)
	n.levels[t.level]++
}

func (n *row) remove(t *openTask) {
	t.line = nil
	n.tasks.Remove(t.linePlace)
	n.levels[t.level]--
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
	k := e.kindOf(t)
	if t.from != "" && t.from != coordinator.LaneHeld {
		l, head := e.lanes.lane(t.from), t.placing()
		e.sort(l, k)
		l.head = &head
		l.out.push(t)
	} else {
		party := k.group
		if !e.quotas.ledger.Installed() {
			party = k.base
		}
		e.lanes.lines.join(t, party, rowKey{k.group, k.class})
	}
	e.watchHeld(now, t)
}

// leaveLine is for one that waits no more.
func (e *Engine) leaveLine(t *openTask) {
	n := t.line
	switch {
	case n == nil:
	case n.lane != nil:
		n.remove(t)
		e.considerReading(e.now, n.lane)
	default:
		e.lanes.lines.leave(t)
		if l := e.lanes.kinds[e.kindOf(t)]; l != nil {
			e.considerReading(e.now, l)
		}
	}
}

func (s *lines) join(t *openTask, name string, key rowKey) {
	n := s.rows[key]
	if n == nil {
		p := s.byName[name]
		if p == nil {
			p = newParty(name)
			s.byName[name] = p
		}
		n = newRow(p, key)
		s.rows[key] = n
	}
	p := n.of
	n.push(t)
	if p.waiting++; n.place < 0 {
		p.rows.Push(n)
	} else {
		p.rows.Fix(n.place)
	}
	if p.place < 0 {
		s.parties.Push(p)
	} else {
		s.parties.Fix(p.place)
	}
	if t.from != "" {
		s.held++
	}
}

func (s *lines) leave(t *openTask) {
	n := t.line
	p := n.of
	n.remove(t)
	// What is removed must stand where its length says, until it is gone.
	if p.rows.Fix(n.place); n.tasks.Len() == 0 {
		p.rows.Remove(n.place)
		delete(s.rows, n.key)
	}
	p.waiting--
	if s.parties.Fix(p.place); p.waiting == 0 {
		s.parties.Remove(p.place)
		delete(s.byName, p.name)
	}
	if t.from != "" {
		s.held--
	}
}

// waiting is how many tasks of the kind make room.
func (s *lines) waiting(k kind) int {
	n := s.rows[rowKey{k.group, k.class}]
	if n == nil || k.level == others {
		return 0
	}
	return n.levels[k.level]
}

// crowds tells whether more than a few of the kind have waited here at a time, or made room.
func (s *lines) crowds(k kind) bool {
	n := s.rows[rowKey{k.group, k.class}]
	return n != nil && n.levels[k.level]+n.moved[k.level] > fewOfKind
}

// lanesUnder begins anew with who waits where under another policy, and forgets lanes that belong
// to nothing any more.
func (e *Engine) lanesUnder() {
	s := &e.lanes
	s.clearLines()
	e.askNew()
	e.rebuildBacklog()
	for _, l := range slices.Clone(s.order) {
		e.setReady(l, l.ready) // its group may be another leaf, or none
		s.forget(l)
	}
}

// clearLines empties all lines: whoever waited waits no more, or is to begin anew.
func (s *lanes) clearLines() {
	for _, n := range s.lines.rows { // order does not matter
		n.clear()
	}
	for _, l := range s.order {
		l.out.clear()
	}
	s.lines = newLines()
}

func (n *row) clear() {
	for _, t := range n.tasks.Items {
		t.line = nil
	}
	n.tasks.Items, n.levels = nil, [fairshare.Levels]int{}
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
