package messages

import (
	"taskbus/coordinator"
	"taskbus/schemas"
)

// TaskAwarded is a task.awarded message: a bidder has won, and the dispatch follows.
type TaskAwarded struct {
	TaskID    coordinator.TaskID  `json:"task_id"`
	AuctionID string              `json:"auction_id"`
	AgentID   coordinator.AgentID `json:"agent_id"`
	// DispatchID is that of the dispatch that follows.
	DispatchID string `json:"dispatch_id"`
	// CorrelationID is the trace id; empty when the message gives none.
	CorrelationID string `json:"correlation_id"`
}

// AppendTaskAwarded appends m as a task.awarded message.
func AppendTaskAwarded(dst []byte, m *TaskAwarded) []byte {
	dst = append(dst, '{')
	dst = appendField(dst, "message_type", schemas.TaskAwarded)
	dst = appendField(dst, "task_id", m.TaskID)
	dst = appendField(dst, "auction_id", m.AuctionID)
	dst = appendField(dst, "agent_id", m.AgentID)
	dst = appendField(dst, "dispatch_id", m.DispatchID)
	dst = appendOptional(dst, "correlation_id", m.CorrelationID)
	return append(dst, '}')
}

// DecodeTaskAwarded reads a task.awarded.
func (d *Decoder) DecodeTaskAwarded(body []byte) (*TaskAwarded, *Refusal) {
	return slow[TaskAwarded](d, schemas.TaskAwarded, body)
}
