package amqpbus

import (
	"context"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/rs/zerolog"

	"taskbus/coordinator/bus"
)

// publishers are the three of a session, each with a channel of its own: one for what
// must find a queue, one for announcements, one for what is written apart.
//
// RabbitMQ confirms an announcement without a listener at once, and a message to a quorum queue when that
// has it. On one channel an early answer cannot cover an earlier
// message that is still under way, so that every announcement would be answered singly:
// at a task and an announcement each, that costs the broker as much as the announcement
// itself. What is written apart is what others wait for: behind thousands of
// dispatches it would be sent too late.
type publishers struct {
	mandatory, optional, apart *publisher
	closes                     chan *amqp.Error // the end of a channel; more than one may report it
}

// newPublishers makes all; settled is called for one publication at a time.
func newPublishers(window int, settled func(uint64, bus.Outcome), fail func(error)) publishers {
	var one sync.Mutex
	serial := func(token uint64, o bus.Outcome) {
		one.Lock()
		defer one.Unlock()
		settled(token, o)
	}
	p := publishers{
		mandatory: newPublisher(window, serial, fail),
		optional:  newPublisher(window, serial, fail),
		apart:     newPublisher(min(window, bus.WindowApart), serial, fail),
		closes:    make(chan *amqp.Error, 1),
	}
	for _, one := range p.all() {
		one.lost = func(reply *amqp.Error) {
			select {
			case p.closes <- reply:
			default: // the first counts
			}
		}
	}
	return p
}

func (p publishers) all() [3]*publisher { return [3]*publisher{p.mandatory, p.optional, p.apart} }

// open gives each its channel.
func (p publishers) open(l *link, e bus.Edge, log zerolog.Logger) error {
	for _, one := range p.all() {
		one.edge, one.open = e, l.confirming
		one.renewed = func() {
			log.Info().
				Msg(
					"the broker refused a message: publishing goes on with another channel, in case it refuses the channel rather " +
						"than the message")
		}
		channel, err := one.open()
		if err != nil {
			return err
		}
		one.attach(channel)
	}
	return nil
}

// confirming opens a channel in confirm mode.
func (l *link) confirming() (*amqp.Channel, error) {
	channel, err := l.channel()
	if err == nil {
		err = l.within("switch on publisher confirms", func() error { return channel.Confirm(false) })
	}
	return channel, err
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
