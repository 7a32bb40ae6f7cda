package service

import (
	"context"
	"sync/atomic"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/bus"
	"taskbus/coordinator/failpoint"
	"taskbus/coordinator/service/internal/intake"
	"taskbus/coordinator/service/internal/outbox"
	"taskbus/messages"
	"taskbus/schemas"
)

// ticket is a delivery that may be acknowledged when everything published about
// it is confirmed. held is nil for a failure that no delivery stands behind.
type ticket struct {
	held    *intake.Delivery
	fail    *coordinator.Fail // nil when no producer can be informed
	refusal *messages.Refusal // for what could not be read
	left    atomic.Int32
	// reject: leave the delivery to the broker's dead-letter rule instead.
	reject atomic.Bool
}

// notice is one publication of a ticket.
type notice struct {
	*ticket
	publication bus.Publication
}

// queue returns where the notice must end up.
func (n *notice) queue() string {
	if n.publication.Exchange == bus.ExchangeEvents {
		return bus.QueueFailed
	}
	return n.publication.Key
}

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
			time.AfterFunc(noticePause, func() { r.outbox.Add(func() { r.publishDispatch(d) }) })
			return
		}
		if outcome == coordinator.PublishConfirmed {
			failpoint.Hit(failpoint.AfterConfirmBeforeAck)
			r.held.Conclude(handle, intake.Dispatched)
		}
		r.s.observe.DispatchSettled(d, outcome, r.s.now())
		r.s.history.Settled(d, outcome, r.s.now())
		if outcome == coordinator.PublishConfirmed && r.s.config.Load().TaskDispatchedEvents {
			r.announce(schemas.TaskDispatched+"."+string(d.Agent), schemas.TaskDispatched, d.DispatchID, d.Task.TraceID,
				messages.AppendTaskDispatched(nil, d, r.s.now()))
		}
	}
	r.post(coordinator.DispatchSettled{Handle: handle, Outcome: outcome})
}

// noticePause is how long a notice that the broker did not take waits before it
// is sent again. A dispatch that repeats another is sent again as well, until againFor
// has passed since it was decided: no longer, because its agent's queue may be full.
const (
	noticePause = time.Second
	againFor    = 20 * time.Second
)

// noticeSettled counts one answer. A copy for the producer's own queue is the
// producer's business. Any other notice that is not taken is sent again until it
// is: its delivery stays unacknowledged meanwhile, and no other message is held up.
func (r *session) noticeSettled(n *notice, outcome bus.Outcome) {
	switch {
	case outcome == bus.Confirmed, outcome != bus.Unknown && n.publication.Optional:
		r.ticketDone(n.ticket)
	case outcome == bus.Unknown: // the session is ending
	default:
		r.s.observe.NotTaken(n.queue(), outcome)
		time.AfterFunc(noticePause, func() { r.sendAgain(n, outcome) })
	}
}

// sendAgain repeats a notice that was not taken. When there was no way to its
// queue, the queue is seen to, and the notice goes there directly.
func (r *session) sendAgain(n *notice, outcome bus.Outcome) {
	if outcome == bus.Unroutable {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		queue := n.queue()
		if q, own := bus.OwnQueue(r.s.profile(), queue); own {
			_, _ = r.bus.EnsureQueue(ctx, q) // if it fails, the next answer says so
		}
		n.publication.Exchange, n.publication.Key = "", queue
	}
	r.outbox.Add(func() { r.publishNotice(n) })
}

// ticketDone takes one publication off the ticket and, after the last, settles
// the delivery.
func (r *session) ticketDone(t *ticket) {
	if t.left.Add(-1) > 0 {
		return
	}
	if t.fail != nil {
		r.ackAll(r.requests.Ended(t.fail.Task.ID))
	}
	if t.held == nil {
		r.s.observe.Overdue(t.fail, r.s.now())
		r.s.history.Failed(t.fail)
		r.post(coordinator.FailureTold{Task: t.fail.Task.ID})
		return
	}
	how := intake.Failed
	if t.fail == nil {
		how = intake.Parked
	}
	if r.held.Take(t.held.Handle, how) == nil {
		return
	}
	failpoint.Hit(failpoint.AfterConfirmBeforeAck)
	r.s.observe.Failed(t.held, t.fail, t.refusal, r.s.now())
	if t.fail != nil {
		r.s.history.Failed(t.fail)
	}
	if t.reject.Load() {
		r.bus.Reject(t.held.Message.Tag)
		return
	}
	r.bus.Ack(t.held.Message.Tag)
}
