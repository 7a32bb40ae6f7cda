package engine

import (
	"taskbus/coordinator"
	"taskbus/coordinator/fairshare"
)

// lanes looks at who waits and may be moved, and at the counts of lanes. So many of the tasks held
// are being moved, and so many say that they are in a line.
func (x *inspection) lanes(moving, inLine int) {
	s := &x.e.lanes
	inLine -= x.parties()
	byLane, reading, turns, known := 0, 0, 0, 0
	for _, l := range s.order {
		x.line(l.out)
		inLine -= l.out.tasks.Len()
		if s.byKey[l.key] != l || l.out.lane != l || l.sorted && !l.known {
			x.note(coordinator.InvariantPendingOrder, "", "lane %s is not under its key, or has a kind (%v) and holds nothing", l.key, l.kind)
		}
		if waits, at := x.e.waitsInTurns(l), l.index >= 0; waits != at || at && !x.e.lanes.inBacklog(l) {
			x.note(coordinator.InvariantPendingOrder, "", "lane %s holds %d tasks of kind %v, and is at %d of leaf %d among those that wait", l.key, l.ready, l.kind, l.index, l.leaf)
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
	for k, l := range s.kinds { // order does not matter: each is looked at
		if l.kind != k || !l.sorted || s.byKey[l.key] != l {
			x.note(coordinator.InvariantPendingOrder, "", "lane %s stands for kind %v, and has %v", l.key, k, l.kind)
		}
	}
	if moving != s.moving || moving != byLane || inLine != 0 || reading != len(s.reads) || turns != len(s.turns) || known != s.known {
		x.note(coordinator.InvariantPendingCount, "", "%d tasks are being moved, counted %d and by lanes %d; %d more say that they are in line than are; %d lanes are read, counted %d; %d wait for their turn, counted %d; %d may hold something, counted %d",
			moving, s.moving, byLane, inLine, reading, len(s.reads), turns, len(s.turns), known, s.known)
	}
}

// parties looks at who makes room, and counts them.
func (x *inspection) parties() (all int) {
	s := &x.e.lanes.lines
	rows, held := 0, 0
	for i, p := range s.parties.Items {
		waiting := 0
		for j, n := range p.rows.Items {
			waiting += n.tasks.Len()
			rows++
			if n.of != p || n.place != j || s.rows[n.key] != n || n.tasks.Len() == 0 || j > 0 && p.rows.Before(n, p.rows.Items[(j-1)/2]) {
				x.note(coordinator.InvariantPendingOrder, "", "the row %v is at %d of %s with %d tasks, says %d", n.key, j, p.name, n.tasks.Len(), n.place)
			}
			x.line(n)
			for _, t := range n.tasks.Items {
				if t.from != "" {
					held++
				}
			}
		}
		all += waiting
		if s.byName[p.name] != p || p.place != i || p.waiting != waiting || waiting == 0 || i > 0 && s.parties.Before(p, s.parties.Items[(i-1)/2]) {
			x.note(coordinator.InvariantPendingOrder, "", "%s is at %d, says %d, and %d tasks of it wait, counted %d", p.name, i, p.place, waiting, p.waiting)
		}
	}
	if rows != len(s.rows) || len(s.byName) != len(s.parties.Items) || held != s.held {
		x.note(coordinator.InvariantPendingCount, "", "%d rows wait, counted %d; %d parties, counted %d; %d tasks came out of the lane of the held, counted %d",
			rows, len(s.rows), len(s.parties.Items), len(s.byName), held, s.held)
	}
	return all
}

// line looks at the tasks of one line.
func (x *inspection) line(n *row) {
	var levels [fairshare.Levels]int
	for i, t := range n.tasks.Items {
		levels[t.level]++
		switch {
		case t.line != n || t.linePlace != i || t.to != nil || t.state != stateWaiting && t.state != stateUnscored:
			x.task(coordinator.InvariantTaskState, t, "it is at %d in a line of %v, says %d, and is in state %d", i, n.key, t.linePlace, t.state)
		case i > 0 && n.tasks.Before(t, n.tasks.Items[(i-1)/2]):
			x.task(coordinator.InvariantPendingOrder, t, "it is to be moved before %s", n.tasks.Items[(i-1)/2].task.ID)
		}
	}
	if levels != n.levels {
		x.note(coordinator.InvariantPendingCount, "", "in the line of %v priorities wait as %v, counted %v", n.key, levels, n.levels)
	}
}
