package service

import (
	"taskbus/coordinator/bus"
	"taskbus/coordinator/service/internal/outbox"
)

// parkOtherwise finds another way to task.dead for a message that cannot be
// published there as it is: the queue's own dead-letter rule where we know it,
// which loses the reason; else a note in its place, with size and hash, which
// loses the message.
func (r *session) parkOtherwise(n *notice, why *bus.EncodingError) {
	r.s.observe.CannotPark(n.held.Message.Queue, why)
	d := &n.held.Message
	switch {
	case r.bus.Matches(d.Queue):
		n.reject.Store(true)
		r.ticketDone(n.ticket)
		return
	case n.publication.Type == outbox.TypeStub: // cannot be: the stub is small and plain
		r.ticketDone(n.ticket)
		return
	}
	n.publication = outbox.Stub(&n.publication, d, r.s.now())
	r.publishNotice(n)
}
