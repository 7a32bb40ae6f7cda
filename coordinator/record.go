package coordinator

import (
	"strconv"
	"time"

	"taskbus/coordinator/hash"
)

// Record is one fact of the engine's state that must survive the process: it is journalled before anything
// that follows from it is done, and folded by the next leader (see package journal). The set is closed.
//
// Records of one task, agent or breaker are absolute: the latest says all there is
// to say, and one that is folded twice changes nothing the second time. Learnt and
// Forgiven alone are steps, and counted by their number in the journal.
type Record interface{ record() }

// TaskKey is a task id by 128 bits of hash: small, and of one size however long the
// id is.
type TaskKey [2]uint64

// KeyOf gives the key of a task id.
func KeyOf(id TaskID) TaskKey {
	return TaskKey{hash.Of(string(id), 0), hash.Of(string(id), 0x9e3779b97f4a7c15)}
}

// CallKey names the reservation of an id that an agent (empty: a gateway, for no agent in particular) has
// given, or was given. Ids of different agents are independent.
func CallKey(agent AgentID, id string) TaskKey {
	// Both may hold any of the signs that might stand between them.
	return KeyOf(TaskID("call:" + strconv.Itoa(len(agent)) + ":" + string(agent) + ":" + id))
}

// Assigned says that a task is given to an agent: the decision, and all that is
// needed to see the dispatch to its end without its producer. It takes the place of
// any dispatch of that task before it.
type Assigned struct {
	Task    *Task   `rec:"1,set"`
	Agent   AgentID `rec:"2"`
	Attempt int     `rec:"3"`
	// Strategy that chose, among so many Eligible agents of the Fleet.
	Strategy string    `rec:"4,name"`
	Eligible int       `rec:"5"`
	Fleet    int       `rec:"6"`
	At       time.Time `rec:"7"`
	// Timeout is how long the agent may work.
	Timeout time.Duration `rec:"8"`
	// Tried are the agents that had it before, Failed those of them on which it failed, and Untouched those
	// from whose queues it was taken back; Suspected are those that were lost with it and others in hand;
	// Blamed those that a fault was attributed to because of it, and Taught those whose success rate it has
	// lowered.
	Tried     []AgentID `rec:"11"`
	Failed    []AgentID `rec:"12"`
	Untouched []AgentID `rec:"16"`
	Suspected []AgentID `rec:"17"`
	Blamed    []AgentID `rec:"18"`
	Taught    []AgentID `rec:"19"`
	// Tries is as in Dispatch; 0: as many as Tried.
	Tries int `rec:"20"`
	// Generation of the agent's breakers, and whether the task is a Probe of one.
	Generation uint64 `rec:"9"`
	Probe      bool   `rec:"21"`
	// Batch that it is dispatched with; empty: alone. Snapshots alone have it: what is written of a dispatch when it
	// is made is followed by BatchSealed.
	Batch string `rec:"13,name"`
	// Service is the model that the agent has to use; zero: the task names no alternatives.
	Service Service `rec:"14"`
	// MaybeDuplicate: an earlier copy may have reached an agent. OwnMessage: the
	// delivery behind it is its producer's message, not a dispatch that came back.
	MaybeDuplicate bool `rec:"15"`
	OwnMessage     bool `rec:"10"`
}

// BatchSealed says that the dispatches of these tasks, which are open, share a batch. It is among the records of the
// event by which they were assigned, and none of them is published before all of these are confirmed: a leader that
// dies between Assigned and this leaves dispatches that no agent has, and a standby that lacks the id of their batch,
// by which faults of one batch count once, and nothing else.
type BatchSealed struct {
	Batch string    `rec:"1"`
	Tasks []TaskKey `rec:"2"`
}

// Settled says that the agent's queue has the dispatch. While only
// Assigned is known of a dispatch it may have been published or not, and the broker
// delivers its task again.
type Settled struct {
	Key TaskKey `rec:"1"`
	// Attempt is 0 where this says no more than that a message of the task was acknowledged.
	Attempt int       `rec:"2"`
	At      time.Time `rec:"3"`
	// Nowhere: its task was acknowledged without it, because the task has ended.
	// Heard: its agent has reported it; the broker still has its task.
	Nowhere bool `rec:"4"`
	Heard   bool `rec:"5"`
	// Agent has it although its task has ended meanwhile; empty else: that of the dispatch that is open.
	Agent AgentID `rec:"6"`
}

// LeaseChanged is what has become known of a dispatch that an agent has.
type LeaseChanged struct {
	Key     TaskKey `rec:"1"`
	Attempt int     `rec:"2"`
	// Withdrawn: its cancellation was requested, for Reason (which may be empty).
	Withdrawn bool   `rec:"3"`
	Reason    string `rec:"4"`
	// Returning: its agent has said that it gives it back; Begun: and that it had begun.
	Returning bool `rec:"5"`
	Begun     bool `rec:"6"`
	// Failed, Blamed and Taught as in Assigned: an agent that had it before may say later
	// that it failed there.
	Failed []AgentID `rec:"7"`
	Blamed []AgentID `rec:"8"`
	Taught []AgentID `rec:"9"`
	// Said are the agent's words with that, RetryAfter how long it asks not to be given the task again.
	Said       string        `rec:"10"`
	RetryAfter time.Duration `rec:"11"`
}

// Renewed says that the agent of a dispatch has reported progress: its lease is at least as long as if it began now. It
// is not written of each report; what it says holds for the next that are due before it is (see state.Renew).
type Renewed struct {
	Key     TaskKey   `rec:"1"`
	Attempt int       `rec:"2"`
	At      time.Time `rec:"3"`
}

// AttemptEnd is how a dispatch came back that an agent did not do.
type AttemptEnd uint8

// The ends. The numbers are part of the journal and never change.
const (
	EndUnknown       AttemptEnd = 0
	EndRefused       AttemptEnd = 1 // its agent turned it away
	EndGivenUp       AttemptEnd = 2 // its agent had begun, and gave it back
	EndExpired       AttemptEnd = 3 // not taken in time, or its agent's channel was lost
	EndDeliveryLimit AttemptEnd = 4 // handed out too often without an acknowledgement
	EndTakenBack     AttemptEnd = 5 // taken out of the queue of an agent that is gone or drained
	EndLost          AttemptEnd = 6 // the same, and the agent had had it in hand
	NumAttemptEnds              = 7
)

// EndOf is the end of a dispatch that came back so; begun: its agent has said that it had begun.
func EndOf(cause ReturnCause, redelivered, begun bool) AttemptEnd {
	switch {
	case cause == ReturnTakenBack && redelivered:
		return EndLost
	case cause == ReturnTakenBack:
		return EndTakenBack
	case cause == ReturnExpired:
		return EndExpired
	case cause == ReturnDeliveryLimit:
		return EndDeliveryLimit
	case begun:
		return EndGivenUp
	}
	return EndRefused
}

var attemptEnds = [NumAttemptEnds]struct{ code, phrase string }{
	EndUnknown:       {"returned", "did not do it"},
	EndRefused:       {"rejected", "refused it"},
	EndGivenUp:       {"rejected", "had begun and gave it back"},
	EndExpired:       {"expired", "did not take it within accept_timeout_seconds, or lost its channel"},
	EndDeliveryLimit: {"delivery_limit", "was handed it too often without acknowledging it"},
	EndTakenBack:     {"taken_back", "went away or was drained before it had begun"},
	EndLost:          {"lost", "went away with the task in hand"},
}

// String is the word that `taskbus explain` shows.
func (e AttemptEnd) String() string { return attemptEnds[e].code }

// Phrase is what an agent did, for people: it follows the agent's id.
func (e AttemptEnd) Phrase() string { return attemptEnds[e].phrase }

// Fate is what became of a task id that has been seen.
type Fate uint8

// The fates. The numbers are part of the journal and never change.
const (
	FateForgotten  Fate = 0  // given up before it had an end: may come again as if new
	FateFailed     Fate = 1  // refused with its delivery: may come again as if new
	FateOpen       Fate = 2  // being decided; never in a record
	FateUnsettled  Fate = 3  // published, answer unknown; never in a record
	FateDispatched Fate = 4  // confirmed: an agent has it; never in a record
	FateLetGo      Fate = 5  // confirmed, and its agent says no more than heartbeats
	FateSucceeded  Fate = 6  // the agent reported success
	FateGaveUp     Fate = 7  // the agent reported a failure: may come again as if new
	FateTimedOut   Fate = 8  // no result in time: may come again as if new
	FateWithdrawn  Fate = 9  // cancelled before it was ever seen
	FateCancelled  Fate = 10 // ended by a cancel, with its delivery or by its agent
	FateLaned      Fate = 11 // waits in its lane, which has its message
	NumFates            = 12
)

var fates = [NumFates]string{
	"forgotten", "failed", "open", "unsettled", "dispatched", "let_go",
	"succeeded", "gave_up", "timed_out", "withdrawn", "cancelled", "laned",
}

// String is the word shown to people.
func (f Fate) String() string { return fates[f] }

// IsOpen reports whether the task is being decided, or with an agent.
func (f Fate) IsOpen() bool { return f == FateOpen || f == FateUnsettled || f == FateDispatched }

// MayComeAgain: a message from task.assign under this id is taken as a new task.
func (f Fate) MayComeAgain() bool {
	return f == FateForgotten || f == FateFailed || f == FateGaveUp || f == FateTimedOut
}

// HasEnded: its outcome has been published, and not with a delivery that the broker may
// hand out again.
func (f Fate) HasEnded() bool {
	return f == FateSucceeded || f == FateGaveUp || f == FateTimedOut || f == FateCancelled
}

// Remembered is what is known of a task id that is with no agent (any more). It ends
// the dispatch of the task, if there is one.
type Remembered struct {
	Key TaskKey `rec:"1"`
	// ID of the task; empty where nothing but its key is remembered.
	ID      TaskID `rec:"2"`
	Content uint64 `rec:"3,hash"` // see Task.ContentHash
	Fate    Fate   `rec:"4"`
	// Seen is when the id was last seen, from which its dedupe window counts.
	Seen time.Time `rec:"5"`
	// Agent that had it last; empty: none.
	Agent AgentID `rec:"6"`
	// Attempt of the latest dispatch made under this id; 0: none.
	Attempt int `rec:"7"`
	// Flags are the engine's own.
	Flags uint8 `rec:"8"`
	// Reason for which it was cancelled; Why it failed.
	Reason string `rec:"9"`
	Why    Reason `rec:"10"`
	// End is how its latest dispatch came back, and Said its agent's words, where the record says no more
	// than that it did, or that its task has failed since.
	End  AttemptEnd `rec:"11"`
	Said string     `rec:"12"`
	// Work is how long its agent says that it worked; 0: not known.
	Work time.Duration `rec:"13"`
	// Text is the reason of its failure for people. Task is what it was accepted with, where no record
	// before this one has that.
	Text string `rec:"14"`
	Task *Task  `rec:"15"`
	// Unpublished is why the dispatch after that attempt was not published, which is over with this; zero: there is
	// none.
	Unpublished PublishOutcome `rec:"17"`
	// Late is its agent's report that came after the task had timed out, and changes nothing; nil: none.
	Late *Outcome `rec:"16"`
}

// EndedBefore is a task that no agent has any more, but whose end may have to be published again: what it
// was accepted with. Only snapshots have it.
type EndedBefore struct {
	Task *Task `rec:"1,set"`
}

// TaskBefore is what is shown of one recent task, for `taskbus tasks` and `taskbus explain`. No
// decision depends on it. Snapshots alone have it.
type TaskBefore struct {
	Task *Task `rec:"1,set"`
	// State, and the Outcome of each attempt, are in the words that people are shown.
	State    string          `rec:"2,name"`
	Attempts []AttemptBefore `rec:"3"` // the latest last
	// Strategy that made the latest decision, at DecidedAt, among so many Eligible agents of the Fleet;
	// empty: not known.
	Strategy  string    `rec:"4,name"`
	Eligible  int       `rec:"5"`
	Fleet     int       `rec:"6"`
	DecidedAt time.Time `rec:"7"`
	// Waited is for how long it has waited so far, WaitsFrom since when it does again; zero: it does not.
	Waited    time.Duration `rec:"8"`
	WaitsFrom time.Time     `rec:"9"`
	// CompletedAt is when its result counted; zero: it has none. Work as in Remembered.
	CompletedAt time.Time     `rec:"10"`
	Work        time.Duration `rec:"11"`
	Failure     Failure       `rec:"12"`
}

// AttemptBefore is one dispatch of such a task.
type AttemptBefore struct {
	Agent   AgentID   `rec:"1"`
	Number  int       `rec:"2"` // 0: not known
	At      time.Time `rec:"3"`
	Outcome string    `rec:"4,name"`
	Detail  string    `rec:"5"` // empty: not known; Detail without what an agent says of an error
}

// Attribution is how the end of a dispatch is attributed to its agent.
type Attribution uint8

// The attributions. The numbers are part of the journal and never change.
const (
	AttributedSuccess    Attribution = 0
	AttributedAgentFault Attribution = 1
	AttributedTimeout    Attribution = 2
	NumAttributions                  = 3
)

// Learnt is how one dispatch ended, as given to the learner.
type Learnt struct {
	Agent       AgentID       `rec:"1"`
	Type        string        `rec:"2,name"` // of the task; empty: one that no route names
	Attribution Attribution   `rec:"3"`
	At          time.Time     `rec:"4"`
	Duration    time.Duration `rec:"5"` // 0: not known
	CostUSD     float64       `rec:"6"` // 0: not known
}

// Forgiven takes one fault of an agent back.
type Forgiven struct {
	Agent AgentID   `rec:"1"`
	Type  string    `rec:"2,name"`
	At    time.Time `rec:"3"`
}

// LearntBefore is everything that has been learnt at some moment, as one of the
// rows of which it consists; the first of them has Agent and Type empty and says as
// of when. It is part of snapshots.
type LearntBefore struct {
	// First: forget what was learnt so far; AsOf counts.
	First bool      `rec:"1"`
	AsOf  time.Time `rec:"2"`
	Agent AgentID   `rec:"3"` // empty: all agents
	// Typed: the row is of one type (Type, which is empty for all that no route names).
	Typed bool       `rec:"4"`
	Type  string     `rec:"5,name"`
	Sums  [6]float64 `rec:"6"` // in the order of the learner's own
}

// BreakerChanged is the breaker of one agent and capability.
type BreakerChanged struct {
	// Agent empty: all breakers begin anew, under other rules, and nothing else but Generation counts. What was
	// dispatched before that generation does not count any more.
	Agent      AgentID `rec:"1"`
	Capability string  `rec:"2,name"`
	// Gone: it has nothing to remember; nothing else but Generation counts then.
	Gone bool `rec:"3"`
	// State: 0 closed, 1 open, 2 half-open. Cause: 0 faults in a row, 1 the posterior,
	// 2 a probe.
	State    uint8     `rec:"4,max=2"`
	Cause    uint8     `rec:"5,max=2"`
	Faults   []TaskID  `rec:"6"`
	Opened   int       `rec:"7"`
	ClosedAt time.Time `rec:"8"`
	// Until is its deadline; zero: none.
	Until   time.Time `rec:"9"`
	Since   uint64    `rec:"10"`
	Before  uint64    `rec:"11"`
	Probe   TaskID    `rec:"12"`
	Probing bool      `rec:"13"`
	// Generation of all breakers.
	Generation uint64 `rec:"14"`
}

// Ordered is an operator's order that stands from now on.
type Ordered struct {
	Agent AgentID `rec:"1"`
	Order Order   `rec:"2"`
}

// Tracked says that the ends of the agent's dispatches are known, or no more (Ended).
type Tracked struct {
	Agent AgentID `rec:"1"`
	Ended bool    `rec:"2"`
}

// Consumed says that the agent's queue has been seen with a consumer (Ever), so that
// one that is missing means something; or that it may come back without one.
type Consumed struct {
	Agent AgentID `rec:"1"`
	Ever  bool    `rec:"2"`
	// Told is when the agent had made its latest report by then, by its own clock; zero: not known. A
	// goodbye that it has said before, and that is read again, says nothing.
	Told time.Time `rec:"3"`
}

// Doubted says how many messages of a task that has ended the broker may deliver again,
// from the time of leaders before. It is part of snapshots.
type Doubted struct {
	Key      TaskKey `rec:"1"`
	Messages int     `rec:"2"`
}

// Joined says which agents have joined by themselves, or say something else of themselves
// now, and which of those before have left the fleet again.
type Joined struct {
	Agents []AgentSpec `rec:"1"`
	Left   []AgentID   `rec:"2"`
}

// Readdressed says that the end of a task that an agent has is to be told in another queue, which a copy has named.
type Readdressed struct {
	Key     TaskKey `rec:"1"`
	ReplyTo string  `rec:"2,name"`
}

// AgentBefore is what snapshots say of one agent, after the tasks that it has.
type AgentBefore struct {
	Agent AgentID `rec:"1"`
	// Assigned counts its confirmed dispatches, LastAssigned numbers the latest.
	Assigned     uint64 `rec:"2"`
	LastAssigned uint64 `rec:"3"`
	// Items done in BusySeconds, both decayed, and Samples of them (see package learning).
	Items       float64 `rec:"4"`
	BusySeconds float64 `rec:"5"`
	Samples     int     `rec:"6"`
}

// Calibrated is what outcomes have taught about how far an agent's bids are right, all of it
// (see auction.CalibrationState).
type Calibrated struct {
	Agent  AgentID `rec:"1"`
	Ratio  float64 `rec:"2"`
	Brier  float64 `rec:"3"`
	Bias   float64 `rec:"4"`
	Timed  int     `rec:"5"`
	Judged int     `rec:"6"`
}

// Owed is a pending failure without a delivery behind it: it must be published until Paid.
type Owed struct {
	Task    *Task   `rec:"1,set"`
	Failure Failure `rec:"2"`
}

// Paid says that the pending failure of a task has been published.
type Paid struct {
	Key TaskKey `rec:"1"`
}

// LaneKnown says whether a lane may hold something. It is known before anything is moved
// there, so that a lane that the policy no longer has is read until it is empty. A lane of
// the policy of which there is no such record is looked at: its queue may be older than the
// journal.
type LaneKnown struct {
	Lane  string `rec:"1,name"`
	Known bool   `rec:"2"`
}

func (*Assigned) record()        {}
func (*BatchSealed) record()     {}
func (*Readdressed) record()     {}
func (*Settled) record()         {}
func (*Renewed) record()         {}
func (*LeaseChanged) record()    {}
func (*Remembered) record()      {}
func (*Learnt) record()          {}
func (*Forgiven) record()        {}
func (*LearntBefore) record()    {}
func (*BreakerChanged) record()  {}
func (*Ordered) record()         {}
func (*Tracked) record()         {}
func (*Consumed) record()        {}
func (*Doubted) record()         {}
func (*Joined) record()          {}
func (*AgentBefore) record()     {}
func (*Calibrated) record()      {}
func (*Owed) record()            {}
func (*Paid) record()            {}
func (*EndedBefore) record()     {}
func (*TaskBefore) record()      {}
func (*QuotaReserved) record()   {}
func (*QuotaExtended) record()   {}
func (*QuotaEnded) record()      {}
func (*QuotaBefore) record()     {}
func (*QuotaTold) record()       {}
func (*EstimateBefore) record()  {}
func (*ShareBefore) record()     {}
func (*LaneKnown) record()       {}
func (*PoolHeard) record()       {}
func (*QuotaControlled) record() {}
