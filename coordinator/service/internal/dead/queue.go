package dead

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"taskbus/coordinator/bus"
	"taskbus/coordinator/view"
	"taskbus/messages"
)

const (
	// scan is how many messages one request looks at.
	scan = 20_000
	// quiet is after how long without a message the end of the queue is assumed where the broker counts none,
	// patience where it counts more than have come.
	quiet    = 500 * time.Millisecond
	patience = 2 * time.Second
	// renewedAfter is after how many deliveries a message is put into the queue anew: a quorum queue drops what it has
	// delivered more often than its limit (1,000), and every look is a delivery.
	renewedAfter = 500
	// giveBack bounds what is done after the request has ended.
	giveBack = 5 * time.Second
)

const headerDeliveryCount = "x-delivery-count" // set by quorum queues

// Queue is task.dead. It is safe for concurrent use: one request at a time has the messages in hand.
type Queue struct {
	decoder *messages.Decoder
	inHand  chan struct{} // capacity 1
}

// New returns the queue of which decoder reads the messages.
func New(decoder *messages.Decoder) *Queue {
	return &Queue{decoder: decoder, inHand: make(chan struct{}, 1)}
}

// letter is one message of task.dead in hand. The body of delivery is kept only where it is wanted.
type letter struct {
	view.DeadMessage
	delivery bus.Delivery
	settled  bool
}

// reader collects what a consumer of task.dead is given. handle is called by the consumer's goroutine.
type reader struct {
	queue   *Queue
	session Session
	want    func(*view.DeadMessage) bool // reports which messages keep their body
	came    chan struct{}                // capacity 1

	mu   sync.Mutex
	all  []*letter
	over bool
}

func (c *reader) handle(d bus.Delivery) {
	l := &letter{DeadMessage: c.queue.describe(&d), delivery: d}
	c.mu.Lock()
	over := c.over
	if !over {
		if !c.want(&l.DeadMessage) && deliveries(&d) < renewedAfter {
			l.delivery.Body = nil
		}
		c.all = append(c.all, l)
	}
	c.mu.Unlock()
	if over {
		c.session.Requeue(d.Tag)
		return
	}
	select {
	case c.came <- struct{}{}:
	default:
	}
}

func (c *reader) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.all)
}

// end takes what has been collected; what still comes goes back.
func (c *reader) end() []*letter {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.over = true
	return c.all
}

// Session is what is used of a session with the broker.
type Session interface {
	Depth(ctx context.Context, queue string) (bus.Depth, error)
	Subscribe(ctx context.Context, s bus.Subscription) error
	Unsubscribe(ctx context.Context, queue string) (bool, error)
	Ack(bus.Tag)
	Requeue(bus.Tag)
	Done() <-chan struct{}
	// Send publishes; the broker's answer comes later. After an error nothing was sent.
	Send(bus.Publication) (<-chan bus.Outcome, error)
	// HeldUp says why the broker takes no publications now; empty: it does.
	HeldUp() string
}

// hold holds the messages of task.dead while act works on them, and gives back what it has not settled.
func (q *Queue) hold(ctx context.Context, s Session, want func(*view.DeadMessage) bool,
	act func(all []*letter, more bool)) error {
	select {
	case q.inHand <- struct{}{}:
		defer func() { <-q.inHand }()
	case <-ctx.Done():
		return errors.New("another request has the messages in hand; try again")
	}
	if why := s.HeldUp(); why != "" {
		return fmt.Errorf("%s; try again when it has passed", why)
	}
	c := &reader{queue: q, session: s, want: want, came: make(chan struct{}, 1)}
	depth, err := s.Depth(ctx, bus.QueueDead)
	if err != nil {
		return fmt.Errorf("count its messages: %w", err)
	}
	ended := make(chan error, 1)
	err = s.Subscribe(ctx, bus.Subscription{
		Queue: bus.QueueDead, Prefetch: scan, OnEnded: func(err error) { ended <- err }, Handle: c.handle,
	})
	if err != nil {
		return fmt.Errorf("consume it: %w", err)
	}
	err = c.wait(ctx, depth.Ready, ended)
	after, cancel := context.WithTimeout(context.WithoutCancel(ctx), giveBack)
	defer cancel()
	_, _ = s.Unsubscribe(after, bus.QueueDead) // of a session that has ended nothing is left
	all := c.end()
	if err == nil {
		act(all, depth.Ready > len(all))
	}
	for _, l := range all {
		l.giveBack(after, s)
	}
	return err
}

// wait returns when the queue has been read to its end, or as far as it is read.
func (c *reader) wait(ctx context.Context, ready int, ended <-chan error) error {
	for {
		n := c.count()
		if n >= scan || ready > 0 && n >= ready {
			return nil
		}
		pause := patience
		if ready == 0 || n >= ready {
			pause = quiet
		}
		timer := time.NewTimer(pause)
		select {
		case <-c.came:
			timer.Stop()
		case <-timer.C:
			return nil
		case err := <-ended:
			timer.Stop()
			return fmt.Errorf("its consumer was ended: %w; try again", err)
		case <-c.session.Done():
			timer.Stop()
			return errors.New("the session with the broker has ended; try again")
		case <-ctx.Done():
			timer.Stop()
			return fmt.Errorf("%w after %d messages; try again", ctx.Err(), n)
		}
	}
}

// giveBack returns a message to the queue: as it is, or as a new one where the queue would soon drop it.
func (l *letter) giveBack(ctx context.Context, s Session) {
	if l.settled {
		return
	}
	if deliveries(&l.delivery) >= renewedAfter {
		if answer, err := s.Send(renewed(&l.delivery)); err == nil && await(ctx, s, answer) == bus.Confirmed {
			s.Ack(l.delivery.Tag)
			return
		}
	}
	s.Requeue(l.delivery.Tag)
}

// ack takes the message out of task.dead.
func (l *letter) ack(s Session) {
	s.Ack(l.delivery.Tag)
	l.settled = true
}

// renewed returns the message as it is, but for the headers of the broker that cannot be published.
func renewed(d *bus.Delivery) bus.Publication {
	p := bus.Publication{Key: bus.QueueDead, Properties: d.Properties, Body: d.Body}
	p.UserID, p.Expiration = "", 0
	p.Headers = make(map[string]any)
	for _, name := range []string{messages.HeaderReason, messages.HeaderReasonCode, messages.HeaderSourceQueue,
		messages.HeaderTask, messages.HeaderTried,
		messages.HeaderDeathReason, messages.HeaderDeathQueue, messages.HeaderTraceParent, messages.HeaderTraceState} {
		if v := messages.TextHeader(d.Headers, name); v != "" {
			p.Headers[name] = v
		}
	}
	return p
}

func deliveries(d *bus.Delivery) int64 {
	n, _ := d.Headers[headerDeliveryCount].(int64)
	return n
}

// await returns the broker's answer, or Unknown when ctx or the session ends before.
func await(ctx context.Context, s Session, answer <-chan bus.Outcome) bus.Outcome {
	select {
	case outcome := <-answer:
		return outcome
	case <-s.Done():
	case <-ctx.Done():
	}
	return bus.Unknown
}
