package market

import (
	"cmp"
	"math"
	"slices"

	"taskbus/coordinator"
	"taskbus/coordinator/auction"
)

const (
	// matchSteps bounds the work of one match: the worst 256 × 256 takes about 1.8 million steps;
	// beyond, the greedy answer counts.
	matchSteps = 2_000_000
	// matchTie decides among equals by their place in the ranking, that is by active tasks, duration
	// and hash.
	matchTie = 1e-9
)

// Fleet is what the market reads of the kernel's agents, at the time of each question.
type Fleet[T any] interface {
	// Free returns how many slots the agent has free of which the task may have one now; 0: it may not.
	Free(t T, agent coordinator.AgentID) int
	// Affords reports whether there is quota for the task with an agent that may have it.
	Affords(t T, agent coordinator.AgentID) bool
}

// Award is where a closed lot goes.
type Award struct {
	// Outcome is AuctionAwarded with a Winner, else why there is none.
	Outcome coordinator.AuctionOutcome
	Winner  *auction.Ranked
	Losers  []auction.Ranked // the other bids, best first
	Why     coordinator.BidRefusal
}

// Award decides to which of its bids a closed lot goes: to its match if that can still have it, else to the
// best that can and for which there is quota. With the lot it keeps the best of the others, at most so many.
func (m *Market[T, A]) Award(c *Closed[T, A], f Fleet[T], keep int) Award {
	a, free := Award{Winner: c.matched, Why: coordinator.BidLost}, false
	can := func(r auction.Ranked) bool {
		if f.Free(c.Lot.Task, r.Agent) == 0 { // one on trial may have had its one task by now
			return false
		}
		free = true
		return f.Affords(c.Lot.Task, r.Agent)
	}
	if c.matched == nil || !can(*c.matched) {
		a.Winner = first(c.Ranked, can)
	}
	switch a.Losers = c.Ranked; {
	case a.Winner != nil:
		a.Outcome, a.Losers = coordinator.AuctionAwarded, without(c.Ranked, a.Winner)
	case free: // what the task takes is used up for all that have bid
		a.Outcome = coordinator.AuctionAbandoned
	case len(c.Ranked) > 0:
		a.Outcome, a.Why = coordinator.AuctionAllFull, coordinator.BidFull
	case len(c.Asked) == 0:
		a.Outcome = coordinator.AuctionUnheard
	default:
		a.Outcome = coordinator.AuctionNoBids
		m.window.Observe(m.ceiling)
	}
	c.Lot.next = slices.Clone(a.Losers[:min(len(a.Losers), keep)])
	return a
}

// first returns the first of the bids that does; nil: none does.
func first(bids []auction.Ranked, does func(auction.Ranked) bool) *auction.Ranked {
	if i := slices.IndexFunc(bids, does); i >= 0 {
		return &bids[i]
	}
	return nil
}

// without returns a copy of the bids, less that of one agent.
func without(bids []auction.Ranked, one *auction.Ranked) []auction.Ranked {
	return slices.DeleteFunc(slices.Clone(bids), func(r auction.Ranked) bool { return r.Agent == one.Agent })
}

// Next returns the best of the bids that did not win the lot and have an agent that can have it now; nil: none.
// t is the task as it stands now, which may be another object since.
func (l *Lot[T, A]) Next(t T, f Fleet[T]) *auction.Ranked {
	if l == nil {
		return nil
	}
	return first(l.next, func(r auction.Ranked) bool { return f.Free(t, r.Agent) > 0 })
}

// TakeNext takes a bid that is Next off, and returns all of which it was one.
func (l *Lot[T, A]) TakeNext(next *auction.Ranked) (of []auction.Ranked) {
	of, l.next = l.next, without(l.next, next)
	return of
}

// Match finds for lots that were closed together which goes to which bid, and puts those with a match first: the
// others may have what is left.
func (m *Market[T, A]) Match(lots []Closed[T, A], f Fleet[T], seed uint64) {
	if len(lots) < 2 {
		return
	}
	rankings, free := make([][]auction.Ranked, len(lots)), make(map[coordinator.AgentID]int)
	for i := range lots {
		for _, r := range lots[i].Ranked {
			if n := f.Free(lots[i].Lot.Task, r.Agent); n > 0 {
				rankings[i], free[r.Agent] = append(rankings[i], r), n
			}
		}
	}
	for i, bid := range match(coordinator.Hash(string(lots[0].Lot.of), seed), rankings, free) {
		lots[i].matched = bid
	}
	rank := func(c Closed[T, A]) int {
		if c.matched != nil {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(lots, func(a, b Closed[T, A]) int { return cmp.Compare(rank(a), rank(b)) })
}

// match returns for each of several lots the bid that it goes to, nil for none, such that as many as
// possible have one and all together fit best: where agents bid for more than they have slots, the best
// bid for one lot may be the only one for another. rankings are the bids by lot that could have it, best
// first; free is how many slots each of their agents has. seed breaks ties, so that no agent is always
// preferred. With more than auction.MaxSide slots that could count, no lot has one: each goes to its own
// best bid.
func match(seed uint64, rankings [][]auction.Ranked, free map[coordinator.AgentID]int) []*auction.Ranked {
	bids, wanted := make([][]auction.Ranked, len(rankings)), make(map[coordinator.AgentID]int)
	for i, ranked := range rankings {
		// The other lots can take no more than one each of those before.
		bids[i] = ranked[:min(len(ranked), len(rankings))]
		for _, r := range bids[i] {
			wanted[r.Agent]++
		}
	}
	agents, first := make([]coordinator.AgentID, 0, len(wanted)), make(map[coordinator.AgentID]int, len(wanted))
	for id := range wanted { // order does not matter: they are sorted
		agents = append(agents, id)
	}
	slices.SortFunc(agents, func(a, b coordinator.AgentID) int {
		ha, hb := coordinator.Hash(string(a), seed), coordinator.Hash(string(b), seed)
		return cmp.Or(cmp.Compare(ha, hb), cmp.Compare(a, b))
	})
	var slots []coordinator.AgentID // an agent as often as it has slots
	for _, id := range agents {
		first[id] = len(slots)
		for range min(wanted[id], free[id]) {
			slots = append(slots, id)
		}
	}
	winners := make([]*auction.Ranked, len(rankings))
	if len(slots) > auction.MaxSide { // more than are needed can hardly contend
		return winners
	}
	p := auction.Problem{Rows: len(bids), Cols: len(slots), Values: make([]float64, len(bids)*len(slots))}
	for i := range bids {
		row := p.Values[i*p.Cols : (i+1)*p.Cols]
		for j := range row {
			row[j] = math.NaN() // no bid
		}
		for place, r := range bids[i] {
			for j := first[r.Agent]; j < len(slots) && slots[j] == r.Agent; j++ {
				row[j] = r.Appraisal.Fitness - float64(place)*matchTie
			}
		}
	}
	for i, j := range auction.Assign(p, matchSteps).Columns {
		if j >= 0 {
			at := slices.IndexFunc(bids[i], func(r auction.Ranked) bool { return r.Agent == slots[j] })
			winners[i] = &bids[i][at]
		}
	}
	return winners
}
