package state

import (
	"cmp"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/engine/internal/admission"
	"taskbus/coordinator/engine/internal/dedupe"
	"taskbus/coordinator/engine/internal/isolation"
	"taskbus/coordinator/engine/internal/lanes"
	"taskbus/coordinator/engine/internal/queue"
)

// Stage is where an open task stands (see the diagram in package coordinator).
type Stage uint8

const (
	Deciding    Stage = iota // between two steps of one Apply
	Waiting                  // pending, in its class
	Delayed                  // pending, until its back-off is over
	Unscored                 // pending, aside: its strategy gives no score to the agents that could have it
	Gathering                // pending, until others have come that share its batch
	Bidding                  // pending, while agents bid for it
	Moving                   // on its way into its lane, not yet there
	Dispatching              // published, not yet settled
	Leased                   // its agent has it, or may have it
)

// Task is a task that has been received and has not ended.
type Task struct {
	Handle coordinator.Handle // of the delivery held for it; 0 once an agent has it
	Task   *coordinator.Task
	Key    coordinator.TaskKey
	Record uint64 // number of its record in the dedupe window
	Number uint32 // its place among the open tasks
	Stage  Stage
	Alone  bool // it must have an agent to itself (see isolate.go)

	Attempt         int                   // of the dispatch being sought or made, from 1
	Tried           []coordinator.AgentID // that had it before, in order
	Tries           int                   // dispatches before that an agent had and did not do
	Failed          []coordinator.AgentID // the ones on which it failed
	Untouched       []coordinator.AgentID // it was taken back from their queues: they may have it once more
	Suspected       []coordinator.AgentID // that were lost with it and others in hand
	Isolation       isolation.Ticket[*Task, *Class]
	GaveBack        coordinator.AgentID   // the agent that gave it back without a result of its own yet
	BreakerFaults   []coordinator.AgentID // their breakers count a fault because of it
	LearnerFaults   []coordinator.AgentID // it has lowered their rates of success
	MaybeDuplicate  bool
	OwnMessage      bool // the delivery held is its producer's message, not a dispatch that came back
	Fresh           bool // never dispatched, never seen before: it may share a batch
	Resumed         bool // an earlier copy of this very dispatch may have arrived
	Refused         bool // its agent refused it: trying again costs the retry budget
	Exhausted       bool // it has come back as often as it may, and waits for the last agent's result
	Repeats         queue.Repeats
	WaitedForOthers bool      // it has waited without success for an agent that has not had it
	MayAgain        time.Time // from when on an agent that had it may have it again
	Last            LastTry
	Holdoffs        queue.Holdoffs // of agents that asked for time
	Withdrawn       bool           // a cancel was asked for while an agent has it, or is about to
	Stays           bool           // it can be moved to no lane
	Widened         bool           // any may have it, before the time of widen
	CancelToken     uint64
	CancelReason    string

	ScoreIn time.Duration // how long it waits aside until it is looked at again
	Needs   Requirements
	Due     int64 // see queue.Due
	Arrival uint64
	Index   int             // place in its class while waiting, among the tasks of its leaf and level
	Leaf    int             // of the shares, that its turn is charged to
	Level   int             // of priority, among the tasks of the backlog
	Quota   *admission.Hold // nil where there are no quotas

	Lot *Lot // its latest auction; nil: it was not offered, or the auction was abandoned

	Early *coordinator.TaskReceived // its message out of the lane to which it is moving
	Came  time.Time                 // when its delivery did
	From  string                    // the lane that it came out of; empty: none
	Lane  lanes.Ticket              // in line for one, or on its way there

	Lease
	AssignedAt time.Time // when that was decided

	// Until is when it is looked at whether it may be pending any longer, set when it first has to wait.
	Until         time.Time
	Expire, Retry Timer  // expire: also the deadline of a lease; retry: also the end of gathering
	Widen         *Timer // see ScheduleWiden; nil: it has waited for none of that
}

// ByDue is the order of tasks of any priority as they would go if each priority had its turn when none higher is left.
func ByDue(a, b *Task) int {
	return cmp.Or(cmp.Compare(b.Task.Priority, a.Task.Priority), cmp.Compare(a.Due, b.Due),
		cmp.Compare(a.Arrival, b.Arrival))
}

// Open starts the life of a task.
func (s *State) Open(now time.Time, h coordinator.Handle, t *coordinator.Task, key coordinator.TaskKey) *Task {
	o, r := s.newTask(now, t, key, coordinator.FateOpen)
	o.Handle, o.Came, o.Attempt = h, now, 1+int(r.Attempt)
	s.Held[h] = o
	return o
}

// newTask makes an open task with its number and its record.
func (s *State) newTask(
	now time.Time, t *coordinator.Task, key coordinator.TaskKey, f coordinator.Fate,
) (o *Task, r *dedupe.Record) {
	s.arrivals++
	o = &Task{Task: t, Key: key, Due: queue.Due(t), Arrival: s.arrivals, Index: -1}
	o.Expire, o.Retry = NewTimer(DutyExpire, o, nil), NewTimer(DutyRetry, o, nil)
	s.Tasks.add(o)
	o.Record, r = s.Dedupe.Insert(now, key, t.ContentHash, f, o.Number)
	return o, r
}

// Readdress has the end of a task told in that queue. What was emitted of the task keeps what it says.
func (s *State) Readdress(t *Task, replyTo string) {
	moved := *t.Task
	moved.ReplyTo = replyTo
	t.Task = &moved
}

// Late reports whether the task's deadline has passed.
func (t *Task) Late(now time.Time) bool {
	return !t.Task.Deadline.IsZero() && !now.Before(t.Task.Deadline)
}

// MayTryAgain reports whether it is pending after it has come back.
func (t *Task) MayTryAgain() bool {
	return t.Stage == Waiting || t.Stage == Unscored || t.Stage == Delayed || t.Stage == Bidding
}
