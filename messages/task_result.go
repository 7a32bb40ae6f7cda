package messages

import (
	"encoding/json"
	"time"

	"taskbus/coordinator"
	"taskbus/schemas"
)

// Outcome is how a task ended at its agent.
type Outcome string

// The outcomes. Rejected means that the agent refused to begin.
const (
	Succeeded Outcome = "succeeded"
	Failed    Outcome = "failed"
	Rejected  Outcome = "rejected"
	Cancelled Outcome = "cancelled"
)

// TaskResult is a task.result message: an agent tells how a task ended.
type TaskResult struct {
	TaskID        coordinator.TaskID  `json:"task_id"`
	AgentID       coordinator.AgentID `json:"agent_id"`
	Outcome       Outcome             `json:"outcome"`
	CorrelationID string              `json:"correlation_id"`
	// Timestamp is the agent's own clock.
	Timestamp time.Time `json:"timestamp"`
	// DispatchID and Attempt are those of the dispatch; empty and 0 when not given.
	DispatchID string `json:"dispatch_id,omitempty"`
	Attempt    int    `json:"attempt,omitempty"`
	// DurationMS is how long the work took, in milliseconds; 0 when not given.
	DurationMS float64 `json:"duration_ms,omitempty"`
	// Error is for people; it is cleaned and cut at MaxText when it is sent.
	Error string `json:"error,omitempty"`
	Usage *Usage `json:"usage,omitempty"`
}

// MarshalJSON adds message_type.
func (m TaskResult) MarshalJSON() ([]byte, error) {
	type fields TaskResult
	m.Timestamp = m.Timestamp.UTC()
	m.Error = Clean(m.Error, MaxText)
	return json.Marshal(struct {
		MessageType string `json:"message_type"`
		fields
	}{schemas.TaskResult, fields(m)})
}

// DecodeTaskResult reads a task.result.
func (d *Decoder) DecodeTaskResult(body []byte) (*TaskResult, *Refusal) {
	e, refusal := d.decode(schemas.TaskResult, body)
	if refusal != nil {
		return nil, refusal
	}
	m := &TaskResult{
		TaskID:        coordinator.TaskID(field[string](e, "task_id")),
		AgentID:       coordinator.AgentID(field[string](e, "agent_id")),
		Outcome:       Outcome(field[string](e, "outcome")),
		CorrelationID: field[string](e, "correlation_id"),
		DispatchID:    field[string](e, "dispatch_id"),
		Attempt:       integer(e, "attempt"),
		DurationMS:    number(e, "duration_ms"),
		Error:         Clean(field[string](e, "error"), MaxText),
		Usage:         (*Usage)(usage(e, "usage")),
	}
	if m.Timestamp, refusal = timestamp(e, "timestamp"); refusal != nil {
		return nil, refusal
	}
	return m, nil
}
