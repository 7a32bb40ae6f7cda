package amqpbus

import (
	"context"
	"errors"
	"fmt"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"taskbus/coordinator/bus"
)

// Clear implements [bus.Clearer].
func (b *Bus) Clear(ctx context.Context, t bus.Topology) (removed int, err error) {
	target, err := parseTarget(b.cfg.URL)
	if err != nil {
		return 0, err
	}
	l, err := b.dial(ctx, target, "publish", "taskbus-clear", func(bool, string) {})
	if err != nil {
		return 0, err
	}
	defer func() { l.close(time.Now().Add(b.cfg.CloseTimeout)) }()
	defer l.cutWith(ctx)()
	// A lock that is held can be looked at only by its owner; one that is not does not exist.
	if err := l.once("look for a coordinator", func(ch *amqp.Channel) error {
		_, err := ch.QueueDeclarePassive(bus.QueueLeader, false, false, true, false, nil)
		return err
	}); refusal(err, amqp.NotFound) == nil {
		if err == nil || refusal(err, amqp.ResourceLocked) != nil {
			return 0, bus.ErrInUse
		}
		return 0, explain(target, "look for a coordinator", err)
	}
	for _, q := range t.Queues {
		doing := fmt.Sprintf("delete queue %q", q.Name)
		err := l.once(doing, func(ch *amqp.Channel) error {
			if _, err := ch.QueueDeclarePassive(q.Name, true, false, false, false, nil); err != nil {
				return err // a queue that is not there can be deleted, too, and would be counted
			}
			_, err := ch.QueueDelete(q.Name, false, false, false)
			return err
		})
		switch {
		case refusal(err, amqp.NotFound) != nil:
		case err != nil:
			return removed, explain(target, doing, err)
		default:
			removed++
		}
	}
	for _, x := range t.Exchanges {
		doing := fmt.Sprintf("delete exchange %q", x.Name)
		if err := l.once(doing, func(ch *amqp.Channel) error { return ch.ExchangeDelete(x.Name, false, false) }); err != nil {
			return removed, explain(target, doing, err)
		}
	}
	return removed, nil
}

// once makes requests on a channel of their own, which a refusal closes.
func (l *link) once(doing string, request func(*amqp.Channel) error) error {
	ch, err := l.channel()
	if err != nil {
		return err
	}
	if err = l.within(doing, func() error { return request(ch) }); err != nil {
		return err
	}
	if err = l.within("close a channel", ch.Close); errors.Is(err, amqp.ErrClosed) {
		err = nil
	}
	return err
}
