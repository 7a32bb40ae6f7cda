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

// reasonInfo is what a producer sees of a reason.
type reasonInfo struct {
	code   string
	retry  bool
	action string // what a person should do
	when   string // when a task fails with it, as Markdown
}

var reasons = [numReasons]reasonInfo{
	ReasonNone: {},
	ReasonInvalidMessage: {
		"invalid_message", false,
		"correct the message as the reason says and publish it again; the original is kept in task.dead",
		"the message is not valid, or names a strategy that is not enabled, a group that quotas.yaml does not " +
			"list, or a timeout beyond the broker's",
	},
	ReasonUnknownTaskType: {
		"unknown_task_type", false,
		"add the task type to task_routing in agents.yaml, or send required_capabilities with the task",
		"the type is not in `task_routing`, and the task has no `required_capabilities`",
	},
	ReasonNoEligibleAgents: {
		"no_eligible_agents", false,
		"add an agent with the missing capabilities to agents.yaml, or ask for fewer; where agents are without a " +
			"score, correct the formula or the labels that it reads",
		"no agent of the fleet, online or not, has the capabilities and is not excluded, and none that may join " +
			"has them; or the strategy gives none of them a score",
	},
	ReasonNoAgentsOnline: {
		"no_agents_online", true,
		"start the agents or check their heartbeats on agent.status, then publish the task again",
		"the agents that have the capabilities are silent, offline or never seen, or may join and have not",
	},
	ReasonAllAgentsAtCapacity: {
		"all_agents_at_capacity", true,
		"publish the task again later, or add agents or slots",
		"the agents that have the capabilities and are online have no slot",
	},
	ReasonQuotaExhausted: {
		"quota_exhausted", true,
		"publish the task again when the quota is back, or raise it",
		"its group, or the pool or provider that it uses, has no quota left; `retry_at` says when it is back",
	},
	ReasonDeadlineExceeded: {
		"deadline_exceeded", true,
		"publish the task again with a later deadline if it is still wanted",
		"its deadline passed before an agent could be found",
	},
	ReasonTaskTimeout: {
		"task_timeout", true,
		"check the agent's log under the trace id; raise timeout_seconds if the work takes longer",
		"an agent had it, and no result came within its lease",
	},
	ReasonRetriesExhausted: {
		"retries_exhausted", true,
		"look up under the trace id why its agents gave it back, then publish it again",
		"`max_retry_attempts` dispatches came back; `reason` says how the last one did, with at most 256 bytes " +
			"of the agent's own words",
	},
	ReasonPoisoned: {
		"poisoned", false,
		"the task fails on every agent: see it with `taskbus dead show`, and when its cause is mended send it " +
			"with `taskbus dead resend`",
		"it failed on `poisoned_after_agents` different agents; the original is in `task.dead`",
	},
	ReasonAgentQueueMissing: {
		"agent_queue_missing", true,
		"declare the agents' queues again (`taskbus topology apply` or topology: declare), then publish the task again",
		"the queues of all agents that could have it are missing",
	},
	ReasonBacklogFull: {
		"backlog_full", true,
		"publish more slowly or later; max_queue_size in agents.yaml bounds what may wait",
		"`max_queue_size` tasks wait already",
	},
	ReasonDuplicateTask: {
		"duplicate_task", false,
		"use a new task_id for different work; the first task of this id goes on unharmed",
		"the task id is known with different content",
	},
	ReasonCancelled: {
		"cancelled", false,
		"nothing: the task was withdrawn",
		"it was withdrawn before an agent had it",
	},
	ReasonNotClaimed: {
		"not_claimed", true,
		"see whether the agents that pull such tasks run and claim (`taskbus_claims_total`); then publish the task again",
		"agents that pull have the capabilities and free slots, and none asked for it or was entitled to more",
	},
	ReasonExceedsQuota: {
		"exceeds_quota", false,
		"ask for less with one task, or raise the limit that the reason names in quotas.yaml",
		"it asks for more at once than a limit of quotas.yaml ever allows; `reason` names the limit",
	},
}

// String is the code as it stands in reason_code.
func (r Reason) String() string { return reasons[r].code }

// RetryPossible tells a producer whether the same task may succeed later.
func (r Reason) RetryPossible() bool { return reasons[r].retry }

// SuggestedAction is what a person should do about it.
func (r Reason) SuggestedAction() string { return reasons[r].action }

// Meaning says when a task fails with this reason, for the documentation.
func (r Reason) Meaning() string { return reasons[r].when }

// Reasons lists every reason code, for metrics and documentation.
func Reasons() []Reason {
	all := make([]Reason, 0, numReasons-1)
	for r := ReasonNone + 1; r < numReasons; r++ {
		all = append(all, r)
	}
	return all
}
