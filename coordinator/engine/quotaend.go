package engine

import (
	"cmp"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/fairshare"
)

// settleQuota settles what was set aside for a dispatch whose end its agent reports.
func (e *Engine) settleQuota(now time.Time, t *openTask, r *coordinator.Result) {
	h, q := t.quota, &e.quotas
	if h == nil || !h.open {
		return
	}
	h.took = r.Duration
	switch {
	case r.Usage != nil:
		if f, is := q.ledger.UsageUnpriced(&h.charge, t.task.Type, r.Usage, coordinator.WordOwn); is {
			e.emit(f)
		}
		ended, x := q.settlement(now, h.key, q.ledger.Used(&h.charge, t.task.Type, r.Usage, coordinator.WordOwn))
		if ended.Told == (coordinator.Amounts{}) { // else nothing is to be learnt from it
			ended.Type = t.task.Type
		}
		q.flow.settled(now, &h.charge.Amounts, &ended.Used)
		e.endQuota(now, t, ended, x)
	case r.Outcome == coordinator.OutcomeCancelled && !t.begun, r.Outcome == coordinator.OutcomeRejected && !r.Attempted:
		e.endQuota(now, t, &coordinator.QuotaEnded{How: coordinator.QuotaReleased}, fairshare.Excess{})
	default:
		e.settleAsEstimated(t)
	}
}

// settleAsEstimated settles what was set aside for a dispatch whose usage will not be reported: at the
// estimate.
func (e *Engine) settleAsEstimated(t *openTask) {
	if h := t.quota; h != nil && h.open {
		used := h.usual
		used[coordinator.DimConcurrency] = 0
		e.endQuota(e.now, t, &coordinator.QuotaEnded{How: coordinator.QuotaSettled, Used: used}, fairshare.Excess{})
	}
}

// expireQuota ends what was set aside for a dispatch that ends without its usage being reported. If it
// is reported later, it is charged.
func (e *Engine) expireQuota(now time.Time, t *openTask) {
	if h := t.quota; h != nil && h.open {
		e.endQuota(now, t, &coordinator.QuotaEnded{How: coordinator.QuotaExpired}, fairshare.Excess{})
	}
}

// releaseUnpublished releases what was set aside for a dispatch that was never published, but of
// which an earlier copy may have been, under another attempt then.
func (e *Engine) releaseUnpublished(now time.Time, t *openTask) {
	if h := t.quota; h != nil && h.open && !t.resumed {
		e.endQuota(now, t, &coordinator.QuotaEnded{How: coordinator.QuotaReleased}, fairshare.Excess{})
	}
	e.expireQuota(now, t)
}

// releaseUnbegun releases what was set aside for a dispatch that came out of its agent's queue.
func (e *Engine) releaseUnbegun(now time.Time, t *openTask) {
	if h := t.quota; h != nil && h.open && !t.begun && !t.unanswered {
		e.endQuota(now, t, &coordinator.QuotaEnded{How: coordinator.QuotaReleased}, fairshare.Excess{})
	}
}

// settlement is the end of a reservation at the usage that its agent reports, as far as that is within the
// trust limit. The first of what exceeds it is returned besides.
func (q *quotas) settlement(
	now time.Time, key coordinator.TaskKey, reported coordinator.Amounts,
) (*coordinator.QuotaEnded, fairshare.Excess) {
	ended := &coordinator.QuotaEnded{How: coordinator.QuotaSettled, Word: coordinator.WordOwn}
	used, doubt := q.ledger.Held(now, key, reported)
	if ended.Used = used; doubt == nil {
		return ended, fairshare.Excess{}
	}
	ended.Told = reported
	c, _, _ := q.ledger.Find(key)
	return ended, fairshare.Excess{Dimension: doubt.Dimension, Reserved: c.Amounts[doubt.Dimension], Used: doubt.Told}
}

// endQuota ends what was set aside for a dispatch. The estimator learns from the usage if the end names the
// type of the task. x is what of its usage exceeds the trust limit.
func (e *Engine) endQuota(now time.Time, t *openTask, ended *coordinator.QuotaEnded, x fairshare.Excess) {
	h, q := t.quota, &e.quotas
	ended.Key, ended.At, ended.Took = h.key, now, h.took
	h.open, h.took = false, 0
	open := q.ledger.IsOpen(h.key)
	e.correctTurn(&h.charge, h.charge.Expect, ended)
	if !open { // nothing but its turn was charged
		return
	}
	switch ended.How {
	case coordinator.QuotaSettled:
		settled := q.ledger.SettleBy(now, h.key, ended.Used, false, ended.Word)
		e.excessive(t.task.ID, &h.charge, ended, cmp.Or(x, settled.Excess))
		q.observe(&h.charge, ended)
		e.countDay(&h.charge, ended)
	case coordinator.QuotaReleased:
		q.ledger.Release(now, h.key, false)
	case coordinator.QuotaExpired:
		q.ledger.Expire(now, h.key)
	}
	e.record(ended)
	e.quotaAlerts()
	if e.quotas.due.index < 0 { // it is to be forgotten in time
		e.scheduleQuota()
	}
}

// correctTurn corrects what the turn of a group was charged for a task.
func (e *Engine) correctTurn(c *fairshare.Charge, expected int64, ended *coordinator.QuotaEnded) {
	q, actual := &e.quotas, int64(0)
	if ended.How == coordinator.QuotaSettled {
		actual = fairshare.Weigh(&ended.Used)
	}
	q.shares.Correct(q.shares.Leaf(c.Group), expected, actual)
}

// observe learns from what was used.
func (q *quotas) observe(c *fairshare.Charge, ended *coordinator.QuotaEnded) {
	if ended.Type != "" {
		c.Observe(q.estimator, ended.Type, &ended.Used)
	}
}

// settleLate charges usage that is reported after the quota of its dispatch had expired.
func (e *Engine) settleLate(now time.Time, r *coordinator.Result, attempt int) {
	q := &e.quotas
	if r.Usage == nil || attempt <= 0 {
		return
	}
	key := coordinator.KeyOf(coordinator.TaskID(coordinator.AttemptID(r.Task, attempt)))
	c, open, known := q.ledger.Find(key)
	if !known || open || c.Agent != r.Agent {
		return
	}
	ended, x := q.settlement(now, key, q.ledger.Used(&c, "", r.Usage, coordinator.WordOwn))
	settled := q.ledger.SettleBy(now, key, ended.Used, true, ended.Word)
	if !settled.Late {
		return
	}
	e.excessive(r.Task, &c, ended, cmp.Or(x, settled.Excess))
	ended.Key, ended.At, ended.Keep, ended.Took, ended.Late = key, now, true, r.Duration, settled.LateOwner(&c)
	e.correctTurn(&c, 0, ended)
	e.countDay(&c, ended)
	e.record(ended)
	e.quotaAlerts()
}

// excessive emits usage that exceeds the trust limit, or by far what was set aside; once for each dispatch.
func (e *Engine) excessive(id coordinator.TaskID, c *fairshare.Charge, ended *coordinator.QuotaEnded,
	x fairshare.Excess) {
	if x.Used > 0 {
		e.emit(x.Effect(id, c, ended))
	}
}

// unpriced emits that a call or task, charged so, is of a model without a price where money is limited: it
// would get past that limit.
func (e *Engine) unpriced(c *fairshare.Charge, refused bool) {
	if f, is := e.quotas.ledger.ModelUnpriced(c, refused); is {
		e.emit(f)
	}
}

// reviewQuotas emits budgets that have come to a threshold without any use: they are smaller now, or the
// leader before ended too soon to emit it. Without a session it would be lost: the next session does it.
func (e *Engine) reviewQuotas(now time.Time) {
	if e.connected && !e.following {
		e.quotas.ledger.Review(now)
		e.quotaAlerts()
	}
}

// quotaAlerts emits budgets that are nearly, or quite, used up.
func (e *Engine) quotaAlerts() {
	q := &e.quotas
	q.alerts = q.ledger.Alerts(q.alerts[:0])
	for i := range q.alerts {
		a := &q.alerts[i]
		e.record(a.Told(q.ledger.Now()))
		if a.Echo {
			continue
		}
		e.emit(coordinator.QuotaReached{
			Node: a.Node, Dimension: a.Dimension, Percent: int(a.Percent), Used: a.Used, Cap: a.Cap, Ends: a.Ends,
			MayBorrow: a.MayBorrow,
		})
	}
}
