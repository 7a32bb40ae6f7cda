package service

import (
	"context"
	"fmt"
	"time"

	"taskbus/coordinator/bus"
	"taskbus/coordinator/engine"
)

// A coordinator whose clock is ahead by days would begin periods of budgets that have not come.
// The journal alone does not tell: there may have been no leader for so long. But the broker says by
// its own clock how old the last message is, and agents say in their heartbeats what time it is.

const (
	// aheadLeast is how old the journal must be by this machine's clock to be doubted: less is left to
	// the engine, which finds its way back when a right clock leads.
	aheadLeast = 24 * time.Hour
	// aheadWait is how long the broker has to give a message that is younger.
	aheadWait = 2 * time.Second
)

// checkClock refuses to lead with a clock that the broker and most agents contradict. It is asked
// before anything is written by that clock.
func (r *session) checkClock(ctx context.Context) error {
	p := r.ledger.position()
	silent := r.s.now().Sub(p.lastAt)
	if p.lastAt.IsZero() || silent < aheadLeast {
		return nil
	}
	by := silent / 2
	younger, err := r.writtenWithin(ctx, by)
	if err != nil || !younger {
		return err
	}
	if _, err := r.awaitFence(ctx, r.statuses); err != nil {
		return err
	}
	var heard, behind int
	if err := r.s.loop.query(ctx, func(now time.Time, e *engine.Engine) { heard, behind = e.ReportsBefore(now.Add(-by)) }); err != nil {
		return err
	}
	what := fmt.Sprintf("by this machine's clock the journal was written last %s ago, on %s; by the broker's it was less than half of that, and the heartbeats of %d of %d agents are as old",
		silent.Round(time.Hour), p.lastAt.UTC().Format(time.RFC3339), behind, heard)
	if 2*behind <= heard {
		r.s.log.Warn().Msg("the coordinator that led before may have had a clock that was behind: " + what)
		return nil
	}
	return fmt.Errorf("this machine's clock is ahead by days, and budgets would begin periods that have not come: %s; set the clock (timedatectl, chronyc tracking)", what)
}

// writtenWithin tells whether the journal has a message that is not older, by the broker's clock.
func (r *session) writtenWithin(ctx context.Context, d time.Duration) (bool, error) {
	const doing = "ask the broker how old the journal is"
	s, err := r.s.options.Bus.Open(ctx, bus.SessionSpec{Name: "taskbus-clock", Topology: bus.Topology{Mode: bus.Off}})
	if err != nil {
		return false, fmt.Errorf("%s: %w", doing, err)
	}
	defer func() { _ = s.Close(ctx) }() // nothing was published
	found := make(chan struct{}, 1)
	err = s.Subscribe(ctx, bus.Subscription{Queue: bus.StreamJournal, Prefetch: 1, From: bus.Ago(d), Handle: func(bus.Delivery) {
		select {
		case found <- struct{}{}:
		default:
		}
	}})
	if err != nil {
		return false, fmt.Errorf("%s: %w", doing, err)
	}
	timeout := time.NewTimer(aheadWait)
	defer timeout.Stop()
	select {
	case <-found:
		return true, nil
	case <-timeout.C:
		return false, nil
	case <-s.Done():
		return false, fmt.Errorf("%s: %w", doing, bus.ErrClosed)
	case <-ctx.Done():
		return false, ctx.Err()
	}
}
