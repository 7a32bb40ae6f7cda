package service

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/httpapi"
)

// historySize is how many recent tasks are remembered for people: enough to look
// up what just happened, about 2 MB.
const historySize = 4096

// The states of a task as people see them.
const (
	taskPending     = "pending"
	taskDispatching = "dispatching"
	taskDispatched  = "dispatched"
	taskSucceeded   = "succeeded"
	taskFailed      = "failed"
	taskCancelled   = "cancelled"
)

// taskRecord is what is remembered of one task.
type taskRecord struct {
	task       *coordinator.Task
	state      string
	agent      coordinator.AgentID
	dispatchID string
	attempt    int
	// decidedAt is when the latest decision was made, dispatchedAt when the latest
	// that chose an agent.
	decidedAt, dispatchedAt time.Time
	// waited is for how long it has waited for agents, over all attempts, up to waitsFrom: since then it
	// waits (again), until a dispatch is confirmed or it fails; zero: it does not.
	waited    time.Duration
	waitsFrom time.Time
	failure   coordinator.Failure
	decision  *coordinator.Decision
	past      pastAttempts
	// Of its result, zero before it: when it counted, and the agent's own words.
	completedAt time.Time
	work        time.Duration
	workError   string
	// queued is where it waits; only of a copy for a reader that has asked for that.
	queued *httpapi.Queued
}

// history is a ring of the most recent tasks. It is safe for concurrent use.
type history struct {
	mu    sync.Mutex
	ring  []taskRecord
	next  int
	index map[coordinator.TaskKey]int
}

func newHistory(size int) *history {
	return &history{ring: make([]taskRecord, size), index: make(map[coordinator.TaskKey]int, size)}
}

// known returns the record of a task; nil: there is none.
func (h *history) known(key coordinator.TaskKey) *taskRecord {
	if i, ok := h.index[key]; ok {
		return &h.ring[i]
	}
	return nil
}

// record finds the task's record or makes one in place of the oldest.
func (h *history) record(t *coordinator.Task) *taskRecord {
	key := coordinator.KeyOf(t.ID)
	if r := h.known(key); r != nil {
		return r
	}
	r := &h.ring[h.next]
	if r.task != nil {
		delete(h.index, coordinator.KeyOf(r.task.ID))
	}
	h.index[key] = h.next
	h.next = (h.next + 1) % len(h.ring)
	*r = taskRecord{task: t}
	return r
}

// ended reports whether the task has.
func (r *taskRecord) ended() bool {
	return r.state == taskSucceeded || r.state == taskFailed || r.state == taskCancelled
}

// of returns the record of the task: a new one, if the one of its id is of a task that had ended before
// this one was accepted.
func (h *history) of(t *coordinator.Task) *taskRecord {
	r := h.record(t)
	if r.ended() && t.AcceptedAt.After(r.task.AcceptedAt) {
		*r = taskRecord{task: t}
	}
	return r
}

// waiting returns the record of a task that waits, or has been given away for the first time, for all that is known.
func (h *history) waiting(t *coordinator.Task) *taskRecord {
	r := h.of(t)
	if r.state == "" {
		r.waitsFrom = t.AcceptedAt
	}
	return r
}

// waits notes that it waits again from then on.
func (r *taskRecord) waits(from time.Time) {
	if r.waitsFrom.IsZero() {
		r.waitsFrom = from
	}
}

// waitedUntil notes that it waits no more.
func (r *taskRecord) waitedUntil(at time.Time) {
	r.waited, r.waitsFrom = r.waitedBy(at), time.Time{}
}

// waitedBy returns for how long it has waited so far.
func (r *taskRecord) waitedBy(now time.Time) time.Duration {
	if r.waitsFrom.IsZero() {
		return r.waited
	}
	return r.waited + max(0, now.Sub(r.waitsFrom))
}

// accepted notes a task that came in and is none that is known; waits: it is pending.
func (h *history) accepted(t *coordinator.Task, waits bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if r := h.waiting(t); r.state == "" || waits {
		r.state = taskPending
	}
}

// returned notes a dispatch that came back. One of a task that has ended meanwhile
// changes nothing.
func (h *history) returned(ev *coordinator.TaskReturned, now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	r := h.of(ev.Task)
	if !r.completedAt.IsZero() {
		return
	}
	r.cameBack(ev)
	r.waits(now)
	r.state = taskPending
}

// dispatching notes a decision that is being published.
func (h *history) dispatching(d *coordinator.Dispatch) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.decided(d)
}

func (h *history) decided(d *coordinator.Dispatch) {
	r := h.waiting(d.Task)
	r.begin(d)
	r.state, r.agent, r.dispatchID, r.attempt = taskDispatching, d.Agent, d.DispatchID, d.Attempt
	r.decidedAt, r.decision = d.At, d.Decision
	r.failure, r.completedAt, r.work, r.workError = coordinator.Failure{}, time.Time{}, 0, ""
}

// dispatched notes that the broker has the dispatch. The agent may have been
// faster with its result.
func (h *history) dispatched(d *coordinator.Dispatch, now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if r := h.record(d.Task); r.dispatchID == d.DispatchID {
		r.waitedUntil(now)
		if r.state == taskDispatching {
			r.state = taskDispatched
		}
	}
}

// completed notes the result of a task. It has the last word: one that comes late
// does away with the failure, or the second dispatch, before it.
func (h *history) completed(c *coordinator.Completed) {
	h.mu.Lock()
	defer h.mu.Unlock()
	r := h.known(coordinator.KeyOf(c.Result.Task))
	switch {
	case r != nil:
	case c.Task != nil:
		r = h.record(c.Task)
	default:
		return // of the task nothing but its id is known
	}
	if r.state == taskPending { // else the confirmed dispatch ends its waiting
		r.waitedUntil(c.At)
	}
	r.endedBy(&c.Result, c.Attempt)
	r.state = [coordinator.NumOutcomes]string{
		coordinator.OutcomeSucceeded: taskSucceeded,
		coordinator.OutcomeFailed:    taskFailed,
		coordinator.OutcomeCancelled: taskCancelled,
	}[c.Result.Outcome]
	r.agent, r.attempt, r.failure = c.Result.Agent, c.Attempt, coordinator.Failure{}
	r.completedAt, r.work, r.workError = c.At, c.Result.Duration, c.Result.Error
}

// failed notes a confirmed failure.
func (h *history) failed(f *coordinator.Fail) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if f.Failure.Reason == coordinator.ReasonDuplicateTask {
		return // the first task of this id goes on unharmed
	}
	r := h.of(f.Task)
	if r.state == "" && f.Handle != 0 && f.Failure.Attempts == 0 && !f.Task.AcceptedAt.IsZero() { // it was refused at once
		r.waitsFrom = f.Task.AcceptedAt
	}
	if !r.completedAt.Before(f.Failure.FailedAt) {
		return // its result came while this was on its way
	}
	// One that failed without a dispatch of its own, or for what the fleet is like, was decided by that; one that
	// came back too often, or was cancelled, still has the decision of its latest dispatch.
	if f.Handle != 0 && (f.Decision != nil || r.agent == "") {
		r.decision, r.decidedAt = f.Decision, f.Failure.FailedAt
	}
	r.fails(f.Failure, f.Handle == 0)
}

// fails notes that the task has ended, and not by its agent's report. overdue: its agent has not reported
// in time how the latest attempt ended, or that it has stopped.
func (r *taskRecord) fails(f coordinator.Failure, overdue bool) {
	r.state, r.failure = taskFailed, f
	r.waitedUntil(f.FailedAt)
	if f.Reason == coordinator.ReasonCancelled {
		r.state = taskCancelled
	}
	if overdue && r.past.outcome == "" {
		r.past.outcome = attemptTimedOut
	}
}

// late notes a result that came after its task had timed out, and changes nothing.
func (h *history) late(f *coordinator.ResultRefused, now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	r := h.known(coordinator.KeyOf(f.Task))
	if r == nil {
		return
	}
	if a, given := r.latest(); given && a.agent == f.Agent && (f.Attempt == 0 || f.Attempt == a.number) {
		r.saidTooLate(f.Outcome, now)
	}
}

// saidTooLate notes what its agent said of a task that had timed out before.
func (r *taskRecord) saidTooLate(o coordinator.Outcome, at time.Time) {
	if r.past.outcome != attemptTimedOut || r.past.detail != "" {
		return
	}
	r.past.detail = fmt.Sprintf("%s, %s too late", o, coordinator.Roughly(at.Sub(r.failure.FailedAt)))
	r.failure.Text += "; its agent said " + r.past.detail
}

// outcome returns how the task ended, in the words of task.result; empty when it is
// not remembered, or has not ended.
func (h *history) outcome(id coordinator.TaskID) string {
	if r, _ := h.find(id); r.ended() {
		return r.state
	}
	return ""
}

// find returns a copy of the task's record.
func (h *history) find(id coordinator.TaskID) (taskRecord, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if r := h.known(coordinator.KeyOf(id)); r != nil {
		return *r, true
	}
	return taskRecord{}, false
}

// given counts by agent the newest tasks that were given to one, at most limit of
// them.
func (h *history) given(limit int) map[coordinator.AgentID]int {
	h.mu.Lock()
	defer h.mu.Unlock()
	counts := make(map[coordinator.AgentID]int)
	for i := 1; i <= len(h.ring) && limit > 0; i++ {
		r := &h.ring[(h.next-i+len(h.ring))%len(h.ring)]
		if r.task == nil {
			break
		}
		if r.agent != "" {
			counts[r.agent]++
			limit--
		}
	}
	return counts
}

// since returns when the task was accepted; of a message that was refused unread, when that was.
func (r *taskRecord) since() time.Time {
	if r.task.AcceptedAt.IsZero() {
		return r.failure.FailedAt
	}
	return r.task.AcceptedAt
}

// recent returns copies of the records that match, those first of which the tasks were accepted
// last: what is read in the journal was not new when it came here.
func (h *history) recent(limit int, match func(*taskRecord) bool) []taskRecord {
	h.mu.Lock()
	defer h.mu.Unlock()
	var matching []*taskRecord
	for i := 1; i <= len(h.ring); i++ {
		r := &h.ring[(h.next-i+len(h.ring))%len(h.ring)]
		if r.task == nil {
			break
		}
		if match(r) {
			matching = append(matching, r)
		}
	}
	slices.SortStableFunc(matching, func(a, b *taskRecord) int { return b.since().Compare(a.since()) })
	found := make([]taskRecord, min(max(limit, 0), len(matching)))
	for i := range found {
		found[i] = *matching[i]
	}
	return found
}
