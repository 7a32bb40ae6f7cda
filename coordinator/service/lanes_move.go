package service

import (
	"errors"

	"taskbus/coordinator"
	"taskbus/coordinator/bus"
	"taskbus/coordinator/failpoint"
	"taskbus/coordinator/service/internal/intake"
	"taskbus/coordinator/service/internal/outbox"
)

// publishMove sends a task to its lane: the bytes that came, with the properties that
// matter when it comes out again. Of its headers only the trace is kept, as in task.dead.
func (r *session) publishMove(m *coordinator.MoveToLane) {
	h := r.held.Get(m.Handle)
	if h == nil {
		return
	}
	p := outbox.Move(m, &h.Message)
	p.Token = r.issue(&laneMove{handle: m.Handle, lane: m.Lane})
	err := r.bus.Publish(p)
	if err == nil {
		failpoint.Hit(failpoint.AfterLanePublish)
		return
	}
	r.tickets.Redeem(p.Token)
	outcome := coordinator.PublishAbandoned
	var encoding *bus.EncodingError
	if errors.As(err, &encoding) {
		outcome = coordinator.PublishNotSent
	}
	r.s.loop.post(r.number, coordinator.LaneMoved{Handle: m.Handle, Outcome: outcome})
}

// laneMove is a task on its way into its lane.
type laneMove struct {
	handle coordinator.Handle
	lane   string
}

func (m *laneMove) settled(r *session, outcome bus.Outcome) {
	switch outcome {
	case bus.Confirmed:
		failpoint.Hit(failpoint.AfterLaneConfirm)
		r.held.Conclude(m.handle, intake.Moved)
	case bus.Unroutable:
		r.lanes.setExists(m.lane, false)
	}
	r.s.loop.post(r.number, coordinator.LaneMoved{Handle: m.handle, Outcome: publishOutcomes[outcome]})
}
