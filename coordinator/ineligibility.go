package coordinator

// Ineligibility is why an agent may not have a task: a closed set, tested in
// this order; the first that holds is the one reported. (KeptFree is tested
// before NotReady.)
type Ineligibility uint8

// The causes. Eligible means none holds.
const (
	Eligible           Ineligibility = iota
	LacksCapability                  // criterion 1 of COORDINATOR
	ExcludedByTask                   // excluded_agents
	AlreadyTried                     // it had this task before
	NotPreferred                     // the task waits for its preferred agents alone, as yet
	NotSeen                          // never reported
	WentOffline                      // reported `offline`
	WentStale                        // criterion 5: last heartbeat too old
	WentGone                         // its consumer has left its queue
	Cordoned                         // by an operator: no new work; draining is that and more
	Unsteady                         // it came and went too often a moment ago
	Suspect                          // silent for a while, not for so long that it is stale
	Ejected                          // it failed too often with a required capability
	NotReady                         // criterion 2: reports `busy`
	Full                             // criterion 3: no free slot
	Overloaded                       // criterion 4: reported load at or above max_load
	Backlogged                       // BALANCING's OVERLOADED: a minute of work or more is pending
	QueueMissing                     // its queue does not exist
	QueueFull                        // its queue refused a dispatch a moment ago
	Pulling                          // it claims its tasks itself (mode: pull), and has not asked for this one
	Unscored                         // the strategy could make nothing of it
	KeptFree                         // it has, or is kept free for, a task that must have an agent to itself
	HasOthers                        // it has work, and this task must have an agent to itself
	NumIneligibilities = iota
)

// facts are what follows from a cause, one bit each.
type facts uint8

const (
	// lasting: nothing that the agent does ends it; such an agent is never near to having the task.
	lasting facts = 1 << iota
	// away: the agent is not there.
	away
	// absent: it is not there for work, or is to have none, whatever it has in hand.
	absent
	// there: it is there, and may have work when it has room.
	there
	// serves: of an agent that is online, tasks get to it now or when what it works on has ended.
	serves
	// withheld: of an agent that is online, it gets no work although it may have free slots.
	withheld
	// trouble: of an agent that is online, something is wrong with it.
	trouble
)

// ineligibilities has one row for each cause; whatever is said of a cause, or follows from it, comes from here.
var ineligibilities = [NumIneligibilities]struct {
	code   string // in messages, HTTP answers and metrics
	phrase string // what follows a number of agents in a text for people
	// meaning of the agent: its text in the reference; until is what ends the cause, and what an operator
	// has to do if it does not end by itself.
	meaning, until string
	// reason a task fails with if this is why it cannot have any of the agents that are left to it.
	reason Reason
	facts  facts
}{
	Eligible: {
		"eligible", "eligible", "", "",
		ReasonAllAgentsAtCapacity, there | serves,
	},
	LacksCapability: {
		"lacks_capability", "lack a required capability",
		"lacks a required capability",
		"an agent that has it is listed or joins; or send the task without it",
		ReasonNoEligibleAgents, lasting,
	},
	ExcludedByTask: {
		"excluded", "excluded by the task",
		"is excluded by the task",
		"never; send the task without `excluded_agents`",
		ReasonNoEligibleAgents, lasting,
	},
	AlreadyTried: {
		"already_tried", "had it before",
		"had the task before",
		"no agent is there that has not had the task",
		ReasonRetriesExhausted, lasting,
	},
	NotPreferred: {
		"not_preferred", "not among the preferred that it waits for",
		"is not among the preferred agents, for which alone the task waits as yet (`widen_after_seconds`)",
		"`widen_after_seconds` are over",
		ReasonAllAgentsAtCapacity, lasting,
	},
	NotSeen: {
		"never_seen", "never reported",
		"has never reported",
		"its first heartbeat; start it",
		ReasonNoAgentsOnline, away | absent,
	},
	WentOffline: {
		"offline", "offline",
		"said that it is",
		"its next heartbeat; start it",
		ReasonNoAgentsOnline, away | absent,
	},
	WentStale: {
		"stale", "silent for too long",
		"was silent for too long",
		"its next heartbeat; see whether it hangs or cannot reach the broker",
		ReasonNoAgentsOnline, away | absent,
	},
	WentGone: {
		"gone", "without a consumer",
		"has no consumer on its queue any more",
		"it consumes its queue again and reports; start it",
		ReasonNoAgentsOnline, away | absent | trouble,
	},
	Cordoned: {
		"cordoned", "cordoned or draining",
		"gets no new work, by an operator's order",
		"`taskbus agents uncordon`",
		ReasonAllAgentsAtCapacity, absent | withheld,
	},
	Unsteady: {
		"unsteady", "coming and going",
		"came and went too often a moment ago",
		"it has stayed for 1 to 30 s",
		ReasonAllAgentsAtCapacity, withheld | trouble,
	},
	Suspect: {
		"suspect", "silent for a while",
		"has been silent for a while (`suspect_after_intervals`)",
		"its next heartbeat",
		ReasonAllAgentsAtCapacity, withheld | trouble,
	},
	Ejected: {
		"ejected", "ejected after failures",
		"failed too often with a required capability and is tried again later",
		"its pause is over and a task on trial succeeds; see in its log why it fails",
		ReasonAllAgentsAtCapacity, 0,
	},
	NotReady: {
		"not_ready", "busy",
		"reports `busy`",
		"it reports `ready`",
		ReasonAllAgentsAtCapacity, there | serves | withheld,
	},
	Full: {
		"full", "full",
		"has no free slot",
		"one of its tasks ends; or add slots",
		ReasonAllAgentsAtCapacity, there | serves,
	},
	Overloaded: {
		"overloaded", "overloaded",
		"reports a load at or above `max_load`",
		"it reports less load",
		ReasonAllAgentsAtCapacity, there | withheld,
	},
	Backlogged: {
		"backlogged", "with a minute of work or more",
		"has a minute of pending work or more (with `refuse_backlogged`)",
		"less is pending",
		ReasonAllAgentsAtCapacity, there | withheld,
	},
	QueueMissing: {
		"queue_missing", "without a queue",
		"has no queue",
		"the queue is declared; `taskbus topology apply`",
		ReasonAgentQueueMissing, there | absent | trouble,
	},
	QueueFull: {
		"queue_full", "with a full queue",
		"has a queue that refused a dispatch a moment ago",
		"a moment has passed; see that it consumes",
		ReasonAllAgentsAtCapacity, there | withheld | trouble,
	},
	Pulling: {
		"pulling", "claiming their tasks themselves",
		"claims its tasks itself (`mode: pull` or `literal`), and has a free slot",
		"it claims",
		ReasonNotClaimed, there | serves,
	},
	Unscored: {
		"unscored", "without a score",
		"got no score from the strategy: its formula failed or gave no number",
		"what the formula reads has changed; or correct it",
		ReasonNoEligibleAgents, 0,
	},
	KeptFree: {
		"kept_free", "kept for a task that must be alone",
		"has a task that must be alone, or is kept free for one (see `poisoned`)",
		"that task has ended",
		ReasonAllAgentsAtCapacity, serves,
	},
	HasOthers: {
		"has_others", "with other work, and the task must be alone",
		"has work in hand, and this task must be alone",
		"its work has ended",
		ReasonAllAgentsAtCapacity, 0,
	},
}

// String is the code used in messages, HTTP answers and metrics.
func (i Ineligibility) String() string { return ineligibilities[i].code }

// Phrase is what follows a number of agents in a text for people: "overloaded".
func (i Ineligibility) Phrase() string { return ineligibilities[i].phrase }

// Meaning says of an agent what the cause is: "has no free slot".
func (i Ineligibility) Meaning() string { return ineligibilities[i].meaning }

// Until is what ends it, for people, with what an operator has to do where it does not end by itself.
func (i Ineligibility) Until() string { return ineligibilities[i].until }

// Reason is what a task fails with if this is why it cannot have any of the agents that are left to it.
func (i Ineligibility) Reason() Reason { return ineligibilities[i].reason }

// Lasting reports whether nothing that the agent does ends it: such an agent is never near to having the task.
func (i Ineligibility) Lasting() bool { return ineligibilities[i].facts&lasting != 0 }

// Away reports whether the agent is not there.
func (i Ineligibility) Away() bool { return ineligibilities[i].facts&away != 0 }

// Absent reports whether the agent is not there for work, or is to have none, whatever it has in hand.
func (i Ineligibility) Absent() bool { return ineligibilities[i].facts&absent != 0 }

// There reports whether the agent is there, and may have work when it has room.
func (i Ineligibility) There() bool { return ineligibilities[i].facts&there != 0 }

// Serves reports whether tasks get to an agent that is online, now or when what it works on has ended.
func (i Ineligibility) Serves() bool { return ineligibilities[i].facts&serves != 0 }

// Withheld reports whether an agent that is online gets no work although it may have free slots.
func (i Ineligibility) Withheld() bool { return ineligibilities[i].facts&withheld != 0 }

// Trouble reports whether something is wrong with an agent that is online.
func (i Ineligibility) Trouble() bool { return ineligibilities[i].facts&trouble != 0 }
