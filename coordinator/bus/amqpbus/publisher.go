package amqpbus

import (
	"context"
	"errors"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"taskbus/coordinator/bus"
)

// unsettled is a publication the broker has not answered yet.
type unsettled struct {
	bus.Publication
	confirm  *amqp.DeferredConfirmation // nil: the library failed while sending
	returned bool                       // it came back as unroutable
}

// publisher sends publications in order over one channel in confirm mode, and
// settles them in the same order from one goroutine.
//
// # Which publication a returned message was
//
// A return carries the message, not its number, and ids are the caller's. The
// broker works through a channel in order, returns an unroutable message while
// it handles it, and confirms it later; the library queues the return before it
// resolves the confirmation. Hence, when a publication is found acknowledged,
// its return (if any) has been received, and returns come in the order of
// publishing. A return belongs to the first unsettled mandatory publication that
// is not matched yet and equals it in exchange, key, properties and body. If two
// are equal in all of it they are the same message twice: one of the two is in
// its queue and one is nowhere, whichever is called which.
//
// A plugin at the broker may stamp headers or time on what comes in, so these are
// compared only to choose among several candidates. A return without any
// candidate proves that we do not understand the broker: the session ends, and
// what is unsettled is Unknown.
//
// # A channel that RabbitMQ has given up on
//
// A channel that publishes to a quorum queue for the first time while the node of the
// queue's leader is lost may remember that node, and refuse every message to that queue
// for as long as it lives (seen with RabbitMQ 3.10). No answer tells this from a queue
// that is full. Hence, after a refusal the publisher goes on with a new channel, as soon
// as everything on the old one is answered, so that the order stays; while refusals go
// on, after longer and longer pauses, because a new channel has to introduce itself to
// every quorum queue.
type publisher struct {
	open    func() (*amqp.Channel, error)
	renewed func() // hears that refusals led to another channel
	channel *amqp.Channel
	returns chan amqp.Return // room for the whole window: the library drops what does not fit
	edge    bus.Edge
	settled func(token uint64, outcome bus.Outcome)
	fail    func(error)
	lost    func(*amqp.Error) // hears that the channel was closed, not by the publisher
	renewal renewal           // settling goroutine only

	send sync.Mutex // held around the library's publish, so that the ring has its order

	mu       sync.Mutex
	changed  sync.Cond
	ring     []unsettled
	head, n  int
	reserved int    // places taken: n filled, one being told of, the rest on their way
	total    uint64 // settled so far
	calling  bool   // inside settled
	blocked  bool   // by the broker
	renewing bool   // until the ring is empty and the channel another
	closed   bool
	unknown  bool // some outcome was
	doubt    bool // a return could not be matched; settling goroutine only
}

func newPublisher(window int, settled func(uint64, bus.Outcome), fail func(error)) *publisher {
	p := &publisher{
		ring:    make([]unsettled, window),
		settled: settled,
		fail:    fail,
	}
	p.changed.L = &p.mu
	return p
}

// publish implements [bus.Session].
func (p *publisher) publish(pub *bus.Publication) error {
	msg, err := encode(&p.edge, pub)
	if err != nil {
		return err
	}
	if !p.reserve() {
		return bus.ErrClosed
	}
	p.send.Lock()
	defer p.send.Unlock()
	// An error here is one of the transport. Part of the message may have left,
	// so that its fate is unknown: settled as such, in its turn.
	confirm, _ := p.channel.PublishWithDeferredConfirm(pub.Exchange, pub.Key, !pub.Optional, false, msg)
	p.push(pub, confirm)
	return nil
}

// reserve waits for a place in the ring, and for the broker to take messages.
func (p *publisher) reserve() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for !p.closed && (p.blocked || p.renewing || p.reserved == len(p.ring)) {
		p.changed.Wait()
	}
	if p.closed {
		return false
	}
	p.reserved++
	return true
}

func (p *publisher) push(pub *bus.Publication, confirm *amqp.DeferredConfirmation) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ring[(p.head+p.n)%len(p.ring)] = unsettled{Publication: *pub, confirm: confirm}
	if p.n++; p.n == 1 {
		p.changed.Broadcast()
	}
}

// settle answers for every publication in order. It returns after close, when
// all are answered. gone reports that no confirm can arrive any more.
func (p *publisher) settle(gone <-chan struct{}) {
	for {
		oldest := p.oldest()
		if oldest == nil {
			return
		}
		outcome := p.await(oldest, gone)
		token := oldest.Token
		p.pop(outcome)
		p.settled(token, outcome)
		if p.called(outcome == bus.Rejected && p.renewal.due(time.Now())) {
			p.renew()
		}
	}
}

// oldest waits for a publication; nil means that there will be none.
func (p *publisher) oldest() *unsettled {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.n == 0 && (!p.closed || p.reserved > 0) {
		p.changed.Wait()
	}
	if p.n == 0 {
		return nil
	}
	// The slot is not touched elsewhere until it is popped.
	return &p.ring[p.head]
}

func (p *publisher) pop(outcome bus.Outcome) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.unknown = p.unknown || outcome == bus.Unknown
	p.ring[p.head] = unsettled{} // let go of the body
	p.head = (p.head + 1) % len(p.ring)
	p.n--
	p.total++
	p.calling = true
}

// called gives the place away, now that the owner has heard of its outcome. refused asks
// for another channel; it is time for that when called says so.
func (p *publisher) called(refused bool) (renew bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calling = false
	if p.reserved == len(p.ring) || p.reserved == 1 {
		p.changed.Broadcast() // for reserve, for drained
	}
	p.reserved--
	p.renewing = p.renewing || refused
	return p.renewing && p.reserved == 0 && !p.closed
}

// await is the outcome of the oldest publication.
func (p *publisher) await(u *unsettled, gone <-chan struct{}) bus.Outcome {
	if u.confirm == nil {
		return bus.Unknown
	}
	select {
	case <-u.confirm.Done():
	default:
		select {
		case <-u.confirm.Done():
		case <-gone:
		}
	}
	for len(p.returns) > 0 {
		returned, ok := <-p.returns
		if ok && !p.match(&returned) {
			p.doubt = true
			p.fail(errors.New("the broker returned a message that was not published: outcomes cannot be told"))
		}
	}
	// The library resolves what is open negatively when the channel closes; it
	// marks the channel closed before it does so.
	closed := p.channel.IsClosed()
	switch {
	case p.doubt:
		return bus.Unknown
	case u.returned:
		return bus.Unroutable
	case u.confirm.Acked():
		return bus.Confirmed
	case closed || !isDone(u.confirm):
		return bus.Unknown
	}
	return bus.Rejected
}

func isDone(c *amqp.DeferredConfirmation) bool {
	select {
	case <-c.Done():
		return true
	default:
		return false
	}
}

// block holds publishers up, or lets them go on.
func (p *publisher) block(on bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.blocked = on
	p.changed.Broadcast()
}

// close refuses publications from now on; those in the ring remain to be settled.
func (p *publisher) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	p.changed.Broadcast()
}

// errUnanswered: a channel was closed with publications open on it, which Close may see before the session does.
var errUnanswered = errors.New("the broker closed the channel before it had answered")

// drained waits until everything is settled and its owner called, or ctx ends.
func (p *publisher) drained(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.changed.Broadcast()
	})
	defer stop()
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.reserved > 0 && ctx.Err() == nil {
		p.changed.Wait()
	}
	if p.reserved > 0 {
		return ctx.Err()
	}
	if p.unknown {
		return errUnanswered
	}
	return nil
}

// watch reports a fault when confirms stop coming for longer than limit while
// some are due. Time during which the broker holds publishers up does not count.
func (p *publisher) watch(limit time.Duration, ended <-chan struct{}) {
	step := max(limit/30, time.Millisecond)
	ticker := time.NewTicker(step)
	defer ticker.Stop()
	var seen uint64
	var silent time.Duration
	for {
		select {
		case <-ended:
			return
		case <-ticker.C:
		}
		p.mu.Lock()
		idle := p.n == 0 || p.blocked || p.calling || p.total != seen
		seen = p.total
		p.mu.Unlock()
		if idle {
			silent = 0
			continue
		}
		if silent += step; silent >= limit {
			p.fail(errNoConfirm(limit))
			return
		}
	}
}
