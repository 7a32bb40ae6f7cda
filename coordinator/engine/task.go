package engine

import (
	"cmp"
	"slices"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/engine/internal/admission"
	"taskbus/coordinator/engine/internal/dedupe"
	"taskbus/coordinator/engine/internal/isolation"
	"taskbus/coordinator/engine/internal/lanes"
	"taskbus/coordinator/engine/internal/queue"
)

// taskState is where an open task stands (see the diagram in package coordinator).
type taskState uint8

const (
	stateDeciding    taskState = iota // between two steps of one Apply
	stateWaiting                      // pending, in its class
	stateDelayed                      // pending, until its back-off is over
	stateUnscored                     // pending, aside: its strategy gives no score to the agents that could have it
	stateGathering                    // pending, until others have come that share its batch
	stateBidding                      // pending, while agents bid for it
	stateMoving                       // on its way into its lane, not yet there
	stateDispatching                  // published, not yet settled
	stateLeased                       // its agent has it, or may have it
)

// openTask is a task that has been received and has not ended.
type openTask struct {
	handle coordinator.Handle // of the delivery held for it; 0 once an agent has it
	task   *coordinator.Task
	key    coordinator.TaskKey
	record uint64 // number of its record in the dedupe window
	number uint32 // its place among the open tasks
	state  taskState
	alone  bool // it must have an agent to itself (see isolate.go)

	attempt        int                   // of the dispatch being sought or made, from 1
	tried          []coordinator.AgentID // that had it before, in order
	tries          int                   // dispatches before that an agent had and did not do
	failed         []coordinator.AgentID // the ones on which it failed
	untouched      []coordinator.AgentID // from whose queue it was taken back: they may have it once more
	suspected      []coordinator.AgentID // that were lost with it and others in hand
	isolation      isolation.Ticket[*openTask, *class]
	gaveBack       coordinator.AgentID   // the agent that gave it back without a result of its own yet
	breakerFaults  []coordinator.AgentID // agents whose breakers count a fault because of it
	learnerFaults  []coordinator.AgentID // agents whose rate of success it has lowered, of those
	maybeDuplicate bool
	ownMessage     bool // the delivery held is its producer's message, not a dispatch that came back
	fresh          bool // never dispatched, never seen before: it may share a batch
	resumed        bool // an earlier copy of this very dispatch may have arrived
	refused        bool // its agent refused it: trying again costs the retry budget
	exhausted      bool // it has come back as often as it may, and waits for the last agent's result
	again          again
	vain           bool      // it has waited without success for an agent that has not had it
	mayAgain       time.Time // from when on an agent that had it may have it again
	last           lastTry
	asked          []respite // not to be given it before a time
	withdrawn      bool      // a cancel was asked for while an agent has it, or is about to
	supposed       bool      // only asked about: it leaves no traces
	stays          bool      // it can be moved to no lane
	widened        bool      // any may have it, before the time of widen
	cancelToken    uint64
	cancelReason   string

	scoreIn time.Duration // how long it waits aside until it is looked at again
	needs   requirements
	due     int64 // see queue.Due
	arrival uint64
	index   int             // place in its class while waiting, among the tasks of its leaf and level
	leaf    int             // of the shares, that its turn is charged to
	level   int             // of priority, among the tasks of the backlog
	quota   *admission.Hold // nil where there are no quotas

	lot *lot // its latest auction; nil: it was not offered, or the auction was abandoned

	early *coordinator.TaskReceived // its message out of the lane to which it is moving
	came  time.Time                 // when its delivery did
	from  string                    // the lane that it came out of; empty: none
	lane  lanes.Ticket              // in line for one, or on its way there

	lease
	assignedAt time.Time // when that was decided

	// until is when it is looked at whether it may be pending any longer, set when it first has to wait.
	until         time.Time
	expire, retry timer  // expire: also the deadline of a lease; retry: also the end of gathering
	widen         *timer // see watchWish; nil: it has waited for none of that
}

// Waits of the engine that no configuration sets.
const (
	queueRecheck = 5 * time.Second // between looks for a missing queue
	queueCool    = time.Second     // how long a full queue is left alone
)

// sortByDue sorts tasks of any priority as they would go if each priority had its turn when none higher
// is left.
func sortByDue(tasks []*openTask) {
	slices.SortFunc(tasks, byDue)
}

func byDue(a, b *openTask) int {
	return cmp.Or(cmp.Compare(b.task.Priority, a.task.Priority), cmp.Compare(a.due, b.due),
		cmp.Compare(a.arrival, b.arrival))
}

// open starts the life of a task.
func (e *Engine) open(now time.Time, h coordinator.Handle, t *coordinator.Task, key coordinator.TaskKey) *openTask {
	e.arrivals++
	o := &openTask{
		handle: h, task: t, key: key, attempt: 1,
		due: queue.Due(t), arrival: e.arrivals, index: -1, came: now,
	}
	o.expire = newTimer(dutyExpire, o, nil)
	o.retry = newTimer(dutyRetry, o, nil)
	e.held[h] = o
	e.tasks.add(o)
	number, r := e.dedupe.Insert(now, key, t.ContentHash, coordinator.FateOpen, o.number)
	o.record = number
	o.attempt += int(r.Attempt)
	return o
}

// received takes a task from task.assign, unless it is known already.
func (e *Engine) received(now time.Time, ev coordinator.TaskReceived) {
	key := coordinator.KeyOf(ev.Task.ID)
	r := e.lookup(now, key)
	if ev.Lane != "" {
		e.carryOut(e.lanes.CameOut(now, ev.Lane))
		if t := e.tasks.of(r); t != nil && t.state == stateMoving && t.task.ContentHash == ev.Task.ContentHash {
			e.cameEarly(t, ev)
			return
		}
	}
	var before *openTask
	outOfLane, tried := e.mayBeLaneCopy(&ev, r), e.triedBefore(&ev, r)
	switch {
	case r == nil:
	case isLaneCopy(&ev, r):
		e.emit(coordinator.Ack{Handle: ev.Handle, Copy: true})
		if ev.Redelivered {
			e.messages.Came(key)
		}
		return
	// none that is in doubt: its lane has stored it
	case ev.Lane != "" && r.Fate == coordinator.FateLaned && r.Content == ev.Task.ContentHash:
		if r.Flags&dedupe.Withdrawn != 0 {
			e.failWithdrawn(now, &ev, key)
			return
		}
	case !r.Unconfirmed(ev.Redelivered) && e.isOwnMessage(&ev, key, r): // announced twice is better than never
		e.emit(coordinator.Ack{Handle: ev.Handle, Copy: true})
		e.messages.Acked(now, key)
		return
	case r.Fate.MayComeAgain(), r.Flags&dedupe.Adopted != 0:
	case r.Fate == coordinator.FateWithdrawn:
		e.failWithdrawn(now, &ev, key)
		return
	case r.Content != ev.Task.ContentHash:
		e.refuse(now, ev.Handle, ev.Task, coordinator.ReasonDuplicateTask,
			"another task with this task_id and different content was seen before")
		return
	case r.Unconfirmed(ev.Redelivered):
		e.failCancelled(now, e.open(now, ev.Handle, ev.Task, key))
		return
	case r.Fate == coordinator.FateUnsettled:
		before = e.tasks.of(r)
	default:
		e.emit(coordinator.Ack{Handle: ev.Handle, Copy: true})
		if r.Fate == coordinator.FateOpen || !ev.Redelivered {
			e.emit(coordinator.Duplicate{Task: ev.Task})
		}
		return
	}
	t := e.open(now, ev.Handle, ev.Task, key)
	t.maybeDuplicate, t.ownMessage, t.from = ev.Redelivered || ev.MaybeDuplicate || outOfLane, true, ev.Lane
	t.tried, t.tries = tried, len(tried)
	if before != nil {
		e.decideUnanswered(now, t, before)
		return
	}
	t.fresh = !t.maybeDuplicate
	e.admit(now, t)
	if c := t.needs.class; c != nil {
		e.asked(now, c)
	}
}

// failWithdrawn fails a task that was withdrawn before it came.
func (e *Engine) failWithdrawn(now time.Time, ev *coordinator.TaskReceived, key coordinator.TaskKey) {
	reason := e.dedupe.Reason(key) // which open forgets
	t := e.open(now, ev.Handle, ev.Task, key)
	t.cancelReason = reason
	e.failCancelled(now, t)
}

// mayResume reports whether the task can go the same way again: its agent is there, and may still have it. It needs
// no free slot: the agent may be busy with this very task.
func (e *Engine) mayResume(now time.Time, t *openTask, a *agent) bool {
	if a.Number < 0 || a.State != coordinator.AgentOnline || a.Draining || a.QueueMissing || t.late(now) {
		return false
	}
	t.again = anybodyAgain // it is no other try
	if reason, _ := e.resolve(t); reason == coordinator.ReasonNone && t.needs.class.criteria.Set.Has(a.Number) {
		return true
	}
	t.again = notAgain
	return false
}

// resume sends a task whose dispatch was never answered, or has come back from
// an agent that still works on it, to the same agent under the same dispatch id,
// marked. It takes no slot that it did not have already.
func (e *Engine) resume(now time.Time, t, before *openTask) {
	a := before.agent
	t.maybeDuplicate, t.attempt = true, before.attempt
	e.acceptedWith(t, before)
	covered := before.Covered && before.On()  // else it was given back since
	t.quota, before.quota = before.quota, nil // it is the same dispatch
	e.retire(before)
	e.discharge(before) // dispatch counts it again
	t.resumed, t.service = true, before.service
	e.dispatch(now, t, a, e.noChoice(t.needs.strategy.Name, a))
	if t.begun = before.begun; t.begun {
		t.Listed = before.Listed
		if !before.deadline.IsZero() { // else its time begins with the confirm
			t.deadline = before.deadline.Add(max(0, t.timeout-before.timeout)) // the policy may grant more by now
			t.runsFrom = before.runsFrom
		}
	}
	if covered {
		e.fleet.Cover(t.agent, t)
	}
	e.wake(now, a) // by the policy of now it may need its agent to itself no more
}

// acceptedWith lets a task whose message came once more continue the life that it has: the ids of its dispatches
// depend on when it was accepted.
func (e *Engine) acceptedWith(t, before *openTask) {
	if t.task.AcceptedAt.Equal(before.task.AcceptedAt) {
		return
	}
	same := *t.task
	same.AcceptedAt = before.task.AcceptedAt
	t.task, t.due = &same, queue.Due(&same)
}

// decideUnanswered decides a task again whose dispatch was published and never
// answered: the same way if that is possible, else as the next attempt; the first
// copy, which may have arrived, then goes on counting.
func (e *Engine) decideUnanswered(now time.Time, t, before *openTask) {
	t.tried, t.failed, t.maybeDuplicate = with(before.tried, t.tried...), with(before.failed, t.failed...), true
	t.tries = max(t.tries, before.tries, len(t.tried))
	if t.last.agent == "" {
		t.last = before.last
	}
	t.cancelReason, t.attempt = before.cancelReason, before.attempt
	// What has come back may be another dispatch than the one behind this.
	t.untouched, t.suspected = with(before.untouched, t.untouched...), with(before.suspected, t.suspected...)
	e.acceptedWith(t, before)
	e.spareSuspected(t)
	if !before.withdrawn && e.mayResume(now, t, before.agent) {
		e.resume(now, t, before)
		return
	}
	t.attempt++
	e.retire(before)
	if before.withdrawn {
		e.withdraw(before, before.cancelReason, before.cancelToken) // should it have arrived
		e.failCancelled(now, t)
		return
	}
	e.admit(now, t)
}

// late reports whether the task's deadline has passed.
func (t *openTask) late(now time.Time) bool {
	return !t.task.Deadline.IsZero() && !now.Before(t.task.Deadline)
}

// wait makes the task pending for as long as it may be (see goesOnUntil).
func (e *Engine) wait(now time.Time, t *openTask) {
	if t.until.IsZero() {
		t.until = e.pendingUntil(now, t)
	}
	if t.until = e.within(t, t.until); !t.until.After(now) {
		t.until = e.goesOnUntil(now, t)
	}
	switch {
	case !t.until.After(now):
		e.failWaiting(now, t)
		return
	case !e.rejudging && e.needsRoom(t) && e.backlog() >= e.policy.Settings.MaxQueueSize:
		e.failFull(now, t)
		return
	}
	t.state, t.leaf, t.level = stateWaiting, e.leafOf(t), levelOf(t)
	e.pending.count[t.task.Priority]++
	e.pending.push(now, t)
	e.overtakes(t)
	e.wanted(t.needs.class)
	if at := t.firstAsked(); !at.IsZero() {
		t.until = later(t.until, e.heldUntil(t, e.findsBy(at, t)))
	}
	e.timers.schedule(&t.expire, t.until)
	e.watchWish(t)
	e.joinLine(now, t)
	if t.alone {
		e.isolated.Add(t, t.needs.class, t.leaf, t.level)
	}
}

// leavePending ends a task's waiting or delay.
func (e *Engine) leavePending(t *openTask) {
	e.forgetWish(t)
	switch t.state {
	case stateBidding:
		c := t.needs.class
		e.freed(e.now, []ended{{e.abandon(e.now, t), c}})
		return
	case stateWaiting:
		e.quotas.Waits.Left(t.needs.class, t.leaf, t)
		e.pending.take(t)
	case stateGathering:
		e.batches.Leave(batchKeyOf(t), t)
	}
	e.isolated.Remove(t)
	e.leaveLine(t)
	e.pending.count[t.task.Priority]--
	e.timers.cancel(&t.expire)
	e.timers.cancel(&t.retry)
	t.state = stateDeciding
}
