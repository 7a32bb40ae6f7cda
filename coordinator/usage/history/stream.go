package history

import (
	"context"
	"errors"
	"fmt"
	"time"

	"taskbus/coordinator/bus"
)

// prefetch is how many messages of the journal are on their way at most.
const prefetch = 200

// errEnded: the broker gives no more of the journal: it was deleted, most likely.
var errEnded = errors.New("the broker ended it")

// errStop ends reading without a fault.
var errStop = errors.New("enough")

// read hands the messages of the journal from a position on to take, and calls idle when
// none has come for a while, until one of them has an error, or ctx or the session ends. idle is
// asked how long the next while is.
func read(ctx context.Context, b bus.Bus, name string, from bus.Position, take func(bus.Delivery) error,
	idle func() (time.Duration, error)) error {
	session, err := b.Open(ctx, bus.SessionSpec{Name: name, Topology: bus.Topology{Mode: bus.Off}})
	if err != nil {
		return fmt.Errorf("connect to the broker: %w", err)
	}
	defer func() {
		// Nothing was published: there is nothing to wait for.
		ended, cancel := context.WithCancel(context.WithoutCancel(ctx))
		cancel()
		_ = session.Close(ended)
	}()
	came, ended, stopped := make(chan bus.Delivery), make(chan error, 1), make(chan struct{})
	defer close(stopped)
	err = session.Subscribe(ctx, bus.Subscription{
		Queue: bus.StreamJournal, Prefetch: prefetch, From: from,
		OnEnded: func(err error) { ended <- err },
		Handle: func(d bus.Delivery) {
			select {
			case came <- d:
			case <-stopped:
			}
		},
	})
	if err != nil {
		return fmt.Errorf("read %s: %w", bus.StreamJournal, err)
	}
	wait, err := idle()
	if err != nil {
		return err
	}
	quiet := time.NewTimer(wait)
	defer quiet.Stop()
	for {
		select {
		case d := <-came:
			session.Ack(d.Tag)
			if d.Offset < 0 {
				return fmt.Errorf("read %s: it is a queue and no stream", bus.StreamJournal)
			}
			err = take(d)
		case <-quiet.C:
			err = nil
		case err := <-ended:
			return fmt.Errorf("read %s: %w: %w", bus.StreamJournal, errEnded, err)
		case <-session.Done():
			return errors.Join(bus.ErrClosed, session.Err())
		case <-ctx.Done():
			return ctx.Err()
		}
		if err != nil {
			return err
		}
		if wait, err = idle(); err != nil {
			return err
		}
		quiet.Reset(wait)
	}
}
