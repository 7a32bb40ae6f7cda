package amqpbus

import (
	"fmt"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"taskbus/coordinator/bus"
)

// The fates of a consumer. It begins with the first and gets at most one other.
const (
	fateRunning      uint32 = iota
	fateUnsubscribed        // it leaves with the last settlement
	fateEnded               // by the broker: it leaves at once, and onEnded is called
)

// consumer is one subscription: a channel of its own, one goroutine that hands
// deliveries to the handler and one that sends acknowledgements.
type consumer struct {
	session *session
	number  int
	queue   string
	// mayBeStream: nothing says that it is a queue. isStream: its deliveries do say that it is none.
	mayBeStream bool
	isStream    atomic.Bool
	handle      func(bus.Delivery)
	onEnded     func(error) // nil: its end is the session's
	channel     *amqp.Channel
	tag         string
	fate        atomic.Uint32
	reason      error // of fateEnded, else nil; written before done closes
	closes      chan *amqp.Error
	cancels     chan string

	acks         *ackTracker
	ackDelay     time.Duration // how long a settlement may wait for others
	pace         ackPace       // acknowledge's own until done is closed
	soon         chan struct{} // a flush is wanted within ackDelay
	now          chan struct{} // a flush is wanted at once
	unsubscribed chan struct{} // closed when the broker has ended the consumer as asked
	handedOut    chan struct{} // closed when, after that, Handle has had everything
	done         chan struct{} // closed when the last flush is out; unless the session ends, it has left then
}

func (c *consumer) deliver(deliveries <-chan amqp.Delivery) {
	for d := range deliveries {
		if c.session.isEnding() || c.fate.Load() == fateEnded {
			// Not handed out: the broker gives it to another consumer.
			continue
		}
		c.acks.deliver(d.DeliveryTag)
		offset := c.offset(&d)
		if offset >= 0 {
			c.isStream.Store(true)
		}
		c.handle(bus.Delivery{
			Queue: c.queue, Exchange: d.Exchange, RoutingKey: d.RoutingKey, Redelivered: c.session.topology.again(c.queue, &d),
			Offset: offset,
			Tag:    bus.Tag{Session: c.session.number, Consumer: c.number, Delivery: d.DeliveryTag},
			Properties: bus.Properties{
				ContentType: d.ContentType, ContentEncoding: d.ContentEncoding, Type: d.Type,
				MessageID: d.MessageId, CorrelationID: d.CorrelationId, ReplyTo: d.ReplyTo,
				AppID: d.AppId, UserID: d.UserId, Expiration: expiration(d.Expiration),
				Timestamp: d.Timestamp, Headers: decodeTable(d.Headers),
			},
			Body: d.Body,
		})
	}
	// Everything has been handed out, the library's buffer included.
	select {
	case <-c.unsubscribed:
		close(c.handedOut)
	case <-c.done:
		if c.reason != nil && !c.session.isEnding() {
			c.onEnded(c.reason)
		}
	case <-c.session.ending:
	}
}

// offset is the place of a delivery in its stream; -1 in a queue, whatever its
// headers say.
func (c *consumer) offset(d *amqp.Delivery) int64 {
	if c.mayBeStream {
		if offset, ok := d.Headers[streamOffsetArg].(int64); ok {
			return offset
		}
	}
	return -1
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

// acknowledge sends what the tracker says until the session ends, the broker ends
// the consumer or, after Unsubscribe, nothing is left to be settled. It reports
// the end of the channel: the deliveries may be stuck behind a slow handler.
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
			arm(c.ackDelay)
		case <-c.now:
			flush(false)
		case <-timer.C:
			flush(false)
		case tag := <-c.cancels:
			c.cancels = nil
			// One that is being unsubscribed waits for that to be answered.
			if tag != "" && c.end(errCancelled(c.queue)) {
				flush(true)
				c.leave()
				return
			}
		case reply := <-c.closes:
			c.closes = nil
			if err := c.lost(reply); err != nil && (c.end(err) || c.onEnded != nil) {
				c.leave()
				return
			}
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
	// An error is the end of the connection, which the session reports.
	_ = c.session.consuming.within(fmt.Sprintf("close the channel that consumed %q", c.queue), c.channel.Close)
	select {
	case reply := <-c.closes: // the broker may have been first
		if err := c.lost(reply); err != nil && c.onEnded == nil {
			c.session.fail(err)
		}
	default:
	}
	c.session.list(func(all []*consumer) []*consumer {
		return slices.DeleteFunc(all, func(other *consumer) bool { return other == c })
	})
}

// end says that the broker has ended the consumer. It reports whether this has
// decided its fate; if not, the session ends, or the consumer was leaving anyway.
func (c *consumer) end(reason error) bool {
	if c.onEnded == nil {
		c.session.fail(reason)
		return false
	}
	if !c.fate.CompareAndSwap(fateRunning, fateEnded) {
		return false
	}
	c.reason = reason
	return true
}

func errCancelled(queue string) error {
	return fmt.Errorf("the broker cancelled the consumer of %q: the queue was deleted or its leader is not available",
		queue)
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
	// Not basic.reject: a message that is rejected by it RabbitMQ 4.3 delivers as redelivered out of its
	// dead-letter queue, the first time, too. Requeued it is by basic.reject, which counts against the
	// delivery limit on every version.
	for _, tag := range out.reject {
		if c.channel.Nack(tag, false, false) != nil {
			return
		}
	}
	for _, tag := range out.requeue {
		if c.channel.Reject(tag, true) != nil {
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
func (s *session) Ack(tag bus.Tag) { s.settle(tag, (*ackTracker).ack) }

// Reject implements [bus.Session].
func (s *session) Reject(tag bus.Tag) { s.settle(tag, (*ackTracker).reject) }

// Requeue implements [bus.Session].
func (s *session) Requeue(tag bus.Tag) { s.settle(tag, (*ackTracker).requeue) }

// settle has a delivery settled. One of a stream is acknowledged, whatever is said of it: RabbitMQ
// answers a rejection with 540, which closes the connection.
func (s *session) settle(tag bus.Tag, as func(*ackTracker, uint64) wakeup) {
	c := s.owner(tag)
	if c == nil {
		return
	}
	if c.isStream.Load() {
		as = (*ackTracker).ack
	}
	c.wake(as(c.acks, tag.Delivery))
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
