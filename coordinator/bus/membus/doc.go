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
// timeouts do not run out, and any user may send any user id.
//
// # Time
//
// It reads the time package's clock and waits on channels alone, so that in a
// testing/synctest bubble its hours pass at once. A Broker has no goroutine of
// its own; those of a session end with the session.
//
// # What it must never do
//
// It is no store: nothing survives the process. No callback is ever called
// while the broker's lock is held.
package membus
