package main

import (
	"errors"
	"fmt"

	amqp "github.com/rabbitmq/amqp091-go"
)

// feedWindow is how many messages of a feed may be unconfirmed.
const feedWindow = 2000

// feed publishes to one queue or stream, in order and as fast as the broker confirms.
// It belongs to one goroutine and must be closed.
type feed struct {
	queue       string
	channel     *amqp.Channel
	unconfirmed chan *amqp.DeferredConfirmation
	failed      chan error
}

func (b *broker) feed(queue string) (*feed, error) {
	channel, err := b.conn.Channel()
	if err != nil {
		return nil, fmt.Errorf("open a channel: %w", err)
	}
	if err := channel.Confirm(false); err != nil {
		return nil, fmt.Errorf("switch on confirms: %w", err)
	}
	f := &feed{queue: queue, channel: channel, unconfirmed: make(chan *amqp.DeferredConfirmation, feedWindow), failed: make(chan error, 1)}
	go func() {
		defer close(f.failed)
		for c := range f.unconfirmed {
			if !c.Wait() {
				f.failed <- fmt.Errorf("the broker did not confirm a message for %s", queue)
				return
			}
		}
	}()
	return f, nil
}

// send publishes one message. After an error nothing more can be sent.
func (f *feed) send(p amqp.Publishing) error {
	c, err := f.channel.PublishWithDeferredConfirm("", f.queue, true, false, p)
	if err != nil {
		return fmt.Errorf("publish to %s: %w", f.queue, err)
	}
	select {
	case f.unconfirmed <- c:
		return nil
	case err := <-f.failed:
		return err
	}
}

// close returns when everything is confirmed.
func (f *feed) close() error {
	close(f.unconfirmed)
	return errors.Join(<-f.failed, f.channel.Close())
}
