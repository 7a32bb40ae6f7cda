package engine

import "taskbus/coordinator"

// lanes looks at who waits by lanes, and at the counts of lanes. So many of the tasks held
// are being moved, and so many say that they are in a line.
func (x *inspection) lanes(moving, inLine int) {
	s := &x.e.lanes
	byLane, reading, turns := 0, 0, 0
	for _, l := range s.order {
		if s.byKey[l.key] != l || (l.place >= 0) != (len(l.line.Items) > 0) || l.place >= 0 && s.lines.Items[l.place] != l {
			x.note(coordinator.InvariantPendingOrder, "", "lane %s is at place %d, and %d tasks wait in it", l.key, l.place, len(l.line.Items))
		}
		for i, t := range l.line.Items {
			switch {
			case t.line != l || t.linePlace != i || t.state != stateWaiting && t.state != stateUnscored:
				x.task(coordinator.InvariantTaskState, t, "it is at %d in the line of lane %s, says %d, and is in state %d", i, l.key, t.linePlace, t.state)
			case i > 0 && l.line.Before(t, l.line.Items[(i-1)/2]):
				x.task(coordinator.InvariantPendingOrder, t, "it is to be moved before %s", l.line.Items[(i-1)/2].task.ID)
			}
		}
		inLine -= len(l.line.Items)
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
	if moving != s.moving || moving != byLane || inLine != 0 || reading != s.reading || turns != len(s.turns) {
		x.note(coordinator.InvariantPendingCount, "", "%d tasks are being moved, counted %d and by lanes %d; %d more say that they are in line than are; %d lanes are read, counted %d; %d wait for their turn, counted %d",
			moving, s.moving, byLane, inLine, reading, s.reading, turns, len(s.turns))
	}
}
