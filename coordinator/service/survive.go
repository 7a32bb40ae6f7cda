package service

import (
	"taskbus/coordinator"
	"taskbus/coordinator/bus"
	"taskbus/coordinator/service/internal/intake"
	"taskbus/messages"
)

// A fault of the program that one message brings out costs that message, which is parked or ignored, and no
// other: without that it would come again after every crash. Only what is done for one message alone is
// guarded; a fault of the engine ends the process, because its state cannot be trusted then.

// survive, deferred by functions that take a delivery, parks one that cannot be handled.
func (r *session) survive(h *intake.Delivery) {
	p := recover()
	if p == nil {
		return
	}
	r.s.observe.Survived(p, h.Message.Queue, "the message is parked in task.dead")
	if h.Handle == 0 {
		r.refuse(h, faulty())
		return
	}
	r.outbox.Add(func() { r.publishRefusal(h, faulty()) }) // handing it to the engine was still to come
}

// surviveRequest, deferred by functions that take a request, parks one that cannot be handled.
func (r *session) surviveRequest(d *bus.Delivery) {
	if p := recover(); p != nil {
		r.s.observe.Survived(p, d.Queue, "the message is parked in task.dead")
		r.refuse(&intake.Delivery{Message: *d, Arrived: r.s.now()}, faulty())
	}
}

// surviveReport, deferred by functions that read heartbeats, results or progress, ignores one that cannot be handled,
// as one that is not valid: a restart would read it again, and fail again.
func (r *session) surviveReport(d *bus.Delivery) {
	p := recover()
	if p == nil {
		return
	}
	r.s.observe.Survived(p, d.Queue, "the message is ignored")
	switch d.Queue {
	case bus.StreamResult:
		r.s.observe.InvalidResult(faulty())
	case bus.QueueProgress:
		r.s.observe.InvalidProgress(faulty())
	default:
		r.s.observe.InvalidStatus(faulty())
	}
}

// faulty returns why such a message is not handled.
func faulty() *messages.Refusal {
	return &messages.Refusal{Keyword: "fault",
		Text: "the coordinator failed while it handled this message: a fault of the program, described in its log"}
}

// surviveDispatch, deferred by functions that encode a dispatch, fails its task.
func (r *session) surviveDispatch(d *coordinator.Dispatch) {
	if p := recover(); p != nil {
		r.s.observe.Survived(p, d.Queue, "its task fails as an invalid message")
		r.post(coordinator.DispatchSettled{Handle: d.Handle, Outcome: coordinator.PublishNotSent})
	}
}
