package service

import (
	"errors"
	"sync/atomic"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/bus"
	"taskbus/coordinator/service/internal/outbox"
)

// publishCompleted announces how a task ended, and answers its producer.
func (r *session) publishCompleted(f *coordinator.Completed) {
	queue, event := r.answerTo(f.Task), outbox.Completed(f)
	if queue == "" {
		r.publishEnd(event, func() { r.endTold(f) })
		return
	}
	var left atomic.Int32
	left.Store(2)
	told := func() {
		if left.Add(-1) == 0 {
			r.endTold(f)
		}
	}
	r.publishEnd(event, told)
	answer := outbox.Answer(event, f.Result.Output, queue)
	r.notices.Publish(nil, []bus.Publication{answer}, func(bool) { told() })
}

// publishEnd publishes the event of an end, and calls told when there is no more to be done for it.
func (r *session) publishEnd(p bus.Publication, told func()) {
	err := r.send(p, func(outcome bus.Outcome) {
		switch outcome {
		case bus.Unknown: // the session has ended; the next one reads the result again
		case bus.Rejected:
			time.AfterFunc(refusedFor, func() { r.dropEnd(told) })
		default:
			told()
		}
	})
	var encoding *bus.EncodingError
	if errors.As(err, &encoding) { // no session can publish it
		r.s.metrics.EventsDropped.Inc()
		told()
	} // else the session has ended; the next one reads the result again
}

// answerAgain answers a copy of a task that has ended, with its output as long as that is kept, and acknowledges it.
func (r *session) answerAgain(f *coordinator.Asked) {
	h, queue := r.held.Get(f.Handle), r.answerTo(f.Task)
	switch {
	case h == nil:
		return
	case queue == "":
		r.acknowledge(coordinator.Ack{Handle: f.Handle, Copy: true})
		return
	}
	output := r.s.outputs.Of(f.Task.ID, f.Agent)
	if output == nil {
		output = &coordinator.Output{Unknown: true}
	}
	c := &coordinator.Completed{Task: f.Task, Attempt: f.Attempt, At: r.s.now(), Result: coordinator.Result{
		Task: f.Task.ID, Agent: f.Agent, Outcome: f.Outcome, Output: output,
	}}
	r.held.Tell(h)
	answer := outbox.Answer(outbox.Completed(c), output, queue)
	r.notices.Publish(&h.Message, []bus.Publication{answer}, func(bool) {
		r.acknowledge(coordinator.Ack{Handle: f.Handle, Copy: true})
	})
}

// answerTo is the queue that gets what becomes of a task, of which nothing but its id may be known (nil); empty: none.
func (r *session) answerTo(t *coordinator.Task) string {
	switch {
	case t == nil || t.ReplyTo == "":
		return ""
	case r.isOurs(t.ReplyTo):
		r.s.observe.ReplyToRefused(t)
		return ""
	}
	return t.ReplyTo
}

// refusedFor is how long the session must go on for an announcement that the broker has refused to be
// dropped: a listener's queue for events is full then, which is not to hold up others. A broker that stops
// refuses what it cannot take any more, too, and the next session publishes that.
const refusedFor = 15 * time.Second

// dropEnd gives an announcement up, unless the session has ended.
func (r *session) dropEnd(told func()) {
	select {
	case <-r.bus.Done():
	default:
		r.s.metrics.EventsDropped.Inc()
		told()
	}
}

// endTold notes that the end need not be published any more.
func (r *session) endTold(f *coordinator.Completed) {
	r.outputs.Release(f.Result.Output.Bytes())
	r.cursor.Announced(f.Result.Offset)
	r.ackAll(r.requests.Ended(f.Result.Task))
}
