package engine_test

import (
	"fmt"
	"maps"
	"slices"

	"pgregory.net/rapid"

	"taskbus/coordinator"
	"taskbus/coordinator/engine"
)

// What the random worlds (history, succession) know of lanes.

// laned is a message in a lane.
type laned struct {
	task    *coordinator.Task
	lane    string
	message int
	maybe   bool
}

// putInLane notes that the lane has the message of a delivery that is being moved.
func (l *ledger) putInLane(r *receipt) {
	l.lanes = append(l.lanes, &laned{task: r.task, lane: r.moving.Lane, message: r.message,
		maybe: r.moving.MaybeDuplicate})
}

// moves are the deliveries that are on their way into a lane.
func (l *ledger) moves() (list []coordinator.Handle) {
	for handle, r := range l.receipts {
		if r.open && r.moving != nil {
			list = append(list, handle)
		}
	}
	slices.Sort(list)
	return list
}

// hasInLane tells whether a message of the task is in a lane.
func (l *ledger) hasInLane(id coordinator.TaskID) bool {
	return slices.ContainsFunc(l.lanes, func(m *laned) bool { return m.task.ID == id })
}

// takeOut takes a message out of its lane; ev is its delivery.
func (l *ledger) takeOut(i int, as coordinator.Handle) coordinator.TaskReceived {
	m := l.lanes[i]
	l.lanes = slices.Delete(l.lanes, i, i+1)
	return coordinator.TaskReceived{Handle: as, Task: m.task, Lane: m.lane, MaybeDuplicate: m.maybe}
}

// judgeMove: a move is of a task that is held and that was never dispatched.
func (l *ledger) judgeMove(f coordinator.MoveToLane) error {
	r := l.receipts[f.Handle]
	switch {
	case r == nil || !r.open || r.live != nil || r.moving != nil || r.returned != nil:
		return fmt.Errorf("handle %d is moved, and is not open, or on its way, or came back", f.Handle)
	case l.dropping[f.Lane]:
		return fmt.Errorf("%s is moved to %s, which is about to be deleted", f.Task.ID, f.Lane)
	case r.redelivered && !f.MaybeDuplicate:
		return fmt.Errorf("%s is moved without a word of that it may be a copy", f.Task.ID)
	}
	for _, a := range l.life(r.task.ID).attempts {
		if a.standing == published || a.standing == withAgent {
			return fmt.Errorf("%s is moved, while %s has it", f.Task.ID, a.Agent)
		}
	}
	r.moving = &f
	return nil
}

// judgeDrop: only a lane that is empty, and out of which nothing is held, is dropped.
func (l *ledger) judgeDrop(f coordinator.DropLane) error {
	for _, m := range l.lanes {
		if m.lane == f.Lane {
			return fmt.Errorf("lane %s is dropped with %s in it", f.Lane, m.task.ID)
		}
	}
	for _, r := range l.receipts {
		if r.open && (r.lane == f.Lane || r.moving != nil && r.moving.Lane == f.Lane) {
			return fmt.Errorf("lane %s is dropped, and %s is held out of it, or moved there", f.Lane, r.task.ID)
		}
	}
	if l.dropping[f.Lane] {
		return fmt.Errorf("lane %s is dropped twice", f.Lane)
	}
	l.dropping[f.Lane] = true
	return nil
}

// settleMove answers a move.
func (h *history) settleMove(t *rapid.T) {
	open := h.l.moves()
	if len(open) == 0 {
		t.Skip("nothing is moved")
	}
	outcome := rapid.SampledFrom(outcomes).Draw(t, "outcome of the move")
	h.do(coordinator.LaneMoved{Handle: rapid.SampledFrom(open).Draw(t, "handle"), Outcome: outcome})
	if outcome == coordinator.PublishUnknown || outcome == coordinator.PublishAbandoned {
		h.loseSession()
	}
}

// outOfLane delivers a task out of its lane, or says how many there are, or answers its deletion.
func (h *history) outOfLane(t *rapid.T) {
	h.needSession(t)
	switch rapid.IntRange(0, 3).Draw(t, "look at 0, ended at 1") {
	case 0:
		if open := slices.Sorted(maps.Keys(h.l.dropping)); len(open) > 0 && rapid.Bool().Draw(t, "deleted or refused") {
			h.do(coordinator.LaneSeen{Lane: rapid.SampledFrom(open).Draw(t, "dropped"), Missing: rapid.Bool().Draw(t, "gone"),
				Dropped: true})
			return
		}
		keys := []string{"g1", "g2", coordinator.LaneOther}
		keys = append(keys, h.e.LaneKeys()...)
		key := rapid.SampledFrom(keys).Draw(t, "lane")
		n := h.l.inLane(key)
		h.do(coordinator.LaneSeen{Lane: key, Ready: n, Missing: n == 0 && rapid.Bool().Draw(t, "missing")})
	case 1:
		h.do(coordinator.LaneEnded{Lane: rapid.SampledFrom([]string{"g1", "g2", coordinator.LaneOther}).Draw(t, "lane")})
	default:
		if len(h.l.lanes) == 0 {
			t.Skip("the lanes are empty")
		}
		h.comesOut(rapid.IntRange(0, len(h.l.lanes)-1).Draw(t, "which"))
	}
}

// quietLanes has the lanes take nothing, and lets time go by until what is empty has been so for long.
func (h *history) quietLanes(t *rapid.T) {
	h.needSession(t)
	for _, handle := range h.l.moves() {
		h.do(coordinator.LaneMoved{Handle: handle, Outcome: coordinator.PublishRejected})
	}
	h.now = h.now.Add(engine.LaneQuiet)
	h.do(coordinator.Tick{})
	for _, key := range h.e.LaneKeys() {
		h.do(coordinator.LaneSeen{Lane: key, Ready: h.l.inLane(key)})
	}
}

// inLane is how many messages are in a lane.
func (l *ledger) inLane(key string) (n int) {
	for _, m := range l.lanes {
		if m.lane == key {
			n++
		}
	}
	return n
}

func (h *history) comesOut(i int) {
	h.handle++
	h.outOf = h.l.lanes[i].message
	h.do(h.l.takeOut(i, h.handle))
	h.outOf = 0
}

// moveSettled notes what became of a move before the engine hears of it.
func (h *history) moveSettled(ev coordinator.LaneMoved) {
	r := h.l.receipts[ev.Handle]
	if r == nil || r.moving == nil || !r.open {
		return
	}
	if ev.Outcome == coordinator.PublishConfirmed || ev.Outcome == coordinator.PublishUnknown && ev.Handle%2 == 0 {
		h.l.putInLane(r)
	}
	r.moving = nil
	over := ev.Outcome == coordinator.PublishUnknown || ev.Outcome == coordinator.PublishAbandoned
	refused := !over && ev.Outcome != coordinator.PublishConfirmed
	if over || refused && !h.e.IsConnected() && !h.e.HeldTask(ev.Handle).Withdrawn() { // it is given up
		r.open, r.void = false, true
		h.lost = append(h.lost, r)
	}
}

// checkLanes: the journal knows of every lane that holds something, or may.
func (h *history) checkLanes() {
	h.t.Helper()
	for _, m := range h.l.lanes {
		if l := h.twin.Lane(m.lane); l == nil || !l.Known {
			h.t.Fatalf("%s is in lane %s, of which the journal does not know", m.task.ID, m.lane)
		}
	}
}

// settleMove answers a move. What the broker says of it is true, whatever becomes of the
// leader.
func (s *succession) settleMove(t *rapid.T) bool {
	open := s.l.moves()
	if len(open) == 0 {
		return false
	}
	s.do(coordinator.LaneMoved{
		Handle: rapid.SampledFrom(open).Draw(t, "handle"),
		Outcome: rapid.SampledFrom([]coordinator.PublishOutcome{
			coordinator.PublishConfirmed, coordinator.PublishConfirmed, coordinator.PublishConfirmed,
			coordinator.PublishRejected, coordinator.PublishUnroutable,
		}).Draw(t, "outcome of the move"),
	})
	return true
}

// outOfLane delivers a task out of its lane.
func (s *succession) outOfLane(t *rapid.T) bool {
	if len(s.l.lanes) == 0 {
		return false
	}
	i := rapid.IntRange(0, len(s.l.lanes)-1).Draw(t, "which")
	if s.untold[s.l.lanes[i].task.ID] {
		return false
	}
	s.comesOut(i)
	return true
}

func (s *succession) comesOut(i int) {
	s.handle++
	s.outOf = s.l.lanes[i].message
	s.do(s.l.takeOut(i, s.handle))
	s.outOf = 0
}

// checkLanes: the leader knows of every lane that holds something.
func (s *succession) checkLanes() {
	s.t.Helper()
	for _, m := range s.l.lanes {
		if l := s.e.Lane(m.lane); l == nil || !l.Known {
			s.t.Fatalf("%s is in lane %s, of which the leader does not know", m.task.ID, m.lane)
		}
	}
}
