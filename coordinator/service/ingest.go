package service

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	"github.com/cespare/xxhash/v2"

	"taskbus/coordinator"
	"taskbus/coordinator/bus"
	"taskbus/coordinator/failpoint"
	"taskbus/messages"
	"taskbus/schemas"
)

// The headers of a dispatch, by which it can be decided again when it returns,
// and those that a parked message gets.
const (
	headerTask           = messages.HeaderTask
	headerTried          = messages.HeaderTried
	headerMaybeDuplicate = "x-taskbus-maybe-duplicate"
	headerReason         = "x-taskbus-reason"
	headerReasonCode     = "x-taskbus-reason-code"
	headerSourceQueue    = "x-taskbus-source-queue"

	headerTraceParent = "traceparent"
	headerTraceState  = "tracestate"

	headerDeathReason = "x-first-death-reason" // set by the broker
	headerDeathQueue  = "x-first-death-queue"  // likewise
)

// onTask takes a delivery of task.assign, task.assign.high or a lane.
func (r *session) onTask(d bus.Delivery) {
	if r.draining.Load() {
		return // unacknowledged: the broker gives it to the next session
	}
	failpoint.Hit(failpoint.AfterDeliver)
	lane := bus.LaneOf(d.Queue)
	if lane != "" {
		failpoint.Hit(failpoint.AfterLaneDeliver)
	}
	if d.Queue == bus.QueueAssign {
		r.window.observe(len(d.Body))
	}
	h := &heldDelivery{delivery: d, arrived: r.s.now()}
	defer r.survive(h)
	r.noteDelivery(&d)
	m, refusal := r.decodeTask(&d)
	if refusal != nil {
		r.refuse(h, refusal)
		return
	}
	h.payload = m.Payload
	content, accepted := xxhash.Sum64(d.Body), h.arrived
	if lane != "" {
		accepted = acceptedAt(&d, h.arrived)
	}
	h.task = m.Task(messages.Arrival{
		Now:           accepted,
		ContentHash:   content,
		CorrelationID: d.CorrelationID,
		NewTraceID:    func() string { return derivedTraceID(m.TaskID, content) },
		ReplyTo:       d.ReplyTo,
		TraceParent:   textHeader(d.Headers, headerTraceParent),
		TraceState:    textHeader(d.Headers, headerTraceState),
	})
	failpoint.Task(string(h.task.ID))
	if !r.hold(h) {
		return
	}
	failpoint.Hit(failpoint.AfterValidate)
	maybe, _ := d.Headers[headerMaybeDuplicate].(bool)
	ev := coordinator.TaskReceived{
		Handle: h.handle, Task: h.task, Redelivered: d.Redelivered, Lane: lane, MaybeDuplicate: lane != "" && maybe,
	}
	r.s.loop.within(r.number, func(now time.Time) {
		r.s.loop.apply(now, ev)
		if e := r.s.loop.engine; e.Holds(ev.Handle) { // else it says nothing of a task that is known
			r.s.history.accepted(ev.Task, e.Waits(ev.Handle))
		}
	})
}

// noteDelivery counts a delivery by its queue; one out of an agent's queue is
// counted as a return alone.
func (r *session) noteDelivery(d *bus.Delivery) {
	queue := d.Queue
	if bus.LaneOf(queue) != "" {
		queue = queueLanes
	}
	if received := r.s.metrics.received[queue]; received != nil {
		received.Inc()
	}
	if (queue == bus.QueueAssign || queue == bus.QueueAssignHigh) && !d.Redelivered { // else it came before
		r.s.count.recent.add(recentReceived)
	}
	if d.Redelivered {
		r.s.count.redelivered.Add(1)
	}
}

// hold keeps the delivery until it is settled; false when the session is over.
func (r *session) hold(h *heldDelivery) bool {
	return r.held.add(h)
}

// decodeTask refuses what is not plain JSON before looking at the bytes.
func (r *session) decodeTask(d *bus.Delivery) (*messages.TaskAssign, *messages.Refusal) {
	if refusal := checkProperties(d); refusal != nil {
		return nil, refusal
	}
	return r.readTask(d)
}

// checkProperties refuses a message for what is around its body: an encoding, or a key that is not of its
// queue. The broker compares the key alone with the rights of its user, and not what CC and BCC add to it.
// Producers that set no content type at all are as welcome as those that do.
func checkProperties(d *bus.Delivery) *messages.Refusal {
	if e := d.ContentEncoding; e != "" && !strings.EqualFold(e, "identity") && !strings.EqualFold(e, "utf-8") {
		return &messages.Refusal{Keyword: "contentEncoding", Priority: messages.PriorityUnread, Text: fmt.Sprintf(
			"content_encoding %q is not supported: send plain JSON", messages.Clean(e, 64))}
	}
	if bus.Inwards(d.Exchange) && d.RoutingKey != d.Queue && !strings.HasPrefix(d.RoutingKey, d.Queue+".") {
		return &messages.Refusal{Keyword: "routing_key", Priority: messages.PriorityUnread, Text: fmt.Sprintf(
			"it came to %s by the key %q: publish by the key of the queue, without CC and BCC", d.Queue,
			messages.Clean(d.RoutingKey, 64))}
	}
	return nil
}

// onReturned takes a delivery of task.reassign: a dispatch that its agent
// refused, did not take in time, or lost.
func (r *session) onReturned(d bus.Delivery) {
	if r.draining.Load() {
		return
	}
	r.returns.observe(len(d.Body))
	r.takeReturn(d, returnCause(d.Headers))
}

// takeReturn takes a dispatch that came back, from wherever.
func (r *session) takeReturn(d bus.Delivery, cause coordinator.ReturnCause) {
	failpoint.Hit(failpoint.AfterDeliver)
	h := &heldDelivery{delivery: d, arrived: r.s.now(), returned: true}
	defer r.survive(h)
	r.s.metrics.returned[cause].Inc()
	r.noteDelivery(&d)
	m, refusal := r.s.decoder.DecodeReturned(d.Body, textHeader(d.Headers, headerTask), textHeader(d.Headers, headerTried))
	if refusal != nil {
		r.refuse(h, refusal)
		return
	}
	task := m.Task
	task.TraceParent = textHeader(d.Headers, headerTraceParent)
	task.TraceState = textHeader(d.Headers, headerTraceState)
	if task.AcceptedAt.After(h.arrived) { // by another's clock: it would go after all others
		task.AcceptedAt = h.arrived
	}
	h.task, h.payload = task, m.Payload
	if !r.hold(h) {
		return
	}
	ev := coordinator.TaskReturned{
		Handle: h.handle, Task: task,
		Agent: m.Agent, Attempt: m.Attempt, Tried: m.Tried, Tries: m.Tries, Failed: m.Failed, Suspected: m.Suspected,
		Cause: cause, Redelivered: d.Redelivered,
	}
	ev.MaybeDuplicate, _ = d.Headers[headerMaybeDuplicate].(bool)
	failpoint.Hit(failpoint.AfterValidate)
	r.s.loop.within(r.number, func(now time.Time) {
		if !r.s.loop.engine.IsOver(now, &ev) { // else it says nothing of the task
			r.s.history.returned(&ev, now)
		}
		r.s.loop.apply(now, ev)
	})
}

func returnCause(headers map[string]any) coordinator.ReturnCause {
	switch textHeader(headers, headerDeathReason) {
	case "expired", "maxlen": // by a policy of the broker's, out of the queue: its agent has turned nothing away
		return coordinator.ReturnExpired
	case "delivery_limit":
		return coordinator.ReturnDeliveryLimit
	default:
		return coordinator.ReturnRejected
	}
}

// refuse holds a message that cannot be read and has it parked.
func (r *session) refuse(h *heldDelivery, refusal *messages.Refusal) {
	if r.hold(h) {
		r.outbox.add(outgoing{refused: refusal, held: h})
	}
}

// onStatus takes a delivery of agent.status: a heartbeat, or a fence of ours or
// of another coordinator.
func (r *session) onStatus(d bus.Delivery) {
	defer r.bus.Ack(d.Tag) // in a stream an acknowledgement only asks for more
	defer r.surviveReport(&d)
	if r.statuses.takes(&d) {
		return
	}
	r.s.count.statuses.Add(1)
	r.noteDelivery(&d)
	var m messages.AgentStatus
	refusal := checkProperties(&d)
	if refusal == nil {
		refusal = r.s.decoder.DecodeAgentStatus(d.Body, &m)
	}
	if refusal != nil {
		r.s.observe.invalidStatus(refusal)
		return
	}
	r.knows(schemas.AgentStatus, m.Unknown, string(m.AgentID), &d)
	if !r.genuine(&m, &d) {
		return
	}
	failpoint.Hit(failpoint.AfterValidate)
	r.s.loop.post(r.number, coordinator.AgentReported{Report: m.Report(d.UserID), Live: r.statuses.caughtUp.Load()})
}

// textHeader reads a header that should be text; any other type is as good as
// absent.
func textHeader(headers map[string]any, name string) string {
	switch v := headers[name].(type) {
	case string:
		return v
	case []byte:
		return string(v)
	}
	return ""
}

// derivedTraceID returns the trace id of a task that has none of its producer: 32 hexadecimal digits, made of its id
// and the hash of its message. The same message leads to the same trace id in every coordinator, so that
// the events of a task before a coordinator dies and after it belong together.
func derivedTraceID(task coordinator.TaskID, content uint64) string {
	sum := sha256.Sum256(binary.BigEndian.AppendUint64([]byte(task), content))
	return hex.EncodeToString(sum[:16])
}

// randomID is 32 random hexadecimal digits: the name of a fence.
func randomID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails (crypto/rand)
	return hex.EncodeToString(b[:])
}
