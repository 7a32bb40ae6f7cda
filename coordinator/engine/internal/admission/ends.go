package admission

import (
	"cmp"
	"iter"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/fairshare"
	"taskbus/coordinator/fairshare/billing"
)

// End is how a reservation has ended.
type End struct {
	Ended *coordinator.QuotaEnded // to be recorded; nil: nothing but a turn was charged
	// Charge is what was reserved, and Excess what exceeds the trust limit, or by far what was reserved.
	Charge *fairshare.Charge
	Excess fairshare.Excess
	// Unpriced is the event about a model without a price that is reported to have been used; nil: none.
	Unpriced coordinator.Effect
}

// How says how a dispatch came to its end.
type How uint8

const (
	Reported    How = iota // its agent reports a result
	Unreported             // it is forgotten: its agent's heartbeats count it, and nothing more is reported of it
	Gone                   // it is overdue, or has come back: its agent may report its usage yet
	TakenBack              // it has come back out of its agent's queue
	Unpublished            // it was not published
)

// Dispatch is what is known of a dispatch that has ended.
type Dispatch struct {
	How    How
	Result *coordinator.Result // where it is Reported
	// Begun: a report has listed it. Again: an earlier copy of it may have been published. Unanswered: it is not known
	// whether it arrived.
	Begun, Again, Unanswered bool
}

// how is what becomes of the reservation of a dispatch that has ended so:
//
//	Reported, with usage                             settled at the usage
//	Reported, cancelled or rejected before it began  released
//	Reported otherwise; Unreported                   settled at what such tasks take in the mean
//	TakenBack, and surely never begun                released
//	Unpublished, without an earlier copy             released
//	all others                                       expired: free again, and charged if the usage is reported
func (d *Dispatch) how() coordinator.QuotaEnd {
	unused := false
	switch d.How {
	case Reported:
		r := d.Result
		if unused = r.Outcome == coordinator.OutcomeCancelled && !d.Begun ||
			r.Outcome == coordinator.OutcomeRejected && !r.Attempted; r.Usage != nil || !unused {
			return coordinator.QuotaSettled
		}
	case Unreported:
		return coordinator.QuotaSettled
	case TakenBack:
		unused = !d.Begun && !d.Unanswered
	case Unpublished:
		unused = !d.Again
	}
	if unused {
		return coordinator.QuotaReleased
	}
	return coordinator.QuotaExpired
}

// End ends what is reserved for a dispatch, as fits how that has ended; nothing is: h is nil, or not open. It settles
// at the reported usage as far as that is within the trust limit, and learns from it for tasks of that type.
func (q *Quotas) End(now time.Time, h *Hold, taskType string, d *Dispatch) (x End) {
	if h == nil || !h.Open {
		return x
	}
	var ended *coordinator.QuotaEnded
	switch r, how := d.Result, d.how(); {
	case how != coordinator.QuotaSettled:
		ended = &coordinator.QuotaEnded{How: how}
	case r == nil || r.Usage == nil:
		ended = &coordinator.QuotaEnded{How: how, Used: h.Usual}
		ended.Used[coordinator.DimConcurrency] = 0
	default:
		if f, is := q.Ledger.UsageUnpriced(&h.Charge, taskType, r.Usage, coordinator.WordOwn); is {
			x.Unpriced = f
		}
		ended, x.Excess = q.settlement(now, h.Key, q.Ledger.Used(&h.Charge, taskType, r.Usage, coordinator.WordOwn))
		if ended.Told == (coordinator.Amounts{}) { // else nothing is to be learnt from it
			ended.Type = taskType
		}
		q.Flow.Settled(now, &h.Charge.Amounts, &ended.Used)
	}
	if d.Result != nil {
		ended.Took = d.Result.Duration
	}
	q.end(now, h, ended, &x)
	return x
}

// SettleLate charges usage that is reported after the reservation of its dispatch had expired. Nothing ends if it had
// not.
func (q *Quotas) SettleLate(now time.Time, r *coordinator.Result, attempt int) End {
	if r.Usage == nil || attempt <= 0 {
		return End{}
	}
	key := KeyOf(r.Task, attempt)
	c, open, known := q.Ledger.Find(key)
	if !known || open || c.Agent != r.Agent {
		return End{}
	}
	ended, x := q.settlement(now, key, q.Ledger.Used(&c, "", r.Usage, coordinator.WordOwn))
	ended.Key, ended.At, ended.Keep, ended.Took = key, now, true, r.Duration
	settled := q.Ledger.End(ended)
	if !settled.Late {
		return End{}
	}
	ended.Late = settled.LateOwner(&c)
	q.ended(&c, ended)
	return End{Ended: ended, Charge: &c, Excess: cmp.Or(x, settled.Excess)}
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
// task. x contains what of its usage exceeds the trust limit.
func (q *Quotas) end(now time.Time, h *Hold, ended *coordinator.QuotaEnded, x *End) {
	ended.Key, ended.At = h.Key, now
	h.Open = false
	if !q.Ledger.IsOpen(h.Key) {
		q.correctTurn(&h.Charge, ended)
		return
	}
	x.Ended, x.Charge = ended, &h.Charge
	x.Excess = cmp.Or(x.Excess, q.Ledger.End(ended).Excess)
	q.ended(&h.Charge, ended)
}

// ended learns from the end of a task's reservation, and corrects its turn, in a leader and in a standby.
func (q *Quotas) ended(c *fairshare.Charge, r *coordinator.QuotaEnded) {
	q.observe(c, r)
	if r.Keep { // it was late, and has been corrected before
		q.billTurn(c, r)
	} else {
		q.correctTurn(c, r)
	}
}

// Overdue iterates over the reservations that have run out of time, of tasks and of calls. Each is to be ended
// before the next.
func (q *Quotas) Overdue(now time.Time) iter.Seq2[coordinator.TaskKey, *fairshare.Charge] {
	return func(yield func(coordinator.TaskKey, *fairshare.Charge) bool) {
		for key, due := q.Ledger.Due(now); due; key, due = q.Ledger.Due(now) {
			if c, _, _ := q.Ledger.Find(key); !yield(key, &c) {
				return
			}
		}
	}
}

// ExpireDue ends a reservation of that charge that has run out of time without its usage having been reported.
func (q *Quotas) ExpireDue(now time.Time, key coordinator.TaskKey, c *fairshare.Charge) *coordinator.QuotaEnded {
	ended := &coordinator.QuotaEnded{Key: key, How: coordinator.QuotaExpired, At: now}
	q.Ledger.End(ended)
	q.ended(c, ended)
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
		q.Ledger.End(ended)
		q.ended(&c, ended)
		all = append(all, ended)
	}
	q.lost = nil
	return all
}

// correctTurn corrects what the turn of a group was charged for a task, with its end.
func (q *Quotas) correctTurn(c *fairshare.Charge, ended *coordinator.QuotaEnded) {
	actual := int64(0)
	if ended.How == coordinator.QuotaSettled {
		actual = billing.Weigh(&ended.Used)
	}
	q.Shares.Correct(q.Shares.Leaf(c.Group), c.Expect, actual)
}

// billTurn charges the turn of a group for usage that was reported late: its task has been corrected before.
func (q *Quotas) billTurn(c *fairshare.Charge, ended *coordinator.QuotaEnded) {
	q.Shares.Bill(q.Shares.Leaf(c.Group), billing.Weigh(&ended.Used))
}

// observe learns from what was used.
func (q *Quotas) observe(c *fairshare.Charge, ended *coordinator.QuotaEnded) {
	if ended.Type != "" {
		c.Observe(q.Estimator, ended.Type, &ended.Used)
	}
}
