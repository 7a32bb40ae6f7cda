package auction

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/hash"
)

// Bid is what one agent offers for one task, in its own words.
type Bid struct {
	Agent coordinator.AgentID
	// Fitness, 0 to 1, is how well it says it suits the task; it is taken for the
	// probability that it succeeds.
	Fitness float64
	// Active is how many tasks it says it runs; at least 0.
	Active int
	// Duration is how long it says the task will take; at least 0.
	Duration time.Duration
	// Relevance, 0 to 1, of what it remembers of the task's domain. Not given: NaN or
	// less than 0.
	Relevance float64
	// At is when the bid arrived. The book sets it.
	At time.Time
}

// valid reports whether every number of the bid is in its range.
func (b *Bid) valid() bool {
	return b.Fitness >= 0 && b.Fitness <= 1 && // NaN is in no range
		b.Active >= 0 && b.Duration >= 0 && !(b.Relevance > 1) && !math.IsInf(b.Relevance, 0)
}

// Ranked is a bid with what the auctioneer makes of it, by which it is ranked. Both have
// a fitness, active tasks and a duration: say whose is meant, r.Bid.Fitness is what the
// agent claims and r.Appraisal.Fitness what counts.
type Ranked struct {
	Bid
	Appraisal
	// tie decides among bids that are equal in all else.
	tie uint64
}

// before reports whether a ranks before b: the fitter, then the one with fewer active
// tasks, then the quicker, then by a hash of agent and task, which favours none in
// the long run. Hashes of different ids may be equal, ids are not.
func (a *Ranked) before(b *Ranked) bool { return compare(a, b) < 0 }

func compare(a, b *Ranked) int {
	return cmp.Or(
		cmp.Compare(b.Appraisal.Fitness, a.Appraisal.Fitness),
		cmp.Compare(a.Appraisal.Active, b.Appraisal.Active),
		cmp.Compare(a.Appraisal.Duration, b.Appraisal.Duration),
		cmp.Compare(a.tie, b.tie),
		strings.Compare(string(a.Agent), string(b.Agent)),
	)
}

// standing is where one invited agent stands.
type standing uint8

const (
	silent    standing = iota // asked, and waited for
	bidding                   // its bid counts
	spoilt                    // it answered, with nothing that counts
	withdrawn                 // no longer invited
)

// place is one invited agent's page of the book.
type place struct {
	ranked   Ranked
	standing standing
}

// Book is one auction: which agents were invited, until when, and what they bid. It belongs to
// one goroutine. A bid costs no allocation.
type Book struct {
	opened, closes   time.Time
	appraise         func(Bid) Appraisal
	places           []place // sorted by agent
	waiting, counted int     // how many places are silent, and bidding
	best             int     // the place that ranks first; -1: none
}

// Open begins an auction at opened that takes bids for window. invited may hold an
// agent twice, it is asked once; the slice is not kept. seed makes the hash that
// breaks ties this installation's own.
//
// appraise says what the auctioneer makes of a valid bid (see [Appraise]); it is
// called once for each bid, when that arrives, and must not use the book. What it
// gives out of range is brought into it, and NaN counts as fitness 0. nil takes every
// bid at its word.
func Open(task coordinator.TaskID, seed uint64, invited []coordinator.AgentID, opened time.Time, window time.Duration,
	appraise func(Bid) Appraisal) *Book {
	b := &Book{opened: opened, closes: opened.Add(window), appraise: appraise, best: -1}
	b.places = make([]place, len(invited))
	for i, agent := range invited {
		b.places[i].ranked.Agent = agent
	}
	slices.SortFunc(b.places, func(a, b place) int {
		return strings.Compare(string(a.ranked.Agent),
			string(b.ranked.Agent))
	})
	b.places = slices.CompactFunc(b.places, func(a, b place) bool { return a.ranked.Agent == b.ranked.Agent })
	own := hash.Of(string(task), seed)
	for i := range b.places {
		b.places[i].ranked.tie = hash.Of(string(b.places[i].ranked.Agent), own)
	}
	b.waiting = len(b.places)
	return b
}

// Bid enters a bid that arrived at now, or says why it does not (coordinator.BidCounts: it
// does). The faults are looked for in this order:
//
//   - [coordinator.BidNotInvited]: the agent was not asked, or has been withdrawn;
//   - [coordinator.BidLate]: the auction was closed, or its window was over. The last instant of the
//     window is the one before it is over;
//   - [coordinator.BidInvalid]: NaN, an infinity, or a number out of its range. The agent is no
//     longer waited for, an earlier valid bid of it goes on counting, and a later
//     valid one is taken;
//   - [coordinator.BidDuplicate]: it says exactly what the agent's bid says already (a message
//     delivered twice).
//
// A bid that differs from the agent's earlier one takes its place: of one agent's
// bids the last before the close counts, and it counts once. Bids are sealed, so
// no agent gains by waiting to see.
func (b *Book) Bid(now time.Time, bid Bid) coordinator.BidRefusal {
	i, ok := b.find(bid.Agent)
	if !ok || b.places[i].standing == withdrawn {
		return coordinator.BidNotInvited
	}
	if b.Over(now) {
		return coordinator.BidLate
	}
	p := &b.places[i]
	if p.standing == silent {
		p.standing = spoilt
		b.waiting--
	}
	if !bid.valid() {
		return coordinator.BidInvalid
	}
	if !(bid.Relevance >= 0) {
		bid.Relevance = math.NaN()
	}
	if p.standing == bidding && same(&p.ranked.Bid, &bid) {
		return coordinator.BidDuplicate
	}
	if p.standing != bidding {
		p.standing = bidding
		b.counted++
	}
	bid.At = now
	p.ranked.Bid = bid
	p.ranked.Appraisal = Appraisal{Fitness: bid.Fitness, Active: bid.Active, Duration: bid.Duration}
	if b.appraise != nil {
		p.ranked.Appraisal = b.appraise(bid).inRange()
	}
	switch {
	case b.best == i:
		b.findBest() // it may have become worse
	case b.best < 0 || p.ranked.before(&b.places[b.best].ranked):
		b.best = i
	}
	return coordinator.BidCounts
}

// same compares what two bids of one agent say; when they came is not said.
func same(a, b *Bid) bool {
	return a.Fitness == b.Fitness && a.Active == b.Active && a.Duration == b.Duration &&
		(a.Relevance == b.Relevance || a.Relevance != a.Relevance && b.Relevance != b.Relevance)
}

// Withdraw takes an agent out of the auction: it went offline, has no slot left, or
// the announcement could not be delivered to it. It is not waited for, and its bid,
// if it made one, no longer counts. It says whether the agent was in the auction.
func (b *Book) Withdraw(agent coordinator.AgentID) bool {
	i, ok := b.find(agent)
	if !ok || b.places[i].standing == withdrawn {
		return false
	}
	p := &b.places[i]
	switch p.standing {
	case silent:
		b.waiting--
	case bidding:
		b.counted--
	}
	p.standing = withdrawn
	if b.best == i {
		b.findBest()
	}
	return true
}

// Over reports whether no bid is taken at now any more.
func (b *Book) Over(now time.Time) bool { return !now.Before(b.closes) }

// Ranked appends the bids that count to dst, the winner first. The order is total and
// does not depend on the order in which they came.
func (b *Book) Ranked(dst []Ranked) []Ranked {
	from := len(dst)
	for i := range b.places {
		if b.places[i].standing == bidding {
			dst = append(dst, b.places[i].ranked)
		}
	}
	slices.SortFunc(dst[from:], func(a, b Ranked) int { return compare(&a, &b) })
	return dst
}

// Best is the bid that would win if the auction ended now; false: there is none.
func (b *Book) Best() (Ranked, bool) {
	if b.best < 0 {
		return Ranked{}, false
	}
	return b.places[b.best].ranked, true
}

// Closes is when the window is over. Not later, whatever happens.
func (b *Book) Closes() time.Time { return b.closes }

// Waiting is how many agents that take part have not answered.
func (b *Book) Waiting() int { return b.waiting }

// Silent calls yield for each of them, in the order of their ids.
func (b *Book) Silent(yield func(coordinator.AgentID)) {
	for i := range b.places {
		if b.places[i].standing == silent {
			yield(b.places[i].ranked.Agent)
		}
	}
}

func (b *Book) find(agent coordinator.AgentID) (int, bool) {
	return slices.BinarySearchFunc(b.places, agent, func(p place, agent coordinator.AgentID) int {
		return strings.Compare(string(p.ranked.Agent), string(agent))
	})
}

func (b *Book) findBest() {
	b.best = -1
	for i := range b.places {
		if b.places[i].standing == bidding && (b.best < 0 || b.places[i].ranked.before(&b.places[b.best].ranked)) {
			b.best = i
		}
	}
}
