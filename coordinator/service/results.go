package service

import (
	"time"

	"taskbus/config"
	"taskbus/coordinator"
	"taskbus/coordinator/bus"
	"taskbus/schemas"
)

// resultMargin is read of task.result beyond the time without a session: what
// lay with the broker when the last one ended, and clocks that run apart.
const resultMargin = 10 * time.Second

// resultsFrom is how far back task.result is read: as far as the agents' past, or
// to where this process stopped reading.
func (s *Service) resultsFrom(now time.Time) time.Duration {
	from := s.config.Load().Policy().Settings.StaleAfter
	if !s.resultsReadTo.IsZero() {
		from = max(from, now.Sub(s.resultsReadTo)+resultMargin)
	}
	return from
}

// onResult takes a delivery of task.result: the word of an agent on how a task
// ended, or a fence. It is called for every task, from one goroutine.
func (r *session) onResult(d bus.Delivery) {
	defer r.bus.Ack(d.Tag) // in a stream an acknowledgement only asks for more
	if d.Type == typeFence {
		r.onMark(&d)
		return
	}
	r.outbox.awaitRoom(r.bus.Done()) // each may bring an end to be announced
	r.noteDelivery(&d)
	refusal := plainJSON(&d)
	if refusal == nil {
		refusal = r.s.decoder.DecodeTaskResult(d.Body, &r.result)
	}
	if refusal != nil {
		r.s.observe.invalidResult(refusal)
		return
	}
	if !r.authentic(schemas.TaskResult, r.result.AgentID, d.UserID) {
		r.s.count.forgedResults.Add(1)
		r.s.metrics.forgedResults.Inc()
		return
	}
	r.marks.came()
	if !r.results.caughtUp.Load() {
		r.postPast(r.past.add(r.result.Result()), false)
		return
	}
	r.endPast()
	r.s.loop.post(r.number, coordinator.ResultReported{Result: r.result.Result(), Live: true})
}

// authentic tells whether a message of an agent may count (agents.auth): the
// user that the broker has validated must be the agent.
func (r *session) authentic(messageType string, agent coordinator.AgentID, user string) bool {
	mode := r.s.config.Load().Auth
	if mode == config.AuthOff || user == string(agent) {
		return true
	}
	r.s.observe.wrongSender(messageType, agent, user, mode)
	return mode != config.AuthStrict
}

// traceOf is the trace id under which a task ended.
func traceOf(f *coordinator.Completed) string {
	if f.Task != nil {
		return f.Task.TraceID
	}
	return f.Result.TraceID
}
