package amqpbus

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"taskbus/coordinator/bus"
)

// consumer is one subscription: a channel of its own, one goroutine that hands
// deliveries to the handler and one that sends acknowledgements. After
// Unsubscribe it leaves the session with the last settlement.
type consumer struct {
	session *session
	number  int
	queue   string
	handle  func(bus.Delivery)
	channel *amqp.Channel
	tag     string
	stopped bool // unsubscribed; guarded by session.subscribing
	closes  chan *amqp.Error
	cancels chan string

	acks         *ackTracker
	pace         ackPace       // acknowledge's own until done is closed
	soon         chan struct{} // a flush is wanted within ackDelay
	now          chan struct{} // a flush is wanted at once
	unsubscribed chan struct{} // closed when the broker has ended the consumer as asked
	handedOut    chan struct{} // closed when, after that, Handle has had everything
	done         chan struct{} // closed when the last flush is out
}

// Subscribe implements [bus.Session]. Once begun it is bounded by the request
// time limit, not by ctx: giving up half-way would cost the session.
func (s *session) Subscribe(ctx context.Context, sub bus.Subscription) error {
	if sub.Prefetch <= 0 || sub.Prefetch > math.MaxUint16 || sub.Handle == nil {
		return fmt.Errorf("subscribe to %q: needs a handler and a prefetch of 1 to 65535, got %d", sub.Queue, sub.Prefetch)
	}
	s.subscribing.Lock()
	defer s.subscribing.Unlock()
	if s.isEnding() {
		return bus.ErrClosed
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("subscribe to %q: %w", sub.Queue, err)
	}
	c := &consumer{
		session: s, number: s.lastConsumer + 1, queue: sub.Queue, handle: sub.Handle,
		acks: newAckTracker(),
		soon: make(chan struct{}, 1), now: make(chan struct{}, 1),
		unsubscribed: make(chan struct{}), handedOut: make(chan struct{}), done: make(chan struct{}),
	}
	args := amqp.Table{}
	if s.maybeStream(sub.Queue) {
		args["x-stream-offset"] = streamOffset(sub.From)
	}
	deliveries, err := c.consume(sub, args)
	if refusal(err, amqp.PreconditionFailed) != nil && len(args) > 0 {
		// A queue in place of a stream knows no offset.
		deliveries, err = c.consume(sub, amqp.Table{})
	}
	if err != nil {
		return s.subscribeError(sub.Queue, err)
	}
	s.lastConsumer = c.number
	s.list(func(all []*consumer) []*consumer { return append(all, c) })
	go c.deliver(deliveries)
	go c.acknowledge()
	return nil
}

// list replaces the list of consumers by what change makes of a copy.
func (s *session) list(change func([]*consumer) []*consumer) {
	s.listing.Lock()
	defer s.listing.Unlock()
	all := change(slices.Clone(*s.consumers.Load()))
	s.consumers.Store(&all)
}

func (c *consumer) consume(sub bus.Subscription, args amqp.Table) (<-chan amqp.Delivery, error) {
	link := c.session.consuming
	channel, err := link.channel()
	if err != nil {
		return nil, err
	}
	var deliveries <-chan amqp.Delivery
	tag := fmt.Sprintf("taskbus-%s-%d-%d", sub.Queue, c.session.number, c.number)
	c.tag = tag[:min(len(tag), shortString)]
	c.channel = channel
	c.closes = channel.NotifyClose(make(chan *amqp.Error, 1))
	c.cancels = channel.NotifyCancel(make(chan string, 1))
	err = link.within(fmt.Sprintf("consume %q", sub.Queue), func() (err error) {
		if err = channel.Qos(sub.Prefetch, 0, false); err != nil {
			return err
		}
		deliveries, err = channel.Consume(sub.Queue, c.tag, false, sub.Exclusive, false, false, args)
		return err
	})
	return deliveries, err
}

// Unsubscribe implements [bus.Session]. The channel stays until what was
// delivered on it has been acknowledged on it.
func (s *session) Unsubscribe(_ context.Context, queue string) (bool, error) {
	s.subscribing.Lock()
	defer s.subscribing.Unlock()
	if s.isEnding() {
		return false, bus.ErrClosed
	}
	for _, c := range slices.Backward(*s.consumers.Load()) {
		if c.queue != queue || c.stopped {
			continue
		}
		c.stopped = true
		doing := fmt.Sprintf("stop consuming %q", queue)
		if err := s.consuming.within(doing, func() error { return c.channel.Cancel(c.tag, false) }); err != nil {
			return false, explain(s.target, doing, err)
		}
		close(c.unsubscribed)
		return true, nil
	}
	return false, nil
}

// streamOffset is where reading a stream begins. RabbitMQ takes an interval in
// whole seconds; it is rounded up so that nothing asked for is left out.
func streamOffset(from time.Duration) string {
	if from <= 0 {
		return "next"
	}
	return strconv.FormatInt(int64((from+time.Second-1)/time.Second), 10) + "s"
}

func (s *session) subscribeError(queue string, err error) error {
	doing := fmt.Sprintf("consume %q", queue)
	if refusal(err, amqp.NotFound) != nil {
		return &bus.TopologyError{Object: queue, Reason: "the queue does not exist; create it with: " + applyCommand}
	}
	if reply := refusal(err, amqp.AccessRefused); reply != nil && !inExclusiveUse(reply) {
		return accessFor(s.target, doing, "read", queue, reply)
	}
	return explain(s.target, doing, err)
}

func (c *consumer) deliver(deliveries <-chan amqp.Delivery) {
	for d := range deliveries {
		if c.session.isEnding() {
			// Not handed out: the broker gives it to the next session.
			continue
		}
		c.acks.deliver(d.DeliveryTag)
		c.handle(bus.Delivery{
			Queue: c.queue, Exchange: d.Exchange, RoutingKey: d.RoutingKey, Redelivered: d.Redelivered,
			Tag: bus.Tag{Session: c.session.number, Consumer: c.number, Delivery: d.DeliveryTag},
			Properties: bus.Properties{
				ContentType: d.ContentType, ContentEncoding: d.ContentEncoding, Type: d.Type,
				MessageID: d.MessageId, CorrelationID: d.CorrelationId, ReplyTo: d.ReplyTo,
				AppID: d.AppId, UserID: d.UserId, Expiration: expiration(d.Expiration),
				Timestamp: d.Timestamp, Headers: decodeTable(d.Headers),
			},
			Body: d.Body,
		})
	}
	// Everything has been handed out, the library's buffer included. Whatever
	// else ends the deliveries ends the session as well.
	select {
	case <-c.unsubscribed:
		close(c.handedOut)
	case <-c.session.ending:
	}
}

// expiration reads the property of a delivery; what is no number counts as none.
func expiration(ms string) time.Duration {
	if ms == "" {
		return 0
	}
	n, err := strconv.ParseUint(ms, 10, 32)
	if err != nil {
		return 0
	}
	return time.Duration(n) * time.Millisecond
}

func (c *consumer) wake(w wakeup) {
	var signal chan struct{}
	switch w {
	case wakeSoon:
		signal = c.soon
	case wakeNow:
		signal = c.now
	default:
		return
	}
	select {
	case signal <- struct{}{}:
	default: // one is pending already
	}
}

// acknowledge sends what the tracker says until the session ends or, after
// Unsubscribe, nothing is left to be settled. It reports the end of the channel:
// the deliveries may be stuck behind a slow handler.
func (c *consumer) acknowledge() {
	defer close(c.done)
	var out orders
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	var due time.Time // when the timer fires; zero: nothing waits
	arm := func(after time.Duration) {
		if at := time.Now().Add(after); due.IsZero() || at.Before(due) {
			due = at
			timer.Reset(after)
		}
	}
	flush := func(all bool) {
		due = time.Time{}
		if again := c.acks.take(time.Now(), all, &out); again > 0 {
			arm(again)
		}
		c.sendAcks(&out)
	}
	handedOut, leaving := c.handedOut, false
	var over <-chan time.Time
	for {
		select {
		case <-c.soon:
			arm(ackDelay)
		case <-c.now:
			flush(false)
		case <-timer.C:
			flush(false)
		case tag := <-c.cancels:
			if tag != "" {
				c.session.fail(fmt.Errorf("the broker cancelled the consumer of %q: the queue was deleted or its leader is not available", c.queue))
			}
			c.cancels = nil
		case reply := <-c.closes:
			if err := c.lost(reply); err != nil {
				c.session.fail(err)
			}
			c.closes = nil
		case <-handedOut:
			handedOut, leaving = nil, true
		case <-over:
			c.leave()
			return
		case <-c.session.flushing:
			flush(true)
			return
		}
		if leaving && over == nil && c.acks.idle() {
			over = time.After(lingerAfterAcks) // idle for good: no delivery comes any more
		}
	}
}

// leave closes the channel of a consumer that has nothing left to do, which also
// gives back what the broker sent after it had been told to stop and the library
// dropped. Later acknowledgements find no consumer.
func (c *consumer) leave() {
	// An error is the end of the connection, which is the session's to tell.
	_ = c.session.consuming.within(fmt.Sprintf("close the channel that consumed %q", c.queue), c.channel.Close)
	select {
	case reply := <-c.closes: // the broker may have been first
		if err := c.lost(reply); err != nil {
			c.session.fail(err)
		}
	default:
	}
	c.session.list(func(all []*consumer) []*consumer {
		return slices.DeleteFunc(all, func(other *consumer) bool { return other == c })
	})
}

// lost explains the end of the channel. The end of the whole connection is the
// session's to tell, and gives nil.
func (c *consumer) lost(reply *amqp.Error) error {
	if reply == nil || !reply.Server || c.session.consuming.conn.IsClosed() {
		return nil
	}
	return explain(c.session.target, fmt.Sprintf("the channel that consumes %q was closed", c.queue), reply)
}

// sendAcks fails only when the channel is closed, which ends the session anyway.
func (c *consumer) sendAcks(out *orders) {
	c.pace.sent(time.Now(), out.frames())
	for _, tag := range out.reject {
		if c.channel.Reject(tag, false) != nil {
			return
		}
	}
	for _, tag := range out.single {
		if c.channel.Ack(tag, false) != nil {
			return
		}
	}
	if out.upTo != 0 {
		_ = c.channel.Ack(out.upTo, true)
	}
}

// Ack implements [bus.Session].
func (s *session) Ack(tag bus.Tag) {
	if c := s.owner(tag); c != nil {
		c.wake(c.acks.ack(tag.Delivery))
	}
}

// Reject implements [bus.Session].
func (s *session) Reject(tag bus.Tag) {
	if c := s.owner(tag); c != nil {
		c.wake(c.acks.reject(tag.Delivery))
	}
}

// owner is the consumer that a tag belongs to; nil for a tag of another session,
// and for one of a consumer that has left. A delivery tag that went to another
// channel would settle a different task there.
func (s *session) owner(tag bus.Tag) *consumer {
	if tag.Session != s.number {
		s.stale.Add(1)
		return nil
	}
	all := *s.consumers.Load()
	at, found := slices.BinarySearchFunc(all, tag.Consumer, func(c *consumer, number int) int { return c.number - number })
	if !found {
		return nil
	}
	return all[at]
}
