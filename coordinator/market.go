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
	// FirstMatch gives a task without bids to the first eligible agent by id.
	FirstMatch bool
	// Fallback is the name in agents.yaml of what decides then.
	Fallback string
}

// BidRefusal is why a bid has not won: the reason of task.bid_rejected.
type BidRefusal uint8

// The refusals of bids.
const (
	BidCounts      BidRefusal = iota // it is not refused
	BidLost                          // to a better one
	BidLate                          // the auction was over
	BidDuplicate                     // it says what the agent's bid says already
	BidNotInvited                    // the agent was not offered the task
	BidInvalid                       // it says what cannot be
	BidFull                          // the agent has no slot left for it
	NumBidRefusals = iota
)

// String is the word used on the bus and in metrics; empty for BidCounts.
func (r BidRefusal) String() string {
	return [NumBidRefusals]string{"", "lost", "late", "duplicate", "not_invited", "invalid", "full"}[r]
}

// AuctionOutcome is how an auction ended.
type AuctionOutcome uint8

// The outcomes of auctions.
const (
	AuctionNone        AuctionOutcome = iota // there was none
	AuctionAwarded                           // to a bidder
	AuctionNoBids                            // no agent bid: the fallback decides
	AuctionAllFull                           // none of the bidders could take it any more: likewise
	AuctionUnheard                           // no agent could be asked: likewise
	AuctionNoTime                            // the task cannot wait as long as the shortest window: likewise
	AuctionAbandoned                         // its task was withdrawn, expired, or is judged anew
	NumAuctionOutcomes = iota
)

// String is the label used in metrics.
func (o AuctionOutcome) String() string {
	return [NumAuctionOutcomes]string{"none", "awarded", "no_bids", "all_full", "unheard", "no_time", "abandoned"}[o]
}

// withoutBid says for people why no bid decided; empty where one did, or none was sought.
func (o AuctionOutcome) withoutBid() string {
	return [NumAuctionOutcomes]string{
		AuctionNoBids: "no agent bid", AuctionAllFull: "no bidder had a slot",
		AuctionUnheard: "no agent could be asked for bids",
		AuctionNoTime:  "there was no time for bids",
	}[o]
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
