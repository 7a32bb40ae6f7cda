package brokertest

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// patience is how long a broker on the same machine may take for anything.
const patience = 20 * time.Second

// QueueInfo is a queue as it is at this moment.
type QueueInfo struct {
	Exists           bool
	Ready, Consumers int
	// Type is "classic", "quorum" or "stream".
	Type string
	// Arguments it was declared with.
	Arguments map[string]any
}

// QueueInfo looks at a queue. One that does not exist is an answer, not a failure.
func (b Broker) QueueInfo(t testing.TB, name string) QueueInfo {
	t.Helper()
	info := b.look(t, name)
	if info.Exists {
		var answer struct {
			Type      string         `json:"type"`
			Arguments map[string]any `json:"arguments"`
		}
		b.api.must(t, "GET", nil, &answer, "queues", b.VHost, name)
		info.Type, info.Arguments = answer.Type, answer.Arguments
	}
	return info
}

// Ready is how many messages are ready in a queue at this moment; 0 if it does not exist.
// It is for looking again and again: in a virtual host of [Vhost] or [Broker.NewVhost] it
// costs one frame.
func (b Broker) Ready(t testing.TB, name string) int {
	t.Helper()
	return b.look(t, name).Ready
}

// look is QueueInfo without the type and the arguments.
func (b Broker) look(t testing.TB, name string) (info QueueInfo) {
	t.Helper()
	if b.lookout == nil {
		b.withChannel(t, func(ch *amqp.Channel) {
			var err error
			if info, err = queueCounts(ch, name); err != nil {
				t.Fatalf("look at the queue %s: %v", name, err)
			}
		})
		return info
	}
	info, err := b.lookout.look(b, t, name)
	if err != nil {
		t.Fatalf("look at the queue %s: %v", name, err)
	}
	return info
}

// queueCounts says what a passive declaration says. The channel is closed after a queue
// that does not exist.
func queueCounts(ch *amqp.Channel, name string) (QueueInfo, error) {
	q, err := ch.QueueDeclarePassive(name, true, false, false, false, nil)
	var refusal *amqp.Error
	switch {
	case errors.As(err, &refusal) && refusal.Code == amqp.NotFound:
		return QueueInfo{}, nil
	case err != nil:
		return QueueInfo{}, err
	default:
		return QueueInfo{Exists: true, Ready: q.Messages, Consumers: q.Consumers}, nil
	}
}

// lookout is a connection that stays open for looking at queues: a new one for each look
// costs the broker far more than the look.
type lookout struct {
	mu      sync.Mutex
	conn    *amqp.Connection
	channel *amqp.Channel
}

// look connects again once when the connection has been lost: what closes connections is
// part of many tests.
func (l *lookout) look(b Broker, t testing.TB, name string) (info QueueInfo, err error) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	for range 2 {
		if l.channel == nil {
			if l.conn == nil || l.conn.IsClosed() {
				l.conn = b.Dial(t)
			}
			if l.channel, err = l.conn.Channel(); err != nil {
				l.conn, l.channel = nil, nil
				continue
			}
		}
		if info, err = queueCounts(l.channel, name); err != nil {
			l.conn, l.channel = nil, nil
			continue
		}
		if !info.Exists {
			l.channel = nil // closed with the answer
		}
		return info, nil
	}
	return info, err
}

func (l *lookout) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conn != nil {
		_ = l.conn.CloseDeadline(time.Now().Add(patience)) // a fault may have closed it
	}
}

// Publish sends one persistent message and waits for the broker's confirm; it
// fails the test if no queue took it. Exchange "" is the default exchange.
func (b Broker) Publish(t testing.TB, exchange, key string, msg amqp.Publishing) {
	t.Helper()
	b.PublishAll(t, exchange, key, []amqp.Publishing{msg})
}

// PublishAll sends the messages in order over one channel, as Publish does.
func (b Broker) PublishAll(t testing.TB, exchange, key string, msgs []amqp.Publishing) {
	t.Helper()
	b.withChannel(t, func(ch *amqp.Channel) {
		if err := ch.Confirm(false); err != nil {
			t.Fatalf("switch confirms on: %v", err)
		}
		returned := ch.NotifyReturn(make(chan amqp.Return, len(msgs)))
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		confirms := make([]*amqp.DeferredConfirmation, len(msgs))
		for i, msg := range msgs {
			msg.DeliveryMode = amqp.Persistent
			var err error
			if confirms[i], err = ch.PublishWithDeferredConfirmWithContext(ctx, exchange, key, true, false, msg); err != nil {
				t.Fatalf("publish message %d to %q with key %q: %v", i, exchange, key, err)
			}
		}
		for i, confirm := range confirms {
			if ok, err := confirm.WaitContext(ctx); err != nil || !ok {
				t.Fatalf("message %d to %q with key %q was not confirmed (acked %t): %v", i, exchange, key, ok, err)
			}
		}
		if n := len(returned); n > 0 {
			t.Fatalf("%d of %d messages to %q with key %q reached no queue", n, len(msgs), exchange, key)
		}
	})
}

// Get takes exactly n messages off a queue, waiting for them if need be, and
// fails the test when fewer come. Messages beyond n are left untouched.
func (b Broker) Get(t testing.TB, queue string, n int) []amqp.Delivery {
	t.Helper()
	return b.take(t, queue, n, nil)
}

// ReadStream reads the first n messages of a stream, waiting for them if need
// be. Reading takes nothing off a stream.
func (b Broker) ReadStream(t testing.TB, stream string, n int) []amqp.Delivery {
	t.Helper()
	return b.take(t, stream, n, amqp.Table{"x-stream-offset": "first"})
}

// Drain takes what is ready in a queue now; it does not wait for more.
func (b Broker) Drain(t testing.TB, queue string) []amqp.Delivery {
	t.Helper()
	var got []amqp.Delivery
	b.withChannel(t, func(ch *amqp.Channel) {
		for {
			d, ok, err := ch.Get(queue, true)
			if err != nil {
				t.Fatalf("get from %s: %v", queue, err)
			}
			if !ok {
				return
			}
			got = append(got, d)
		}
	})
	return got
}

func (b Broker) take(t testing.TB, queue string, n int, args amqp.Table) []amqp.Delivery {
	t.Helper()
	const consumer = "brokertest"
	got := make([]amqp.Delivery, 0, n)
	if n == 0 {
		return got
	}
	b.withChannel(t, func(ch *amqp.Channel) {
		// With a prefetch of n and no acknowledgement before the consumer is
		// cancelled, the broker hands out n messages and not one more.
		if err := ch.Qos(n, 0, false); err != nil {
			t.Fatalf("set the prefetch: %v", err)
		}
		deliveries, err := ch.Consume(queue, consumer, false, false, false, false, args)
		if err != nil {
			t.Fatalf("consume %s: %v", queue, err)
		}
		timeout := time.NewTimer(patience)
		defer timeout.Stop()
		for len(got) < n {
			select {
			case d, ok := <-deliveries:
				if !ok {
					t.Fatalf("the consumer of %s was cancelled after %d of %d messages", queue, len(got), n)
				}
				got = append(got, d)
			case <-timeout.C:
				t.Fatalf("%s gave %d of %d messages within %v", queue, len(got), n, patience)
			}
		}
		if err := ch.Cancel(consumer, false); err != nil {
			t.Fatalf("cancel the consumer of %s: %v", queue, err)
		}
		if err := ch.Ack(got[n-1].DeliveryTag, true); err != nil {
			t.Fatalf("acknowledge %d messages of %s: %v", n, queue, err)
		}
	})
	return got
}

// withChannel runs f on a connection of its own, so that no fault a test causes
// can reach the next call.
func (b Broker) withChannel(t testing.TB, f func(*amqp.Channel)) {
	t.Helper()
	conn := b.Dial(t)
	defer conn.CloseDeadline(time.Now().Add(patience))
	ch, err := conn.Channel()
	if err != nil {
		t.Fatalf("open a channel: %v", err)
	}
	f(ch)
}

// Dial opens a bare connection in the virtual host as the broker's user. The
// caller closes it.
func (b Broker) Dial(t testing.TB) *amqp.Connection {
	t.Helper()
	conn, err := amqp.Dial(b.URL)
	if err != nil {
		var refusal *amqp.Error
		if errors.As(err, &refusal) {
			t.Fatalf("connect to the virtual host %s: %v", b.VHost, refusal)
		}
		// Other errors may quote the URL with its password.
		t.Fatalf("connect to the virtual host %s failed (%T); does the broker run? scripts/broker.sh status", b.VHost, err)
	}
	return conn
}
