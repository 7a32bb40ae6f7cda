package coordinator

import "time"

// AgentSpec is what agents.yaml says of one agent.
type AgentSpec struct {
	ID AgentID `rec:"1"`
	// Queue is where its dispatches go.
	Queue string `rec:"2,name"`
	// Capabilities it offers. Sorted, without duplicates.
	Capabilities []string `rec:"3,name"`
	// MaxConcurrent is how many tasks it may have at once; at least 1.
	MaxConcurrent int `rec:"4"`
	// Rank is agents.yaml's `priority`, 1 to 5: the lower goes first. It is named
	// so because a task's [Priority] runs the other way.
	Rank int `rec:"5"`
	// HealthCheckInterval is how often the agent promises to report.
	HealthCheckInterval time.Duration `rec:"6"`
	// Timeout for its tasks where the task gives none of its own.
	Timeout time.Duration `rec:"7"`
	// AcceptTimeout is how long a dispatch may wait in its queue before the
	// broker takes it back (task.reassign).
	AcceptTimeout time.Duration `rec:"8"`
	// SuccessRate, 0 to 1, is used instead of what is learnt, where SuccessStated.
	SuccessRate   float64 `rec:"9"`
	SuccessStated bool    `rec:"10"`
	// Cost of one of its tasks in any unit that the whole fleet shares; 0 means not
	// stated, and the measured mean is used.
	Cost float64 `rec:"11"`
	// Labels of the agent, for affinity.
	Labels map[string]string `rec:"12"`
	// Pull: it claims its tasks itself.
	Pull PullMode `rec:"-"`
}

// AgentStatus is what an agent says of its own state.
type AgentStatus uint8

// The states an agent can report; StatusUnknown until it has reported.
const (
	StatusUnknown AgentStatus = iota
	StatusReady
	StatusBusy
	StatusOffline
)

// String gives the word used on the bus, or "unknown".
func (s AgentStatus) String() string {
	switch s {
	case StatusReady:
		return "ready"
	case StatusBusy:
		return "busy"
	case StatusOffline:
		return "offline"
	default:
		return "unknown"
	}
}

// AgentReport is one agent.status message, validated.
type AgentReport struct {
	Agent  AgentID     `rec:"1"`
	Status AgentStatus `rec:"2"`
	// Load is current_load, 0 to 1.
	Load float64 `rec:"3"`
	// Active is active_tasks: how many tasks the agent says it runs.
	Active int `rec:"4"`
	// Available is available_capacity: how many more it says it can take.
	Available int `rec:"5"`
	// MaxConcurrent, if positive, lowers (never raises) the configured maximum.
	MaxConcurrent int `rec:"8"`
	// ActiveTasks are active_task_ids: what it runs at the moment. nil when the
	// agent does not say; an empty list says that it runs nothing.
	ActiveTasks []TaskID `rec:"7,name,empty"`
	// Capabilities, Queue and Labels are what the agent announces of itself; used only
	// for an agent that agents.yaml does not list (see Discovery).
	Capabilities []string          `rec:"9,name"`
	Queue        string            `rec:"10,name"`
	Labels       map[string]string `rec:"11"`
	// Capacity is capacity_items_per_second, meant only when HasCapacity: 0 says that
	// it is not known. Pending is pending_items, meant only when HasPending.
	Capacity    float64 `rec:"12"`
	Pending     int     `rec:"13"`
	HasCapacity bool    `rec:"14"`
	HasPending  bool    `rec:"15"`
	// Relayed: a coordinator published it for the agent, which reported it over HTTP. It
	// speaks for capacity and pending items, and shows that the agent is alive; the
	// rest is taken from the agent's own reports where there are any.
	Relayed bool `rec:"16"`
	// Instance names the process that reports; empty: it does not say.
	Instance string `rec:"17,name"`
	// Timestamp is the agent's own clock.
	Timestamp time.Time `rec:"6"`
	// UserID is the broker-validated name of the connection's user; empty when
	// the publisher did not set it.
	UserID string `rec:"18,name"`
}

// AgentView is what a strategy may know of an agent when it ranks it. The engine
// keeps it current; a strategy must not keep a reference to it.
type AgentView struct {
	// What every decision reads comes first: it is looked at for each agent.

	// Load is max(reported load, InFlight/Max), 0 to 1: it counts the
	// coordinator's own dispatches at once, not at the next heartbeat.
	Load float64
	// LastAssigned is the sequence number of the latest dispatch to this agent,
	// 0 when it has had none.
	LastAssigned uint64
	// Flexibility is how much the agent's capabilities are in demand: the sum over them of demand/supply,
	// at least 0. Of equal candidates the least flexible should go first, so that agents with rare
	// capabilities stay free.
	Flexibility float64
	// InFlight is what the agent reported as running plus every dispatch that no
	// report has covered yet.
	InFlight int
	// Max is how many tasks the agent may have at once.
	Max int
	// Free slots: at least 1 when a strategy sees the agent.
	Free int
	// Rank as in [AgentSpec].
	Rank int
	// Capabilities is how many capabilities the agent offers.
	Capabilities int

	ID AgentID
	// Hash of its id, for choices that repeat.
	Hash uint64
	// ReportedLoad is the load of its latest report alone.
	ReportedLoad float64
	// Cost of one of its tasks; 0 when not known.
	Cost float64
	// Capacity is how many tasks a second it can do, reported or measured.
	Capacity float64
	// Pending is how many tasks it has not finished, as it reports or as the coordinator counts.
	Pending int
	Labels  map[string]string
}

// Health is how much work is pending at an agent, in the terms of the balancing protocol.
type Health uint8

// The states of Health, by the time the pending items will take.
const (
	Healthy          Health = iota // less than 30 s
	BusyHealth                     // less than 60 s
	OverloadedHealth               // 60 s or more
)

// String is the term of the balancing protocol.
func (h Health) String() string { return [...]string{"HEALTHY", "BUSY", "OVERLOADED"}[h] }

// HealthOf judges a drain time. BALANCING's text and code differ on the bounds
// themselves; these are those of its data model.
func HealthOf(drain time.Duration) Health {
	switch {
	case drain < 30*time.Second:
		return Healthy
	case drain < 60*time.Second:
		return BusyHealth
	default:
		return OverloadedHealth
	}
}
