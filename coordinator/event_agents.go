package coordinator

// What is made of the reports of agents.

// StatusRefusal is why a heartbeat changed nothing.
type StatusRefusal uint8

// The refusals of AgentReported.
const (
	StatusUnknownAgent StatusRefusal = iota
	StatusOutOfOrder
	StatusNotAdmitted // it would join, but Discovery does not admit what it announces
	NumStatusRefusals = iota
)

// String is the label used in metrics.
func (r StatusRefusal) String() string {
	return [NumStatusRefusals]string{"unknown_agent", "out_of_order", "not_admitted"}[r]
}

// AgentState is whether an agent is there, as the engine sees it.
type AgentState uint8

// The states of an agent.
const (
	AgentNeverSeen AgentState = iota // no report yet
	AgentOnline
	AgentOffline // it said so
	AgentStale   // silent for longer than StaleAfter
	AgentGone    // its consumer has left its queue
)

// String is the word shown in /status.
func (s AgentState) String() string {
	return [...]string{"never_seen", "online", "offline", "stale", "gone"}[s]
}
