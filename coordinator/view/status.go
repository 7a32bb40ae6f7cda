package view

import (
	"taskbus/coordinator"
	"time"
)

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
	Rates    Rates    `json:"rates"`
	Audit    Audit    `json:"audit"`
	// UnknownFields are fields of messages that no schema has, the first 20 since the process started, each once for
	// each producer; taskbus_unknown_fields_total counts the messages.
	UnknownFields []UnknownField `json:"unknown_fields,omitempty"`
	// Leader is the leader, as far as this coordinator knows; nil: it does not.
	Leader *Leader `json:"leader,omitempty"`
	// Journal is nil without a journal, or while it is not read.
	Journal *Journal `json:"journal,omitempty"`
}

// UnknownField is a field of a message that its schema does not have.
type UnknownField struct {
	MessageType string `json:"message_type"`
	Field       string `json:"field"`
	// DidYouMean asks for the field that was meant, if one comes near.
	DidYouMean string `json:"did_you_mean,omitempty"`
	// Producer is what is known of the sender: an agent's id, a user, a program's name, or a queue for
	// answers.
	Producer string `json:"producer,omitempty"`
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

// Rates are how many tasks in a second, on average over the last minute.
type Rates struct {
	// Received came out of task.assign and task.assign.high, Assigned went to agents.
	Received float64 `json:"received_per_second"`
	Assigned float64 `json:"assigned_per_second"`
	// Succeeded ended well at agents. Failed were not assigned, or failed at agents or were not done there
	// in time.
	Succeeded float64 `json:"succeeded_per_second"`
	Failed    float64 `json:"failed_per_second"`
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
	// Lost: a coordinator has found it empty, although there had been one.
	Lost *JournalLost `json:"lost,omitempty"`
}

// JournalLost says that a coordinator began to lead with an empty journal, although there had been one. It
// stands until it is acknowledged, whichever coordinator leads.
type JournalLost struct {
	At time.Time `json:"at"`
	// Evidence is by what it is known that there had been one, BeginsAnew what only the journal knew.
	Evidence   []string `json:"evidence"`
	BeginsAnew []string `json:"begins_anew"`
	// Budgets says what has become of what was used of them; BudgetsRestored: it was taken back from the history of
	// usage.
	Budgets         string `json:"budgets"`
	BudgetsRestored bool   `json:"budgets_restored"`
}

// LossAcknowledged is the answer of POST /journal/acknowledge.
type LossAcknowledged struct {
	Acknowledged bool `json:"acknowledged"`
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
	Invariant string    `json:"invariant"` // see docs/reference/metrics.md
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
	Path string `json:"path"`
	// Version of agents.yaml and quotas.yaml together, as `taskbus check` and `taskbus doctor` show it.
	// Changes made over HTTP do not count.
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
	ID           string   `json:"id"`
	Queue        string   `json:"queue"`
	Capabilities []string `json:"capabilities"`
	Rank         int      `json:"rank"`
	State        string   `json:"state"`  // never_seen, online, offline, stale, gone
	Status       string   `json:"status"` // what it reported: ready, busy, offline, unknown
	Load         float64  `json:"load"`
	ReportedLoad float64  `json:"reported_load"`
	InFlight     int      `json:"in_flight"`
	Uncovered    int      `json:"uncovered"`
	FreeSlots    int      `json:"free_slots"`
	// how many tasks it may have now: fewer than MaxConcurrent if it says so, or is new
	Slots         int       `json:"slots"`
	MaxConcurrent int       `json:"max_concurrent_tasks"` // by agents.yaml, or as it joined
	Assigned      uint64    `json:"assigned"`
	LastHeartbeat time.Time `json:"last_heartbeat,omitzero"`
	HealthCheck   float64   `json:"health_check_interval_seconds"`
	Eligible      bool      `json:"eligible"`
	// WhyNot is the code of coordinator.Ineligibility, or no_session; empty when eligible.
	WhyNot string `json:"why_not,omitempty"`
	// Leased dispatches: with the agent and not known to have ended.
	Leased int `json:"leased"`
	// Strays are the slots that it has reported as taken for a minute or longer, by no dispatch that it has.
	Strays int `json:"strays,omitempty"`
	// Cordoned: no new work. Draining: and what waits in its queue goes elsewhere.
	// Drained: nothing is left with it; it may be stopped.
	Cordoned bool `json:"cordoned,omitempty"`
	Draining bool `json:"draining,omitempty"`
	Drained  bool `json:"drained,omitempty"`
	// Discovered: it announced itself; agents.yaml does not list it.
	Discovered bool `json:"discovered,omitempty"`
	// Instances is how many processes report under its id, where it is more than one: a fault.
	Instances int `json:"instances,omitempty"`
	// Ejected are the capabilities for which it gets no work, because it failed too often with them.
	Ejected []Ejection `json:"ejected,omitempty"`
	// Recent is how its tasks ended in the last ten minutes.
	Recent AgentResults `json:"recent"`
}

// Ejection is a capability for which an agent gets no work for a while.
type Ejection struct {
	// Capability; empty: tasks that require none.
	Capability string `json:"capability"`
	// Until when; absent: it is being tried again with one task.
	Until time.Time `json:"until,omitzero"`
}

// AgentResults is how tasks of an agent ended.
type AgentResults struct {
	Succeeded int `json:"succeeded"`
	Failed    int `json:"failed"`
	// Overdue: it has not told in time how they ended.
	Overdue int `json:"overdue"`
}

// Ended counts all of them.
func (r AgentResults) Ended() int { return r.Succeeded + r.Failed + r.Overdue }

// Failing reports whether so much of an agent's work fails that it needs a look: at least three tasks, and
// as many as succeed.
func (r AgentResults) Failing() bool {
	bad := r.Failed + r.Overdue
	return bad >= 3 && bad >= r.Succeeded
}

// Online reports whether the agent is there to be given work.
func (g *Agent) Online() bool { return g.State == coordinator.AgentOnline.String() }

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
	// DrainSeconds is after how long what waits here, in task.assign and in lanes is assigned, if it goes on as
	// since they wait; absent: nothing was assigned since. Tasks that no agent is there for do not count.
	DrainSeconds float64 `json:"drain_seconds,omitempty"`
	// Waits are the kinds of tasks that wait for an agent, those with most tasks first, at most 8.
	Waits []Wait `json:"waits,omitempty"`
}

// Wait is what keeps tasks waiting that the same agents could take.
type Wait struct {
	// Required capabilities of these tasks.
	Required      []string `json:"required_capabilities"`
	Tasks         int      `json:"tasks"`
	OldestSeconds float64  `json:"oldest_seconds"`
	// ReasonCode and Reason are what they would fail with now.
	ReasonCode string `json:"reason_code"`
	Reason     string `json:"reason"`
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
	Parked           uint64            `json:"parked"`    // unreadable, in task.dead, without a producer to inform
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
	// wrong_sender). LateResults are those that counted although the task had been given to another agent.
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
