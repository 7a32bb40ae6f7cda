package view

import "time"

// AgentStats is the answer of /agents/stats. It counts the agents online; of the
// others there is an entry, and they are counted under Swarm.Offline.
type AgentStats struct {
	Agents []AgentInfo `json:"agents"` // sorted by id
	// ActiveAgentCount is how many agents are online.
	ActiveAgentCount int `json:"active_agent_count"`
	// TotalCapacity is the sum of the capacities of the agents online, in items a
	// second.
	TotalCapacity float64 `json:"total_capacity"`
	// GlobalQueueDepth is the sum of QueueDepth.
	GlobalQueueDepth int        `json:"global_queue_depth"`
	QueueDepth       QueueDepth `json:"queue_depth"`
	Swarm            Swarm      `json:"swarm"`
}

// QueueDepth says where the work is that is not finished.
type QueueDepth struct {
	// Agents: pending items of all agents online.
	Agents int `json:"agents"`
	// Waiting: tasks that Taskbus holds because no agent can take them now.
	Waiting int `json:"waiting"`
	// Unread: tasks ready in task.assign, task.assign.high and lanes, as the broker
	// said a few seconds ago.
	Unread int `json:"unread"`
}

// FailingHealth is the health of an agent that does not do what it is given, however little work it has before it.
const FailingHealth = "FAILING"

// AgentInfo is one agent: BALANCING's fields, then what Taskbus itself knows.
type AgentInfo struct {
	ID string `json:"agent_id"`
	// Capacity in items a second: reported by the agent (CapacityReported), else
	// measured from its results. WarmUp: measured from fewer than 60 of them.
	Capacity         float64 `json:"capacity_items_per_second"`
	CapacityReported bool    `json:"capacity_reported"`
	CapacityMeasured float64 `json:"capacity_measured"`
	WarmUp           bool    `json:"warm_up"`
	// Pending items: reported, or what it has in hand.
	Pending int `json:"pending_items"`
	// Health is HEALTHY, BUSY (from 30 s of pending work on) or OVERLOADED (60 s); FAILING of one that
	// is ejected, or fails more than half of its tasks; absent while it is not online: it is not known
	// then.
	Health       string    `json:"health,omitempty"`
	DrainSeconds float64   `json:"drain_time_seconds"`
	LastReported time.Time `json:"last_reported_at,omitzero"`
	Capabilities []string  `json:"capabilities"`

	State    string  `json:"state"` // never_seen, online, offline, stale, gone
	Load     float64 `json:"load"`
	InFlight int     `json:"in_flight"`
	Slots    int     `json:"slots"`
	// SuccessRate, 0 to 1, is the mean, over the types of its tasks, of the rates by
	// which it is chosen; Outcomes how many results that is founded on, older ones
	// counting less.
	SuccessRate float64 `json:"success_rate"`
	Outcomes    float64 `json:"outcomes"`
	// DurationMS is the mean of its tasks' durations; 0 when not known.
	DurationMS float64 `json:"average_duration_ms"`
	// LoadFactor is its share of the global queue depth, TargetLoadFactor its share
	// of the total capacity, each 0 to 1: with more of the former than of the latter
	// it has too much. Both are 0 while it is not online.
	LoadFactor       float64 `json:"load_factor"`
	TargetLoadFactor float64 `json:"target_load_factor"`
	// EjectedFrom are the capabilities for which it gets no work at the moment,
	// because it failed too often with them.
	EjectedFrom []string `json:"ejected_from,omitempty"`
}

// Swarm are ADR-018's metrics of the whole. An agent is one of idle, busy and
// offline. The averages are over the agents online; 0 when there is none.
type Swarm struct {
	Total int `json:"total"`
	// Idle and Busy agents are online, without and with tasks; all others are
	// Offline, whatever they had.
	Idle     int `json:"idle"`
	Busy     int `json:"busy"`
	Offline  int `json:"offline"`
	InFlight int `json:"in_flight"`
	// AverageSuccessRate and AverageLoad, 0 to 1.
	AverageSuccessRate float64 `json:"average_success_rate"`
	AverageLoad        float64 `json:"average_load"`
	// AverageLatencyMS is over those whose tasks' durations are known.
	AverageLatencyMS float64 `json:"average_latency_ms"`
	// Bottlenecks are at most 10, worst first: those that fail, then by drain time, load and id.
	Bottlenecks []Bottleneck `json:"bottlenecks"`
}

// Bottleneck is an agent online that others wait for.
type Bottleneck struct {
	ID string `json:"agent_id"`
	// Why lists what holds of it: ejected (from a capability), failing (of its own outcomes
	// most are failures), full (no free slot while tasks wait, and no agent fails), overloaded
	// (its health is OVERLOADED), slow (its drain time is a second or more, and above twice the
	// mean of the agents that do not fail).
	Why          []string `json:"why"`
	DrainSeconds float64  `json:"drain_time_seconds"`
	Load         float64  `json:"load"`
}

// Capability is demand and supply of one capability.
type Capability struct {
	Name string `json:"capability"`
	// Agents offer it; Online of them are there. BusFactor of them could be given
	// work: online, steady, not cordoned, not ejected from it. One less may be lost before the capability
	// has no agent left.
	Agents    int `json:"agents"`
	Online    int `json:"online"`
	BusFactor int `json:"bus_factor"`
	// Slots and FreeSlots of those that could be given work.
	Slots     int `json:"slots"`
	FreeSlots int `json:"free_slots"`
	// Waiting tasks require it.
	Waiting int `json:"waiting"`
	// DemandPerMinute is how many tasks that require it come in a minute, an average
	// that forgets half in five minutes.
	DemandPerMinute float64 `json:"demand_per_minute"`
}

// CapabilityList is the answer of /capabilities.
type CapabilityList struct {
	Capabilities []Capability `json:"capabilities"`
}
