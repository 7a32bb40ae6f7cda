package coordinator

import (
	"strconv"
	"time"
)

// Event is something that happened. The set is closed.
type Event interface{ event() }

// PolicyChanged installs a new configuration. The first event of every engine.
type PolicyChanged struct{ Policy *Policy }

// SessionOpened says that a broker session stands, statuses are being read and
// tasks may follow. An agent that has not reported yet gets one health interval
// to do so before anything fails for want of agents.
type SessionOpened struct {
	// Lost is when the shell's session before this one ended: from then until this one was connected no
	// message could arrive. Zero: there was none.
	Lost time.Time
	// Connected is when the session was connected, which for one that has stood by is long
	// ago: agents that lost their connections with the one before have had the time since
	// then. Zero: now.
	Connected time.Time
}

// PublishingHeld says that the broker holds up publishers (an alarm of memory or disk), or
// does so no longer: until then no agent can report anything, neither that it is alive nor how
// a task ended.
type PublishingHeld struct{ Held bool }

// SessionLost says that every delivery held and every publish not yet settled
// is void: the broker will deliver the former again.
type SessionLost struct{}

// DrainBegan says that no task follows in this session. What is not on its way
// to an agent is given up silently: the broker has it again when the
// session ends.
type DrainBegan struct{}

// TaskReceived is a valid task from task.assign, task.assign.high or a lane.
type TaskReceived struct {
	Handle Handle
	Task   *Task
	// Redelivered: the broker has handed it out before.
	Redelivered bool
	// Lane that it comes out of; empty: none. AcceptedAt of the task is then that of its
	// message before.
	Lane string
	// MaybeDuplicate: that message said, or was, that an earlier copy may have reached an
	// agent.
	MaybeDuplicate bool
}

// ReturnCause is why the broker gave a dispatch back.
type ReturnCause uint8

// The causes of x-first-death-reason that a dispatch can have.
const (
	ReturnRejected      ReturnCause = iota // the agent refused it
	ReturnExpired                          // not taken in time, or the agent's channel was lost
	ReturnDeliveryLimit                    // handed out too often without an acknowledgement
	ReturnTakenBack                        // taken out of the queue of an agent that is gone or drained
	NumReturnCauses     = iota
)

// String is the broker's word.
func (c ReturnCause) String() string {
	switch c {
	case ReturnRejected:
		return "rejected"
	case ReturnExpired:
		return "expired"
	case ReturnTakenBack:
		return "taken_back"
	default:
		return "delivery_limit"
	}
}

// TaskReturned is a dispatch that came back: through task.reassign, or out of
// the queue of an agent that is gone or being drained (see TakeBack).
type TaskReturned struct {
	Handle Handle
	Task   *Task
	// Agent that had it last, under Attempt; Tried lists every agent so far.
	Agent   AgentID
	Attempt int
	Tried   []AgentID
	// Tries is as in Dispatch; 0: as many as there are others in Tried.
	Tries int
	// Failed lists those of Tried on which the task failed, as its headers say;
	// this return is not among them yet. Suspected is as in Dispatch.
	Failed, Suspected []AgentID
	Cause             ReturnCause
	// Redelivered: the broker had handed it out before. With ReturnTakenBack that
	// means that the agent had it in hand when it went away.
	Redelivered bool
	// MaybeDuplicate: the dispatch that came back was marked so (see Dispatch).
	MaybeDuplicate bool
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

// ResultReported is a task.result.
type ResultReported struct {
	Result Result
	// Live is false for what was read from the stream's past at start: what is
	// unknown or repeated there is no news.
	Live bool
	// Untold: of the past, and it is not certain that the end of the task was announced.
	Untold bool
}

// CancelRequested withdraws a task in whatever state it is. CancelAnswered
// follows, with the same token.
type CancelRequested struct {
	Task   TaskID
	Reason string // for people; may be empty
	Token  uint64
}

// AgentOrdered carries an operator's order for one agent. An agent that is not
// known is none of its business. OrderStands follows, unless Token is 0.
type AgentOrdered struct {
	Agent AgentID
	Order Order
	Token uint64
}

// QueueSeen is what the broker says of an agent's queue: messages ready in it,
// and consumers other than our own. The shell looks about once a second at the
// queues that Engine.Watched names.
type QueueSeen struct {
	Agent            AgentID
	Ready, Consumers int
}

// TakeBackEnded says that the taking back that a TakeBack effect began has ended
// without a LeaveQueue, or could not begin.
type TakeBackEnded struct{ Agent AgentID }

// FailureTold says that a Fail without a delivery is confirmed by the broker.
type FailureTold struct{ Task TaskID }

// BidReceived is a task.bid of an agent, which the shell has made sure is its own.
type BidReceived struct {
	Agent     AgentID
	Task      TaskID
	AuctionID string // empty: the task's auction that is open
	// Fitness, 0 to 1, is how well it says it suits the task.
	Fitness float64
	// Active is how many tasks it says it runs.
	Active int
	// Duration is how long it says the task will take.
	Duration time.Duration
	// Relevance, 0 to 1, of what it remembers of the task's domain; NaN: not given.
	Relevance float64
	TraceID   string
}

// OfferUnheard says that an agent has no control queue, so that no offer reaches it. It
// is not waited for, and not asked again before it reports.
type OfferUnheard struct{ Agent AgentID }

// ClaimReceived is a task.claim of an agent, which the shell has made sure is its own.
// One ClaimAnswered follows, unless the session is lost first: at once, or when there is
// work or Wait is over.
type ClaimReceived struct {
	Agent AgentID
	// ClaimID is the agent's name for the claim.
	ClaimID string
	// MaxItems that it wants, from 1; Pending that it has and has not finished.
	MaxItems, Pending int
	// Capacity in items per second; 0: not measured yet.
	Capacity float64
	// Wait is how long the claim may wait for work; 0: not at all.
	Wait time.Duration
	// Token comes back in ClaimAnswered; the shell chooses it.
	Token uint64
}

// LaneMoved reports the outcome of a MoveToLane effect.
type LaneMoved struct {
	Handle  Handle
	Outcome PublishOutcome
}

// LaneSeen says how many tasks are ready in a lane. The shell looks about once a second at
// those that Engine.LanesWatched names.
type LaneSeen struct {
	Lane  string
	Ready int
	// Missing: it has no queue (any more).
	Missing bool
	// Dropped: it answers DropLane. If not Missing as well, nothing more is known.
	Dropped bool
}

// LaneEnded says that the reading which a ReadLane effect began has ended without
// another, or could not begin.
type LaneEnded struct{ Lane string }

// IntakeChanged says how many tasks of task.assign the shell holds at most from now on:
// no more than the configured window, and fewer while they are large.
type IntakeChanged struct{ Window int }

// Tick says that time has passed; Apply runs whatever is due at now.
type Tick struct{}

func (PolicyChanged) event()          {}
func (SessionOpened) event()          {}
func (SessionLost) event()            {}
func (PublishingHeld) event()         {}
func (DrainBegan) event()             {}
func (TaskReceived) event()           {}
func (TaskReturned) event()           {}
func (AgentReported) event()          {}
func (DispatchSettled) event()        {}
func (QueueChecked) event()           {}
func (ResultReported) event()         {}
func (CancelRequested) event()        {}
func (AgentOrdered) event()           {}
func (QueueSeen) event()              {}
func (TakeBackEnded) event()          {}
func (FailureTold) event()            {}
func (Tick) event()                   {}
func (BidReceived) event()            {}
func (OfferUnheard) event()           {}
func (ClaimReceived) event()          {}
func (LaneMoved) event()              {}
func (LaneSeen) event()               {}
func (LaneEnded) event()              {}
func (IntakeChanged) event()          {}
func (QuotaControlsRequested) event() {}

// Failure is everything assignment.failed says beyond the task itself.
type Failure struct {
	Reason Reason
	// Text is the reason for people, without what agents have said; Full has that, too.
	Text     string
	Attempts int
	FailedAt time.Time
	// Agent that has the task and did not report its end (ReasonTaskTimeout, or a cancel that was
	// not answered); empty: no agent has it.
	Agent AgentID
	// Said are the words of the agent that gave it back last; empty: none. They may quote the payload,
	// and are not for a log.
	Said string
	// RetryAt is from when on it may succeed, as far as is known; zero: not known.
	RetryAt time.Time
}

// Full is the reason with the words of the agent that gave the task back last.
func (f *Failure) Full() string {
	if f.Said == "" {
		return f.Text
	}
	return f.Text + "; its agent says: " + strconv.Quote(f.Said)
}

func (CallAsked) event() {}
