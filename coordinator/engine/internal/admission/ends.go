package admission

import (
	"cmp"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/fairshare"
)

// End is how a reservation has ended.
type End struct {
	Ended *coordinator.QuotaEnded // to be recorded; nil: nothing but a turn was charged
	// Charge is what was reserved, and Excess what exceeds the trust limit, or by far what was reserved.
	Charge *fairshare.Charge
	Excess fairshare.Excess
}

// Settle ends what is reserved for a dispatch at the usage that its agent reports, as far as that is within the
// trust limit, and learns from it.
func (q *Quotas) Settle(now time.Time, h *Hold, taskType string, r *coordinator.Result) End {
	ended, x := q.settlement(now, h.Key, q.Ledger.Used(&h.Charge, taskType, r.Usage, coordinator.WordOwn))
	if ended.Told == (coordinator.Amounts{}) { // else nothing is to be learnt from it
		ended.Type = taskType
	}
	q.Flow.Settled(now, &h.Charge.Amounts, &ended.Used)
	ended.Took = r.Duration
	return q.end(now, h, ended, x)
}

// SettleAsEstimated ends what is reserved for a dispatch without a report of its usage to come. took is how long its
// agent worked; 0: not reported.
func (q *Quotas) SettleAsEstimated(now time.Time, h *Hold, took time.Duration) End {
	used := h.Usual
	used[coordinator.DimConcurrency] = 0
	return q.end(now, h, &coordinator.QuotaEnded{How: coordinator.QuotaSettled, Used: used, Took: took}, fairshare.Excess{})
}

// Release ends what is reserved for a dispatch that used nothing.
func (q *Quotas) Release(now time.Time, h *Hold, took time.Duration) End {
	return q.end(now, h, &coordinator.QuotaEnded{How: coordinator.QuotaReleased, Took: took}, fairshare.Excess{})
}

// Expire ends what is reserved for a dispatch that ends without its usage being reported. If it is reported
// later, it is charged.
func (q *Quotas) Expire(now time.Time, h *Hold) End {
	return q.end(now, h, &coordinator.QuotaEnded{How: coordinator.QuotaExpired}, fairshare.Excess{})
}

// SettleLate charges usage that is reported after the reservation of its dispatch had expired; false: it had not.
func (q *Quotas) SettleLate(now time.Time, r *coordinator.Result, attempt int) (End, bool) {
	if r.Usage == nil || attempt <= 0 {
		return End{}, false
	}
	key := KeyOf(r.Task, attempt)
	c, open, known := q.Ledger.Find(key)
	if !known || open || c.Agent != r.Agent {
		return End{}, false
	}
	ended, x := q.settlement(now, key, q.Ledger.Used(&c, "", r.Usage, coordinator.WordOwn))
	settled := q.Ledger.SettleBy(now, key, ended.Used, true, ended.Word)
	if !settled.Late {
		return End{}, false
	}
	ended.Key, ended.At, ended.Keep, ended.Took, ended.Late = key, now, true, r.Duration, settled.LateOwner(&c)
	q.correctTurn(&c, 0, ended)
	return End{Ended: ended, Charge: &c, Excess: cmp.Or(x, settled.Excess)}, true
}

// settlement is the end of a reservation at the usage that its agent reports, as far as that is within the
// trust limit. The first of what exceeds it is returned besides.
func (q *Quotas) settlement(
	now time.Time, key coordinator.TaskKey, reported coordinator.Amounts,
) (*coordinator.QuotaEnded, fairshare.Excess) {
	ended := &coordinator.QuotaEnded{How: coordinator.QuotaSettled, Word: coordinator.WordOwn}
	used, doubt := q.Ledger.Held(now, key, reported)
	if ended.Used = used; doubt == nil {
		return ended, fairshare.Excess{}
	}
	ended.Told = reported
	c, _, _ := q.Ledger.Find(key)
	return ended, fairshare.Excess{Dimension: doubt.Dimension, Reserved: c.Amounts[doubt.Dimension], Used: doubt.Told}
}

// end ends what is reserved for a dispatch. The estimator learns from the usage if the end names the type of the
// task. x is what of its usage exceeds the trust limit.
func (q *Quotas) end(now time.Time, h *Hold, ended *coordinator.QuotaEnded, x fairshare.Excess) End {
	ended.Key, ended.At = h.Key, now
	h.Open = false
	open := q.Ledger.IsOpen(h.Key)
	q.correctTurn(&h.Charge, h.Charge.Expect, ended)
	if !open {
		return End{}
	}
	switch ended.How {
	case coordinator.QuotaSettled:
		x = cmp.Or(x, q.Ledger.SettleBy(now, h.Key, ended.Used, false, ended.Word).Excess)
		q.observe(&h.Charge, ended)
	case coordinator.QuotaReleased:
		q.Ledger.Release(now, h.Key, false)
	case coordinator.QuotaExpired:
		q.Ledger.Expire(now, h.Key)
	}
	return End{Ended: ended, Charge: &h.Charge, Excess: x}
}

// ExpireDue ends a reservation of that charge that has run out of time without its usage having been reported.
func (q *Quotas) ExpireDue(now time.Time, key coordinator.TaskKey, c *fairshare.Charge) *coordinator.QuotaEnded {
	ended := &coordinator.QuotaEnded{Key: key, How: coordinator.QuotaExpired, At: now}
	q.Ledger.Expire(now, key)
	q.correctTurn(c, c.Expect, ended)
	return ended
}

// ReleaseLost ends the reservations of which the journal does not know the dispatch: the leader before ended
// between the two.
func (q *Quotas) ReleaseLost(now time.Time) (all []coordinator.Record) {
	for _, key := range q.lost {
		c, open, _ := q.Ledger.Find(key)
		if !open {
			continue
		}
		ended := &coordinator.QuotaEnded{Key: key, How: coordinator.QuotaReleased, At: now}
		q.Ledger.Release(now, key, false)
		q.correctTurn(&c, c.Expect, ended)
		all = append(all, ended)
	}
	q.lost = nil
	return all
}

// correctTurn corrects what the turn of a group was charged for a task.
func (q *Quotas) correctTurn(c *fairshare.Charge, expected int64, ended *coordinator.QuotaEnded) {
	actual := int64(0)
	if ended.How == coordinator.QuotaSettled {
		actual = fairshare.Weigh(&ended.Used)
	}
	q.Shares.Correct(q.Shares.Leaf(c.Group), expected, actual)
}

// observe learns from what was used.
func (q *Quotas) observe(c *fairshare.Charge, ended *coordinator.QuotaEnded) {
	if ended.Type != "" {
		c.Observe(q.Estimator, ended.Type, &ended.Used)
	}
}
