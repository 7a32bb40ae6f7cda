// Package bus is the transport contract between Taskbus and a message broker.
//
// It answers "what may we rely on from a broker?" with a handful of types and
// two interfaces. amqpbus implements it on RabbitMQ, tests/support/membus in memory,
// and tests/support/bustest is the conformance suite that both must pass.
//
// # A session is a value
//
// [Bus.Open] dials, declares or verifies the topology and returns a [Session].
// The session lives until its first fault. It never reconnects: the owner sees
// Done, throws it away and opens the next one after a pause. Everything that belongs to a session (tags, unsettled
// publications) dies with it; a late Ack on a dead session does nothing.
//
// # What it must never do
//
// It decides nothing about tasks or agents, interprets no message body, and
// never logs a body, a header value or a URL with its password.
package bus
