package service

import (
	"fmt"
	"strings"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/fairshare"
)

// atMost says by how much the limit that a boost raises could be raised, under the quotas without that: what the node above
// has, less what those below it have of their own; "" where that is not what is in the way. What is shared by
// weight gives way.
func atMost(q *coordinator.Quotas, c *coordinator.QuotaControl) string {
	if q == nil || c.Kind != coordinator.ControlBoost || !strings.HasPrefix(c.Value, "+") {
		return ""
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
			return ""
		}
		for j := range q.Nodes {
			if n := &q.Nodes[j]; n.Parent == up && j != i && n.Budgets[d] != nil && n.Budgets[d].Nominal != coordinator.ByWeight {
				above -= n.Budgets[d].Nominal
			}
		}
		return fmt.Sprintf("; at most +%s is left for %s", amountText(name, d.Shown(max(0, above-has))), q.Nodes[i].ID)
	}
	return ""
}
