package service

import (
	"errors"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/bus"
	"taskbus/messages"
	"taskbus/schemas"
)

// ending is a task.completed on its way to taskbus.events.
type ending struct{ *coordinator.Completed }

// completed publishes how a task ended. It runs on the loop's goroutine;
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
		r.cursor.announced(f.Result.Offset)
	} // else the session has ended; the next one reads the result again
}

// refusedFor is how long the session must go on for an announcement that the broker has refused to be
// dropped: a listener's queue for events is full then, which is not to hold up others. A broker that stops
// refuses what it cannot take any more, too, and the next session publishes that.
const refusedFor = 15 * time.Second

// settled hears whether the broker has the announcement.
func (e ending) settled(r *session, outcome bus.Outcome) {
	switch outcome {
	case bus.Unknown: // the session has ended; the next one reads the result again
	case bus.Rejected:
		time.AfterFunc(refusedFor, func() { e.drop(r) })
	default:
		e.told(r)
	}
}

// drop gives an announcement up, unless the session has ended.
func (e ending) drop(r *session) {
	select {
	case <-r.bus.Done():
	default:
		r.s.metrics.eventsDropped.Inc()
		e.told(r)
	}
}

// told notes that the end need not be published any more.
func (e ending) told(r *session) {
	r.cursor.announced(e.Result.Offset)
	r.ackAll(r.requests.ended(e.Result.Task))
}
