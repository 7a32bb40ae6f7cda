package service

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/bus"
	"taskbus/messages"
)

// Properties that everything published carries.
const (
	appID       = "taskbus"
	contentJSON = "application/json"
	typeFence   = "coordinator.fence"
)

// outgoing is one thing to publish; exactly one of its first three fields is set.
type outgoing struct {
	dispatch *coordinator.Dispatch
	fail     *coordinator.Fail
	refused  *messages.Refusal // an unreadable message: told about and parked
	event    *bus.Publication  // something to announce

	held *heldDelivery // for refused
}

// outbox lets the loop hand over effects without ever waiting for the broker:
// it queues them, and one goroutine encodes and publishes them in order. Its
// length is bounded by the deliveries held.
type outbox struct {
	mu     sync.Mutex
	queue  []outgoing
	signal chan struct{} // capacity 1
}

func newOutbox() *outbox { return &outbox{signal: make(chan struct{}, 1)} }

func (o *outbox) add(item outgoing) {
	o.mu.Lock()
	o.queue = append(o.queue, item)
	first := len(o.queue) == 1
	o.mu.Unlock()
	if first {
		select {
		case o.signal <- struct{}{}:
		default:
		}
	}
}

// swap takes everything queued and leaves an empty slice in its place.
func (o *outbox) swap(empty []outgoing) []outgoing {
	o.mu.Lock()
	defer o.mu.Unlock()
	full := o.queue
	o.queue = empty
	return full
}

// publishAll is the goroutine that empties the outbox until the session ends.
func (r *session) publishAll() {
	var batch []outgoing
	for {
		batch = r.outbox.swap(batch[:0])
		for i := range batch {
			r.publish(&batch[i])
			batch[i] = outgoing{}
		}
		if len(batch) > 0 {
			continue
		}
		select {
		case <-r.outbox.signal:
		case <-r.bus.Done():
			return
		}
	}
}

func (r *session) publish(item *outgoing) {
	switch {
	case item.dispatch != nil:
		r.publishDispatch(item.dispatch)
	case item.fail != nil:
		r.publishFailure(item.fail)
	case item.refused != nil:
		r.publishRefusal(item.held, item.refused)
	case item.event != nil:
		_ = r.bus.Publish(*item.event) // an announcement: whoever missed it can look
	}
}

// publishDispatch sends a task to its agent. The token is the handle.
func (r *session) publishDispatch(d *coordinator.Dispatch) {
	h := r.held.get(d.Handle)
	if h == nil {
		return
	}
	h.dispatch = d
	r.s.history.dispatching(d)
	headers := map[string]any{
		headerTask:    messages.EncodeTaskHeader(d.Task),
		headerTried:   messages.EncodeTriedHeader(d),
		headerAttempt: int64(d.Attempt),
	}
	if d.MaybeDuplicate {
		headers[headerMaybeDuplicate] = true
	}
	if d.Task.TraceParent != "" {
		headers[headerTraceParent] = d.Task.TraceParent
	}
	if d.Task.TraceState != "" {
		headers[headerTraceState] = d.Task.TraceState
	}
	var expiration time.Duration
	if r.mayExpire(d.Queue) {
		expiration = d.AcceptTimeout
	}
	err := r.bus.Publish(bus.Publication{
		Token: uint64(d.Handle),
		Key:   d.Queue,
		Properties: bus.Properties{
			ContentType:   contentJSON,
			Type:          "task.dispatch",
			MessageID:     d.DispatchID,
			CorrelationID: d.Task.TraceID,
			AppID:         appID,
			Expiration:    expiration,
			Timestamp:     d.At,
			Headers:       headers,
		},
		Body: messages.AppendDispatch(make([]byte, 0, len(h.payload)+512), d, h.payload),
	})
	var encoding *bus.EncodingError
	if errors.As(err, &encoding) {
		r.s.observe.cannotEncode(d, encoding)
		r.s.loop.post(r.number, coordinator.DispatchSettled{Handle: d.Handle, Outcome: coordinator.PublishNotSent})
	}
}

// publishFailure tells that a task could not be assigned; its delivery is
// acknowledged when everything said about it is confirmed. The original of an
// invalid message is parked as well.
func (r *session) publishFailure(f *coordinator.Fail) {
	h := r.held.get(f.Handle)
	if h == nil {
		return
	}
	t := &ticket{held: h, fail: f}
	pubs := r.failurePublications(f)
	if f.Failure.Reason == coordinator.ReasonInvalidMessage {
		pubs = append(pubs, parked(&h.delivery, f.Failure.Reason, f.Failure.Text, f.Failure.FailedAt))
	}
	r.publishTicket(t, pubs)
}

// publishRefusal parks a message that cannot be read and, when it names its
// task, tells its producer.
func (r *session) publishRefusal(h *heldDelivery, refusal *messages.Refusal) {
	now := r.s.now()
	t := &ticket{held: h, refusal: refusal}
	var pubs []bus.Publication
	if refusal.TaskID != "" {
		traceID := h.delivery.CorrelationID
		if !messages.ValidTraceID(traceID) {
			traceID = newTraceID()
		}
		f := refusal.Fail(traceID, now)
		f.Task.ReplyTo = h.delivery.ReplyTo
		t.fail = f
		pubs = r.failurePublications(f)
	}
	pubs = append(pubs, parked(&h.delivery, coordinator.ReasonInvalidMessage, refusal.Text, now))
	r.publishTicket(t, pubs)
}

// failurePublications are assignment.failed and its copy to the producer's own
// queue, if it named one.
func (r *session) failurePublications(f *coordinator.Fail) []bus.Publication {
	p := bus.Publication{
		Exchange: bus.ExchangeEvents,
		Key:      bus.QueueFailed + "." + f.Failure.Reason.String(),
		Properties: bus.Properties{
			ContentType: contentJSON, Type: "assignment.failed", AppID: appID,
			MessageID: string(f.Task.ID) + ".failed", CorrelationID: f.Task.TraceID,
			Timestamp: f.Failure.FailedAt,
		},
		Body: messages.AppendAssignmentFailed(nil, f),
	}
	if f.Task.TraceParent != "" {
		p.Headers = map[string]any{headerTraceParent: f.Task.TraceParent}
	}
	pubs := []bus.Publication{p}
	if f.Task.ReplyTo != "" {
		p.Exchange, p.Key, p.Optional = "", f.Task.ReplyTo, true
		pubs = append(pubs, p)
	}
	return pubs
}

// parked is the original of a message on its way to task.dead, with the reason
// in its headers. Of its own headers only what is ours or the trace is kept:
// the broker would interpret others (x-death).
func parked(d *bus.Delivery, reason coordinator.Reason, text string, now time.Time) bus.Publication {
	p := bus.Publication{Key: bus.QueueDead, Properties: d.Properties, Body: d.Body}
	p.UserID, p.Expiration, p.Timestamp = "", 0, now
	p.Headers = map[string]any{
		headerReason:      text,
		headerReasonCode:  reason.String(),
		headerSourceQueue: d.Queue,
	}
	for _, name := range []string{headerTask, headerTried, headerDeathReason, headerTraceParent, headerTraceState} {
		if v := textHeader(d.Headers, name); v != "" {
			p.Headers[name] = v
		}
	}
	return p
}

// publishTicket sends everything that belongs to one ticket. What cannot be
// encoded (a body beyond what may be published, say) is left to the broker: the
// rejected delivery goes to task.dead by its dead-letter rule, without the
// reason in its headers.
func (r *session) publishTicket(t *ticket, pubs []bus.Publication) {
	t.left = len(pubs)
	for i := range pubs {
		pubs[i].Token = r.tickets.issue(t)
		err := r.bus.Publish(pubs[i])
		if err == nil {
			continue
		}
		r.tickets.redeem(pubs[i].Token)
		var encoding *bus.EncodingError
		switch {
		case !errors.As(err, &encoding):
			return // the session has ended
		case pubs[i].Optional:
			r.ticketDone(t, false)
		default:
			r.s.observe.cannotPark(t, encoding)
			r.ticketDone(t, true)
		}
	}
}

// announce publishes an event that nobody needs to hear.
func (r *session) announce(key, messageType, id, traceID string, body []byte) {
	r.outbox.add(outgoing{event: &bus.Publication{
		Token: tokenIgnored, Exchange: bus.ExchangeEvents, Key: key, Optional: true,
		Properties: bus.Properties{
			ContentType: contentJSON, Type: messageType, AppID: appID,
			MessageID: id, CorrelationID: traceID, Timestamp: r.s.now(),
		},
		Body: body,
	}})
}

// publishFence puts a mark at the end of agent.status: when it is read back, the
// past has been read.
func (r *session) publishFence() error {
	err := r.bus.Publish(bus.Publication{
		Token: tokenIgnored, Key: bus.StreamStatus,
		Properties: bus.Properties{
			ContentType: contentJSON, Type: typeFence, AppID: appID, MessageID: r.fence,
			Timestamp: r.s.now(),
		},
		Body: []byte(`{"message_type":"coordinator.fence"}`),
	})
	if err != nil {
		return fmt.Errorf("publish a mark to %s: %w", bus.StreamStatus, err)
	}
	return nil
}

// empty reports whether everything handed over has been taken out.
func (o *outbox) empty() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.queue) == 0
}
