package service

import (
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/bus"
	"taskbus/coordinator/failpoint"
	"taskbus/coordinator/service/internal/intake"
	"taskbus/coordinator/service/internal/outbox"
	"taskbus/messages"
	"taskbus/schemas"
)

var publishOutcomes = [...]coordinator.PublishOutcome{
	bus.Confirmed:  coordinator.PublishConfirmed,
	bus.Unroutable: coordinator.PublishUnroutable,
	bus.Rejected:   coordinator.PublishRejected,
	bus.Unknown:    coordinator.PublishUnknown,
}

// onSettled hears the broker's answer to every publication, in order.
func (r *session) onSettled(token uint64, outcome bus.Outcome) {
	if token == outbox.Pulse {
		r.pulse.unanswered.Store(false)
		return
	}
	r.s.metrics.PublishOutcomes[outcome].Inc()
	switch {
	case token == outbox.Ignored:
	case token < outbox.FirstTicket:
		r.dispatchSettled(coordinator.Handle(token), publishOutcomes[outcome])
	default:
		if settled := r.tickets.Redeem(token); settled != nil {
			settled(outcome)
		}
	}
}

// dispatchSettled records the answer and passes it on to the engine.
func (r *session) dispatchSettled(handle coordinator.Handle, outcome coordinator.PublishOutcome) {
	if h := r.held.Get(handle); h != nil && h.Dispatch != nil {
		d := h.Dispatch
		if outcome == coordinator.PublishRejected && d.Again && r.s.now().Sub(d.At) < againFor {
			r.s.observe.NotTaken(d.Queue, bus.Rejected)
			time.AfterFunc(outbox.NoticePause, func() { r.outbox.Add(func() { r.publishDispatch(d) }) })
			return
		}
		if outcome == coordinator.PublishConfirmed {
			failpoint.Hit(failpoint.AfterConfirmBeforeAck)
			r.held.Conclude(handle, intake.Dispatched)
		}
		r.s.observe.DispatchSettled(d, outcome, r.s.now())
		r.s.history.Settled(d, outcome, r.s.now())
		if outcome == coordinator.PublishConfirmed && r.s.config.Load().TaskDispatchedEvents {
			r.announce(schemas.TaskDispatched+"."+string(d.Agent), schemas.TaskDispatched, d.DispatchID, d.Task.CorrelationID,
				messages.AppendTaskDispatched(nil, d, r.s.now()))
		}
	}
	r.post(coordinator.DispatchSettled{Handle: handle, Outcome: outcome})
}

// againFor is for how long a dispatch that repeats another, and that the broker does not take, is sent again, since it
// was decided: no longer, because its agent's queue may be full.
const againFor = 20 * time.Second

// told settles a delivery of which the broker has all that is to be said (see tell).
func (r *session) told(h *intake.Delivery, f *coordinator.Fail, refusal *messages.Refusal, reject bool) {
	how := intake.Parked
	if f != nil {
		how = intake.Failed
		r.ackAll(r.requests.Ended(f.Task.ID))
	}
	if h == nil {
		r.s.observe.Overdue(f, r.s.now())
		r.s.history.Failed(f)
		r.post(coordinator.FailureTold{Task: f.Task.ID})
		return
	}
	if r.held.Take(h.Handle, how) == nil {
		return
	}
	failpoint.Hit(failpoint.AfterConfirmBeforeAck)
	r.s.observe.Failed(h, f, refusal, r.s.now())
	if f != nil {
		r.s.history.Failed(f)
	}
	if reject {
		r.bus.Reject(h.Message.Tag)
		return
	}
	r.bus.Ack(h.Message.Tag)
}
