package messages

import (
	"time"

	"taskbus/coordinator"
	"taskbus/schemas"
)

// AppendTaskDispatched appends the task.dispatched event: the broker has
// confirmed d at the given time. It carries no payload.
func AppendTaskDispatched(dst []byte, d *coordinator.Dispatch, at time.Time) []byte {
	dst = append(dst, '{')
	dst = appendField(dst, "message_type", schemas.TaskDispatched)
	dst = appendField(dst, "task_id", d.Task.ID)
	dst = appendField(dst, "task_type", d.Task.Type)
	dst = appendField(dst, "assigned_agent", d.Agent)
	dst = appendField(dst, "correlation_id", d.Task.CorrelationID)
	dst = appendField(dst, "queue", d.Queue)
	dst = appendField(dst, "strategy", d.Decision.Strategy)
	dst = appendField(dst, "dispatch_id", d.DispatchID)
	dst = appendInt(dst, "attempt", d.Attempt)
	dst = appendTime(dst, "timestamp", at)
	return append(dst, '}')
}
