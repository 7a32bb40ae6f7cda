package service

import (
	"time"

	"taskbus/config"
	"taskbus/coordinator"
	"taskbus/coordinator/bus"
	"taskbus/coordinator/service/internal/intake"
	"taskbus/schemas"
)

// resultsPast is how far back task.result is read without a known position.
const resultsPast = 10 * time.Minute

// onResult takes a delivery of task.result: an agent's report of how a task
// ended, or a fence. It is called for every task, from one goroutine.
func (r *session) onResult(d bus.Delivery) {
	// Each may bring an end to be announced. What the end of the session leaves unread is read again in the
	// next: nothing behind it may count as dealt with, not even a fence, and a queue keeps it.
	if !r.outbox.AwaitRoom(r.bus.Done()) {
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
	refusal := intake.CheckProperties(&d)
	if refusal == nil {
		refusal = r.s.decoder.DecodeTaskResult(d.Body, &r.result)
	}
	if refusal != nil {
		r.s.observe.InvalidResult(refusal)
		return
	}
	r.knows(schemas.TaskResult, r.result.Unknown, string(r.result.AgentID), &d)
	if !r.authentic(schemas.TaskResult, r.result.AgentID, &d) {
		r.s.observe.ForgedResult()
		return
	}
	result := r.result.Result()
	result.Offset = d.Offset
	news := r.results.CaughtUp.Load()
	r.s.loop.post(r.number, coordinator.ResultReported{Result: result, Live: news, Untold: !news})
}

// authentic reports whether a message of an agent may count. A key that ends in an id must end in
// the agent's, whatever agents.auth says; with it the user that the broker has validated must be
// the agent.
func (r *session) authentic(messageType string, agent coordinator.AgentID, d *bus.Delivery) bool {
	if key, keyed := intake.KeyOf(d); keyed && key != agent {
		r.s.observe.WrongKey(messageType, agent, key)
		return false
	}
	mode := r.s.config.Load().Auth
	if mode == config.AuthOff || d.UserID == string(agent) {
		return true
	}
	r.s.observe.WrongSender(messageType, agent, d.UserID, mode)
	return mode != config.AuthStrict
}
