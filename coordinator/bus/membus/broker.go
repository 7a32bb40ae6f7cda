package membus

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"taskbus/coordinator/bus"
)

// lastSession numbers the sessions of every Broker in the process, because
// bus.Tag promises a number that is unique in the process.
var lastSession atomic.Uint64

var (
	errCut     = errors.New("connection closed by the broker")
	errDeleted = errors.New("consumer cancelled: its queue was deleted")
)

// Broker is a broker in memory. It implements bus.Bus and is safe for
// concurrent use.
type Broker struct {
	// mu guards everything below, and whatever sessions, consumers and queues
	// share. It is never held while waiting or while calling a callback.
	mu       sync.Mutex
	fabric   fabric
	sessions []*session // open ones, oldest first
	locks    map[string]*lock
	alarm    alarm
	control  control
	cut      chan struct{} // closed, and replaced, by Cut
}

// lock is an exclusive queue that is held by a session.
type lock struct {
	holder *session
	freed  chan struct{} // closed when it is free
}

// New returns an empty broker.
func New() *Broker {
	b := &Broker{locks: map[string]*lock{}, cut: make(chan struct{})}
	b.fabric = fabric{mu: &b.mu, queues: map[string]queue{}, exchanges: map[string]*exchange{}}
	return b
}

// Open implements bus.Bus.
func (b *Broker) Open(ctx context.Context, spec bus.SessionSpec) (bus.Session, error) {
	s := newSession(b, spec)
	err := ctx.Err()
	if err == nil {
		err = b.prepare(s)
	}
	if err == nil {
		err = b.waitAdmission(ctx, s)
	}
	if err != nil {
		b.forget(s)
		return nil, fmt.Errorf("open session %q: %w", spec.Name, err)
	}
	s.start()
	return s, nil
}

// waitAdmission returns when the session is in, or why it cannot be.
func (b *Broker) waitAdmission(ctx context.Context, s *session) error {
	for told := false; ; told = true {
		freed, cut, err := b.admit(s)
		if freed == nil {
			return err
		}
		if !told && s.spec.OnStandby != nil {
			s.spec.OnStandby()
		}
		select {
		case <-freed:
		case <-cut:
			return fmt.Errorf("waiting for lock %q: %w", s.spec.Lock, errCut)
		case <-ctx.Done():
			return fmt.Errorf("waiting for lock %q: %w", s.spec.Lock, ctx.Err())
		}
	}
}

// forget undoes what was done for a session that was never started.
func (b *Broker) forget(s *session) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.leave(s)
}

// prepare does what comes before the lock: access and what is shared of the topology.
func (b *Broker) prepare(s *session) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.control.openError != nil {
		return b.control.openError
	}
	s.user = b.control.user
	return b.fabric.apply(s.spec.Topology, s)
}

// admit lets the session in, holding its lock, and makes its temporary queues. If
// somebody else holds the lock, it returns what to wait for.
func (b *Broker) admit(s *session) (freed, cut <-chan struct{}, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if name := s.spec.Lock; name != "" {
		if l := b.locks[name]; l != nil {
			return l.freed, b.cut, nil
		}
		b.locks[name] = &lock{holder: s, freed: make(chan struct{})}
	}
	if err := b.fabric.applyTemporary(s.spec.Topology, s); err != nil {
		return nil, nil, err
	}
	b.sessions = append(b.sessions, s)
	return nil, nil, nil
}

// leave undoes admit and prepare. b.mu is held.
func (b *Broker) leave(s *session) {
	b.fabric.removeOf(s)
	for i, other := range b.sessions {
		if other == s {
			b.sessions = append(b.sessions[:i:i], b.sessions[i+1:]...)
			break
		}
	}
	if l := b.locks[s.spec.Lock]; l != nil && l.holder == s {
		delete(b.locks, s.spec.Lock)
		close(l.freed)
	}
}
