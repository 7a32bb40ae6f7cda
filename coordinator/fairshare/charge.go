package fairshare

import (
	"taskbus/coordinator"
)

// unknownService begins the name under which a task type's calls are learnt of whose model
// nobody says anything.
const unknownService = "task:"

// least is what a call counts for of which nothing is known but that it is one.
const least = 1000

// ServiceOf is the provider and model that a group's calls go to, as far as usage and
// configuration say: a provider with several keys by its own name, unless a key was named.
func (l *Ledger) ServiceOf(group string, u *coordinator.Usage) (s coordinator.Service) {
	if u != nil {
		s.Provider, s.Model = u.Provider, u.Model
	}
	if s.Provider != "" && s.Model != "" { // no default is asked for
		return s
	}
	if n, known := l.routes.groups[group]; known {
		s.Provider, s.Model = l.defaults(n, s.Provider, s.Model)
	}
	return s
}

// serviceOf is what a group's calls of a task type are for. Of a provider with keys it names the
// pool: the first key if none was chosen. So what is charged says for good where it was.
func (l *Ledger) serviceOf(group, taskType string, u *coordinator.Usage) service {
	s := l.ServiceOf(group, u)
	if keys := l.Keys(s.Provider); len(keys) > 0 {
		s.Provider = keys[0]
	}
	return service{s.Provider, s.Model, taskType}
}

// learntAs is the name under which an estimator keeps what is learnt of a service.
func (s service) learntAs() string {
	if s.model == "" {
		return unknownService + s.operation
	}
	return s.model
}

// Demand is the charge for a task of a group before it has run: what its producer states, and
// for what it does not state, what such tasks have taken so far. The amounts to be reserved
// are 90th percentiles, but no more than any limit allows at one time: what is only estimated
// must not keep a task out for good. usual is by the means, and Expect what that counts for.
func (l *Ledger) Demand(group, taskType string, u *coordinator.Usage, e *Estimator) (c Charge, usual coordinator.Amounts) {
	s := l.serviceOf(group, taskType, u)
	c = Charge{Group: group, Provider: s.provider, Model: s.model}
	var stated coordinator.Usage
	if u != nil {
		stated = *u
	}
	expected := stated
	name := s.learntAs()
	var guessed [coordinator.NumDimensions]bool
	input := int64(0) // as far as it is stated: a guess would choose the wrong bucket
	if stated.InputTokens > 0 {
		input = wholeUp(stated.InputTokens)
	} else {
		in := e.EstimateInput(group, name)
		stated.InputTokens, expected.InputTokens = float64(in.Reserve), float64(in.Expect)
		guessed[coordinator.DimInputTokens] = true
	}
	if stated.OutputTokens <= 0 {
		out := e.Estimate(group, name, input, 0)
		stated.OutputTokens, expected.OutputTokens = float64(out.Reserve), float64(out.Expect)
		guessed[coordinator.DimOutputTokens] = true
	}
	any := guessed[coordinator.DimInputTokens] || guessed[coordinator.DimOutputTokens]
	guessed[coordinator.DimTotalTokens], guessed[coordinator.DimCost] = any, any && stated.CostUSD <= 0
	c.Amounts, _ = l.prices.amountsOf(&stated, s, 1)
	usual, _ = l.prices.amountsOf(&expected, s, 1)
	if any {
		p := l.PathOf(&c)
		for d := range c.Amounts {
			if guessed[d] {
				c.Amounts[d] = min(c.Amounts[d], max(1, l.ever(&p, coordinator.Dimension(d))))
			}
		}
	}
	c.Expect = Weigh(&usual)
	return c, usual
}

// ever is how much of a dimension the path allows at one time, at most.
func (l *Ledger) ever(p *Path, d coordinator.Dimension) int64 {
	most := noBound
	l.walk()
	for _, n := range p.list() {
		nd := &l.nodes[n]
		if b := nd.budgets[d]; b != nil {
			if most = min(most, b.most); l.first(b) {
				most = min(most, b.reach)
			}
		}
		if s := nd.rates[d]; s != nil && s.hard {
			most = min(most, s.burst)
		} else if s != nil && s.ceiling.amount > 0 {
			most = min(most, s.ceiling.burst)
		}
	}
	return most
}

// Used is what a task, or call, that was charged so has taken by the word of who ran it, at the
// prices of now. Of which model it was, if it does not say, the charge does: else whoever names the
// model in the task alone would pay nothing. Of a charge without a group it is that of its agent's.
func (l *Ledger) Used(c *Charge, taskType string, u *coordinator.Usage) coordinator.Amounts {
	s := service{c.Provider, c.Model, taskType}
	if at, known := l.routes.agents[c.Agent]; known && c.Group == "" {
		s.provider, s.model = l.defaults(l.nodes[at].parent, s.provider, s.model)
	}
	a, _ := l.prices.amountsOf(u, s, 0)
	return a
}

// Observe teaches the estimator what a call has taken that was charged so.
func (c *Charge) Observe(e *Estimator, taskType string, a *coordinator.Amounts) {
	s := service{c.Provider, c.Model, taskType}
	e.Observe(c.Group, s.learntAs(), a[coordinator.DimInputTokens], a[coordinator.DimOutputTokens])
}

// Weigh makes one number of amounts, for the order of turns: the tokens, output counted twice
// as VTC does, in one unit for all groups, whatever their limits and models. What has no
// tokens counts as a small call. At most MostCost.
func Weigh(a *coordinator.Amounts) int64 {
	cost := saturate(a[coordinator.DimInputTokens], mulDiv(a[coordinator.DimOutputTokens], 2, 1))
	if cost == 0 {
		cost = least
	}
	return min(cost, MostCost)
}

// MostCost bounds what one task counts for, and CostCap what a group may owe, or lag behind:
// thousands of usual calls.
const (
	MostCost = 1 << 24
	CostCap  = 1 << 26
)

// GroupsOf gives the groups of the pool without a provider: by their weights the turns of
// tasks are shared.
func GroupsOf(q *coordinator.Quotas) []ShareNode {
	var nodes []ShareNode
	of := make(map[int]int)
	for i := range q.Nodes {
		n := &q.Nodes[i]
		if n.Kind != coordinator.QuotaGroup {
			continue
		}
		root := n.Parent
		for q.Nodes[root].Parent >= 0 {
			root = q.Nodes[root].Parent
		}
		if q.Nodes[root].Provider != "" {
			continue
		}
		parent := -1
		if p, ok := of[n.Parent]; ok {
			parent = p
		}
		of[i] = len(nodes)
		nodes = append(nodes, ShareNode{Name: n.Name, Parent: parent, Weight: n.Weight})
	}
	return nodes
}

// PoolOf names the provider's or model's node that something is charged to, by its ID; empty:
// none.
func (l *Ledger) PoolOf(c *Charge) string {
	if n, ok := l.serviceNode(c.Provider, c.Model); ok {
		return l.nodes[n].spec.ID
	}
	return ""
}

// serviceNode is the node of the model, else of its provider.
func (l *Ledger) serviceNode(provider, model string) (int32, bool) {
	if provider == "" {
		return 0, false
	}
	if n, ok := l.routes.models[modelKey{provider, model}]; ok {
		return n, true
	}
	n, ok := l.routes.pools[provider]
	return n, ok
}

// Find gives what a reservation that is open or remembered was charged for; false: there is
// none of that key.
func (l *Ledger) Find(key coordinator.TaskKey) (c Charge, open, known bool) {
	r := l.find(key)
	if r == nil {
		return c, false, false
	}
	return r.whole(), r.state == resOpen, true
}

// IsOpen tells whether a reservation of that key stands.
func (l *Ledger) IsOpen(key coordinator.TaskKey) bool {
	r := l.find(key)
	return r != nil && r.state == resOpen
}

// NodeID names a node by its ID.
func (l *Ledger) NodeID(n int32) string { return l.nodes[n].spec.ID }

// KindOf is what the node of that ID stands for.
func (l *Ledger) KindOf(id string) coordinator.QuotaKind {
	if n, ok := l.byID[id]; ok {
		return l.nodes[n].spec.Kind
	}
	return coordinator.QuotaPool
}

// GroupOf is the group of a node, or of an agent's; "" for one above all groups.
func (l *Ledger) GroupOf(n int32) string {
	if l.nodes[n].spec.Kind == coordinator.QuotaAgent {
		n = l.nodes[n].parent
	}
	if l.nodes[n].spec.Kind != coordinator.QuotaGroup {
		return ""
	}
	return l.nodes[n].spec.Name
}

// GroupNode is the group's node of an agent's, and any other node itself, by their IDs.
func (l *Ledger) GroupNode(id string) string {
	if n, ok := l.byID[id]; ok && l.nodes[n].spec.Kind == coordinator.QuotaAgent {
		return l.nodes[l.nodes[n].parent].spec.ID
	}
	return id
}

// BorrowPriority is the group's place, higher first, among those that wait for something to
// borrow.
func (l *Ledger) BorrowPriority(group string) int {
	if n, ok := l.routes.groups[group]; ok {
		return l.nodes[n].spec.Borrowing.Priority
	}
	return 0
}

// Divided tells whether any node below that one has a limit of that kind of its own. It takes
// O(nodes · levels).
func (l *Ledger) Divided(id string, kind Limit, d coordinator.Dimension) bool {
	top, ok := l.byID[id]
	if !ok {
		return false
	}
	for i := range l.nodes {
		nd := &l.nodes[i]
		if kind == LimitBudget && nd.budgets[d] == nil || kind == LimitRate && nd.rates[d] == nil || kind == LimitSeats && nd.seats == nil {
			continue
		}
		for n := nd.parent; n >= 0; n = l.nodes[n].parent {
			if n == top {
				return true
			}
		}
	}
	return false
}
