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

// resultsPast is at least how far back a coordinator that starts reads task.result:
// what agents told while nobody led is announced by it. While somebody led the marks
// tell what is known already (see marks).
const resultsPast = 10 * time.Minute

// resultsFrom is how far back task.result is read: resultsPast, or to where this
// process stopped reading.
func (s *Service) resultsFrom(now time.Time) time.Duration {
	from := max(s.config.Load().Policy().Settings.StaleAfter, resultsPast)
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
	if !r.outbox.awaitRoom(r.bus.Done()) { // each may bring an end to be announced
		return // it is read again in the next session
	}
	r.noteDelivery(&d)
	r.pastRead.Add(1)
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
	if !r.results.caughtUp.Load() && r.onPast(r.result.Result()) {
		return
	}
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
