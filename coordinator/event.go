package coordinator

import "time"

// Event is something that happened. The set is closed.
type Event interface{ event() }

// PolicyChanged installs a new configuration. The first event of every engine.
type PolicyChanged struct{ Policy *Policy }

// SessionOpened says that a broker session stands, statuses are being read and
// tasks may follow. An agent that has not reported yet gets one health interval
// to do so before anything fails for want of agents.
type SessionOpened struct{}

// SessionLost says that every delivery held and every publish not yet settled
// is void: the broker will deliver the former again.
type SessionLost struct{}

// DrainBegan says that no task follows in this session. What is not on its way
// to an agent is given up without a word: the broker has it again when the
// session ends.
type DrainBegan struct{}

// TaskReceived is a valid task from task.assign or task.assign.high.
type TaskReceived struct {
	Handle Handle
	Task   *Task
	// Redelivered: the broker has handed it out before.
	Redelivered bool
}

// ReturnCause is why the broker gave a dispatch back.
type ReturnCause uint8

// The causes of x-first-death-reason that a dispatch can have.
const (
	ReturnRejected      ReturnCause = iota // the agent refused it
	ReturnExpired                          // not taken in time, or the agent's channel was lost
	ReturnDeliveryLimit                    // handed out too often without an acknowledgement
)

// String is the broker's word.
func (c ReturnCause) String() string {
	switch c {
	case ReturnRejected:
		return "rejected"
	case ReturnExpired:
		return "expired"
	default:
		return "delivery_limit"
	}
}

// TaskReturned is a dispatch that came back through task.reassign.
type TaskReturned struct {
	Handle Handle
	Task   *Task
	// Agent that had it last, under Attempt; Tried lists every agent so far.
	Agent       AgentID
	Attempt     int
	Tried       []AgentID
	Cause       ReturnCause
	Redelivered bool
}

// AgentReported is a heartbeat.
type AgentReported struct {
	Report AgentReport
	// Live is false for what was read from the stream's past at start: it counts
	// as fresh, but teaches nothing about the agent's clock.
	Live bool
}

// PublishOutcome is what became of a dispatch handed to the broker.
type PublishOutcome uint8

// The outcomes (docs/ARCHITECTURE.md, "Sessions"); exactly one follows every Dispatch effect,
// unless the session is lost first.
const (
	PublishConfirmed  PublishOutcome = iota // the broker has it
	PublishUnroutable                       // no such queue
	PublishRejected                         // nacked: the queue is full
	PublishUnknown                          // session ended before the answer
	PublishNotSent                          // could not be encoded
	PublishAbandoned                        // never handed to the broker: the session ended before
)

// String is the label used in metrics.
func (o PublishOutcome) String() string {
	switch o {
	case PublishConfirmed:
		return "confirmed"
	case PublishUnroutable:
		return "unroutable"
	case PublishRejected:
		return "rejected"
	case PublishUnknown:
		return "unknown"
	case PublishNotSent:
		return "not_sent"
	default:
		return "abandoned"
	}
}

// DispatchSettled reports the outcome of a Dispatch effect.
type DispatchSettled struct {
	Handle  Handle
	Outcome PublishOutcome
}

// QueueChecked answers an EnsureQueue effect.
type QueueChecked struct {
	Agent  AgentID
	Exists bool
}

// Tick says that time has passed; Apply runs whatever is due at now.
type Tick struct{}

func (PolicyChanged) event()   {}
func (SessionOpened) event()   {}
func (SessionLost) event()     {}
func (DrainBegan) event()      {}
func (TaskReceived) event()    {}
func (TaskReturned) event()    {}
func (AgentReported) event()   {}
func (DispatchSettled) event() {}
func (QueueChecked) event()    {}
func (Tick) event()            {}

// StatusRefusal is why a heartbeat changed nothing.
type StatusRefusal uint8

// The refusals of AgentReported.
const (
	StatusUnknownAgent StatusRefusal = iota
	StatusOutOfOrder
)

// String is the label used in metrics.
func (r StatusRefusal) String() string {
	if r == StatusUnknownAgent {
		return "unknown_agent"
	}
	return "out_of_order"
}

// AgentState is whether an agent is there, as the engine sees it.
type AgentState uint8

// The states of an agent.
const (
	AgentNeverSeen AgentState = iota // no report yet
	AgentOnline
	AgentOffline // it said so
	AgentStale   // silent for longer than StaleAfter
)

// String is the word shown in /status.
func (s AgentState) String() string {
	switch s {
	case AgentNeverSeen:
		return "never_seen"
	case AgentOnline:
		return "online"
	case AgentOffline:
		return "offline"
	default:
		return "stale"
	}
}

// Failure is everything assignment.failed says beyond the task itself.
type Failure struct {
	Reason   Reason
	Text     string
	Attempts int
	FailedAt time.Time
}
