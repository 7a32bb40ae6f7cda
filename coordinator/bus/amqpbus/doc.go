// Package amqpbus answers "how is the bus.Bus contract kept on RabbitMQ?". It is
// the only package that sees the AMQP client library.
//
// # A session
//
//	              publishing connection            consuming connection
//	Publish ─► publisher ─► channel (confirms)     channel per Subscribe ─► Handle
//	  (3 orders) ring of unsettled ◄─ confirms       ackTracker ─► batched acks
//	           lock queue, topology at Open        administration: Depth, EnsureQueue
//
// Publishing and consuming never share a connection: a publisher that the broker
// holds up (TCP back-pressure, memory alarm) would stall every delivery and
// acknowledgement with it. The lock is on the publishing connection, so that a session that loses the lock
// has lost the means to publish.
//
// Queues are asked for their first message over a third connection (prober), which is opened with the first such
// question: also before a queue is consumed that the session can do without, if the broker says that it is empty. A
// queue may never answer, for which the broker closes the connection.
//
// The first fault of any other part ends the whole session. The one exception is a
// consumer that the session can do without (bus.Subscription.OnEnded): when the
// broker ends it, its channel is closed and that is all. The library's own
// recovery is never used: it keeps delivery tags of the old channel alive, and an
// acknowledgement sent after it can remove a different task.
//
// # Why nothing hangs
//
// The library clears all deadlines after its handshake, and its shutdown takes a
// lock that a blocked publisher holds. Therefore every connection runs over a
// [wire.Wire]: writes are gathered and flushed under a deadline, reads must show a
// heartbeat in time, every request but that for a first message has a time limit, and the code that finds one of
// these exceeded closes the socket beneath the library, which frees every lock.
//
// # Why no message stops the others
//
// The library gives up the whole connection over headers that it cannot read
// (nested too deeply, too many), and the broker would deliver the same message
// again, without end. It ([wire.Guarded]) takes such headers out.
//
// # What it must never do
//
// It decides nothing about tasks or agents, interprets no body, and never puts a
// body, a header value, a password or the broker URL in a log line or an error.
package amqpbus
