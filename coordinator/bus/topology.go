package bus

import "time"

// Mode says what a session may do to the broker's topology.
type Mode string

// The modes of `topology:` in agents.yaml.
const (
	Declare Mode = "declare" // create what is missing
	Verify  Mode = "verify"  // look, and refuse to start when something is missing
	Off     Mode = "off"     // do not even look
)

// Topology is everything a session wants to find at the broker.
type Topology struct {
	Mode      Mode
	Exchanges []Exchange
	Queues    []Queue
	Bindings  []Binding
}

// ExchangeKind is the type of an exchange.
type ExchangeKind string

// The kinds in use.
const (
	Topic  ExchangeKind = "topic"
	Direct ExchangeKind = "direct"
)

// Exchange is durable.
type Exchange struct {
	Name string
	Kind ExchangeKind
}

// Binding routes from an exchange to a queue. Those of temporary queues are made
// in every mode, the others under Declare alone.
type Binding struct{ Exchange, Queue, Key string }

// QueueKind is the type of a queue.
type QueueKind string

// The kinds in use. Classic means plain durable, without any argument.
const (
	Quorum  QueueKind = "quorum"
	Stream  QueueKind = "stream"
	Classic QueueKind = "classic"
)

// Queue is durable, unless it is Temporary. Fields that do not apply to its kind
// are ignored.
type Queue struct {
	Name string
	Kind QueueKind
	// Temporary queues belong to their session: others may publish to them and
	// that is all, and they end with it. They are declared in every mode; every
	// other field but Name is ignored. A name that
	// another session's temporary queue has is ErrInUse; that of a lasting queue is
	// a Finding.
	Temporary bool
	// DeadLetter is the queue that gets what is rejected, expired or delivered
	// too often, through the default exchange, at least once. Empty means that
	// such messages are dropped.
	DeadLetter string
	// DeliveryLimit is always given for a quorum queue.
	DeliveryLimit int
	// ConsumerTimeout, where the broker applies it, is how long a consumer may
	// hold a message. 0 leaves the broker's default.
	ConsumerTimeout time.Duration
	// TTL is how long a message may wait; 0 means for ever.
	TTL time.Duration
	// MaxLength and what happens beyond it: the oldest are dropped when
	// DropHead is set, else the publisher is refused. 0 means unbounded.
	MaxLength int
	DropHead  bool
	// MaxAge, MaxBytes and SegmentBytes bound a stream.
	MaxAge       time.Duration
	MaxBytes     int64
	SegmentBytes int64
}
