package messages

import (
	"taskbus/coordinator"
	"taskbus/schemas"
)

// TaskClaim is a task.claim message: an agent that takes work by itself asks for some.
type TaskClaim struct {
	AgentID coordinator.AgentID `json:"agent_id"`
	// ClaimID is the agent's own name for this claim; the answer repeats it.
	ClaimID string `json:"claim_id"`
	// MaxItems is how many tasks it would take, 1 to 10,000.
	MaxItems int `json:"max_items"`
	// PendingItems is how many it has not finished, 0 to MaxPending.
	PendingItems int `json:"pending_items"`
	// CapacityItemsPerSecond is how many it does a second, MinRate to MaxRate; 0 when it
	// is not measured yet.
	CapacityItemsPerSecond float64 `json:"capacity_items_per_second"`
	// WaitSeconds is how long the claim may wait for work, 0 to 60; 0: not at all.
	WaitSeconds float64 `json:"wait_seconds"`
	// Unknown as of TaskAssign.
	Unknown []string `json:"-"`
}

// AppendTaskClaim appends m as a task.claim message. A number beyond its range is
// brought into it; a capacity that is none (see ValidRate) is left out.
func AppendTaskClaim(dst []byte, m *TaskClaim) []byte {
	dst = append(dst, '{')
	dst = appendField(dst, "message_type", schemas.TaskClaim)
	dst = appendField(dst, "agent_id", m.AgentID)
	dst = appendField(dst, "claim_id", m.ClaimID)
	dst = appendWhole(dst, "max_items", m.MaxItems, 1, maxClaim)
	dst = appendWhole(dst, "pending_items", m.PendingItems, 0, MaxPending)
	if m.CapacityItemsPerSecond != 0 && ValidRate(m.CapacityItemsPerSecond) {
		dst = appendFloat(dst, "capacity_items_per_second", m.CapacityItemsPerSecond)
	}
	if m.WaitSeconds > 0 {
		dst = appendBounded(dst, "wait_seconds", m.WaitSeconds, maxWait)
	}
	return append(dst, '}')
}

// DecodeTaskClaim reads a task.claim.
func (d *Decoder) DecodeTaskClaim(body []byte) (*TaskClaim, *Refusal) {
	return slow[TaskClaim](d, schemas.TaskClaim, body)
}
