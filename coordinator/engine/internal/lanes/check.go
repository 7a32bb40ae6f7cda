package lanes

import (
	"fmt"

	"taskbus/coordinator"
	"taskbus/coordinator/fairshare/fairqueue"
	"taskbus/coordinator/invariant"
)

// Fault is something that is kept in two places and is not the same in both.
type Fault struct {
	Invariant invariant.Name
	Task      coordinator.Handle // 0: it is a matter of none
	Text      string
}

// inspection is one Check.
type inspection struct {
	p     *Planner
	found []Fault
}

func (x *inspection) note(which invariant.Name, format string, args ...any) {
	x.found = append(x.found, Fault{Invariant: which, Text: fmt.Sprintf(format, args...)})
}

func (x *inspection) task(which invariant.Name, t *Ticket, format string, args ...any) {
	x.found = append(x.found, Fault{which, t.Handle, fmt.Sprintf(format, args...)})
}

// Check looks at the lanes and all lines, where so many tasks move, and so many tickets are in line. It changes
// nothing; nil: all is well.
func (p *Planner) Check(moving, inLine int) []Fault {
	x := &inspection{p: p}
	inLine -= x.parties()
	byLane, reading, turns, known := 0, 0, 0, 0
	for _, l := range p.order {
		x.row(l.out)
		inLine -= l.out.tasks.Len()
		if p.byKey[l.key] != l || l.out.lane != l || l.into.lane != l || l.sorted && !l.known {
			x.note(invariant.PendingOrder,
				"lane %s is not under its key, or has a kind (%v) and holds nothing", l.key, l.kind)
		}
		if waits, at := p.waitsInTurns(l), l.index >= 0; waits != at || at && !p.inBacklog(l) {
			x.note(invariant.PendingOrder,
				"lane %s holds %d tasks of kind %v, and is at %d of leaf %d among those that wait",
				l.key, l.ready, l.kind, l.index, l.leaf)
		}
		if l.known {
			known++
		}
		byLane += l.moving
		if l.window > 0 && !l.held() {
			reading++
		}
		if l.waitsTurn {
			turns++
		}
	}
	for k, l := range p.kinds { // order does not matter: each is looked at
		if l.kind != k || !l.sorted || p.byKey[l.key] != l {
			x.note(invariant.PendingOrder, "lane %s stands for kind %v, and has %v", l.key, k, l.kind)
		}
	}
	if moving != p.moving || moving != byLane || inLine != 0 ||
		reading != len(p.reads) || turns != len(p.turns) || known != p.known {
		x.note(invariant.PendingCount,
			"%d tasks are being moved, counted %d and by lanes %d; %d more say that they are in line than are; "+
				"%d lanes are read, counted %d; %d wait for their turn, counted %d; %d may hold something, counted %d",
			moving, p.moving, byLane, inLine, reading, len(p.reads), turns, len(p.turns), known, p.known)
	}
	return x.found
}

// parties looks at the tasks that make room, and counts them.
func (x *inspection) parties() (all int) {
	s := &x.p.lines
	rows, held := 0, 0
	for i, p := range s.parties.Items {
		waiting := 0
		for j, n := range p.rows.Items {
			waiting += n.tasks.Len()
			rows++
			if n.of != p || n.place != j || s.rows[n.key] != n || n.tasks.Len() == 0 ||
				j > 0 && p.rows.Before(n, p.rows.Items[(j-1)/2]) {
				x.note(invariant.PendingOrder, "the row %v is at %d of %s with %d tasks, says %d",
					n.key, j, p.name, n.tasks.Len(), n.place)
			}
			x.row(n)
			for _, t := range n.tasks.Items {
				if t.kept {
					held++
				}
			}
		}
		all += waiting
		if s.byName[p.name] != p || p.place != i || p.waiting != waiting || waiting == 0 ||
			i > 0 && s.parties.Before(p, s.parties.Items[(i-1)/2]) {
			x.note(invariant.PendingOrder, "%s is at %d, says %d, and %d tasks of it wait, counted %d",
				p.name, i, p.place, waiting, p.waiting)
		}
	}
	if rows != len(s.rows) || len(s.byName) != len(s.parties.Items) || held != s.held {
		x.note(invariant.PendingCount,
			"%d rows wait, counted %d; %d parties, counted %d; %d tasks came out of the lane of the held, counted %d",
			rows, len(s.rows), len(s.parties.Items), len(s.byName), held, s.held)
	}
	return all
}

// row looks at the tasks of one row.
func (x *inspection) row(n *row) {
	var levels [fairqueue.Levels]int
	for i, t := range n.tasks.Items {
		levels[t.level]++
		switch {
		case t.row != n || int(t.index) != i:
			x.task(invariant.TaskState, t, "it is at %d in a line of %v, and says %d", i, n.key, t.index)
		case i > 0 && n.tasks.Before(t, n.tasks.Items[(i-1)/2]):
			x.task(invariant.PendingOrder, t, "it is to be moved before the delivery %d",
				n.tasks.Items[(i-1)/2].Handle)
		}
	}
	if levels != n.levels {
		x.note(invariant.PendingCount, "in the line of %v priorities wait as %v, counted %v",
			n.key, levels, n.levels)
	}
}
