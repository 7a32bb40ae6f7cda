// Package messages answers one question: what does a message on the bus say?
//
// It turns bytes into typed values or into a reasoned [Refusal], and what
// Taskbus has decided into bytes. There is one file for each message type; the
// names of fields are a contract with producers and agents and never change.
//
// # Decoding
//
//	size cap ─► fast path ── anything in doubt ──► scan ─► decode ─► schema ─► typed value
//	                │                              slow path: its verdict is the truth
//	                └─► typed value
//
// The scan ([Limits]) bounds depth, tokens and numbers, insists on UTF-8
// without lone surrogates, and refuses duplicate keys everywhere, and keys of
// the envelope that differ from a known field by letter case only: other JSON
// decoders would read those differently than we do. The decoding is
// encoding/json into plain values, once; the schema is package schemas; the
// typed value takes its fields by exact key from what the schema has seen.
//
// Nearly every message is valid and plain, and for those that come in great
// numbers (task.assign, task.dispatch, task.result, agent.status, task.available,
// task.bid) the same scanner fills in the typed value while it scans. It gives up at the
// first thing it does not know well (an escape in a field, 1.0 where an integer
// is expected, any fault at all). The fuzz tests hold it to: what the fast path
// accepts, the slow path accepts with an equal value.
//
// Two queues hold messages of several types, told apart by message_type:
// task.request ([Decoder.DecodeRequest]) and an agent's control queue
// ([Decoder.DecodeControl]).
//
// A field that no schema has is no fault: the typed value names it (Unknown), so that an operator
// can be told what it is likely to mean ([Decoder.Nearest]). Of a message that cannot be used a
// [Sketch] has what can be read.
//
// # Encoding
//
// Everything Taskbus sends on its hot path is appended to a buffer by hand. A
// payload goes out with exactly the bytes it came in with. Tests hold all of it
// against the schemas.
//
// # What comes back
//
// A dispatch carries, in its body and two short headers, all that is needed to
// decide its task again ([Decoder.DecodeReturned]). Nothing is said twice, and
// whatever was accepted once is accepted when it comes back.
//
// # What it must never do
//
// No I/O, no clock, no logging. It never quotes a payload in a refusal, never
// panics on any input, and never decodes a body twice into different views.
package messages
