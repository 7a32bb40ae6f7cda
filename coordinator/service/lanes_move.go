package service

import (
	"errors"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/bus"
	"taskbus/coordinator/failpoint"
)

// headerAcceptedAt is when a task in a lane was accepted (RFC 3339).
const headerAcceptedAt = "x-taskbus-accepted-at"

// publishMove sends a task to its lane: the bytes that came, with the properties that
// matter when it comes out again. Of its headers only the trace is kept, as in task.dead.
func (r *session) publishMove(m *coordinator.MoveToLane) {
	h := r.held.get(m.Handle)
	if h == nil {
		return
	}
	d := &h.delivery
	p := bus.Publication{Key: bus.LaneQueue(m.Lane).Name, Properties: d.Properties, Body: d.Body}
	p.CorrelationID, p.UserID, p.Expiration = m.Task.TraceID, "", 0
	p.Headers = map[string]any{headerAcceptedAt: m.Task.AcceptedAt.Format(time.RFC3339Nano)}
	if m.MaybeDuplicate {
		p.Headers[headerMaybeDuplicate] = true
	}
	addTrace(p.Headers, m.Task)
	p.Token = r.tickets.issue(&laneMove{handle: m.Handle, lane: m.Lane})
	err := r.bus.Publish(p)
	if err == nil {
		failpoint.Hit(failpoint.AfterLanePublish)
		return
	}
	r.tickets.redeem(p.Token)
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
		r.held.conclude(m.handle, outcomeMoved)
	case bus.Unroutable:
		r.lanes.setExists(m.lane, false)
	}
	r.s.loop.post(r.number, coordinator.LaneMoved{Handle: m.handle, Outcome: publishOutcomes[outcome]})
}

// acceptedAt returns when a task that came out of a lane was accepted: what its message says, if
// that can be.
func acceptedAt(d *bus.Delivery, arrived time.Time) time.Time {
	at, err := time.Parse(time.RFC3339Nano, textHeader(d.Headers, headerAcceptedAt))
	if err != nil || at.After(arrived) || at.Unix() < 0 {
		return arrived
	}
	return at
}
