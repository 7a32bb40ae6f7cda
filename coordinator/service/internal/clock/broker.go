package clock

import (
	"context"
	"fmt"
	"time"

	"taskbus/coordinator/bus"
)

// A coordinator with a wrong clock would begin periods of budgets that have not come, or go back to
// those that are over. The broker has a clock of its own, by which it stores the messages of streams, and
// agents say in their heartbeats what time it is. Where both contradict this machine's it does not lead.
// Of queues: classic the broker's clock cannot be read: agent.status is no stream there.

const (
	// slack is how far the clocks may be apart: budgets wait for a time that is less ahead (see
	// package fairshare).
	slack = 10 * time.Minute
	// Period is between two comparisons while this coordinator leads; its clock gains or loses
	// an eighth at most when the time of day is set (see Steady).
	Period = 10 * time.Minute
	// within is for one comparison; what cannot be found out by then is taken for no contradiction.
	within = 2 * time.Second
	// closesWithin is for the session by which it is made to close.
	closesWithin = time.Second
	// markPeriod is between two marks, until one is read.
	markPeriod = 50 * time.Millisecond
)

// Offset returns how far the broker's clock is ahead of ours (behind: negative); 0 where it is not
// farther than the slack, or is not known. It puts marks into agent.status, by a session of its own.
func Offset(ctx context.Context, b bus.Bus, now func() time.Time, mark func() bus.Publication) time.Duration {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	s, err := b.Open(ctx, bus.SessionSpec{
		Name: "taskbus-clock", Topology: bus.Topology{Mode: bus.Off}, OnSettled: func(uint64, bus.Outcome) {},
	})
	if err != nil {
		return 0
	}
	defer func() {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), closesWithin)
		defer cancel()
		_ = s.Close(closing) // nothing depends on a goodbye
	}()
	last, err := firstStored(ctx, s, bus.Position{}, mark)
	if err != nil {
		return 0
	}
	offset, ok, err := bus.ClockOffset(now(), slack, func(t time.Time) (bool, error) {
		first, err := firstStored(ctx, s, bus.Since(t), mark)
		return first <= last, err
	})
	if !ok || err != nil {
		return 0
	}
	return offset
}

// firstStored returns the offset of the first message in agent.status from a position on. It puts marks there
// until one comes.
func firstStored(ctx context.Context, s bus.Session, from bus.Position, mark func() bus.Publication) (int64, error) {
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
		if err := s.Publish(mark()); err != nil {
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

// Judge says which clock is wrong: ours, if the broker's is ahead by offset and most agents do not take our part.
// nearer is how many of the agents that were heard have a clock nearer to the broker's.
func Judge(offset time.Duration, heard, nearer int) (brokers string, ours error) {
	where := "behind"
	if offset < 0 {
		where = "ahead of"
	}
	what := fmt.Sprintf(
		"this machine's clock is %s the broker's by about %s, and the heartbeats of %d of %d agents agree with the broker's",
		where, offset.Abs().Round(time.Minute), nearer, heard)
	if 2*nearer < heard {
		return "the broker's clock is wrong, by those of most agents: " + what + "; set that of the broker", nil
	}
	return "", fmt.Errorf(
		"%s: budgets would change their periods; set the clock (timedatectl, chronyc tracking) and start the coordinator "+
			"again", what)
}
