package service

import (
	"sync"
	"time"

	"taskbus/coordinator"
)

// historySize is how many recent tasks are remembered for people: enough to look
// up what just happened, about 2 MB.
const historySize = 4096

// The states of a task as people see them.
const (
	taskPending     = "pending"
	taskDispatching = "dispatching"
	taskDispatched  = "dispatched"
	taskFailed      = "failed"
)

// taskRecord is what is remembered of one task.
type taskRecord struct {
	task       *coordinator.Task
	state      string
	agent      coordinator.AgentID
	dispatchID string
	attempt    int
	decidedAt  time.Time
	duration   time.Duration
	failure    coordinator.Failure
	decision   *coordinator.Decision
}

// history is a ring of the most recent tasks. It is safe for concurrent use.
type history struct {
	mu    sync.Mutex
	ring  []taskRecord
	next  int
	index map[coordinator.TaskID]int
}

func newHistory(size int) *history {
	return &history{ring: make([]taskRecord, size), index: make(map[coordinator.TaskID]int, size)}
}

// record finds the task's record or makes one in place of the oldest.
func (h *history) record(t *coordinator.Task) *taskRecord {
	if i, ok := h.index[t.ID]; ok {
		return &h.ring[i]
	}
	r := &h.ring[h.next]
	if r.task != nil {
		delete(h.index, r.task.ID)
	}
	h.index[t.ID] = h.next
	h.next = (h.next + 1) % len(h.ring)
	*r = taskRecord{task: t}
	return r
}

// accepted notes a task that came in. A copy of a task that is known changes
// nothing: the first one's story goes on.
func (h *history) accepted(t *coordinator.Task) {
	h.mu.Lock()
	defer h.mu.Unlock()
	r := h.record(t)
	if r.state == "" || r.state == taskFailed {
		*r = taskRecord{task: t, state: taskPending}
	}
}

// returned notes a dispatch that came back.
func (h *history) returned(t *coordinator.Task) {
	h.mu.Lock()
	defer h.mu.Unlock()
	r := h.record(t)
	r.state = taskPending
}

// dispatching notes a decision that is being published.
func (h *history) dispatching(d *coordinator.Dispatch) {
	h.mu.Lock()
	defer h.mu.Unlock()
	r := h.record(d.Task)
	r.state, r.agent, r.dispatchID, r.attempt = taskDispatching, d.Agent, d.DispatchID, d.Attempt
	r.decidedAt, r.decision = d.At, d.Decision
}

// dispatched notes that the broker has the dispatch.
func (h *history) dispatched(d *coordinator.Dispatch, duration time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if r := h.record(d.Task); r.dispatchID == d.DispatchID {
		r.state, r.duration = taskDispatched, duration
	}
}

// failed notes a confirmed failure.
func (h *history) failed(f *coordinator.Fail, duration time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if f.Failure.Reason == coordinator.ReasonDuplicateTask {
		return // the first task of this id goes on unharmed
	}
	r := h.record(f.Task)
	r.state, r.failure, r.decision, r.duration = taskFailed, f.Failure, f.Decision, duration
	r.decidedAt = f.Failure.FailedAt
}

// find returns a copy of the task's record.
func (h *history) find(id coordinator.TaskID) (taskRecord, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	i, ok := h.index[id]
	if !ok {
		return taskRecord{}, false
	}
	return h.ring[i], true
}

// recent returns copies of the records that match, the newest first.
func (h *history) recent(limit int, match func(*taskRecord) bool) []taskRecord {
	h.mu.Lock()
	defer h.mu.Unlock()
	var found []taskRecord
	for i := 1; i <= len(h.ring) && len(found) < limit; i++ {
		r := &h.ring[(h.next-i+len(h.ring))%len(h.ring)]
		if r.task == nil {
			break
		}
		if match(r) {
			found = append(found, *r)
		}
	}
	return found
}
