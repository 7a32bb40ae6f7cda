package membus

import (
	"context"
	"errors"
	"fmt"

	"taskbus/coordinator/bus"
)

// A lock is a queue that belongs to the session that holds it.

// TakeLock implements bus.Session. It need not look every so often: it is told.
func (s *session) TakeLock(ctx context.Context, queue string, waiting func()) error {
	for told := false; ; {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("take the lock %q: %w", queue, err)
		}
		taken, held, changed, err := s.tryLock(queue)
		if taken || err != nil {
			return err
		}
		if held && !told && waiting != nil {
			waiting()
		}
		told = told || held
		select {
		case <-changed:
		case <-s.ended:
		case <-ctx.Done():
		}
	}
}

// tryLock looks whether the lock is free, which takes a publication, and then takes it. If it has
// not, it returns what to wait for; held tells that it is not an alarm.
func (s *session) tryLock(queue string) (taken, held bool, changed <-chan struct{}, err error) {
	b := s.broker
	b.mu.Lock()
	defer b.mu.Unlock()
	defer func() {
		if errors.Is(err, bus.ErrClosed) && s.cause != nil {
			err = fmt.Errorf("take the lock %q: %w", queue, err)
		}
	}()
	if err := s.closed(); err != nil {
		return false, false, nil, err
	}
	if s.holds(queue) {
		return true, true, nil, nil
	}
	if b.alarm.on {
		s.probing = true
		signal(s.alarmed)
		return false, false, b.changed, nil
	}
	s.probing = false
	if b.fabric.queues[queue] != nil {
		return false, true, b.changed, nil
	}
	if err := s.step("lock " + queue); err != nil {
		return false, false, nil, err
	}
	if b.fabric.queues[queue] != nil { // another was faster
		return s.holds(queue), true, b.changed, nil
	}
	l := newLine(bus.Queue{Name: queue, Kind: bus.Classic, Temporary: true}, &b.fabric)
	l.owner, l.lock = s, true
	b.fabric.queues[queue] = l
	return true, true, nil, nil
}

// holds tells whether the session has the lock. The broker's lock is held.
func (s *session) holds(queue string) bool {
	l, ok := s.broker.fabric.queues[queue].(*line)
	return ok && l.lock && l.owner == s
}
