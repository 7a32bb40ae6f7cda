package intake

import (
	"math"
	"testing"
	"time"

	"github.com/cespare/xxhash/v2"

	"taskbus/coordinator"
	"taskbus/coordinator/bus"
	"taskbus/messages"
)

// What the broker drops out of a queue, because of its age or of a limit that a policy sets, is no
// refusal of the agent's.
func TestReturnCauses(t *testing.T) {
	for reason, want := range map[string]coordinator.ReturnCause{
		"rejected": coordinator.ReturnRejected, "expired": coordinator.ReturnExpired, "maxlen": coordinator.ReturnExpired,
		"delivery_limit": coordinator.ReturnDeliveryLimit, "": coordinator.ReturnRejected,
	} {
		if got := ReturnCause(map[string]any{messages.HeaderDeathReason: reason}); got != want {
			t.Errorf("%q is %v, want %v", reason, got, want)
		}
	}
}

// Two tasks never share one, nor do two messages with the same task id.
func TestDerivedTraceIDs(t *testing.T) {
	seen := make(map[string]string)
	for _, m := range []struct{ task, body string }{
		{"t-1", "a"}, {"t-1", "b"}, {"t-2", "a"}, {"t-12", "a"}, {"t-", "1a"}, {"t-1", ""}, {"t-2", ""},
	} {
		derive := func() string { return DerivedTraceID(coordinator.TaskID(m.task), xxhash.Sum64String(m.body)) }
		id := derive()
		if other, taken := seen[id]; taken || len(id) != 32 || id != derive() {
			t.Errorf("%q with %q has %q, as %q has (%v)", m.task, m.body, id, other, taken)
		}
		seen[id] = m.task + " " + m.body
	}
	// the first half of SHA-256 of "t-1" and eight bytes
	if got, want := DerivedTraceID("t-1", 1), "14d1499096745e04b6659342ccdedcf8"; got != want {
		t.Errorf("%s, want %s: a later version must not tell of the same task under another", got, want)
	}
}

// TestAcceptedAtOfALane: what the header of a message in a lane says is believed if it can be.
func TestAcceptedAtOfALane(t *testing.T) {
	now := time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)
	for said, want := range map[string]time.Time{
		"2030-01-01T11:00:00Z": now.Add(-time.Hour),
		"2031-01-01T11:00:00Z": now, // by a clock that was ahead
		"0001-01-01T00:00:00Z": now, // of which no rank can be made
		"1h ago":               now,
	} {
		d := bus.Delivery{Properties: bus.Properties{Headers: map[string]any{messages.HeaderAcceptedAt: said}}}
		if got := AcceptedAt(&d, now); !got.Equal(want) {
			t.Errorf("%s: %v, want %v", said, got, want)
		}
	}
}

func TestSeconds(t *testing.T) {
	for s, want := range map[float64]time.Duration{
		0: 0, -1: 0, math.NaN(): 0, math.Inf(-1): 0,
		0.001: time.Millisecond, 60: time.Minute, 1e9: 1e9 * time.Second,
		9.3e9: math.MaxInt64, 1e300: math.MaxInt64, math.Inf(1): math.MaxInt64,
		float64(math.MaxInt64) / 1e9: math.MaxInt64, // 2^63 ns is one too many
	} {
		if got := Seconds(s); got != want {
			t.Errorf("Seconds(%v) = %d, want %d", s, got, want)
		}
	}
}

// What a delivery says becomes an event with what is around its body: a task out of a lane keeps the time at which it
// was accepted, and what comes back by another's clock is not older than its arrival.
func TestEventsOfDeliveries(t *testing.T) {
	now := time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)
	before := now.Add(-time.Hour)
	assign := &messages.TaskAssign{TaskID: "t-1", TaskType: "build"}
	d := bus.Delivery{Queue: bus.LaneQueue("g").Name, Redelivered: true, Body: []byte("{}"),
		Properties: bus.Properties{Headers: map[string]any{
			messages.HeaderAcceptedAt: before.Format(time.RFC3339Nano), messages.HeaderMaybeDuplicate: true,
			messages.HeaderTraceParent: []byte("00-trace"), messages.HeaderTraceState: 7,
		}}}
	h := &Delivery{Handle: 3, Message: d, Task: Task(&d, assign, now)}
	if ev := Received(h); ev.Lane == "" || !ev.MaybeDuplicate || !ev.Redelivered || ev.Handle != 3 ||
		!ev.Task.AcceptedAt.Equal(before) || ev.Task.TraceParent != "00-trace" || ev.Task.TraceState != "" {
		t.Errorf("out of a lane: %+v, %+v", ev, ev.Task)
	}
	d.Queue = bus.QueueAssign
	h = &Delivery{Message: d, Task: Task(&d, assign, now)}
	if ev := Received(h); ev.Lane != "" || ev.MaybeDuplicate || !ev.Task.AcceptedAt.Equal(now) {
		t.Errorf("of task.assign, whose producer says what only a lane may: %+v", ev)
	}
	for accepted, want := range map[time.Time]time.Time{before: before, now.Add(time.Hour): now} {
		m := &messages.Returned{Task: &coordinator.Task{ID: "t-1", AcceptedAt: accepted}, Agent: "a1", Attempt: 2}
		h := &Delivery{Message: d, Task: ReturnedTask(&d, m, now)}
		if ev := Returned(h, m, coordinator.ReturnExpired); !ev.Task.AcceptedAt.Equal(want) || ev.Attempt != 2 ||
			ev.Agent != "a1" || !ev.MaybeDuplicate || ev.Cause != coordinator.ReturnExpired {
			t.Errorf("accepted at %s: %+v", accepted, ev)
		}
	}
}
