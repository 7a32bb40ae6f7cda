package coordinator

import "time"

// Snapshot is the engine's state as people and metrics see it. It shares
// nothing with the engine.
type Snapshot struct {
	Agents []AgentSnapshot // sorted by ID
	// Pending counts the tasks that wait, by priority.
	Pending [4]int
	// PendingReasons counts them by the reason they would fail with now; where
	// very many different things are asked for, the rest stands under ReasonNone.
	PendingReasons map[Reason]int
	// Waits are the kinds of tasks that wait for an agent, those with most tasks first, at most
	// MaxWaits; those that wait for quota are not among them.
	Waits []WaitSnapshot
	// Delayed tasks came back and wait to be tried again; they are among Pending.
	Delayed int
	// Gathering tasks wait for others to share a batch with; they are among Pending.
	Gathering int
	// Bidding tasks are being offered to agents; they are among Pending.
	Bidding int
	// Moving tasks are on their way into their lanes, and not among Pending.
	Moving int
	// Lanes that may hold messages, or are the lanes of waiting tasks, by their names.
	Lanes []LaneSnapshot
	// BidWindow is how long the next auction takes bids; 0 without a market.
	BidWindow time.Duration
	// Claims that wait for work.
	Claims int
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

// MaxWaits is how many kinds of waiting tasks a snapshot lists.
const MaxWaits = 8

// WaitSnapshot is what keeps tasks waiting that the same agents could take.
type WaitSnapshot struct {
	// Required capabilities of these tasks.
	Required []string
	// Tasks that wait, and the age of the one that was accepted first.
	Tasks  int
	Oldest time.Duration
	// PerSecond are dispatched, since they wait, of the Among tasks that wait for one of the agents that could take
	// these, or for agents that those may have; 0: none was.
	PerSecond float64
	Among     int
	// Reason and Text are what they would fail with now.
	Reason Reason
	Text   string
	// Able are the places in Snapshot.Agents of those that could have these tasks by what agents.yaml says of them.
	Able []int
}

// LaneSnapshot is one lane as the engine sees it.
type LaneSnapshot struct {
	Lane string
	// Ready tasks in its queue, as far as is known; Waiting here, of those that may be moved
	// there; Moving on their way.
	Ready, Waiting, Moving int
	// Read: tasks are being taken out of it. Orphan: the policy no longer has it.
	Read, Orphan bool
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
	// Strays are the slots that its reports have said for a minute or longer are taken, by no dispatch that it has:
	// its handlers go on after their time, or hang.
	Strays int
	// Cordoned by an operator; Draining: and its waiting work goes elsewhere;
	// Drained: there is none left with it.
	Cordoned, Draining, Drained bool
	// Discovered: it announced itself; agents.yaml does not list it.
	Discovered bool
	// Instances is how many processes report under its id, as far as they say which they are: more
	// than 1 is a fault.
	Instances int
	// Eligibility is Eligible, or why no task could go there now.
	Eligibility Ineligibility
	// Slots is how many tasks it may have at the moment: fewer than its maximum
	// while it is new (see Settings.SlowStart).
	Slots int
	// Success is the mean of the success rates by which it is chosen, 0 to 1, over the
	// types of its tasks; Outcomes how many that is founded on, older ones counting less.
	Success, Outcomes float64
	// Duration is the mean of its tasks' durations; 0 when not known.
	Duration time.Duration
	Capacity CapacitySnapshot
	Bidding  CalibrationSnapshot
	// EjectedFrom are the capabilities for which it gets no work because it failed
	// too often with them, sorted; the name "" stands for tasks that require none. EjectedUntil is, for
	// each, when it is tried again; zero: it is being tried.
	EjectedFrom  []string
	EjectedUntil []time.Time
}

// CalibrationSnapshot is what outcomes have taught of an agent's bids (see
// auction.Calibration).
type CalibrationSnapshot struct {
	// Outcomes that count, of tasks that it had won.
	Outcomes int
	// Brier is the mean of (claim − outcome)², Bias that of claim − outcome; Delta is how
	// far its report moves its fitness; Ratio that of actual by estimated durations.
	Brier, Bias, Delta, Ratio float64
}

// CapacitySnapshot is what BALANCING's registry knows of an agent.
type CapacitySnapshot struct {
	// ItemsPerSecond as the agent reported it (Reported) or as measured.
	ItemsPerSecond float64
	Reported       bool
	// Measured is the estimate from its results, whatever it reports; WarmUp: from
	// fewer than 60 of them.
	Measured float64
	WarmUp   bool
	// Pending items: reported, or what it has in hand.
	Pending int
	Health  Health
	// Drain is how long the pending items will take.
	Drain time.Duration
}

// CapabilitySnapshot is demand and supply of one capability.
type CapabilitySnapshot struct {
	Name string
	// Agents that offer it; Online, and Usable: online, steady, not cordoned, not ejected from it. Usable
	// is the bus factor: one less may be lost before the capability has no agent left; at 1 everything
	// depends on one agent.
	Agents, Online, Usable int
	// Slots and Free slots of the usable ones.
	Slots, Free int
	// Waiting tasks that require it, and Demand: how many come in a second, as an
	// average that forgets half in five minutes.
	Waiting int
	Demand  float64
}

// QueueWatch names an agent's queue that wants a look (see QueueSeen).
type QueueWatch struct {
	Agent AgentID
	Queue string
}
