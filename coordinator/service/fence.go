package service

import (
	"context"
	"errors"
	"fmt"
	"time"

	"taskbus/coordinator/bus"
	"taskbus/coordinator/service/internal/intake"
	"taskbus/coordinator/service/internal/outbox"
)

// The fences are waited for fenceTimeout, and as long again while results are read, at
// most fencePatience; then the past counts as read.
const (
	fenceTimeout  = 5 * time.Second
	fencePatience = time.Minute
)

// readPast subscribes to a stream and puts the fence at its end.
func (r *session) readPast(ctx context.Context, f *intake.Fence, prefetch int, from bus.Position,
	handle func(bus.Delivery)) error {
	err := r.bus.Subscribe(ctx, bus.Subscription{Queue: f.Stream, Prefetch: prefetch, From: from, Handle: handle})
	if err != nil {
		return fmt.Errorf("subscribe to %s: %w", f.Stream, err)
	}
	p := f.Mark(r.s.now())
	p.Token = outbox.Ignored
	if err := r.bus.Publish(p); err != nil {
		return fmt.Errorf("publish a mark to %s: %w", f.Stream, err)
	}
	return nil
}

// awaitFence waits until the past of a stream has been read, so that the first task
// meets a known fleet, and a task that has ended is known to have. read is false when
// it was given up.
func (r *session) awaitFence(ctx context.Context, f *intake.Fence) (read bool, err error) {
	begun, last := r.s.now(), r.pastRead.Load()
	timeout := time.NewTimer(fenceTimeout)
	defer timeout.Stop()
	for {
		select {
		case <-f.Read:
			return true, nil
		case <-timeout.C:
			n := r.pastRead.Load()
			if n == last || r.s.now().Sub(begun) >= fencePatience {
				r.giveUp(f)
				return f.WasRead(), nil
			}
			last = n
			timeout.Reset(fenceTimeout)
		case <-r.bus.Done():
			return false, errors.Join(errors.New("the session ended while the agents' past was read"), r.bus.Err())
		case err := <-r.faulted:
			return false, err
		case <-ctx.Done():
			return false, ctx.Err()
		}
	}
}

// giveUp goes on without the fence: another consumer reads the queue, too (queues: classic), or reading is
// slow.
func (r *session) giveUp(f *intake.Fence) {
	if f.WasRead() {
		return
	}
	r.s.log.Warn().Str("stream", f.Stream).Dur("after", fenceTimeout).
		Msg("the mark in the stream was not read back; going on with what is known of the agents")
	f.CaughtUp.Store(true)
}
