package coordinator

import "time"

// TaskID names a task; it is chosen by the producer. At most 128 characters.
type TaskID string

// AgentID names an agent: its key in agents.yaml. At most 128 characters.
type AgentID string

// Handle is the shell's key for a delivery it holds unacknowledged. The engine
// only hands it back; zero means "no delivery".
type Handle uint64

// Priority of a task: higher goes first. (An agent's Rank runs the other way.)
type Priority uint8

// The four priorities of task.assign.
const (
	PriorityLow      Priority = 0
	PriorityNormal   Priority = 1
	PriorityHigh     Priority = 2
	PriorityCritical Priority = 3
)

// Priorities is how many there are.
const Priorities = int(PriorityCritical) + 1

// PriorityOrder is how tasks of different priorities take turns that wait for the same agents.
type PriorityOrder struct {
	// Strict: what waits at a higher priority always goes first.
	Strict bool
	// Weights, 1 to MaxPriorityWeight: of the dispatches for which tasks of several priorities
	// compete each of these has its weight's part. 0 stands for the weight that is the default.
	Weights [Priorities]int64
}

// MaxPriorityWeight is the largest weight of a priority.
const MaxPriorityWeight = 1_000_000

// DefaultPriorityWeights are four times as much for each step.
func DefaultPriorityWeights() [Priorities]int64 { return [Priorities]int64{1, 4, 16, 64} }

// Weighted is the weight of each priority.
func (o PriorityOrder) Weighted() [Priorities]int64 {
	weights := o.Weights
	for p, w := range DefaultPriorityWeights() {
		if weights[p] <= 0 {
			weights[p] = w
		}
		weights[p] = min(weights[p], MaxPriorityWeight)
	}
	return weights
}

// String gives the word that operators read: "low", "normal", "high", "critical".
func (p Priority) String() string {
	switch p {
	case PriorityLow:
		return "low"
	case PriorityNormal:
		return "normal"
	case PriorityHigh:
		return "high"
	default:
		return "critical"
	}
}

// Task is one unit of work as its producer asked for it, without its payload:
// the payload's bytes stay with the shell, under the delivery's [Handle].
// A Task is immutable once it has been handed to the engine.
type Task struct {
	ID       TaskID   `rec:"1"`
	Type     string   `rec:"2,name"`
	Priority Priority `rec:"3"`
	Carried
	// Timeout is how long the agent may work on it; zero means that the task does
	// not say, and the agent's own applies.
	Timeout time.Duration `rec:"5"`
	// Deadline is when a dispatch is no longer of use; zero means none.
	Deadline time.Time `rec:"6"`
	// MaxWait is how long it may wait for its first agent, from AcceptedAt on; zero means
	// that the task does not say, and its type's applies.
	MaxWait time.Duration `rec:"16"`
	// Required capabilities of the task itself; they are added to those of its
	// task type's routing entry. Sorted, without duplicates.
	Required []string `rec:"9,name"`
	// Preferred agents, if given, replace those of the routing entry.
	Preferred []AgentID `rec:"10"`
	// WidenAfter is for how long after AcceptedAt only the preferred agents may have it; zero: any may
	// from the start, after those.
	WidenAfter time.Duration `rec:"17"`
	// Excluded agents never get this task. Sorted, without duplicates.
	Excluded []AgentID `rec:"18"`
	// Strategy asked for by the task; empty means the configured one.
	Strategy string `rec:"19,name"`
	// Group is the tenant that the task is charged to; empty means none.
	Group  string            `rec:"11,name"`
	Labels map[string]string `rec:"12"`
	// Description is what agents see of the task before they have it, so that
	// they can bid for it; at most 2,048 characters, which may be of any kind. Empty
	// means none. It is the producer's text: never in a log or an error.
	Description string `rec:"20"`
	// NoBorrowing: it may use no more than what is its group's own.
	NoBorrowing bool `rec:"21"`
	// EstimatedUsage is what its producer expects it to cost; nil means unknown.
	EstimatedUsage *Usage `rec:"13"`
	// NoTokens: EstimatedUsage states that it takes none; else tokens of 0 are not known.
	NoTokens bool `rec:"22"`
	// Alternatives are the models that it may go to, in the order of preference, instead of the one that
	// EstimatedUsage names; empty: it has no choice. At most 16.
	Alternatives []Service `rec:"23"`
	// ReplyTo is the queue that gets a copy of an assignment.failed; may be empty.
	ReplyTo string `rec:"15,name"`
	// TraceParent and TraceState are the W3C trace context headers, passed on as
	// they came; empty means absent.
	TraceParent string `rec:"14"`
	TraceState  string `rec:"24"`
	// AcceptedAt is when the coordinator first received the task. It survives
	// reassignment, so that a task that comes back keeps its age.
	AcceptedAt time.Time `rec:"7"`
	// ContentHash distinguishes two tasks of the same id: a hash over the bytes of
	// the message body as the producer sent it.
	ContentHash uint64 `rec:"8,hash"`
}

// Carried are the texts that a task has of its producer and that go unchanged wherever the task goes: into its
// dispatch and to the agent's handler, into both events of its end, into /tasks and explain. It is embedded in all of
// these, and every field of it is a string. Package messages reads and writes them by their tags:
//
//	json  the key, the same everywhere; without omitempty every dispatch and end must have it
//	text  what it may be (see messages/carried.go)
//	rec   the number in the journal, one of Task's (see coordinator/journal/schema.go)
//	name  what the journal calls it, where that is not its name here
type Carried struct {
	// CorrelationID is the trace id: from the body, else the AMQP property, else generated by the shell.
	// 1 to 255 bytes of printable ASCII.
	CorrelationID string `json:"correlation_id" text:"printable" rec:"4" name:"TraceID"`
}

// Usage is what a piece of work costs in LLM quota, estimated or measured. Every
// amount is at least 0; zero means none or unknown.
type Usage struct {
	Requests     float64 `rec:"1"`
	InputTokens  float64 `rec:"2"`
	OutputTokens float64 `rec:"3"`
	// CostUSD in US dollars.
	CostUSD float64 `rec:"4"`
	// Provider and Model of the LLM; empty means unknown.
	Provider string `rec:"5,name"`
	Model    string `rec:"6,name"`
}
