package views

import (
	"strings"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/fairshare"
	"taskbus/coordinator/view"
)

// BoostRoom returns by how much the limit that a boost raises could be raised, under the quotas without that: what the
// node above has, less what those below it have of their own; false where that is not what is in the way. What is
// shared by weight gives way.
func BoostRoom(q *coordinator.Quotas, c *coordinator.QuotaControl) (left float64, ok bool) {
	if q == nil || c.Kind != coordinator.ControlBoost || !strings.HasPrefix(c.Value, "+") {
		return 0, false
	}
	name, _, _ := strings.Cut(c.Key, ".")
	ledger := fairshare.NewLedger()
	ledger.Install(time.Time{}, q)
	nominal := func(i int) (amount int64, d coordinator.Dimension, ok bool) {
		v, _ := ledger.Node(time.Time{}, q.Nodes[i].ID)
		for _, b := range v.Budgets {
			if b.Dimension.String() == name {
				return b.Nominal, b.Dimension, true
			}
		}
		return 0, 0, false
	}
	for i := range q.Nodes {
		up := q.Nodes[i].Parent
		if q.Nodes[i].ID != c.Target || up < 0 {
			continue
		}
		has, _, ok := nominal(i)
		above, d, limited := nominal(up)
		if !ok || !limited {
			return 0, false
		}
		for j := range q.Nodes {
			if n := &q.Nodes[j]; n.Parent == up && j != i && n.Budgets[d] != nil &&
				n.Budgets[d].Nominal != coordinator.ByWeight {
				above -= n.Budgets[d].Nominal
			}
		}
		return d.Shown(max(0, above-has)), true
	}
	return 0, false
}

// Moves returns the budgets that differ by the quotas before and after: what each is of its own, and what each has
// given to none of those below it.
func Moves(now time.Time, before, after *coordinator.Quotas) (all []view.QuotaMove) {
	was := make(map[view.QuotaMove]int64) // by what is not a number of it
	for _, b := range nominals(now, before) {
		was[b.of] = b.amount
	}
	for _, b := range nominals(now, after) {
		if old, known := was[b.of]; known && old != b.amount {
			m := b.of
			m.Before, m.After = b.dimension.Shown(old), b.dimension.Shown(b.amount)
			all = append(all, m)
		}
	}
	return all
}

// nominal is what a budget is of its own, or what it has given to none.
type nominal struct {
	of        view.QuotaMove
	dimension coordinator.Dimension
	amount    int64
}

// nominals returns those of all nodes, in the order of these.
func nominals(now time.Time, q *coordinator.Quotas) (all []nominal) {
	ledger := fairshare.NewLedger()
	ledger.Install(now, q)
	parents := make(map[int]bool)
	for i := range q.Nodes {
		parents[q.Nodes[i].Parent] = true
	}
	for i := range q.Nodes {
		v, _ := ledger.Node(now, q.Nodes[i].ID)
		for _, b := range v.Budgets {
			of := view.QuotaMove{Node: q.Nodes[i].ID, Dimension: b.Dimension.String(), Period: b.Period}
			if all = append(all, nominal{of, b.Dimension, b.Nominal}); parents[i] {
				of.Spare = true
				all = append(all, nominal{of, b.Dimension, b.Share})
			}
		}
	}
	return all
}
