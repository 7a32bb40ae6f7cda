// Package membus is a message broker in memory: package bus without a network.
//
// It answers "what would RabbitMQ do?" for tests, simulations and replay, and
// passes the same conformance suite (bustest) as the real transport. Several
// sessions opened on one [Broker] see the same queues.
//
// # What it imitates
//
// Quorum, classic and stream queues, the default, direct and topic exchanges,
// prefetch, consumer priorities, redelivery with x-delivery-count, the delivery
// limit, per-message and per-queue TTL (only the head of a queue expires; a held
// message that expired does not go back), dead-lettering with its x-first-death
// headers and its rule against cycles, length limits, exclusive locks, temporary
// queues, alarms, the end of consumers whose queue is deleted, and the end of a
// session at what RabbitMQ ends a channel for (a missing exchange, an
// acknowledgement of an unknown tag).
//
// It differs where nothing in Taskbus depends on it: length limits are exact and
// do not hold for dead letters, streams keep everything until [Broker.Trim] is
// called and give offsets without gaps but for [Broker.SkipOffsets], consumer
// timeouts do not run out, and a session whose user has no name (see [Broker.SetUser])
// may send any user id.
//
// # Steps
//
// What takes a broker more than one step takes more than one here, without the lock in
// between, where others may get in; [Broker.SetBetween] hears of each by its name.
//
//	Open         each queue ("declare q"), each binding ("bind q")
//	EnsureQueue  one; under Verify look and compare ("compare q"); a temporary queue, then its
//	             bindings ("bind q")
//	DropQueue    look, delete ("drop q"), end who consumes it by then ("cancel q")
//	DeleteQueue  delete, end its consumers ("cancel q")
//	Publish      returns when it is sent; then found by route, stored and answered ("store key"):
//	             each of the three orders of a session by itself. A queue that is deleted
//	             between finding and storing ends the session
//	Ack, Reject, Requeue  return when sent; then arrive, in order ("ack"). A cut loses those on
//	             their way, Close does not
//	a dead letter  leaves what is ready in its queue, comes into the other ("dead-letter q")
//	TakeLock, Subscribe, Unsubscribe, Depth, Matches, Cut, Block, expiry  one
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
