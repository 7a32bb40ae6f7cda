package service

import (
	"testing"
	"time"

	"taskbus/coordinator/bus"
	"taskbus/coordinator/service/internal/outbox"
	"taskbus/schemas"
	"taskbus/tests/support/membus"
)

// TestRequestIsHeldUntilItHolds: a cancel by message is acknowledged when the broker
// has what follows from it, not before: nothing else would remember it.
func TestRequestIsHeldUntilItHolds(t *testing.T) {
	const cancel = `{"message_type":"task.cancel","task_id":"t-1"}`
	tests := []struct {
		name    string
		given   func(r *rig) // before the cancel
		awaited string       // what must be confirmed first; empty: nothing
	}{
		{"pending", func(r *rig) { r.task("t-1", "build", "") }, schemas.AssignmentFailed},
		{"with its agent", func(r *rig) {
			a1 := r.worker("a1", true)
			r.task("t-1", "build", "")
			a1.report("t-1")
		}, schemas.TaskCancel},
		{"with an agent that cannot be told", func(r *rig) {
			a1 := r.worker("a1", false)
			r.task("t-1", "build", "")
			a1.report("t-1")
		}, schemas.TaskCancel},
		{"not known", func(*rig) {}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			inRig(t, wide, func(r *rig) {
				tt.given(r)
				r.broker.SetConfirm(func(p bus.Publication) membus.Reply {
					if p.Type == tt.awaited {
						return membus.Withhold
					}
					return membus.Answer
				})
				r.publish(bus.QueueRequest, cancel)
				r.pass(time.Millisecond)
				if n := r.broker.Unacked(bus.QueueRequest); (n == 1) != (tt.awaited != "") {
					t.Errorf("%d requests are held", n)
				}
				r.broker.ReleaseConfirms()
				r.pass(time.Millisecond)
				r.empty(bus.QueueRequest)
				if n := r.broker.Unacked(bus.QueueRequest); n != 0 {
					t.Errorf("%d requests are held after the confirm", n)
				}
				r.broker.SetConfirm(nil)
				r.publish(bus.QueueRequest, cancel) // once more, for something that is known
				r.pass(time.Second)
				if n := r.broker.Unacked(bus.QueueRequest); n != 0 {
					t.Errorf("%d repeated requests are held", n)
				}
			})
		})
	}
}

// TestAgentsKeyIsForBidsAndClaims: by task.request.<id> of an agent no user withdraws tasks, nor bids for
// another agent, although agents.auth is off.
func TestAgentsKeyIsForBidsAndClaims(t *testing.T) {
	const cancel = `{"message_type":"task.cancel","task_id":"t-1"}`
	const claim = `{"message_type":"task.claim","agent_id":"a1","claim_id":"c","max_items":1,"pending_items":0}`
	for _, c := range []struct {
		key, body      string
		parked, forged float64
	}{
		{"task.request.a1", cancel, 1, 0},
		{"task.request.producer", cancel, 0, 0},
		{"task.request.a1", claim, 0, 0},
		{"task.request.a2", claim, 0, 1},
	} {
		t.Run(c.key, func(t *testing.T) {
			inRig(t, fleet, func(r *rig) {
				if err := r.outside.Publish(bus.Publication{Exchange: bus.ExchangeIn, Key: c.key, Body: []byte(c.body),
					Properties: bus.Properties{ContentType: outbox.ContentJSON}}); err != nil {
					t.Fatal(err)
				}
				r.pass(time.Second)
				if n := len(r.in(bus.QueueDead)); float64(n) != c.parked {
					t.Errorf("%d messages parked, want %v; log:\n%s", n, c.parked, r.log)
				}
				if n := scraped(t, r.service.options.Registry)[`taskbus_claims_total{limit="wrong_sender"}`]; n != c.forged {
					t.Errorf("%v claims by a wrong sender, want %v", n, c.forged)
				}
			})
		})
	}
}
