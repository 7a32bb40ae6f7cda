package service

import (
	"fmt"
	"sync"

	"taskbus/coordinator"
	"taskbus/coordinator/bus"
	"taskbus/messages"
)

// Tokens tell publications apart when they are settled: a dispatch has its
// handle, everything else a number from ticketBase on.
const (
	ticketBase   uint64 = 1 << 62
	tokenIgnored uint64 = 1<<63 - 1 // announcements: nobody waits for them
)

// ticket is a delivery that may be acknowledged when everything published about
// it is confirmed.
type ticket struct {
	held    *heldDelivery
	fail    *coordinator.Fail // nil when nobody can be told
	refusal *messages.Refusal // for what could not be read
	left    int
	// reject: leave the delivery to the broker's dead-letter rule instead.
	reject bool
}

// tickets finds the ticket of a token.
type tickets struct {
	mu   sync.Mutex
	next uint64
	open map[uint64]*ticket
}

func newTickets() *tickets { return &tickets{next: ticketBase, open: make(map[uint64]*ticket)} }

func (t *tickets) issue(of *ticket) uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.next++
	t.open[t.next] = of
	return t.next
}

func (t *tickets) redeem(token uint64) *ticket {
	t.mu.Lock()
	defer t.mu.Unlock()
	of := t.open[token]
	delete(t.open, token)
	return of
}

// count is how many publications are unsettled.
func (t *tickets) count() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.open)
}

var publishOutcomes = [...]coordinator.PublishOutcome{
	bus.Confirmed:  coordinator.PublishConfirmed,
	bus.Unroutable: coordinator.PublishUnroutable,
	bus.Rejected:   coordinator.PublishRejected,
	bus.Unknown:    coordinator.PublishUnknown,
}

// onSettled hears the broker's answer to every publication, in order.
func (r *session) onSettled(token uint64, outcome bus.Outcome) {
	r.s.metrics.publishOutcomes[outcome].Inc()
	switch {
	case token == tokenIgnored:
	case token < ticketBase:
		r.dispatchSettled(coordinator.Handle(token), publishOutcomes[outcome])
	default:
		if t := r.tickets.redeem(token); t != nil {
			r.ticketSettled(t, outcome)
		}
	}
}

// dispatchSettled records the answer and passes it on to the engine.
func (r *session) dispatchSettled(handle coordinator.Handle, outcome coordinator.PublishOutcome) {
	if h := r.held.get(handle); h != nil && h.dispatch != nil {
		d := h.dispatch
		r.s.observe.dispatchSettled(d, outcome, r.s.now())
		if outcome == coordinator.PublishConfirmed && r.s.config.Load().TaskDispatchedEvents {
			r.announce("task.dispatched."+string(d.Agent), "task.dispatched", d.DispatchID, d.Task.TraceID,
				messages.AppendTaskDispatched(nil, d, r.s.now()))
		}
	}
	r.s.loop.post(r.number, coordinator.DispatchSettled{Handle: handle, Outcome: outcome})
}

// ticketSettled counts one answer. A refusal to take a failure or a parked
// message cannot be shrugged off: the session ends, the topology is looked at
// again, and the broker delivers the task anew.
func (r *session) ticketSettled(t *ticket, outcome bus.Outcome) {
	switch outcome {
	case bus.Confirmed:
		r.ticketDone(t, false)
	case bus.Unroutable, bus.Rejected:
		r.fault(fmt.Errorf("the broker did not take what had to be published to %s or %s (%s): check that both queues and the bindings of %s exist",
			bus.QueueFailed, bus.QueueDead, outcome, bus.ExchangeEvents))
	case bus.Unknown: // the session is ending
	}
}

// ticketDone takes one publication off the ticket and, after the last, settles
// the delivery.
func (r *session) ticketDone(t *ticket, reject bool) {
	r.settleMu.Lock()
	t.left--
	t.reject = t.reject || reject
	last := t.left == 0
	r.settleMu.Unlock()
	if !last || r.held.take(t.held.handle) == nil {
		return
	}
	r.s.observe.failed(t, r.s.now())
	if t.reject {
		r.bus.Reject(t.held.delivery.Tag)
		return
	}
	r.bus.Ack(t.held.delivery.Tag)
}
