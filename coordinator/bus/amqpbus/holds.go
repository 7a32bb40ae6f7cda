package amqpbus

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"taskbus/coordinator/bus"
)

// holdsLimit is how long a queue may take to answer whether it holds a message. One that answers takes milliseconds.
const holdsLimit = 2 * time.Second

// prober asks queues for their first message, over a connection of its own. A quorum queue without a leader, as after
// a broker was killed, gives no answer to basic.get and basic.consume, and after 60 s RabbitMQ closes the whole
// connection over it (541). That must cost nothing but the answer.
type prober struct {
	dial    func(context.Context) (*link, error)
	dialing chan struct{} // has room for the one that dials

	mu     sync.Mutex
	link   *link           // nil before the first request
	closed bool            // no request is made any more
	asked  map[string]bool // queues that have not answered yet; no false entries
}

func newProber(dial func(context.Context) (*link, error)) *prober {
	return &prober{dial: dial, dialing: make(chan struct{}, 1), asked: make(map[string]bool)}
}

// first has the queue's first message handed to give, which settles it. It waits for holdsLimit, and not at all for
// a queue that owes an earlier answer: [bus.ErrUnanswered].
func (p *prober) first(ctx context.Context, queue string, give func(*amqp.Delivery) error) (some bool, err error) {
	l, err := p.begin(ctx, queue)
	if err != nil {
		return false, err
	}
	type answer struct {
		some bool
		err  error
	}
	answered := make(chan answer, 1)
	go func() {
		some, err := l.first(queue, give)
		p.end(queue)
		answered <- answer{some, err}
	}()
	limit := time.NewTimer(holdsLimit)
	defer limit.Stop()
	select {
	case a := <-answered:
		// That the broker has closed the connection over another queue is no answer. 540 is one: it is a stream.
		if a.err != nil && l.conn.IsClosed() && refusal(a.err, amqp.NotImplemented) == nil {
			a.err = bus.ErrUnanswered
		}
		return a.some, a.err
	case <-limit.C:
		return false, bus.ErrUnanswered
	case <-ctx.Done():
		return false, ctx.Err()
	}
}

// first asks over a channel of its own, however long the answer takes.
func (l *link) first(queue string, give func(*amqp.Delivery) error) (some bool, err error) {
	ch, err := l.channel()
	if err != nil {
		return false, err
	}
	d, some, err := ch.Get(queue, false)
	if err != nil {
		return false, err // the channel is closed
	}
	if some {
		err = give(&d)
	}
	_ = ch.Close() // an error is the end of the connection, which gives the message back as well
	return some, err
}

// begin notes that the queue is asked, and dials if there is no connection.
func (p *prober) begin(ctx context.Context, queue string) (*link, error) {
	if l, err := p.ask(queue); l != nil || err != nil {
		return l, err
	}
	select {
	case p.dialing <- struct{}{}:
		defer func() { <-p.dialing }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if l, err := p.ask(queue); l != nil || err != nil {
		return l, err // another has dialled meanwhile
	}
	l, err := p.dial(ctx)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	p.link = l
	closed := p.closed
	p.mu.Unlock()
	if closed {
		l.cut(bus.ErrClosed)
	}
	if l, err = p.ask(queue); l == nil && err == nil {
		err = bus.ErrUnanswered // the connection has ended again
	}
	return l, err
}

// ask notes that the queue is asked; no link: there is no connection.
func (p *prober) ask(queue string) (*link, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.closed:
		return nil, bus.ErrClosed
	case p.asked[queue]:
		return nil, bus.ErrUnanswered
	case p.link == nil || p.link.conn.IsClosed():
		return nil, nil
	}
	p.asked[queue] = true
	return p.link, nil
}

func (p *prober) end(queue string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.asked, queue)
}

// close ends the connection, and with it all requests.
func (p *prober) close(by time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	if p.link != nil {
		p.link.close(by)
	}
}

// holds implements [bus.Session].
func (t *topology) holds(ctx context.Context, queue string) (bool, error) {
	some, err := t.prober.first(ctx, queue, func(d *amqp.Delivery) error {
		t.give(queue, d)
		return d.Nack(false, true)
	})
	if err != nil {
		return false, t.unseen(fmt.Sprintf("look for a message in queue %q", queue), "read", queue, err)
	}
	return some, nil
}

// give notes what holds gives back, unless it was delivered before.
func (t *topology) give(queue string, d *amqp.Delivery) {
	t.mu.Lock()
	defer t.mu.Unlock()
	body := hash(sha256.Sum256(d.Body))
	switch {
	case !d.Redelivered:
		t.given[queue] = body
	case t.given[queue] != body:
		delete(t.given, queue)
	}
}

// again reports whether a consumer of the session, or of another one, has had the delivery before. The broker
// takes what holds has given back for redelivered.
func (t *topology) again(queue string, d *amqp.Delivery) bool {
	if !d.Redelivered {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	body, some := t.given[queue]
	if !some || body != sha256.Sum256(d.Body) {
		return true
	}
	delete(t.given, queue)
	return false
}

// answers reports an error if the queue gives no answer. Of such a queue the broker says that it has neither messages
// nor consumers; only then the queue itself is asked. Any other fault is for the request to find that follows.
func (t *topology) answers(ctx context.Context, queue string) error {
	if d, err := t.depth(ctx, queue); err != nil || d != (bus.Depth{}) {
		return nil
	}
	if _, err := t.holds(ctx, queue); errors.Is(err, bus.ErrUnanswered) {
		return err
	}
	return nil
}
