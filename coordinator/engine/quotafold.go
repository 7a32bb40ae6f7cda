package engine

import (
	"slices"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/fairshare"
)

// foldQuota takes over what is recorded of quotas.
func (e *Engine) foldQuota(r coordinator.Record) {
	q := &e.quotas
	switch r := r.(type) {
	case *coordinator.QuotaReserved:
		q.ledger.Fold(r)
		e.calls.FoldNames(r)
		if !r.Before {
			e.installFolded()
		}
		if !r.Before && !r.Call {
			q.dispatched(r.At, r.Group, r.Expect)
			if r.Waiting != 0 { // an earlier version has not said
				q.shares.Served(int(r.Level), r.Waiting)
			}
		}
	case *coordinator.QuotaEnded:
		e.installFolded()
		c, _, known := q.ledger.Find(r.Key)
		q.ledger.Fold(r)
		q.ledger.Due(r.At) // forgets what has been remembered for long enough
		if !known {
			return
		}
		q.observe(&c, r)
		e.countDay(&c, r)
		if c.Call {
			return
		}
		expected := c.Expect
		if r.Keep {
			expected = 0 // it was late, and had been put right before
		}
		e.correctTurn(&c, expected, r)
	case *coordinator.QuotaExtended, *coordinator.QuotaBefore, *coordinator.QuotaTold:
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

// installFolded puts folded estimates and turns in their place, once all of them are there.
func (e *Engine) installFolded() {
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
	e.pending.Forget()
	e.routes = make(map[string]*requirements)
}

// adoptReservations gives the dispatches of the leader before what is set aside for them.
func (e *Engine) adoptReservations() {
	e.installFolded()
	q := &e.quotas
	q.ledger.Install(e.now, q.ledger.Quotas()) // a snapshot may be from the time of others
	held := make(map[coordinator.TaskKey]bool)
	for _, t := range e.tasks.all {
		if t == nil || t.state < stateDispatching || t.Over {
			continue
		}
		key := coordinator.KeyOf(coordinator.TaskID(coordinator.AttemptID(t.task.ID, t.attempt)))
		if c, open, _ := q.ledger.Find(key); open {
			t.quota = &quotaHold{charge: c, usual: c.Amounts, key: key, open: true}
			held[key] = true
		}
	}
	q.lost = nil
	for _, r := range q.ledger.Export(e.now) {
		if r, is := r.(*coordinator.QuotaReserved); is && r.State == 0 && r.Until.IsZero() && !held[r.Key] &&
			!slices.Contains(q.lost, r.Key) {
			q.lost = append(q.lost, r.Key)
		}
	}
}

// releaseLost ends reservations of which the journal does not know the dispatch: its leader
// died between the two.
func (e *Engine) releaseLost(now time.Time) {
	q := &e.quotas
	for _, key := range q.lost {
		c, open, _ := q.ledger.Find(key)
		if !open {
			continue
		}
		ended := &coordinator.QuotaEnded{Key: key, How: coordinator.QuotaReleased, At: now}
		q.ledger.Release(now, key, false)
		e.correctTurn(&c, c.Expect, ended)
		e.record(ended)
	}
	q.lost = nil
}

func (e *Engine) imageQuotas(m *Image) {
	q := &e.quotas
	rows := q.ledger.Export(m.at)
	if !q.ledger.Installed() && len(rows) == 1 { // nor is anything left of those before
		return
	}
	m.others = append(m.others, rows...)
	for i, row := range q.estimator.Export() {
		m.others = append(m.others, recordOf(row, i == 0))
	}
	shares := q.shares.Export()
	m.others = append(m.others, &coordinator.ShareBefore{First: true,
		Values: append([]int64{creditRow}, shares.Credit[:]...)})
	for _, t := range shares.Tags {
		m.others = append(m.others, &coordinator.ShareBefore{
			Group: t.Name, Parent: t.Parent, Own: t.Own,
			Values: []int64{t.Weight, t.Lead, t.Base, t.Rest, t.Time[0], t.Time[1], int64(t.Open)},
		})
	}
}

// creditRow begins the row of what priorities have earned. Versions before wrote a number from 0 to 99 there,
// and counts that are none of this behind it.
const creditRow = -1

// shareRow collects one row of turns.
func (q *quotas) shareRow(r *coordinator.ShareBefore) {
	v := r.Values
	switch {
	case r.First && len(v) == 1+fairshare.Levels:
		q.image = &fairshare.SharesImage{}
		if v[0] == creditRow {
			copy(q.image.Credit[:], v[1:])
		}
	case q.image != nil && len(v) == 7:
		q.image.Tags = append(q.image.Tags, fairshare.Tags{
			Name: r.Group, Parent: r.Parent, Own: r.Own,
			Weight: v[0], Lead: v[1], Base: v[2], Rest: v[3], Time: [2]int64{v[4], v[5]}, Open: int32(v[6]),
		})
	}
}

func rowOf(r *coordinator.EstimateBefore) fairshare.EstimatorRow {
	return fairshare.EstimatorRow{
		Tenant: r.Tenant, Model: r.Model, Level: fairshare.EstimateLevel(r.Level), Input: r.Input, Bucket: r.Bucket,
		Sum: r.Sum, Counts: r.Counts,
	}
}

func recordOf(r fairshare.EstimatorRow, first bool) *coordinator.EstimateBefore {
	return &coordinator.EstimateBefore{
		First: first, Tenant: r.Tenant, Model: r.Model, Level: uint8(r.Level), Input: r.Input, Bucket: r.Bucket, Sum: r.Sum,
		Counts: r.Counts,
	}
}
