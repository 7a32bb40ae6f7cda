package fairshare

import (
	"math/bits"

	"taskbus/coordinator"
	"taskbus/coordinator/fairshare/arith"
	"taskbus/coordinator/fairshare/estimates"
)

// least is what a call counts for of which nothing is known but that it is one.
const least = 1000

// Demand is the charge for a task of a group before it has run: what its producer states, and
// for what it does not state, what such tasks have taken so far. A task of which nothing says that it
// uses an LLM (it names no provider or model and states no tokens, and none were reported for tasks of its
// type), or of which noTokens does, takes no tokens. The amounts to be reserved
// are 90th percentiles, but no more than any limit allows at one time (see Bound). usual is by the
// means, and Expect what that counts for.
func (l *Ledger) Demand(group, taskType string, u *coordinator.Usage, noTokens bool, e *estimates.Estimator) (c Charge,
	usual coordinator.Amounts) {
	c, usual, guessed := l.demand(demanded{group: group, operation: taskType, usage: u, noTokens: noTokens}, e)
	l.Bound(&c, guessed)
	return c, usual
}

// GiveTo has a charge for a task, and what is usual for it, be those of giving it to an agent. A task
// without a group is charged to the group of its agent, so that it costs what that one's model does,
// unless it states its cost.
func (l *Ledger) GiveTo(agent coordinator.AgentID, c *Charge, usual *coordinator.Amounts, taskType string,
	u *coordinator.Usage) {
	c.Agent, c.Payer = agent, ""
	if c.Group == "" {
		c.Payer, _ = l.GroupOfAgent(agent)
	}
	if c.Group != "" || u != nil && u.CostUSD > 0 {
		return
	}
	l.priceFor(c, usual, taskType)
	// some of it is a guess
	if cost := c.Amounts[coordinator.DimCost]; cost > 0 && (u == nil || u.InputTokens <= 0 || u.OutputTokens <= 0) {
		sure := *c
		sure.Amounts = coordinator.Amounts{}
		if u != nil {
			sure.Amounts, _ = l.prices.amountsOf(u, service{}, 1)
		}
		var none coordinator.Amounts
		l.priceFor(&sure, &none, taskType)
		p := l.PathOf(c)
		c.Amounts[coordinator.DimCost] = max(min(cost, sure.Amounts[coordinator.DimCost]),
			min(cost, max(1, l.ever(&p, coordinator.DimCost))))
	}
}

// Bound takes down what is only estimated to what the limits of the group, and those above it, allow
// at one time: a guess must not keep anything out for good, and must not take down what is stated either.
func (l *Ledger) Bound(c *Charge, guessed Guessed) {
	if guessed.of == 0 {
		return
	}
	of := *c
	of.Agent = "" // it is not known yet which agent will have the task
	p := l.PathOf(&of)
	for m := guessed.of; m != 0; m &= m - 1 {
		d := bits.TrailingZeros8(m)
		c.Amounts[d] = max(guessed.sure[d], min(c.Amounts[d], max(1, l.ever(&p, coordinator.Dimension(d)))))
	}
}

// ever returns how much of a dimension the path allows at one time, at most.
func (l *Ledger) ever(p *Path, d coordinator.Dimension) int64 {
	most := arith.NoBound
	l.walk()
	for _, n := range p.list() {
		nd := &l.nodes[n]
		if b := nd.budgets[d]; b != nil {
			if most = min(most, b.most); l.first(b) {
				most = min(most, b.reach)
			}
		}
		if s := nd.rates[d]; s != nil && s.Hard {
			most = min(most, s.Burst)
		} else if s != nil && s.Ceiling.Amount > 0 {
			most = min(most, s.Ceiling.Burst)
		}
	}
	return most
}

// Observe teaches the estimator what a call, or task, has taken that was charged so: of its model, and
// what a task has taken of its type as well, for those that do not say that they use a model.
func (c *Charge) Observe(e *estimates.Estimator, taskType string, a *coordinator.Amounts) {
	s := service{c.Provider, c.Model, taskType}
	e.Observe(c.Group, s.learntAs(), a[coordinator.DimInputTokens], a[coordinator.DimOutputTokens])
	if !c.Call && s.model != "" {
		e.Observe(c.Group, unknownService+taskType, a[coordinator.DimInputTokens], a[coordinator.DimOutputTokens])
	}
}

// Weigh makes one number of amounts, for the order of turns: the tokens, output counted twice
// as VTC does, in one unit for all groups, whatever their limits and models. What has no
// tokens counts as a small call. At most MostCost.
func Weigh(a *coordinator.Amounts) int64 {
	cost := arith.Add(a[coordinator.DimInputTokens], arith.MulDiv(a[coordinator.DimOutputTokens], 2, 1))
	if cost == 0 {
		cost = least
	}
	return min(cost, MostCost)
}

// MostCost bounds what one task counts for, and CostCap what a group may be in debt, or lag behind:
// thousands of usual calls.
const (
	MostCost = 1 << 24
	CostCap  = 1 << 26
)

// Find returns what a reservation that is open or remembered was charged for; false: there is
// none of that key.
func (l *Ledger) Find(key coordinator.TaskKey) (c Charge, open, known bool) {
	r := l.find(key)
	if r == nil {
		return c, false, false
	}
	return r.whole(), r.state == resOpen, true
}

// TakesSeats reports whether a charge takes any seats of which there is a limit.
func (l *Ledger) TakesSeats(c *Charge) bool {
	if c.Amounts[coordinator.DimConcurrency] <= 0 {
		return false
	}
	p := l.PathOf(c)
	for range l.seatsOf(&p) {
		return true
	}
	return false
}

// KeepNames sets by which names a reservation stands in the history.
func (l *Ledger) KeepNames(key coordinator.TaskKey, known coordinator.NameKept) {
	if r := l.find(key); r != nil {
		r.charge.Known = known
	}
}

// IsOpen reports whether a reservation of that key stands.
func (l *Ledger) IsOpen(key coordinator.TaskKey) bool {
	r := l.find(key)
	return r != nil && r.state == resOpen
}

// NodeID names a node by its ID.
func (l *Ledger) NodeID(n int32) string { return l.nodes[n].spec.ID }

// KindOf returns what the node of that ID stands for.
func (l *Ledger) KindOf(id string) coordinator.QuotaKind {
	if n, ok := l.byID[id]; ok {
		return l.nodes[n].spec.Kind
	}
	return coordinator.QuotaPool
}

// GroupOf returns the group of a node, or of an agent's; "" for one above all groups.
func (l *Ledger) GroupOf(n int32) string { return l.groupOf(n) }

// GroupNode returns the group's node of an agent's, and any other node itself, by their IDs.
func (l *Ledger) GroupNode(id string) string {
	if n, ok := l.byID[id]; ok && l.nodes[n].spec.Kind == coordinator.QuotaAgent {
		return l.nodes[l.nodes[n].parent].spec.ID
	}
	return id
}

// borrowPriority returns the group's place, higher first, among those that wait for something to
// borrow.
func (l *Ledger) borrowPriority(group string) int {
	if n, ok := l.groups[group]; ok {
		return l.nodes[n].spec.Borrowing.Priority
	}
	return 0
}

// Divided reports whether any node below that one has a limit of that kind of its own. It takes
// O(nodes · levels).
func (l *Ledger) Divided(id string, kind Limit, d coordinator.Dimension) bool {
	top, ok := l.byID[id]
	if !ok {
		return false
	}
	for i := range l.nodes {
		nd := &l.nodes[i]
		if kind == LimitBudget && nd.budgets[d] == nil || kind == LimitRate && nd.rates[d] == nil || kind == LimitSeats &&
			nd.seats == nil {
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
