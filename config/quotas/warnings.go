package quotas

import (
	"fmt"
	"slices"

	"taskbus/config/yamlconf"
	"taskbus/coordinator"
)

// Warnings are what is allowed in quotas.yaml and probably not meant; q is nil where there is none.
func Warnings(q *coordinator.Quotas) []yamlconf.Warning {
	if q == nil {
		return nil
	}
	var found []yamlconf.Warning
	for _, text := range append(q.Ignored[:len(q.Ignored):len(q.Ignored)], priceless(q), neverReached(q),
		nothingShared(q)) {
		if text != "" {
			found = append(found, yamlconf.Warning{Text: text})
		}
	}
	return found
}

// priceless says what becomes of calls and tasks where money is limited and nothing has a price.
func priceless(q *coordinator.Quotas) string {
	becomes := map[coordinator.UnpricedRule]string{
		coordinator.UnpricedRefuse: "calls and tasks of an LLM that do not state what they cost are refused (unpriced: " +
			"refuse); list prices",
		coordinator.UnpricedWarn: "only the cost that tasks and results state themselves counts (unpriced: warn); list " +
			"prices",
	}[q.Unpriced]
	if len(q.Prices) > 0 || becomes == "" {
		return ""
	}
	for i := range q.Nodes {
		if n := &q.Nodes[i]; n.Budgets[coordinator.DimCost] != nil || n.Rates[coordinator.DimCost] != nil {
			return "cost_usd is limited, and there are no prices: " + becomes
		}
	}
	return ""
}

// neverReached names a budget that bounds nothing, because one for a longer period, of its node or of one above, is
// used up before, and says how many there are.
func neverReached(q *coordinator.Quotas) string {
	first, more := "", -1
	for i := range q.Nodes {
		for _, b := range budgetsOf(&q.Nodes[i]) {
			by, at := usedUpBefore(q, i, &b)
			if by == nil {
				continue
			}
			if more++; first == "" {
				first = fmt.Sprintf("the limit of %s, %s %s, bounds nothing: %s of %s are used up before", q.Nodes[i].ID,
					b.Dimension, DescribeLimit(b.Dimension, &b.QuotaLimit), DescribeLimit(b.Dimension, by), at.ID)
			}
		}
	}
	if more > 0 {
		first += fmt.Sprintf("; so it is with %d more", more)
	}
	return first
}

// budgetsOf lists the budgets of a node, for whatever period.
func budgetsOf(n *coordinator.QuotaNode) (all []coordinator.BesideBudget) {
	for d, b := range n.Budgets {
		if b != nil {
			all = append(all, coordinator.BesideBudget{Dimension: coordinator.Dimension(d), QuotaLimit: *b})
		}
	}
	return append(all, n.Beside...)
}

// usedUpBefore finds the budget for a longer period, from a node up, of which no more than b can be used in b's own.
func usedUpBefore(q *coordinator.Quotas, node int, b *coordinator.BesideBudget) (*coordinator.QuotaLimit,
	*coordinator.QuotaNode) {
	if b.Nominal <= 0 { // a part by weight
		return nil, nil
	}
	for i := node; i >= 0; i = q.Nodes[i].Parent {
		for _, longer := range budgetsOf(&q.Nodes[i]) {
			times := int64(1)
			if b.Period.Unit == coordinator.PerWeek { // it may be part of two months
				times = 2
			}
			if unit := longer.Period.Unit; longer.Dimension != b.Dimension || longer.Nominal < 0 || unit <= b.Period.Unit ||
				unit > coordinator.PerYear {
				continue
			}
			if most, bounded := mostOf(q, i, &longer); bounded && most <= b.Nominal/times {
				return &longer.QuotaLimit, &q.Nodes[i]
			}
		}
	}
	return nil, nil
}

// mostOf is what may be used of a node's budget, with what it may borrow where a node above has one that it is part of.
func mostOf(q *coordinator.Quotas, node int, b *coordinator.BesideBudget) (most int64, bounded bool) {
	part := false
	for up := q.Nodes[node].Parent; up >= 0 && !part; up = q.Nodes[up].Parent {
		part = slices.ContainsFunc(budgetsOf(&q.Nodes[up]), func(x coordinator.BesideBudget) bool {
			return x.Dimension == b.Dimension && x.Period == b.Period
		})
	}
	switch {
	case !part || q.Nodes[node].Borrowing.Rule == coordinator.BorrowNever:
		return b.Nominal, true
	case b.Borrow.Kind == coordinator.BoundAmount:
		return b.Nominal + b.Borrow.Value, true
	case b.Borrow.Kind == coordinator.BoundPercent:
		return b.Nominal + (b.Nominal/100+1)*b.Borrow.Value, true
	}
	return 0, false
}

// nothingShared says that weights divide nothing where there is no limit.
func nothingShared(q *coordinator.Quotas) string {
	weighted := ""
	for i := range q.Nodes {
		n := &q.Nodes[i]
		limited := n.Seats != nil
		for d := range n.Budgets {
			limited = limited || n.Budgets[d] != nil || n.Rates[d] != nil
		}
		if limited {
			return ""
		}
		if n.Weight != 1 && weighted == "" {
			weighted = n.ID
		}
	}
	if weighted == "" {
		return ""
	}
	return "nothing has a limit, so that the weight of " + weighted +
		" divides none: weights only say whose task goes first while agents are busy"
}
