package messages

import (
	"taskbus/coordinator"
	"taskbus/schemas"
)

// AnyClaim is the claim id of a task.granted that answers none: a coordinator has begun
// that knows of no claim, and an agent that waits for an answer should ask again.
const AnyClaim = "any"

// TaskGranted is a task.granted message: the answer to a task.claim. As many dispatches
// as are granted come to the agent's queue.
type TaskGranted struct {
	AgentID coordinator.AgentID `json:"agent_id"`
	// ClaimID as the claim has it, or AnyClaim.
	ClaimID string `json:"claim_id"`
	// Granted is how many tasks the agent gets, 0 to 10,000.
	Granted int `json:"granted"`
	// Reason says why they are fewer than asked for, for people; empty when they are
	// not. It is cleaned and cut at MaxText.
	Reason string     `json:"reason"`
	Fleet  GrantFleet `json:"fleet"`
}

// GrantFleet is the fleet as the coordinator sees it when it answers a claim.
type GrantFleet struct {
	// Agents that share the work.
	Agents int `json:"agents"`
	// PendingItems are those that agents have and have not finished.
	PendingItems int `json:"pending_items"`
	// UnclaimedItems are those that no agent has.
	UnclaimedItems int `json:"unclaimed_items"`
	// CapacityItemsPerSecond of all agents together.
	CapacityItemsPerSecond float64 `json:"capacity_items_per_second"`
	// TargetDrainSeconds is in how many seconds every agent should be through with its
	// items.
	TargetDrainSeconds float64 `json:"target_drain_seconds"`
	// FairShareItems is how many items that makes for the agent that is told.
	FairShareItems int `json:"fair_share_items"`
}

// AppendTaskGranted appends m as a task.granted message. A number beyond its range is
// brought into it, and NaN becomes 0.
func AppendTaskGranted(dst []byte, m *TaskGranted) []byte {
	dst = append(dst, '{')
	dst = appendField(dst, "message_type", schemas.TaskGranted)
	dst = appendField(dst, "agent_id", m.AgentID)
	dst = appendField(dst, "claim_id", m.ClaimID)
	dst = appendWhole(dst, "granted", m.Granted, 0, maxClaim)
	dst = appendOptional(dst, "reason", Clean(m.Reason, MaxText))
	dst = append(appendName(dst, "fleet"), '{')
	dst = appendWhole(dst, "agents", m.Fleet.Agents, 0, maxCount)
	dst = appendWhole(dst, "pending_items", m.Fleet.PendingItems, 0, maxAmount)
	dst = appendWhole(dst, "unclaimed_items", m.Fleet.UnclaimedItems, 0, maxAmount)
	dst = appendBounded(dst, "capacity_items_per_second", m.Fleet.CapacityItemsPerSecond, maxAmount)
	dst = appendBounded(dst, "target_drain_seconds", m.Fleet.TargetDrainSeconds, maxEstimate)
	dst = appendWhole(dst, "fair_share_items", m.Fleet.FairShareItems, 0, maxAmount)
	return append(dst, "}}"...)
}

// DecodeTaskGranted reads a task.granted.
func (d *Decoder) DecodeTaskGranted(body []byte) (*TaskGranted, *Refusal) {
	m, refusal := slow[TaskGranted](d, schemas.TaskGranted, body)
	if refusal == nil {
		m.Reason = Clean(m.Reason, MaxText)
	}
	return m, refusal
}
