package state

import (
	"taskbus/coordinator"
	"taskbus/coordinator/engine/internal/lanes"
)

// laneView is what the planner of lanes reads of the engine.
type laneView State

func (s *State) laneView() *laneView { return (*laneView)(s) }

func (v *laneView) Rules() *coordinator.Policy { return v.Policy }

func (v *laneView) TakesTurns() bool { return v.Quotas.Installed() }

func (v *laneView) Connected() bool { return v.Fleet.Connected }

func (v *laneView) Waiting() int { return (*State)(v).Backlog() }

func (v *laneView) First(t *lanes.Ticket, level int) (lanes.Place, bool) {
	of := v.Held[t.Handle]
	first, ok := of.Needs.Class.Waiting.At(of.Leaf, level, 0)
	if !ok {
		return lanes.Place{}, false
	}
	return lanes.Place{Level: first.Level, Due: first.Due, Arrival: first.Arrival}, true
}

// Holds looks at all tasks that are held.
func (v *laneView) Holds(lane string) bool {
	for _, t := range v.Held { // order does not matter: it is a question
		if t.From == lane {
			return true
		}
	}
	return false
}

// LaneKind is what the task has in common with all of its lane.
func (s *State) LaneKind(t *Task) lanes.Kind {
	group := t.Task.Group
	if s.Quotas.Installed() {
		group = s.Quotas.Shares.Name(t.Leaf)
	}
	return lanes.Kind{Base: s.Policy.LaneOf(t.Task.Group), Group: group, Class: t.Needs.Class.Key, Level: t.Level}
}

// MayMove reports whether the task may be moved to a lane, should it have to wait.
func (s *State) MayMove(t *Task) bool {
	return s.Policy.Lanes != nil && t.OwnMessage && t.Attempt == 1 && len(t.Tried) == 0 && !t.Withdrawn && !t.Stays
}
