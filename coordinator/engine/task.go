package engine

import (
	"fmt"
	"slices"
	"sort"
	"strings"
	"time"

	"taskbus/coordinator"
)

// taskState is where an open task stands (see the diagram in package coordinator).
type taskState uint8

const (
	stateDeciding    taskState = iota // between two steps of one Apply
	stateWaiting                      // pending, in its class
	stateDelayed                      // pending, until its back-off is over
	stateDispatching                  // published, not yet settled
)

// openTask is a task that has been received and is not settled.
type openTask struct {
	handle coordinator.Handle
	task   *coordinator.Task
	key    idKey
	record uint64 // number of its record in the memory
	state  taskState

	attempt        int                   // of the dispatch being sought or made, from 1
	tried          []coordinator.AgentID // who had it before, in order
	maybeDuplicate bool
	refused        bool // its agent refused it: trying again costs the retry budget

	needs   requirements
	rank    int64
	arrival uint64
	index   int // place in its class while waiting

	agent      *agent // while dispatching
	dispatchID string

	// until is how long it may be pending, fixed when it first has to wait.
	until         time.Time
	expire, retry timer
}

// Waits of the engine that no configuration sets.
const (
	queueRecheck = 5 * time.Second // between looks for a missing queue
	queueCool    = time.Second     // how long a full queue is left alone
)

// rankOf is the key of the pending order (see pending), in nanoseconds.
func rankOf(t *coordinator.Task, s coordinator.Settings) int64 {
	return t.AcceptedAt.UnixNano() - int64(t.Priority)*int64(s.PriorityAgeing)
}

func sortByRank(tasks []*openTask) {
	sort.Slice(tasks, func(i, j int) bool {
		if tasks[i].rank != tasks[j].rank {
			return tasks[i].rank < tasks[j].rank
		}
		return tasks[i].arrival < tasks[j].arrival
	})
}

// open starts the life of a task.
func (e *Engine) open(now time.Time, h coordinator.Handle, t *coordinator.Task, key idKey) *openTask {
	e.arrivals++
	o := &openTask{
		handle: h, task: t, key: key, attempt: 1,
		rank: rankOf(t, e.policy.Settings), arrival: e.arrivals, index: -1,
	}
	o.expire = newTimer(dutyExpire, o, nil)
	o.retry = newTimer(dutyRetry, o, nil)
	e.held[h] = o
	o.record = e.memory.remember(now, key, t.ContentHash)
	o.attempt += int(e.memory.at(o.record).attempt)
	return o
}

// received takes a task from task.assign, unless it is known already.
func (e *Engine) received(now time.Time, ev coordinator.TaskReceived) {
	key := keyOf(ev.Task.ID)
	var before openDecision
	if r := e.memory.find(now, key, e.policy.Settings); r != nil {
		if r.content != ev.Task.ContentHash {
			e.refuse(now, ev.Handle, ev.Task, coordinator.ReasonDuplicateTask,
				"another task with this task_id and different content was seen before")
			return
		}
		if r.fate != fateUnsettled {
			e.emit(coordinator.Ack{Handle: ev.Handle, Copy: true})
			if r.fate == fateOpen || !ev.Redelivered {
				e.emit(coordinator.Duplicate{Task: ev.Task})
			}
			return
		}
		before = e.memory.unsettled[key]
	}
	t := e.open(now, ev.Handle, ev.Task, key)
	t.maybeDuplicate = ev.Redelivered
	if before.attempt > 0 && e.resume(now, t, before) {
		return
	}
	e.admit(now, t)
}

// resume sends a task whose first dispatch was never answered the same way
// again: to the same agent under the same dispatch id, marked. It takes no slot
// that it did not have already, so the agent need not have a free one: it may be
// busy with this very task. Only if the agent is gone does another get the task,
// as the next attempt; the first copy goes on counting.
func (e *Engine) resume(now time.Time, t *openTask, before openDecision) bool {
	t.maybeDuplicate = true
	t.attempt = before.attempt
	a := e.fleet.byID[before.agent]
	reason, _ := e.resolve(t)
	if a == nil || a.state != coordinator.AgentOnline || a.queueMissing ||
		reason != coordinator.ReasonNone || t.late(now) || !t.needs.class.feasible.has(a.number) {
		t.attempt++
		return false
	}
	e.fleet.release(a, coordinator.DispatchID(t.task.ID, before.attempt)) // dispatch counts it again
	e.dispatch(now, t, a, &coordinator.Decision{
		Strategy: t.needs.strategy.Name, Agent: a.spec.ID, Fleet: len(e.fleet.agents), Eligible: 1,
		Candidates: []coordinator.Candidate{{Agent: a.spec.ID, Load: a.load(), Free: a.free()}},
	})
	return true
}

// returned takes a dispatch that came back through task.reassign.
func (e *Engine) returned(now time.Time, ev coordinator.TaskReturned) {
	key := keyOf(ev.Task.ID)
	var before openDecision
	if r := e.memory.find(now, key, e.policy.Settings); r != nil {
		switch {
		case r.content != ev.Task.ContentHash:
			// Its id has been forgotten and used again: this is another task.
		case r.fate == fateOpen, r.fate == fateDispatched && int(r.attempt) > ev.Attempt:
			// Dead-lettering is at-least-once: this copy has been decided again already.
			e.emit(coordinator.Ack{Handle: ev.Handle, Copy: true})
			return
		case r.fate == fateUnsettled && int(r.attempt) > ev.Attempt:
			before = e.memory.unsettled[key]
		}
	}
	if a := e.fleet.byID[ev.Agent]; a != nil {
		e.fleet.release(a, coordinator.DispatchID(ev.Task.ID, ev.Attempt))
		defer e.wake(now, a) // its slot may serve another task
	}
	t := e.open(now, ev.Handle, ev.Task, key)
	t.attempt = ev.Attempt + 1
	t.tried = slices.Clone(ev.Tried)
	if !contains(t.tried, ev.Agent) && ev.Agent != "" {
		t.tried = append(t.tried, ev.Agent)
	}
	t.maybeDuplicate = ev.Redelivered
	t.refused = ev.Cause != coordinator.ReturnExpired
	if before.attempt > 0 && e.resume(now, t, before) {
		return
	}
	if len(t.tried) >= e.policy.Settings.MaxRetryAttempts {
		e.fail(now, t, coordinator.ReasonRetriesExhausted, fmt.Sprintf(
			"%d dispatches came back, the last one from %s (%s); tried: %s",
			len(t.tried), ev.Agent, ev.Cause, joinIDs(t.tried)), nil)
		return
	}
	e.delay(now, t)
}

// late reports whether the task's deadline has passed.
func (t *openTask) late(now time.Time) bool {
	return !t.task.Deadline.IsZero() && !now.Before(t.task.Deadline)
}

// admit judges a task from scratch: refused for good, placed, or made to wait.
func (e *Engine) admit(now time.Time, t *openTask) {
	if reason, text := e.resolve(t); reason != coordinator.ReasonNone {
		e.fail(now, t, reason, text, nil)
		return
	}
	e.place(now, t)
}

// place gives the task to an agent, or lets it wait behind its equals.
func (e *Engine) place(now time.Time, t *openTask) {
	c := t.needs.class
	switch {
	case t.late(now):
		e.fail(now, t, coordinator.ReasonDeadlineExceeded, "the deadline has passed", nil)
		return
	case c.nobody:
		d := e.fleet.explain(t, &t.needs)
		e.fail(now, t, reasonOf(d), d.Text(), d)
		return
	}
	if len(c.waiting.items) == 0 {
		if a, d := e.choose(t); a != nil {
			e.dispatch(now, t, a, d)
			return
		}
	}
	e.wait(now, t)
}

func (e *Engine) choose(t *openTask) (*agent, *coordinator.Decision) {
	return e.fleet.choose(t.task, t.needs.strategy, t.needs.class.feasible, t.needs.preferred, e.policy.Settings.Seed)
}

// wait makes the task pending until the assignment timeout, its own deadline, or
// the end of the start-up grace, whichever applies.
func (e *Engine) wait(now time.Time, t *openTask) {
	if t.until.IsZero() {
		t.until = now.Add(e.policy.Settings.AssignmentTimeout)
		if t.until.Before(e.graceEnd) {
			t.until = e.graceEnd
		}
		if d := t.task.Deadline; !d.IsZero() && d.Before(t.until) {
			t.until = d
		}
	}
	switch {
	case !t.until.After(now):
		e.failWaiting(now, t)
		return
	case e.pending.total() >= e.policy.Settings.MaxQueueSize:
		e.fail(now, t, coordinator.ReasonBacklogFull, fmt.Sprintf(
			"%d tasks are waiting already (max_queue_size)", e.pending.total()), nil)
		return
	}
	t.state = stateWaiting
	e.pending.count[t.task.Priority]++
	e.pending.push(t)
	e.timers.schedule(&t.expire, t.until)
}

// leavePending ends a task's waiting or delay.
func (e *Engine) leavePending(t *openTask) {
	if t.state == stateWaiting {
		e.pending.take(t)
	}
	e.pending.count[t.task.Priority]--
	e.timers.cancel(&t.expire)
	e.timers.cancel(&t.retry)
	t.state = stateDeciding
}

// expired ends the waiting of a task that nobody could take in time.
func (e *Engine) expired(now time.Time, t *openTask) {
	delayed := t.state == stateDelayed
	e.leavePending(t)
	switch {
	case !delayed:
		e.failWaiting(now, t)
	case t.late(now):
		e.fail(now, t, coordinator.ReasonDeadlineExceeded, "the deadline has passed", nil)
	default:
		e.fail(now, t, coordinator.ReasonRetriesExhausted, fmt.Sprintf(
			"it came back from %s, and so much else came back that the retry budget did not allow another dispatch in time",
			joinIDs(t.tried)), nil)
	}
}

// failWaiting fails a task for the reason that kept it waiting.
func (e *Engine) failWaiting(now time.Time, t *openTask) {
	d := e.fleet.explain(t, &t.needs)
	reason := reasonOf(d)
	if t.late(now) {
		reason = coordinator.ReasonDeadlineExceeded
	}
	e.fail(now, t, reason, d.Text(), d)
}

// dispatch hands the task to the agent: the slot is taken before the message is
// published.
func (e *Engine) dispatch(now time.Time, t *openTask, a *agent, d *coordinator.Decision) {
	t.state, t.agent = stateDispatching, a
	t.dispatchID = coordinator.DispatchID(t.task.ID, t.attempt)
	e.fleet.reserve(a, t.dispatchID)
	if len(t.tried) == 0 {
		e.budget.earn()
	}
	timeout := t.task.Timeout
	if timeout <= 0 {
		timeout = a.spec.Timeout
	}
	e.emit(&coordinator.Dispatch{
		Handle: t.handle, Task: t.task, Agent: a.spec.ID, Queue: a.spec.Queue,
		DispatchID: t.dispatchID, Attempt: t.attempt, Tried: t.tried,
		AcceptTimeout: a.spec.AcceptTimeout, Timeout: timeout, At: now,
		MaybeDuplicate: t.maybeDuplicate, Decision: d,
	})
}

// settled hears what became of a dispatch.
func (e *Engine) settled(now time.Time, ev coordinator.DispatchSettled) {
	t := e.held[ev.Handle]
	if t == nil || t.state != stateDispatching {
		return // of a session that has ended
	}
	a := t.agent
	switch ev.Outcome {
	case coordinator.PublishConfirmed:
		a.arrived(t.dispatchID, now)
		a.assigned++
		delete(e.held, ev.Handle)
		e.memory.settle(t.key, t.record, t.attempt)
		e.emit(coordinator.Ack{Handle: ev.Handle})
		return
	case coordinator.PublishUnknown:
		a.arrived(t.dispatchID, now)
		delete(e.held, ev.Handle)
		e.memory.leaveOpen(t.key, t.record, openDecision{agent: a.spec.ID, attempt: t.attempt})
		return
	case coordinator.PublishAbandoned: // it is nowhere: a copy is as good as new
		delete(e.held, ev.Handle)
		e.fleet.release(a, t.dispatchID)
		e.memory.forget(t.key, t.record, t.attempt-1)
		e.wake(now, a)
		return
	case coordinator.PublishUnroutable:
		e.missesQueue(now, a)
	case coordinator.PublishRejected:
		if a.number >= 0 {
			a.queueFull = true
			e.timers.schedule(&a.cool, now.Add(queueCool))
		}
	case coordinator.PublishNotSent:
		e.fleet.release(a, t.dispatchID)
		e.fail(now, t, coordinator.ReasonInvalidMessage, "the dispatch cannot be encoded as an AMQP message", nil)
		e.wake(now, a)
		return
	}
	t.state, t.agent = stateDeciding, nil
	e.fleet.release(a, t.dispatchID)
	e.fleet.refresh(a)
	e.admit(now, t) // under the policy of now, which may be another than before
}

// fail ends the task with a reason. Its id may come again as if new.
func (e *Engine) fail(now time.Time, t *openTask, reason coordinator.Reason, text string, d *coordinator.Decision) {
	delete(e.held, t.handle)
	e.memory.forget(t.key, t.record, t.attempt-1)
	e.emit(&coordinator.Fail{
		Handle: t.handle, Task: t.task, Decision: d,
		Failure: coordinator.Failure{Reason: reason, Text: text, Attempts: len(t.tried), FailedAt: now},
	})
}

// refuse fails a delivery that never became an open task.
func (e *Engine) refuse(now time.Time, h coordinator.Handle, t *coordinator.Task, reason coordinator.Reason, text string) {
	e.emit(&coordinator.Fail{
		Handle: h, Task: t,
		Failure: coordinator.Failure{Reason: reason, Text: text, FailedAt: now},
	})
}

func joinIDs(ids []coordinator.AgentID) string {
	parts := make([]string, len(ids))
	for i, id := range ids {
		parts[i] = string(id)
	}
	return strings.Join(parts, ", ")
}
