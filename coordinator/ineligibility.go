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
	until  string // what ends it, for people, with what to do where somebody has to
	// reason a task fails with if this is why it cannot have any of the agents that are left to it.
	reason Reason
	facts  facts
}{
	Eligible: {"eligible", "eligible", "", ReasonAllAgentsAtCapacity, there | serves},
	LacksCapability: {"lacks_capability", "lack a required capability",
		"an agent that has it is listed or joins; or send the task without it", ReasonNoEligibleAgents, lasting},
	ExcludedByTask: {"excluded", "excluded by the task",
		"never; send the task without `excluded_agents`", ReasonNoEligibleAgents, lasting},
	AlreadyTried: {"already_tried", "had it before",
		"no agent is there that has not had the task", ReasonRetriesExhausted, lasting},
	NotPreferred: {"not_preferred", "not among the preferred that it waits for",
		"`widen_after_seconds` are over", ReasonAllAgentsAtCapacity, lasting},
	NotSeen: {"never_seen", "never reported",
		"its first heartbeat; start it", ReasonNoAgentsOnline, away | absent},
	WentOffline: {"offline", "offline",
		"its next heartbeat; start it", ReasonNoAgentsOnline, away | absent},
	WentStale: {"stale", "silent for too long",
		"its next heartbeat; see whether it hangs or cannot reach the broker", ReasonNoAgentsOnline, away | absent},
	WentGone: {"gone", "without a consumer",
		"it consumes its queue again and reports; start it", ReasonNoAgentsOnline, away | absent | trouble},
	Cordoned: {"cordoned", "cordoned or draining",
		"`taskbus agents uncordon`", ReasonAllAgentsAtCapacity, absent | withheld},
	Unsteady: {"unsteady", "coming and going",
		"it has stayed for 1 to 30 s", ReasonAllAgentsAtCapacity, withheld | trouble},
	Suspect: {"suspect", "silent for a while",
		"its next heartbeat", ReasonAllAgentsAtCapacity, withheld | trouble},
	Ejected: {"ejected", "ejected after failures",
		"its pause is over and a task on trial succeeds; see in its log why it fails", ReasonAllAgentsAtCapacity, 0},
	NotReady: {"not_ready", "busy",
		"it reports `ready`", ReasonAllAgentsAtCapacity, there | serves | withheld},
	Full: {"full", "full",
		"one of its tasks ends; or add slots", ReasonAllAgentsAtCapacity, there | serves},
	Overloaded: {"overloaded", "overloaded",
		"it reports less load", ReasonAllAgentsAtCapacity, there | withheld},
	Backlogged: {"backlogged", "with a minute of work or more",
		"less is pending", ReasonAllAgentsAtCapacity, there | withheld},
	QueueMissing: {"queue_missing", "without a queue",
		"the queue is declared; `taskbus topology apply`", ReasonAgentQueueMissing, there | absent | trouble},
	QueueFull: {"queue_full", "with a full queue",
		"a moment has passed; see that it consumes", ReasonAllAgentsAtCapacity, there | withheld | trouble},
	Pulling: {"pulling", "claiming their tasks themselves",
		"it claims", ReasonNotClaimed, there | serves},
	Unscored: {"unscored", "without a score",
		"what the formula reads has changed; or correct it", ReasonNoEligibleAgents, 0},
	KeptFree: {"kept_free", "kept for a task that must be alone",
		"that task has ended", ReasonAllAgentsAtCapacity, serves},
	HasOthers: {"has_others", "with other work, and the task must be alone",
		"its work has ended", ReasonAllAgentsAtCapacity, 0},
}

// String is the code used in messages, HTTP answers and metrics.
func (i Ineligibility) String() string { return ineligibilities[i].code }

// Phrase is what follows a number of agents in a text for people: "overloaded".
func (i Ineligibility) Phrase() string { return ineligibilities[i].phrase }

// Until is what ends it, for people, with what to do where somebody has to.
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
