package agent

import (
	"context"
	"sync"
	"time"
)

// runContext is the ctx of a handler: its deadline can be moved, which those of package context cannot.
type runContext struct {
	context.Context // has the cause, and the values of Run's ctx
	end             context.CancelCauseFunc
	done            chan struct{} // its own: what is derived from it is to ask for Err here

	mu    sync.Mutex
	until time.Time
	timer *time.Timer
	err   error
}

// newRunContext returns one that ends at an instant, for the cause ErrDeadline, or with cancel.
func newRunContext(base context.Context, until time.Time) *runContext {
	c := &runContext{done: make(chan struct{}), until: until}
	c.Context, c.end = context.WithCancelCause(base)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.timer = time.AfterFunc(time.Until(until), c.due)
	return c
}

// Deadline is when it ends, as it stands.
func (c *runContext) Deadline() (time.Time, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.until, true
}

// Done is closed when it has ended.
func (c *runContext) Done() <-chan struct{} { return c.done }

// Err is as in package context.
func (c *runContext) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// cancel ends it for a cause; nil: it is not needed any more.
func (c *runContext) cancel(cause error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.over(context.Canceled, cause)
}

// over ends it, once. mu is held.
func (c *runContext) over(err, cause error) {
	if c.err != nil {
		return
	}
	c.timer.Stop()
	c.end(cause)
	c.err = err
	close(c.done)
}

// due ends it, unless its deadline has been moved.
func (c *runContext) due() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if left := time.Until(c.until); left > 0 {
		c.timer.Reset(left)
		return
	}
	c.over(context.DeadlineExceeded, ErrDeadline)
}

// extend moves the deadline, if that is later and it has not ended.
func (c *runContext) extend(until time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil && until.After(c.until) {
		c.until = until // due looks at it
	}
}
