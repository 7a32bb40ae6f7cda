package fairshare

import (
	"slices"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/fairshare/calendar"
	"taskbus/coordinator/fairshare/rates"
)

// maxFormer bounds the books that are kept of what quotas no longer list: about 300 bytes each.
const maxFormer = 100_000

// former are the books of budgets and rates that quotas no longer list: of a node that is gone, of a
// dimension in which it has no limit any more, of a budget that has another period now. If it is
// listed again (a file that was saved in two steps, a group that was removed by mistake) it goes on
// from there. What was used meanwhile is in the books of those above it alone.
//
// They are what a snapshot says of them, in the order in which they went; beyond maxFormer the first
// are forgotten. Of a budget they are kept until its period ends, of a rate until it is full. What is
// listed is never among them.
type former []*coordinator.QuotaBefore

// keep adds what heir, the node of the same ID (nil: there is none), does not go on with.
func (f *former) keep(now int64, old, heir *node) {
	for _, o := range old.budgets {
		if o != nil && !o.unused() { // else it goes on, see Ledger.inherit
			f.add(o.export(old.spec.ID))
		}
	}
	for d, o := range old.rates {
		if o == nil || heir != nil && heir.rates[d] != nil {
			continue
		}
		a, c := &o.Assured, &o.Ceiling
		if assured, ceiling := a.Since(now), c.Since(now); assured|ceiling != 0 {
			f.add(&coordinator.QuotaBefore{ // with what it was: it may come back as another
				Node: old.spec.ID, Dimension: coordinator.Dimension(d), Rate: true,
				Values: []int64{assured, ceiling, a.Amount, a.Per, a.Burst, c.Amount, c.Per, c.Burst},
			})
		}
	}
}

func (f *former) add(r *coordinator.QuotaBefore) {
	if *f = append(*f, r); len(*f) > maxFormer {
		(*f)[0] = nil // its place goes when more room is made
		*f = (*f)[1:]
	}
}

// forgetFormer drops what would make no difference any more, but for periods that a clock may have ended that
// is ahead (see close).
func (l *Ledger) forgetFormer() {
	l.former = slices.DeleteFunc(l.former, func(r *coordinator.QuotaBefore) bool {
		if r.Rate {
			return max(r.Values[0], r.Values[1]) <= l.now
		}
		over := endOf(r) <= l.now
		if over && r.Values[rowLength] >= leastKept {
			l.keepClosed(r)
		}
		return over
	})
}

// usedNow adds books of a budget, or rate, as of now, whenever their period is: to those of the budget's period
// that are there already, else as they are, or in the period of now, in UTC (see restorePeriod), if theirs has
// not begun.
func (f *former) usedNow(now int64, r *coordinator.QuotaBefore) {
	if r.Rate {
		f.add(r)
		return
	}
	of := wide(r, rowValues)
	v, period := of.Values, periodOf(r)
	for i, x := range *f {
		if !x.Rate && x.Node == r.Node && x.Dimension == r.Dimension && periodOf(x) == period {
			x = wide(x, rowValues)
			for _, n := range [...]int{rowUsed, rowSpent, rowTold, rowBeyond} {
				x.Values[n] = min(x.Values[n]+v[n], mostUsed)
			}
			x.Values[rowAlerted] = max(x.Values[rowAlerted], v[rowAlerted])
			(*f)[i] = x
			return
		}
	}
	if of.Start > now {
		s := calendar.PeriodOf(period, now, nil)
		of.Start, v[rowLength] = s.Start, s.End-s.Start
		v[rowLengthBefore] = s.Start - calendar.PeriodOf(period, s.Start-1, nil).Start
		for _, n := range [...]int{rowLent, rowBorrowed, rowLentOut, rowBorrowedIn, rowCredits, rowNominal, rowShare, rowOwes,
			rowUsedBefore, rowOwnCredits} {
			v[n] = 0
		}
	}
	f.add(of)
}

// Remembers reports whether anything is known of what quotas have counted that are not installed now, or of
// reservations.
func (l *Ledger) Remembers() bool {
	l.forgetFormer()
	return len(l.former)+l.unlisted.Len()+len(l.open) > 0
}

// keepable reports whether the record is one of those that are kept: an earlier version has not said
// when the period of a budget ends.
func keepable(r *coordinator.QuotaBefore) bool {
	v := r.Values
	if r.Rate {
		return len(v) >= 2
	}
	return len(v) > rowLengthBefore &&
		(len(v) > rowTold || slices.ContainsFunc(v[:rowUnit], func(x int64) bool { return x != 0 }))
}

// resume gives the books back to what is listed again.
func (l *Ledger) resume() {
	l.former = slices.DeleteFunc(l.former, func(r *coordinator.QuotaBefore) bool {
		return l.resumeOne(r)
	})
}

// resumeOne takes over the books of before; false: there is no such limit.
func (l *Ledger) resumeOne(r *coordinator.QuotaBefore) bool {
	if r.Rate {
		if i, listed := l.byID[r.Node]; listed && l.nodes[i].rates[r.Dimension] != nil {
			resumeRate(l.nodes[i].rates[r.Dimension], l.now, r.Values)
			return true
		}
		return false
	}
	b := l.bookOf(r)
	if b == nil {
		return false
	}
	f := b.family
	ended, moved := f.ended, f.moved // the others of the family go on as they are
	ok := b.restore(r)
	f.reckoned = 0
	f.ended, f.moved = ended, moved
	return ok
}

// resumeRate sets the level of a rate to what it was when it went. Where it was not noted which rate it was (in
// a snapshot from a time when it was listed) it is empty at the most: another rate would take unpredictably
// long to pay the debt of that one.
func resumeRate(s *rates.Shaper, now int64, v []int64) {
	for i, r := range []*rates.Bucket{&s.Assured, &s.Ceiling} {
		switch {
		case r.Amount == 0 || v[i] == 0:
		case len(v) < 8:
			r.Tat = min(v[i], now+r.Tau)
		case v[2+3*i] > 0:
			old := rates.NewBucket(v[2+3*i], time.Duration(v[3+3*i]), v[4+3*i])
			old.Tat = v[i]
			old.Forgive(now) // it may be of an earlier version, see export
			r.Follow(now, &old)
		}
	}
}
