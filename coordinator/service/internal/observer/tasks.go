package observer

import (
	"cmp"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/rs/zerolog"

	"taskbus/coordinator"
	"taskbus/coordinator/bus"
	"taskbus/coordinator/service/internal/intake"
	"taskbus/coordinator/service/internal/metrics"
	"taskbus/coordinator/service/internal/views"
	"taskbus/messages"
	"taskbus/schemas"
)

// Delivered counts a delivery by its queue; one out of an agent's queue is counted as a return alone.
func (o *Observer) Delivered(d *bus.Delivery) {
	queue := d.Queue
	if bus.LaneOf(queue) != "" {
		queue = metrics.Lanes
	}
	if received := o.metrics.Received[queue]; received != nil {
		received.Inc()
	}
	if (queue == bus.QueueAssign || queue == bus.QueueAssignHigh) && !d.Redelivered { // else it came before
		o.count.recent.add(o.now(), views.RecentReceived)
	}
	if d.Redelivered {
		o.count.redelivered.Add(1)
	}
	if queue == bus.StreamStatus {
		o.count.statuses.Add(1)
	}
}

// TakenBack counts a dispatch that is taken out of its agent's queue.
func (o *Observer) TakenBack() { o.count.takenBack.Add(1) }

// DispatchSettled writes down what became of a dispatch.
func (o *Observer) DispatchSettled(d *coordinator.Dispatch, outcome coordinator.PublishOutcome, now time.Time) {
	took := now.Sub(d.Task.AcceptedAt)
	if outcome != coordinator.PublishConfirmed {
		level := zerolog.WarnLevel
		if outcome == coordinator.PublishUnknown {
			level = zerolog.InfoLevel // the session has ended, which has a line of its own
		}
		o.ofTask(level, true).Str("trace_id", d.Task.CorrelationID).Str("task_id", string(d.Task.ID)).
			Str("agent_id", string(d.Agent)).Str("queue", d.Queue).Int("attempt", d.Attempt).
			Stringer("outcome", outcome).Msg("the dispatch was not delivered to its agent's queue")
		return
	}
	o.count.assignNanos.Add(int64(took))
	o.count.recent.add(o.now(), views.RecentAssigned)
	o.metrics.Assigned(d, now)
	e := o.ofTask(zerolog.InfoLevel, false).Str("trace_id", d.Task.CorrelationID).Str("task_id", string(d.Task.ID)).
		Str("agent_id", string(d.Agent)).Str("strategy", d.Decision.Strategy).
		Int("attempt", d.Attempt).Dur("duration_ms", took)
	if d.MaybeDuplicate {
		e = e.Bool("maybe_duplicate", true)
	}
	e.Msg("task assigned")
}

// Failed writes down a task that could not be assigned, once that is confirmed: held is its delivery, f its failure, or
// nil where no producer can be informed, refusal why its message could not be read, or nil where it could.
func (o *Observer) Failed(held *intake.Delivery, f *coordinator.Fail, refusal *messages.Refusal, now time.Time) {
	if refusal != nil {
		o.count.invalid.Add(1)
		o.metrics.Invalid.WithLabelValues(schemaOf(held.Message.Queue), refusal.Keyword).Inc()
	}
	if f == nil {
		o.parked(&held.Message, refusal)
		return
	}
	strategy := ""
	if f.Decision != nil {
		strategy = f.Decision.Strategy
	}
	took := now.Sub(held.Arrived)
	o.count.failed.add(f.Failure.Reason)
	if f.Failure.Reason.RetryPossible() || f.Failure.Reason == coordinator.ReasonNoEligibleAgents {
		o.count.recent.add(o.now(), views.RecentRefused)
	}
	o.metrics.Failed(f.Failure.Reason, strategy, took)
	switch f.Failure.Reason {
	case coordinator.ReasonCancelled:
		o.failure(o.ofTask(zerolog.InfoLevel, false), f).Msg("task cancelled")
	case coordinator.ReasonInvalidMessage, coordinator.ReasonUnknownTaskType, coordinator.ReasonDuplicateTask,
		coordinator.ReasonExceedsQuota, coordinator.ReasonQuotaExhausted:
		if o.logs(true) {
			e := o.failure(o.gated(noiseRefusedTask, zerolog.WarnLevel), f)
			if refusal != nil { // its producer must be found
				e = ofProducer(e, &held.Message)
			}
			e.Msg("task refused")
		}
	default:
		o.failure(o.ofTask(zerolog.ErrorLevel, true), f).Msg("task failed")
	}
}

// parked logs a message that was refused and put into task.dead, which nothing else reports.
func (o *Observer) parked(d *bus.Delivery, r *messages.Refusal) {
	e := o.gated(noiseParked, zerolog.WarnLevel)
	if e == nil {
		return
	}
	if e = identify(e.Str("queue", d.Queue), d, r); r.AgentID != "" {
		e = e.Str("agent_id", r.AgentID)
	}
	e.Str("reason", r.Text).Msg("message parked in task.dead; no assignment.failed tells of it (see `taskbus dead ls`)")
}

// maxLogged bounds what a sender can put into a field of a line, in bytes.
const maxLogged = 128

// identify adds to a line all that identifies a refused message and its sender, but for the agent that it
// names; none of it is of the payload.
func identify(e *zerolog.Event, d *bus.Delivery, r *messages.Refusal) *zerolog.Event {
	for _, f := range [...]struct{ name, value string }{
		{"routing_key", d.RoutingKey},
		{"user_id", d.UserID},
		{"app_id", d.AppID},
		{"message_id", d.MessageID},
		{"message_type", cmp.Or(r.MessageType, d.Type)},
		{"task_id", string(r.TaskID)},
		{"trace_id", cmp.Or(r.CorrelationID, d.CorrelationID)},
		{"came_back_from", messages.TextHeader(d.Headers, messages.HeaderDeathQueue)},
	} {
		if f.value != "" {
			e = e.Str(f.name, messages.Clean(f.value, maxLogged))
		}
	}
	return e
}

// failure adds to a line what is known of a failure.
func (o *Observer) failure(e *zerolog.Event, f *coordinator.Fail) *zerolog.Event {
	e = e.Str("trace_id", f.Task.CorrelationID).Str("task_id", string(f.Task.ID))
	if f.Failure.Agent != "" {
		e = e.Str("agent_id", string(f.Failure.Agent))
	}
	return e.Stringer("reason_code", f.Failure.Reason).Str("reason", f.Failure.Text).
		Bool("retry_possible", f.Failure.Reason.RetryPossible()).Int("attempts", f.Failure.Attempts)
}

// ofProducer adds to a line what identifies the producer of a message.
func ofProducer(e *zerolog.Event, d *bus.Delivery) *zerolog.Event {
	for _, f := range [...]struct{ name, value string }{
		{"user_id", d.UserID}, {"app_id", d.AppID}, {"message_id", d.MessageID}, {"reply_to", d.ReplyTo},
	} {
		if f.value != "" {
			e = e.Str(f.name, messages.Clean(f.value, maxLogged))
		}
	}
	return e
}

// schemaOf names the schema that a message in a queue should have followed.
func schemaOf(queue string) string {
	switch queue {
	case bus.QueueAssign, bus.QueueAssignHigh:
		return schemas.TaskAssign
	case bus.QueueRequest:
		return schemas.TaskCancel // bids and claims are not kept
	default: // came back, or was taken back
		return schemas.TaskDispatch
	}
}

// CannotEncode writes down that a task fails because its dispatch cannot be sent.
func (o *Observer) CannotEncode(d *coordinator.Dispatch, err *bus.EncodingError) {
	o.gated(noiseUnencodable, zerolog.WarnLevel).Err(err).Str("trace_id", d.Task.CorrelationID).
		Str("task_id", string(d.Task.ID)).
		Msg("the dispatch cannot be sent; the task fails")
}

// CannotPark writes down that a message of that queue cannot be kept as it is.
func (o *Observer) CannotPark(queue string, err *bus.EncodingError) {
	o.gated(noiseUnencodable, zerolog.WarnLevel).Err(err).Str("queue", queue).
		Msg(
			"the message cannot be published to task.dead as it is: the queue's dead-letter rule moves it or, where there " +
				"is none, a note of its size and hash stands for it")
}

// NotTaken logs that the broker did not take a notice, a few times a second.
func (o *Observer) NotTaken(queue string, outcome bus.Outcome) {
	o.gated(noiseNotTaken, zerolog.ErrorLevel).Str("queue", queue).Stringer("outcome", outcome).
		Msg("the broker does not take what must be published here; trying again, the tasks concerned stay unacknowledged")
}

// ReplyToRefused logs that a producer asked for its copy where none may go.
func (o *Observer) ReplyToRefused(t *coordinator.Task) {
	o.gated(noiseReplyTo, zerolog.WarnLevel).Str("trace_id", t.CorrelationID).Str("task_id", string(t.ID)).
		Str("reply_to", t.ReplyTo).
		Msg("reply_to names a queue of Taskbus or of an agent; no copy is sent")
}

func (o *Observer) duplicate(t *coordinator.Task) {
	o.count.duplicates.Add(1)
	o.metrics.Duplicates.Inc()
	if o.logs(false) {
		o.gated(noiseDuplicate, zerolog.InfoLevel).Str("trace_id", t.CorrelationID).Str("task_id", string(t.ID)).
			Msg("second copy of a known task dropped")
	}
}

// Survived writes down a fault of the program, and what becomes of the message. What it says of
// values is left out: they may be a payload's.
func (o *Observer) Survived(p any, queue, becomes string) {
	e := o.gated(noiseFault, zerolog.ErrorLevel).Str("queue", queue)
	if err, ok := p.(runtime.Error); ok {
		e = e.Err(err)
	}
	e.Bytes("stack", debug.Stack()).Msg("a fault of the program while one message was handled; " + becomes +
		". Please report it with this line")
}
