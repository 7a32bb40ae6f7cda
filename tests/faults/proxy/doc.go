// Package proxy stands between an AMQP 0-9-1 client and its broker and does to their
// connections what a network, or a broker at its worst moment, would do.
//
// # What it answers
//
// "What would the client do if this happened exactly then?" A [Toxic] is a fault of a
// network, in toxiproxy's vocabulary: latency, bandwidth, blackhole, timeout, slicer,
// limit_data, slow_close, each for one direction; [Proxy.Reset], [Proxy.Finish] and
// [Proxy.Refuse] are reset_peer and down. A [Rule] sees frames: "cut after the third
// basic.publish", "swallow the next basic.ack", "delay confirms for 3 s", "call this
// when a dispatch is confirmed".
//
// A [Trace] takes down what passes and tells whether the client kept its promises on
// the wire: no acknowledgement of a task before the confirm of what it led to, none for
// a delivery that its channel never made, no dispatch before the journal has it.
//
//	client ─► read ─► frames ─► rules ─► queue ─► due? ─► write ─► broker
//	                    │ trace
//	client ◄─ write ◄─ due? ◄─ queue ◄─ rules ◄─ frames ◄─ read ◄─ broker
//	            │ trace
//
// The trace notes what the client sends when the client has sent it, and what the
// broker sends just before the client can have it: what is in order there was in order
// for the client.
//
// # What it must never do
//
// It never changes a byte of what it lets through. It counts every fault that it
// causes: a test whose fault never fired has shown nothing.
package proxy
