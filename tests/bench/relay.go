package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	amqp "github.com/rabbitmq/amqp091-go"
)

const (
	relayPrefetch = 2000
	relayAckBatch = 100
)

// sent is a message published and not yet confirmed.
type sent struct {
	confirm *amqp.DeferredConfirmation
	tag     uint64
}

// relay moves every message of its input to the agents' queues in turn,
// persistent, mandatory and confirmed, and acknowledges it after the confirm: as
// good as a plain, careful program gets with the library as it is. It says
// "ready" on standard output once it consumes, and runs until ctx ends.
//
// Publishing and consuming have a connection each, as the library recommends.
// Confirms are pipelined; acknowledgements go out for many at once, and at once
// when nothing else is to be done.
func relay(ctx context.Context, url string, out io.Writer) error {
	publishing, publish, err := dial(url, "relay-publishing")
	if err != nil {
		return err
	}
	consuming, consume, err := dial(url, "relay-consuming")
	if err != nil {
		return errors.Join(err, publishing.Close())
	}
	if err := publish.Confirm(false); err != nil {
		return fmt.Errorf("switch on confirms: %w", err)
	}
	returned := publish.NotifyReturn(make(chan amqp.Return, relayPrefetch))
	if err := consume.Qos(relayPrefetch, 0, false); err != nil {
		return fmt.Errorf("set the prefetch: %w", err)
	}
	deliveries, err := consume.Consume(relayInput, "", false, false, false, false, nil)
	if err != nil {
		return fmt.Errorf("consume %s: %w", relayInput, err)
	}
	if _, err := fmt.Fprintln(out, "ready"); err != nil {
		return fmt.Errorf("say that the relay is ready: %w", err)
	}

	// Never full: the broker sends no more than the prefetch unacknowledged.
	window := make(chan sent, relayPrefetch)
	settled := make(chan error, 1)
	go func() { settled <- settle(consume, window, func(int) error { return nil }) }()
	moved := make(chan error, 1)
	go func() {
		moved <- move(publish, deliveries, window)
		close(window)
	}()
	select {
	case <-ctx.Done():
	case r := <-returned:
		err = fmt.Errorf("the queue %s does not exist", r.RoutingKey)
	case err = <-settled:
	case err = <-moved:
		err = errors.Join(err, errors.New("the broker stopped delivering"))
	}
	return errors.Join(err, consuming.Close(), publishing.Close())
}

// move publishes each delivery until there are no more.
func move(publish *amqp.Channel, deliveries <-chan amqp.Delivery, window chan<- sent) error {
	targets := queues(relayQueue)
	for next := 0; ; next++ {
		d, ok := <-deliveries
		if !ok {
			return nil
		}
		confirm, err := publish.PublishWithDeferredConfirm("", targets[next%len(targets)], true, false, amqp.Publishing{
			DeliveryMode: amqp.Persistent, ContentType: d.ContentType, Type: d.Type, MessageId: d.MessageId,
			CorrelationId: d.CorrelationId, AppId: d.AppId, Timestamp: d.Timestamp, Body: d.Body,
		})
		if err != nil {
			return fmt.Errorf("publish: %w", err)
		}
		window <- sent{confirm, d.DeliveryTag}
	}
}

// settle waits for the confirms, in order, and acknowledges. It tells count how many
// are confirmed.
func settle(consume *amqp.Channel, window <-chan sent, count func(int) error) error {
	var confirmed tide
	var acknowledged uint64 // delivery tag
	flush := func() error {
		if confirmed.upTo == acknowledged {
			return nil
		}
		acknowledged = confirmed.upTo
		return consume.Ack(acknowledged, true)
	}
	for number := 1; ; number++ {
		var s sent
		var ok bool
		select {
		case s, ok = <-window:
		default: // idle
			if err := flush(); err != nil {
				return fmt.Errorf("acknowledge: %w", err)
			}
			s, ok = <-window
		}
		if !ok {
			return flush()
		}
		if !s.confirm.Wait() {
			return errors.New("the broker did not confirm a message")
		}
		if err := count(number); err != nil {
			return fmt.Errorf("tell how many are confirmed: %w", err)
		}
		if confirmed.add(s.tag); confirmed.upTo-acknowledged >= relayAckBatch {
			if err := flush(); err != nil {
				return fmt.Errorf("acknowledge: %w", err)
			}
		}
	}
}

// tide is the highest delivery tag up to which all have been added. Those of a
// channel begin at 1.
type tide struct {
	upTo  uint64
	above map[uint64]struct{} // added, with one missing below
}

func (t *tide) add(tag uint64) {
	if tag != t.upTo+1 {
		if t.above == nil {
			t.above = make(map[uint64]struct{})
		}
		t.above[tag] = struct{}{}
		return
	}
	t.upTo = tag
	for len(t.above) > 0 {
		if _, next := t.above[t.upTo+1]; !next {
			return
		}
		t.upTo++
		delete(t.above, t.upTo)
	}
}

// startRelay runs this program again as the relay.
func startRelay(ctx context.Context, b *bench) (*subject, error) {
	if err := b.broker.declare(append(queues(relayQueue), relayInput)...); err != nil {
		return nil, err
	}
	p, err := b.startRole(ctx, "relay")
	if err != nil {
		return nil, err
	}
	return &subject{process: p}, nil
}
