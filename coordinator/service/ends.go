package service

import (
	"sync"

	"taskbus/coordinator"
	"taskbus/coordinator/bus"
	"taskbus/messages"
	"taskbus/schemas"
)

// ending is a task.completed on its way to taskbus.events.
type ending struct{ *coordinator.Completed }

// untold are the ends of tasks that a session did not get through to the broker:
// the next one announces them. Nobody would remind us of them, for what a stream
// repeats is no news. There are never more than one session had on their way, and
// that is bounded (see outbox.awaitRoom).
type untold struct {
	mu   sync.Mutex
	ends []*coordinator.Completed
}

func (u *untold) add(f *coordinator.Completed) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.ends = append(u.ends, f)
}

// take empties the list.
func (u *untold) take() []*coordinator.Completed {
	u.mu.Lock()
	defer u.mu.Unlock()
	ends := u.ends
	u.ends = nil
	return ends
}

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
	if err := r.bus.Publish(p); err != nil {
		r.tickets.redeem(p.Token)
		r.s.untold.add(f)
	}
}

// settled hears whether the broker has the announcement. One that it refuses is
// dropped: somebody's own queue for events is full, which is not to hold up others.
func (e ending) settled(r *session, outcome bus.Outcome) {
	switch outcome {
	case bus.Unknown:
		r.s.untold.add(e.Completed)
		return
	case bus.Rejected:
		r.s.metrics.eventsDropped.Inc()
	}
	r.ackAll(r.requests.ended(e.Result.Task))
}

// keepUntold saves the announcements that came when nothing was published any more.
// It runs on the loop's goroutine, after the last event of the session.
func (r *session) keepUntold() {
	for _, item := range r.outbox.swap(nil) {
		if item.completed != nil {
			r.s.untold.add(item.completed)
		}
	}
}
