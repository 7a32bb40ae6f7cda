package service

import (
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/bus"
	"taskbus/coordinator/service/internal/intake"
)

// resultsPast is how far back task.result is read without a known position.
const resultsPast = 10 * time.Minute

// onResult takes a delivery of task.result: an agent's report of how a task
// ended, or a fence. It is called for every task, from one goroutine.
func (r *session) onResult(d bus.Delivery) {
	// Each may bring an end to be announced. What the end of the session leaves unread is read again in the
	// next: nothing behind it may count as dealt with, not even a fence, and a queue keeps it.
	if !r.outbox.AwaitRoom(r.bus.Done()) || !r.outputs.AwaitRoom(r.bus.Done()) {
		return
	}
	if d.Offset < 0 { // a queue: it must not be taken out before what it says is written down
		defer r.s.loop.within(r.number, func(time.Time) { r.s.loop.after(func() { r.bus.Ack(d.Tag) }) })
	} else {
		defer r.bus.Ack(d.Tag) // in a stream an acknowledgement only asks for more
	}
	defer r.surviveReport(&d)
	if d.Type == intake.TypeFence {
		r.results.Takes(&d)
		if d.Offset >= 0 {
			r.s.loop.within(r.number, func(time.Time) { r.cursor.Applied(d.Offset) })
		}
		return
	}
	r.s.observe.Delivered(&d)
	r.pastRead.Add(1)
	counts, refusal := r.vet.Result(&d, &r.result)
	if refusal != nil {
		r.s.observe.InvalidResult(refusal)
	}
	switch {
	case counts:
	case refusal == nil:
		r.s.observe.ForgedResult()
		return
	default:
		return
	}
	result := r.result.Result()
	result.Offset = d.Offset
	r.outputs.Take(result.Output.Bytes())
	if result.Outcome.Final() {
		r.s.outputs.Keep(result.Task, result.Agent, result.Output)
	}
	news := r.results.CaughtUp.Load()
	r.post(coordinator.ResultReported{Result: result, Live: news, Untold: !news})
}
