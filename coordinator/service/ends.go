package service

import (
	"errors"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/bus"
	"taskbus/coordinator/service/internal/outbox"
)

// ending is a task.completed on its way to taskbus.events.
type ending struct{ *coordinator.Completed }

// publishCompleted announces how a task ended.
func (r *session) publishCompleted(f *coordinator.Completed) {
	p := outbox.Completed(f)
	p.Token = r.issue(ending{f})
	err := r.bus.Publish(p)
	if err == nil {
		return
	}
	r.tickets.Redeem(p.Token)
	var encoding *bus.EncodingError
	if errors.As(err, &encoding) { // no session can announce it
		r.s.metrics.EventsDropped.Inc()
		r.cursor.Announced(f.Result.Offset)
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
		r.s.metrics.EventsDropped.Inc()
		e.told(r)
	}
}

// told notes that the end need not be published any more.
func (e ending) told(r *session) {
	r.cursor.Announced(e.Result.Offset)
	r.ackAll(r.requests.Ended(e.Result.Task))
}
