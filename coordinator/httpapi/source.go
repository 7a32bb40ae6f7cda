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
	// Ready tells whether tasks are being taken right now, and if not why.
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
	// WhatIf says how a task would be decided now, without giving it to anybody and
	// without keeping anything of it. body is a task.assign, whose message_type may
	// be missing. *BadTask when it is not valid.
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

	// ReportCapacity publishes what an agent says of its capacity to every
	// coordinator; nil when the broker has it. ErrNoAgent when the agent is not
	// known, *TooSoon when it has just reported. Any other error means that it may
	// not have been published.
	ReportCapacity(ctx context.Context, agent string, report CapacityReport) error
	// Cancel withdraws a task, whatever its state, and waits a moment for an agent
	// that has it to report what became of it. An error means that nothing was done.
	Cancel(ctx context.Context, id, reason string) (Cancellation, error)
	// Order cordons, drains or uncordons an agent and returns it as it then is;
	// ErrNoAgent when it is not known. Any other error means that nothing was done.
	Order(ctx context.Context, agent string, order coordinator.Order) (Agent, error)
}

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
}

// Readiness is the answer of /readyz.
type Readiness struct {
	Ready bool `json:"ready"`
	// State is "active", "standby", "connecting", "blocked", "draining" or "stopped".
	State  string `json:"state"`
	Detail string `json:"detail,omitempty"`
}

// Status is the answer of /status.
type Status struct {
	Version   string    `json:"version"`
	Instance  string    `json:"instance"`
	StartedAt time.Time `json:"started_at"`
	Now       time.Time `json:"now"`
	Health    Health    `json:"health"`
	Readiness Readiness `json:"readiness"`
	Broker    Broker    `json:"broker"`
	Config    Config    `json:"config"`
	Agents    []Agent   `json:"agents"`
	Pending   Pending   `json:"pending"`
	Queues    []Queue   `json:"queues"`
	// Lanes that may hold something, those with most first, at most 100.
	Lanes    []Lane   `json:"lanes"`
	Counters Counters `json:"counters"`
	Audit    Audit    `json:"audit"`
	// Leader is who leads, as far as this coordinator knows; nil: it does not.
	Leader *Leader `json:"leader,omitempty"`
	// Journal is nil without a journal, or while it is not read.
	Journal *Journal `json:"journal,omitempty"`
}

// Leader is the coordinator that leads.
type Leader struct {
	Instance string `json:"instance"`
	// Address of its HTTP server; Version of its program.
	Address string `json:"address,omitempty"`
	Version string `json:"version,omitempty"`
	// Epoch counts the leaders.
	Epoch uint64    `json:"epoch"`
	Since time.Time `json:"since,omitzero"`
}

// Journal is how far the journal has been written, or folded by one that stands by.
type Journal struct {
	// Records so far, over all leaders.
	Records uint64 `json:"records"`
	// SnapshotOffset is where the newest complete snapshot begins in the stream, -1
	// when there is none; ResultOffset where reading task.result would go on.
	SnapshotOffset int64 `json:"snapshot_offset"`
	ResultOffset   int64 `json:"result_offset"`
	// LastRecord is when the latest was folded from; zero for the leader.
	LastRecord time.Time `json:"last_record,omitzero"`
}

// Audit is what has come of looking whether the coordinator's books balance. A
// violation is a fault of the program.
type Audit struct {
	Runs    uint64    `json:"runs"`
	LastRun time.Time `json:"last_run,omitzero"`
	// Violations counts cases, each again with every run that finds it.
	Violations uint64 `json:"violations"`
	// Found by the latest run that found any.
	Found []Violation `json:"found,omitempty"`
}

// Violation is an invariant that did not hold.
type Violation struct {
	Invariant string    `json:"invariant"` // see docs/operations.md
	Text      string    `json:"text"`
	IDs       []string  `json:"ids,omitempty"` // of tasks or agents, at most 8
	Count     int       `json:"count"`
	At        time.Time `json:"at"`
}

// Broker is the state of the connection.
type Broker struct {
	// URL without user name and password.
	URL         string    `json:"url"`
	Connected   bool      `json:"connected"`
	Since       time.Time `json:"since,omitzero"`
	Sessions    uint64    `json:"sessions"`
	Blocked     bool      `json:"blocked"`
	BlockReason string    `json:"block_reason,omitempty"`
	LastError   string    `json:"last_error,omitempty"`
	// Topology is the mode, Profile the queue profile.
	Topology string `json:"topology"`
	Profile  string `json:"profile"`
	// Findings are queues that were found otherwise than wanted.
	Findings []Finding `json:"findings,omitempty"`
}

// Finding is one object of the broker that is used as it was found.
type Finding struct {
	Object string `json:"object"`
	Text   string `json:"text"`
}

// Config tells which configuration is in force.
type Config struct {
	Path     string    `json:"path"`
	Version  string    `json:"version"`
	Strategy string    `json:"strategy"`
	LoadedAt time.Time `json:"loaded_at"`
	// LastReloadOK is false while the file on disk is broken; the configuration in
	// force is then the one before, and LastReloadError says what is wrong.
	LastReloadOK    bool   `json:"last_reload_ok"`
	LastReloadError string `json:"last_reload_error,omitempty"`
}

// Agent is one agent of the fleet.
type Agent struct {
	ID            string    `json:"id"`
	Queue         string    `json:"queue"`
	Capabilities  []string  `json:"capabilities"`
	Rank          int       `json:"rank"`
	State         string    `json:"state"`  // never_seen, online, offline, stale, gone
	Status        string    `json:"status"` // what it reported: ready, busy, offline, unknown
	Load          float64   `json:"load"`
	ReportedLoad  float64   `json:"reported_load"`
	InFlight      int       `json:"in_flight"`
	Uncovered     int       `json:"uncovered"`
	FreeSlots     int       `json:"free_slots"`
	MaxConcurrent int       `json:"max_concurrent_tasks"`
	Assigned      uint64    `json:"assigned"`
	LastHeartbeat time.Time `json:"last_heartbeat,omitzero"`
	HealthCheck   float64   `json:"health_check_interval_seconds"`
	Eligible      bool      `json:"eligible"`
	// WhyNot is the code of coordinator.Ineligibility, empty when eligible.
	WhyNot string `json:"why_not,omitempty"`
	// Leased dispatches: with the agent and not known to have ended.
	Leased int `json:"leased"`
	// Cordoned: no new work. Draining: and what waits in its queue goes elsewhere.
	// Drained: nothing is left with it; it may be stopped.
	Cordoned bool `json:"cordoned,omitempty"`
	Draining bool `json:"draining,omitempty"`
	Drained  bool `json:"drained,omitempty"`
	// Discovered: it announced itself; agents.yaml does not list it.
	Discovered bool `json:"discovered,omitempty"`
}

// Pending counts what waits for a slot.
type Pending struct {
	Total         int            `json:"total"`
	ByPriority    map[string]int `json:"by_priority"`
	ByReason      map[string]int `json:"by_reason"`
	Gathering     int            `json:"gathering"` // wait for others to share a batch with; among Total
	Bidding       int            `json:"bidding"`   // are being offered to agents; among Total
	Moving        int            `json:"moving"`    // are on their way into lanes; not among Total
	Dispatching   int            `json:"dispatching"`
	Leased        int            `json:"leased"` // with their agents
	OldestSeconds float64        `json:"oldest_seconds"`
}

// Lane is a queue of tasks that wait beside the window.
type Lane struct {
	Name string `json:"name"`
	// Ready tasks in it, Waiting here, of those that would go there, Moving on their way.
	Ready   int `json:"ready"`
	Waiting int `json:"waiting"`
	Moving  int `json:"moving"`
	// Read: tasks are being taken out of it. Orphan: the configuration no longer has it; its
	// queue is deleted when it is empty.
	Read   bool `json:"read"`
	Orphan bool `json:"orphan"`
}

// Queue is a depth read from the broker; Error says why it could not be read.
type Queue struct {
	Name      string `json:"name"`
	Ready     int    `json:"ready"`
	Consumers int    `json:"consumers"`
	Error     string `json:"error,omitempty"`
}

// Counters count since the process started. At every moment
//
//	received + returned = dispatched + failed + parked + dropped + held + abandoned + moved
type Counters struct {
	Received         uint64            `json:"received"`
	Dispatched       uint64            `json:"dispatched"`
	Failed           uint64            `json:"failed"`
	FailedByReason   map[string]uint64 `json:"failed_by_reason"`
	Invalid          uint64            `json:"invalid"`
	Duplicates       uint64            `json:"duplicates"`
	Returned         uint64            `json:"returned"`
	Parked           uint64            `json:"parked"`    // unreadable, in task.dead, nobody to tell
	Dropped          uint64            `json:"dropped"`   // copies of known tasks, acknowledged
	Abandoned        uint64            `json:"abandoned"` // held when a session ended: the broker has them again
	Moved            uint64            `json:"moved"`     // to lanes, out of which they are received again
	Held             int               `json:"held"`      // taken, and without an outcome yet
	StatusReceived   uint64            `json:"status_received"`
	StatusRefused    map[string]uint64 `json:"status_refused"`
	RememberedIDs    int               `json:"remembered_ids"`
	AverageAssignMS  float64           `json:"average_assignment_ms"`
	StaleAcksIgnored uint64            `json:"stale_acks_ignored"`
	// Results by outcome (succeeded, failed, rejected, cancelled) that counted, and
	// by cause those that did not (unknown, duplicate, late, wrong_agent, invalid,
	// wrong_sender). LateResults are those that counted although the task had been
	// given to somebody else.
	Results        map[string]uint64 `json:"results"`
	ResultsRefused map[string]uint64 `json:"results_refused"`
	LateResults    uint64            `json:"late_results"`
	// TimedOut dispatches had no result in time; they are not among Failed.
	TimedOut uint64 `json:"timed_out"`
	// TakenBack deliveries came out of the queues of agents that are gone or
	// drained; they are among Returned.
	TakenBack uint64 `json:"taken_back"`
	// CancelRequests that were made, by whatever way.
	CancelRequests uint64 `json:"cancel_requests"`
}

// TaskFilter narrows Tasks. Empty fields match everything.
type TaskFilter struct {
	State string // one of TaskStates
	Agent string
	Limit int // 0 means 50
}

// Task is what is remembered of one recent task.
type Task struct {
	ID         string    `json:"task_id"`
	Type       string    `json:"task_type"`
	Priority   int       `json:"priority"`
	TraceID    string    `json:"correlation_id"`
	State      string    `json:"state"`
	Agent      string    `json:"agent_id,omitempty"`
	Strategy   string    `json:"strategy,omitempty"`
	DispatchID string    `json:"dispatch_id,omitempty"`
	Attempt    int       `json:"attempt,omitempty"`
	AcceptedAt time.Time `json:"accepted_at"`
	DecidedAt  time.Time `json:"decided_at,omitzero"`
	// DurationMS is from acceptance to the confirmed outcome.
	DurationMS float64 `json:"duration_ms,omitempty"`
	// CompletedAt is when its result was accepted; WorkMS and Error are the agent's
	// own words.
	CompletedAt time.Time `json:"completed_at,omitzero"`
	WorkMS      float64   `json:"work_ms,omitempty"`
	Error       string    `json:"error,omitempty"`
	// ReasonCode and Reason of a failure. Of a task that waits, Reason says for what
	// if that is no agent: to be tried again, or for its batch.
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
