package lanes

import (
	"cmp"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/fairshare/fairqueue"
	"taskbus/coordinator/heap"
)

// Tasks that wait and may be moved. When the window is crowded, the party of which most waits
// makes room: a group, as turns are counted, so that a flood is what is moved, and
// what is little is seen, however much others have. Of what it has waiting it is the class of
// which there is most, so that tasks which no agent can take now do not drive out the others, and
// of these the one that would go last.

// lines are all tasks that make room.
type lines struct {
	parties heap.Heap[*party] // the largest first
	byName  map[string]*party
	rows    map[rowKey]*row
	held    int  // tasks of these that came out of LaneHeld
	latest  *row // that made room; nil: none did
}

// party is a group, as turns are counted; without quotas, where there are no turns and anything may
// be sent under any name, all groups that have a lane in common.
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
	lane   *lane // of which it is the out, or the target of these moves; nil: they make room
	moves  bool  // no row, but where tickets are that move to the lane
	tasks  heap.Heap[*Ticket]
	levels [fairqueue.Levels]int // how many of each
	// moved of each since any waits here.
	moved [fairqueue.Levels]int
	place int
}

// rowKey is a kind but for its level.
type rowKey struct{ group, class string }

// later reports whether a place is after another.
func (a Place) later(b Place) bool {
	return cmp.Or(cmp.Compare(a.Level, b.Level), cmp.Compare(b.Due, a.Due), cmp.Compare(b.Arrival, a.Arrival)) < 0
}

func (t *Ticket) place() Place { return Place{int(t.level), t.due, t.arrival} }

// kind of a task that makes room.
func (t *Ticket) kind() Kind { return Kind{t.base, t.row.key.group, t.row.key.class, int(t.level)} }

// isLater reports whether the place of a is after that of b, without copies: it is called for each step in a heap.
func isLater(a, b *Ticket) bool {
	switch {
	case a.level != b.level:
		return a.level < b.level
	case a.due != b.due:
		return a.due > b.due
	}
	return a.arrival > b.arrival
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
			return cmp.Or(
				cmp.Compare(b.tasks.Len(), a.tasks.Len()),
				cmp.Compare(a.key.group, b.key.group),
				cmp.Compare(a.key.class, b.key.class),
			) < 0
		},
		Place: func(n *row, i int) { n.place = i },
	}}
}

func newRow(of *party, key rowKey) *row {
	return &row{of: of, key: key, place: -1, tasks: heap.Heap[*Ticket]{
		Before: isLater,
		Place:  func(t *Ticket, i int) { t.index = int32(i) },
	}}
}

func (n *row) push(t *Ticket) {
	t.row = n
	n.tasks.Push(t)
	n.levels[t.level]++
}

func (n *row) remove(t *Ticket) {
	t.row = nil
	n.tasks.Remove(int(t.index))
	n.levels[t.level]--
}

func (n *row) clear() {
	for _, t := range n.tasks.Items {
		t.row = nil
	}
	n.tasks.Items, n.levels = nil, [fairqueue.Levels]int{}
}

// Join puts a task in line that begins to wait: among those that came out of its lane, or those that make room.
func (p *Planner) Join(t *Ticket, x Entry) {
	k := x.Kind
	*t = Ticket{
		Handle: x.Handle, base: k.Base, due: x.Due, arrival: x.Arrival,
		level: int8(k.Level), kept: x.From == coordinator.LaneHeld,
	}
	if x.From != "" && !t.kept {
		l, head := p.lane(x.From), t.place()
		p.sort(l, k)
		l.head = &head
		l.out.push(t)
		return
	}
	party := k.Group
	if !p.view.TakesTurns() {
		party = k.Base
	}
	p.lines.join(t, party, rowKey{k.Group, k.Class})
}

// Leave takes a task out of its line, if it is in one: it waits no more. Its lane may be read on.
func (p *Planner) Leave(now time.Time, t *Ticket) []Action {
	p.begin()
	n := t.row
	switch {
	case n == nil:
	case n.lane != nil:
		n.remove(t)
		p.considerReading(now, n.lane)
	default:
		k := t.kind()
		p.lines.leave(t)
		if l := p.kinds[k]; l != nil {
			p.considerReading(now, l)
		}
	}
	return p.actions
}

func (s *lines) join(t *Ticket, name string, key rowKey) {
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
	if t.kept {
		s.held++
	}
}

func (s *lines) leave(t *Ticket) {
	n := t.row
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
	if t.kept {
		s.held--
	}
}

// clearLines empties all lines: what waited waits no more, or is to begin anew.
func (p *Planner) clearLines() {
	for _, n := range p.lines.rows { // order does not matter
		n.clear()
	}
	for _, l := range p.order {
		l.out.clear()
	}
	p.lines = newLines()
}

// waiting returns how many tasks of the kind make room.
func (s *lines) waiting(k Kind) int {
	n := s.rows[rowKey{k.Group, k.Class}]
	if n == nil || k.Level == MixedLevel {
		return 0
	}
	return n.levels[k.Level]
}

// crowds reports whether more than a few of the kind have waited here at a time, or made room.
func (s *lines) crowds(k Kind) bool {
	n := s.rows[rowKey{k.Group, k.Class}]
	return n != nil && n.levels[k.Level]+n.moved[k.Level] > fewOfKind
}

// next returns the row that makes room; nil: none can.
func (s *lines) next() *row {
	switch {
	case len(s.parties.Items) == 0:
		return nil
	case s.latest.amongLargest(s):
		return s.latest
	}
	return s.parties.Items[0].rows.Items[0]
}

// amongLargest reports whether it has two thirds of what the largest has, of its party and among
// the parties. Then it makes room that did before: to go from one to the next for every task would
// take a queue for each where all are about the same size.
func (n *row) amongLargest(s *lines) bool {
	return n != nil && n.place >= 0 && 3*n.tasks.Len() > 2*n.of.rows.Items[0].tasks.Len() &&
		3*n.of.waiting > 2*s.parties.Items[0].waiting
}

// before reports which of two rows makes room first.
func (s *lines) before(a, b *row) bool {
	if a.of != b.of {
		return s.parties.Before(a.of, b.of)
	}
	return a.of.rows.Before(a, b)
}

// after counts the tasks of the row that go after what is first in the lane, most at most, from
// its place i in the heap on (0: of all): what does not has nothing below it that does.
func (n *row) after(l *lane, i, most int) int {
	if most <= 0 || i >= n.tasks.Len() || !l.precedes(n.tasks.Items[i].place()) {
		return 0
	}
	left := 1 + n.after(l, 2*i+1, most-1)
	return left + n.after(l, 2*i+2, most-left)
}
