package service

import (
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/bus"
	"taskbus/coordinator/service/internal/intake"
	"taskbus/coordinator/service/internal/outbox"
)

// resultsPast is how far back task.result is read without a known position.
const resultsPast = 10 * time.Minute

// onResult takes a delivery of task.result: an agent's report of how a task
// ended, or a fence. It is called for every task, from one goroutine.
func (r *session) onResult(d bus.Delivery) {
	// Each may bring an end to be announced. What the end of the session leaves unread is read again in the
	// next: nothing behind it may count as dealt with, not even a fence, and a queue keeps it.
	if !r.outbox.AwaitRoom(r.bus.Done()) || !r.outputs.AwaitRoom(r.bus.Done()) {
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
	counts, refusal := r.vet.Result(&d, &r.result)
	switch {
	case refusal != nil:
		r.s.observe.InvalidResult(refusal)
	case !counts:
		r.s.observe.ForgedResult()
	}
	if !counts {
		return
	}
	result := r.result.Result()
	result.Offset = d.Offset
	r.outputs.Take(result.Output.Bytes())
	if result.Outcome.Final() {
		r.s.outputs.Keep(result.Task, result.Agent, result.Output)
	}
	news := r.results.CaughtUp.Load()
	r.post(coordinator.ResultReported{Result: result, Live: news, Untold: !news})
}

// onProgress takes a delivery of task.progress. It is called from one goroutine, ten thousand times a second where an
// agent's fault causes a flood: each is read, and no more.
func (r *session) onProgress(d bus.Delivery) {
	defer r.bus.Ack(d.Tag)
	defer r.surviveReport(&d)
	r.s.observe.Delivered(&d)
	m, counts, refusal := r.vet.Progress(&d)
	switch {
	case refusal != nil:
		r.s.observe.InvalidProgress(refusal)
	case !counts:
		r.s.observe.ForgedProgress()
	case !r.latest.Add(m.Progress()):
		r.s.observe.ProgressDropped()
	}
}

// passOn hands reports of progress to the engine, and waits until it has taken them: while it is slow more gather
// where only the latest counts.
func (r *session) passOn(latest []*coordinator.Progress) {
	for _, p := range latest {
		r.post(coordinator.ProgressReported{Progress: p})
	}
	taken := make(chan struct{})
	r.s.loop.enqueue(envelope{call: func(time.Time) { close(taken) }})
	select {
	case <-taken:
	case <-r.bus.Done():
	}
}

// publishProgress announces how far a task is, and tells its producer. Nothing depends on either.
func (r *session) publishProgress(f *coordinator.Progressed) {
	if !r.mayAnnounce() {
		return
	}
	now := r.s.now()
	r.outbox.Add(func() {
		queue := f.Task.ReplyTo
		if queue != "" && r.isOurs(queue) {
			queue = ""
		}
		for _, p := range outbox.Progress(f, queue, now) {
			_ = r.bus.Publish(p) // the next report, or the task's end, says more
		}
	})
}
