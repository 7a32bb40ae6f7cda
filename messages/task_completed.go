package messages

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
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
	// Output is what the agent found out, byte for byte, and OutputRef where more is: in the answer to the task's
	// reply_to, never in the event. nil when there is none.
	Output    json.RawMessage `json:"output"`
	OutputRef *OutputRef      `json:"output_ref"`
	// OutputUnknown: in the answer to a copy of a task, of which nothing is known any more.
	OutputUnknown bool `json:"output_unknown"`
	// OutputSize, in bytes, and OutputSHA256, in hexadecimal, are of the output; 0 and empty when there is none.
	OutputSize   int64  `json:"output_size"`
	OutputSHA256 string `json:"output_sha256"`
	// Late: the dispatch had been presumed lost, and the task given to another agent.
	Late bool `json:"late"`
	// Timestamp is when the coordinator learnt of it.
	Timestamp time.Time `json:"timestamp"`
}

// AppendTaskCompleted appends the task.completed event for c: its output's size and hash are in it, the output is not.
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
	if o := r.Output; o != nil && (len(o.Value) > 0 || o.Ref != nil) {
		size, hash := sizeAndHash(o)
		dst = appendField(appendInt(dst, "output_size", int(size)), "output_sha256", hash)
	}
	if c.Late {
		dst = append(appendName(dst, "late"), boolean(true)...)
	}
	return append(appendTime(dst, "timestamp", c.At), '}')
}

// AppendAnswer appends the task.completed that answers the producer: the event, as AppendTaskCompleted has written it,
// and the output, which may be nil.
func AppendAnswer(dst, event []byte, o *coordinator.Output) []byte {
	if o == nil {
		return append(dst, event...)
	}
	dst = append(dst, event[:len(event)-1]...)
	if len(o.Value) > 0 {
		dst = append(appendName(dst, "output"), o.Value...)
	}
	if o.Unknown {
		dst = append(appendName(dst, "output_unknown"), boolean(true)...)
	}
	if o.Ref != nil {
		dst = append(appendName(dst, "output_ref"), '{')
		dst = appendField(dst, "uri", o.Ref.URI)
		dst = appendField(dst, "sha256", o.Ref.SHA256)
		dst = append(appendInt(dst, "size", int(o.Ref.Size)), '}')
	}
	return append(dst, '}')
}

// sizeAndHash are those of an output, or, without one, what its agent says of what is elsewhere.
func sizeAndHash(o *coordinator.Output) (size int64, hash string) {
	if len(o.Value) == 0 && o.Ref != nil {
		return o.Ref.Size, o.Ref.SHA256
	}
	sum := sha256.Sum256(o.Value)
	return int64(len(o.Value)), hex.EncodeToString(sum[:])
}

// DecodeTaskCompleted reads a task.completed, of which the output is a part of body.
func (d *Decoder) DecodeTaskCompleted(body []byte) (*TaskCompleted, *Refusal) {
	m, refusal := slowWithin[TaskCompleted](d, d.limits.withOutput(), schemas.TaskCompleted, body)
	if refusal == nil {
		m.Error = Clean(m.Error, MaxText)
	}
	return m, refusal
}
