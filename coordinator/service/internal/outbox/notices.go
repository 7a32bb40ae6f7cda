package outbox

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"taskbus/coordinator/bus"
)

// NoticePause is how long a notice that the broker did not take waits before it
// is sent again.
const NoticePause = time.Second

// optionalTries is how often one that is optional is sent again: to a queue that is full, and may get room.
const optionalTries = 15

// ensureTimeout is for the broker to see to a queue to which there was no way.
const ensureTimeout = 10 * time.Second

// Broker is what notices use of a session (see bus.Session).
type Broker interface {
	Publisher
	EnsureQueue(ctx context.Context, q bus.Queue) (bool, error)
	Matches(queue string) bool
}

// Notices are publications that the broker must have before a delivery may be settled.
type Notices struct {
	Bus     Broker
	Profile bus.Profile
	Tickets *Tickets
	Now     func() time.Time
	// Add has a publication go when its turn comes.
	Add func(publish func())
	Log interface {
		NotTaken(queue string, outcome bus.Outcome)
		CannotPark(queue string, why *bus.EncodingError)
	}
}

// settling is a delivery that may be settled when everything published about
// it is confirmed. delivery is nil for a failure that no delivery stands behind.
type settling struct {
	delivery *bus.Delivery
	left     atomic.Int32
	reject   atomic.Bool
	done     func(reject bool)
}

// notice is one publication of it.
type notice struct {
	*settling
	publication bus.Publication
	again       int // how often it was sent again
}

// queue returns where the notice must end up.
func (n *notice) queue() string {
	if n.publication.Exchange == bus.ExchangeEvents {
		return bus.QueueFailed
	}
	return n.publication.Key
}

// told takes one publication off and, after the last, calls done.
func (s *settling) told() {
	if s.left.Add(-1) == 0 {
		s.done(s.reject.Load())
	}
}

// Publish sends everything that is to be said of a delivery (nil: of a failure that no delivery stands behind) and
// calls done, once, when the broker has all of it, unless the session ends before. reject: the delivery is to be left
// to the broker's dead-letter rule instead.
func (o *Notices) Publish(d *bus.Delivery, pubs []bus.Publication, done func(reject bool)) {
	s := &settling{delivery: d, done: done}
	s.left.Store(int32(len(pubs)))
	for _, p := range pubs {
		o.publish(&notice{settling: s, publication: p})
	}
}

// publish sends one. What cannot be encoded is a message to be parked with
// headers or a body beyond what may be published.
func (o *Notices) publish(n *notice) {
	err := o.Tickets.Publish(o.Bus, n.publication, func(outcome bus.Outcome) { o.settled(n, outcome) })
	var encoding *bus.EncodingError
	switch {
	case err == nil:
	case !errors.As(err, &encoding): // the session has ended
	case n.publication.Optional, n.delivery == nil:
		n.told()
	default:
		o.parkOtherwise(n, encoding)
	}
}

// settled counts one answer. A copy for the producer's own queue is the
// producer's business: it is given up after a while. Any other notice that is not taken is sent again until it
// is: its delivery stays unacknowledged meanwhile, and no other message is held up.
func (o *Notices) settled(n *notice, outcome bus.Outcome) {
	switch {
	case outcome == bus.Rejected && n.publication.Optional && n.again < optionalTries:
		n.again++
		time.AfterFunc(NoticePause, func() { o.Add(func() { o.publish(n) }) })
	case outcome == bus.Confirmed, outcome != bus.Unknown && n.publication.Optional:
		n.told()
	case outcome == bus.Unknown: // the session is ending
	default:
		o.Log.NotTaken(n.queue(), outcome)
		time.AfterFunc(NoticePause, func() { o.again(n, outcome) })
	}
}

// again repeats a notice that was not taken. When there was no way to its
// queue, the queue is seen to, and the notice goes there directly.
func (o *Notices) again(n *notice, outcome bus.Outcome) {
	if outcome == bus.Unroutable {
		ctx, cancel := context.WithTimeout(context.Background(), ensureTimeout)
		defer cancel()
		queue := n.queue()
		if q, own := bus.OwnQueue(o.Profile, queue); own {
			_, _ = o.Bus.EnsureQueue(ctx, q) // if it fails, the next answer says so
		}
		n.publication.Exchange, n.publication.Key = "", queue
	}
	o.Add(func() { o.publish(n) })
}

// parkOtherwise finds another way to task.dead for a message that cannot be
// published there as it is: the queue's own dead-letter rule where we know it,
// which loses the reason; else a note in its place, with size and hash, which
// loses the message.
func (o *Notices) parkOtherwise(n *notice, why *bus.EncodingError) {
	o.Log.CannotPark(n.delivery.Queue, why)
	switch {
	case o.Bus.Matches(n.delivery.Queue):
		n.reject.Store(true)
		n.told()
	case n.publication.Type == TypeStub: // cannot be: the stub is small and plain
		n.told()
	default:
		n.publication = Stub(&n.publication, n.delivery, o.Now())
		o.publish(n)
	}
}
