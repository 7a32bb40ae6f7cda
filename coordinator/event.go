package coordinator

import (
	"strconv"
	"time"
)

// Event is something that happened. The set is closed.
type Event interface{ event() }

// PolicyChanged installs a new configuration. The first event of every engine.
type PolicyChanged struct {
	Policy *Policy `rec:"1,set"`
}

// SessionOpened says that a broker session stands, statuses are being read and
// tasks may follow. An agent that has not reported yet gets one health interval
// to do so before anything fails for want of agents.
type SessionOpened struct {
	// Lost is when the shell's session before this one ended: from then until this one was connected no
	// message could arrive. Zero: there was none.
	Lost time.Time `rec:"1"`
	// Connected is when the session was connected, which for one that has stood by is long
	// ago: agents that lost their connections with the one before have had the time since
	// then. Zero: now.
	Connected time.Time `rec:"2"`
}

// PublishingHeld says that the broker holds up publishers (an alarm of memory or disk), or
// does so no longer: until then no agent can report anything, neither that it is alive nor how
// a task ended.
type PublishingHeld struct {
	Held bool `rec:"1"`
}

// SessionLost says that every delivery held and every publish not yet settled
// is void: the broker will deliver the former again.
type SessionLost struct{}

// DrainBegan says that no task follows in this session. What is not on its way
// to an agent is given up silently: the broker has it again when the
// session ends.
type DrainBegan struct{}

// TaskReceived is a valid task from task.assign, task.assign.high or a lane.
type TaskReceived struct {
	Handle Handle `rec:"1"`
	Task   *Task  `rec:"2,set"`
	// Redelivered: the broker has handed it out before.
	Redelivered bool `rec:"3"`
	// Lane that it comes out of; empty: none. AcceptedAt of the task is then that of its
	// message before.
	Lane string `rec:"4,name"`
	// MaybeDuplicate: that message said, or was, that an earlier copy may have reached an
	// agent.
	MaybeDuplicate bool `rec:"5"`
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
	Handle Handle `rec:"1"`
	Task   *Task  `rec:"2,set"`
	// Agent that had it last, under Attempt; Tried lists every agent so far.
	Agent   AgentID   `rec:"3"`
	Attempt int       `rec:"4"`
	Tried   []AgentID `rec:"5"`
	// Tries is as in Dispatch; 0: as many as there are others in Tried.
	Tries int `rec:"6"`
	// Failed lists those of Tried on which the task failed, as its headers say;
	// this return is not among them yet. Suspected is as in Dispatch.
	Failed    []AgentID   `rec:"7"`
	Suspected []AgentID   `rec:"8"`
	Cause     ReturnCause `rec:"9"`
	// Redelivered: the broker had handed it out before. With ReturnTakenBack that
	// means that the agent had it in hand when it went away.
	Redelivered bool `rec:"10"`
	// MaybeDuplicate: the dispatch that came back was marked so (see Dispatch).
	MaybeDuplicate bool `rec:"11"`
}

// AgentReported is a heartbeat.
type AgentReported struct {
	Report AgentReport `rec:"1"`
	// Live is false for what was read from the stream's past at start: it counts
	// as fresh, but teaches nothing about the agent's clock.
	Live bool `rec:"2"`
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
	Handle  Handle         `rec:"1"`
	Outcome PublishOutcome `rec:"2"`
}

// QueueChecked answers an EnsureQueue effect, and says that the queue of a new agent has been declared.
type QueueChecked struct {
	Agent  AgentID `rec:"1"`
	Exists bool    `rec:"2"`
}

// ResultReported is a task.result.
type ResultReported struct {
	Result Result `rec:"1"`
	// Live is false for what was read from the stream's past at start: what is
	// unknown or repeated there is no news.
	Live bool `rec:"2"`
	// Untold: of the past, and it is not certain that the end of the task was announced.
	Untold bool `rec:"3"`
}

// ProgressReported is a task.progress. The shell gives the latest of several that come at about the same time.
type ProgressReported struct {
	Progress *Progress `rec:"1,set"`
}

// CancelRequested withdraws a task in whatever state it is. CancelAnswered
// follows, with the same token.
type CancelRequested struct {
	Task   TaskID `rec:"1"`
	Reason string `rec:"2"` // for people; may be empty
	Token  uint64 `rec:"3"`
}

// AgentOrdered carries an operator's order for one agent. An agent that is not
// known is none of its business. OrderStands follows, unless Token is 0.
type AgentOrdered struct {
	Agent AgentID `rec:"1"`
	Order Order   `rec:"2"`
	Token uint64  `rec:"3"`
}

// QueueSeen is what the broker says of an agent's queue: messages ready in it,
// and consumers other than our own. The shell looks about once a second at the
// queues that Engine.Watched names.
type QueueSeen struct {
	Agent     AgentID `rec:"1"`
	Ready     int     `rec:"2"`
	Consumers int     `rec:"3"`
}

// TakeBackEnded says that the taking back that a TakeBack effect began has ended
// without a LeaveQueue, or could not begin.
type TakeBackEnded struct {
	Agent AgentID `rec:"1"`
}

// FailureTold says that a Fail without a delivery is confirmed by the broker.
type FailureTold struct {
	Task TaskID `rec:"1"`
}

// BidReceived is a task.bid of an agent, which the shell has made sure is its own.
type BidReceived struct {
	Agent     AgentID `rec:"1"`
	Task      TaskID  `rec:"2"`
	AuctionID string  `rec:"3"` // empty: the task's auction that is open
	// Fitness, 0 to 1, is how well it says it suits the task.
	Fitness float64 `rec:"4"`
	// Active is how many tasks it says it runs.
	Active int `rec:"5"`
	// Duration is how long it says the task will take.
	Duration time.Duration `rec:"6"`
	// Relevance, 0 to 1, of what it remembers of the task's domain; NaN: not given.
	Relevance float64 `rec:"7"`
	TraceID   string  `rec:"8"`
}

// OfferUnheard says that an agent has no control queue, so that no offer reaches it. It
// is not waited for, and not asked again before it reports.
type OfferUnheard struct {
	Agent AgentID `rec:"1"`
}

// ClaimReceived is a task.claim of an agent, which the shell has made sure is its own.
// One ClaimAnswered follows, unless the session is lost first: at once, or when there is
// work or Wait is over.
type ClaimReceived struct {
	Agent AgentID `rec:"1"`
	// ClaimID is the agent's name for the claim.
	ClaimID string `rec:"2"`
	// MaxItems that it wants, from 1; Pending that it has and has not finished.
	MaxItems int `rec:"3"`
	Pending  int `rec:"4"`
	// Capacity in items per second; 0: not measured yet.
	Capacity float64 `rec:"5"`
	// Wait is how long the claim may wait for work; 0: not at all.
	Wait time.Duration `rec:"6"`
	// Token comes back in ClaimAnswered; the shell chooses it.
	Token uint64 `rec:"7"`
}

// LaneMoved reports the outcome of a MoveToLane effect.
type LaneMoved struct {
	Handle  Handle         `rec:"1"`
	Outcome PublishOutcome `rec:"2"`
}

// LaneSeen says how many tasks are ready in a lane. The shell looks about once a second at
// those that Engine.LanesWatched names.
type LaneSeen struct {
	Lane  string `rec:"1,name"`
	Ready int    `rec:"2"`
	// Missing: it has no queue (any more).
	Missing bool `rec:"3"`
	// Dropped: it answers DropLane. If not Missing as well, nothing more is known.
	Dropped bool `rec:"4"`
}

// LaneEnded says that the reading which a ReadLane effect began has ended without
// another, or could not begin.
type LaneEnded struct {
	Lane string `rec:"1,name"`
}

// IntakeChanged says how many tasks of task.assign the shell holds at most from now on:
// no more than the configured window, and fewer while they are large.
type IntakeChanged struct {
	Window int `rec:"1"`
}

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
func (ProgressReported) event()       {}
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
	Reason Reason `rec:"1"`
	// Text is the reason for people, without what agents have said; Full has that, too.
	Text     string    `rec:"2"`
	Attempts int       `rec:"3"`
	FailedAt time.Time `rec:"4"`
	// Agent that has the task and did not report its end (ReasonTaskTimeout, or a cancel that was
	// not answered); empty: no agent has it.
	Agent AgentID `rec:"5"`
	// Said are the words of the agent that gave it back last; empty: none. They may quote the payload,
	// and are not for a log.
	Said string `rec:"6"`
	// RetryAt is from when on it may succeed, as far as is known; zero: not known.
	RetryAt time.Time `rec:"7"`
}

// Full is the reason with the words of the agent that gave the task back last.
func (f *Failure) Full() string {
	if f.Said == "" {
		return f.Text
	}
	return f.Text + "; its agent says: " + strconv.Quote(f.Said)
}

func (CallAsked) event() {}
