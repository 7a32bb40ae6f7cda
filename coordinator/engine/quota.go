package engine

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/fairshare"
)

// LLM quotas. A task is given to an agent only when its group has quota for it: that is set
// aside before the dispatch, and settled when the dispatch ends. What a task will take is
// estimated (fairshare.Estimator); what it has taken, its agent's result says.
//
// Quota for a dispatch stands under its dispatch id. It ends
//
//	with a result that ends the task    settled at the usage it tells, else at what was set aside
//	given back, never begun             released
//	given back, begun; overdue; gone    expired: free again, and charged should the usage be told
//	never published                     released
type quotas struct {
	ledger    *fairshare.Ledger
	shares    *fairshare.Shares
	estimator *fairshare.Estimator
	waits     quotaWaits
	alerts    []fairshare.Alert
	// estimates are rows of what was learnt before, while they are folded.
	estimates []fairshare.EstimatorRow
	image     *fairshare.SharesImage // likewise of whose turn it was
	due       timer
	rung      bool // it has been due in this Apply
}

func newQuotas() quotas {
	shares := fairshare.NewShares()
	shares.DebtCap, shares.LagCap = fairshare.MostCost, fairshare.MostCost
	return quotas{
		ledger: fairshare.NewLedger(), shares: shares, estimator: fairshare.NewEstimator(),
		waits: newQuotaWaits(),
		due:   newTimer(dutyQuota, nil, nil),
	}
}

// quotaHold is what a task has to do with quotas: what it will take, and what is set aside
// for the dispatch at hand.
type quotaHold struct {
	charge fairshare.Charge
	key    coordinator.TaskKey // of the reservation
	open   bool                // its turn has been charged, and quota may be set aside
}

// under takes over the quotas of a policy.
func (q *quotas) under(now time.Time, p *coordinator.Policy) {
	if p.Quotas == q.ledger.Quotas() { // the shares are of the same groups, too
		return
	}
	q.ledger.Install(now, p.Quotas)
	groups, low := []fairshare.ShareNode(nil), int64(0)
	if p.Quotas != nil {
		groups, low = fairshare.GroupsOf(p.Quotas), p.Quotas.LowPercent
		q.estimator.SetDefaultOutput(p.Quotas.DefaultOutput)
	}
	if err := q.shares.Install(groups, low); err != nil {
		panic(err) // a policy has been validated
	}
}

// quotaDemand is what the task will probably take; nil where there are no quotas.
func (e *Engine) quotaDemand(t *openTask) *quotaHold {
	q := &e.quotas
	if !q.ledger.Installed() {
		return nil
	}
	if t.quota == nil {
		t.quota = &quotaHold{charge: q.ledger.Demand(t.task.Group, t.task.Type, t.task.EstimatedUsage, q.estimator)}
	}
	return t.quota
}

// poolOf names the provider's pool that the task is charged to; empty: none.
func (e *Engine) poolOf(t *openTask) string {
	if h := e.quotaDemand(t); h != nil {
		return e.quotas.ledger.PoolOf(&h.charge)
	}
	return ""
}

// afford sets quota aside for giving the task to the agent now, and charges its group's
// turn. A refusal changes nothing.
func (e *Engine) afford(now time.Time, t *openTask, a *agent) fairshare.Verdict {
	h, q := e.quotaDemand(t), &e.quotas
	if h == nil || h.open {
		return fairshare.Verdict{OK: true}
	}
	h.charge.Agent = a.spec.ID
	h.key = coordinator.KeyOf(coordinator.TaskID(coordinator.DispatchID(t.task.ID, t.attempt)))
	v := q.ledger.Reserve(now, h.key, &h.charge, time.Time{})
	if !v.OK && !v.Known {
		return v
	}
	h.open = true
	if v.Charged {
		e.recordReserved(now, h)
		e.quotaAlerts()
	}
	q.shares.Charge(q.shares.Leaf(h.charge.Group), h.charge.Expect)
	level := e.levelOf(t)
	q.shares.Served(level, t.needs.class.waiting.Serving()|1<<level)
	return fairshare.Verdict{OK: true}
}

func (e *Engine) recordReserved(now time.Time, h *quotaHold) {
	if !e.recorder.on {
		return
	}
	c := &h.charge
	e.record(&coordinator.QuotaReserved{
		Key: h.key, Group: c.Group, Agent: c.Agent, Provider: c.Provider, Model: c.Model,
		Amounts: c.Amounts, Expect: c.Expect, At: now,
	})
}

// assign gives the task to this very agent if there is quota for it; else the task waits, or
// fails because there never will be, and false is returned.
func (e *Engine) assign(now time.Time, t *openTask, a *agent, d *coordinator.Decision) bool {
	v := e.afford(now, t, a)
	switch {
	case v.OK:
		e.dispatch(now, t, a, d)
	case !v.Permanent && e.lacksOwn(&v):
		e.wait(now, t) // another agent may have quota of its own
	default:
		e.lacksQuota(now, t, &v)
	}
	return v.OK
}

// lacksOwn tells whether it is the agent's own quota that is used up.
func (e *Engine) lacksOwn(v *fairshare.Verdict) bool {
	return e.quotas.ledger.KindOf(v.Node) == coordinator.QuotaAgent
}

// mostAgentsTried is how many agents are tried for a task whose own quotas are used up.
const mostAgentsTried = 8

// assignBest gives the task to the agent that was chosen for it or, if that has no quota of
// its own left, to the next best that has. It returns who has it; nil: nobody.
func (e *Engine) assignBest(now time.Time, t *openTask, a *agent, d *coordinator.Decision) (*agent, *coordinator.Decision) {
	v := e.afford(now, t, a)
	var without bitset
	for tries := 1; !v.OK && e.lacksOwn(&v) && tries < mostAgentsTried; tries++ {
		if without == nil {
			without = slices.Clone(t.needs.class.usable)
		}
		without.clear(a.number)
		q := e.question(t)
		q.feasible = without
		other, decision := e.fleet.choose(q)
		if other == nil {
			break
		}
		a, d = other, decision
		v = e.afford(now, t, a)
	}
	if !v.OK {
		e.lacksQuota(now, t, &v)
		return nil, nil
	}
	e.dispatch(now, t, a, d)
	return a, d
}

// settleQuota settles what was set aside for a dispatch whose end its agent tells.
func (e *Engine) settleQuota(now time.Time, t *openTask, r *coordinator.Result) {
	h, q := t.quota, &e.quotas
	if h == nil || !h.open {
		return
	}
	switch {
	case r.Usage != nil:
		used := q.ledger.Used(h.charge.Group, t.task.Type, r.Usage)
		e.endQuota(now, t, coordinator.QuotaSettled, used, t.task.Type)
	case r.Outcome == coordinator.OutcomeCancelled && !t.begun, r.Outcome == coordinator.OutcomeRejected && !r.Attempted:
		e.endQuota(now, t, coordinator.QuotaReleased, coordinator.Amounts{}, "")
	default:
		e.quotaAsThought(t)
	}
}

// quotaAsThought settles what was set aside for a dispatch of which nobody will say what it
// took: as much as was thought.
func (e *Engine) quotaAsThought(t *openTask) {
	if h := t.quota; h != nil && h.open {
		used := h.charge.Amounts
		used[coordinator.DimConcurrency] = 0
		e.endQuota(e.now, t, coordinator.QuotaSettled, used, "")
	}
}

// freeQuota ends what was set aside for a dispatch that ends without a word of how much it
// took: nothing, if it was never begun.
func (e *Engine) freeQuota(now time.Time, t *openTask) {
	if h := t.quota; h == nil || !h.open {
		return
	}
	if t.begun {
		e.endQuota(now, t, coordinator.QuotaExpired, coordinator.Amounts{}, "")
	} else {
		e.endQuota(now, t, coordinator.QuotaReleased, coordinator.Amounts{}, "")
	}
}

// endQuota ends it. The estimator learns from what was used by a task of a type that is
// given.
func (e *Engine) endQuota(now time.Time, t *openTask, how coordinator.QuotaEnd, used coordinator.Amounts, taskType string) {
	h, q := t.quota, &e.quotas
	h.open = false
	ended := &coordinator.QuotaEnded{Key: h.key, How: how, Used: used, At: now, Type: taskType}
	_, open, _ := q.ledger.Find(h.key)
	e.turnKnown(&h.charge, h.charge.Expect, ended)
	if !open { // nothing but its turn was charged
		return
	}
	switch how {
	case coordinator.QuotaSettled:
		q.ledger.Settle(now, h.key, used, false)
		q.observe(&h.charge, ended)
	case coordinator.QuotaReleased:
		q.ledger.Release(now, h.key, false)
	case coordinator.QuotaExpired:
		q.ledger.Expire(now, h.key)
	}
	e.record(ended)
	e.quotaAlerts()
}

// turnKnown puts right what a group's turn was charged for a task.
func (e *Engine) turnKnown(c *fairshare.Charge, expected int64, ended *coordinator.QuotaEnded) {
	q, actual := &e.quotas, int64(0)
	if ended.How == coordinator.QuotaSettled {
		p := q.ledger.PathOf(c)
		actual = q.ledger.Weigh(&p, &ended.Used)
	}
	q.shares.Correct(q.shares.Leaf(c.Group), expected, actual)
}

// observe learns from what was used.
func (q *quotas) observe(c *fairshare.Charge, ended *coordinator.QuotaEnded) {
	if ended.Type != "" {
		c.Observe(q.estimator, ended.Type, &ended.Used)
	}
}

// settleLate charges what a dispatch has taken whose quota had expired.
func (e *Engine) settleLate(now time.Time, r *coordinator.Result, attempt int) {
	q := &e.quotas
	if r.Usage == nil || attempt <= 0 || !q.ledger.Installed() {
		return
	}
	key := coordinator.KeyOf(coordinator.TaskID(coordinator.DispatchID(r.Task, attempt)))
	c, _, known := q.ledger.Find(key)
	if !known {
		return
	}
	used := q.ledger.Used(c.Group, "", r.Usage)
	if !q.ledger.Settle(now, key, used, true).Late {
		return
	}
	ended := &coordinator.QuotaEnded{Key: key, How: coordinator.QuotaSettled, Used: used, At: now, Keep: true}
	e.turnKnown(&c, 0, ended)
	e.record(ended)
	e.quotaAlerts()
}

// quotaAlerts tells the world of budgets that are nearly, or quite, used up.
func (e *Engine) quotaAlerts() {
	q := &e.quotas
	q.alerts = q.ledger.Alerts(q.alerts[:0])
	for _, a := range q.alerts {
		e.emit(coordinator.QuotaReached{Node: a.Node, Dimension: a.Dimension, Percent: int(a.Percent), Used: a.Used, Cap: a.Cap, Ends: a.Ends})
	}
}

// foldQuota takes over what is recorded of quotas.
func (e *Engine) foldQuota(r coordinator.Record) {
	q := &e.quotas
	switch r := r.(type) {
	case *coordinator.QuotaReserved:
		q.ledger.Fold(r)
		if !r.Before {
			e.recallQuotas()
			q.shares.Charge(q.shares.Leaf(r.Group), r.Expect)
		}
	case *coordinator.QuotaEnded:
		e.recallQuotas()
		c, _, known := q.ledger.Find(r.Key)
		q.ledger.Fold(r)
		if !known {
			return
		}
		expected := c.Expect
		if r.Keep {
			expected = 0 // it was late, and had been put right before
		}
		e.turnKnown(&c, expected, r)
		q.observe(&c, r)
	case *coordinator.QuotaExtended, *coordinator.QuotaBefore:
		q.ledger.Fold(r)
	case *coordinator.EstimateBefore:
		if r.First {
			q.estimates = q.estimates[:0]
		}
		q.estimates = append(q.estimates, rowOf(r))
	case *coordinator.ShareBefore:
		q.shareRow(r)
	}
}

// recallQuotas puts what was learnt of usage, and whose turn it was, in its place, once all
// of it is there.
func (e *Engine) recallQuotas() {
	q := &e.quotas
	if len(q.estimates) > 0 {
		_ = q.estimator.Import(q.estimates) // what cannot have been learnt is learnt anew
		q.estimates = nil
	}
	if q.image == nil {
		return
	}
	q.shares.Import(*q.image)
	q.image = nil
	// Nothing waits yet. The classes are made anew: their leaves have other numbers.
	e.pending.classes, e.routes = make(map[string]*class), make(map[string]*requirements)
}

// holdQuotas gives the dispatches of the leader before what is set aside for them.
func (e *Engine) holdQuotas() {
	e.recallQuotas()
	if !e.quotas.ledger.Installed() {
		return
	}
	for _, t := range e.tasks.all {
		if t == nil || t.state < stateDispatching || t.over {
			continue
		}
		key := coordinator.KeyOf(coordinator.TaskID(t.dispatchID))
		if c, open, _ := e.quotas.ledger.Find(key); open {
			t.quota = &quotaHold{charge: c, key: key, open: true}
		}
	}
}

func (e *Engine) imageQuotas(m *Image) {
	q := &e.quotas
	if !q.ledger.Installed() {
		return
	}
	m.others = append(m.others, q.ledger.Export(m.at)...)
	for i, row := range q.estimator.Export() {
		m.others = append(m.others, recordOf(row, i == 0))
	}
	shares := q.shares.Export()
	m.others = append(m.others, &coordinator.ShareBefore{First: true, Values: append([]int64{shares.Owed}, shares.Passed[:]...)})
	for _, t := range shares.Tags {
		m.others = append(m.others, &coordinator.ShareBefore{
			Group: t.Name, Parent: t.Parent, Own: t.Own,
			Values: []int64{t.Weight, t.Lead, t.Base, t.Rest, t.Time[0], t.Time[1], int64(t.Open)},
		})
	}
}

// shareRow collects one row of whose turn it was.
func (q *quotas) shareRow(r *coordinator.ShareBefore) {
	v := r.Values
	switch {
	case r.First && len(v) == 1+fairshare.Levels:
		q.image = &fairshare.SharesImage{Owed: v[0]}
		copy(q.image.Passed[:], v[1:])
	case q.image != nil && len(v) == 7:
		q.image.Tags = append(q.image.Tags, fairshare.Tags{
			Name: r.Group, Parent: r.Parent, Own: r.Own,
			Weight: v[0], Lead: v[1], Base: v[2], Rest: v[3], Time: [2]int64{v[4], v[5]}, Open: int32(v[6]),
		})
	}
}

func rowOf(r *coordinator.EstimateBefore) fairshare.EstimatorRow {
	return fairshare.EstimatorRow{
		Tenant: r.Tenant, Model: r.Model, Level: fairshare.EstimateLevel(r.Level), Input: r.Input, Bucket: r.Bucket, Sum: r.Sum, Counts: r.Counts,
	}
}

func recordOf(r fairshare.EstimatorRow, first bool) *coordinator.EstimateBefore {
	return &coordinator.EstimateBefore{
		First: first, Tenant: r.Tenant, Model: r.Model, Level: uint8(r.Level), Input: r.Input, Bucket: r.Bucket, Sum: r.Sum, Counts: r.Counts,
	}
}

// describeLack says for people what quota a task waits for.
func describeLack(v *fairshare.Verdict) string {
	var b strings.Builder
	fmt.Fprintf(&b, "the %s of %s in %s is used up", v.Limit, v.Node, v.Dimension)
	switch {
	case v.Permanent:
		b.Reset()
		fmt.Fprintf(&b, "it needs more %s at once than the %s of %s ever allows", v.Dimension, v.Limit, v.Node)
	case !v.RetryAt.IsZero():
		fmt.Fprintf(&b, "; back at %s", v.RetryAt.UTC().Format(time.RFC3339))
	default:
		b.WriteString("; back when something of it ends")
	}
	return b.String()
}
