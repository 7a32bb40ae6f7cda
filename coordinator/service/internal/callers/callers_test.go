package callers

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/view"
)

var (
	errStopped = errors.New("stopped")
	errEnded   = errors.New("ended")
)

// A caller hears the answer if there is one, whatever else happens; else why there is none.
func TestCallersHear(t *testing.T) {
	for name, c := range map[string]struct {
		happens func(all *Callers, w *Caller, stop func())
		err     error
	}{
		"answered": {func(all *Callers, w *Caller,
			_ func()) {
			all.Answered(coordinator.CancelAnswered{Token: w.Token})
		}, nil},
		"the session ended":  {func(all *Callers, w *Caller, _ func()) { all.Void(w.Token) }, errEnded},
		"all sessions ended": {func(all *Callers, _ *Caller, _ func()) { all.VoidAll() }, errEnded},
		"the process stops":  {func(_ *Callers, _ *Caller, stop func()) { stop() }, errStopped},
		"answered, then ended": {func(all *Callers, w *Caller, _ func()) {
			all.Answered(coordinator.CancelAnswered{Token: w.Token})
			all.VoidAll()
		}, nil},
		"answered, and it stops": {func(all *Callers, w *Caller, stop func()) {
			all.Changed(&coordinator.QuotaControlsStand{Token: w.Token, Set: []coordinator.QuotaControl{{Target: "g"}}})
			stop()
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			stopped := make(chan struct{})
			all := New(stopped, errStopped, errEnded)
			w, other := all.Add("t"), all.Add("t")
			c.happens(all, w, func() { close(stopped) })
			a, err := w.Await()
			if !errors.Is(err, c.err) || err == nil && a.Token != w.Token {
				t.Errorf("%+v, %v", a, err)
			}
			if other.Token == w.Token || all.NextToken() == other.Token {
				t.Error("a token is given twice")
			}
			w.Remove()
			all.Answered(coordinator.CancelAnswered{Token: w.Token}) // to none: it must not block
		})
	}
}

// So many wait; one that has gone makes room.
func TestCallersAreBounded(t *testing.T) {
	all := New(nil, errStopped, errEnded)
	var last *Caller
	for range Most {
		last = all.Add("t")
	}
	if all.Add("t") != nil {
		t.Error("one more is admitted")
	}
	if last.Remove(); all.Add("t") == nil {
		t.Error("one has gone, and none is admitted")
	}
}

// What the caller of a cancel is answered when an agent has the task: what the agent reports in time, or that it
// cannot be told, or has not said anything.
func TestAgentsWord(t *testing.T) {
	for name, c := range map[string]struct {
		happens func(all *Callers, w *Caller, stop func())
		state   string
		outcome string
		took    time.Duration
	}{
		"cancelled": {func(all *Callers, _ *Caller, _ func()) { all.Completed("t", coordinator.OutcomeCancelled) },
			view.Cancelled,
			"cancelled", time.Second},
		"too late": {func(all *Callers, _ *Caller, _ func()) { all.Completed("t", coordinator.OutcomeSucceeded) },
			view.CancelTooLate,
			"succeeded", time.Second},
		"another task": {func(all *Callers, _ *Caller, _ func()) { all.Completed("u", coordinator.OutcomeSucceeded) },
			view.CancelRequested, "", AgentWait},
		"untold": {func(all *Callers, w *Caller, _ func()) { all.Untold(w.Token) }, view.CancelRequested, "", time.Second},
		"silent": {func(*Callers, *Caller, func()) {}, view.CancelRequested, "", AgentWait},
		"stops":  {func(_ *Callers, _ *Caller, stop func()) { stop() }, view.CancelRequested, "", time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				stopped := make(chan struct{})
				all := New(stopped, errStopped, errEnded)
				w := all.Add("t")
				time.AfterFunc(time.Second, func() { c.happens(all, w, func() { close(stopped) }) })
				begun := time.Now()
				got := w.Cancellation(context.Background(),
					coordinator.CancelAnswered{Token: w.Token, Task: "t", Agent: "a1", State: coordinator.CancelAsked}, nil)
				if got.State != c.state || got.Outcome != c.outcome || got.Agent != "a1" || time.Since(begun) != c.took {
					t.Errorf("%+v after %v", got, time.Since(begun))
				}
				time.Sleep(time.Second)
			})
		})
	}
}
