package service

import (
	"errors"

	"taskbus/coordinator"
	"taskbus/coordinator/bus"
	"taskbus/messages"
	"taskbus/schemas"
)

// ending is a task.completed on its way to taskbus.events.
type ending struct{ *coordinator.Completed }

// completed tells the world how a task ended. It runs on the loop's goroutine;
// what costs time is left to the outbox.
func (r *session) completed(f *coordinator.Completed) {
	r.s.observe.completed(f)
	r.s.callers.completed(f.Result.Task, f.Result.Outcome)
	r.outbox.add(outgoing{completed: f})
}

// publishCompleted announces how a task ended.
func (r *session) publishCompleted(f *coordinator.Completed) {
	p := bus.Publication{
		Token: r.tickets.issue(ending{f}), Exchange: bus.ExchangeEvents, Optional: true,
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
	err := r.bus.Publish(p)
	if err == nil {
		return
	}
	r.tickets.redeem(p.Token)
	var encoding *bus.EncodingError
	if errors.As(err, &encoding) { // no session can announce it
		r.s.metrics.eventsDropped.Inc()
		r.told.announced(f.Result.Offset)
	} // else the session has ended; the next one reads the result again
}

// settled hears whether the broker has the announcement. One that it refuses is
// dropped: somebody's own queue for events is full, which is not to hold up others.
func (e ending) settled(r *session, outcome bus.Outcome) {
	switch outcome {
	case bus.Unknown:
		return // the session has ended; the next one reads the result again
	case bus.Rejected:
		r.s.metrics.eventsDropped.Inc()
	}
	r.told.announced(e.Result.Offset)
	r.ackAll(r.requests.ended(e.Result.Task))
}
