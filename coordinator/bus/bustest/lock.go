package bustest

import (
	"context"
	"errors"

	"taskbus/coordinator/bus"
)

func lockCases() []testCase {
	return []testCase{
		{name: "the second waits until the first is closed", run: lockPassedOn},
		{name: "a cut frees the lock", run: lockFreedByCut},
		{name: "waiting ends with its context", run: lockWaitCancelled},
		{name: "different locks do not meet", run: locksApart},
	}
}

const lockName = "leader"

// standby opens a session in the background that wants the lock, and returns
// when it has been told that it waits.
func (r *rig) standby(ctx context.Context) (opened <-chan *client, failed <-chan error, told <-chan struct{}) {
	r.t.Helper()
	ok, bad, waits := make(chan *client, 1), make(chan error, 1), make(chan struct{}, 16)
	go func() {
		c, err := r.tryOpen(ctx, bus.SessionSpec{Lock: lockName, OnStandby: func() { waits <- struct{}{} }})
		if err != nil {
			bad <- err
			return
		}
		ok <- c
	}()
	receive(r.t, "OnStandby", waits)
	return ok, bad, waits
}

func lockPassedOn(r *rig) {
	first := r.openSpec(bus.SessionSpec{
		Lock: lockName, Topology: declare(quorum("q")),
		OnStandby: func() { r.t.Error("OnStandby came although the lock was free") },
	})
	opened, failed, told := r.standby(r.ctx())
	first.store("q", "the holder works while another waits")
	select {
	case <-opened:
		r.t.Fatal("two sessions hold the lock")
	case err := <-failed:
		r.t.Fatalf("Open: %v", err)
	default:
	}
	first.close()
	second := receive(r.t, "the lock to pass on", opened)
	if again := len(told); again != 0 {
		r.t.Errorf("OnStandby was called %d times too often", again)
	}
	second.store("q", "x")
}

// A cut ends the waiting session as well, which is a fault worth another try.
func lockFreedByCut(r *rig) {
	first := r.openSpec(bus.SessionSpec{Lock: lockName})
	_, failed, _ := r.standby(r.ctx())
	r.cut()
	_ = first.waitEnd()
	if err := receive(r.t, "the waiting Open to fail", failed); err == nil {
		r.t.Error("a waiting Open outlived its connection")
	}
	r.openSpec(bus.SessionSpec{Lock: lockName})
}

func lockWaitCancelled(r *rig) {
	first := r.openSpec(bus.SessionSpec{Lock: lockName})
	ctx, cancel := context.WithCancel(r.ctx())
	_, failed, _ := r.standby(ctx)
	cancel()
	if err := receive(r.t, "Open to give up", failed); !errors.Is(err, context.Canceled) {
		r.t.Errorf("Open gives %v, want context.Canceled", err)
	}
	// Who gave up leaves nothing behind that would take the lock later.
	first.close()
	r.openSpec(bus.SessionSpec{Lock: lockName}).close()
}

func locksApart(r *rig) {
	for _, name := range []string{"one", "two"} {
		r.openSpec(bus.SessionSpec{Lock: name, OnStandby: func() { r.t.Errorf("lock %q was held", name) }})
	}
}
