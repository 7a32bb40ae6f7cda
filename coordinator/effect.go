package coordinator

import "time"

// Effect is something the shell must do, in the order given. The set is closed;
// the large ones, Dispatch and Fail, are handed over by pointer.
type Effect interface{ effect() }

// Dispatch publishes a task to the chosen agent's queue. The shell answers with
// DispatchSettled, once, unless the session is lost.
type Dispatch struct {
	Handle Handle
	Task   *Task
	Agent  AgentID
	Queue  string
	// DispatchID is derived from task id and attempt (see [DispatchID]).
	DispatchID string
	// Attempt counts from 1.
	Attempt int
	// Tried lists the agents that had the task before; empty on the first attempt.
	Tried []AgentID
	// Tries counts the dispatches before that an agent had and did not do: more than Tried where
	// one had it again.
	Tries int
	// Failed are those of Tried on which it failed.
	Failed []AgentID
	// Suspected are the agents that went down with it and others in hand, each time anew.
	Suspected []AgentID
	// AcceptTimeout becomes the message's expiration.
	AcceptTimeout time.Duration
	// Timeout is how long the agent may work: the task's, else the agent's.
	Timeout time.Duration
	At      time.Time
	// MaybeDuplicate: an earlier copy may have reached an agent across a fault.
	MaybeDuplicate bool
	// Again: it repeats a dispatch that this very agent has, or may have. Unless the
	// broker takes it the task goes to another while the first may be at work on it, so
	// that the shell tries for a while before it says that the broker refuses it.
	Again bool
	// BatchID and BatchSize: the dispatches of one decision share them; empty and
	// zero for a task that goes alone.
	BatchID   string
	BatchSize int
	// Service is the model that was chosen of those that the task may go to; empty: it has no choice.
	Service  Service
	Decision *Decision
}

// Fail publishes assignment.failed and, once that is confirmed, acknowledges
// the delivery. The shell reports nothing back: if the confirm does not come,
// the session ends and the broker delivers the task again. With
// ReasonInvalidMessage and ReasonPoisoned the original is parked in task.dead.
// Handle is zero when there is no delivery (the agent has it: ReasonTaskTimeout);
// the shell then repeats it in its next session until it is confirmed.
type Fail struct {
	Handle   Handle
	Task     *Task
	Failure  Failure
	Decision *Decision
}

// Ack acknowledges a delivery: its dispatch is confirmed, or it is a copy of a
// task that is known already and is dropped.
type Ack struct {
	Handle Handle
	Copy   bool
}

// Duplicate reports that a second copy of a known task was dropped.
// The Ack is an effect of its own.
type Duplicate struct{ Task *Task }

// Asked reports that a copy of a task that has ended by its agent's word names a queue for the answer (Task.ReplyTo):
// the shell publishes the end there and then acknowledges the copy, as it does for Fail.
type Asked struct {
	Handle  Handle // of the copy
	Task    *Task  // the copy
	Agent   AgentID
	Outcome Outcome
	Attempt int // from 1
}

// EnsureQueue asks the shell to see that an agent's queue exists (to declare it,
// where it may) and to answer with QueueChecked.
type EnsureQueue struct {
	Agent AgentID
	Queue string
}

// AgentChanged says that an agent came, went silent, or left.
type AgentChanged struct {
	Agent AgentID
	State AgentState
	// LastHeartbeat is when it was last heard; zero if never.
	LastHeartbeat time.Time
}

// AgentTrusted says that an agent gets no work that needs a capability, because it
// has failed too often with it, or that it does again. A trial of a task or two in
// between is not reported.
type AgentTrusted struct {
	Agent AgentID
	// Capability is empty for tasks that require none.
	Capability string
	Trusted    bool
	// Until is when an agent that is not trusted is tried again; Times how often it
	// has been ejected of late.
	Until time.Time
	Times int
}

// OtherQueue reports that an agent consumes another queue than agents.yaml says, so that nothing reads what
// is dispatched to it. It is emitted once for each queue that the agent announces.
type OtherQueue struct {
	Agent             AgentID
	Announced, Listed string
}

// AgentShared reports that several processes use one agent's id. It is emitted once while they do.
type AgentShared struct {
	Agent     AgentID
	Instances int
}

// StatusRefused says that a heartbeat changed nothing. First is true once for
// each agent and refusal since the engine started, so that it is logged once.
type StatusRefused struct {
	Agent   AgentID
	Refusal StatusRefusal
	First   bool
}

// Completed announces the end that a task's agent reported. It is emitted once
// for each task.
type Completed struct {
	Result Result
	// Task is nil when nothing but its id is remembered.
	Task *Task
	// Attempt whose result it is, from 1.
	Attempt int
	// Late: the dispatch had been presumed lost, and the task given to another agent.
	Late bool
	At   time.Time
}

// GivenBack says that an agent gives a dispatch back, with its reason: the
// outcome `rejected`. The task is not ended; it comes back as TaskReturned.
type GivenBack struct {
	Result  Result
	Attempt int
}

// ResultRefused says that a result changed nothing.
type ResultRefused struct {
	Task    TaskID
	Agent   AgentID
	Refusal ResultRefusal
	// Outcome that it reported, and the Attempt; 0: not known which.
	Outcome Outcome
	Attempt int
}

// Progressed says that a report of progress counts: its agent has the task.
type Progressed struct {
	Task     *Task
	Progress *Progress
}

// ProgressRefused says that a report of progress changed nothing.
type ProgressRefused struct {
	Task    TaskID
	Agent   AgentID
	Refusal ResultRefusal
}

// Withdraw tells an agent, by its control queue, to drop or stop a dispatch. Token is that of the
// CancelRequested behind it, zero when no request waits for the answer.
type Withdraw struct {
	Agent      AgentID
	Task       TaskID
	DispatchID string
	TraceID    string
	Reason     string
	Token      uint64
}

// CancelAnswered answers CancelRequested.
type CancelAnswered struct {
	Token uint64
	Task  TaskID
	State CancelState
	// Agent that has, or had, the task; empty when none.
	Agent AgentID
}

// OrderStands answers AgentOrdered: the order has been carried out.
type OrderStands struct{ Token uint64 }

// TakeBack has the shell consume what is ready in an agent's queue, as
// TaskReturned with ReturnTakenBack, until LeaveQueue or the end of the session.
type TakeBack struct {
	Agent AgentID
	Queue string
}

// LeaveQueue ends TakeBack.
type LeaveQueue struct {
	Agent AgentID
	Queue string
}

// MoveToLane has a task that is held wait in its lane instead: its message is published
// there as it came, with when it was accepted. The shell answers with LaneMoved, once,
// unless the session is lost.
type MoveToLane struct {
	Handle Handle
	Task   *Task
	Lane   string
	// MaybeDuplicate goes along with it (see Dispatch).
	MaybeDuplicate bool
}

// ReadLane has the shell read a lane, as TaskReceived, holding at most Window tasks of
// it, until another ReadLane with a Window of 0 or the end of the session. What is held
// by then stays held. LaneEnded follows when it cannot be read (any more).
type ReadLane struct {
	Lane   string
	Window int
}

// DropLane has the shell delete the queue of a lane that is no longer in the policy, if it is empty and
// without a consumer. LaneSeen with Dropped follows, once, unless the session is lost; until then no
// MoveToLane is for that lane.
type DropLane struct{ Lane string }

// QuotaReached reports that so many percent of a budget are used or set aside, once in each of
// its periods.
type QuotaReached struct {
	// Node of the quota tree, by its ID.
	Node      string
	Dimension Dimension
	Percent   int // 80, 90 or 100
	Used, Cap int64
	Ends      time.Time // of the period
	MayBorrow bool      // beyond Cap, of what others leave
}

// UsageExcessive reports that a task, or a call, is reported to have taken more than is plausible (see
// fairshare.Doubt), or far more than was set aside for it, beyond what an estimate may be wrong by (see
// fairshare.Excess).
type UsageExcessive struct {
	Task      TaskID  // empty: a call
	Agent     AgentID // the reporting agent
	Group     string
	Dimension Dimension
	// Estimated is what was set aside, Reported what it is said to have taken, and Charged what of that its
	// group is charged with: less, where it is not accepted, and nothing, where that was refused.
	Estimated, Reported, Charged int64
}

// ModelUnpriced reports a call or task of a model without a price, although Node limits money: it was
// refused, or costs nothing, or what Quotas.UnpricedPrice says.
type ModelUnpriced struct {
	Group   string
	Agent   AgentID
	Service Service // empty: none is known
	Node    string
	Refused bool
}

func (*Dispatch) effect()     {}
func (*Fail) effect()         {}
func (Ack) effect()           {}
func (Duplicate) effect()     {}
func (EnsureQueue) effect()   {}
func (AgentChanged) effect()  {}
func (AgentTrusted) effect()  {}
func (StatusRefused) effect() {}
func (OtherQueue) effect()    {}
func (AgentShared) effect()   {}

func (*Completed) effect()         {}
func (*Asked) effect()             {}
func (GivenBack) effect()          {}
func (ResultRefused) effect()      {}
func (*Progressed) effect()        {}
func (ProgressRefused) effect()    {}
func (Withdraw) effect()           {}
func (CancelAnswered) effect()     {}
func (OrderStands) effect()        {}
func (TakeBack) effect()           {}
func (LeaveQueue) effect()         {}
func (*Offer) effect()             {}
func (Award) effect()              {}
func (RejectBid) effect()          {}
func (*AuctionEnded) effect()      {}
func (ClaimAnswered) effect()      {}
func (ClaimsForgotten) effect()    {}
func (QuotaReached) effect()       {}
func (UsageExcessive) effect()     {}
func (ModelUnpriced) effect()      {}
func (MoveToLane) effect()         {}
func (ReadLane) effect()           {}
func (DropLane) effect()           {}
func (*CallAnswered) effect()      {}
func (QuotaControlsStand) effect() {}
