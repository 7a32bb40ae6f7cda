package engine_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"taskbus/coordinator"
)

// TestUnsentDispatchComesBack: a task has failed because its dispatch could not be encoded, and a dispatch
// with its number comes back.
func TestUnsentDispatchComesBack(t *testing.T) {
	// Nothing was sent under that number, so it is the dispatch of a coordinator of which nothing is known.
	// It goes on, marked: dropping it could lose a task that was accepted under this id before.
	t.Run("no copy of it was sent", func(t *testing.T) {
		r := ready(t, policyOf(worker("a")))
		want(t, r.assign(job("t")), "dispatch t.1 a")
		d := r.latest()
		want(t, r.settle(d.Handle, coordinator.PublishNotSent), "fail t invalid_message")
		want(t, r.returns(d, coordinator.ReturnTakenBack, false), "dispatch t.2 a again?")
	})
	// A copy that was sent in a session before may have arrived. The failure has been announced for it, too.
	t.Run("an earlier copy of it was sent", func(t *testing.T) {
		r := ready(t, policyOf(worker("a")))
		want(t, r.assign(job("t")), "dispatch t.1 a")
		d := r.latest()
		r.settle(d.Handle, coordinator.PublishUnknown)
		want(t, r.redeliver(job("t")), "dispatch t.1 a again?")
		want(t, r.settle(r.latest().Handle, coordinator.PublishNotSent), "fail t invalid_message")
		want(t, r.returns(d, coordinator.ReturnTakenBack, false), "ack 3")
	})
}

// TestHistoriesReturnOnlyWhatWasSent: random histories must not give back a dispatch that was not sent, at
// whatever moment they answer it. The smallest in which they did: a task waits, its time comes, and before the
// engine is told so, an answer is drawn.
func TestHistoriesReturnOnlyWhatWasSent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := newHistory(t)
		p := policyOf(worker("a"))
		p.Routes["one"] = coordinator.Route{Batch: coordinator.Batch{MaxSize: 2, MaxWait: time.Second}}
		h.do(coordinator.PolicyChanged{Policy: &p.Policy})
		h.openSession(t)
		h.do(coordinator.AgentReported{Live: true, Report: h.idle("a")})
		h.handle++
		h.do(coordinator.TaskReceived{Handle: h.handle, Task: &job("t1").kind("one").accepted(h.now).Task})
		h.now = h.now.Add(time.Second)
		h.settleOne(t)
		h.do(coordinator.Tick{})
		if len(h.arrived) != 1 || h.l.receipts[h.handle].live != h.arrived[0] {
			t.Fatalf("%d dispatches may have arrived, want one, which is on its way", len(h.arrived))
		}
		h.do(coordinator.DispatchSettled{Handle: h.handle, Outcome: coordinator.PublishNotSent})
		if len(h.arrived) != 0 {
			t.Fatalf("%s was not sent, and may come back", h.arrived[0].DispatchID)
		}
	})
}
