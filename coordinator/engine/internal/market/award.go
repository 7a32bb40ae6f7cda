package market

import (
	"cmp"
	"math"
	"slices"

	"taskbus/coordinator"
	"taskbus/coordinator/auction"
	"taskbus/coordinator/hash"
)

const (
	// matchSteps bounds the work of one match: the worst 256 × 256 takes about 1.8 million steps;
	// beyond, the greedy answer counts.
	matchSteps = 2_000_000
	// matchTie decides among equals by their place in the ranking, that is by active tasks, duration
	// and hash.
	matchTie = 1e-9
)

// BidTerms are what an explanation shows of bids.
var BidTerms = []string{"fitness", "claimed", "active", "duration_s"}

// View is what the market reads of the kernel, at the time of each question.
type View[T, A any] interface {
	// Merit returns what is known of the agent and the task without a bid.
	Merit(t T, agent A) auction.Merit
	// Slots returns how many the agent has free, whatever for.
	Slots(agent A) int
	// Free returns how many slots the agent has free of which the task may have one now; 0: it may not.
	Free(t T, agent coordinator.AgentID) int
	// Affords reports whether there is quota for the task with an agent that may have it.
	Affords(t T, agent coordinator.AgentID) bool
	// Late reports whether the task's deadline has passed, which may be where nothing was decided for a while.
	Late(t T) bool
	// Agent returns an agent as strategies see it; nil: it has left.
	Agent(id coordinator.AgentID) *coordinator.AgentView
}

// Award is where a closed lot goes.
type Award struct {
	Winner   *auction.Ranked // nil: none, and Ended says why
	Ended    *coordinator.AuctionEnded
	Rejected []coordinator.RejectBid // the other bids, best first
}

// Award decides to which of its bids a closed lot goes: to its match if that can still have it, else to the
// best that can and for which there is quota. With the lot it keeps the best of the others, at most so many.
func (m *Market[T, A]) Award(c *Closed[T, A], v View[T, A], keep int) Award {
	free := false
	can := func(r auction.Ranked) bool {
		if v.Free(c.Lot.Task, r.Agent) == 0 { // one on trial may have had its one task by now
			return false
		}
		free = true
		return v.Affords(c.Lot.Task, r.Agent)
	}
	outcome, winner, why := coordinator.AuctionAwarded, c.matched, coordinator.BidLost
	if !c.Late && !c.Abandoned && (winner == nil || !can(*winner)) {
		winner = first(c.Ranked, can)
	}
	switch {
	case winner != nil:
	case c.Late, c.Abandoned, free: // what the task takes is used up for all that have bid
		outcome = coordinator.AuctionAbandoned
	case len(c.Ranked) > 0:
		outcome, why = coordinator.AuctionAllFull, coordinator.BidFull
	case len(c.Asked) == 0:
		outcome = coordinator.AuctionUnheard
	default:
		outcome = coordinator.AuctionNoBids
		m.window.Observe(m.ceiling)
	}
	return c.end(outcome, winner, why, keep)
}

// end returns the award to that bid. The others are rejected for that reason, and the best of them kept.
func (c *Closed[T, A]) end(
	outcome coordinator.AuctionOutcome, winner *auction.Ranked, why coordinator.BidRefusal, keep int,
) Award {
	l := c.Lot
	a := Award{Winner: winner, Ended: &coordinator.AuctionEnded{
		Task: l.of, AuctionID: l.ID, Outcome: outcome, Closing: c.Why.String(), Invited: len(c.Asked), Bids: len(c.Ranked),
		Window: c.Window, Took: c.Took, Fallback: c.Fallback,
	}}
	losers := len(c.Ranked)
	if winner != nil {
		a.Ended.Winner = winner.Agent
		losers--
	}
	a.Rejected, l.next = make([]coordinator.RejectBid, 0, losers), make([]auction.Ranked, 0, min(losers, keep))
	for i := range c.Ranked {
		r := &c.Ranked[i]
		if winner != nil && r.Agent == winner.Agent {
			continue
		}
		a.Rejected = append(a.Rejected, coordinator.RejectBid{
			Agent: r.Agent, Task: l.of.ID, AuctionID: l.ID, TraceID: l.of.CorrelationID, Reason: why,
		})
		if len(l.next) < keep {
			l.next = append(l.next, *r)
		}
	}
	return a
}

// Candidates returns what a decision shows of the bids of which one has won: that first, without agents that have left.
func Candidates[T, A any](winner *auction.Ranked, bids []auction.Ranked, v View[T, A]) (list []coordinator.Candidate) {
	add := func(r *auction.Ranked) {
		if a := v.Agent(r.Agent); a != nil && len(list) < coordinator.MaxCandidates {
			list = append(list, coordinator.Candidate{
				Agent: r.Agent, Load: a.Load, Free: a.Free,
				Key: coordinator.Key{First: -r.Appraisal.Fitness, Second: float64(r.Appraisal.Active)},
				Terms: coordinator.TermValues{
					r.Appraisal.Fitness, r.Bid.Fitness, float64(r.Appraisal.Active), r.Appraisal.Duration.Seconds(),
				},
			})
		}
	}
	add(winner)
	for i := range bids {
		if r := &bids[i]; r.Agent != winner.Agent {
			add(r)
		}
	}
	return list
}

// first returns the first of the bids that does; nil: none does.
func first(bids []auction.Ranked, does func(auction.Ranked) bool) *auction.Ranked {
	if i := slices.IndexFunc(bids, does); i >= 0 {
		return &bids[i]
	}
	return nil
}

// Next returns the best of the bids that did not win the lot and have an agent that can have it now; nil: none.
// t is the task as it stands now, which may be another object since.
func (l *Lot[T, A]) Next(t T, v View[T, A]) *auction.Ranked {
	if l == nil {
		return nil
	}
	return first(l.next, func(r auction.Ranked) bool { return v.Free(t, r.Agent) > 0 })
}

// TakeNext takes that bid off, and returns it with all of which it was one; nil: none.
func (l *Lot[T, A]) TakeNext(t T, v View[T, A]) (next *auction.Ranked, of []auction.Ranked) {
	if next = l.Next(t, v); next != nil {
		of = l.next
		l.next = slices.DeleteFunc(slices.Clone(of), func(r auction.Ranked) bool { return r.Agent == next.Agent })
	}
	return next, of
}

// Match finds for lots that were closed together which goes to which bid. It returns them in the order in which they
// are to be awarded: those that are late, those with a match, and the others, that may have what is left.
func (m *Market[T, A]) Match(over []Closed[T, A], v View[T, A], seed uint64) []*Closed[T, A] {
	var late, lots []*Closed[T, A]
	for i := range over {
		if c := &over[i]; c.Late {
			late = append(late, c)
		} else {
			lots = append(lots, c)
		}
	}
	if len(lots) < 2 {
		return append(late, lots...)
	}
	rankings, free := make([][]auction.Ranked, len(lots)), make(map[coordinator.AgentID]int)
	for i, c := range lots {
		for _, r := range c.Ranked {
			if n := v.Free(c.Lot.Task, r.Agent); n > 0 {
				rankings[i], free[r.Agent] = append(rankings[i], r), n
			}
		}
	}
	var matched, others []*Closed[T, A]
	for i, bid := range match(hash.Of(string(lots[0].Lot.of.ID), seed), rankings, free) {
		if lots[i].matched = bid; bid != nil {
			matched = append(matched, lots[i])
		} else {
			others = append(others, lots[i])
		}
	}
	return slices.Concat(late, matched, others)
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
		ha, hb := hash.Of(string(a), seed), hash.Of(string(b), seed)
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
