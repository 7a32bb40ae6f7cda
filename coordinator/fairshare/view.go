package fairshare

import (
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/fairshare/calendar"
	"taskbus/coordinator/fairshare/health"
	"taskbus/coordinator/fairshare/rates"
)

// NodeView is one node of a quota tree as it stands, for people and metrics.
type NodeView struct {
	ID, Name string
	Kind     coordinator.QuotaKind
	Parent   string // its id; empty: it is a root
	Provider string // that has the tree in which it is; empty: in the pool of no provider in particular
	Weight   int64
	// By dimension, of those in which there is a limit, in their order.
	Budgets []BudgetView
	Rates   []RateView
	Seats   *SeatsView // nil: no limit
	// Health is how its provider says that it stands; nil: nothing has been heard of it.
	Health *health.View
}

// BudgetView is a budget in its period.
type BudgetView struct {
	Dimension coordinator.Dimension
	// Nominal is what the node has for itself and those below it, Share what of that it has
	// given to none of them. Cap is what may be used in all: Nominal, and Borrowed of others,
	// less what is Lent to them.
	Nominal, Share, Cap int64
	// Used and Reserved by it and those below it.
	Used, Reserved int64
	Borrowed, Lent int64
	// Debt is what the node, those below it included, or its share is overdrawn by now, and what of it
	// was given up for the period before.
	Debt int64
	// Period, its id for people, from Start to End (which does not belong to it).
	Period     string
	Start, End time.Time
	// Used and still reserved of the period before.
	UsedBefore, ReservedBefore int64
}

// RateView is a rate: what is assured to the node, and what it may take while others leave
// theirs.
type RateView struct {
	Dimension coordinator.Dimension
	Amount    int64 // assured for every Per; 0: nothing is
	Per       time.Duration
	Burst     int64
	Remaining int64 // of what is assured, now, in one piece
	// Ceiling is the most that it may have for every Per; 0: as much as those above it.
	Ceiling int64
	// Debt is what was used and never let pass: so much must flow in of what is assured, or by its
	// ceiling if there it is more, before anything passes by that.
	Debt int64
}

// SeatsView is how much may run at one time.
type SeatsView struct {
	Nominal   int64
	Running   int64 // of it and those below it
	Waiting   int64
	Available int64 // how many more may run, but for those that go first
}

// View returns all nodes, parents before children. Nothing changes but the time. It takes
// O(nodes · dimensions).
func (l *Ledger) View(now time.Time) []NodeView {
	l.advance(now.UnixNano())
	all := make([]NodeView, len(l.nodes))
	for i := range l.nodes {
		all[i] = l.view(&l.nodes[i])
	}
	return all
}

// Node gives one node by its ID.
func (l *Ledger) Node(now time.Time, id string) (NodeView, bool) {
	l.advance(now.UnixNano())
	i, ok := l.byID[id]
	if !ok {
		return NodeView{}, false
	}
	return l.view(&l.nodes[i]), true
}

// Nodes gives those of these IDs that there are. It takes O(IDs).
func (l *Ledger) Nodes(now time.Time, ids []string) (nodes []NodeView) {
	for _, id := range ids {
		if n, ok := l.Node(now, id); ok {
			nodes = append(nodes, n)
		}
	}
	return nodes
}

// InUse reports whether any of a node's budget in that dimension, or any of its seats, is set aside
// for what runs, and may come back when that ends. It is false for other limits.
func (l *Ledger) InUse(id string, by Limit, d coordinator.Dimension) bool {
	i, ok := l.byID[id]
	if !ok {
		return false
	}
	nd := &l.nodes[i]
	switch by {
	case LimitSeats:
		return nd.seats != nil && nd.seats.Running > 0
	case LimitBudget:
		return nd.budgets[d] != nil && nd.budgets[d].reserved.sum() > 0
	}
	return false
}

// PeriodEnd returns when the node's budget in that dimension begins anew; zero: it has none.
func (l *Ledger) PeriodEnd(id string, d coordinator.Dimension) time.Time {
	if i, ok := l.byID[id]; ok {
		if b := l.nodes[i].budgets[d]; b != nil {
			return timeOf(b.family.span.End)
		}
	}
	return time.Time{}
}

func (l *Ledger) view(nd *node) NodeView {
	v := NodeView{ID: nd.spec.ID, Name: nd.spec.Name, Kind: nd.spec.Kind, Provider: nd.spec.Provider,
		Weight: nd.spec.Weight}
	if nd.parent >= 0 {
		v.Parent = l.nodes[nd.parent].spec.ID
	}
	for d := range coordinator.Dimension(coordinator.NumDimensions) {
		if b := nd.budgets[d]; b != nil {
			v.Budgets = append(v.Budgets, b.view())
		}
		if s := nd.rates[d]; s != nil {
			v.Rates = append(v.Rates, rateView(s, l.now, d))
		}
	}
	if s := nd.seats; s != nil {
		v.Seats = &SeatsView{Nominal: s.Nominal, Running: s.Running, Waiting: s.Waiting,
			Available: max(0, s.Available())}
	}
	if !nd.health.Well(l.now) {
		h := nd.health.View(l.now)
		v.Health = &h
	}
	return v
}

func (b *budget) view() BudgetView {
	f := b.family
	return BudgetView{
		Dimension: b.dim, Nominal: b.nominal, Share: b.share, Cap: b.cap(), Used: b.used, Reserved: b.reserved.sum(),
		Borrowed: b.borrowedIn, Lent: b.lentOut, Debt: max(0, -b.room(), -b.left()) + b.owes,
		Period: calendar.Name(f.period, f.span, f.loc), Start: timeOf(f.span.Start), End: timeOf(f.span.End),
		UsedBefore: b.before.used, ReservedBefore: b.before.reserved.sum(),
	}
}

func rateView(s *rates.Shaper, now int64, d coordinator.Dimension) RateView {
	return RateView{Dimension: d, Amount: s.Amount, Per: s.Per, Burst: s.Burst, Remaining: s.Level(now),
		Ceiling: s.Ceiling.Amount, Debt: max(s.Assured.Debt(now), s.Ceiling.Debt(now))}
}
