package market

import (
	"cmp"
	"math"
	"slices"

	"taskbus/coordinator"
	"taskbus/coordinator/auction"
)

const (
	// matchSteps bounds the work of one Match: the worst 256 × 256 takes about 1.8 million steps;
	// beyond, the greedy answer counts.
	matchSteps = 2_000_000
	// matchTie decides among equals by their place in the ranking, that is by active tasks, duration
	// and hash.
	matchTie = 1e-9
)

// Match returns for each of several lots the bid that it goes to, nil for none, such that as many as
// possible have one and all together fit best: where agents bid for more than they have slots, the best
// bid for one lot may be the only one for another. rankings are the bids by lot that could have it, best
// first; free is how many slots each of their agents has. seed breaks ties, so that no agent is always
// preferred. With more than auction.MaxSide slots that could count, no lot has one: each goes to its own
// best bid.
func Match(seed uint64, rankings [][]auction.Ranked, free map[coordinator.AgentID]int) []*auction.Ranked {
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
