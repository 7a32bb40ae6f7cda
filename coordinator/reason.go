package coordinator

// Reason is why a task was refused: a closed set. It is the reason_code of
// assignment.failed.
type Reason uint8

// The reason codes. ReasonNone means "not refused".
const (
	ReasonNone Reason = iota
	ReasonInvalidMessage
	ReasonUnknownTaskType
	ReasonNoEligibleAgents
	ReasonNoAgentsOnline
	ReasonAllAgentsAtCapacity
	ReasonQuotaExhausted
	ReasonDeadlineExceeded
	ReasonTaskTimeout
	ReasonRetriesExhausted
	ReasonPoisoned
	ReasonAgentQueueMissing
	ReasonBacklogFull
	ReasonDuplicateTask
	ReasonCancelled
	ReasonNotClaimed
	ReasonExceedsQuota
	numReasons
)

// reasonInfo is what a producer is told about a reason.
type reasonInfo struct {
	code   string
	retry  bool
	action string
}

var reasons = [numReasons]reasonInfo{
	ReasonNone:                {"", false, ""},
	ReasonInvalidMessage:      {"invalid_message", false, "correct the message as the reason says and publish it again; the original is kept in task.dead"},
	ReasonUnknownTaskType:     {"unknown_task_type", false, "add the task type to task_routing in agents.yaml, or send required_capabilities with the task"},
	ReasonNoEligibleAgents:    {"no_eligible_agents", false, "add an agent with the missing capabilities to agents.yaml, or ask for fewer; where agents are without a score, correct the formula or the labels that it reads"},
	ReasonNoAgentsOnline:      {"no_agents_online", true, "start the agents or check their heartbeats on agent.status, then publish the task again"},
	ReasonAllAgentsAtCapacity: {"all_agents_at_capacity", true, "publish the task again later, or add agents or slots"},
	ReasonQuotaExhausted:      {"quota_exhausted", true, "publish the task again when the quota is back, or raise it"},
	ReasonDeadlineExceeded:    {"deadline_exceeded", true, "publish the task again with a later deadline if it is still wanted"},
	ReasonTaskTimeout:         {"task_timeout", true, "check the agent's log under the trace id; raise timeout_seconds if the work takes longer"},
	ReasonRetriesExhausted:    {"retries_exhausted", true, "look up under the trace id why its agents gave it back, then publish it again"},
	ReasonPoisoned:            {"poisoned", false, "the task fails on every agent: see it with `taskbus dead show`, and when its cause is mended send it with `taskbus dead resend`"},
	ReasonAgentQueueMissing:   {"agent_queue_missing", true, "declare the agents' queues again (`taskbus topology apply` or topology: declare), then publish the task again"},
	ReasonBacklogFull:         {"backlog_full", true, "publish more slowly or later; max_queue_size in agents.yaml bounds what may wait"},
	ReasonDuplicateTask:       {"duplicate_task", false, "use a new task_id for different work; the first task of this id goes on unharmed"},
	ReasonCancelled:           {"cancelled", false, "nothing: the task was withdrawn"},
	ReasonNotClaimed:          {"not_claimed", true, "see whether the agents that pull such tasks run and claim (`taskbus_claims_total`); then publish the task again"},
	ReasonExceedsQuota:        {"exceeds_quota", false, "ask for less with one task, or raise the limit that the reason names in quotas.yaml"},
}

// String is the code as it stands in reason_code.
func (r Reason) String() string { return reasons[r].code }

// RetryPossible tells a producer whether the same task may succeed later.
func (r Reason) RetryPossible() bool { return reasons[r].retry }

// SuggestedAction is what a person should do about it.
func (r Reason) SuggestedAction() string { return reasons[r].action }

// Reasons lists every reason code, for metrics and documentation.
func Reasons() []Reason {
	all := make([]Reason, 0, numReasons-1)
	for r := ReasonNone + 1; r < numReasons; r++ {
		all = append(all, r)
	}
	return all
}
