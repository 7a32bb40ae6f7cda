package service

import (
	"testing"

	"taskbus/coordinator/bus"
	"taskbus/messages"
	"taskbus/schemas"
	"taskbus/tests/support/membus"
)

// A coordinator that dies before its word on a task is confirmed leaves the task to the
// next one, which says it again: under the same trace id, although the producer gave none.
func TestTheSameEndHasTheSameTraceID(t *testing.T) {
	for name, body := range map[string]string{
		"that cannot be assigned": taskBody("t-1", "paint", ""),
		"that is not valid":       taskBody("t-1", "build", `,"priority":9`),
	} {
		t.Run(name, func(t *testing.T) {
			after(t, fleet, func(first *rig) {
				first.broker.SetConfirm(func(p bus.Publication) membus.Reply {
					if p.Type == schemas.AssignmentFailed {
						return membus.Withhold
					}
					return membus.Answer
				})
				first.publish(bus.QueueAssign, body)
				first.only(bus.QueueFailed)
			}, func(second *rig) {
				second.broker.SetConfirm(nil)
				second.start()
				second.settle()
				told := second.in(bus.QueueFailed)
				if len(told) != 2 {
					t.Fatalf("told %d times, want twice", len(told))
				}
				for _, m := range told {
					if id := m.text("correlation_id"); id != told[0].CorrelationID || m.CorrelationID != id ||
						!messages.ValidTraceID(id) {
						t.Errorf("trace ids %q and %q, want %q", id, m.CorrelationID, told[0].CorrelationID)
					}
				}
			})
		})
	}
}
