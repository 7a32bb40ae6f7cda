package service

import (
	"runtime"
	"runtime/debug"

	"github.com/rs/zerolog"

	"taskbus/coordinator"
	"taskbus/messages"
)

// A fault of the program that one message brings out costs that message, which is
// parked, and nobody else anything: without that it would come again after every
// crash. Only what is done for one message alone is guarded; a fault of the engine
// ends the process, because nobody knows what the engine knows then.

// survive, deferred by whoever takes a delivery, parks one that cannot be handled.
func (r *session) survive(h *heldDelivery) {
	p := recover()
	if p == nil {
		return
	}
	r.s.observe.survived(p, h.delivery.Queue)
	refusal := &messages.Refusal{Keyword: "fault", Text: "the coordinator failed while it handled this message: a fault of the program, described in its log"}
	if h.handle == 0 {
		r.refuse(h, refusal)
		return
	}
	r.outbox.add(outgoing{refused: refusal, held: h}) // handing it to the engine was still to come
}

// surviveDispatch, deferred by whoever encodes a dispatch, fails its task.
func (r *session) surviveDispatch(d *coordinator.Dispatch) {
	if p := recover(); p != nil {
		r.s.observe.survived(p, d.Queue)
		r.s.loop.post(r.number, coordinator.DispatchSettled{Handle: d.Handle, Outcome: coordinator.PublishNotSent})
	}
}

// survived writes down a fault of the program. What it says of values is left out:
// they may be a payload's.
func (o *observer) survived(p any, queue string) {
	e := o.gated(noiseFault, zerolog.ErrorLevel).Str("queue", queue)
	if err, ok := p.(runtime.Error); ok {
		e = e.Err(err)
	}
	e.Bytes("stack", debug.Stack()).Msg("a fault of the program while one message was handled; the message is parked in task.dead. Please report it with this line")
}
