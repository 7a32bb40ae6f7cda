package service

import (
	"context"
	"fmt"
	"sync"
	"time"

	"taskbus/coordinator"
)

// shared answers all requests of one moment with one copy of the engine's state: however many there are,
// the loop makes no more than one for each of its turns, and there is no more than one in memory that waits
// to be looked at.
type shared struct {
	mu   sync.Mutex
	next *sharedCopy // has been asked for, and is not made yet; nil: none
}

// sharedCopy is read by all its requests; none changes it.
type sharedCopy struct {
	done chan struct{}
	snap coordinator.Snapshot
}

// snapshot asks the engine for a copy of its state, as it is when everything posted before has happened.
func (s *Service) snapshot(ctx context.Context) (coordinator.Snapshot, error) {
	c := s.shared.ask(s.loop)
	err := errStopped
	select {
	case <-c.done:
		return c.snap, nil
	case <-s.loop.stopped:
	case <-ctx.Done():
		err = ctx.Err()
	}
	return coordinator.Snapshot{}, fmt.Errorf("ask the engine for its state: %w", err)
}

// ask returns the copy that the loop makes next. A request while it is being made gets the one after it.
func (v *shared) ask(l *loop) *sharedCopy {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.next != nil {
		return v.next
	}
	c := &sharedCopy{done: make(chan struct{})}
	v.next = c
	l.enqueue(envelope{call: func(now time.Time) {
		v.mu.Lock()
		v.next = nil
		v.mu.Unlock()
		c.snap = l.engine.Snapshot(now)
		close(c.done)
	}})
	return c
}
