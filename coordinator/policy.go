package coordinator

import (
	"slices"
	"strconv"
	"strings"
	"time"
)

// Policy is one complete, validated configuration, as the engine needs it. A
// decision uses exactly one Policy. It is immutable.
type Policy struct {
	// Version names the configuration in /status and logs (a short content hash).
	Version string `rec:"1"`
	// Source is the text it can be read from again, without comments and without
	// secrets; empty where there is none. Nothing is decided by it: it is for recordings.
	Source string `rec:"2"`
	// Agents, sorted by ID.
	Agents []AgentSpec
	// Routes by task type.
	Routes map[string]Route
	// Strategy is the default after agents.yaml and the environment.
	Strategy string
	// Strategies that are enabled, sorted by name; Strategy and every route's are
	// among them. A task that asks for another is refused.
	Strategies []Strategy
	Settings   Settings
	// Discovery admits agents that Agents does not list; nil admits none.
	Discovery *Discovery
	// Quotas are the tenants' shares of the LLM providers' limits; nil: nothing is limited.
	Quotas *Quotas
	// Lanes are the groups that have a lane of their own; all others but those of LanesAbove
	// share LaneOther.
	// Sorted. nil: no task is moved to a lane; empty: all share one.
	Lanes []string
	// LanesAbove are the groups without a lane of their own that use that of the nearest
	// group above them that has one.
	LanesAbove map[string]string
	// LaneRoom is how many tasks may wait before some are moved to their lanes, if there
	// are Lanes; 0: as many as can.
	LaneRoom int
}

// LaneOther is the lane of all groups that have none of their own, nor any group above them.
const LaneOther = "other"

// LaneHeld is the lane of what has been held for long and keeps its place in the window: it goes
// there and comes back at once, as a new message. No group has such a name.
const LaneHeld = "~held"

// LaneBeside names a lane beside another, for tasks that should not wait behind those which are
// there already; n counts from 1. No group has such a name.
func LaneBeside(lane string, n int) string { return lane + "~" + strconv.Itoa(n) }

// LaneBase is the lane beside which this one is, or itself.
func LaneBase(lane string) string {
	if base, _, beside := strings.Cut(lane, "~"); beside && base != "" {
		return base
	}
	return lane
}

// HasLane reports whether tasks may be moved to the lane of that name, and its queue is kept when it is
// empty: overflow lanes are created and deleted as needed.
func (p *Policy) HasLane(lane string) bool {
	return p.Lanes != nil && (p.named(lane) || lane == LaneHeld)
}

// AllLanes are all of which HasLane says so; none where there are no lanes.
func (p *Policy) AllLanes() []string {
	if p.Lanes == nil {
		return nil
	}
	return append([]string{LaneHeld, LaneOther}, p.Lanes...)
}

// named reports whether groups may have the lane.
func (p *Policy) named(lane string) bool {
	_, found := slices.BinarySearch(p.Lanes, lane)
	return found || lane == LaneOther
}

// LaneOf is the lane of a group's tasks, where there are lanes.
func (p *Policy) LaneOf(group string) string {
	if group != "" && p.named(group) {
		return group
	}
	if above := p.LanesAbove[group]; above != "" {
		return above
	}
	return LaneOther
}

// Discovery says which agents may join the fleet by announcing themselves in
// their status: queue, capabilities and slots. All of it is an allow-list: what
// is not named does not join. Labels are announced, too, and need no permission.
type Discovery struct {
	// Agents are patterns of ids: `*` stands for any characters, everything else
	// for itself.
	Agents []string
	// Capabilities that an announcement may contain. Sorted. An agent that
	// announces any other is not admitted.
	Capabilities []string
	// Queues are patterns of the queues that an agent may announce beside agent.<id>:
	// `{id}` stands for its id, `*` for any characters.
	Queues []string
	// MaxAgents bounds the agents that have joined, MaxConcurrent the slots of each.
	MaxAgents, MaxConcurrent int
	// ForgetAfter is how long an agent may be gone before it leaves the fleet.
	ForgetAfter time.Duration
	// Template holds what an announcement does not say: Rank, HealthCheckInterval,
	// Timeout, AcceptTimeout, Cost, Pull.
	Template AgentSpec
}

// Route is one entry of task_routing.
type Route struct {
	// Required capabilities. Sorted, without duplicates.
	Required  []string
	Preferred []AgentID
	// Strategy for this task type; empty means the default.
	Strategy string
	// Batch, if its MaxSize is at least 2, has tasks of this type decided together.
	Batch Batch
	// MaxWait is [Task.MaxWait] of tasks of this type that do not give their own; 0: none.
	MaxWait time.Duration
}

// Batch says which tasks of one type are given to one agent together.
type Batch struct {
	// MaxSize is the largest batch; below 2: no batching.
	MaxSize int
	// MaxWait is how long the first of a batch waits for others.
	MaxWait time.Duration
}

// Settings are the global settings that the engine reads.
type Settings struct {
	// PoisonedAfter is on how many different agents a task may fail (not merely be
	// refused) before it counts as poisoned and is parked; at least 1.
	PoisonedAfter int
	// MaxRetryAttempts is how many dispatches of one task may come back before
	// it fails with retries_exhausted.
	MaxRetryAttempts int
	// StaleAfter is how long after its last heartbeat an agent counts as offline.
	StaleAfter time.Duration
	// MaxQueueSize bounds the pending tasks; beyond it a task fails with
	// backlog_full.
	MaxQueueSize int
	// AssignmentTimeout is how long nothing may move for tasks of its kind before a
	// pending task fails for a transient reason; 0 means fail at once.
	AssignmentTimeout time.Duration
	// CountsWaiting has AssignmentTimeout be how long a task may be pending, whatever
	// moves meanwhile.
	CountsWaiting bool
	// MaxLoad: an agent gets no tasks unless its reported load is below it.
	MaxLoad float64
	// BusyIsEligible: agents that report `busy` may get work while they have a
	// free slot (eligible_statuses: [ready, busy]).
	BusyIsEligible bool
	// MaxTimeout is the longest timeout a task may ask for: beyond it the broker
	// would take the task from its agent in mid-work. 0 means no bound.
	MaxTimeout time.Duration
	// Priorities is how tasks of different priorities that wait take turns.
	Priorities PriorityOrder
	// DedupeWindow and DedupeMaxIDs bound the memory of task ids.
	DedupeWindow time.Duration
	DedupeMaxIDs int
	// SuspectIntervals and DeadIntervals, if not 0, are after how many of its own
	// health check intervals of silence an agent gets no new work, and counts as
	// offline (instead of StaleAfter).
	SuspectIntervals, DeadIntervals int
	// RefuseBacklogged: agents with a minute of pending work or more get no new one.
	RefuseBacklogged bool
	// SlowStart is how long an agent that has just come gets fewer tasks at once
	// than it has slots; 0: never.
	SlowStart time.Duration
	Learning  Learning
	Breaker   Breaker
	// Seed makes the hash that stands in for chance this installation's own.
	Seed uint64
}

// Learning says how quickly outcomes count and are forgotten. Zero values stand
// for the defaults of package learning.
type Learning struct {
	// Prior is the success rate, 0 to 1, that is assumed of an agent of which nothing
	// is known; PriorWeight how many outcomes that assumption is worth.
	Prior, PriorWeight float64
	// HalfLife and HalfLifeOutcomes are after how much time, and after how many
	// further outcomes, an outcome counts half.
	HalfLife         time.Duration
	HalfLifeOutcomes float64
}

// Breaker says when an agent gets no more work that needs a capability with which
// it fails. Zero values stand for the defaults of package breaker.
type Breaker struct {
	// Off: no agent is ejected.
	Off bool
	// Consecutive faults that eject an agent.
	Consecutive int
	// Base is how long for, times how often it happened of late; at most Longest.
	Base, Longest time.Duration
	// MaxShare of the agents that offer a capability, 0 to 1, may be ejected from it at once; one always
	// may, unless none would be left.
	MaxShare float64
}

// Find gives the enabled strategy of that name.
func (p *Policy) Find(name string) (*Strategy, bool) {
	i, ok := slices.BinarySearchFunc(p.Strategies, name,
		func(s Strategy, name string) int { return strings.Compare(s.Name, name) })
	if !ok {
		return nil, false
	}
	return &p.Strategies[i], true
}

// StrategyNames lists the enabled strategies, sorted.
func (p *Policy) StrategyNames() []string {
	names := make([]string, len(p.Strategies))
	for i := range p.Strategies {
		names[i] = p.Strategies[i].Name
	}
	return names
}
