package amqpbus

import (
	"context"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"taskbus/coordinator/bus"
)

// publishers are the two of a session, each with a channel of its own: one for what
// must find a queue, one for announcements. RabbitMQ confirms an announcement that
// nobody listens to at once, and a message to a quorum queue when that has it. On one
// channel an early answer cannot cover an earlier message that is still under way,
// so that every announcement would be answered singly: at a task and an
// announcement each, that costs the broker as much as the announcement itself.
type publishers struct{ mandatory, optional *publisher }

// newPublishers makes both; settled is called for one publication at a time.
func newPublishers(window int, settled func(uint64, bus.Outcome), fail func(error)) publishers {
	var one sync.Mutex
	serial := func(token uint64, o bus.Outcome) {
		one.Lock()
		defer one.Unlock()
		settled(token, o)
	}
	return publishers{newPublisher(window, serial, fail), newPublisher(window, serial, fail)}
}

func (p publishers) both() [2]*publisher { return [2]*publisher{p.mandatory, p.optional} }

// open gives each its channel, in confirm mode.
func (p publishers) open(l *link, e encoder) error {
	for _, one := range p.both() {
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
	if pub.Optional {
		return p.optional.publish(pub)
	}
	return p.mandatory.publish(pub)
}

// closes tells of the end of either channel.
func (p publishers) closes() <-chan *amqp.Error {
	first := make(chan *amqp.Error, 2)
	for _, one := range p.both() {
		closed := one.channel.NotifyClose(make(chan *amqp.Error, 1))
		go func() { first <- <-closed }() // ends with the connection
	}
	return first
}

// settle answers for every publication; it returns after close, when all are answered.
func (p publishers) settle(gone <-chan struct{}) {
	var all sync.WaitGroup
	for _, one := range p.both() {
		all.Go(func() { one.settle(gone) })
	}
	all.Wait()
}

func (p publishers) watch(limit time.Duration, ended <-chan struct{}) {
	for _, one := range p.both() {
		go one.watch(limit, ended)
	}
}

func (p publishers) block(on bool) {
	for _, one := range p.both() {
		one.block(on)
	}
}

func (p publishers) close() {
	for _, one := range p.both() {
		one.close()
	}
}

// drained waits until both have settled everything, or ctx ends.
func (p publishers) drained(ctx context.Context) error {
	for _, one := range p.both() {
		if err := one.drained(ctx); err != nil {
			return err
		}
	}
	return nil
}
