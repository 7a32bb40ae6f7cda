package coordinator

import "time"

// Snapshot is the engine's state as people and metrics see it. It shares
// nothing with the engine.
type Snapshot struct {
	PolicyVersion string
	Agents        []AgentSnapshot // sorted by ID
	// Pending counts the tasks that wait, by priority.
	Pending [4]int
	// PendingReasons counts them by the reason they would fail with now; where
	// very many different things are asked for, the rest stands under ReasonNone.
	PendingReasons map[Reason]int
	// Delayed tasks came back and wait to be tried again; they are among Pending.
	Delayed int
	// Dispatching tasks are published and not yet confirmed.
	Dispatching int
	// Leased tasks are with their agents: dispatched, not known to have ended.
	Leased int
	// OldestPending is the age of the task waiting longest; 0 when none waits.
	OldestPending time.Duration
	// Remembered is how many task ids the duplicate check knows.
	Remembered int
	// InGrace: agents that have not reported yet are still being waited for.
	InGrace bool
}

// AgentSnapshot is one agent as the engine sees it.
type AgentSnapshot struct {
	Spec          AgentSpec
	State         AgentState
	Status        AgentStatus
	Load          float64
	ReportedLoad  float64
	InFlight      int
	Uncovered     int // own dispatches that no report speaks for yet
	Free          int
	LastHeartbeat time.Time // zero: never
	Assigned      uint64    // dispatches confirmed since the engine started
	// Leased dispatches: with the agent, not known to have ended.
	Leased int
	// Cordoned by an operator; Draining: and its waiting work goes elsewhere;
	// Drained: there is none left with it.
	Cordoned, Draining, Drained bool
	// Discovered: it announced itself; agents.yaml does not list it.
	Discovered bool
	// Eligibility is Eligible, or why no task could go there now.
	Eligibility Ineligibility
}

// QueueWatch names an agent's queue that wants a look (see QueueSeen).
type QueueWatch struct {
	Agent AgentID
	Queue string
}
