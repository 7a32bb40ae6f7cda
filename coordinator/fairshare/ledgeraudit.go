package fairshare

import "taskbus/coordinator"

// Audit compares what is reserved of every node with the open reservations: open is called for each of
// these (but for those that end by themselves), wrong for every difference.
// In no particular order, and without changing anything; it takes O(reservations · levels).
func (l *Ledger) Audit(open func(key coordinator.TaskKey), wrong func(node string, d coordinator.Dimension, reserved,
	sum int64)) {
	type sums struct {
		budgets [coordinator.NumDimensions]tally
		running int64
	}
	all := make([]sums, len(l.nodes))
	for _, r := range l.open {
		if r.state != resOpen {
			continue
		}
		if r.until == 0 {
			open(r.key)
		}
		for part := r; part != nil; part = part.later {
			sat := false
			for _, n := range part.path.Nodes() {
				nd := &l.nodes[n]
				for d, b := range nd.budgets {
					if b != nil && part.at >= b.family.span.Start {
						all[n].budgets[d].add(part.charge.Amounts[d], 1)
					}
				}
				if sat = sat || nd.seats != nil; sat {
					all[n].running += part.charge.Amounts[coordinator.DimConcurrency]
				}
				if nd.parent < 0 {
					sat = false
				}
			}
		}
	}
	for i := range l.nodes {
		nd := &l.nodes[i]
		for d, b := range nd.budgets {
			if b != nil && b.reserved != all[i].budgets[d] {
				wrong(nd.spec.ID, coordinator.Dimension(d), b.reserved.sum(), all[i].budgets[d].sum())
			}
		}
		if s := nd.seats; s != nil && s.Running != all[i].running {
			wrong(nd.spec.ID, coordinator.DimConcurrency, s.Running, all[i].running)
		}
	}
}
