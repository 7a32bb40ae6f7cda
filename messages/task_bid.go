package messages

import (
	"taskbus/coordinator"
	"taskbus/messages/internal/jsontext"
	"taskbus/schemas"
)

// TaskBid is a task.bid message: an agent bids for a task that it was offered.
type TaskBid struct {
	TaskID coordinator.TaskID `json:"task_id"`
	// AuctionID as the offer has it; empty: the task's auction that is open.
	AuctionID string              `json:"auction_id"`
	AgentID   coordinator.AgentID `json:"agent_id"`
	// Fitness is how well the agent says that the task suits it, 0 to 1.
	Fitness float64 `json:"fitness"`
	// ActiveTasks is how many tasks the agent has in hand, at most 1,000,000.
	ActiveTasks int `json:"active_tasks"`
	// EstimatedDurationSeconds is how long it would take, 0 to 1e9 seconds.
	EstimatedDurationSeconds float64 `json:"estimated_duration_seconds"`
	// Relevance, 0 to 1, is how much the agent remembers of such tasks; HasRelevance
	// tells 0 from none given.
	Relevance    float64 `json:"relevance"`
	HasRelevance bool    `json:"-"`
	// CorrelationID is the trace id; empty when the message gives none.
	CorrelationID string `json:"correlation_id"`
	// Unknown as of TaskAssign; nil for one of a task.bids.
	Unknown []string `json:"-"`
}

// AppendTaskBid appends m as a task.bid message. A number beyond its range is brought
// into it, and NaN becomes 0: what an agent's own formula spoils must not make a
// message that no reader takes.
func AppendTaskBid(dst []byte, m *TaskBid) []byte {
	dst = append(dst, '{')
	dst = appendField(dst, "message_type", schemas.TaskBid)
	dst = appendField(dst, "task_id", m.TaskID)
	dst = appendOptional(dst, "auction_id", m.AuctionID)
	dst = appendField(dst, "agent_id", m.AgentID)
	return append(appendTerms(dst, m), '}')
}

// appendTerms appends what an agent says of a task, and its trace id.
func appendTerms(dst []byte, m *TaskBid) []byte {
	dst = appendBounded(dst, "fitness", m.Fitness, 1)
	dst = appendWhole(dst, "active_tasks", m.ActiveTasks, 0, maxCount)
	dst = appendBounded(dst, "estimated_duration_seconds", m.EstimatedDurationSeconds, maxEstimate)
	if m.HasRelevance {
		dst = appendBounded(dst, "relevance", m.Relevance, 1)
	}
	return appendOptional(dst, "correlation_id", m.CorrelationID)
}

// DecodeTaskBid reads a task.bid. It keeps no part of body.
func (d *Decoder) DecodeTaskBid(body []byte) (*TaskBid, *Refusal) {
	if m, ok := d.fastTaskBid(body); ok {
		return m, nil
	}
	return d.slowTaskBid(body)
}

func (d *Decoder) fastTaskBid(body []byte) (*TaskBid, bool) {
	m := new(TaskBid)
	var ok bool
	m.Unknown, ok = d.fast(body, d.limits, 6, func(s *scanner, key jsontext.Text) (required, ok bool) {
		return s.bidField(m, key, d.bidFields)
	})
	return m, ok
}

// bidField reads one field of a task.bid.
func (s *scanner) bidField(m *TaskBid, key jsontext.Text, known []string) (required, ok bool) {
	var raw []byte
	switch string(key.Raw) {
	case "message_type":
		return true, s.Is(schemas.TaskBid)
	case "task_id":
		raw, ok = s.id(maxID)
		m.TaskID = coordinator.TaskID(raw)
		return true, ok
	case "auction_id":
		raw, ok = s.id(maxDispatchID)
		m.AuctionID = string(raw)
	case "agent_id":
		raw, ok = s.id(maxID)
		m.AgentID = coordinator.AgentID(raw)
		return true, ok && !reservedAgentID(string(m.AgentID))
	case "fitness":
		m.Fitness, ok = s.Decimal(1)
		return true, ok
	case "active_tasks":
		m.ActiveTasks, ok = s.Whole(maxCount)
		return true, ok
	case "estimated_duration_seconds":
		m.EstimatedDurationSeconds, ok = s.Decimal(maxEstimate)
		return true, ok
	case "relevance":
		m.Relevance, ok = s.Decimal(1)
		m.HasRelevance = true
	case "correlation_id":
		raw, ok = s.printable()
		m.CorrelationID = string(raw)
	default:
		ok = s.unknown(key, known)
	}
	return false, ok
}

func (d *Decoder) slowTaskBid(body []byte) (*TaskBid, *Refusal) {
	e, refusal := d.decode(schemas.TaskBid, body)
	if refusal != nil {
		return nil, refusal
	}
	m := new(TaskBid)
	return m, taskBid(e, m)
}

// taskBid reads one bid.
func taskBid(e *envelope, m *TaskBid) *Refusal {
	_, m.HasRelevance = e.fields["relevance"]
	return e.into(m)
}
