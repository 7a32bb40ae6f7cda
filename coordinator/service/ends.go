package service

import (
	"errors"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/bus"
	"taskbus/coordinator/service/internal/outbox"
)

// publishCompleted announces how a task ended.
func (r *session) publishCompleted(f *coordinator.Completed) {
	err := r.send(outbox.Completed(f), func(outcome bus.Outcome) {
		switch outcome {
		case bus.Unknown: // the session has ended; the next one reads the result again
		case bus.Rejected:
			time.AfterFunc(refusedFor, func() { r.dropEnd(f) })
		default:
			r.endTold(f)
		}
	})
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

// dropEnd gives an announcement up, unless the session has ended.
func (r *session) dropEnd(f *coordinator.Completed) {
	select {
	case <-r.bus.Done():
	default:
		r.s.metrics.EventsDropped.Inc()
		r.endTold(f)
	}
}

// endTold notes that the end need not be published any more.
func (r *session) endTold(f *coordinator.Completed) {
	r.cursor.Announced(f.Result.Offset)
	r.ackAll(r.requests.Ended(f.Result.Task))
}
