package coordinator

import "time"

// Effects for agents that choose.

// Offer asks an agent whether it wants a task. OfferUnheard follows when it cannot be
// told; nothing follows otherwise but, perhaps, a BidReceived.
type Offer struct {
	Agent     AgentID
	Task      *Task
	AuctionID string
	// Attempt that the dispatch will have, from 1.
	Attempt int
	// Required capabilities of the task and its type. Sorted.
	Required []string
	// Window is how long bids are taken from now on.
	Window time.Duration
}

// Award tells an agent that it has won an auction. Its Dispatch is the next effect.
type Award struct {
	Agent                          AgentID
	Task                           TaskID
	AuctionID, DispatchID, TraceID string
}

// RejectBid tells an agent that a bid of it has not won, or does not count.
type RejectBid struct {
	Agent              AgentID
	Task               TaskID
	AuctionID, TraceID string
	Reason             BidRefusal
}

// AuctionEnded says how an auction went: for people, metrics and logs. The decision that
// follows from it is an effect of its own.
type AuctionEnded struct {
	Task      *Task
	AuctionID string
	Outcome   AuctionOutcome
	// Closing is why it ended when it did (see auction.Closing).
	Closing string
	// Invited agents, and Bids that counted.
	Invited, Bids int
	// Window that it was opened for, and how long it Took.
	Window, Took time.Duration
	// Winner is empty unless it was awarded.
	Winner AgentID
	// Fallback is agents.yaml's word for what decides where no agent bids.
	Fallback string
}

// ClaimAnswered answers ClaimReceived. The dispatches of what is granted are effects of
// their own, before it.
type ClaimAnswered struct {
	Agent   AgentID
	ClaimID string
	Granted int
	// Limit says why there are fewer than it asked for; empty if there are not (see
	// pull.Limit).
	Limit string
	Fleet PullFleet
	Token uint64
}

// ClaimsForgotten tells an agent that pulls that no claim of it is open: a session has
// begun, and those that waited in the one before wait no more.
type ClaimsForgotten struct{ Agent AgentID }

// PullFleet is the agents that claim, as the coordinator sees them.
type PullFleet struct {
	// Agents that share the work.
	Agents int
	// Pending items that they have; Unclaimed ones that no agent has.
	Pending, Unclaimed int
	// Capacity of all together, in items per second.
	Capacity float64
	// Target is how long the work that each has should take.
	Target time.Duration
	// FairShare is how many items that makes for the agent that is told.
	FairShare int
}
