package usage

import (
	"cmp"
	"math"
	"slices"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/view"
)

// Correction is by how much what counts as used of a node's budget, and of all above it in its tree, is to be
// moved: in whole units, of cost_usd in micro-USD.
type Correction struct {
	Node, Dimension string
	By              int64
}

// RestoreFrom is the first day whose rows [Corrections] needs, empty: it needs none. Days begin in the zone;
// nil: UTC.
func RestoreFrom(nodes []view.QuotaNode, zone *time.Location) (first string) {
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
// A correction also moves what is beside the node, for another period, and all nodes above, whose periods may be
// others: what a group has used this month is no part of what the pool has used today. Nodes are therefore
// corrected from the leaves up, each by what the corrections before it have left, or done too much. What was too
// much can be taken back only where the node above has as much that no node below it has used: that is given to
// it first.
func Corrections(nodes []view.QuotaNode, rows []Row, zone *time.Location) []Correction {
	places, groups := placesOf(nodes)
	wanted := make(map[Place]bool)
	for i := range nodes {
		if len(nodes[i].Budgets) > 0 {
			wanted[places[nodes[i].ID]] = true
		}
	}
	used := ByPlace(rows, groups, wanted)
	c := newCorrecting(nodes)
	for _, i := range c.upwards() {
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
			by := max(have, int64(min(want, float64(Most)))) - have - c.moved[cell{i, b.Dimension}]
			if above, ok := c.above(i, b.Dimension); by < 0 && ok {
				c.move(above, b.Dimension, -by)
			}
			if by != 0 {
				c.move(i, b.Dimension, by)
			}
		}
	}
	return c.all
}

// cell is a budget: a node by its place in the list, and a dimension.
type cell struct {
	node      int
	dimension string
}

// correcting is a list of corrections while it is made.
type correcting struct {
	nodes  []view.QuotaNode
	parent []int // by node; -1: none
	depth  []int
	// first is the node itself, of one that is beside another; beside are those beside a node.
	first  []int
	beside map[int][]int
	moved  map[cell]int64
	all    []Correction
}

func newCorrecting(nodes []view.QuotaNode) *correcting {
	c := &correcting{nodes: nodes, parent: make([]int, len(nodes)), depth: make([]int, len(nodes)),
		first:  make([]int, len(nodes)),
		beside: make(map[int][]int), moved: make(map[cell]int64)}
	at, same := make(map[string]int, len(nodes)), make(map[[3]string]int, len(nodes))
	for i := range nodes { // parents come before their children, nodes before those beside them
		n := &nodes[i]
		at[n.ID], c.parent[i], c.first[i] = i, -1, i
		if above, ok := at[n.Parent]; ok && n.Parent != "" {
			c.parent[i], c.depth[i] = above, c.depth[above]+1
		}
		if first, ok := same[[3]string{n.Parent, n.Kind, n.Name}]; ok {
			c.first[i] = first
			c.beside[first] = append(c.beside[first], i)
		} else {
			same[[3]string{n.Parent, n.Kind, n.Name}] = i
		}
	}
	return c
}

// upwards are the nodes from the leaves up, each before those beside it.
func (c *correcting) upwards() []int {
	order := make([]int, len(c.nodes))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int {
		return cmp.Or(c.depth[b]-c.depth[a], c.first[b]-c.first[a], a-b)
	})
	return order
}

// above is the next node above, or what is beside it, that has a budget in the dimension; false: none has.
func (c *correcting) above(i int, dimension string) (int, bool) {
	for i = c.parent[i]; i >= 0; i = c.parent[i] {
		for _, one := range append([]int{i}, c.beside[i]...) {
			if slices.ContainsFunc(c.nodes[one].Budgets, func(b view.QuotaBudget) bool { return b.Dimension == dimension }) {
				return one, true
			}
		}
	}
	return -1, false
}

// move notes a correction, and what it moves: the node, what is beside it, and all that is above.
func (c *correcting) move(i int, dimension string, by int64) {
	c.all = append(c.all, Correction{Node: c.nodes[i].ID, Dimension: dimension, By: by})
	for ; i >= 0; i = c.parent[i] {
		c.moved[cell{i, dimension}] += by
		for _, one := range c.beside[i] {
			c.moved[cell{one, dimension}] += by
		}
	}
}

// wholeDays is the first day of a budget's period; false: it does not begin with a day, or is shorter.
func wholeDays(b *view.QuotaBudget, zone *time.Location) (from string, whole bool) {
	if zone == nil {
		zone = time.UTC
	}
	begin := b.PeriodFrom.In(zone)
	y, m, d := begin.Date()
	start, end := time.Date(y, m, d, 0, 0, 0, 0, zone), time.Date(y, m, d+1, 0, 0, 0, 0, zone)
	return begin.Format(time.DateOnly), begin.Equal(start) && !b.ResetTime.Before(end)
}

// unitsPer is how many units one of what a budget says makes.
func unitsPer(dimension string) float64 {
	if dimension == coordinator.DimCost.String() {
		return 1e6
	}
	return 1
}

func units(dimension string, amount float64) int64 {
	return int64(math.Round(unitsPer(dimension) * amount))
}
