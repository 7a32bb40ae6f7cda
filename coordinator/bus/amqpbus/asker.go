package amqpbus

import (
	"context"
	"fmt"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"taskbus/coordinator/bus"
)

// asker makes requests over a channel of its own, one at a time. The broker answers most
// refusals by closing the channel; the next request opens another.
type asker struct {
	link    *link
	turn    chan struct{} // has room for the one request that is being made
	channel *amqp.Channel // of the request that has the turn; nil until the first request
}

func newAsker(l *link) *asker { return &asker{link: l, turn: make(chan struct{}, 1)} }

// newLookers are as many as look at queues at a time.
func newLookers(l *link) (all [bus.DepthsAtOnce]*asker) {
	for i := range all {
		all[i] = newAsker(l)
	}
	return all
}

// look is ask for what may be asked for beside other requests: by the first that has nothing to do, so that
// there are no more channels than are needed.
func (t *topology) look(ctx context.Context, doing string, request func(*amqp.Channel) error) error {
	for _, a := range t.lookers {
		select {
		case a.turn <- struct{}{}:
			return a.inItsTurn(ctx, doing, func() error { return a.request(a.link.request, doing, request) })
		default:
		}
	}
	return t.lookers[0].ask(ctx, doing, request)
}

// ask makes one request. A refusal by the broker comes back as *amqp.Error. When
// ctx ends first, the request is not made, or left to finish by itself before any
// other: a caller that no longer waits for a queue's depth must not cost the session.
func (a *asker) ask(ctx context.Context, doing string, request func(*amqp.Channel) error) error {
	return a.askFor(ctx, a.link.request, doing, request)
}

// askFor is ask with a time limit of its own for the answer.
func (a *asker) askFor(ctx context.Context, limit time.Duration, doing string,
	request func(*amqp.Channel) error) error {
	return a.inTurn(ctx, doing, func() error { return a.request(limit, doing, request) })
}

// inTurn does one thing at a time, as ask says.
func (a *asker) inTurn(ctx context.Context, doing string, do func() error) error {
	select {
	case a.turn <- struct{}{}:
	case <-ctx.Done():
		return fmt.Errorf("%s: %w", doing, ctx.Err())
	}
	return a.inItsTurn(ctx, doing, do)
}

// inItsTurn is inTurn once the turn is taken, and ends it.
func (a *asker) inItsTurn(ctx context.Context, doing string, do func() error) error {
	if err := ctx.Err(); err != nil {
		<-a.turn
		return fmt.Errorf("%s: %w", doing, err)
	}
	answer := make(chan error, 1)
	go func() {
		defer func() { <-a.turn }()
		answer <- do()
	}()
	select {
	case err := <-answer:
		return err
	case <-ctx.Done():
		return fmt.Errorf("%s: %w", doing, ctx.Err())
	}
}

func (a *asker) request(limit time.Duration, doing string, request func(*amqp.Channel) error) error {
	if a.channel == nil || a.channel.IsClosed() {
		channel, err := a.link.channel()
		if err != nil {
			return err
		}
		a.channel = channel
	}
	return a.link.withinTime(limit, doing, func() error { return request(a.channel) })
}
