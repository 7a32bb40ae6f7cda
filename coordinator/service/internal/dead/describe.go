package dead

import (
	"cmp"
	"encoding/binary"
	"fmt"

	"github.com/cespare/xxhash/v2"

	"taskbus/coordinator/bus"
	"taskbus/coordinator/httpapi"
	"taskbus/coordinator/service/internal/outbox"
	"taskbus/coordinator/view"
	"taskbus/messages"
	"taskbus/schemas"
)

// Key names a message by what it says and where it comes from; renewing it does not change that.
func Key(d *bus.Delivery) string {
	h := xxhash.New()
	_, _ = h.Write(d.Body) // never fails
	for _, part := range []string{d.MessageID, messages.TextHeader(d.Headers, messages.HeaderSourceQueue),
		messages.TextHeader(d.Headers, messages.HeaderDeathQueue)} {
		_, _ = h.WriteString("\x00" + part)
	}
	var at [8]byte
	if !d.Timestamp.IsZero() {
		binary.BigEndian.PutUint64(at[:], uint64(d.Timestamp.Unix()))
	}
	_, _ = h.Write(at[:])
	return fmt.Sprintf("%016x", h.Sum64())
}

// describe returns what can be said of a message, all but its body.
func (q *Queue) describe(d *bus.Delivery) view.DeadMessage {
	says := q.decoder.Sketch(d.Body)
	header := func(name string) string { return messages.TextHeader(d.Headers, name) }
	m := view.DeadMessage{
		Key: Key(d), ReasonCode: header(messages.HeaderReasonCode), Reason: header(messages.HeaderReason),
		SourceQueue: cmp.Or(header(messages.HeaderSourceQueue), header(messages.HeaderDeathQueue)),
		MessageType: cmp.Or(says.MessageType, d.Type), TaskID: says.TaskID, TaskType: says.TaskType,
		CorrelationID: cmp.Or(d.CorrelationID, says.CorrelationID), MessageID: d.MessageID, AppID: d.AppID,
		ReplyTo:   d.ReplyTo,
		Timestamp: d.Timestamp, Bytes: len(d.Body),
	}
	if m.ReasonCode == "" {
		m.ReasonCode = messages.TextHeader(d.Headers, messages.HeaderDeathReason)
	}
	if m.Reason == "" && m.ReasonCode != "" {
		m.Reason = "the broker has moved it here: " + brokerSays(m.ReasonCode)
	}
	m.ResendTo, m.ResendNot = resendTo(d, &m)
	httpapi.CleanDead(&m)
	return m
}

// brokerSays puts a reason of the broker's into words.
func brokerSays(reason string) string {
	switch reason {
	case "delivery_limit":
		return "it was delivered as often as its queue allows and never acknowledged"
	case "expired":
		return "it waited longer than its expiration, or its queue's, allows"
	case "maxlen":
		return "its queue was full"
	case "rejected":
		return "its consumer rejected it"
	default:
		return messages.Clean(reason, 64)
	}
}

// resendTo returns the queue to which a message can be sent again, or why there is none.
func resendTo(d *bus.Delivery, m *view.DeadMessage) (queue, not string) {
	switch {
	case d.Type == outbox.TypeStub:
		return "", "it only stands for a message that could not be kept"
	case m.MessageType == schemas.TaskDispatch && messages.TextHeader(d.Headers, messages.HeaderTask) != "":
		return bus.QueueAssign, ""
	case m.SourceQueue == bus.QueueAssign, m.SourceQueue == bus.QueueAssignHigh, m.SourceQueue == bus.QueueRequest:
		return m.SourceQueue, ""
	case bus.LaneOf(m.SourceQueue) != "":
		return bus.QueueAssign, ""
	case m.MessageType == schemas.TaskAssign:
		return bus.QueueAssign, ""
	default:
		return "", "it is neither a task nor a request; publish it where it belongs and drop it here"
	}
}

// again is the publication that sends a message again. A dispatch becomes the task that it was made of, which begins
// anew: with all its tries, for every agent.
func (q *Queue) again(d *bus.Delivery, to string) (bus.Publication, error) {
	p := bus.Publication{Key: to, Properties: d.Properties, Body: d.Body}
	p.UserID, p.Expiration = "", 0
	p.Headers = make(map[string]any)
	if header := messages.TextHeader(d.Headers, messages.HeaderTask); header != "" {
		m, refusal := q.decoder.DecodeReturned(d.Body, header, "")
		if refusal != nil {
			return p, fmt.Errorf("the task cannot be read out of the dispatch: %s", refusal.Text)
		}
		p.Body = messages.AppendTaskAssign(make([]byte, 0, len(m.Payload)+1024), m.Task, m.Payload)
		p.Type, p.MessageID, p.CorrelationID, p.ReplyTo = schemas.TaskAssign, string(m.Task.ID), m.Task.CorrelationID,
			m.Task.ReplyTo
	}
	for _, name := range []string{messages.HeaderTraceParent, messages.HeaderTraceState} {
		if v := messages.TextHeader(d.Headers, name); v != "" {
			p.Headers[name] = v
		}
	}
	return p, nil
}
