package service

import (
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/bus"
	"taskbus/coordinator/failpoint"
	"taskbus/coordinator/service/internal/intake"
	"taskbus/messages"
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
	m, refusal := r.vet.Task(&d)
	if refusal != nil {
		r.refuse(h, refusal)
		return
	}
	h.Payload = m.Payload
	h.Task = intake.Task(&d, m, h.Arrived)
	failpoint.Task(string(h.Task.ID))
	if !r.held.Add(h) {
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

// onReturned takes a delivery of task.reassign: a dispatch that its agent
// refused, did not take in time, or lost.
func (r *session) onReturned(d bus.Delivery) {
	if r.draining.Load() {
		return
	}
	r.returns.Observe(len(d.Body))
	r.takeReturn(d, intake.ReturnCause(d.Headers))
}

// onTakenBack takes a delivery out of the queue of an agent that is gone or
// drained.
func (r *session) onTakenBack(d bus.Delivery) {
	r.s.observe.TakenBack()
	r.takeReturn(d, coordinator.ReturnTakenBack)
}

// takeReturn takes a dispatch that came back, from wherever.
func (r *session) takeReturn(d bus.Delivery, cause coordinator.ReturnCause) {
	failpoint.Hit(failpoint.AfterDeliver)
	h := &intake.Delivery{Message: d, Arrived: r.s.now(), Returned: true}
	defer r.survive(h)
	r.s.metrics.Returned[cause].Inc()
	r.s.observe.Delivered(&d)
	m, refusal := r.vet.Returned(&d)
	if refusal != nil {
		r.refuse(h, refusal)
		return
	}
	h.Task, h.Payload = intake.ReturnedTask(&d, m, h.Arrived), m.Payload
	if !r.held.Add(h) {
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
	if r.held.Add(h) {
		r.outbox.Add(func() { r.publishRefusal(h, refusal) })
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
	counts, refusal := r.vet.Status(&d, &m)
	if refusal != nil {
		r.s.observe.InvalidStatus(refusal)
	}
	if !counts {
		return
	}
	failpoint.Hit(failpoint.AfterValidate)
	r.post(coordinator.AgentReported{Report: m.Report(d.UserID), Live: r.statuses.CaughtUp.Load()})
}
