// Package wire is the stream of bytes beneath the AMQP library.
//
// A [Wire] gathers what is written and flushes it under a deadline, notices a silence, and can be cut at any moment,
// which frees whatever waits in it. A [Guarded] one takes headers out of messages that the library could not read.
//
// It must never interpret a message but for the extent of its headers, or wait without a limit unless the broker
// holds publishers up.
package wire
