package service

import (
	"fmt"
	"time"

	"github.com/cespare/xxhash/v2"

	"taskbus/coordinator"
	"taskbus/coordinator/bus"
)

const typeStub = "task.dead.stub" // stands in task.dead for what could not be kept

// parked returns the original of a message on its way to task.dead, with the reason
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

// parkOtherwise finds another way to task.dead for a message that cannot be
// published there as it is: the queue's own dead-letter rule where we know it,
// which loses the reason; else a note in its place, with size and hash, which
// loses the message.
func (r *session) parkOtherwise(n *notice, why *bus.EncodingError) {
	r.s.observe.cannotPark(n.ticket, why)
	d := &n.held.delivery
	switch {
	case r.bus.Matches(d.Queue):
		n.reject.Store(true)
		r.ticketDone(n.ticket)
		return
	case n.publication.Type == typeStub: // cannot be: the stub is small and plain
		r.ticketDone(n.ticket)
		return
	}
	reason, _ := n.publication.Headers[headerReason].(string)
	code, _ := n.publication.Headers[headerReasonCode].(string)
	n.publication = bus.Publication{
		Key: bus.QueueDead,
		Properties: bus.Properties{
			ContentType: contentJSON, Type: typeStub, AppID: appID, Timestamp: r.s.now(),
			Headers: map[string]any{headerReason: reason, headerReasonCode: code, headerSourceQueue: d.Queue},
		},
		Body: fmt.Appendf(nil, `{"message_type":%q,"queue":%q,"bytes":%d,"xxhash64":"%016x"}`, typeStub, d.Queue, len(d.Body),
			xxhash.Sum64(d.Body)),
	}
	r.publishNotice(n)
}
