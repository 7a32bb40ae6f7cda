package messages

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"time"

	"taskbus/coordinator"
	"taskbus/messages/internal/jsontext"
	"taskbus/schemas"
)

// What a task.progress may have at most.
const (
	MaxProgressText = 512     // characters of the message
	MaxProgressData = 4 << 10 // bytes of the data
	maxPercent      = 100
)

// TaskProgress is a task.progress message: how far an agent has got with a task. The coordinator passes it on to the
// task's reply_to and, without Data, as an event.
type TaskProgress struct {
	TaskID  coordinator.TaskID  `json:"task_id"`
	AgentID coordinator.AgentID `json:"agent_id"`
	// CorrelationID is the task's trace id.
	CorrelationID string `json:"correlation_id"`
	// Timestamp is when it was so, by the agent's clock.
	Timestamp time.Time `json:"timestamp"`
	// DispatchID of the dispatch it is about; empty when the agent does not say.
	DispatchID string `json:"dispatch_id,omitempty"`
	// Percent of the work that is done, 0 to 100; nil when not given.
	Percent *float64 `json:"percent,omitempty"`
	// Message is for people.
	Message string `json:"message,omitempty"`
	// Data is a JSON object, byte for byte, and a part of the body that was decoded; nil when not given.
	Data json.RawMessage `json:"data,omitempty"`
	// Unknown as of TaskAssign.
	Unknown []string `json:"-"`
}

// Progress makes the coordinator's value of a decoded message. It shares m's data, which must not be changed
// afterwards.
func (m *TaskProgress) Progress() *coordinator.Progress {
	percent := math.NaN()
	if m.Percent != nil {
		percent = *m.Percent
	}
	return &coordinator.Progress{
		Task: m.TaskID, Agent: m.AgentID, DispatchID: m.DispatchID, Timestamp: m.Timestamp,
		TraceID: m.CorrelationID, Percent: percent, Message: m.Message, Data: m.Data,
	}
}

// AppendTaskProgress appends a task.progress: what the agent said of its task, under the task's trace id. data: with
// what is for the producer alone.
func AppendTaskProgress(dst []byte, p *coordinator.Progress, traceID string, data bool) []byte {
	dst = append(dst, `{"message_type":"`+schemas.TaskProgress+`"`...)
	dst = appendField(dst, "task_id", p.Task)
	dst = appendField(dst, "agent_id", p.Agent)
	dst = appendField(dst, "correlation_id", traceID)
	dst = appendOptional(dst, "dispatch_id", p.DispatchID)
	if !math.IsNaN(p.Percent) {
		dst = appendBounded(dst, "percent", p.Percent, maxPercent)
	}
	dst = appendOptional(dst, "message", p.Message)
	if data && len(p.Data) > 0 {
		dst = append(appendName(dst, "data"), p.Data...)
	}
	return append(appendTime(dst, "timestamp", p.Timestamp), '}')
}

// DecodeTaskProgress reads a task.progress, of which the data is a part of body.
func (d *Decoder) DecodeTaskProgress(body []byte) (*TaskProgress, *Refusal) {
	if m := d.fastTaskProgress(body); m != nil {
		return m, nil
	}
	return d.slowTaskProgress(body)
}

// fastTaskProgress returns nil for what the slow path is to look at.
func (d *Decoder) fastTaskProgress(body []byte) *TaskProgress {
	m := new(TaskProgress)
	var ok bool
	m.Unknown, ok = d.fast(body, d.limits, 5, func(s *scanner, key jsontext.Text) (required, ok bool) {
		return s.progressField(m, key, d.progressFields)
	})
	if !ok {
		return nil
	}
	return m
}

// progressField reads one field of a task.progress.
func (s *scanner) progressField(m *TaskProgress, key jsontext.Text, known []string) (required, ok bool) {
	var raw []byte
	switch string(key.Raw) {
	case "message_type":
		return true, s.Is(schemas.TaskProgress)
	case "task_id":
		raw, ok = s.id(maxID)
		m.TaskID = coordinator.TaskID(raw)
		return true, ok
	case "agent_id":
		raw, ok = s.id(maxID)
		m.AgentID = coordinator.AgentID(raw)
		return true, ok && !reservedAgentID(string(m.AgentID))
	case "correlation_id":
		raw, ok = s.printable()
		m.CorrelationID = string(raw)
		return true, ok
	case "timestamp":
		m.Timestamp, ok = s.time()
		return true, ok
	case "dispatch_id":
		raw, ok = s.id(maxDispatchID)
		m.DispatchID = string(raw)
	case "percent":
		var percent float64
		percent, ok = s.Decimal(maxPercent)
		m.Percent = &percent
	case "message":
		m.Message, ok = s.textOf(MaxProgressText)
		m.Message = Clean(m.Message, MaxText)
	case "data":
		if s.Peek() == '{' {
			m.Data, ok = s.Value()
			ok = ok && len(m.Data) <= MaxProgressData
		}
	default:
		ok = s.unknown(key, known)
	}
	return false, ok
}

func (d *Decoder) slowTaskProgress(body []byte) (*TaskProgress, *Refusal) {
	m, refusal := slow[TaskProgress](d, schemas.TaskProgress, body)
	if refusal != nil {
		return nil, refusal
	}
	if len(m.Data) > MaxProgressData {
		return nil, &Refusal{
			TaskID: m.TaskID, AgentID: string(m.AgentID), CorrelationID: m.CorrelationID, Priority: PriorityUnread,
			Path: "/data", Keyword: "size",
			Text: fmt.Sprintf("/data: %d bytes, more than the %d allowed", len(m.Data), MaxProgressData),
		}
	}
	m.Message = Clean(m.Message, MaxText)
	return m, nil
}

// MarshalJSON adds message_type. Data is passed on byte for byte, unless it is no JSON.
func (m TaskProgress) MarshalJSON() ([]byte, error) {
	if len(m.Data) > 0 && !json.Valid(m.Data) {
		return nil, fmt.Errorf("the data of a %s is no JSON", schemas.TaskProgress)
	}
	return AppendTaskProgress(make([]byte, 0, 256+len(m.Data)), m.Progress(), m.CorrelationID, true), nil
}

// IsObject reports whether data, which is valid JSON, is an object.
func IsObject(data json.RawMessage) bool {
	return bytes.HasPrefix(bytes.TrimLeft(data, " \t\r\n"), []byte("{"))
}
