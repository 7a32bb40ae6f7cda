package engine

import "taskbus/coordinator"

// lanes looks at who waits by lanes, and at the counts of lanes. So many of the tasks held
// are being moved, and so many say that they are in a line.
func (x *inspection) lanes(moving, inLine int) {
	s := &x.e.lanes
	byLane, reading, turns, known := 0, 0, 0, 0
	for _, l := range s.order {
		waiting := 0
		for i, n := range l.lines.Items {
			waiting += n.tasks.Len()
			if n.of != l || n.place != i || l.groups[n.group] != n || n.tasks.Len() == 0 || i > 0 && l.lines.Before(n, l.lines.Items[(i-1)/2]) {
				x.note(coordinator.InvariantPendingOrder, "", "group %s is at %d in lane %s with %d tasks, says %d", n.group, i, l.key, n.tasks.Len(), n.place)
			}
			x.line(n)
		}
		x.line(l.out)
		if s.byKey[l.key] != l || l.waiting != waiting || len(l.groups) != l.lines.Len() || (l.place >= 0) != (waiting > 0) || l.place >= 0 && s.lines.Items[l.place] != l {
			x.note(coordinator.InvariantPendingOrder, "", "lane %s is at place %d, and %d tasks wait in it, counted %d", l.key, l.place, waiting, l.waiting)
		}
		inLine -= l.all()
		if l.known {
			known++
		}
		byLane += l.moving
		if l.window > 0 {
			reading++
		}
		if l.waitsTurn {
			turns++
		}
	}
	for i, l := range s.lines.Items {
		if i > 0 && s.lines.Before(l, s.lines.Items[(i-1)/2]) {
			x.note(coordinator.InvariantPendingOrder, "", "lane %s has more waiting than the one before it", l.key)
		}
	}
	if moving != s.moving || moving != byLane || inLine != 0 || reading != s.reading || turns != len(s.turns) || known != s.known {
		x.note(coordinator.InvariantPendingCount, "", "%d tasks are being moved, counted %d and by lanes %d; %d more say that they are in line than are; %d lanes are read, counted %d; %d wait for their turn, counted %d; %d may hold something, counted %d",
			moving, s.moving, byLane, inLine, reading, s.reading, turns, len(s.turns), known, s.known)
	}
}

// line looks at the tasks of one line.
func (x *inspection) line(n *row) {
	for i, t := range n.tasks.Items {
		switch {
		case t.line != n || t.linePlace != i || t.to == nil || t.state != stateWaiting && t.state != stateUnscored:
			x.task(coordinator.InvariantTaskState, t, "it is at %d in the line of lane %s, says %d, and is in state %d", i, n.of.key, t.linePlace, t.state)
		case i > 0 && n.tasks.Before(t, n.tasks.Items[(i-1)/2]):
			x.task(coordinator.InvariantPendingOrder, t, "it is to be moved before %s", n.tasks.Items[(i-1)/2].task.ID)
		}
	}
}
