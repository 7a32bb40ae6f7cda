package service

import (
	"errors"
	"slices"
	"strings"

	"github.com/cespare/xxhash/v2"

	"taskbus/config"
	"taskbus/coordinator"
	"taskbus/coordinator/bus"
	"taskbus/coordinator/failpoint"
	"taskbus/coordinator/service/internal/dead"
	"taskbus/coordinator/service/internal/intake"
	"taskbus/coordinator/service/internal/outbox"
	"taskbus/messages"
)

// publishAll is the goroutine that empties the outbox until the session ends.
// What is left then is not sent, and reported so.
func (r *session) publishAll() {
	var batch []func()
	for ended := false; ; {
		batch = r.outbox.Swap(batch[:0])
		for i, publish := range batch {
			publish()
			r.outbox.Published()
			batch[i] = nil
		}
		switch {
		case len(batch) > 0:
			continue
		case ended:
			return
		}
		select {
		case <-r.outbox.Signal():
		case <-r.bus.Done():
			ended = true
		}
	}
}

// send publishes what the broker's answer is awaited for: settled is called with it, once. After an error it is not.
func (r *session) send(p bus.Publication, settled func(bus.Outcome)) error {
	return r.tickets.Publish(r.bus, p, settled)
}

// publishDispatch sends a task to its agent. The token is the handle.
func (r *session) publishDispatch(d *coordinator.Dispatch) {
	h := r.held.Get(d.Handle)
	if h == nil {
		return
	}
	defer r.surviveDispatch(d)
	failpoint.Hit(failpoint.BeforePublish)
	h.Dispatch = d
	r.s.queues.Add(d.Queue)
	r.s.history.Dispatching(d)
	sender := outbox.Sender{User: r.userID(), At: d.At}
	err := r.bus.Publish(sender.Dispatch(d, h.Payload, r.s.config.Load().ExplainDispatches, r.mayExpire(d.Queue)))
	var encoding *bus.EncodingError
	switch {
	case err == nil: // onSettled hears the answer
		failpoint.Hit(failpoint.AfterPublishBeforeConfirm)
	case errors.As(err, &encoding):
		r.s.observe.CannotEncode(d, encoding)
		r.post(coordinator.DispatchSettled{Handle: d.Handle, Outcome: coordinator.PublishNotSent})
	default:
		r.post(coordinator.DispatchSettled{Handle: d.Handle, Outcome: coordinator.PublishAbandoned})
	}
}

// userID lets agents check the sender of a message, where identities are checked at all.
func (r *session) userID() string {
	if r.s.config.Load().Auth == config.AuthOff {
		return ""
	}
	return r.bus.User()
}

// publishFailure publishes that a task could not be done; its delivery, if it has one,
// is acknowledged when everything said about it is confirmed. The original of
// what no agent could read or do is parked as well.
func (r *session) publishFailure(f *coordinator.Fail) {
	if f.Handle == 0 {
		r.tell(nil, f, nil, r.failurePublications(f))
		return
	}
	h := r.held.Get(f.Handle)
	if h == nil {
		return
	}
	pubs := r.failurePublications(f)
	if reason := f.Failure.Reason; reason == coordinator.ReasonInvalidMessage || reason == coordinator.ReasonPoisoned {
		pubs = append(pubs, outbox.Parked(&h.Message, reason, f.Failure.Text, f.Failure.FailedAt))
	}
	r.tell(h, f, nil, pubs)
}

// publishRefusal parks a message that cannot be read and informs its producer, if that can know the message again: by
// its task id, else by its properties. A cancel has no answer: the task that it names may be doing well.
func (r *session) publishRefusal(h *intake.Delivery, refusal *messages.Refusal) {
	now := r.s.now()
	park := outbox.Parked(&h.Message, coordinator.ReasonInvalidMessage, refusal.Text, now)
	var f *coordinator.Fail
	var pubs []bus.Publication
	if refusal.TaskID == "" && h.Message.Queue != bus.QueueRequest {
		refusal.TaskID = idByProperties(&h.Message, &park)
	}
	if refusal.TaskID != "" && h.Message.Queue != bus.QueueRequest {
		traceID := h.Message.CorrelationID
		if !messages.ValidTraceID(traceID) {
			traceID = intake.DerivedTraceID(refusal.TaskID, xxhash.Sum64(h.Message.Body))
		}
		f = refusal.Fail(traceID, now)
		if f.Task.ReplyTo == "" {
			f.Task.ReplyTo = h.Message.ReplyTo
		}
		pubs = r.failurePublications(f)
	}
	r.tell(h, f, refusal, append(pubs, park))
}

// idByProperties stands in for a task id that cannot be read, or is none: the message id where that could be one; else,
// where its producer waits for an answer or has given a correlation id, "invalid-" and the key that the message has
// in task.dead. Empty: there is nothing by which its producer could know it again.
func idByProperties(d *bus.Delivery, park *bus.Publication) coordinator.TaskID {
	switch {
	case messages.ValidID(d.MessageID):
		return coordinator.TaskID(d.MessageID)
	case d.ReplyTo != "", messages.ValidTraceID(d.CorrelationID):
		return coordinator.TaskID("invalid-" + dead.Key(&bus.Delivery{Properties: park.Properties, Body: park.Body}))
	default:
		return ""
	}
}

// failurePublications are assignment.failed and its copy to the producer's own
// queue, if it named one.
func (r *session) failurePublications(f *coordinator.Fail) []bus.Publication {
	p := outbox.Failed(f)
	pubs := []bus.Publication{p}
	if queue := r.answerTo(f.Task); queue != "" {
		p.Exchange, p.Key, p.Optional = "", queue, true
		pubs = append(pubs, p)
	}
	return pubs
}

// listed reports whether agents.yaml says that the queue is an agent's.
func (s *Service) listed(queue string) bool {
	return slices.ContainsFunc(s.config.Load().Policy().Agents,
		func(a coordinator.AgentSpec) bool { return a.Queue == queue })
}

// isOurs reports whether a queue is one of Taskbus's own or an agent's: no producer
// may have its copies sent there.
func (r *session) isOurs(queue string) bool {
	if r.s.listed(queue) || r.s.queues.Has(queue) || strings.HasPrefix(queue, "agent.") &&
		strings.HasSuffix(queue, ".control") {
		return true
	}
	_, own := bus.OwnQueue(r.s.profile(), queue)
	return own || queue == bus.QueueLeader || bus.LaneOf(queue) != ""
}

// tell publishes all that is to be said of a delivery, which is settled when the broker has it; h is nil for a failure
// that no delivery stands behind, f when no producer can be informed, refusal for what could be read.
func (r *session) tell(h *intake.Delivery, f *coordinator.Fail, refusal *messages.Refusal, pubs []bus.Publication) {
	failpoint.Hit(failpoint.BeforePublish)
	var d *bus.Delivery
	if h != nil {
		r.held.Tell(h)
		d = &h.Message
	}
	r.notices.Publish(d, pubs, func(reject bool) { r.told(h, f, refusal, reject) })
}

// mayAnnounce reports whether there is room for an optional event, and counts one that must be dropped.
func (r *session) mayAnnounce() bool {
	if r.outbox.Waiting() < outbox.Most {
		return true
	}
	r.s.metrics.EventsDropped.Inc()
	return false
}

// announce publishes an optional event.
func (r *session) announce(key, messageType, id, traceID string, body []byte) {
	if !r.mayAnnounce() {
		return
	}
	p := outbox.Event(key, messageType, id, traceID, body, r.s.now())
	r.outbox.Add(func() { _ = r.bus.Publish(p) }) // optional: its facts can be looked up
}
