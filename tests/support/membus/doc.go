// Package membus is a message broker in memory: package bus without a network.
//
// It answers "what would RabbitMQ do?" for tests, simulations and replay, and
// passes the same conformance suite (bustest) as the real transport. Several
// sessions opened on one [Broker] see the same queues.
//
// # What it imitates
//
// Quorum, classic and stream queues, the default, direct and topic exchanges, further
// keys (CC, BCC), prefetch, consumer priorities, redelivery with x-delivery-count, the
// delivery limit, the order in which each kind of queue puts back what it is given back,
// per-message and per-queue TTL (only the head of a queue expires; a held
// message that expired does not go back), dead-lettering with its x-first-death
// headers, its rule against cycles and its three minutes until it looks again for a queue
// that was missing, length limits, exclusive locks, temporary
// queues, alarms, the end of consumers whose queue is deleted, the depth of a stream that
// is counted late, what a stream keeps together, and the end of a
// session at what RabbitMQ ends a channel for (a missing exchange, an
// acknowledgement of an unknown tag, which amqpbus would not send).
//
// It differs where nothing in Taskbus depends on it: length limits are exact and
// do not hold for dead letters, no dead letter comes twice, streams keep everything until
// [Broker.Trim] is called and give offsets without gaps but for [Broker.SkipOffsets], consumer
// timeouts do not run out, what is published to a quorum queue as it is deleted ends the session
// at once where RabbitMQ may leave it without an answer (see [Lose]), and a session whose user has
// no name (see [Broker.SetUser]) may send any user id.
//
// # Steps
//
// What takes a broker more than one step takes more than one here, without the lock in
// between, where others may get in; [Broker.SetBetween] hears of each by its name.
//
//	Open         each exchange and queue ("declare q"), under Verify its comparison ("compare q"),
//	             each binding ("bind q"); a cut meets it
//	EnsureQueue  one; under Verify look and compare ("compare q"); a temporary queue, then its
//	             bindings ("bind q")
//	DropQueue    look, count ("drop q"), delete ("delete q"), end its consumers by then ("cancel q")
//	DeleteQueue  delete, end its consumers, or its holder as a lock ("cancel q")
//	Publish      returns when it is sent, until when body and headers are the caller's to leave alone;
//	             then found by route, stored in one queue after the other ("store key") and answered
//	             ("confirm key"): each of the three orders of a session by itself. A quorum queue or
//	             stream that is deleted between finding and storing ends the session, a classic queue
//	             takes the message along, confirmed
//	Ack, Reject, Requeue  return when sent; then arrive ("ack"), what is rejected before what is
//	             requeued before what is acknowledged. A cut loses those on their way, Close does not
//	Subscribe    attach, and return ("consume q"): deliveries may come first
//	Unsubscribe  send, and stop ("stop q"): deliveries may come meanwhile
//	TakeLock     look, which takes a publication and so the end of an alarm, and take it ("lock q")
//	a dead letter  leaves what is ready in its queue, comes into the other ("dead-letter q")
//	the end of a session  settles what is published; temporary queues and locks go; what each of its
//	             consumers held is back ("hand back q"). Done may be closed before
//	Depth, Matches, Block, expiry  one
//
// # Time
//
// It reads the time package's clock and waits on channels alone, so that in a
// testing/synctest bubble its hours pass at once. A Broker has no goroutine of
// its own but for dead letters on their way; those of a session end with the session.
//
// # What it must never do
//
// It is no store: nothing survives the process. No callback is ever called
// while the broker's lock is held.
package membus
