package service

import (
	"time"

	"taskbus/config"
	"taskbus/coordinator"
	"taskbus/coordinator/bus"
	"taskbus/messages"
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
	if r.results.takes(&d) {
		return
	}
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
	r.s.loop.post(r.number, coordinator.ResultReported{Result: r.result.Result(), Live: r.results.caughtUp.Load()})
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

// completed tells the world how a task ended. It runs on the loop's goroutine;
// what costs time is left to the outbox.
func (r *session) completed(f *coordinator.Completed) {
	r.s.observe.completed(f)
	r.s.callers.completed(f.Result.Task, f.Result.Outcome)
	if r.mayAnnounce() {
		r.outbox.add(outgoing{completed: f})
	}
}

// publishCompleted announces how a task ended.
func (r *session) publishCompleted(f *coordinator.Completed) {
	p := bus.Publication{
		Token: tokenIgnored, Exchange: bus.ExchangeEvents, Optional: true,
		Key: schemas.TaskCompleted + "." + string(f.Result.Agent),
		Properties: bus.Properties{
			ContentType: contentJSON, Type: schemas.TaskCompleted, AppID: appID,
			MessageID: string(f.Result.Task) + ".completed", CorrelationID: traceOf(f), Timestamp: f.At,
		},
		Body: messages.AppendTaskCompleted(make([]byte, 0, 512), f),
	}
	if f.Task != nil && f.Task.TraceParent != "" {
		p.Headers = make(map[string]any, 2)
		addTrace(p.Headers, f.Task)
	}
	_ = r.bus.Publish(p) // an announcement: whoever missed it can look
}

// traceOf is the trace id under which a task ended.
func traceOf(f *coordinator.Completed) string {
	if f.Task != nil {
		return f.Task.TraceID
	}
	return f.Result.TraceID
}
