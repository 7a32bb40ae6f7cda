package quota

import (
	"encoding/json"
	"fmt"
	"time"
)

// The operations, by their paths below /v1/quota/.
const (
	opReserve = "reserve"
	opExtend  = "extend"
	opSettle  = "settle"
	opRelease = "release"
	opConsume = "consume"
	opCheck   = "check"
	opCharge  = "charge"
)

// asking is the body of what asks for quota.
type asking struct {
	Agent string `json:"agent_id,omitempty"`
	Call
	TTL    float64 `json:"ttl_seconds,omitempty"`
	Borrow *bool   `json:"allow_borrowing,omitempty"`
	Untold string  `json:"if_untold,omitempty"`
}

// telling is the body of what tells of a reservation.
type telling struct {
	Agent string `json:"agent_id,omitempty"`
	ID    string `json:"reservation_id"`
	*Usage
	Response *Response `json:"response,omitempty"`
}

// extending is the body of what asks for more.
type extending struct {
	Agent string `json:"agent_id,omitempty"`
	ID    string `json:"reservation_id"`
	More
	TTL float64 `json:"ttl_seconds,omitempty"`
}

// askingOf is a call as an operation asks about it, which refuses fields that do not concern it.
func (a *asker) askingOf(op string, c *Call) ([]byte, error) {
	b := asking{Agent: a.agent, Call: *c}
	if c.NoBorrowing {
		b.Borrow = new(false)
	}
	if op == opReserve || op == opCheck {
		b.TTL = c.TTL.Seconds()
		if c.ChargeUntold {
			b.Untold = "charge"
		}
	} else {
		b.Concurrency = nil
	}
	return encode(op, b)
}

func (a *asker) tellingOf(op, id string, used *Usage, heard *Response) ([]byte, error) {
	return encode(op, telling{Agent: a.agent, ID: id, Usage: used, Response: heard})
}

func (a *asker) extendingOf(id string, m More) ([]byte, error) {
	return encode(opExtend, extending{Agent: a.agent, ID: id, More: m, TTL: m.TTL.Seconds()})
}

// extendBy asks for the same for longer.
func (a *asker) extendBy(id string, ttl time.Duration) ([]byte, error) {
	return a.extendingOf(id, More{TTL: ttl})
}

func encode(op string, v any) ([]byte, error) {
	body, err := json.Marshal(v)
	if err != nil { // a cost that is no number
		return nil, fmt.Errorf("quota %s: %w", op, err)
	}
	return body, nil
}
