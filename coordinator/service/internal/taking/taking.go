package taking

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"taskbus/coordinator/bus"
)

// Broker is what is used of a session (see bus.Session).
type Broker interface {
	Subscribe(ctx context.Context, sub bus.Subscription) error
	Unsubscribe(ctx context.Context, queue string) (bool, error)
	Done() <-chan struct{}
}

// Window says how many tasks are taken (see intake.Window).
type Window interface {
	Open() int
	Look() <-chan struct{}
	Adapt(heldBytes int64) int
	Total() int
}

// Queue is one out of which tasks are taken by a window.
type Queue struct {
	Name string
	Window
	Handle func(bus.Delivery)
	Held   func() int64 // how many bytes of what counts for the window are held
	Told   func(n int)  // may be nil
}

// Options are what the consumers are given.
type Options struct {
	Bus Broker
	// Unended hears of a consumer that could not be ended; Fault ends the session.
	Unended func(queue string, err error)
	Fault   func(error)
}

// Consumers are those of one session.
type Consumers struct {
	Options
	stopped atomic.Bool
}

// New returns none.
func New(o Options) *Consumers { return &Consumers{Options: o} }

// Take begins to take what is in a queue.
func (c *Consumers) Take(ctx context.Context, queue string, prefetch int, handle func(bus.Delivery)) error {
	err := c.Bus.Subscribe(ctx, bus.Subscription{Queue: queue, Prefetch: prefetch, Handle: handle})
	if err != nil {
		return fmt.Errorf("subscribe to %s: %w", queue, err)
	}
	return nil
}

// Open begins to take tasks by a window. Adapt is to be run then.
func (c *Consumers) Open(ctx context.Context, in Queue) error {
	return c.Take(ctx, in.Name, in.Window.Open(), in.Handle)
}

// Adapt keeps a window fit until the session ends: it adds or ends one consumer at a time, at most one for each look
// at the sizes. Told is called with the width
// once the sizes of some tasks are known: the first window is small because none is, and not full of what
// waits; to move that to lanes would make hundreds of queues at each start.
func (c *Consumers) Adapt(in Queue) {
	for told := 0; ; {
		select {
		case <-c.Bus.Done():
			return
		case <-in.Look():
		}
		if c.stopped.Load() {
			continue
		}
		change := in.Window.Adapt(in.Held())
		var err error
		switch {
		case change > 0:
			err = c.Take(context.Background(), in.Name, change, in.Handle)
		case change < 0:
			if _, err = c.Bus.Unsubscribe(context.Background(), in.Name); err != nil {
				err = fmt.Errorf("narrow the window on %s: %w", in.Name, err)
			}
		}
		if err != nil {
			c.Fault(err)
		}
		if n := in.Total(); n != told && in.Told != nil {
			told = n
			in.Told(n)
		}
	}
}

// Stop ends the consumers of these queues; no other begins.
func (c *Consumers) Stop(ctx context.Context, queues ...string) {
	c.stopped.Store(true)
	for _, queue := range queues {
		for more := true; more; {
			var err error
			if more, err = c.Bus.Unsubscribe(ctx, queue); errors.Is(err, bus.ErrClosed) {
				return // nothing is taken any more
			} else if err != nil {
				c.Unended(queue, err)
				break // of the others it says nothing
			}
		}
	}
}
