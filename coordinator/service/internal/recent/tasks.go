package recent

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/view"
)

// Size is how many recent tasks are remembered for people: enough to look
// up what just happened, about 2 MB.
const Size = 4096

// The states of a task as people see them.
const (
	Pending     = "pending"
	Dispatching = "dispatching"
	Dispatched  = "dispatched"
	Succeeded   = "succeeded"
	Failed      = "failed"
	Cancelled   = "cancelled"
)

// Record is what is remembered of one task.
type Record struct {
	Task       *coordinator.Task
	State      string
	Agent      coordinator.AgentID
	DispatchID string
	Attempt    int
	// DecidedAt is when the latest decision was made, dispatchedAt when the latest
	// that chose an agent.
	DecidedAt, dispatchedAt time.Time
	// waited is for how long it has waited for agents, over all attempts, up to waitsFrom: since then it
	// waits (again), until a dispatch is confirmed or it fails; zero: it does not.
	waited    time.Duration
	waitsFrom time.Time
	Failure   coordinator.Failure
	Decision  *coordinator.Decision
	Past      Past
	// Of its result, zero before it: when it counted, and the agent's own words.
	CompletedAt time.Time
	Work        time.Duration
	WorkError   string
	// Queued is where it waits; only of a copy for a reader that has asked for that.
	Queued *view.Queued
}

// Tasks is a ring of the most recent tasks. It is safe for concurrent use.
type Tasks struct {
	mu    sync.Mutex
	ring  []Record
	next  int
	index map[coordinator.TaskKey]int
	// watches by task; most tasks have none.
	watches map[coordinator.TaskKey]map[*Watch]struct{}
}

// New returns a ring of so many tasks.
func New(size int) *Tasks {
	return &Tasks{ring: make([]Record, size), index: make(map[coordinator.TaskKey]int, size)}
}

// find returns the record of a task; nil: there is none.
func (h *Tasks) find(key coordinator.TaskKey) *Record {
	if i, ok := h.index[key]; ok {
		return &h.ring[i]
	}
	return nil
}

// known is find for what may change the record: those that watch the task look at it when h.mu is released.
func (h *Tasks) known(key coordinator.TaskKey) *Record {
	if len(h.watches) > 0 {
		h.news(key)
	}
	return h.find(key)
}

// record finds the task's record or makes one in place of the oldest.
func (h *Tasks) record(t *coordinator.Task) *Record {
	key := coordinator.KeyOf(t.ID)
	if r := h.known(key); r != nil {
		return r
	}
	r := &h.ring[h.next]
	if r.Task != nil {
		delete(h.index, coordinator.KeyOf(r.Task.ID))
	}
	h.index[key] = h.next
	h.next = (h.next + 1) % len(h.ring)
	*r = Record{Task: t}
	return r
}

// Ended reports whether the task has.
func (r *Record) Ended() bool {
	return r.State == Succeeded || r.State == Failed || r.State == Cancelled
}

// of returns the record of the task: a new one, if the one of its id is of a task that had ended before
// this one was accepted.
func (h *Tasks) of(t *coordinator.Task) *Record {
	r := h.record(t)
	if r.Ended() && t.AcceptedAt.After(r.Task.AcceptedAt) {
		*r = Record{Task: t}
	}
	return r
}

// waiting returns the record of a task that waits, or has been given away for the first time, for all that is known.
func (h *Tasks) waiting(t *coordinator.Task) *Record {
	r := h.of(t)
	if r.State == "" {
		r.waitsFrom = t.AcceptedAt
	}
	return r
}

// waits notes that it waits again from then on.
func (r *Record) waits(from time.Time) {
	if r.waitsFrom.IsZero() {
		r.waitsFrom = from
	}
}

// waitedUntil notes that it waits no more.
func (r *Record) waitedUntil(at time.Time) {
	r.waited, r.waitsFrom = r.WaitedBy(at), time.Time{}
}

// WaitedBy returns for how long it has waited so far.
func (r *Record) WaitedBy(now time.Time) time.Duration {
	if r.waitsFrom.IsZero() {
		return r.waited
	}
	return r.waited + max(0, now.Sub(r.waitsFrom))
}

// Accepted notes a task that came in and is none that is known; waits: it is pending.
func (h *Tasks) Accepted(t *coordinator.Task, waits bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if r := h.waiting(t); r.State == "" || waits {
		r.State = Pending
	}
}

// Returned notes a dispatch that came back. One of a task that has ended meanwhile
// changes nothing.
func (h *Tasks) Returned(ev *coordinator.TaskReturned, now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	r := h.of(ev.Task)
	if !r.CompletedAt.IsZero() {
		return
	}
	r.cameBack(ev)
	r.waits(now)
	r.State = Pending
}

// Dispatching notes a decision that is being published.
func (h *Tasks) Dispatching(d *coordinator.Dispatch) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.decided(d)
}

func (h *Tasks) decided(d *coordinator.Dispatch) {
	r := h.waiting(d.Task)
	r.begin(d)
	r.State, r.Agent, r.DispatchID, r.Attempt = Dispatching, d.Agent, d.DispatchID, d.Attempt
	r.DecidedAt, r.Decision = d.At, d.Decision
	r.Failure, r.CompletedAt, r.Work, r.WorkError = coordinator.Failure{}, time.Time{}, 0, ""
}

// Settled notes whether the broker has taken a dispatch. The agent may have been
// faster with its result.
func (h *Tasks) Settled(d *coordinator.Dispatch, outcome coordinator.PublishOutcome, now time.Time) {
	if outcome != coordinator.PublishConfirmed {
		h.undelivered(d, outcome)
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if r := h.record(d.Task); r.DispatchID == d.DispatchID {
		r.waitedUntil(now)
		if r.State == Dispatching {
			r.State = Dispatched
		}
	}
}

// Completed notes the result of a task. It has the last word: one that comes late
// does away with the failure, or the second dispatch, before it.
func (h *Tasks) Completed(c *coordinator.Completed) {
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
	if r.State == Pending { // else the confirmed dispatch ends its waiting
		r.waitedUntil(c.At)
	}
	r.endedBy(&c.Result, c.Attempt)
	r.State = [coordinator.NumOutcomes]string{
		coordinator.OutcomeSucceeded: Succeeded,
		coordinator.OutcomeFailed:    Failed,
		coordinator.OutcomeCancelled: Cancelled,
	}[c.Result.Outcome]
	r.Agent, r.Attempt, r.Failure = c.Result.Agent, c.Attempt, coordinator.Failure{}
	r.CompletedAt, r.Work, r.WorkError = c.At, c.Result.Duration, c.Result.Error
}

// Failed notes a confirmed failure.
func (h *Tasks) Failed(f *coordinator.Fail) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if f.Failure.Reason == coordinator.ReasonDuplicateTask {
		return // the first task of this id goes on unharmed
	}
	r := h.of(f.Task)
	if r.State == "" && f.Handle != 0 && f.Failure.Attempts == 0 && !f.Task.AcceptedAt.IsZero() { // it was refused at once
		r.waitsFrom = f.Task.AcceptedAt
	}
	if !r.CompletedAt.Before(f.Failure.FailedAt) {
		return // its result came while this was on its way
	}
	// One that failed without a dispatch of its own, or for what the fleet is like, was decided by that; one that
	// came back too often, or was cancelled, still has the decision of its latest dispatch.
	if f.Handle != 0 && (f.Decision != nil || r.Agent == "") {
		r.Decision, r.DecidedAt = f.Decision, f.Failure.FailedAt
	}
	r.fails(f.Failure, f.Handle == 0)
}

// fails notes that the task has ended, and not by its agent's report. overdue: its agent has not reported
// in time how the latest attempt ended, or that it has stopped.
func (r *Record) fails(f coordinator.Failure, overdue bool) {
	r.State, r.Failure = Failed, f
	r.waitedUntil(f.FailedAt)
	if f.Reason == coordinator.ReasonCancelled {
		r.State = Cancelled
	}
	if overdue && r.Past.Outcome == "" {
		r.Past.Outcome = TimedOut
	}
}

// Late notes a result that did not count, if it came after its task had timed out; it changes nothing.
func (h *Tasks) Late(f *coordinator.ResultRefused, now time.Time) {
	if f.Refusal != coordinator.ResultLate {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	r := h.known(coordinator.KeyOf(f.Task))
	if r == nil {
		return
	}
	if a, given := r.latest(); given && a.Agent == string(f.Agent) && (f.Attempt == 0 || f.Attempt == a.Number) {
		r.saidTooLate(f.Outcome, now)
	}
}

// saidTooLate notes what its agent said of a task that had timed out before.
func (r *Record) saidTooLate(o coordinator.Outcome, at time.Time) {
	if r.Past.Outcome != TimedOut || r.Past.detail != "" {
		return
	}
	r.Past.detail = fmt.Sprintf("%s, %s too late", o, coordinator.Roughly(at.Sub(r.Failure.FailedAt)))
	r.Failure.Text += "; its agent said " + r.Past.detail
}

// Outcome returns how the task ended, in the words of task.result; empty when it is
// not remembered, or has not ended.
func (h *Tasks) Outcome(id coordinator.TaskID) string {
	if r, _ := h.Find(id); r.Ended() {
		return r.State
	}
	return ""
}

// Find returns a copy of the task's record.
func (h *Tasks) Find(id coordinator.TaskID) (Record, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if r := h.find(coordinator.KeyOf(id)); r != nil {
		return *r, true
	}
	return Record{}, false
}

// Given counts by agent the newest tasks that were given to one, at most limit of
// them.
func (h *Tasks) Given(limit int) map[coordinator.AgentID]int {
	h.mu.Lock()
	defer h.mu.Unlock()
	counts := make(map[coordinator.AgentID]int)
	for i := 1; i <= len(h.ring) && limit > 0; i++ {
		r := &h.ring[(h.next-i+len(h.ring))%len(h.ring)]
		if r.Task == nil {
			break
		}
		if r.Agent != "" {
			counts[r.Agent]++
			limit--
		}
	}
	return counts
}

// Since returns when the task was accepted; of a message that was refused unread, when that was.
func (r *Record) Since() time.Time {
	if r.Task.AcceptedAt.IsZero() {
		return r.Failure.FailedAt
	}
	return r.Task.AcceptedAt
}

// Recent returns copies of the records that match, those first of which the tasks were accepted
// last: what is read in the journal was not new when it came here.
func (h *Tasks) Recent(limit int, match func(*Record) bool) []Record {
	h.mu.Lock()
	defer h.mu.Unlock()
	var matching []*Record
	for i := 1; i <= len(h.ring); i++ {
		r := &h.ring[(h.next-i+len(h.ring))%len(h.ring)]
		if r.Task == nil {
			break
		}
		if match(r) {
			matching = append(matching, r)
		}
	}
	slices.SortStableFunc(matching, func(a, b *Record) int { return b.Since().Compare(a.Since()) })
	found := make([]Record, min(max(limit, 0), len(matching)))
	for i := range found {
		found[i] = *matching[i]
	}
	return found
}
