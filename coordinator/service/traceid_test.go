package service

import (
	"testing"

	"github.com/cespare/xxhash/v2"

	"taskbus/coordinator"
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

// Two tasks never share one, nor do two messages with the same task id.
func TestDerivedTraceIDs(t *testing.T) {
	seen := make(map[string]string)
	for _, m := range []struct{ task, body string }{
		{"t-1", "a"}, {"t-1", "b"}, {"t-2", "a"}, {"t-12", "a"}, {"t-", "1a"}, {"t-1", ""}, {"t-2", ""},
	} {
		derive := func() string { return derivedTraceID(coordinator.TaskID(m.task), xxhash.Sum64String(m.body)) }
		id := derive()
		if other, taken := seen[id]; taken || len(id) != 32 || id != derive() {
			t.Errorf("%q with %q has %q, as %q has (%v)", m.task, m.body, id, other, taken)
		}
		seen[id] = m.task + " " + m.body
	}
	// the first half of SHA-256 of "t-1" and eight bytes
	if got, want := derivedTraceID("t-1", 1), "14d1499096745e04b6659342ccdedcf8"; got != want {
		t.Errorf("%s, want %s: a later version must not tell of the same task under another", got, want)
	}
}
