package amqpbus

import (
	"context"
	"errors"
	"fmt"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// Permission is one of RabbitMQ's three.
type Permission string

// The permissions.
const (
	Configure Permission = "configure"
	Write     Permission = "write"
	Read      Permission = "read"
)

// Access is what a user may want to do with one object of the broker.
type Access struct {
	Permission Permission
	// Exchange reports that the object is an exchange, not a queue. Publishing goes
	// to exchanges and reading from queues: writing to a queue and reading from an
	// exchange are not asked for.
	Exchange bool
	Object   string // "" is the default exchange
}

// Grant is the answer to whether a user has access.
type Grant uint8

// The answers.
const (
	Unknown Grant = iota // the broker answers in a way that says nothing about it
	Granted
	Denied
	Missing // there is no such object; for Read and Write only
)

// String is the answer in a word.
func (g Grant) String() string { return [...]string{"unknown", "granted", "denied", "missing"}[g] }

// probeTime bounds the wait for the broker's answer to a publication that it refuses.
const probeTime = 5 * time.Second

// Probe finds out what the user of this Bus may do, without doing it: RabbitMQ looks at
// permissions first and at the request second, so that each request carries something
// that no broker accepts, and is refused for the one reason or for the other. Nothing
// is declared, published or consumed. Each refusal leaves a line in the broker's log.
//
// The answers are in the order of the questions. An error is one of the connection.
func (b *Bus) Probe(ctx context.Context, name string, want []Access) ([]Grant, error) {
	t, err := parseTarget(b.cfg.URL)
	if err != nil {
		return nil, err
	}
	l, err := b.dial(ctx, t, "probe", name, func(bool, string) {})
	if err != nil {
		return nil, err
	}
	stop := l.cutWith(ctx)
	defer stop()
	defer func() { l.close(time.Now().Add(b.cfg.CloseTimeout)) }()
	answers := make([]Grant, len(want))
	for i, a := range want {
		if answers[i], err = probe(l, a); err != nil {
			return nil, explain(t, fmt.Sprintf("ask for the %s permission on %q", a.Permission, a.Object), err)
		}
	}
	return answers, nil
}

// probe makes one request that cannot succeed, on a channel of its own: its refusal is
// the end of that.
func probe(l *link, a Access) (Grant, error) {
	ch, err := l.channel()
	if err != nil {
		return Unknown, err
	}
	switch {
	case a.Permission == Write:
		err = refusedPublication(ch, a.Object)
	case a.Permission == Read:
		err = l.within("consume", func() error {
			// A priority is a number.
			_, err := ch.Consume(a.Object, "", false, false, false, false, amqp.Table{"x-priority": "none"})
			return err
		})
	case a.Exchange:
		err = l.within("declare", func() error {
			// The name of an exchange is a text.
			return ch.ExchangeDeclare(a.Object, "topic", true, false, false, false, amqp.Table{"alternate-exchange": int32(1)})
		})
	default:
		err = l.within("declare", func() error {
			// A time is a number.
			_, err := ch.QueueDeclare(a.Object, true, false, false, false, amqp.Table{"x-expires": "never"})
			return err
		})
	}
	var reply *amqp.Error
	switch {
	case err == nil:
		return Granted, l.within("close a channel", ch.Close)
	case !errors.As(err, &reply) || !reply.Server || l.conn.IsClosed():
		return Unknown, err
	case reply.Code == amqp.AccessRefused && !inUse(reply):
		return Denied, nil
	case reply.Code == amqp.NotFound:
		return Missing, nil
	case reply.Code == amqp.PreconditionFailed:
		return Granted, nil
	}
	return Unknown, nil
}

// refusedPublication publishes to an exchange what no broker takes, and gives its
// refusal.
func refusedPublication(ch *amqp.Channel, exchange string) error {
	closed := ch.NotifyClose(make(chan *amqp.Error, 1))
	// A time is a number here, too.
	err := ch.PublishWithContext(context.Background(), exchange, "taskbus.nowhere", true, false,
		amqp.Publishing{Expiration: "never"})
	if err != nil {
		return err
	}
	late := time.NewTimer(probeTime)
	defer late.Stop()
	select {
	case reply := <-closed:
		if reply == nil {
			return errors.New("the channel was closed without a reason")
		}
		return reply
	case <-late.C:
		return fmt.Errorf("no answer within %s", probeTime)
	}
}
