package engine

import (
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/engine/internal/admission"
	"taskbus/coordinator/fairshare"
)

// LLM quotas. A task is given to an agent only when its group has quota for it: that is set
// aside before the dispatch, and settled when the dispatch ends. What a task will take is
// estimated (fairshare.Estimator); what it has taken is in its agent's result.
//
// Quota for a dispatch stands under its dispatch id. It ends
//
//	with a result that ends the task    settled at the reported usage, else at what was set aside
//	given back, never begun             released
//	given back, begun; overdue; gone    expired: free again, and charged if the usage is reported
//	never published                     released
type quotas struct {
	ledger    *fairshare.Ledger
	shares    *fairshare.Shares
	estimator *fairshare.Estimator
	waits     *admission.Waits
	view      admission.View // of this engine
	alerts    []fairshare.Alert
	// estimates are rows of what was learnt before, while they are folded.
	estimates []fairshare.EstimatorRow
	image     *fairshare.SharesImage // likewise of the turns
	// byAgent are the agents that have quota of their own, by group; all of them under "".
	byAgent map[string][]coordinator.AgentID
	// serving are the levels of what waits that the agent at hand could serve, a bit each.
	serving uint8
	given   uint64 // how many tasks have been given quota
	// retried are the classes of waits that were removed for one agent, and that others may serve yet.
	retried []*class
	claimed bool // a wait was removed whose task an agent may claim
	// servedAt is when a leaf was given quota last, since the quotas were installed.
	servedAt map[int]time.Time
	lost     []coordinator.TaskKey // reservations that no dispatch has
	due      timer
	flow     quotaFlow
}

func newQuotas() quotas {
	shares := fairshare.NewShares()
	shares.DebtCap, shares.LagCap = fairshare.CostCap, fairshare.CostCap
	ledger := fairshare.NewLedger()
	return quotas{
		ledger: ledger, shares: shares, estimator: fairshare.NewEstimator(),
		waits:    admission.New(ledger, shares),
		due:      newTimer(dutyQuota, nil, nil),
		flow:     newQuotaFlow(),
		servedAt: make(map[int]time.Time),
	}
}

// quotaHold is what a task has to do with quotas: what it will take, and what is set aside
// for the dispatch at hand.
type quotaHold struct {
	charge fairshare.Charge
	usual  coordinator.Amounts // what such tasks take in the mean
	key    coordinator.TaskKey // of the reservation
	open   bool                // its turn has been charged, and quota may be set aside
	took   time.Duration       // how long its agent worked, as reported; 0: not reported
	// models are how those were judged that it may go to, when one was chosen last; nil: it has no choice.
	models *coordinator.RouteChoice
}

// under takes over the quotas of a policy, and reports whether they are others.
func (q *quotas) under(now time.Time, p *coordinator.Policy) (others bool) {
	q.shares.Order(p.Settings.Priorities)
	if (p.Quotas == nil) != (q.ledger.Quotas() == nil) {
		q.shares.ForgetPriorities() // without quotas nothing is written down of their turns
	}
	if p.Quotas == q.ledger.Quotas() { // the shares are of the same groups, too
		return false
	}
	q.ledger.Install(now, p.Quotas)
	q.byAgent = agentsOwn(p.Quotas)
	q.waits.Installed()
	clear(q.servedAt)
	var groups []fairshare.ShareNode
	if p.Quotas != nil {
		groups = fairshare.GroupsOf(p.Quotas)
		q.estimator.SetDefaultOutput(p.Quotas.DefaultOutput)
	}
	if err := q.shares.Install(groups); err != nil {
		panic(err) // a policy has been validated
	}
	return true
}

// quotaDemand is what the task will probably take; nil where there are no quotas.
func (e *Engine) quotaDemand(t *openTask) *quotaHold {
	q := &e.quotas
	if !q.ledger.Installed() {
		return nil
	}
	if t.quota == nil {
		t.quota = &quotaHold{}
		t.quota.charge, t.quota.usual = e.demandAt(t, coordinator.Service{})
	}
	return t.quota
}

// poolOf names the provider's pool that the task is charged to, or all that it may be charged to; empty: none.
func (e *Engine) poolOf(t *openTask) string {
	if h := e.quotaDemand(t); h != nil {
		if several := routesKey(t.task.Alternatives); several != "" {
			return several
		}
		return e.quotas.ledger.PoolOf(&h.charge)
	}
	return ""
}

// takesNoTokens reports whether the task takes neither tokens nor money, where there are quotas.
func (e *Engine) takesNoTokens(t *openTask) bool {
	h := e.quotaDemand(t)
	return h != nil && h.charge.Amounts[coordinator.DimTotalTokens] == 0 && h.charge.Amounts[coordinator.DimCost] == 0
}

// reserveQuota sets quota aside for giving the task to the agent now, and charges the turns of its
// group and its priority. A refusal changes nothing.
func (e *Engine) reserveQuota(now time.Time, t *openTask, a *agent) fairshare.Verdict {
	h, q, level := e.quotaDemand(t), &e.quotas, levelOf(t)
	waiting := q.serving | 1<<level
	switch {
	case h == nil:
		q.shares.Served(level, waiting)
		return fairshare.Verdict{OK: true}
	case h.open:
		return fairshare.Verdict{OK: true}
	}
	if routes := e.routesOfTask(t); routes != nil {
		x := e.chooseFor(now, t, a.Spec.ID, routes)
		h.take(&x)
	}
	q.ledger.GiveTo(a.Spec.ID, &h.charge, &h.usual, t.task.Type, t.task.EstimatedUsage)
	if v, behind := q.waits.Ahead(now, h.charge, level); behind {
		return v
	}
	h.key = coordinator.KeyOf(coordinator.TaskID(coordinator.AttemptID(t.task.ID, t.attempt)))
	v := q.ledger.Reserve(now, h.key, &h.charge, time.Time{})
	if v.Known && !v.OK { // of a life of the task that is forgotten
		q.ledger.Forget(h.key)
		v = q.ledger.Reserve(now, h.key, &h.charge, time.Time{})
	}
	if !v.OK {
		q.ledger.Lacks(now, &h.charge)
		e.quotaAlerts()
		return v
	}
	h.open = true
	q.given++
	e.unpriced(&h.charge, false)
	q.servedAt[e.leafOf(t)] = now
	if v.Charged {
		e.recordReserved(now, h, coordinator.Priority(level), waiting)
		e.quotaAlerts()
	}
	q.dispatched(now, h.charge.Group, h.charge.Expect)
	q.shares.Served(level, waiting)
	return fairshare.Verdict{OK: true}
}

func (e *Engine) recordReserved(now time.Time, h *quotaHold, level coordinator.Priority, waiting uint8) {
	if !e.recorder.on {
		return
	}
	r := h.charge.Reserved(h.key, now)
	r.Level, r.Waiting = level, waiting
	e.record(r)
}
