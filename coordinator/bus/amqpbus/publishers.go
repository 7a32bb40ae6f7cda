package amqpbus

import (
	"context"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"taskbus/coordinator/bus"
)

// publishers are the three of a session, each with a channel of its own: one for what
// must find a queue, one for announcements, one for what is written apart.
//
// RabbitMQ confirms an announcement that nobody listens to at once, and a message to a
// quorum queue when that has it. On one channel an early answer cannot cover an earlier
// message that is still under way, so that every announcement would be answered singly:
// at a task and an announcement each, that costs the broker as much as the announcement
// itself. What is written apart is what others wait for: behind thousands of
// dispatches it would be told too late.
type publishers struct{ mandatory, optional, apart *publisher }

// newPublishers makes all; settled is called for one publication at a time.
func newPublishers(window int, settled func(uint64, bus.Outcome), fail func(error)) publishers {
	var one sync.Mutex
	serial := func(token uint64, o bus.Outcome) {
		one.Lock()
		defer one.Unlock()
		settled(token, o)
	}
	return publishers{
		mandatory: newPublisher(window, serial, fail),
		optional:  newPublisher(window, serial, fail),
		apart:     newPublisher(min(window, bus.WindowApart), serial, fail),
	}
}

func (p publishers) all() [3]*publisher { return [3]*publisher{p.mandatory, p.optional, p.apart} }

// open gives each its channel, in confirm mode.
func (p publishers) open(l *link, e encoder) error {
	for _, one := range p.all() {
		channel, err := l.channel()
		if err == nil {
			err = l.within("switch on publisher confirms", func() error { return channel.Confirm(false) })
		}
		if err != nil {
			return err
		}
		channel.NotifyReturn(one.returns)
		one.channel, one.encoder = channel, e
	}
	return nil
}

func (p publishers) publish(pub *bus.Publication) error {
	switch {
	case pub.Optional:
		return p.optional.publish(pub)
	case pub.Apart:
		return p.apart.publish(pub)
	default:
		return p.mandatory.publish(pub)
	}
}

// closes tells of the end of any channel.
func (p publishers) closes() <-chan *amqp.Error {
	first := make(chan *amqp.Error, len(p.all()))
	for _, one := range p.all() {
		closed := one.channel.NotifyClose(make(chan *amqp.Error, 1))
		go func() { first <- <-closed }() // ends with the connection
	}
	return first
}

// settle answers for every publication; it returns after close, when all are answered.
func (p publishers) settle(gone <-chan struct{}) {
	var settling sync.WaitGroup
	for _, one := range p.all() {
		settling.Go(func() { one.settle(gone) })
	}
	settling.Wait()
}

func (p publishers) watch(limit time.Duration, ended <-chan struct{}) {
	for _, one := range p.all() {
		go one.watch(limit, ended)
	}
}

func (p publishers) block(on bool) {
	for _, one := range p.all() {
		one.block(on)
	}
}

func (p publishers) close() {
	for _, one := range p.all() {
		one.close()
	}
}

// drained waits until all have settled everything, or ctx ends.
func (p publishers) drained(ctx context.Context) error {
	for _, one := range p.all() {
		if err := one.drained(ctx); err != nil {
			return err
		}
	}
	return nil
}
