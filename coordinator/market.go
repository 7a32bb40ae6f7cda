package coordinator

import "time"

// Market is how a strategy asks agents before one of them is chosen: they bid, and the
// best bid gets the task. It needs no bids to decide: without any, the strategy's Key
// does.
type Market struct {
	// Floor and Ceiling bound how long bids are taken.
	Floor, Ceiling time.Duration
	// InviteAll asks every eligible agent, else a sample of the best (auction.Invite).
	InviteAll bool
	// Reported takes the fitness that an agent claims as it stands, else it is worked
	// out, and the claim counts within the agent's record (auction.Appraise).
	Reported bool
	// FirstMatch gives a task for which nobody bids to the first eligible agent by id.
	FirstMatch bool
}

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

// BidRefusal is why a bid has not won: the reason of task.bid_rejected.
type BidRefusal uint8

// The refusals of bids. Those after BidLost say what is wrong with the bid.
const (
	BidLost        BidRefusal = iota // to a better one
	BidLate                          // the auction was over
	BidDuplicate                     // it says what the agent's bid says already
	BidNotInvited                    // the agent was not offered the task
	BidInvalid                       // it says what cannot be
	BidFull                          // the agent has no slot left for it
	NumBidRefusals = iota
)

// String is the word used on the bus and in metrics.
func (r BidRefusal) String() string {
	return [NumBidRefusals]string{"lost", "late", "duplicate", "not_invited", "invalid", "full"}[r]
}

// AuctionOutcome is how an auction ended.
type AuctionOutcome uint8

// The outcomes of auctions.
const (
	AuctionAwarded     AuctionOutcome = iota // to a bidder
	AuctionNoBids                            // nobody bid: the fallback decides
	AuctionAllFull                           // none of the bidders could take it any more: likewise
	AuctionUnheard                           // nobody could be asked: likewise
	AuctionAbandoned                         // its task was withdrawn, expired, or is judged anew
	NumAuctionOutcomes = iota
)

// String is the label used in metrics.
func (o AuctionOutcome) String() string {
	return [NumAuctionOutcomes]string{"awarded", "no_bids", "all_full", "unheard", "abandoned"}[o]
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
}

// BidReceived is a task.bid of an agent, which the shell has made sure is its own.
type BidReceived struct {
	Agent     AgentID
	Task      TaskID
	AuctionID string
	// Fitness, 0 to 1, is how well it says it suits the task.
	Fitness float64
	// Active is how many tasks it says it runs.
	Active int
	// Duration is how long it says the task will take.
	Duration time.Duration
	// Relevance, 0 to 1, of what it remembers of the task's domain; NaN: not given.
	Relevance float64
	TraceID   string
}

// OfferUnheard says that an agent has no control queue, so that no offer reaches it. It
// is not waited for, and not asked again before it reports.
type OfferUnheard struct{ Agent AgentID }

// ClaimReceived is a task.claim of an agent, which the shell has made sure is its own.
// One ClaimAnswered follows, unless the session is lost first: at once, or when there is
// work or Wait is over.
type ClaimReceived struct {
	Agent AgentID
	// ClaimID is the agent's name for the claim.
	ClaimID string
	// MaxItems that it wants, from 1; Pending that it has and has not finished.
	MaxItems, Pending int
	// Capacity in items per second; 0: not measured yet.
	Capacity float64
	// Wait is how long the claim may wait for work; 0: not at all.
	Wait time.Duration
	// Token comes back in ClaimAnswered; the shell chooses it.
	Token uint64
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

// PullMode is whether an agent claims its tasks itself.
type PullMode uint8

// The modes. An agent that claims is never given anything it did not ask for.
const (
	PullOff     PullMode = iota // tasks are pushed to it
	PullShared                  // it claims, and gets its fair part at most
	PullLiteral                 // it claims, and gets what it asks for, within its slots
)

// String is the word of agents.yaml.
func (m PullMode) String() string { return [...]string{"push", "pull", "literal"}[m] }

func (*Offer) effect()        {}
func (Award) effect()         {}
func (RejectBid) effect()     {}
func (*AuctionEnded) effect() {}
func (ClaimAnswered) effect() {}

func (BidReceived) event()   {}
func (OfferUnheard) event()  {}
func (ClaimReceived) event() {}
