package messages

import (
	"time"

	"taskbus/coordinator"
	"taskbus/schemas"
)

// TaskCompleted is a task.completed event: a task has ended by its agent's word.
// There is one for each such task.
type TaskCompleted struct {
	TaskID coordinator.TaskID `json:"task_id"`
	// TaskType is empty when the coordinator remembered nothing but the id.
	TaskType string `json:"task_type"`
	Carried
	AgentID coordinator.AgentID `json:"agent_id"`
	// Outcome is Succeeded, Failed or Cancelled.
	Outcome Outcome `json:"outcome"`
	// Attempt whose result it is, from 1.
	Attempt int `json:"attempt"`
	// DispatchID as the agent gave it; empty when it did not.
	DispatchID string `json:"dispatch_id"`
	// DurationMS is how long the work took, in milliseconds; 0 when not given.
	DurationMS float64 `json:"duration_ms"`
	// Error is for people; empty when there was none.
	Error string `json:"error"`
	// Usage is nil when not given.
	Usage *Usage `json:"usage"`
	// Late: the dispatch had been presumed lost, and the task given to another agent.
	Late bool `json:"late"`
	// Timestamp is when the coordinator learnt of it.
	Timestamp time.Time `json:"timestamp"`
}

// AppendTaskCompleted appends the task.completed event for c.
func AppendTaskCompleted(dst []byte, c *coordinator.Completed) []byte {
	r := &c.Result
	taskType, carried := "", Carried{CorrelationID: r.TraceID}
	if c.Task != nil {
		taskType, carried = c.Task.Type, c.Task.Carried
	}
	carried.CorrelationID = traceOf(carried.CorrelationID, r.Task)
	dst = append(dst, '{')
	dst = appendField(dst, "message_type", schemas.TaskCompleted)
	dst = appendField(dst, "task_id", r.Task)
	dst = appendOptional(dst, "task_type", taskType)
	dst = appendCarried(dst, &carried)
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
	m, refusal := slow[TaskCompleted](d, schemas.TaskCompleted, body)
	if refusal == nil {
		m.Error = Clean(m.Error, MaxText)
	}
	return m, refusal
}
