package engine

import (
	"cmp"
	"math"
	"slices"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/auction"
)

// When agents bid for more than they have slots, who gets which matters to the others:
// the best bid for one task may be the only one for another. Auctions that would be over
// within jointWithin of each other are then decided together.

const (
	jointWithin = 5 * time.Millisecond
	// jointSteps bounds the work of one joint decision: the worst 256 × 256 takes about
	// 1.8 million steps; beyond, the greedy answer counts.
	jointSteps = 2_000_000
	// jointTie decides among equals by their place in the ranking, that is by active tasks,
	// duration and hash.
	jointTie = 1e-9
)

// contending lists the auction and those that are to be decided with it, in the order in
// which they were opened.
func (e *Engine) contending(now time.Time, l *lot) []*lot {
	lots := []*lot{l}
	if !slices.ContainsFunc(l.bidders, func(b bidder) bool { return b.agent.contending > 0 }) {
		return lots
	}
	for _, o := range e.market.open {
		over := o.book.Closes().Sub(now) <= jointWithin || o.book.Closing(now, o.hopes()) != auction.NotYet
		if o != l && over && len(o.bidders) > 0 && len(lots) < auction.MaxSide {
			lots = append(lots, o)
		}
	}
	slices.SortStableFunc(lots, func(a, b *lot) int { return cmp.Compare(a.task.arrival, b.task.arrival) })
	return lots
}

// joint finds for each auction the bid that it goes to, nil for none, such that as many
// as possible have one, and all together fit best. No agent gets more than it has slots.
// Beyond auction.MaxSide of these it finds nothing: each auction goes to its best bid.
func (e *Engine) joint(lots []*lot) []*auction.Ranked {
	rankings, most := make([][]auction.Ranked, len(lots)), make(map[coordinator.AgentID]int)
	for i, l := range lots {
		rankings[i] = slices.DeleteFunc(l.book.Ranked(nil), func(r auction.Ranked) bool { return !e.mayHave(l.task, r.Agent) })
		// The others can take no more than one each of those before.
		rankings[i] = rankings[i][:min(len(rankings[i]), len(lots))]
		for _, r := range rankings[i] {
			most[r.Agent]++
		}
	}
	columns, first := make([]coordinator.AgentID, 0, len(most)), make(map[coordinator.AgentID]int, len(most))
	for id := range most { // order does not matter: they are sorted
		columns = append(columns, id)
	}
	// By a hash of the first task, so that no agent is a constant favourite.
	seed := coordinator.Hash(string(lots[0].task.task.ID), e.policy.Settings.Seed)
	slices.SortFunc(columns, func(a, b coordinator.AgentID) int {
		return cmp.Or(cmp.Compare(coordinator.Hash(string(a), seed), coordinator.Hash(string(b), seed)), cmp.Compare(a, b))
	})
	var slots []coordinator.AgentID // an agent as often as it has slots
	for _, id := range columns {
		first[id] = len(slots)
		for range min(most[id], e.fleet.byID[id].free()) {
			slots = append(slots, id)
		}
	}
	if len(slots) > auction.MaxSide { // more than are needed can hardly contend
		return make([]*auction.Ranked, len(lots))
	}
	p := auction.Problem{Rows: len(lots), Cols: len(slots), Values: make([]float64, len(lots)*len(slots))}
	bids := make([]map[coordinator.AgentID]*auction.Ranked, len(lots))
	for i := range lots {
		row := p.Values[i*p.Cols : (i+1)*p.Cols]
		for j := range row {
			row[j] = math.NaN() // no bid
		}
		bids[i] = make(map[coordinator.AgentID]*auction.Ranked, len(rankings[i]))
		for place := range rankings[i] {
			r := &rankings[i][place]
			bids[i][r.Agent] = r
			for j := first[r.Agent]; j < len(slots) && slots[j] == r.Agent; j++ {
				row[j] = r.Appraisal.Fitness - float64(place)*jointTie
			}
		}
	}
	winners := make([]*auction.Ranked, len(lots))
	for i, j := range auction.Assign(p, jointSteps).Columns {
		if j >= 0 {
			winners[i] = bids[i][slots[j]]
		}
	}
	return winners
}
