package messages

import (
	"taskbus/coordinator"
	"taskbus/messages/internal/jsontext"
	"taskbus/schemas"
)

// MaxBids is how many bids one task.bids may hold: what one task.available may offer.
const MaxBids = MaxOffers

// TaskBids is a task.bids message: an agent bids for several tasks at once.
type TaskBids struct {
	AgentID coordinator.AgentID
	// Bids are at least one and at most MaxBids; each has the AgentID of the message.
	Bids []TaskBid
	// Unknown as of TaskAssign, but for those within bids.
	Unknown []string
}

// AppendTaskBids appends a task.bids message with the first of the agent's bids, of which
// there must be one, and returns the others: what is more than MaxBids needs a message of
// its own. Numbers are treated as [AppendTaskBid] does.
func AppendTaskBids(dst []byte, agent coordinator.AgentID, bids []TaskBid) (body []byte, others []TaskBid) {
	dst = append(dst, '{')
	dst = appendField(dst, "message_type", schemas.TaskBids)
	dst = appendField(dst, "agent_id", agent)
	dst = append(appendName(dst, "bids"), '[')
	n := 0
	for ; n < min(len(bids), MaxBids); n++ {
		if n > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, '{')
		dst = appendField(dst, "task_id", bids[n].TaskID)
		dst = appendOptional(dst, "auction_id", bids[n].AuctionID)
		dst = append(appendTerms(dst, &bids[n]), '}')
	}
	return append(dst, "]}"...), bids[n:]
}

// DecodeTaskBids reads a task.bids. It keeps no part of body.
func (d *Decoder) DecodeTaskBids(body []byte) (*TaskBids, *Refusal) {
	if m, ok := d.fastTaskBids(body); ok {
		return m, nil
	}
	return d.slowTaskBids(body)
}

func (d *Decoder) fastTaskBids(body []byte) (*TaskBids, bool) {
	m := new(TaskBids)
	var ok bool
	m.AgentID, m.Unknown, ok = d.fastAgentsList(body, schemas.TaskBids, "bids", d.bidsFields, func(s *scanner) (ok bool) {
		m.Bids, ok = jsontext.Objects(&s.Scanner, MaxBids, s.bid)
		return ok
	})
	for i := range m.Bids {
		m.Bids[i].AgentID = m.AgentID
	}
	return m, ok && len(m.Bids) > 0
}

// bid reads one of the bids of a task.bids. What the message has for all of them is
// nothing that is known within one.
func (s *scanner) bid(m *TaskBid) bool {
	return s.fields(4, func(s *scanner, key jsontext.Text) (required, ok bool) {
		switch string(key.Raw) {
		case "message_type", "agent_id":
			_, ok = s.Value()
			return false, ok
		default:
			return s.bidField(m, key, nil)
		}
	})
}

func (d *Decoder) slowTaskBids(body []byte) (*TaskBids, *Refusal) {
	e, refusal := d.decode(schemas.TaskBids, body)
	if refusal != nil {
		return nil, refusal
	}
	items := field[[]any](e, "bids")
	m := &TaskBids{AgentID: coordinator.AgentID(field[string](e, "agent_id")), Bids: make([]TaskBid, len(items)),
		Unknown: e.unknown}
	for i, item := range items {
		fields, _ := item.(map[string]any)
		if refusal := taskBid(&envelope{fields: fields}, &m.Bids[i]); refusal != nil {
			return nil, refusal
		}
		m.Bids[i].AgentID = m.AgentID
	}
	return m, nil
}
