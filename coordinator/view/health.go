package view

import (
	"encoding/json"
	"time"

	"taskbus/coordinator"
)

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
	Priority int `json:"priority"`
	coordinator.Carried
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
	// Output is what its agent has found out, as long as the leader keeps it, OutputRef where that is; only of a
	// task that was asked for by its id, with the producers' token or the admin token.
	Output    json.RawMessage `json:"output,omitempty"`
	OutputRef *OutputRef      `json:"output_ref,omitempty"`
}
