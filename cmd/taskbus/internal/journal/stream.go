package journal

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"taskbus/cmd/taskbus/cli"
	"taskbus/coordinator/bus"
	"taskbus/coordinator/journal"
)

// How the journal is read by commands.
const (
	journalPrefetch = 100
	// journalQuiet without a message, after the first: that was the end of the stream.
	// journalEnd bounds the search for it where a leader writes all the time.
	journalQuiet = 300 * time.Millisecond
	journalEnd   = 2 * time.Second
	// journalIdle is how long the broker may say nothing while there is more to read,
	// journalEmpty while it counts no messages: its count is some seconds old.
	journalIdle  = 10 * time.Second
	journalEmpty = 2 * time.Second
)

var errEmpty = errors.New(
	"the journal is empty: no coordinator has written to it yet (journal.enabled in agents.yaml)")

// stream reads the journal over a session of its own, without a lock, and up
// to where the journal ended when the reading began.
type stream struct {
	session bus.Session
	// last is the newest message. Its header may be one that this version does not
	// know.
	last journal.Exported
}

// withStream opens the journal for f and closes it again.
func withStream(ctx context.Context, a *cli.App, f func(context.Context, *stream) error) error {
	env, err := a.Environment()
	if err != nil {
		return err
	}
	ctx, cancel := a.Stoppable(ctx)
	defer cancel()
	where := cli.BrokerAddress(env.RabbitMQURL)
	session, err := a.OpenQuietBus(env).
		Open(ctx, bus.SessionSpec{Name: cli.SessionName("journal"), Topology: bus.Topology{Mode: bus.Off}})
	if err != nil {
		return fmt.Errorf("connect to %s: %w; %s", where, err, a.BrokerAdvice())
	}
	defer func() {
		cancel() // nothing was published: there is nothing to wait for
		_ = session.Close(ctx)
	}()
	s := &stream{session: session}
	if err := s.findEnd(ctx); err != nil {
		return fmt.Errorf("read %s at %s: %w", bus.StreamJournal, where, err)
	}
	return f(ctx, s)
}

// findEnd reads the newest message that there is.
func (s *stream) findEnd(ctx context.Context) error {
	depth, err := s.session.Depth(ctx, bus.StreamJournal)
	switch {
	case errors.Is(err, bus.ErrNoQueue):
		return fmt.Errorf("%w: no coordinator has run there with journal.enabled, or it uses another virtual host", err)
	case err != nil:
		return err
	}
	wait := journalIdle
	if depth.Ready == 0 {
		wait = journalEmpty
	}
	silent := time.NewTimer(wait)
	defer silent.Stop()
	return s.subscribe(ctx, bus.Last(), func(came <-chan bus.Delivery, ended <-chan error) error {
		var over <-chan time.Time // from the first message on
		for {
			select {
			case d := <-came:
				if d.Offset < 0 {
					return errNoStream
				}
				s.session.Ack(d.Tag)
				s.last = journal.Exported{Offset: d.Offset, Body: d.Body}
				if over == nil {
					over = time.After(journalEnd)
				}
				silent.Reset(journalQuiet)
			case <-over:
				return nil
			case <-silent.C:
				switch {
				case over != nil:
					return nil
				case depth.Ready == 0:
					return errEmpty
				}
				return fmt.Errorf("nothing came within %s, though it has messages", wait)
			case err := <-ended:
				return err
			}
		}
	})
}

var errNoStream = errors.New(
	"it is a queue and no stream: nothing was taken out of it, and the journal needs a stream (`taskbus topology " +
		"show`)")

// subscribe consumes the journal from a position while read runs. What came is to be
// acknowledged; ended says when nothing comes any more.
func (s *stream) subscribe(ctx context.Context, from bus.Position,
	read func(came <-chan bus.Delivery, ended <-chan error) error) error {
	came, ended, stopped := make(chan bus.Delivery), make(chan error, 1), make(chan struct{})
	end := func(err error) {
		select {
		case ended <- err:
		default: // it has been said before
		}
	}
	err := s.session.Subscribe(ctx, bus.Subscription{
		Queue: bus.StreamJournal, Prefetch: journalPrefetch, From: from,
		OnEnded: func(err error) { end(fmt.Errorf("the broker ended the reading: %w", err)) },
		Handle: func(d bus.Delivery) {
			select {
			case came <- d:
			case <-stopped:
			}
		},
	})
	if err != nil {
		close(stopped)
		return err
	}
	go func() {
		select {
		case <-ctx.Done():
			end(ctx.Err())
		case <-s.session.Done():
			end(errors.Join(bus.ErrClosed, s.session.Err()))
		case <-stopped:
		}
	}()
	err = read(came, ended)
	close(stopped)
	if _, stopErr := s.session.Unsubscribe(context.WithoutCancel(ctx), bus.StreamJournal); err == nil &&
		stopErr != nil &&
		!errors.Is(stopErr, bus.ErrClosed) {
		err = stopErr
	}
	return err
}

// messages are those from a position up to the last.
func (s *stream) messages(ctx context.Context, from bus.Position) iter.Seq2[journal.Exported, error] {
	return func(yield func(journal.Exported, error) bool) {
		stopped := false
		err := s.subscribe(ctx, from, func(came <-chan bus.Delivery, ended <-chan error) error {
			idle := time.NewTimer(journalIdle)
			defer idle.Stop()
			for count := 0; ; count++ {
				select {
				case d := <-came:
					if d.Offset < 0 {
						return errNoStream
					}
					s.session.Ack(d.Tag)
					if d.Offset <= s.last.Offset && !yield(journal.Exported{Offset: d.Offset, Body: d.Body}, nil) {
						stopped = true
						return nil
					}
					if d.Offset >= s.last.Offset {
						return nil
					}
					idle.Reset(journalIdle)
				case <-idle.C:
					if count == 0 && from.Kind() == bus.PositionAgo {
						return nil // by the broker's clock nothing is so new
					}
					return fmt.Errorf("nothing came within %s, though there is more", journalIdle)
				case err := <-ended:
					return err
				}
			}
		})
		if err != nil && !stopped {
			yield(journal.Exported{}, fmt.Errorf("read %s: %w", bus.StreamJournal, err))
		}
	}
}
