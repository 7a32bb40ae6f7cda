package messages

import (
	"encoding/json"
	"time"

	"taskbus/coordinator"
	"taskbus/schemas"
)

// TaskCancel is a task.cancel message. On task.request a producer or an operator
// asks the coordinator to withdraw a task. On an agent's control queue the coordinator tells the agent to drop
// or stop it.
type TaskCancel struct {
	TaskID coordinator.TaskID `json:"task_id"`
	// Reason is for people; it is cleaned and cut at MaxText when it is sent.
	Reason string `json:"reason,omitempty"`
	// DispatchID says which attempt the agent is to drop; empty means whichever it
	// has. The coordinator withdraws the whole task and does not read it.
	DispatchID string `json:"dispatch_id,omitempty"`
	// CorrelationID is the trace id; empty when the message gives none.
	CorrelationID string `json:"correlation_id,omitempty"`
	// Unknown as of TaskAssign.
	Unknown []string `json:"-"`
}

// MarshalJSON adds message_type.
func (m TaskCancel) MarshalJSON() ([]byte, error) {
	type fields TaskCancel
	m.Reason = Clean(m.Reason, MaxText)
	return json.Marshal(struct {
		MessageType string `json:"message_type"`
		fields
	}{schemas.TaskCancel, fields(m)})
}

// AppendTaskCancel appends the task.cancel message that tells an agent of w.
func AppendTaskCancel(dst []byte, w *coordinator.Withdraw) []byte {
	dst = append(dst, '{')
	dst = appendField(dst, "message_type", schemas.TaskCancel)
	dst = appendField(dst, "task_id", w.Task)
	dst = appendOptional(dst, "reason", Clean(w.Reason, MaxText))
	dst = appendOptional(dst, "dispatch_id", w.DispatchID)
	dst = appendOptional(dst, "correlation_id", w.TraceID)
	return append(dst, '}')
}

// DecodeTaskCancel reads a task.cancel, of either direction.
func (d *Decoder) DecodeTaskCancel(body []byte) (*TaskCancel, *Refusal) {
	m, refusal := slow[TaskCancel](d, schemas.TaskCancel, body)
	if refusal == nil {
		m.Reason = Clean(m.Reason, MaxText)
	}
	return m, refusal
}

// TaskCancelRequested is a task.cancel_requested event: a task was withdrawn, but
// its agent has no control queue to be told by, so that it may still do it.
type TaskCancelRequested struct {
	TaskID        coordinator.TaskID  `json:"task_id"`
	CorrelationID string              `json:"correlation_id"`
	AgentID       coordinator.AgentID `json:"agent_id"`
	// Reason is for people; empty when none was given.
	Reason    string    `json:"reason"`
	Timestamp time.Time `json:"timestamp"`
}

// AppendTaskCancelRequested appends the task.cancel_requested event: at the given
// time no agent was there to receive w.
func AppendTaskCancelRequested(dst []byte, w *coordinator.Withdraw, at time.Time) []byte {
	dst = append(dst, '{')
	dst = appendField(dst, "message_type", schemas.TaskCancelRequested)
	dst = appendField(dst, "task_id", w.Task)
	dst = appendField(dst, "correlation_id", traceOf(w.TraceID, w.Task))
	dst = appendField(dst, "agent_id", w.Agent)
	dst = appendOptional(dst, "reason", Clean(w.Reason, MaxText))
	dst = appendTime(dst, "timestamp", at)
	return append(dst, '}')
}

// DecodeTaskCancelRequested reads a task.cancel_requested event.
func (d *Decoder) DecodeTaskCancelRequested(body []byte) (*TaskCancelRequested, *Refusal) {
	m, refusal := slow[TaskCancelRequested](d, schemas.TaskCancelRequested, body)
	if refusal == nil {
		m.Reason = Clean(m.Reason, MaxText)
	}
	return m, refusal
}

// traceOf is the trace id of a task of which it may not be known: then the task
// id stands in for it, as it does for a task that came without one.
func traceOf(traceID string, task coordinator.TaskID) string {
	if traceID == "" {
		return string(task)
	}
	return traceID
}
