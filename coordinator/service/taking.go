package service

import (
	"context"
	"errors"
	"fmt"

	"taskbus/coordinator/bus"
	"taskbus/coordinator/service/internal/intake"
)

// Prefetches of what is not read by a window: of task.assign.high; of task.request, which leaves bids, of which
// thousands come at once and none is held, room beside the cancels that are; of streams.
const (
	prefetchHigh    = 128
	prefetchRequest = 1000
	prefetchStatus  = 1000
	prefetchResult  = 2000
)

// tasksOf is a queue out of which tasks are taken by a window.
type tasksOf struct {
	queue string
	*intake.Window
	handle func(bus.Delivery)
	held   func() int64 // how many bytes of what counts for the window are held
	told   func(n int)  // may be nil
}

// openWindow begins to take tasks and keeps the window fit until the session ends. told is called with the width
// once the sizes of some tasks are known: the first window is small because none is, and not full of what
// waits; to move that to lanes would make hundreds of queues at each start.
func (r *session) openWindow(ctx context.Context, in tasksOf) error {
	if err := r.consumeTasks(ctx, in.queue, in.Open(), in.handle); err != nil {
		return err
	}
	r.lasting("adapts the window of "+in.queue, func() { r.adaptWindow(in) })
	return nil
}

// adaptWindow adds or ends one consumer at a time, at most one for each look at
// the sizes, until the session ends.
func (r *session) adaptWindow(in tasksOf) {
	for told := 0; ; {
		select {
		case <-r.bus.Done():
			return
		case <-in.Look():
		}
		if r.draining.Load() {
			continue
		}
		change := in.Adapt(in.held())
		var err error
		switch {
		case change > 0:
			err = r.consumeTasks(context.Background(), in.queue, change, in.handle)
		case change < 0:
			if _, err = r.bus.Unsubscribe(context.Background(), in.queue); err != nil {
				err = fmt.Errorf("narrow the window on %s: %w", in.queue, err)
			}
		}
		if err != nil {
			r.fault(err)
		}
		if n := in.Total(); n != told && in.told != nil {
			told = n
			in.told(n)
		}
	}
}

func (r *session) consumeTasks(ctx context.Context, queue string, prefetch int, handle func(bus.Delivery)) error {
	err := r.bus.Subscribe(ctx, bus.Subscription{Queue: queue, Prefetch: prefetch, Handle: handle})
	if err != nil {
		return fmt.Errorf("subscribe to %s: %w", queue, err)
	}
	return nil
}

// stopTaking ends the consumers of tasks.
func (r *session) stopTaking(ctx context.Context) {
	r.draining.Store(true)
	r.takeBacks.leaveAll()
	r.lanes.leaveAll()
	for _, queue := range []string{bus.QueueAssign, bus.QueueAssignHigh, bus.QueueReassign, bus.QueueRequest} {
		for more := true; more; {
			var err error
			if more, err = r.bus.Unsubscribe(ctx, queue); errors.Is(err, bus.ErrClosed) {
				return // nothing is taken any more
			} else if err != nil {
				r.s.log.Warn().Err(err).Str("queue", queue).
					Msg("a consumer could not be ended; what it brings is left to the broker")
				break // of the others it says nothing
			}
		}
	}
}
