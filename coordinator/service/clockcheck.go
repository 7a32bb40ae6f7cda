package service

import (
	"context"
	"fmt"
	"time"

	"taskbus/coordinator/bus"
	"taskbus/coordinator/engine"
	"taskbus/coordinator/service/internal/intake"
	"taskbus/coordinator/service/internal/journaling"
	"taskbus/coordinator/service/internal/outbox"
)

// A coordinator with a wrong clock would begin periods of budgets that have not come, or go back to
// those that are over. The broker has a clock of its own, by which it stores the messages of streams, and
// agents say in their heartbeats what time it is. Where both contradict this machine's it does not lead.
// Of queues: classic the broker's clock cannot be read: agent.status is no stream there.

const (
	// clockSlack is how far the clocks may be apart: budgets wait for a time that is less ahead (see
	// package fairshare).
	clockSlack = 10 * time.Minute
	// clockPeriod is between two comparisons while this coordinator leads; its clock gains or loses
	// an eighth at most when the time of day is set (see steadyClock).
	clockPeriod = 10 * time.Minute
	// clockTime is for one comparison; what cannot be found out by then is taken for no contradiction.
	clockTime = 2 * time.Second
	// markPeriod is between two marks, until one is read.
	markPeriod = 50 * time.Millisecond
)

// checkClock refuses to lead with a clock that the broker contradicts, if most agents do not take its
// part. It is asked before anything is written by that clock.
func (r *session) checkClock(ctx context.Context) error {
	offset := r.clockOffset(ctx)
	if offset == 0 {
		return nil
	}
	if _, err := r.awaitFence(ctx, r.statuses); err != nil {
		return err
	}
	var heard, nearer int
	err := r.s.loop.query(ctx, func(now time.Time, e *engine.Engine) {
		heard, nearer = e.ReportsNearer(now, now.Add(offset))
	})
	if err != nil {
		return fmt.Errorf("ask the engine for the agents' clocks: %w", err)
	}
	where := "behind"
	if offset < 0 {
		where = "ahead of"
	}
	what := fmt.Sprintf(
		"this machine's clock is %s the broker's by about %s, and the heartbeats of %d of %d agents agree with the broker's",
		where, offset.Abs().Round(time.Minute), nearer, heard)
	if 2*nearer < heard {
		r.s.log.Warn().Msg("the broker's clock is wrong, by those of most agents: " + what + "; set that of the broker")
		return nil
	}
	return fmt.Errorf(
		"%s: budgets would change their periods; set the clock (timedatectl, chronyc tracking) and start the coordinator again", what)
}

// watchClock compares the clocks from time to time.
func (r *session) watchClock() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	r.every(clockPeriod, func() bool {
		err := r.checkClock(ctx)
		if err != nil {
			r.fault(err)
		}
		return err == nil
	})
}

// clockOffset returns how far the broker's clock is ahead of ours (behind: negative); 0 where it is not
// farther than clockSlack, or is not known.
func (r *session) clockOffset(ctx context.Context) time.Duration {
	if r.s.profile() == bus.ProfileClassic {
		return 0
	}
	ctx, cancel := context.WithTimeout(ctx, clockTime)
	defer cancel()
	s, err := r.s.options.Bus.Open(ctx, bus.SessionSpec{
		Name: "taskbus-clock", Topology: bus.Topology{Mode: bus.Off}, OnSettled: func(uint64, bus.Outcome) {},
	})
	if err != nil {
		return 0
	}
	defer func() {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeLeast)
		defer cancel()
		_ = s.Close(closing) // nothing depends on a goodbye
	}()
	mark, err := r.firstStored(ctx, s, bus.Position{})
	if err != nil {
		return 0
	}
	offset, ok, err := bus.ClockOffset(r.s.now(), clockSlack, func(t time.Time) (bool, error) {
		first, err := r.firstStored(ctx, s, bus.Since(t))
		return first <= mark, err
	})
	if !ok || err != nil {
		return 0
	}
	return offset
}

// firstStored returns the offset of the first message in agent.status from a position on. It puts marks there
// until one comes.
func (r *session) firstStored(ctx context.Context, s bus.Session, from bus.Position) (int64, error) {
	first := make(chan int64, 1)
	err := s.Subscribe(ctx, bus.Subscription{Queue: bus.StreamStatus, Prefetch: 1, From: from,
		Handle: func(d bus.Delivery) {
			select {
			case first <- d.Offset:
			default:
			}
		}})
	if err != nil {
		return 0, fmt.Errorf("read %s: %w", bus.StreamStatus, err)
	}
	defer func() { _, _ = s.Unsubscribe(ctx, bus.StreamStatus) }() // the session ends soon
	ticker := time.NewTicker(markPeriod)
	defer ticker.Stop()
	for {
		p := intake.Mark(bus.StreamStatus, journaling.RandomID(), r.s.now())
		p.Token = outbox.Ignored
		if err := s.Publish(p); err != nil {
			return 0, fmt.Errorf("publish a mark to %s: %w", bus.StreamStatus, err)
		}
		select {
		case offset := <-first:
			return offset, nil
		case <-ticker.C:
		case <-s.Done():
			return 0, bus.ErrClosed
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
}
