package messages

import (
	"encoding/json"
	"math"
	"time"

	"taskbus/coordinator"
	"taskbus/messages/internal/jsontext"
	"taskbus/schemas"
)

// TaskDispatch is a task.dispatch message as an agent reads it.
type TaskDispatch struct {
	TaskID        coordinator.TaskID  `json:"task_id"`
	AssignedAgent coordinator.AgentID `json:"assigned_agent"`
	Carried
	AssignmentTime time.Time `json:"assignment_time"`
	Queue          string    `json:"queue"`
	TaskType       string    `json:"task_type"`
	// Description is what bidders are told of the task; empty when there is none.
	Description string `json:"description,omitempty"`
	// Payload is the producer's JSON object, byte for byte: a part of the body.
	Payload        json.RawMessage      `json:"payload"`
	Priority       coordinator.Priority `json:"priority"`
	TimeoutSeconds float64              `json:"timeout_seconds"`
	// Deadline is zero when the task has none.
	Deadline time.Time `json:"deadline,omitzero"`
	// DispatchID names this attempt: a copy that arrives twice has the same one.
	DispatchID string `json:"dispatch_id"`
	// Attempt counts from 1.
	Attempt int `json:"attempt"`
	// BatchID is what the dispatches of one batch share, and BatchSize, at least 2,
	// how many they are; empty and 0 for a task that goes alone.
	BatchID   string `json:"batch_id,omitempty"`
	BatchSize int    `json:"batch_size,omitempty"`
	// Explanation says why this agent has it; empty when it does not say.
	Explanation string `json:"explanation,omitempty"`
	// Provider, with the key to use (openai@main) where it has several, and Model are what was chosen of
	// the task's alternatives; empty where it has none. The model may be empty beside a provider.
	Provider string `json:"provider,omitempty"`
	Model    string `json:"model,omitempty"`
}

// MaxExplanation is the length of a dispatch's explanation in bytes, at most, as it stands in the message.
const MaxExplanation = 512

// AppendDispatch appends the task.dispatch message for d. The payload's bytes go
// out as they are: they must be a JSON object, as decoding a task.assign gives
// it; an empty payload becomes {}.
func AppendDispatch(dst []byte, d *coordinator.Dispatch, payload []byte) []byte {
	return appendDispatch(dst, d, payload, false)
}

// AppendExplainedDispatch is AppendDispatch with why the agent was chosen, and why no other, where that is known.
func AppendExplainedDispatch(dst []byte, d *coordinator.Dispatch, payload []byte) []byte {
	return appendDispatch(dst, d, payload, d.Decision != nil)
}

func appendDispatch(dst []byte, d *coordinator.Dispatch, payload []byte, explained bool) []byte {
	t := d.Task
	dst = append(dst, '{')
	dst = appendField(dst, "message_type", schemas.TaskDispatch)
	dst = appendField(dst, "task_id", t.ID)
	dst = appendField(dst, "assigned_agent", d.Agent)
	dst = appendCarried(dst, &t.Carried)
	dst = appendTime(dst, "assignment_time", d.At)
	dst = appendField(dst, "queue", d.Queue)
	dst = appendField(dst, "task_type", t.Type)
	dst = appendOptional(dst, "description", t.Description)
	dst = appendInt(dst, "priority", int(t.Priority))
	dst = appendSeconds(dst, "timeout_seconds", d.Timeout)
	if !t.Deadline.IsZero() {
		dst = appendTime(dst, "deadline", t.Deadline)
	}
	dst = appendField(dst, "dispatch_id", d.DispatchID)
	dst = appendInt(dst, "attempt", d.Attempt)
	if d.BatchSize > 0 {
		dst = appendField(dst, "batch_id", d.BatchID)
		dst = appendInt(dst, "batch_size", d.BatchSize)
	}
	if explained {
		var room [MaxExplanation]byte
		dst = appendCut(appendName(dst, "explanation"), appendBrief(room[:0], d.Decision), MaxExplanation)
	}
	dst = appendOptional(dst, "provider", d.Service.Provider)
	dst = appendOptional(dst, "model", d.Service.Model)
	dst = appendName(dst, "payload")
	if len(payload) == 0 {
		return append(dst, "{}}"...)
	}
	dst = append(dst, payload...)
	return append(dst, '}')
}

// LifeOf is which life of the task id a dispatch id names: tasks that one id was given to after
// another differ in it. 0: none is named.
func LifeOf(task TaskID, dispatchID string) int64 {
	life, _, _ := coordinator.ParseDispatchID(task, dispatchID)
	return life
}

// DecodeTaskDispatch reads a task.dispatch. The result holds a part of body,
// which must not be changed afterwards. Whatever was accepted as a task.assign
// under the decoder's limits is accepted as its dispatch, too.
func (d *Decoder) DecodeTaskDispatch(body []byte) (*TaskDispatch, *Refusal) {
	if m, ok := d.fastTaskDispatch(body); ok {
		return m, nil
	}
	return d.slowTaskDispatch(body)
}

// leastBatch is the smallest batch: what goes alone is in none.
const leastBatch = 2

func (d *Decoder) fastTaskDispatch(body []byte) (*TaskDispatch, bool) {
	m := new(TaskDispatch)
	_, ok := d.fast(body, d.limits.dispatched(), 12, func(s *scanner, key jsontext.Text) (required, ok bool) {
		return s.dispatchField(m, key, d.dispatchFields)
	})
	return m, ok
}

// dispatchField reads one field of a task.dispatch.
func (s *scanner) dispatchField(m *TaskDispatch, key jsontext.Text, known []string) (required, ok bool) {
	var raw []byte
	switch string(key.Raw) {
	case "message_type":
		return true, s.Is(schemas.TaskDispatch)
	case "task_id":
		raw, ok = s.id(maxID)
		m.TaskID = coordinator.TaskID(raw)
		return true, ok
	case "assigned_agent":
		raw, ok = s.id(maxID)
		m.AssignedAgent = coordinator.AgentID(raw)
		return true, ok && !reservedAgentID(string(raw))
	case "assignment_time":
		m.AssignmentTime, ok = s.time()
		return true, ok
	case "queue":
		raw, ok = s.printable()
		m.Queue = string(raw)
		return true, ok
	case "task_type":
		m.TaskType, ok = s.name("")
		return true, ok
	case "description":
		m.Description, ok = s.description()
	case "payload":
		m.Payload, ok = s.payload()
		return true, ok
	case "priority":
		var p int
		p, ok = s.Whole(maxPriority)
		m.Priority = coordinator.Priority(p)
		return true, ok
	case "timeout_seconds":
		m.TimeoutSeconds, ok = s.Decimal(math.MaxFloat64)
		return true, ok && m.TimeoutSeconds > 0
	case "deadline":
		m.Deadline, ok = s.time()
	case "dispatch_id":
		raw, ok = s.id(maxDispatchID)
		m.DispatchID = string(raw)
		return true, ok
	case "attempt":
		m.Attempt, ok = s.Whole(maxCount)
		return true, ok && m.Attempt > 0
	case "batch_id":
		raw, ok = s.id(maxDispatchID)
		m.BatchID = string(raw)
	case "batch_size":
		m.BatchSize, ok = s.Whole(maxCount)
		ok = ok && m.BatchSize >= leastBatch
	case "explanation":
		m.Explanation, ok = s.textOf(MaxExplanation)
	case "provider":
		m.Provider, ok = s.name("")
	case "model":
		m.Model, ok = s.name("")
	default:
		return s.carried(&m.Carried, key, known)
	}
	return false, ok
}

func (d *Decoder) slowTaskDispatch(body []byte) (*TaskDispatch, *Refusal) {
	e, refusal := d.decodeWithin(d.limits.dispatched(), schemas.TaskDispatch, body)
	if refusal != nil {
		return nil, refusal
	}
	m := &TaskDispatch{Payload: e.payload}
	if refusal = e.into(m); refusal != nil {
		return nil, refusal
	}
	return m, nil
}
