package view

// The kinds of nodes that FAIR-SHARE knows.
const (
	KindGroup = "group"
	KindAgent = "agent"
)

// find is the node of a kind and name that the others share out: the first, which is that of
// the pool of the groups, where there is one.
func (q *Quotas) find(kind, name string) *QuotaNode {
	for i := range q.Nodes {
		if n := &q.Nodes[i]; n.Kind == kind && n.Name == name {
			return n
		}
	}
	return nil
}

// Group is a group in FAIR-SHARE's words; false: there is none.
func (q *Quotas) Group(id string) (QuotaGroup, bool) {
	n := q.find(KindGroup, id)
	if n == nil {
		return QuotaGroup{}, false
	}
	g := QuotaGroup{ID: id, Weight: n.Weight, Nodes: q.Nodes}
	if b := n.budget(); b != nil {
		g.Dimension, g.Total, g.Used, g.Reserved, g.Remaining, g.ResetTime = b.Dimension, &b.Limit, &b.Used, &b.Reserved,
			&b.Remaining, &b.ResetTime
	}
	for i := range q.Groups {
		if q.Groups[i].Group == id {
			g.Turns = &q.Groups[i]
		}
	}
	return g, true
}

// Agent is an agent in FAIR-SHARE's words; false: there is none.
func (q *Quotas) Agent(id string) (QuotaAgent, bool) {
	n := q.find(KindAgent, id)
	if n == nil {
		return QuotaAgent{}, false
	}
	a := QuotaAgent{ID: id, Weight: n.Weight}
	if b := n.budget(); b != nil {
		a.Dimension, a.Allocated, a.Used, a.Reserved, a.Remaining = b.Dimension, &b.Limit, &b.Used, &b.Reserved, &b.Remaining
	}
	for i := range q.Nodes {
		switch above := &q.Nodes[i]; {
		case above.Kind == KindAgent && above.Name == id:
			a.Nodes = append(a.Nodes, *above)
		case above.ID == n.Parent:
			a.Group = &QuotaGroupInfo{ID: above.Name}
			if b := above.budget(); b != nil {
				a.Group.Total, a.Group.Used, a.Group.Remaining = &b.Limit, &b.Used, &b.Remaining
			}
		}
	}
	for _, r := range n.Rates {
		if r.Dimension == "requests" && r.PerSeconds > 0 {
			a.Bucket = &QuotaBucket{Capacity: r.Burst, FillRate: r.Amount / r.PerSeconds, Current: r.Remaining}
		}
	}
	return a, true
}

// budget is the one that FAIR-SHARE speaks of: of total tokens, else the first; nil: none.
func (n *QuotaNode) budget() *QuotaBudget {
	for i := range n.Budgets {
		if n.Budgets[i].Dimension == "total_tokens" {
			return &n.Budgets[i]
		}
	}
	if len(n.Budgets) > 0 {
		return &n.Budgets[0]
	}
	return nil
}

// Node is the one of an id; nil: there is none.
func (q *Quotas) Node(id string) *QuotaNode {
	for i := range q.Nodes {
		if q.Nodes[i].ID == id {
			return &q.Nodes[i]
		}
	}
	return nil
}
