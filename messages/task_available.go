package messages

import (
	"strconv"
	"time"

	"taskbus/coordinator"
	"taskbus/messages/internal/jsontext"
	"taskbus/schemas"
)

// MaxOffers is how many offers one task.available may hold.
const MaxOffers = 256

// maxOfferBytes is when a task.available is long enough: the largest offer still
// fits behind it into what a decoder accepts by default.
const maxOfferBytes = 512 << 10

// TaskAvailable is a task.available message: the coordinator offers tasks to an
// agent, which may bid for each of them.
type TaskAvailable struct {
	AgentID coordinator.AgentID `json:"agent_id"`
	// Offers are at least one and at most MaxOffers.
	Offers []TaskOffer `json:"offers"`
}

// TaskOffer is one task that an agent may bid for.
type TaskOffer struct {
	TaskID coordinator.TaskID `json:"task_id"`
	// AuctionID names this auction of the task; a bid must repeat it. At most 160
	// characters, of those that ids have.
	AuctionID string `json:"auction_id"`
	TaskType  string `json:"task_type"`
	// RequiredCapabilities are those of the task and of its type; nil for none, at
	// most 256.
	RequiredCapabilities []string `json:"required_capabilities"`
	// BidWindowMS is how long bids are taken, in milliseconds: 1 to 60,000.
	BidWindowMS int `json:"bid_window_ms"`
	// Attempt that the dispatch will have, from 1.
	Attempt int `json:"attempt"`
	// Description as its producer has it, at most 2,048 characters; may be empty.
	Description string `json:"description"`
	// Priority is 1 (normal) when the message gives none; in Go the zero value is 0
	// (low).
	Priority coordinator.Priority `json:"priority"`
	// Deadline is zero when the task has none.
	Deadline time.Time `json:"deadline"`
	// CorrelationID is the trace id; empty when the message gives none.
	CorrelationID string `json:"correlation_id"`
}

// AppendTaskAvailable appends a task.available message that offers an agent the
// first of offers, of which there must be one, and returns the others: what is more
// than MaxOffers, or than a reader accepts, needs a message of its own. Numbers
// beyond their range are brought into it, and of more than 256 required capabilities
// the rest is left out.
func AppendTaskAvailable(dst []byte, agent coordinator.AgentID, offers []TaskOffer) (body []byte, others []TaskOffer) {
	start := len(dst)
	dst = append(dst, '{')
	dst = appendField(dst, "message_type", schemas.TaskAvailable)
	dst = appendField(dst, "agent_id", agent)
	dst = append(appendName(dst, "offers"), '[')
	n := 0
	for ; n < min(len(offers), MaxOffers) && len(dst)-start < maxOfferBytes; n++ {
		if n > 0 {
			dst = append(dst, ',')
		}
		dst = appendOffer(dst, &offers[n])
	}
	return append(dst, "]}"...), offers[n:]
}

func appendOffer(dst []byte, o *TaskOffer) []byte {
	dst = append(dst, '{')
	dst = appendField(dst, "task_id", o.TaskID)
	dst = appendField(dst, "auction_id", o.AuctionID)
	dst = appendField(dst, "task_type", o.TaskType)
	if len(o.RequiredCapabilities) == 0 {
		dst = append(appendName(dst, "required_capabilities"), "[]"...)
	} else {
		dst = appendList(dst, "required_capabilities",
			o.RequiredCapabilities[:min(len(o.RequiredCapabilities), maxCapabilities)])
	}
	dst = appendWhole(dst, "bid_window_ms", o.BidWindowMS, 1, maxBidWindow)
	dst = appendWhole(dst, "attempt", o.Attempt, 1, maxCount)
	dst = appendOptional(dst, "description", o.Description)
	if o.Priority != coordinator.PriorityNormal {
		dst = appendInt(dst, "priority", int(o.Priority))
	}
	if !o.Deadline.IsZero() {
		dst = appendTime(dst, "deadline", o.Deadline)
	}
	dst = appendOptional(dst, "correlation_id", o.CorrelationID)
	return append(dst, '}')
}

// DecodeTaskAvailable reads a task.available. It keeps no part of body.
func (d *Decoder) DecodeTaskAvailable(body []byte) (*TaskAvailable, *Refusal) {
	if m, ok := d.fastTaskAvailable(body); ok {
		return m, nil
	}
	return d.slowTaskAvailable(body)
}

func (d *Decoder) fastTaskAvailable(body []byte) (*TaskAvailable, bool) {
	m := new(TaskAvailable)
	var ok bool
	m.AgentID, _, ok = d.fastAgentsList(body, schemas.TaskAvailable, "offers", d.availableFields,
		func(s *scanner) (ok bool) {
			m.Offers, ok = jsontext.Objects(&s.Scanner, MaxOffers, s.offer)
			return ok
		})
	return m, ok && len(m.Offers) > 0
}

func (s *scanner) offer(m *TaskOffer) bool {
	m.Priority = coordinator.PriorityNormal
	return s.fields(6, func(s *scanner, key jsontext.Text) (required, ok bool) { return s.offerField(m, key) })
}

// offerField reads one field of an offer.
func (s *scanner) offerField(m *TaskOffer, key jsontext.Text) (required, ok bool) {
	var raw []byte
	switch string(key.Raw) {
	case "task_id":
		raw, ok = s.id(maxID)
		m.TaskID = coordinator.TaskID(raw)
		return true, ok
	case "auction_id":
		raw, ok = s.id(maxDispatchID)
		m.AuctionID = string(raw)
		return true, ok
	case "task_type":
		m.TaskType, ok = s.name("")
		return true, ok
	case "required_capabilities":
		m.RequiredCapabilities, ok = jsontext.List[string](&s.Scanner, maxCapabilities, validName)
		return true, ok
	case "bid_window_ms":
		m.BidWindowMS, ok = s.Whole(maxBidWindow)
		return true, ok && m.BidWindowMS > 0
	case "attempt":
		m.Attempt, ok = s.Whole(maxCount)
		return true, ok && m.Attempt > 0
	case "description":
		m.Description, ok = s.description()
	case "priority":
		var p int
		p, ok = s.Whole(maxPriority)
		m.Priority = coordinator.Priority(p)
	case "deadline":
		m.Deadline, ok = s.time()
	case "correlation_id":
		raw, ok = s.printable()
		m.CorrelationID = string(raw)
	default:
		// Within an offer any other key is just unknown, unless an escape hides one.
		ok = s.unknown(key, nil)
	}
	return false, ok
}

func (d *Decoder) slowTaskAvailable(body []byte) (*TaskAvailable, *Refusal) {
	e, refusal := d.decode(schemas.TaskAvailable, body)
	if refusal != nil {
		return nil, refusal
	}
	items := field[[]any](e, "offers")
	m := &TaskAvailable{
		AgentID: coordinator.AgentID(field[string](e, "agent_id")),
		Offers:  make([]TaskOffer, len(items)),
	}
	for i, item := range items {
		fields, _ := item.(map[string]any)
		offer := &envelope{fields: fields}
		if m.Offers[i], refusal = taskOffer(offer); refusal != nil {
			place := "/offers/" + strconv.Itoa(i)
			refusal.Path, refusal.Text = place+refusal.Path, place+refusal.Text
			refusal.MessageType, refusal.AgentID = schemas.TaskAvailable, string(m.AgentID)
			return nil, refusal
		}
	}
	return m, nil
}

// taskOffer reads one offer. A refusal's path and text begin within it.
func taskOffer(e *envelope) (o TaskOffer, refusal *Refusal) {
	o.Priority = coordinator.PriorityNormal
	return o, e.into(&o)
}
