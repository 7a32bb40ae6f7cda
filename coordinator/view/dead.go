package view

import "time"

// DeadFilter selects dead messages; what is empty selects all.
type DeadFilter struct {
	Reason string // a reason code
	Type   string // a task type or a message type
	ID     string // a task id, a message id or a key
	Limit  int    // how many to give
}

// DeadMessage is one message in task.dead.
type DeadMessage struct {
	// Key names it: 16 hexadecimal digits, made of what it says and where it comes from. Equal copies have the same.
	Key string `json:"key"`
	// ReasonCode is invalid_message or poisoned where the coordinator has put it there; else what the broker
	// says: delivery_limit, expired, rejected or maxlen. Empty: neither says.
	ReasonCode string `json:"reason_code"`
	// Reason is what is wrong with it, for people.
	Reason string `json:"reason"`
	// SourceQueue is where it was before.
	SourceQueue string `json:"source_queue,omitempty"`
	// ResendTo is the queue that resend publishes it to; empty: it cannot be sent again, and ResendNot says why.
	ResendTo  string `json:"resend_to,omitempty"`
	ResendNot string `json:"resend_not,omitempty"`
	// MessageType, TaskID and TaskType as far as they can be read in it; they may be no valid ones.
	MessageType string `json:"message_type,omitempty"`
	TaskID      string `json:"task_id,omitempty"`
	TaskType    string `json:"task_type,omitempty"`
	// CorrelationID, MessageID, AppID and ReplyTo are its AMQP properties, by which its producer is found.
	CorrelationID string `json:"correlation_id,omitempty"`
	MessageID     string `json:"message_id,omitempty"`
	AppID         string `json:"app_id,omitempty"`
	ReplyTo       string `json:"reply_to,omitempty"`
	// Timestamp is when the coordinator put it there, or what its producer has set.
	Timestamp time.Time `json:"timestamp,omitzero"`
	Bytes     int       `json:"bytes"`
	// Body is the whole message, where it was asked for: as text, or in base64 where it is no UTF-8.
	Body   string `json:"body,omitempty"`
	Base64 bool   `json:"base64,omitempty"`
}

// DeadList is the answer of /dead.
type DeadList struct {
	Messages []DeadMessage `json:"messages"`
	// Matched is how many of those that were looked at are selected; at most limit of them are listed.
	Matched int `json:"matched"`
	// Scanned is how many were looked at, from the front of the queue.
	Scanned int `json:"scanned"`
	// More: the queue holds more than are looked at in one go.
	More bool `json:"more,omitempty"`
}

// DeadDone is the answer of /dead/resend and /dead/drop.
type DeadDone struct {
	// Done are the keys of the messages that were taken out of task.dead, one for each message.
	Done []string `json:"done"`
	// Kept are those that stay there, with the reason.
	Kept []DeadKept `json:"kept"`
}

// DeadKept is a message that stays in task.dead.
type DeadKept struct {
	Key string `json:"key"`
	Why string `json:"why"`
}
