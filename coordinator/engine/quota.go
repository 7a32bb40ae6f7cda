package engine

import (
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/engine/internal/admission"
	"taskbus/coordinator/fairshare"
)

// LLM quotas. A task is given to an agent only when its group has quota for it: that is reserved before the
// dispatch, and settled when the dispatch ends. internal/admission keeps what is reserved and what waits; here it
// is asked for, recorded and announced.
//
// Quota for a dispatch stands under its dispatch id. It ends
//
//	with a result that ends the task    settled at the reported usage, else at what was reserved
//	given back, never begun             released
//	given back, begun; overdue; gone    expired: free again, and charged if the usage is reported
//	never published                     released
type quotas struct {
	*admission.Quotas
	view   admission.View // of this engine
	number func(coordinator.AgentID) (int, bool)
	// serving are the levels of what waits that the agent at hand could serve, a bit each.
	serving uint8
	// retried are the classes of waits that were removed for one agent, and that others may serve yet.
	retried []*class
	claimed bool // a wait was removed whose task an agent may claim
	due     timer
}

// pending reports whether something may try again although nothing was given back.
func (q *quotas) pending() bool { return q.Waits.Pending() || len(q.retried) > 0 || q.claimed }

// quotaDemand is what the task will probably take; nil where there are no quotas.
func (e *Engine) quotaDemand(t *openTask) *admission.Hold {
	if !e.quotas.Installed() {
		return nil
	}
	if t.quota == nil {
		t.quota = e.quotas.Hold(t.task)
	}
	return t.quota
}

// reserveQuota reserves quota for giving the task to the agent now, and charges the turns of its
// group and its priority. A refusal changes nothing.
func (e *Engine) reserveQuota(now time.Time, t *openTask, a *agent) fairshare.Verdict {
	h, q, level := e.quotaDemand(t), &e.quotas, levelOf(t)
	waiting := q.serving | 1<<level
	if h != nil {
		if h.Open {
			return fairshare.Verdict{OK: true}
		}
		v := q.Reserve(now, t.task, t.attempt, h, a.Spec.ID)
		if !v.OK {
			e.quotaAlerts()
			return v
		}
		e.unpriced(&h.Charge, false)
		if v.Charged {
			if e.recorder.on {
				r := h.Charge.Reserved(h.Key, now)
				r.Level, r.Waiting = coordinator.Priority(level), waiting
				e.record(r)
			}
			e.quotaAlerts()
		}
	}
	q.Shares.Served(level, waiting)
	return fairshare.Verdict{OK: true}
}

// settleQuota settles what is reserved for a dispatch whose end its agent reports.
func (e *Engine) settleQuota(now time.Time, t *openTask, r *coordinator.Result) {
	h, q := t.quota, &e.quotas
	if h == nil || !h.Open {
		return
	}
	switch {
	case r.Usage != nil:
		if f, is := q.Ledger.UsageUnpriced(&h.Charge, t.task.Type, r.Usage, coordinator.WordOwn); is {
			e.emit(f)
		}
		e.quotaEnded(t.task.ID, q.Settle(now, h, t.task.Type, r))
	case r.Outcome == coordinator.OutcomeCancelled && !t.begun, r.Outcome == coordinator.OutcomeRejected && !r.Attempted:
		e.quotaEnded(t.task.ID, q.Release(now, h, r.Duration))
	default:
		e.quotaEnded(t.task.ID, q.SettleAsEstimated(now, h, r.Duration))
	}
}

// settleAsEstimated settles what is reserved for a dispatch whose usage will not be reported.
func (e *Engine) settleAsEstimated(t *openTask) {
	if h := t.quota; h != nil && h.Open {
		e.quotaEnded(t.task.ID, e.quotas.SettleAsEstimated(e.now, h, 0))
	}
}

// expireQuota ends what is reserved for a dispatch that ends without its usage being reported. If it
// is reported later, it is charged.
func (e *Engine) expireQuota(now time.Time, t *openTask) {
	if h := t.quota; h != nil && h.Open {
		e.quotaEnded(t.task.ID, e.quotas.Expire(now, h))
	}
}

// releaseUnpublished releases what is reserved for a dispatch that was never published, but of
// which an earlier copy may have been, under another attempt then.
func (e *Engine) releaseUnpublished(now time.Time, t *openTask) {
	if h := t.quota; h != nil && h.Open && !t.resumed {
		e.quotaEnded(t.task.ID, e.quotas.Release(now, h, 0))
	}
	e.expireQuota(now, t)
}

// releaseUnbegun releases what is reserved for a dispatch that came out of its agent's queue.
func (e *Engine) releaseUnbegun(now time.Time, t *openTask) {
	if h := t.quota; h != nil && h.Open && !t.begun && !t.unanswered {
		e.quotaEnded(t.task.ID, e.quotas.Release(now, h, 0))
	}
}

// settleLate charges usage that is reported after the quota of its dispatch had expired.
func (e *Engine) settleLate(now time.Time, r *coordinator.Result, attempt int) {
	if x, late := e.quotas.SettleLate(now, r, attempt); late {
		e.quotaEnded(r.Task, x)
	}
}

// quotaEnded records and announces how a reservation has ended. Usage that exceeds the trust limit, or by far what
// was reserved, is announced once for each dispatch.
func (e *Engine) quotaEnded(id coordinator.TaskID, x admission.End) {
	if x.Ended == nil { // nothing but its turn was charged
		return
	}
	if x.Excess.Used > 0 {
		e.emit(x.Excess.Effect(id, x.Charge, x.Ended))
	}
	e.countDay(x.Charge, x.Ended)
	e.record(x.Ended)
	e.quotaAlerts()
	if e.quotas.due.index < 0 { // it is to be forgotten in time
		e.scheduleQuota()
	}
}

// unpriced emits that a call or task, charged so, is of a model without a price where money is limited: it
// would get past that limit.
func (e *Engine) unpriced(c *fairshare.Charge, refused bool) {
	if f, is := e.quotas.Ledger.ModelUnpriced(c, refused); is {
		e.emit(f)
	}
}

// reviewQuotas emits budgets that have come to a threshold without any use: they are smaller now, or the
// leader before ended too soon to emit it. Without a session it would be lost: the next session does it.
func (e *Engine) reviewQuotas(now time.Time) {
	if e.connected && !e.following {
		e.quotas.Ledger.Review(now)
		e.quotaAlerts()
	}
}

// quotaAlerts emits budgets that are nearly, or quite, used up.
func (e *Engine) quotaAlerts() {
	for _, a := range e.quotas.Alerts() {
		e.record(a.Told(e.quotas.Ledger.Now()))
		if a.Echo {
			continue
		}
		e.emit(coordinator.QuotaReached{
			Node: a.Node, Dimension: a.Dimension, Percent: int(a.Percent), Used: a.Used, Cap: a.Cap, Ends: a.Ends,
			MayBorrow: a.MayBorrow,
		})
	}
}

// quotaDue ends reservations whose time is over without a report of how they went. Waiting tasks are served at the
// end of this moment's duties.
func (e *Engine) quotaDue(now time.Time) {
	q := &e.quotas
	for key, due := q.Ledger.Due(now); due; key, due = q.Ledger.Due(now) {
		c, _, _ := q.Ledger.Find(key)
		if c.Call {
			out := e.calls.Expire(now, key, &c)
			e.callsChanged(&out)
			continue
		}
		e.record(q.ExpireDue(now, key, &c))
	}
	e.quotaAlerts() // an expired call may be charged
}

// foldQuota takes over what is recorded of quotas.
func (e *Engine) foldQuota(r coordinator.Record) {
	if r, is := r.(*coordinator.QuotaReserved); is {
		e.calls.FoldNames(r)
	}
	x := e.quotas.Fold(r)
	if x.Renumbered {
		e.forgetClasses()
	}
	if x.Ended {
		e.countDay(&x.Charge, r.(*coordinator.QuotaEnded))
	}
}

// installFolded puts folded estimates and turns in their place.
func (e *Engine) installFolded() {
	if e.quotas.InstallFolded() {
		e.forgetClasses()
	}
}

// forgetClasses has the classes made anew: their tenant queues have other numbers. Nothing waits yet.
func (e *Engine) forgetClasses() {
	e.pending.Forget()
	e.routes = make(map[string]*requirements)
}

// adoptReservations gives the dispatches of the leader before what is reserved for them.
func (e *Engine) adoptReservations() {
	q := &e.quotas
	e.installFolded()
	q.Ledger.Install(e.now, q.Ledger.Quotas()) // a snapshot may be from the time of others
	held := make(map[coordinator.TaskKey]bool)
	for _, t := range e.tasks.all {
		if t == nil || t.state < stateDispatching || t.Over {
			continue
		}
		key := admission.KeyOf(t.task.ID, t.attempt)
		if h := q.Adopt(key); h != nil {
			t.quota, held[key] = h, true
		}
	}
	q.Adopted(e.now, held)
}

// quotaTime is when the ledger is to be read, or goes on under other quotas: a follower must not get ahead of what
// it folds, or it would count it in another period than the leader does.
func (e *Engine) quotaTime(now time.Time) time.Time {
	if e.following && !e.quotas.Ledger.Fresh() {
		return e.quotas.Ledger.Now()
	}
	return now
}

// serviceOf returns the model that an agent is to use for the task; zero: the task names no alternatives. A
// dispatch that is sent again names the model that it named before. Without quotas there is no criterion for the
// choice, and it is the first.
func (e *Engine) serviceOf(t *openTask) coordinator.Service {
	switch all := t.task.Alternatives; {
	case len(all) == 0:
		return coordinator.Service{}
	case t.resumed && t.service != coordinator.Service{}:
		return t.service
	case t.quota == nil:
		return all[0]
	}
	return coordinator.Service{Provider: t.quota.Charge.Provider, Model: t.quota.Charge.Model}
}

// modelsOf is how the models were judged of which the one was chosen that the task goes to; nil: it has no
// choice, or the leader before has chosen.
func (t *openTask) modelsOf() *coordinator.RouteChoice {
	if t.quota == nil {
		return nil
	}
	return t.quota.Models
}

// leafOf returns the tenant queue whose turn the task is charged to.
func (e *Engine) leafOf(t *openTask) int { return e.quotas.Shares.Leaf(t.task.Group) }

// levelOf is the task's place among the priorities.
func levelOf(t *openTask) int { return int(t.task.Priority) }
