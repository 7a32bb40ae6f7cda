package coordinator

import "time"

// AgentSpec is what agents.yaml says of one agent.
type AgentSpec struct {
	ID AgentID
	// Queue is where its dispatches go.
	Queue string
	// Capabilities it offers. Sorted, without duplicates.
	Capabilities []string
	// MaxConcurrent is how many tasks it may have at once; at least 1.
	MaxConcurrent int
	// Rank is agents.yaml's `priority`, 1 to 5: the lower goes first. It is named
	// so because a task's [Priority] runs the other way.
	Rank int
	// HealthCheckInterval is how often the agent promises to report.
	HealthCheckInterval time.Duration
	// Timeout for its tasks where the task gives none of its own.
	Timeout time.Duration
	// AcceptTimeout is how long a dispatch may wait in its queue before the
	// broker takes it back (task.reassign).
	AcceptTimeout time.Duration
	// SuccessRate, 0 to 1, is used instead of what is learnt, where SuccessStated.
	SuccessRate   float64
	SuccessStated bool
	// Cost of one of its tasks in any unit that the whole fleet shares; 0 means not
	// stated, and the measured mean is used.
	Cost float64
	// Labels of the agent, for affinity.
	Labels map[string]string
	// Pull: it claims its tasks itself.
	Pull PullMode
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
	Agent  AgentID
	Status AgentStatus
	// Load is current_load, 0 to 1.
	Load float64
	// Active is active_tasks: how many tasks the agent says it runs.
	Active int
	// Available is available_capacity: how many more it says it can take.
	Available int
	// MaxConcurrent, if positive, lowers (never raises) the configured maximum.
	MaxConcurrent int
	// ActiveTasks are active_task_ids: what it runs at the moment. nil when the
	// agent does not say; an empty list says that it runs nothing.
	ActiveTasks []TaskID
	// Capabilities, Queue and Labels are what the agent announces of itself; used only
	// for an agent that agents.yaml does not list (see Discovery).
	Capabilities []string
	Queue        string
	Labels       map[string]string
	// Capacity is capacity_items_per_second, meant only when HasCapacity: 0 says that
	// it is not known. Pending is pending_items, meant only when HasPending.
	Capacity                float64
	Pending                 int
	HasCapacity, HasPending bool
	// Relayed: a coordinator published it for the agent, which reported it over HTTP. It
	// speaks for capacity and pending items, and shows that the agent is alive; the
	// rest is taken from the agent's own reports where there are any.
	Relayed bool
	// Instance names the process that reports; empty: it does not say.
	Instance string
	// Timestamp is the agent's own clock.
	Timestamp time.Time
	// UserID is the broker-validated name of the connection's user; empty when
	// the publisher did not set it.
	UserID string
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
