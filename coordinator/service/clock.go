package service

import (
	"context"
	"fmt"
	"time"

	"taskbus/coordinator/bus"
	"taskbus/coordinator/engine"
	"taskbus/coordinator/service/internal/background"
	"taskbus/coordinator/service/internal/clock"
	"taskbus/coordinator/service/internal/intake"
	"taskbus/coordinator/service/internal/journaling"
	"taskbus/coordinator/service/internal/outbox"
)

// checkClock refuses to lead with a clock that the broker contradicts, if most agents do not take its
// part. It is asked before anything is written by that clock.
func (r *session) checkClock(ctx context.Context) error {
	if r.s.profile() == bus.ProfileClassic { // agent.status is no stream there
		return nil
	}
	offset := clock.Offset(ctx, r.s.options.Bus, r.s.now, func() bus.Publication {
		p := intake.Mark(bus.StreamStatus, journaling.RandomID(), r.s.now())
		p.Token = outbox.Ignored
		return p
	})
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
	brokers, ours := clock.Judge(offset, heard, nearer)
	if brokers != "" {
		r.s.log.Warn().Msg(brokers)
	}
	return ours
}

// watchClock compares the clocks from time to time.
func (r *session) watchClock() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	background.Every(r.bus.Done(), clock.Period, func() bool {
		err := r.checkClock(ctx)
		if err != nil {
			r.fault(err)
		}
		return err == nil
	})
}
