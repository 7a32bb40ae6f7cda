package agent

import (
	"log/slog"
	"time"
)

// drain brings the agent to rest: nothing new, handlers within DrainTimeout, then
// their ctx ends and their tasks go back, and the results are confirmed. It returns
// when all of that is done, or its time is over.
func (w *worker) drain() {
	w.mu.Lock()
	w.draining = true
	waiting := w.waiting
	w.waiting = nil
	w.stopCollecting()
	left := len(w.open)
	w.mu.Unlock()
	close(w.leaving) // offline at once; see heartbeats
	w.log.Info("the agent is stopping", slog.Int("unfinished_tasks", left),
		slog.Duration("drain_timeout", w.cfg.DrainTimeout))
	for _, d := range waiting {
		w.conclude(d, rejection(ErrStopping.Error()))
	}
	defer w.awaitFarewell()
	if w.awaitIdle(w.cfg.DrainTimeout) {
		return
	}
	w.mu.Lock()
	for d := range w.running {
		d.cancel(ErrStopping)
	}
	w.mu.Unlock()
	// Results that need a session get as long as a session's goodbye.
	if !w.awaitIdle(stopGrace + closeTimeout) {
		w.mu.Lock()
		left := len(w.open)
		w.mu.Unlock()
		w.log.Warn("the broker has not confirmed every result; it gives these tasks to others", slog.Int("tasks", left))
	}
}

// farewellTimeout is how long the last heartbeat may take when nothing else is left
// to wait for.
const farewellTimeout = time.Second

// awaitFarewell waits until the coordinator has been told, if there is a session.
func (w *worker) awaitFarewell() {
	w.mu.Lock()
	connected := w.link != nil
	w.mu.Unlock()
	if !connected {
		return
	}
	timeout := time.NewTimer(farewellTimeout)
	defer timeout.Stop()
	select {
	case <-w.farewell:
	case <-timeout.C:
	}
}

// awaitIdle waits, for so long at most, until every dispatch has ended and its
// result is confirmed.
func (w *worker) awaitIdle(limit time.Duration) bool {
	timeout := time.NewTimer(limit)
	defer timeout.Stop()
	for {
		w.mu.Lock()
		idle := len(w.open) == 0
		w.mu.Unlock()
		if idle {
			return true
		}
		select {
		case <-w.changed:
		case <-timeout.C:
			return false
		}
	}
}
