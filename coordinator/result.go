package coordinator

import "time"

// Outcome is how a task ended at its agent, as the agent reported it.
type Outcome uint8

// The outcomes of task.result. Rejected is not an end: the agent gives the task
// back (a basic.reject follows), and another agent gets it.
const (
	OutcomeSucceeded Outcome = iota
	OutcomeFailed
	OutcomeRejected
	OutcomeCancelled
	NumOutcomes = iota
)

var outcomes = [NumOutcomes]string{"succeeded", "failed", "rejected", "cancelled"}

// String is the word used on the bus.
func (o Outcome) String() string { return outcomes[o] }

// Final reports whether the task has ended with this outcome.
func (o Outcome) Final() bool { return o != OutcomeRejected }

// Result is one task.result message, validated.
type Result struct {
	Task  TaskID  `rec:"1"`
	Agent AgentID `rec:"2"`
	// DispatchID names the attempt; empty when the agent does not say.
	DispatchID string  `rec:"3"`
	Outcome    Outcome `rec:"4"`
	// Attempted, with OutcomeRejected, says that the agent had begun and could not
	// go on: it counts as a failure of this task on this agent (see
	// Settings.PoisonedAfter). Without it the agent merely refuses.
	Attempted bool `rec:"5"`
	// RetryAfter, with OutcomeRejected, is how long this agent asks not to be given the task
	// again; 0: it does not say.
	RetryAfter time.Duration `rec:"6"`
	TraceID    string        `rec:"7"`
	// Timestamp is the agent's own clock.
	Timestamp time.Time `rec:"8"`
	// Duration of the work; 0 when not given.
	Duration time.Duration `rec:"9"`
	// Error is for people; empty when there was none.
	Error string `rec:"10"`
	// Usage is nil when not given.
	Usage *Usage `rec:"11"`
	// Offset is its place in the stream task.result; -1 when it did not come by it.
	Offset int64 `rec:"12"`
	// Output is nil when not given. It is for the producer alone: never journalled, logged, or in an event.
	Output *Output `rec:"-"`
}

// Output is what an agent found out: a value, a reference, or both.
type Output struct {
	// Value is a JSON value, byte for byte as the agent sent it; empty when there is a reference alone.
	Value []byte
	// Ref is where it is to be had; nil when there is none.
	Ref *OutputRef
	// Unknown: nothing else is given, because it is not known any more whether there was an output.
	Unknown bool
}

// Bytes is how many bytes o holds; o may be nil.
func (o *Output) Bytes() int {
	if o == nil {
		return 0
	}
	return len(o.Value)
}

// OutputRef says where an output is that is too large for a message.
type OutputRef struct {
	// URI has 1 to 2,048 characters of printable ASCII, no spaces.
	URI string `json:"uri"`
	// SHA256 of its bytes, in lower-case hexadecimal digits; Size in bytes.
	SHA256 string `json:"sha256"`
	Size   int64  `json:"size"`
}

// ResultRefusal is why a result changed nothing.
type ResultRefusal uint8

// The refusals of ResultReported.
const (
	// ResultUnknown: no such task is known (any more).
	ResultUnknown ResultRefusal = iota
	// ResultDuplicate: the same dispatch has had its result already.
	ResultDuplicate
	// ResultLate: the task has ended otherwise, or is another agent's by now.
	ResultLate
	// ResultWrongAgent: the dispatch was never given to the agent that reports.
	ResultWrongAgent
	NumResultRefusals = iota
)

var resultRefusals = [NumResultRefusals]string{"unknown", "duplicate", "late", "wrong_agent"}

// String is the label used in metrics.
func (r ResultRefusal) String() string { return resultRefusals[r] }

// CancelState is how far the withdrawal of a task has got.
type CancelState uint8

// The answers to CancelRequested.
const (
	// CancelDone: the task had not reached an agent; it fails as `cancelled`.
	CancelDone CancelState = iota
	// CancelAsked: an agent has the task. A Withdraw effect with the same token
	// goes to it; whether it stops is for its result to say.
	CancelAsked
	// CancelNoted: nothing is known of the task. Should it still come, it will not
	// be assigned.
	CancelNoted
	// CancelTooLate: the task has ended already.
	CancelTooLate
)

// Order is what an operator demands of one agent's place in the fleet.
type Order uint8

// The orders. Cordon: no new work. Drain: no new work, and what waits in its
// queue goes elsewhere; what it runs it finishes. Uncordon ends both.
const (
	OrderCordon Order = iota
	OrderDrain
	OrderUncordon
)

// String is the word used in HTTP paths and commands.
func (o Order) String() string { return [...]string{"cordon", "drain", "uncordon"}[o] }
