package agent

import (
	"context"
	"encoding/json"
	"time"

	"taskbus/messages"
)

// Handler does the work of one task. It is called from a goroutine of its own, up
// to Config.Slots at a time.
//
// ctx ends at the task's deadline, when the task is withdrawn, or when the agent
// has to stop (see ErrDeadline, ErrCancelled, ErrStopping); a handler should then
// return soon. It carries the values of Run's ctx. t belongs to the handler.
//
// What it returns is described in the package's documentation. A Result counts
// whatever the error is: work that failed has cost something, too.
type Handler func(ctx context.Context, t *Task) (Result, error)

// Task is one task as this agent got it.
type Task struct {
	// ID was chosen by the producer: the key for making work idempotent.
	ID   string
	Type string
	// Payload is the producer's JSON object, byte for byte.
	Payload json.RawMessage
	// Priority is 0 low, 1 normal, 2 high, 3 critical.
	Priority int
	// Carried: its CorrelationID is the trace id, which belongs into every log line about the task.
	messages.Carried
	// TraceParent and TraceState are the W3C trace context as the producer sent it;
	// empty when it sent none.
	TraceParent, TraceState string
	// DispatchID names this attempt to have the task done; Attempt counts from 1.
	DispatchID string
	Attempt    int
	// AssignedAt is when the coordinator chose this agent, by its clock.
	AssignedAt time.Time
	// Timeout is how long the handler may work. Deadline, if the task has one, is
	// when its outcome is no longer of use; else it is zero. The ctx of the handler
	// ends by whichever is first.
	Timeout  time.Duration
	Deadline time.Time
	// MaybeDuplicate: an earlier copy may have been begun, here or elsewhere, before
	// a fault.
	MaybeDuplicate bool
	// BatchID is what the tasks share that were given to this agent together, and
	// BatchSize how many they were; empty and 0 for one that was given alone.
	BatchID   string
	BatchSize int
	// Explanation says, for people, why this agent was chosen and no other; empty when
	// the coordinator does not say.
	Explanation string
	// Provider, with the key to use (openai@main) where it has several, and Model of the LLM are what was
	// chosen of the task's alternatives; empty where it names none.
	Provider, Model string

	report func(messages.TaskProgress) bool // see Progress; nil in a Task that no agent has made
}

// Result is what a handler can say of its work beside the error.
type Result struct {
	// Usage is what the work has cost in LLM quota; nil when there is nothing to
	// say. Amounts that are negative or no number are taken as 0.
	Usage *Usage
	// Output is what was found out, for the producer: what encoding/json makes of it, a json.RawMessage as it is. nil
	// when there is nothing to say. One that cannot be encoded, or is larger than the coordinator's max_output_bytes
	// (256 KiB unless it says otherwise), fails the task.
	Output any
	// OutputRef says where an output is that is too large for a message; nil when there is none.
	OutputRef *OutputRef
}

// OutputRef says where an output is: its URI (at most 2,048 characters), the SHA-256 of its bytes in hexadecimal, and
// their number.
type OutputRef = messages.OutputRef

// Usage is what a piece of work has cost: Requests, InputTokens, OutputTokens,
// CostUSD (each at least 0), Provider and Model.
type Usage = messages.Usage
