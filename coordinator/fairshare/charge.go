package fairshare

import (
	"math/bits"

	"taskbus/coordinator"
	"taskbus/coordinator/fairshare/arith"
	"taskbus/coordinator/fairshare/billing"
	"taskbus/coordinator/fairshare/estimates"
)

// Demand is the charge for a task of a group before it has run: what its producer states, and
// for what it does not state, what such tasks have taken so far. A task of which nothing says that it
// uses an LLM (it names no provider or model and states no tokens, and none were reported for tasks of its
// type), or of which noTokens does, takes no tokens. The amounts to be reserved
// are 90th percentiles, but no more than any limit allows at one time (see Bound). usual is by the
// means, and Expect what that counts for.
func (l *Ledger) Demand(group, taskType string, u *coordinator.Usage, noTokens bool, e *estimates.Estimator) (c Charge,
	usual coordinator.Amounts) {
	c, usual, guessed := l.ForTask(group, taskType, u, noTokens, e)
	l.Bound(&c, guessed)
	return c, usual
}

// GiveTo has a charge for a task, and what is usual for it, be those of giving it to an agent. A task
// without a group is charged to the group of its agent, so that it costs what that one's model does,
// unless it states its cost.
func (l *Ledger) GiveTo(agent coordinator.AgentID, c *Charge, usual *coordinator.Amounts, taskType string,
	u *coordinator.Usage) {
	guessed := l.AssignTo(agent, c, usual, taskType, u)
	l.bound(c, c, guessed)
}

// Bound takes down what is only estimated to what the limits of the group, and those above it, allow
// at one time: a guess must not keep anything out for good, and must not take down what is stated either.
func (l *Ledger) Bound(c *Charge, guessed billing.Guessed) {
	of := *c
	of.Agent = "" // it is not known yet which agent will have the task
	l.bound(c, &of, guessed)
}

// bound is Bound by the limits of another charge's path.
func (l *Ledger) bound(c, of *Charge, guessed billing.Guessed) {
	if guessed.Of == 0 {
		return
	}
	p := l.PathOf(of)
	for m := guessed.Of; m != 0; m &= m - 1 {
		d := bits.TrailingZeros8(m)
		c.Amounts[d] = max(guessed.Sure[d], min(c.Amounts[d], max(1, l.ever(&p, coordinator.Dimension(d)))))
	}
}

// ever returns how much of a dimension the path allows at one time, at most.
func (l *Ledger) ever(p *Path, d coordinator.Dimension) int64 {
	most := arith.NoBound
	l.walk()
	for _, n := range p.Nodes() {
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
	if n, ok := l.GroupAt(group); ok {
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
		if kind == LimitBudget && nd.budgets[d] == nil || kind == LimitRate && nd.rates[d] == nil ||
			kind == LimitSeats && nd.seats == nil {
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
