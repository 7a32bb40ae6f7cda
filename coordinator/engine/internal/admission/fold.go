package admission

import (
	"slices"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/fairshare"
	"taskbus/coordinator/fairshare/estimates"
	"taskbus/coordinator/fairshare/fairqueue"
)

// Folded is what a record has changed.
type Folded struct {
	// Renumbered: the tenant queues have other numbers.
	Renumbered bool
	// Ended: a reservation of this charge has ended.
	Ended  bool
	Charge fairshare.Charge
}

// Fold takes over what is recorded of quotas.
func (q *Quotas) Fold(r coordinator.Record) (x Folded) {
	switch r := r.(type) {
	case *coordinator.QuotaReserved:
		if q.Ledger.Fold(r); r.Before {
			return x
		}
		if x.Renumbered = q.InstallFolded(); !r.Call {
			q.dispatched(r.At, r.Group, r.Expect)
			q.Shares.Served(int(r.Level), r.Waiting)
		}
	case *coordinator.QuotaEnded:
		x.Renumbered = q.InstallFolded()
		x.Charge, _, x.Ended = q.Ledger.Find(r.Key)
		q.Ledger.Fold(r)
		q.Ledger.Due(r.At) // forgets what has been remembered for long enough
		switch {
		case !x.Ended:
		case x.Charge.Call:
			q.observe(&x.Charge, r)
		default:
			q.ended(&x.Charge, r)
		}
	case *coordinator.QuotaExtended, *coordinator.QuotaBefore, *coordinator.QuotaTold, *coordinator.PoolHeard:
		q.Ledger.Fold(r)
	case *coordinator.EstimateBefore:
		if r.First {
			q.estimates = q.estimates[:0]
		}
		q.estimates = append(q.estimates, rowOf(r))
	case *coordinator.ShareBefore:
		q.shareRow(r)
	}
	return x
}

// InstallFolded puts folded estimates and turns in their place, once all of them are there, and reports whether
// the tenant queues have other numbers.
func (q *Quotas) InstallFolded() (renumbered bool) {
	if len(q.estimates) > 0 {
		_ = q.Estimator.Import(q.estimates) // what cannot have been learnt is learnt anew
		q.estimates = nil
	}
	if q.turns == nil {
		return false
	}
	q.Shares.Import(*q.turns)
	q.turns = nil
	return true
}

// Adopt returns what is reserved for a dispatch that the leader before made; nil: nothing.
func (q *Quotas) Adopt(key coordinator.TaskKey) *Hold {
	c, open, _ := q.Ledger.Find(key)
	if !open {
		return nil
	}
	if q.adopted == nil {
		q.adopted = make(map[coordinator.TaskKey]bool)
	}
	q.adopted[key] = true
	return &Hold{Charge: c, Usual: c.Amounts, Key: key, Open: true}
}

// Adopted notes that all dispatches have been given what is reserved for them: the other reservations are lost
// (ReleaseLost).
func (q *Quotas) Adopted(now time.Time) {
	q.lost = nil
	for _, r := range q.Ledger.Export(now) {
		if r, is := r.(*coordinator.QuotaReserved); is && r.State == 0 && r.Until.IsZero() && !q.adopted[r.Key] &&
			!slices.Contains(q.lost, r.Key) {
			q.lost = append(q.lost, r.Key)
		}
	}
	q.adopted = nil
}

// Export returns the records by which another has these quotas.
func (q *Quotas) Export(at time.Time) []coordinator.Record {
	rows := q.Ledger.Export(at)
	if !q.Ledger.Installed() && len(rows) == 1 { // nor is anything left of those before
		return nil
	}
	for i, row := range q.Estimator.Export() {
		rows = append(rows, recordOf(row, i == 0))
	}
	shares := q.Shares.Export()
	rows = append(rows, &coordinator.ShareBefore{First: true,
		Values: append([]int64{creditRow}, shares.Credit[:]...)})
	return append(rows, shareRows(shares.Tags)...)
}

// Moved returns the records of groups of which the turn has moved because something waits in them, or began to, since
// it was called last: of all else there are the records of reservations.
func (q *Quotas) Moved() []coordinator.Record { return shareRows(q.Shares.Moved()) }

func shareRows(tags []fairqueue.Tags) (rows []coordinator.Record) {
	for _, t := range tags {
		rows = append(rows, &coordinator.ShareBefore{
			Group: t.Name, Parent: t.Parent, Own: t.Own,
			Values: []int64{t.Weight, t.Lead, t.Base, t.Rest, t.Time[0], t.Time[1], int64(t.Open)},
		})
	}
	return rows
}

// creditRow begins the row of what priorities have earned. Versions before wrote a number from 0 to 99 there,
// and counts that are none of this behind it.
const creditRow = -1

// shareRow takes over one row of turns. Those of a snapshot, which begin with the First, are put in their place
// together.
func (q *Quotas) shareRow(r *coordinator.ShareBefore) {
	v := r.Values
	switch {
	case r.First && len(v) == 1+fairqueue.Levels:
		q.turns = &fairqueue.Image{}
		if v[0] == creditRow {
			copy(q.turns.Credit[:], v[1:])
		}
	case !r.First && len(v) == 7:
		t := fairqueue.Tags{
			Name: r.Group, Parent: r.Parent, Own: r.Own,
			Weight: v[0], Lead: v[1], Base: v[2], Rest: v[3], Time: [2]int64{v[4], v[5]}, Open: int32(v[6]),
		}
		if q.turns == nil {
			q.Shares.Place(&t)
		} else {
			q.turns.Tags = append(q.turns.Tags, t)
		}
	}
}

func rowOf(r *coordinator.EstimateBefore) estimates.Row {
	return estimates.Row{
		Tenant: r.Tenant, Model: r.Model, Level: estimates.Level(r.Level), Input: r.Input, Bucket: r.Bucket,
		Sum: r.Sum, Counts: r.Counts,
	}
}

func recordOf(r estimates.Row, first bool) *coordinator.EstimateBefore {
	return &coordinator.EstimateBefore{
		First: first, Tenant: r.Tenant, Model: r.Model, Level: uint8(r.Level), Input: r.Input, Bucket: r.Bucket, Sum: r.Sum,
		Counts: r.Counts,
	}
}
