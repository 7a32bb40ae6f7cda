package httpapi

import (
	"context"
	"errors"
	"time"

	"taskbus/coordinator"
)

// Source is what the HTTP interface asks of the running service. Every method is
// safe for concurrent use and answers at once, or when ctx ends.
type Source interface {
	// Health judges the whole; it never waits for the broker.
	Health(ctx context.Context) Health
	// Ready reports whether tasks are being taken right now, and if not why.
	Ready(ctx context.Context) Readiness
	// Status is everything an operator asks first.
	Status(ctx context.Context) (Status, error)
	// Task is what is remembered of a recent task; false when it is not (any more).
	Task(ctx context.Context, id string) (Task, bool)
	// Tasks lists recent tasks, the newest first, at most limit of them.
	Tasks(ctx context.Context, filter TaskFilter) []Task

	// Explain says why a task was decided as it was, and how it would be decided
	// now; false when it is not remembered (any more).
	Explain(ctx context.Context, id string) (TaskExplanation, bool)
	// WhatIf says how a task would be decided now, without giving it to an agent and without keeping
	// anything of it. body is a task.assign, whose message_type, task_id and payload may be missing.
	// *BadTask when it is not valid.
	WhatIf(ctx context.Context, body []byte) (Prospect, error)
	// AgentStats is what BALANCING's registry and ADR-018's swarm know of the fleet.
	AgentStats(ctx context.Context) (AgentStats, error)
	// Capabilities is demand and supply of every capability, sorted by name.
	Capabilities(ctx context.Context) ([]Capability, error)

	// Quotas is what is used of the LLM quotas, as far as it was asked for: ErrNoQuotas
	// where there are none.
	Quotas(ctx context.Context, of QuotaSelection) (Quotas, error)
	// ExplainQuota says whether there is quota for something now. ErrNoQuotas likewise.
	ExplainQuota(ctx context.Context, q QuotaQuestion) (QuotaAnswer, error)

	// AskCalls has the leader's engine answer what is asked about calls that no task stands for, and gives
	// its answers in their order, once what they follow from is in the journal. gateway.ErrCallsBusy when
	// too many wait already; after any other error it may have been done, and may be asked again.
	AskCalls(ctx context.Context, calls []coordinator.Call) ([]coordinator.CallAnswer, error)

	// AskLeader is AskCalls of the one that leads: it is not forwarded, and fails on one that
	// stands by.
	AskLeader(ctx context.Context, calls []coordinator.Call) ([]coordinator.CallAnswer, error)
	// QuotaControls lists the standing changes to quotas.yaml.
	QuotaControls(ctx context.Context) (QuotaControls, error)
	// ControlQuota sets or boosts settings of a node, or corrects what was used, all of them or none:
	// *BadControl if the quotas would not be in order with them. Like all changes to quotas it has happened, and
	// will survive, when it returns: what waits has been served under the new quotas.
	ControlQuota(ctx context.Context, q QuotaChange) (QuotaChanged, error)
	// UncontrolQuota ends a standing change; ErrNoControl.
	UncontrolQuota(ctx context.Context, id string) (QuotaChanged, error)
	// RegisterQuota registers a group or agent beside those of quotas.yaml, or changes the entry
	// of one that has been; *BadControl. UnregisterQuota ends that, and all standing changes of its nodes:
	// ErrOfFile if quotas.yaml lists it, ErrNoControl if it is not registered.
	RegisterQuota(ctx context.Context, q QuotaEntry) (QuotaChanged, error)
	UnregisterQuota(ctx context.Context, agent bool, id string) (QuotaChanged, error)

	// ReportCapacity publishes what an agent says of its capacity to every
	// coordinator; nil when the broker has it. ErrNoAgent when the agent is not
	// known, *TooSoon when it has just reported. Any other error means that it may
	// not have been published.
	ReportCapacity(ctx context.Context, agent string, report CapacityReport) error
	// Cancel withdraws a task, whatever its state, and waits a moment for an agent
	// that has it to report what became of it. An error means that nothing was done.
	Cancel(ctx context.Context, id, reason string) (Cancellation, error)
	// DeadLetters lists what is in task.dead; DeadLetter gives one message, with its body if that is asked
	// for; false when it is not there. Both take the messages in hand for a moment and give them back.
	DeadLetters(ctx context.Context, filter DeadFilter) (DeadList, error)
	DeadLetter(ctx context.Context, key string, body bool) (DeadMessage, bool, error)
	// ResendDead publishes messages of task.dead anew and takes them out of it once the broker has confirmed
	// that; DropDead takes them out. After an error some may have been done; it may be tried again.
	ResendDead(ctx context.Context, keys []string) (DeadDone, error)
	DropDead(ctx context.Context, keys []string) (DeadDone, error)
	// Order cordons, drains or uncordons an agent and returns it as it then is;
	// ErrNoAgent when it is not known. Any other error means that nothing was done.
	Order(ctx context.Context, agent string, order coordinator.Order) (Agent, error)
	// AcknowledgeLoss ends that coordinators report the loss of the journal; ErrNothingLost when they
	// do not. Any other error means that it may not have been done.
	AcknowledgeLoss(ctx context.Context) error
}

// ErrNothingLost says that no loss of the journal is reported.
var ErrNothingLost = errors.New("no loss of the journal is reported")

// ErrNoAgent says that no agent of this id is known.
var ErrNoAgent = errors.New("no such agent")

// The states of Cancellation.
const (
	// Cancelled: no agent had it and none will get it, or the one that had it reports
	// it as cancelled (a handler that does not return may go on all the same); its
	// outcome is `cancelled`.
	Cancelled = "cancelled"
	// CancelRequested: an agent has it and may still do it: it has not reported yet,
	// or it cannot be told because it has no control queue.
	CancelRequested = "cancel_requested"
	// CancelNoted: the task is not known; should it come, it will not be assigned.
	CancelNoted = "noted"
	// CancelTooLate: it has ended already.
	CancelTooLate = "too_late"
)

// Cancellation is the answer to a cancel.
type Cancellation struct {
	TaskID string `json:"task_id"`
	State  string `json:"state"` // cancelled, cancel_requested, noted, too_late
	Agent  string `json:"agent_id,omitempty"`
	// Outcome of a task that had ended already or has ended meanwhile, when it is
	// remembered: succeeded, failed, cancelled.
	Outcome string `json:"outcome,omitempty"`
	// Detail is one sentence for people.
	Detail string `json:"detail"`
}

// The words of Health.Status, as COORDINATOR defines them.
const (
	Healthy  = "healthy"  // all agents online, assignments succeeding
	Degraded = "degraded" // some agents offline, or assignments delayed
	Critical = "critical" // no eligible agent at all, or assignments failing
)

// Health is the answer of /health.
type Health struct {
	Status string           `json:"status"`
	Checks map[string]Check `json:"checks"`
}

// Check is one of the reasons behind the word.
type Check struct {
	Status string `json:"status"`
	Detail string `json:"detail"`
	// Advice is what to do about it; absent when there is nothing to be done.
	Advice string `json:"advice,omitempty"`
}

// Readiness is the answer of /readyz.
type Readiness struct {
	Ready bool `json:"ready"`
	// State is "active", "standby", "connecting", "blocked", "stalled", "draining" or "stopped".
	State  string `json:"state"`
	Detail string `json:"detail,omitempty"`
}

// TaskFilter narrows Tasks. Empty fields match everything.
type TaskFilter struct {
	State string // one of TaskStates
	Agent string
	Limit int // 0 means 50
}

// Task is what is remembered of one recent task.
type Task struct {
	ID   string `json:"task_id"`
	Type string `json:"task_type"`
	// Priority is -1 of a message that was refused and does not say one that there is.
	Priority   int       `json:"priority"`
	TraceID    string    `json:"correlation_id"`
	State      string    `json:"state"`
	Agent      string    `json:"agent_id,omitempty"`
	Strategy   string    `json:"strategy,omitempty"`
	DispatchID string    `json:"dispatch_id,omitempty"`
	Attempt    int       `json:"attempt,omitempty"`
	AcceptedAt time.Time `json:"accepted_at,omitzero"` // not of a message that was refused unread: see DecidedAt
	DecidedAt  time.Time `json:"decided_at,omitzero"`
	// DurationMS is for how long it has waited to be given to an agent, over all attempts and without the
	// work between them: until the confirmed dispatch, or the failure; of one that waits, until now.
	DurationMS float64 `json:"duration_ms,omitempty"`
	// CompletedAt is when its result was accepted; WorkMS and Error are the agent's
	// own words.
	CompletedAt time.Time `json:"completed_at,omitzero"`
	WorkMS      float64   `json:"work_ms,omitempty"`
	Error       string    `json:"error,omitempty"`
	// ReasonCode and Reason of a failure. Of a task that waits, Reason says for what: why no agent can
	// take it now, or that it waits to be tried again, for its batch, for quota, or in a lane.
	ReasonCode string `json:"reason_code,omitempty"`
	Reason     string `json:"reason,omitempty"`
	// RetryAt is from when on a task that failed may succeed, as far as is known.
	RetryAt time.Time `json:"retry_at,omitzero"`
	// Explanation of the latest decision, or of what keeps it waiting.
	Explanation *Explanation `json:"explanation,omitempty"`
	// Queued is where it stands while it waits for an agent or quota; only of a task that
	// was asked for by its id.
	Queued *Queued `json:"queued,omitempty"`
}
