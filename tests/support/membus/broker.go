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
	errCut      = errors.New("connection closed by the broker")
	errDeleted  = errors.New("consumer cancelled: its queue was deleted")
	errLockLost = errors.New("the lock was lost: its queue was deleted")
)

// Broker is a broker in memory. It implements bus.Bus and is safe for
// concurrent use.
type Broker struct {
	// mu guards everything below, and whatever sessions, consumers and queues
	// share. It is never held while waiting or while calling a callback.
	mu       sync.Mutex
	fabric   fabric
	sessions []*session // open ones and those that are being opened, oldest first
	alarm    alarm
	control  control
	// changed is closed, and made anew, when a queue has gone or an alarm has been raised or
	// cleared.
	changed chan struct{}
}

// New returns an empty broker.
func New() *Broker {
	b := &Broker{changed: make(chan struct{})}
	b.fabric = fabric{mu: &b.mu, between: b.between, removed: b.tellChanged, queues: map[string]queue{},
		exchanges: map[string]*exchange{}}
	return b
}

// Open implements bus.Bus.
func (b *Broker) Open(ctx context.Context, spec bus.SessionSpec) (bus.Session, error) {
	s := newSession(b, spec)
	err := ctx.Err()
	if err == nil {
		err = b.admit(ctx, s)
	}
	if err != nil {
		return nil, fmt.Errorf("open session %q: %w", spec.Name, err)
	}
	s.start()
	return s, nil
}

// admit lets a session in and sees to its topology. What it has declared when ctx ends stays.
func (b *Broker) admit(ctx context.Context, s *session) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.control.openError != nil {
		return b.control.openError
	}
	s.user = b.control.user
	s.edge = bus.NewEdge(&s.spec.Topology, s.user, bus.FrameMax)
	s.edge.AnyUser = s.user == ""
	b.sessions = append(b.sessions, s) // a cut meets it from now on
	err := b.fabric.apply(s.spec.Topology, s)
	if err == nil {
		err = b.fabric.applyTemporary(s.spec.Topology, s)
	}
	if err == nil {
		err = ctx.Err()
	}
	if s.over {
		err = s.cause
	}
	if err != nil {
		b.leave(s)
		return err
	}
	return nil
}

// leave undoes admit and gives back the locks. b.mu is held.
func (b *Broker) leave(s *session) {
	b.fabric.removeOf(s)
	for i, other := range b.sessions {
		if other == s {
			b.sessions = append(b.sessions[:i:i], b.sessions[i+1:]...)
			break
		}
	}
}

// tellChanged wakes those that wait for a queue to go, or for the end of an alarm. b.mu is held.
func (b *Broker) tellChanged() {
	close(b.changed)
	b.changed = make(chan struct{})
}
