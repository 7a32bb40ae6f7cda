package service

import (
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/bus"
	"taskbus/coordinator/failpoint"
	"taskbus/coordinator/service/internal/intake"
	"taskbus/messages"
	"taskbus/schemas"
)

// onTask takes a delivery of task.assign, task.assign.high or a lane.
func (r *session) onTask(d bus.Delivery) {
	if r.draining.Load() {
		return // unacknowledged: the broker gives it to the next session
	}
	failpoint.Hit(failpoint.AfterDeliver)
	if bus.LaneOf(d.Queue) != "" {
		failpoint.Hit(failpoint.AfterLaneDeliver)
	}
	if d.Queue == bus.QueueAssign {
		r.window.Observe(len(d.Body))
	}
	h := &intake.Delivery{Message: d, Arrived: r.s.now()}
	defer r.survive(h)
	r.s.observe.Delivered(&d)
	m, refusal := r.decodeTask(&d)
	if refusal != nil {
		r.refuse(h, refusal)
		return
	}
	h.Payload = m.Payload
	h.Task = intake.Task(&d, m, h.Arrived)
	failpoint.Task(string(h.Task.ID))
	if !r.hold(h) {
		return
	}
	failpoint.Hit(failpoint.AfterValidate)
	ev := intake.Received(h)
	r.s.loop.within(r.number, func(now time.Time) {
		r.s.loop.apply(now, ev)
		if e := r.s.loop.engine; e.Holds(ev.Handle) { // else it says nothing of a task that is known
			r.s.history.Accepted(ev.Task, e.Waits(ev.Handle))
		}
	})
}

// hold keeps the delivery until it is settled; false when the session is over.
func (r *session) hold(h *intake.Delivery) bool {
	return r.held.Add(h)
}

// decodeTask refuses what is not plain JSON before looking at the bytes.
func (r *session) decodeTask(d *bus.Delivery) (*messages.TaskAssign, *messages.Refusal) {
	if refusal := intake.CheckProperties(d); refusal != nil {
		return nil, refusal
	}
	return r.readTask(d)
}

// onReturned takes a delivery of task.reassign: a dispatch that its agent
// refused, did not take in time, or lost.
func (r *session) onReturned(d bus.Delivery) {
	if r.draining.Load() {
		return
	}
	r.returns.Observe(len(d.Body))
	r.takeReturn(d, intake.ReturnCause(d.Headers))
}

// takeReturn takes a dispatch that came back, from wherever.
func (r *session) takeReturn(d bus.Delivery, cause coordinator.ReturnCause) {
	failpoint.Hit(failpoint.AfterDeliver)
	h := &intake.Delivery{Message: d, Arrived: r.s.now(), Returned: true}
	defer r.survive(h)
	r.s.metrics.Returned[cause].Inc()
	r.s.observe.Delivered(&d)
	m, refusal := r.s.decoder.DecodeReturned(d.Body, messages.TextHeader(d.Headers, messages.HeaderTask), messages.TextHeader(d.Headers, messages.HeaderTried))
	if refusal != nil {
		r.refuse(h, refusal)
		return
	}
	h.Task, h.Payload = intake.ReturnedTask(&d, m, h.Arrived), m.Payload
	if !r.hold(h) {
		return
	}
	ev := intake.Returned(h, m, cause)
	failpoint.Hit(failpoint.AfterValidate)
	r.s.loop.within(r.number, func(now time.Time) {
		if !r.s.loop.engine.IsOver(now, &ev) { // else it says nothing of the task
			r.s.history.Returned(&ev, now)
		}
		r.s.loop.apply(now, ev)
	})
}

// refuse holds a message that cannot be read and has it parked.
func (r *session) refuse(h *intake.Delivery, refusal *messages.Refusal) {
	if r.hold(h) {
		r.outbox.Add(outgoing{refused: refusal, held: h})
	}
}

// onStatus takes a delivery of agent.status: a heartbeat, or a fence of ours or
// of another coordinator.
func (r *session) onStatus(d bus.Delivery) {
	defer r.bus.Ack(d.Tag) // in a stream an acknowledgement only asks for more
	defer r.surviveReport(&d)
	if r.statuses.Takes(&d) {
		return
	}
	r.s.observe.Delivered(&d)
	var m messages.AgentStatus
	refusal := intake.CheckProperties(&d)
	if refusal == nil {
		refusal = r.s.decoder.DecodeAgentStatus(d.Body, &m)
	}
	if refusal != nil {
		r.s.observe.InvalidStatus(refusal)
		return
	}
	r.knows(schemas.AgentStatus, m.Unknown, string(m.AgentID), &d)
	if !r.genuine(&m, &d) {
		return
	}
	failpoint.Hit(failpoint.AfterValidate)
	r.s.loop.post(r.number, coordinator.AgentReported{Report: m.Report(d.UserID), Live: r.statuses.CaughtUp.Load()})
}
