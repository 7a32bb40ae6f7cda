package bus

import (
	"context"
	"errors"
	"fmt"
)

// Bus opens sessions with one broker. It is safe for concurrent use.
type Bus interface {
	// Open dials, sees to the topology and returns a running session. It honours
	// ctx while it works; the session itself outlives ctx and ends with Close or
	// with its first fault.
	//
	// Errors: ErrAccess for wrong credentials, virtual host or permissions;
	// *TopologyError when something needed does not exist and may not be
	// declared; ErrInUse when another connection has a temporary queue of that
	// name; anything else is a transport fault worth another try.
	Open(ctx context.Context, spec SessionSpec) (Session, error)
}

// Clearer is a Bus that can take away what a topology has put there.
type Clearer interface {
	// Clear deletes the queues and exchanges of t, with all that is in them, and counts the queues. Nothing is
	// deleted while a coordinator holds its lock: ErrInUse. After any other error some may be gone; it may be
	// tried again.
	Clear(ctx context.Context, t Topology) (removed int, err error)
}

// Session is a running connection to the broker. All methods are safe for
// concurrent use; after the session has ended they return ErrClosed or do
// nothing.
type Session interface {
	// TakeLock waits until this session holds the lock of that name: an exclusive
	// queue, which at most one session has. It is declared on the connection that
	// publishes, so that a session that loses it cannot publish. The session works without it
	// as well; once it is held it is the session's until this ends, and the session
	// ends when the queue is deleted.
	//
	// While another session holds the lock, waiting (may be nil) is called, once, and
	// the lock is looked at again every half second or so; to save work deliveries
	// may come some milliseconds late meanwhile. An error leaves the lock
	// to others: that of ctx, which does no harm to the session; ErrClosed, with the
	// reason, when the session has ended; ErrAccess for a missing permission.
	TakeLock(ctx context.Context, queue string, waiting func()) error

	// Subscribe starts a consumer. Its Handle function is called from one
	// goroutine, in the order of delivery; it may block, which holds up this
	// consumer alone once its prefetch is used up. It must not call Close.
	// Consumers may come and go any number of times in one session.
	//
	// What the broker refuses is an error and leaves the session as it was:
	// *TopologyError or, with OnEnded, ErrNoQueue for a queue that does not exist;
	// ErrAccess for a missing permission; ErrInUse for a queue that another has
	// for itself, which with OnEnded is ErrAccess as well; ErrUnanswered, with OnEnded, for a queue that gives no
	// answer: a quorum queue without a leader.
	Subscribe(ctx context.Context, sub Subscription) error

	// Unsubscribe ends the consumer of the queue that was started last; false when
	// this session has none (any more). What the broker had sent to it by then is
	// still handed to Handle, and everything delivered can still be acknowledged.
	// Once all of it is settled the consumer holds nothing at the broker.
	Unsubscribe(ctx context.Context, queue string) (bool, error)

	// Publish hands a message to the broker. It returns when the message is
	// accepted for sending, not when it is confirmed, and may block while its window
	// (see SessionSpec) is full of unsettled publications or the broker holds the
	// connection up. nil means that SessionSpec.OnSettled will be called exactly
	// once for p.Token. A non-nil error means that nothing was sent and
	// OnSettled will not be called: ErrClosed, or *EncodingError when this
	// message can never be sent (the session is unharmed): see Edge for what that is.
	Publish(p Publication) error

	// Ack acknowledges a delivery of this session. Acknowledgements may be
	// batched for a few milliseconds, in which what is rejected or requeued overtakes
	// them. A tag of another session is ignored and
	// counted. A tag of a stream delivery moves the consumer's credit. A tag that is
	// settled twice is a fault of the caller: it settles nothing else, and may end the session.
	Ack(tag Tag)

	// Reject refuses a delivery without requeueing it: the broker dead-letters
	// it as "rejected". Of a stream delivery it moves the consumer's credit, like Ack.
	Reject(tag Tag)

	// Requeue gives a delivery back to its queue, where it is ready again, marked
	// as redelivered: for this consumer, too, unless it has been unsubscribed. A
	// quorum queue counts that against its delivery limit, and puts it behind what came
	// back earlier; a classic queue puts it in its old place. Of a stream delivery it
	// moves the consumer's credit, like Ack.
	Requeue(tag Tag)

	// EnsureQueue declares the queue where the topology mode allows it, else
	// looks whether it exists. The bool tells whether it exists now. ErrInUse:
	// it is to be temporary, and another connection has one of that name.
	//
	// Of a temporary queue it also makes the bindings that the topology names for it:
	// no other session can, when the exchange was deleted and declared anew. An exchange
	// that is missing is a *TopologyError, which leaves the session as it was.
	EnsureQueue(ctx context.Context, q Queue) (bool, error)

	// DropQueue deletes a queue in which nothing is ready and that has no consumer,
	// where the topology mode allows queues to be declared. The bool reports whether there
	// is none now.
	//
	// It looks first, as Depth and Holds do, and deletes then, without a condition: quorum queues take none
	// (RabbitMQ, from 3.10 to 4.x, answers if-empty and if-unused with 540, which closes
	// the connection). What comes into the queue in between is lost, although it is
	// Confirmed; a consumer that comes in between is ended. A publication that meets the
	// deletion itself may be Confirmed, Unroutable, or end the session, as Unknown: at once, or
	// because RabbitMQ never answers it. What the queue
	// has handed out and is not acknowledged shows as the consumer that holds it, in a
	// quorum queue, also when that has been unsubscribed; in another it does not show, and
	// is lost as well. So the
	// caller must know that there is no such message, and must publish nothing to the
	// queue from before the call until it has returned; after an error, until EnsureQueue
	// has: a deletion that ctx no longer waits for finishes by itself, before whatever
	// this session asks for afterwards, or is not made. It goes by the connection that holds
	// the session's locks: a session that has lost one deletes nothing any more. While the broker
	// holds publishers up nothing is deleted: false.
	//
	// true with ErrNotEmpty: it is gone, and the broker says that something was in it. It counts
	// before it deletes: what comes in between is lost without a word.
	DropQueue(ctx context.Context, queue string) (bool, error)

	// Matches tells whether this session has made sure that the queue exists
	// exactly as the topology, or the latest EnsureQueue for it, describes it,
	// arguments included: what the description promises (dead-lettering, limits)
	// can be relied on. false when that is not known: topology off, no permission
	// to look, found otherwise, never asked for. It sends no request, costs next to
	// nothing, and is as old as the last look: what others delete or declare
	// since then is seen by the next EnsureQueue.
	Matches(queue string) bool

	// User is the name that UserID of a publication may carry: the one the
	// session logged in under. Empty when it is not known (a client certificate
	// speaks for the session); UserID must then be empty, too. RabbitMQ ends the
	// session of a publisher it knows by another name, as its OAuth 2 plug-in
	// may, which takes the name from the token.
	User() string

	// Broker is what the broker said of itself when the session was opened.
	Broker() Broker

	// Depth reads how many messages are ready in a queue and how many consumers
	// it has, this session's own included, and in a quorum queue those that have been
	// unsubscribed and hold something. It costs the broker next to nothing: a few
	// hundred calls a second are fine, DepthsAtOnce of them together. Of a
	// stream it tells how many messages that has, and may be seconds late: 0 does not
	// mean that it is empty. Of a quorum queue that does not answer in time, as after a start or on a busy
	// machine, RabbitMQ says 0 and 0: see Holds. A queue that does not exist gives ErrNoQueue and harms nothing
	// else, but leaves a line in the log of RabbitMQ each time.
	Depth(ctx context.Context, queue string) (Depth, error)

	// Holds asks the queue itself whether a message is ready in it, which must be no stream: it takes the first
	// and gives it back. To other sessions it is redelivered then; in this one it is as new as before,
	// although RabbitMQ counts a return. It costs more than Depth. Of a queue that does not exist it says ErrNoQueue,
	// of one without an answer within 2 s ErrUnanswered, which leaves the session as it was.
	Holds(ctx context.Context, queue string) (bool, error)

	// Findings tells where the broker's topology differs from what was asked
	// for and was used as it is. Fixed after Open, but for EnsureQueue.
	Findings() []Finding

	// StaleAcks counts acknowledgements of other sessions that were ignored.
	StaleAcks() uint64

	// Done is closed when the session has ended; Err then says why (nil after
	// Close). Publications unsettled at that moment are settled as Unknown
	// before Done closes.
	Done() <-chan struct{}
	Err() error

	// Close flushes acknowledgements, waits for unsettled publications until
	// ctx ends, and closes the connections. Publications that are Unknown are an error, of
	// Close or, where the session had ended before, of Err. After a burst of acknowledgements it
	// gives the broker up to a second to take them in. It is idempotent.
	Close(ctx context.Context) error
}

// SessionSpec says what a session needs.
type SessionSpec struct {
	// Name appears in the broker's connection list, e.g. "taskbus@host".
	Name string
	// Topology to declare, verify or leave alone.
	Topology Topology
	// Window bounds the unsettled publications, the optional ones by themselves; 0
	// means 1024. Those apart have a window of their own, of the same size or
	// WindowApart, whichever is smaller.
	Window int
	// OnSettled gets the outcome of every publication, one at a time, in the order
	// of publishing; optional publications have an order of their own, and so have
	// those apart. It must not block for long and must not call Close. May be nil
	// only when the session never publishes.
	OnSettled func(token uint64, outcome Outcome)
	// OnBlocked tells that the broker holds up publishers (memory or disk
	// alarm) or goes on again. It is called from a goroutine of the session's
	// own. May be nil.
	OnBlocked func(blocked bool, reason string)
}

// DepthsAtOnce is how many calls of Depth a session makes at a time. Of answers that come together the connection is
// read once, and the process wakes up once: together they cost half of what they cost one by one, or less.
const DepthsAtOnce = 16

// WindowApart is how many publications apart may be unsettled at most.
const WindowApart = 64

// Subscription says what to consume.
type Subscription struct {
	Queue string
	// Prefetch bounds the unacknowledged deliveries; must be positive.
	Prefetch int
	// From, for a stream, is where reading starts. Ignored for a queue.
	From Position
	// Exclusive refuses other consumers of this queue; a quorum queue may let them in
	// (RabbitMQ 3.10).
	Exclusive bool
	// Priority among the consumers of a queue: the highest that can take more gets
	// the next message. 0 is the broker's default. Ignored for a stream.
	Priority int
	// OnEnded, if given, makes the subscription one that the session can do
	// without: when the broker ends it (its queue was deleted), the session goes
	// on, what Handle was given is the broker's again and may still be settled to
	// no effect, and OnEnded is called once with the reason, from the goroutine
	// that calls Handle and after its last call. It may call Subscribe, and must
	// not call Close. It is not called after Unsubscribe, nor when the session
	// ends. Without it the end of the subscription is the end of the session.
	OnEnded func(error)
	Handle  func(Delivery)
}

// Broker is what a broker says of itself, in its own words; what it does not say is
// empty.
type Broker struct {
	Product     string // e.g. "RabbitMQ"
	Version     string // e.g. "3.10.8"
	ClusterName string
	Node        string // the one that the session publishes to
}

// Depth is what the broker says of a queue.
type Depth struct {
	Ready     int
	Consumers int
}

// Finding is a difference between the topology asked for and the one in use.
type Finding struct {
	// Object is the queue or exchange, e.g. "task.assign".
	Object string
	// Text says what is different and what is lost by it, for people.
	Text string
}

// Errors of the contract.
var (
	ErrClosed = errors.New("the broker session has ended")
	ErrAccess = errors.New("the broker refused access")
	// ErrLogin is the ErrAccess of Open before anything else was asked for: it would
	// be the same whatever the topology is. RabbitMQ gives no reason.
	ErrLogin = fmt.Errorf("%w: it closed the connection during login, as it does for a wrong user or password",
		ErrAccess)
	ErrNoQueue = errors.New("no such queue")
	// ErrUnanswered: a quorum queue has no leader, as after its broker was killed, or is too busy.
	ErrUnanswered = errors.New("the queue does not answer; see `rabbitmqctl list_queues name state leader`")
	// ErrNotEmpty: messages were lost with a queue that was to be deleted empty.
	ErrNotEmpty = errors.New("the queue was deleted with messages in it")
	// ErrInUse: another connection has the queue for itself. For a temporary queue that
	// is another program under the same name, or an earlier connection of one's
	// own whose loss the broker has not noticed yet: worth another try.
	ErrInUse = errors.New("the queue is in use by another connection")
)

// EncodingError is a message that can never be sent.
type EncodingError struct{ Reason string }

func (e *EncodingError) Error() string { return "message cannot be encoded: " + e.Reason }

// TopologyError names what is missing and what to do about it.
type TopologyError struct {
	Object string
	Reason string
}

func (e *TopologyError) Error() string { return e.Object + ": " + e.Reason }
