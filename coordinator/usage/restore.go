package usage

import (
	"math"
	"time"

	"taskbus/coordinator"
)

// Correction is by how much what counts as used of a node's budget, and of all above it in its tree, is to be
// moved: in whole units, of cost_usd in micro-USD.
type Correction struct {
	Node, Dimension string
	By              int64
}

// RestoreFrom is the first day whose rows [Corrections] needs, empty: it needs none. Days begin in the zone;
// nil: UTC.
func RestoreFrom(nodes []Node, zone *time.Location) (first string) {
	for i := range nodes {
		for j := range nodes[i].Budgets {
			if from, whole := wholeDays(&nodes[i].Budgets[j], zone); whole && (first == "" || from < first) {
				first = from
			}
		}
	}
	return first
}

// Corrections are what is to be done, in this order, for every budget to count as used at least what rows of
// days say of its period at hand. What counts already is never lowered; so it may be done again. Periods that
// do not consist of whole days stay as they are: rows say nothing of them.
//
// A correction also moves the nodes above, whose periods may be others: what a group has used this month is no
// part of what the pool has used today. Nodes are therefore corrected from the leaves up, each by what the
// corrections below it have left, or done too much.
func Corrections(nodes []Node, rows []Row, zone *time.Location) (all []Correction) {
	places, groups := placesOf(nodes)
	wanted, at := make(map[Place]bool), make(map[string]int, len(nodes))
	for i := range nodes {
		at[nodes[i].ID] = i
		if len(nodes[i].Budgets) > 0 {
			wanted[places[nodes[i].ID]] = true
		}
	}
	used := ByPlace(rows, groups, wanted)
	type cell struct {
		node      int
		dimension string
	}
	moved := make(map[cell]int64)
	for i := len(nodes) - 1; i >= 0; i-- { // parents come before their children
		n := &nodes[i]
		for j := range n.Budgets {
			b := &n.Budgets[j]
			have, want := units(b.Dimension, b.Used), 0.0
			if from, whole := wholeDays(b, zone); whole {
				for day, counts := range used[places[n.ID]] { // order does not matter: they are whole numbers
					if day >= from {
						want += math.Round(unitsPer(b.Dimension) * counts.of(b.Dimension))
					}
				}
			}
			by := max(have, int64(min(want, float64(Most)))) - have - moved[cell{i, b.Dimension}]
			if by == 0 {
				continue
			}
			all = append(all, Correction{Node: n.ID, Dimension: b.Dimension, By: by})
			for above, ok := at[n.Parent]; ok; above, ok = at[nodes[above].Parent] {
				moved[cell{above, b.Dimension}] += by
			}
		}
	}
	return all
}

// wholeDays is the first day of a budget's period; false: it does not begin with a day, or is shorter.
func wholeDays(b *Budget, zone *time.Location) (from string, whole bool) {
	if zone == nil {
		zone = time.UTC
	}
	begin := b.From.In(zone)
	y, m, d := begin.Date()
	start, end := time.Date(y, m, d, 0, 0, 0, 0, zone), time.Date(y, m, d+1, 0, 0, 0, 0, zone)
	return begin.Format(time.DateOnly), begin.Equal(start) && !b.Until.Before(end)
}

// unitsPer is how many units one of what a Budget says makes.
func unitsPer(dimension string) float64 {
	if dimension == coordinator.DimCost.String() {
		return 1e6
	}
	return 1
}

func units(dimension string, amount float64) int64 {
	return int64(math.Round(unitsPer(dimension) * amount))
}
