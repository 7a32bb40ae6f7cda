package intake

import (
	"sync"

	"taskbus/coordinator"
	"taskbus/coordinator/bus"
)

// Requests are the cancels by message that are not done with yet. One is
// acknowledged when the broker has what follows from it (the task's outcome, or the
// word to its agent), so that a coordinator that dies before is asked again by the
// broker: the next one knows nothing of it.
type Requests struct {
	mu   sync.Mutex
	open map[uint64]request // by token
	// failing are the tasks with an assignment.failed, as cancelled, on its way.
	failing map[coordinator.TaskID]bool
}

type request struct {
	task coordinator.TaskID
	tag  bus.Tag
}

// NewRequests returns none.
func NewRequests() *Requests {
	return &Requests{open: make(map[uint64]request), failing: make(map[coordinator.TaskID]bool)}
}

// Add notes one, under the token of its answer.
func (q *Requests) Add(token uint64, task coordinator.TaskID, tag bus.Tag) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.open[token] = request{task, tag}
}

// Fails notes that the task is about to be published as cancelled.
func (q *Requests) Fails(task coordinator.TaskID) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.failing[task] = true
}

// Answered hears what the engine does about a request: one of which nothing more
// follows is done with.
func (q *Requests) Answered(a coordinator.CancelAnswered) (done []bus.Tag, ours bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	r, ours := q.open[a.Token]
	if !ours || a.State == coordinator.CancelAsked || q.failing[a.Task] {
		return nil, ours
	}
	delete(q.open, a.Token)
	return []bus.Tag{r.tag}, true
}

// Told ends every request for a task after its agent was informed, or cannot be.
func (q *Requests) Told(task coordinator.TaskID) []bus.Tag {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.failing[task] {
		return nil // that is waited for
	}
	return q.done(task)
}

// Ended ends every request for a task when the broker has its outcome.
func (q *Requests) Ended(task coordinator.TaskID) []bus.Tag {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.failing, task)
	return q.done(task)
}

// done takes every request for a task out. q.mu is held.
func (q *Requests) done(task coordinator.TaskID) (done []bus.Tag) {
	for token, r := range q.open { // few: they are prefetched like others
		if r.task == task {
			delete(q.open, token)
			done = append(done, r.tag)
		}
	}
	return done
}
