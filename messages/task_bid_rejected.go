package messages

import (
	"taskbus/coordinator"
	"taskbus/schemas"
)

// BidReason is why a bid has not won: a word of task.bid_rejected.
type BidReason string

// The reasons. Those after BidLost say what is wrong with the bid.
const (
	// BidLost to a better one.
	BidLost BidReason = "lost"
	// BidLate: the window was closed.
	BidLate BidReason = "late"
	// BidDuplicate: the agent has bid already; its first bid counts.
	BidDuplicate BidReason = "duplicate"
	// BidNotInvited: this agent was not offered the task.
	BidNotInvited BidReason = "not_invited"
	// BidInvalid: the bid says what cannot be.
	BidInvalid BidReason = "invalid"
	// BidFull: the agent has no slot left beside what it has and has bid for.
	BidFull BidReason = "full"
)

// BidReasons are all of them, in the order of the schema. The caller owns the list.
func BidReasons() []BidReason {
	return []BidReason{BidLost, BidLate, BidDuplicate, BidNotInvited, BidInvalid, BidFull}
}

// BidRejected is a task.bid_rejected message: a bid has not won, and why.
type BidRejected struct {
	TaskID coordinator.TaskID `json:"task_id"`
	// AuctionID is empty where the bid named none, and none is known.
	AuctionID string              `json:"auction_id"`
	AgentID   coordinator.AgentID `json:"agent_id"`
	// Reason is one of BidReasons.
	Reason BidReason `json:"reason"`
	// CorrelationID is the trace id; empty when the message gives none.
	CorrelationID string `json:"correlation_id"`
}

// AppendBidRejected appends m as a task.bid_rejected message.
func AppendBidRejected(dst []byte, m *BidRejected) []byte {
	dst = append(dst, '{')
	dst = appendField(dst, "message_type", schemas.BidRejected)
	dst = appendField(dst, "task_id", m.TaskID)
	dst = appendOptional(dst, "auction_id", m.AuctionID)
	dst = appendField(dst, "agent_id", m.AgentID)
	dst = appendField(dst, "reason", m.Reason)
	dst = appendOptional(dst, "correlation_id", m.CorrelationID)
	return append(dst, '}')
}

// DecodeBidRejected reads a task.bid_rejected.
func (d *Decoder) DecodeBidRejected(body []byte) (*BidRejected, *Refusal) {
	return slow[BidRejected](d, schemas.BidRejected, body)
}
