package service

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/engine"
	"taskbus/coordinator/service/internal/callgate"
	"taskbus/coordinator/service/internal/journaling"
	"taskbus/coordinator/service/internal/outbox"
)

// loop owns the engine: one goroutine applies events in the order in which they
// were posted. Every effect goes to the performer of the session at hand: at once or,
// with a journal, when what it follows from is in there (see commits).
type loop struct {
	engine *engine.Engine
	now    func() time.Time

	mu     sync.Mutex
	inbox  []envelope
	signal chan struct{} // capacity 1: something is in the inbox

	// The rest belongs to the loop's goroutine. The number of the session shows which
	// events are of the past.
	session   uint64
	performer performer
	idle      performer             // performs while no session leads
	commits   *journaling.Commits   // nil: nothing is journalled
	cursor    *journaling.Cursor    // nil: no session leads
	outputs   *outbox.Outputs       // likewise
	recording *journaling.Recording // nil: inputs are not recorded
	heard     *journaling.Reports   // nil: no consumer
	effects   []coordinator.Effect  // of the event being applied

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

// newLoop returns a loop that passes its effects to idle while no session leads.
func newLoop(now func() time.Time, idle performer) *loop {
	return &loop{
		engine: engine.New(), now: now, signal: make(chan struct{}, 1),
		performer: idle, idle: idle, stopped: make(chan struct{}),
	}
}

// post queues events of the given session. It never blocks. Events of a
// session that has ended are dropped when their turn comes.
func (l *loop) post(session uint64, events ...coordinator.Event) {
	for _, ev := range events {
		l.enqueue(envelope{session: session, event: ev})
	}
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

// within runs f on the loop's goroutine if the session is current then.
func (l *loop) within(session uint64, f func(now time.Time)) {
	l.enqueue(envelope{call: func(now time.Time) {
		if l.session == session {
			f(now)
		}
	}})
}

// follow makes the session current, with a new engine that knows nothing but the
// policy: it learns what is folded and what agents report. Nothing follows from that
// as yet. Heard, if given, keeps the latest reports.
func (l *loop) follow(session uint64, policy func() *coordinator.Policy, heard *journaling.Reports) {
	l.enqueue(envelope{call: func(now time.Time) {
		l.session, l.performer, l.heard = session, silent{}, heard
		l.engine = engine.New()
		l.engine.Follow()
		l.apply(now, coordinator.PolicyChanged{Policy: policy()}) // of now: a reload may have come meanwhile
	}})
}

// lead makes the session lead: from here on its performer gets the effects. commits may
// be nil. begin has an engine that followed lead.
func (l *loop) lead(session uint64, p performer, c *journaling.Commits, t *journaling.Cursor, o *outbox.Outputs,
	begin func(now time.Time)) {
	l.within(session, func(now time.Time) {
		l.performer, l.commits, l.cursor, l.outputs = p, c, t, o
		begin(now)
		l.engine.Record(c != nil)
		l.heard = nil
	})
}

// end closes the session: its tasks are forgotten, later events of it dropped.
// after runs when that is done.
func (l *loop) end(session uint64, after func()) {
	l.enqueue(envelope{call: func(now time.Time) {
		if l.session == session {
			l.session, l.performer, l.commits, l.cursor, l.recording, l.heard = 0, silent{}, nil, nil, nil, nil
			l.outputs = nil
			l.engine.Record(false)
			l.apply(now, coordinator.SessionLost{})
			l.performer = l.idle
		}
		after()
	}})
}

// errStopped answers queries to a loop that runs no more, errSessionEnded what its session has taken along.
var (
	errStopped      = callgate.ErrStopped
	errSessionEnded = callgate.ErrSessionEnded
)

// query runs f on the loop's goroutine, between two events, and waits for it. After
// an error f has not run and never will: what it writes to is the caller's again.
func (l *loop) query(ctx context.Context, f func(now time.Time, e *engine.Engine)) error {
	var claimed atomic.Bool // by the loop, which runs f, or by the caller, which gave up
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
	for {
		ended := ctx.Err() != nil // asked before the inbox: what was posted before the end is in there
		l.mu.Lock()
		batch, l.inbox = l.inbox, batch[:0]
		l.mu.Unlock()
		now := l.now()
		for i := range batch {
			l.take(now, &batch[i])
			batch[i] = envelope{}
		}
		l.flush(now)
		if len(batch) > 0 {
			continue
		}
		if ended {
			return
		}
		wait := time.Hour
		if due, ok := l.engine.NextDeadline(); ok {
			wait = due.Sub(now)
		}
		if wait <= 0 {
			l.apply(now, coordinator.Tick{})
			l.flush(now)
			continue
		}
		if l.commits != nil {
			if due, ok := l.commits.Due(); ok {
				wait = min(wait, due.Sub(now))
			}
		}
		timer.Reset(wait)
		select {
		case <-l.signal:
		case <-timer.C:
		case <-ctx.Done():
		}
	}
}

// take deals with one envelope.
func (l *loop) take(now time.Time, e *envelope) {
	switch {
	case e.call != nil:
		e.call(now)
	case e.session == 0 || e.session == l.session:
		l.apply(now, e.event)
	}
}

// apply gives the engine an event and hands over what follows.
func (l *loop) apply(now time.Time, ev coordinator.Event) {
	switch {
	case l.recording != nil:
		l.recording.Add(now, ev)
	case l.heard != nil:
		l.heard.Note(l.engine, ev)
	}
	l.effects = l.engine.Apply(now, ev, l.effects[:0])
	if l.cursor != nil {
		l.noteResult(ev)
	}
	if l.commits != nil {
		l.commits.Take(l.engine, l.effects)
	} else {
		for _, f := range l.effects {
			l.performer.perform(f)
		}
	}
	clear(l.effects)
}

// after calls f when all that has happened so far will survive.
func (l *loop) after(f func()) {
	if l.commits != nil {
		l.commits.Afterwards(f)
		return
	}
	f()
}

// noteResult keeps track of which results have been dealt with, and lets an output go that no task ends with.
func (l *loop) noteResult(ev coordinator.Event) {
	r, ok := ev.(coordinator.ResultReported)
	if !ok {
		return
	}
	ends := slices.ContainsFunc(l.effects, func(f coordinator.Effect) bool {
		c, ok := f.(*coordinator.Completed)
		return ok && c.Result.Offset == r.Result.Offset
	})
	if !ends {
		l.outputs.Release(r.Result.Output.Bytes())
	}
	switch {
	case r.Result.Offset < 0:
		return
	case ends:
		l.cursor.Announcing(r.Result.Offset)
	}
	l.cursor.Applied(r.Result.Offset)
}

// flush hands what has gathered to the journal.
func (l *loop) flush(now time.Time) {
	if l.commits != nil {
		l.commits.Flush(now)
	}
}

// silent performs for an engine that follows: others do what must be done.
type silent struct{}

func (silent) perform(coordinator.Effect) {}

// writeDown performs while no session stands: of what happens then (an agent going stale) it can only write.
type writeDown struct{ s *Service }

func (w writeDown) perform(effect coordinator.Effect) { w.s.observe.Effect(effect) }
