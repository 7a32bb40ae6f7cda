package service

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/engine"
)

// loop owns the engine: one goroutine applies events in the order in which they
// were posted and hands every effect to the performer of the session at hand.
type loop struct {
	engine *engine.Engine
	now    func() time.Time

	mu     sync.Mutex
	inbox  []envelope
	signal chan struct{} // capacity 1: something is in the inbox

	// performer carries out effects; it belongs to the loop's goroutine. The
	// number of its session tells which events are of the past.
	performer performer
	session   uint64
	idle      performer // performs while there is no session

	stopped chan struct{} // closed when run has returned
}

// performer carries out effects. It must not block.
type performer interface{ perform(coordinator.Effect) }

// envelope is an event of one session (0: of none), or a function to run on the
// loop's goroutine.
type envelope struct {
	session uint64
	event   coordinator.Event
	call    func(now time.Time)
}

// newLoop makes a loop whose effects go to idle while there is no session.
func newLoop(now func() time.Time, idle performer) *loop {
	return &loop{
		engine: engine.New(), now: now, signal: make(chan struct{}, 1),
		performer: idle, idle: idle, stopped: make(chan struct{}),
	}
}

// post queues an event of the given session. It never blocks. Events of a
// session that has ended are dropped when their turn comes.
func (l *loop) post(session uint64, ev coordinator.Event) {
	l.enqueue(envelope{session: session, event: ev})
}

func (l *loop) enqueue(e envelope) {
	l.mu.Lock()
	l.inbox = append(l.inbox, e)
	first := len(l.inbox) == 1
	l.mu.Unlock()
	if first {
		select {
		case l.signal <- struct{}{}:
		default:
		}
	}
}

// begin makes the session current: from here on its events count, and its
// performer gets the effects. first runs before the first of them.
func (l *loop) begin(session uint64, p performer, first func()) {
	l.enqueue(envelope{call: func(time.Time) {
		l.session, l.performer = session, p
		first()
	}})
	l.post(session, coordinator.SessionOpened{})
}

// startAfresh replaces the engine by one that knows nothing but the policy.
func (l *loop) startAfresh(p *coordinator.Policy) {
	l.enqueue(envelope{call: func(now time.Time) {
		l.engine = engine.New()
		l.performAll(l.engine.Apply(now, coordinator.PolicyChanged{Policy: p}, nil))
	}})
}

// end closes the session: its tasks are forgotten, later events of it dropped.
// after runs when that is done.
func (l *loop) end(session uint64, after func()) {
	l.post(session, coordinator.SessionLost{})
	l.enqueue(envelope{call: func(time.Time) {
		if l.session == session {
			l.session, l.performer = 0, l.idle
		}
		after()
	}})
}

// errStopped answers queries to a loop that runs no more.
var errStopped = errors.New("the coordinator has stopped")

// query runs f on the loop's goroutine, between two events, and waits for it. After
// an error f has not run and never will: what it writes to is the caller's again.
func (l *loop) query(ctx context.Context, f func(now time.Time, e *engine.Engine)) error {
	var claimed atomic.Bool // by the loop, which runs f, or by the caller, who gave up
	done := make(chan struct{})
	l.enqueue(envelope{call: func(now time.Time) {
		if claimed.CompareAndSwap(false, true) {
			f(now, l.engine)
			close(done)
		}
	}})
	var err error
	select {
	case <-done:
		return nil
	case <-l.stopped:
		err = errStopped
	case <-ctx.Done():
		err = ctx.Err()
	}
	if claimed.CompareAndSwap(false, true) {
		return err
	}
	<-done // f is running
	return nil
}

// run applies events until ctx ends and everything posted before is done.
func (l *loop) run(ctx context.Context) {
	defer close(l.stopped)
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	var batch []envelope
	var effects []coordinator.Effect
	for {
		l.mu.Lock()
		batch, l.inbox = l.inbox, batch[:0]
		l.mu.Unlock()
		now := l.now()
		for i := range batch {
			effects = l.apply(now, &batch[i], effects[:0])
			batch[i] = envelope{}
		}
		if len(batch) > 0 {
			continue
		}
		if ctx.Err() != nil {
			return
		}
		wait := time.Hour
		if due, ok := l.engine.NextDeadline(); ok {
			wait = due.Sub(now)
		}
		if wait <= 0 {
			l.performAll(l.engine.Apply(now, coordinator.Tick{}, effects[:0]))
			continue
		}
		timer.Reset(wait)
		select {
		case <-l.signal:
		case <-timer.C:
		case <-ctx.Done():
		}
	}
}

// apply runs one envelope and performs its effects.
func (l *loop) apply(now time.Time, e *envelope, effects []coordinator.Effect) []coordinator.Effect {
	if e.call != nil {
		e.call(now)
		return effects
	}
	if e.session != 0 && e.session != l.session {
		return effects
	}
	effects = l.engine.Apply(now, e.event, effects)
	l.performAll(effects)
	return effects
}

func (l *loop) performAll(effects []coordinator.Effect) {
	for i, f := range effects {
		l.performer.perform(f)
		effects[i] = nil
	}
}

// writeDown performs while there is no session. No task is held then; what
// remains (an agent going stale, a dispatch overdue) can only be written down.
type writeDown struct{ s *Service }

func (w writeDown) perform(effect coordinator.Effect) {
	switch f := effect.(type) {
	case coordinator.AgentChanged:
		w.s.observe.agentChanged(f)
	case coordinator.AgentTrusted:
		w.s.observe.agentTrusted(f)
	case *coordinator.Fail:
		w.s.owed.add(f)
	case *coordinator.Completed:
		w.s.observe.completed(f)
		w.s.untold.add(f)
	}
}
