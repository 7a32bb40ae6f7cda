package intake

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"math"
	"time"

	"github.com/cespare/xxhash/v2"

	"taskbus/coordinator"
	"taskbus/coordinator/bus"
	"taskbus/messages"
)

// Task returns the task of a delivery of task.assign, or of a lane, that has arrived then.
func Task(d *bus.Delivery, m *messages.TaskAssign, arrived time.Time) *coordinator.Task {
	content := xxhash.Sum64(d.Body)
	if bus.LaneOf(d.Queue) != "" {
		arrived = AcceptedAt(d, arrived)
	}
	return m.Task(messages.Arrival{
		Now:           arrived,
		ContentHash:   content,
		CorrelationID: d.CorrelationID,
		NewTraceID:    func() string { return DerivedTraceID(m.TaskID, content) },
		ReplyTo:       d.ReplyTo,
		TraceParent:   messages.TextHeader(d.Headers, messages.HeaderTraceParent),
		TraceState:    messages.TextHeader(d.Headers, messages.HeaderTraceState),
	})
}

// Received is the event of a task that is held.
func Received(h *Delivery) coordinator.TaskReceived {
	lane := bus.LaneOf(h.Message.Queue)
	return coordinator.TaskReceived{
		Handle: h.Handle, Task: h.Task, Redelivered: h.Message.Redelivered, Lane: lane,
		MaybeDuplicate: lane != "" && maybeDuplicate(&h.Message),
	}
}

// ReturnedTask returns the task of a dispatch that has come back then.
func ReturnedTask(d *bus.Delivery, m *messages.Returned, arrived time.Time) *coordinator.Task {
	task := m.Task
	task.TraceParent = messages.TextHeader(d.Headers, messages.HeaderTraceParent)
	task.TraceState = messages.TextHeader(d.Headers, messages.HeaderTraceState)
	if task.AcceptedAt.After(arrived) { // by another's clock: it would go after all others
		task.AcceptedAt = arrived
	}
	return task
}

// Returned is the event of a dispatch that has come back and is held.
func Returned(h *Delivery, m *messages.Returned, cause coordinator.ReturnCause) coordinator.TaskReturned {
	return coordinator.TaskReturned{
		Handle: h.Handle, Task: h.Task,
		Agent: m.Agent, Attempt: m.Attempt, Tried: m.Tried, Tries: m.Tries, Failed: m.Failed, Suspected: m.Suspected,
		Cause: cause, Redelivered: h.Message.Redelivered, MaybeDuplicate: maybeDuplicate(&h.Message),
	}
}

func maybeDuplicate(d *bus.Delivery) bool {
	maybe, _ := d.Headers[messages.HeaderMaybeDuplicate].(bool)
	return maybe
}

// ReturnCause returns why a dispatch has come back, by what the broker says.
func ReturnCause(headers map[string]any) coordinator.ReturnCause {
	switch messages.TextHeader(headers, messages.HeaderDeathReason) {
	case "expired", "maxlen": // by a policy of the broker's, out of the queue: its agent has turned nothing away
		return coordinator.ReturnExpired
	case "delivery_limit":
		return coordinator.ReturnDeliveryLimit
	default:
		return coordinator.ReturnRejected
	}
}

// AcceptedAt returns when a task that came out of a lane was accepted: what its message says, if
// that can be.
func AcceptedAt(d *bus.Delivery, arrived time.Time) time.Time {
	at, err := time.Parse(time.RFC3339Nano, messages.TextHeader(d.Headers, messages.HeaderAcceptedAt))
	if err != nil || at.After(arrived) || at.Unix() < 0 {
		return arrived
	}
	return at
}

// DerivedTraceID returns the trace id of a task that has none of its producer: 32 hexadecimal digits, made of its id
// and the hash of its message. The same message leads to the same trace id in every coordinator, so that
// the events of a task before a coordinator dies and after it belong together.
func DerivedTraceID(task coordinator.TaskID, content uint64) string {
	sum := sha256.Sum256(binary.BigEndian.AppendUint64([]byte(task), content))
	return hex.EncodeToString(sum[:16])
}

// Seconds returns a time given in seconds, from 0 to as long as a Duration may be.
func Seconds(s float64) time.Duration {
	switch ns := s * float64(time.Second); {
	case !(ns > 0): // NaN, too
		return 0
	case ns >= math.MaxInt64:
		return math.MaxInt64
	default:
		return time.Duration(ns)
	}
}
