package bustest

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"taskbus/coordinator/bus"
)

func lockCases() []testCase {
	return []testCase{
		{name: "the second waits until the first is closed", run: lockPassedOn},
		{name: "a session works without the lock that it waits for", run: lockNotNeeded},
		{name: "a cut frees the lock", run: lockFreedByCut},
		{name: "waiting ends with its context, and the session goes on", run: lockWaitCancelled},
		{name: "waiting ends with its session", run: lockWaitClosed},
		{name: "who has the lock takes it again", run: lockTakenTwice},
		{name: "of many who wait one at a time gets it", run: lockContended},
		{name: "different locks do not meet", run: locksApart},
	}
}

const lockName = "leader"

// lead takes the lock, which must be free.
func (c *client) lead() {
	c.t.Helper()
	err := c.TakeLock(deadline(c.t), lockName, func() { c.t.Error("waiting was called although the lock was free") })
	if err != nil {
		c.t.Fatalf("TakeLock: %v", err)
	}
}

// wait goes for the lock in the background, and returns when the client has been
// told that it waits.
func (c *client) wait(ctx context.Context) waiter {
	c.t.Helper()
	w := waiter{over: make(chan error, 1), told: make(chan struct{}, 16)}
	go func() { w.over <- c.TakeLock(ctx, lockName, func() { w.told <- struct{}{} }) }()
	receive(c.t, "the client to be told that it waits", w.told)
	return w
}

// waiter is a TakeLock under way.
type waiter struct {
	over chan error
	told chan struct{}
}

func lockPassedOn(r *rig) {
	first, second := r.open(declare(quorum("q"))), r.open(declare())
	first.lead()
	w := second.wait(r.ctx())
	first.store("q", "the holder works while another waits")
	if len(w.over) != 0 {
		r.t.Fatalf("two sessions hold the lock: %v", <-w.over)
	}
	first.close()
	if err := receive(r.t, "the lock to pass on", w.over); err != nil {
		r.t.Fatalf("TakeLock: %v", err)
	}
	if again := len(w.told); again != 0 {
		r.t.Errorf("waiting was called %d times too often", again)
	}
	second.store("q", "x")
}

func lockNotNeeded(r *rig) {
	topology := declare(quorum("q"), stream("s"), bus.Queue{Name: "mine", Temporary: true})
	first, second := r.open(declare()), r.open(topology)
	first.lead()
	w := second.wait(r.ctx())
	second.store("s", "a mark")
	second.readFrom("s", 10, bus.First()).bodies("a mark")
	second.store("mine", "x")
	second.read("mine", 1).bodies("x")
	if _, err := second.EnsureQueue(r.ctx(), quorum("late")); err != nil {
		r.t.Error(err)
	}
	wantAlive(second, "q", second.read("q", 1))
	if len(w.over) != 0 {
		r.t.Errorf("TakeLock ended: %v", <-w.over)
	}
	first.close()
	if err := receive(r.t, "the lock to pass on", w.over); err != nil {
		r.t.Errorf("TakeLock: %v", err)
	}
}

// A cut ends the waiting session as well, which is a fault worth another try.
func lockFreedByCut(r *rig) {
	first, second := r.open(declare()), r.open(declare())
	first.lead()
	w := second.wait(r.ctx())
	r.cut()
	_ = first.waitEnd()
	cause := second.waitEnd()
	if err := receive(r.t, "TakeLock to fail", w.over); !errors.Is(err, bus.ErrClosed) ||
		err.Error() == bus.ErrClosed.Error() {
		r.t.Errorf("TakeLock gives %v, want ErrClosed with the reason (%v)", err, cause)
	}
	r.open(declare()).lead()
}

func lockWaitCancelled(r *rig) {
	first, second := r.open(declare()), r.open(declare(quorum("q")))
	first.lead()
	ctx, cancel := context.WithCancel(r.ctx())
	w := second.wait(ctx)
	cancel()
	if err := receive(r.t, "TakeLock to give up", w.over); !errors.Is(err, context.Canceled) {
		r.t.Errorf("TakeLock gives %v, want context.Canceled", err)
	}
	wantAlive(second, "q", second.read("q", 1))
	// A session that gave up leaves nothing behind that would take the lock later.
	first.close()
	third := r.open(declare())
	third.lead()
	third.close()
	if err := second.TakeLock(ctx, lockName, nil); !errors.Is(err, context.Canceled) {
		r.t.Errorf("TakeLock with a context that has ended gives %v, want context.Canceled", err)
	}
	second.lead()
}

func lockWaitClosed(r *rig) {
	first, second := r.open(declare()), r.open(declare())
	first.lead()
	w := second.wait(r.ctx())
	second.close()
	if err := receive(r.t, "TakeLock to fail", w.over); !errors.Is(err, bus.ErrClosed) {
		r.t.Errorf("TakeLock gives %v, want ErrClosed", err)
	}
	if err := second.TakeLock(r.ctx(), "another", nil); !errors.Is(err, bus.ErrClosed) {
		r.t.Errorf("TakeLock of a closed session gives %v, want ErrClosed", err)
	}
}

func lockTakenTwice(r *rig) {
	c := r.open(declare())
	c.lead()
	c.lead()
	other := r.open(declare())
	w := other.wait(r.ctx())
	c.close()
	if err := receive(r.t, "the lock to pass on", w.over); err != nil {
		r.t.Errorf("TakeLock: %v", err)
	}
}

func lockContended(r *rig) {
	const sessions = 6
	var holders, most atomic.Int32
	over := make(chan error, sessions)
	for range sessions {
		c := r.open(declare())
		go func() {
			err := c.TakeLock(r.ctx(), lockName, nil)
			if err == nil {
				most.Store(max(most.Load(), holders.Add(1)))
				holders.Add(-1)
				err = c.Close(r.ctx())
			}
			over <- err
		}()
	}
	for i := range sessions {
		if err := receive(r.t, fmt.Sprintf("holder %d", i+1), over); err != nil {
			r.t.Errorf("TakeLock: %v", err)
		}
	}
	if n := most.Load(); n != 1 {
		r.t.Errorf("%d sessions held the lock at once", n)
	}
}

func locksApart(r *rig) {
	for _, name := range []string{"one", "two"} {
		err := r.open(declare()).TakeLock(r.ctx(), name, func() { r.t.Errorf("lock %q was held", name) })
		if err != nil {
			r.t.Error(err)
		}
	}
}
