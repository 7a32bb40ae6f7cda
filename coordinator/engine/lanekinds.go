package engine

import "taskbus/coordinator"

// Which lane a task is moved to. A queue hands out what is first in it, so a lane has tasks of one
// kind.

// kind is what all tasks of a lane have in common, so that the order in which they came is
// that in which they are to go.
type kind struct {
	base  string // the lane that the policy has for them
	group string // whose turn they wait for; without quotas their own
	class string // who could take them
	level int    // of priority; others: of any kind that is not worth a lane
}

// others is the level of the kind that stands for those which are not worth a lane of their own.
const others = -1

// kindOf is the task's.
func (e *Engine) kindOf(t *openTask) kind {
	return kind{e.policy.LaneOf(t.task.Group), e.turnOf(t), t.needs.class.key, t.level}
}

// turnOf is the group whose turn the task waits for, or without quotas its own.
func (e *Engine) turnOf(t *openTask) string {
	if e.quotas.ledger.Installed() {
		return e.quotas.shares.Name(t.leaf)
	}
	return t.task.Group
}

// laneFor is the lane to which the task is moved if it makes room, and the kind that it stands
// for: the lane of its kind; else that of its group if nothing is in it; else a new one beside
// that, for its kind if much of it waits, for all of which there is little if not; and when
// there are too many lanes that of its group, whoever is in it.
func (e *Engine) laneFor(t *openTask) (*lane, kind) {
	s, k := &e.lanes, e.kindOf(t)
	if l := s.kinds[k]; l != nil {
		return l, k
	}
	l := s.lane(k.base)
	if !l.known || l.sorted && l.kind == k {
		return l, k
	}
	if !e.lanes.lines.crowds(k) {
		k = kind{base: k.base, level: others}
		if l := s.kinds[k]; l != nil {
			return l, k
		}
	}
	if s.known < maxLanes {
		return s.beside(k.base), k
	}
	return l, k
}

// laneHas is the lane in which a task of the kind waits if it waits in one, as far as is known.
func (s *lanes) laneHas(k kind) string {
	if l := s.kinds[k]; l != nil {
		return l.key
	}
	if l := s.kinds[kind{base: k.base, level: others}]; l != nil {
		return l.key
	}
	return k.base
}

// beside is the first lane beside another that holds nothing.
func (s *lanes) beside(base string) *lane {
	for n := 1; ; n++ {
		key := coordinator.LaneBeside(base, n)
		if l := s.byKey[key]; l == nil || !l.known && !l.asked {
			return s.lane(key)
		}
	}
}

// sort notes that the lane has a task of the kind: it is that kind's, if it is nobody's yet. More of
// it is moved there if it is a lane that the policy has for it, or beside that: an orphan gets
// nothing.
func (e *Engine) sort(l *lane, k kind) {
	if l.held() {
		return
	}
	if !l.sorted {
		l.kind, l.sorted = k, true
		e.setReady(l, l.ready)
	}
	if l.kind == k && e.lanes.kinds[k] == nil && !l.dropping && coordinator.LaneBase(l.key) == k.base {
		e.lanes.kinds[k] = l
	}
	k.base = l.kind.base // it may be another since
	l.mixed = l.mixed || k != l.kind || k.level == others
}
