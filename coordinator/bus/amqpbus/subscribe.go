package amqpbus

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"taskbus/coordinator/bus"
)

// Subscribe implements [bus.Session]. Once begun it is bounded by the request
// time limit, not by ctx: giving up half-way would cost the session.
func (s *session) Subscribe(ctx context.Context, sub bus.Subscription) error {
	if sub.Prefetch <= 0 || sub.Prefetch > math.MaxUint16 || sub.Handle == nil {
		return fmt.Errorf("subscribe to %q: needs a handler and a prefetch of 1 to 65535, got %d", sub.Queue, sub.Prefetch)
	}
	if s.isEnding() {
		return bus.ErrClosed
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("subscribe to %q: %w", sub.Queue, err)
	}
	// Without an answer the session would end, which can do without this queue. Neither its end nor other queues wait for
	// the answer. A stream is not asked: it has no first message to take, and the broker would close the connection.
	if sub.OnEnded != nil && sub.From == (bus.Position{}) && !s.isStream(sub.Queue) {
		if err := s.topology.answers(ctx, sub.Queue); err != nil {
			return fmt.Errorf("subscribe to %q: %w", sub.Queue, err)
		}
	}
	s.subscribing.RLock()
	defer s.subscribing.RUnlock()
	if s.isEnding() {
		return bus.ErrClosed
	}
	c := &consumer{
		session: s, queue: sub.Queue, mayBeStream: s.mayBeStream(sub.Queue), handle: sub.Handle, onEnded: sub.OnEnded,
		soon: make(chan struct{}, 1), now: make(chan struct{}, 1),
		unsubscribed: make(chan struct{}), handedOut: make(chan struct{}), done: make(chan struct{}),
	}
	deliveries, err := s.begin(c, s.consumeArguments(sub),
		func(args amqp.Table) (<-chan amqp.Delivery, error) { return c.consume(sub, args) })
	if err != nil {
		return s.subscribeError(sub, err)
	}
	if c.mayBeStream && (sub.From != bus.Position{} || s.isStream(sub.Queue)) {
		c.acks, c.ackDelay = newAckTracker(max(1, sub.Prefetch/streamAckShare)), streamAckDelay
	} else {
		c.acks, c.ackDelay = newAckTracker(ackBatch), ackDelay
	}
	s.list(func(all []*consumer) []*consumer {
		s.lastConsumer++
		c.number = s.lastConsumer
		return append(all, c)
	})
	go c.deliver(deliveries)
	go c.acknowledge()
	return nil
}

// begin asks for a consumer with the first of these arguments that is not refused.
func (s *session) begin(c *consumer, tries []amqp.Table, consume func(amqp.Table) (<-chan amqp.Delivery, error)) (
	deliveries <-chan amqp.Delivery, err error) {
	patience := time.NewTimer(replicaPatience)
	defer patience.Stop()
	for _, args := range tries {
		for deliveries, err = consume(args); withoutReplica(err); deliveries, err = consume(args) {
			// It is a stream. With other arguments, and its replica there a moment later, reading would
			// begin with what comes next and pass over all that is there.
			select {
			case <-time.After(replicaPause):
			case <-patience.C:
				return nil, err
			case <-s.ending:
				return nil, err
			}
		}
		if refusal(err, amqp.PreconditionFailed) == nil {
			break
		}
		if args[streamOffsetArg] != nil {
			c.mayBeStream = false
		}
	}
	return deliveries, err
}

// A stream is read from the replica of the node that is asked. For a moment after the stream was declared, or the
// node came back, that node has none.
const (
	replicaPatience = 5 * time.Second
	replicaPause    = 100 * time.Millisecond
)

// withoutReplica reports whether the node that was asked has no replica of the stream; the text of the refusal
// is all that distinguishes it.
func withoutReplica(err error) bool {
	reply := refusal(err, amqp.PreconditionFailed)
	return reply != nil && strings.Contains(reply.Reason, "replica on the local node")
}

// consumeArguments are what to ask for, and what instead if that is refused: a
// stream knows no priority, and a queue in place of a stream no offset.
func (s *session) consumeArguments(sub bus.Subscription) []amqp.Table {
	var tries []amqp.Table
	if sub.From != (bus.Position{}) && s.mayBeStream(sub.Queue) {
		tries = append(tries, amqp.Table{streamOffsetArg: streamOffset(sub.From)})
	}
	if sub.Priority != 0 {
		tries = append(tries, amqp.Table{"x-priority": int64(sub.Priority)})
	}
	return append(tries, amqp.Table{}) // of a stream: only what comes next
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
	tag := fmt.Sprintf("taskbus-%s-%d-%d", sub.Queue, c.session.number, c.session.tags.Add(1))
	c.tag = tag[:min(len(tag), bus.ShortString)]
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
		if c.queue != queue || !c.fate.CompareAndSwap(fateRunning, fateUnsubscribed) {
			continue
		}
		doing := fmt.Sprintf("stop consuming %q", queue)
		err := s.consuming.within(doing, func() error { return c.channel.Cancel(c.tag, false) })
		if err == nil {
			close(c.unsubscribed)
			return true, nil
		}
		if c.onEnded == nil || !c.channel.IsClosed() || s.consuming.conn.IsClosed() {
			return false, explain(s.target, doing, err)
		}
		// The broker closed its channel first: it leaves by itself.
	}
	return false, nil
}

// streamOffsetArg is both the argument that says where reading a stream begins and
// the header that says where in it a message is.
const streamOffsetArg = "x-stream-offset"

// streamOffset is a position in RabbitMQ's terms. It takes an interval in whole
// seconds, which is rounded up so that nothing asked for is left out.
func streamOffset(from bus.Position) any {
	switch from.Kind() {
	case bus.PositionFirst:
		return "first"
	case bus.PositionLast:
		return "last"
	case bus.PositionAt:
		return from.Offset()
	case bus.PositionAgo:
		return strconv.FormatInt(int64((from.Ago()+time.Second-1)/time.Second), 10) + "s"
	case bus.PositionSince:
		return from.Since() // which is sent in whole seconds
	default:
		return "next"
	}
}

func (s *session) subscribeError(sub bus.Subscription, err error) error {
	doing := fmt.Sprintf("consume %q", sub.Queue)
	if refusal(err, amqp.NotFound) != nil {
		if sub.OnEnded != nil {
			return fmt.Errorf("%s: %w", doing, bus.ErrNoQueue)
		}
		if s.topology.matches(sub.Queue) {
			return s.topology.missing(sub.Queue)
		}
		return missing("queue", sub.Queue)
	}
	if reply := refusal(err, amqp.AccessRefused); reply != nil && !inUse(reply) {
		return accessFor(s.target, doing, "read", sub.Queue, reply)
	}
	err = explain(s.target, doing, err)
	if sub.OnEnded != nil && errors.Is(err, bus.ErrInUse) {
		return fmt.Errorf("%w: %w", bus.ErrAccess, err)
	}
	return err
}
