package service

import (
	"sync"

	"taskbus/coordinator"
	"taskbus/coordinator/bus"
	"taskbus/coordinator/httpapi"
)

// requests are the cancels by message that the engine has not answered yet, by
// token. A request is acknowledged with its answer: by then its outcome is on its
// way, or the agent is being told.
type requests struct {
	mu   sync.Mutex
	open map[uint64]bus.Tag
}

func newRequests() *requests { return &requests{open: make(map[uint64]bus.Tag)} }

func (q *requests) add(token uint64, tag bus.Tag) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.open[token] = tag
}

func (q *requests) take(token uint64) (bus.Tag, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	tag, ok := q.open[token]
	delete(q.open, token)
	return tag, ok
}

// onRequest takes a delivery of task.request: a task.cancel.
func (r *session) onRequest(d bus.Delivery) {
	if r.draining.Load() {
		return // unacknowledged: the broker gives it to the next session
	}
	r.noteDelivery(&d)
	refusal := plainJSON(&d)
	if refusal == nil {
		m, undecodable := r.s.decoder.DecodeTaskCancel(d.Body)
		if undecodable == nil {
			token := r.s.callers.token()
			r.requests.add(token, d.Tag)
			r.s.loop.post(r.number, coordinator.CancelRequested{Task: m.TaskID, Reason: m.Reason, Token: token})
			return
		}
		refusal = undecodable
	}
	// Nobody is told of it: the task it names, if any, may be doing well.
	refusal.TaskID = ""
	r.s.count.received.Add(1)
	r.refuse(&heldDelivery{delivery: d, arrived: r.s.now()}, refusal)
}

// cancelAnswered settles a request, or tells the caller who waits.
func (r *session) cancelAnswered(a coordinator.CancelAnswered) {
	r.s.observe.cancelAnswered(a)
	if tag, ok := r.requests.take(a.Token); ok {
		r.bus.Ack(tag)
		return
	}
	r.s.callers.answer(a)
}

// cancelWord is the state of a cancel in the words of the HTTP interface.
func cancelWord(s coordinator.CancelState) string {
	switch s {
	case coordinator.CancelDone:
		return httpapi.Cancelled
	case coordinator.CancelAsked:
		return httpapi.CancelRequested
	case coordinator.CancelNoted:
		return httpapi.CancelNoted
	default:
		return httpapi.CancelTooLate
	}
}
