package admission

import (
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/engine/internal/flow"
	"taskbus/coordinator/fairshare"
	"taskbus/coordinator/fairshare/billing"
	"taskbus/coordinator/fairshare/estimates"
	"taskbus/coordinator/fairshare/fairqueue"
)

// Quotas is what tasks may use of LLM quotas, what is reserved for those that were dispatched, and what waits
// for some. It is for one goroutine. Its parts are for reading; what they are changed by is here.
type Quotas struct {
	Ledger    *fairshare.Ledger
	Shares    *fairqueue.Shares
	Estimator *estimates.Estimator
	Waits     *Waits
	// Flow and Refused are for views: what was dispatched lately, and how often quota was refused since the start.
	Flow    flow.Flow
	Refused Refusals
	// Given is how many tasks have been given quota.
	Given uint64

	// owners are the agents that have quota of their own, by group; all of them under "".
	owners map[string][]coordinator.AgentID
	// servedAt is when a tenant queue was given quota last, since the quotas were installed.
	servedAt map[int]time.Time
	lost     []coordinator.TaskKey // reservations that no dispatch has
	adopted  map[coordinator.TaskKey]bool
	alerts   []fairshare.Alert // room for Alerts
	// estimates and turns are rows of what was learnt before, while they are folded.
	estimates []estimates.Row
	turns     *fairqueue.Image
}

// Refusals counts tasks that had to wait, or failed, for want of quota: by fairshare.Limit and dimension.
type Refusals [fairshare.NumLimits][coordinator.NumDimensions]uint64

// NewQuotas returns Quotas without limits. before is the order of the tasks of one tenant queue and level.
func NewQuotas(before func(a, b any) bool) *Quotas {
	q := &Quotas{
		Ledger: fairshare.NewLedger(), Shares: fairqueue.NewShares(), Estimator: estimates.New(),
		Flow: flow.New(), servedAt: make(map[int]time.Time),
	}
	q.Shares.DebtCap, q.Shares.LagCap = billing.CostCap, billing.CostCap
	q.Waits = New(q.Ledger, q.Shares, before)
	return q
}

// Install takes over the quotas of a policy, and reports whether they are others.
func (q *Quotas) Install(now time.Time, p *coordinator.Policy) (others bool) {
	q.Shares.Order(p.Settings.Priorities)
	if (p.Quotas == nil) != (q.Ledger.Quotas() == nil) {
		q.Shares.ForgetPriorities() // without quotas nothing is written down of their turns
	}
	if p.Quotas == q.Ledger.Quotas() { // the shares are of the same groups, too
		return false
	}
	q.Ledger.Install(now, p.Quotas)
	q.owners = ownersIn(p.Quotas)
	q.Waits.Installed()
	clear(q.servedAt)
	var groups []fairqueue.Node
	if p.Quotas != nil {
		groups = fairqueue.NodesOf(p.Quotas)
		q.Estimator.SetDefaultOutput(p.Quotas.DefaultOutput)
	}
	if err := q.Shares.Install(groups); err != nil {
		panic(err) // a policy has been validated
	}
	return true
}

// Installed reports whether there are quotas.
func (q *Quotas) Installed() bool { return q.Ledger.Installed() }

// Alerts returns the budgets that came to a threshold since they were asked for. Good until the next call.
func (q *Quotas) Alerts() []fairshare.Alert {
	q.alerts = q.Ledger.Alerts(q.alerts[:0])
	return q.alerts
}

// Due returns when quota may be back, or a reservation ends; false: never.
func (q *Quotas) Due() (at time.Time, ok bool) {
	at, ok = q.Ledger.NextDue()
	if x, due := q.Waits.Due(); due && (!ok || x.Before(at)) {
		at, ok = x, true
	}
	return at, ok
}

// MovedAt returns now if the quota that a tenant queue lacks comes back within the time soon, or something that has
// it runs; else when the queue was given quota last. (When a budget may be asked again says little: what could
// be borrowed may have gone to others by then.) false: there is some by now, and no agent.
func (q *Quotas) MovedAt(
	now time.Time, lacks *fairshare.Verdict, leaf int, soon time.Duration,
) (at time.Time, still bool) {
	inUse := func(node string) bool { return q.Ledger.InUse(node, lacks.Limit, lacks.Dimension) }
	switch lacks.Limit {
	case fairshare.LimitRate, fairshare.LimitProvider:
		if lacks.RetryAt.Sub(now) <= soon { // zero: when those before it have had theirs
			return now, lacks.RetryAt.After(now)
		}
	case fairshare.LimitSeats:
		return now, inUse(lacks.Node) || inUse(lacks.Behind)
	case fairshare.LimitBudget:
		if inUse(lacks.Node) || q.Ledger.PeriodEnd(lacks.Node, lacks.Dimension).Sub(now) <= soon {
			return now, true
		}
	}
	return q.servedAt[leaf], true
}
