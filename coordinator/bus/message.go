package bus

import "time"

// Messages, as they are published and delivered.

// Outcome is what became of a publication.
type Outcome uint8

// The outcomes. Unknown means that the message may or may not have arrived.
const (
	Confirmed  Outcome = iota // the broker has taken responsibility
	Unroutable                // mandatory, and no queue was bound: it is nowhere
	Rejected                  // nacked by the broker (queue full): it is nowhere
	Unknown                   // the session ended before the broker answered
)

// String names the outcome.
func (o Outcome) String() string {
	return [...]string{"confirmed", "unroutable", "rejected", "unknown"}[o]
}

// Tag names a delivery within its session.
type Tag struct {
	Session  uint64 // number of the session, unique in this process
	Consumer int    // number of the consumer within the session
	Delivery uint64 // the broker's delivery tag
}

// Properties are the AMQP properties Taskbus uses.
type Properties struct {
	ContentType     string
	ContentEncoding string
	Type            string
	MessageID       string
	CorrelationID   string
	ReplyTo         string
	AppID           string
	UserID          string
	// Expiration, if positive, is how long the message may wait in its queue
	// (rounded down to milliseconds, at least 1 ms).
	Expiration time.Duration
	Timestamp  time.Time
	// Headers hold strings, int64, float64, bool, []byte, time.Time, []any and nested
	// map[string]any; never nil-valued entries.
	Headers map[string]any
}

// Publication is a message to be sent. Every publication is persistent and, but for
// the optional ones, mandatory.
type Publication struct {
	// Token comes back in OnSettled; the owner chooses it.
	Token uint64
	// Exchange is "" for the default exchange, whose Key is a queue's name.
	Exchange, Key string
	// Optional publications are not mandatory: when no queue is bound they are
	// Confirmed (events that no queue is bound to). They keep their order among
	// themselves, not with the others.
	Optional bool
	// Apart is for a stream that is written beside everything else, like a journal:
	// these publications keep their order among themselves only, so that neither
	// they nor the others wait for each other's confirms. They are mandatory, as
	// every publication but the optional ones, for which Apart means nothing.
	Apart bool
	Properties
	// Body, and the Headers above, are owned by the session until the
	// publication is settled.
	Body []byte
}

// Delivery is a message from the broker. Body and Headers belong to the handler.
type Delivery struct {
	Queue                string
	Exchange, RoutingKey string
	Redelivered          bool
	// Offset is the place in its stream (see Position); -1 for a message of a queue.
	Offset int64
	Tag    Tag
	Properties
	Body []byte
}
