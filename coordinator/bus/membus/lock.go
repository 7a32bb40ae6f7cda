package membus

import (
	"context"
	"fmt"

	"taskbus/coordinator/bus"
)

// lock is an exclusive queue that is held by a session.
type lock struct {
	holder *session
	freed  chan struct{} // closed when it is free
}

// TakeLock implements bus.Session. It need not look every so often: it is told.
func (s *session) TakeLock(ctx context.Context, queue string, waiting func()) error {
	for told := false; ; told = true {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("take the lock %q: %w", queue, err)
		}
		freed, err := s.tryLock(queue)
		if freed == nil {
			return err
		}
		if !told && waiting != nil {
			waiting()
		}
		select {
		case <-freed:
		case <-s.refused:
		case <-ctx.Done():
		}
	}
}

// tryLock takes the lock. If somebody else holds it, it returns what to wait for.
func (s *session) tryLock(queue string) (freed <-chan struct{}, err error) {
	s.broker.mu.Lock()
	defer s.broker.mu.Unlock()
	if s.closing {
		if s.cause != nil {
			return nil, fmt.Errorf("take the lock %q: %w: %w", queue, bus.ErrClosed, s.cause)
		}
		return nil, bus.ErrClosed
	}
	held := s.broker.locks[queue]
	if held == nil {
		s.broker.locks[queue] = &lock{holder: s, freed: make(chan struct{})}
		return nil, nil
	}
	if held.holder == s {
		return nil, nil
	}
	return held.freed, nil
}
