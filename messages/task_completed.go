package messages

import (
	"time"

	"taskbus/coordinator"
	"taskbus/schemas"
)

// TaskCompleted is a task.completed event: a task has ended by its agent's word.
// There is one for each such task.
type TaskCompleted struct {
	TaskID coordinator.TaskID
	// TaskType is empty when the coordinator remembered nothing but the id.
	TaskType      string
	CorrelationID string
	AgentID       coordinator.AgentID
	// Outcome is Succeeded, Failed or Cancelled.
	Outcome Outcome
	// Attempt whose result it is, from 1.
	Attempt int
	// DispatchID as the agent gave it; empty when it did not.
	DispatchID string
	// DurationMS is how long the work took, in milliseconds; 0 when not given.
	DurationMS float64
	// Error is for people; empty when there was none.
	Error string
	// Usage is nil when not given.
	Usage *Usage
	// Late: the dispatch had been presumed lost, and the task given to another agent.
	Late bool
	// Timestamp is when the coordinator learnt of it.
	Timestamp time.Time
}

// AppendTaskCompleted appends the task.completed event for c.
func AppendTaskCompleted(dst []byte, c *coordinator.Completed) []byte {
	r := &c.Result
	taskType, traceID := "", r.TraceID
	if c.Task != nil {
		taskType, traceID = c.Task.Type, c.Task.TraceID
	}
	dst = append(dst, '{')
	dst = appendField(dst, "message_type", schemas.TaskCompleted)
	dst = appendField(dst, "task_id", r.Task)
	dst = appendOptional(dst, "task_type", taskType)
	dst = appendField(dst, "correlation_id", traceOf(traceID, r.Task))
	dst = appendField(dst, "agent_id", r.Agent)
	dst = appendField(dst, "outcome", r.Outcome.String())
	dst = appendInt(dst, "attempt", c.Attempt)
	dst = appendOptional(dst, "dispatch_id", r.DispatchID)
	if r.Duration > 0 {
		dst = appendMilliseconds(dst, "duration_ms", r.Duration)
	}
	dst = appendOptional(dst, "error", Clean(r.Error, MaxText))
	if r.Usage != nil {
		dst = appendUsage(dst, "usage", r.Usage, nil, false)
	}
	if c.Late {
		dst = append(appendName(dst, "late"), boolean(true)...)
	}
	dst = appendTime(dst, "timestamp", c.At)
	return append(dst, '}')
}

// DecodeTaskCompleted reads a task.completed event.
func (d *Decoder) DecodeTaskCompleted(body []byte) (*TaskCompleted, *Refusal) {
	e, refusal := d.decode(schemas.TaskCompleted, body)
	if refusal != nil {
		return nil, refusal
	}
	m := &TaskCompleted{
		TaskID:        coordinator.TaskID(field[string](e, "task_id")),
		TaskType:      field[string](e, "task_type"),
		CorrelationID: field[string](e, "correlation_id"),
		AgentID:       coordinator.AgentID(field[string](e, "agent_id")),
		Outcome:       Outcome(field[string](e, "outcome")),
		Attempt:       integer(e, "attempt"),
		DispatchID:    field[string](e, "dispatch_id"),
		DurationMS:    number(e, "duration_ms"),
		Error:         Clean(field[string](e, "error"), MaxText),
		Usage:         (*Usage)(usage(e, "usage")),
		Late:          field[bool](e, "late"),
	}
	if m.Timestamp, refusal = timestamp(e, "timestamp"); refusal != nil {
		return nil, refusal
	}
	return m, nil
}
