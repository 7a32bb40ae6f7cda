package fairshare

import (
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/fairshare/calendar"
)

// What the values of a budget's row are. Those of its period are lengths instead of instants, which take less room;
// earlier versions have not written all of them.
const (
	rowUsed = iota
	rowSpent
	rowLent
	rowBorrowed
	rowLentOut
	rowBorrowedIn
	rowCredits
	rowNominal // what it has beyond its base
	rowShare   // likewise
	rowOwes
	rowAlerted
	rowUsedBefore
	rowOwnCredits
	rowUnit // of the period, with its interval
	rowInterval
	rowLength       // of the period
	rowLengthBefore // of the one before
	rowTold         // by its agents' own reports, see trust.go
	rowBeyond
	rowClosed // that period has ended, see clock.go
	rowValues = rowClosed
)

// periodOf returns the sort of period of a budget's row.
func periodOf(r *coordinator.QuotaBefore) coordinator.Period {
	v := r.Values
	return coordinator.Period{Unit: coordinator.PeriodUnit(v[rowUnit]), Interval: time.Duration(v[rowInterval])}
}

// endOf returns when the period of a budget's row ends.
func endOf(r *coordinator.QuotaBefore) int64 { return r.Start + r.Values[rowLength] }

// wide returns a copy of a row with so many values.
func wide(r *coordinator.QuotaBefore, values int) *coordinator.QuotaBefore {
	of := *r
	of.Values = make([]int64, values)
	copy(of.Values, r.Values)
	return &of
}

// export adds what was used of a node. Of a rate the third value says that its debt is within the bound
// (see shaper.correct): earlier versions charged usage that was never admitted without a bound. A fourth is
// what its agents reported of themselves.
func (nd *node) export(all []coordinator.Record, now int64) []coordinator.Record {
	id := nd.spec.ID
	for _, b := range nd.budgets {
		if b != nil && (!b.unused() || b.up == nil) { // of a root at least of which period its family's books are
			all = append(all, b.export(id))
		}
	}
	for d, s := range nd.rates {
		if s == nil {
			continue
		}
		values := []int64{s.Assured.Since(now), s.Ceiling.Since(now), 1, s.Reported.Since(now)}
		if values[0]|values[1]|values[3] == 0 {
			continue
		}
		if values[3] == 0 {
			values = values[:3]
		}
		all = append(all, &coordinator.QuotaBefore{Node: id, Dimension: coordinator.Dimension(d), Rate: true,
			Values: values})
	}
	return all
}

// export returns the record of a budget, without what its agents reported themselves where that is nothing.
func (b *budget) export(node string) *coordinator.QuotaBefore {
	s, p := b.family.span, b.family.period
	r := &coordinator.QuotaBefore{Node: node, Dimension: b.dim, Start: s.Start, Values: []int64{
		b.used, b.spent, b.lent, b.borrowed, b.lentOut, b.borrowedIn, b.credits,
		b.nominal - b.base, b.share - b.baseShare, b.owes, b.alerted,
		b.before.used, b.ownCredits, int64(p.Unit), int64(p.Interval), s.End - s.Start, s.Start - b.family.ended.Start,
	}}
	if b.told|b.beyond != 0 {
		r.Values = append(r.Values, b.told, b.beyond)
	}
	return r
}

// unused reports whether all of a budget's books are at 0, so that there is nothing to save.
func (b *budget) unused() bool {
	return b.used|b.spent|b.lent|b.borrowed|b.lentOut|b.borrowedIn == 0 && b.credits|b.ownCredits|b.owes == 0 &&
		b.alerted|b.before.used|b.told|b.beyond == 0 && b.nominal == b.base && b.share == b.baseShare
}

// foldBefore takes over a row of a snapshot. What is not listed now may be listed again.
func (l *Ledger) foldBefore(r *coordinator.QuotaBefore) {
	if r.Node == "" {
		l.at(time.Unix(0, r.Start))
		return
	}
	if closed(r) {
		l.keepClosed(r)
		return
	}
	if l.restoreBefore(r) {
		return
	}
	if keepable(r) {
		l.former.add(r)
	}
}

// bookOf returns the budget that a record is about; nil: there is none.
func (l *Ledger) bookOf(r *coordinator.QuotaBefore) *budget {
	if len(r.Values) > rowLengthBefore {
		return l.book(r.Node, r.Dimension, periodOf(r))
	}
	return l.budgetOf(r.Node, r.Dimension) // from before periods were written
}

// restoreBefore sets what had been used of a node; false: it has no such limit.
func (l *Ledger) restoreBefore(r *coordinator.QuotaBefore) bool {
	v := r.Values
	if r.Rate {
		i, listed := l.byID[r.Node]
		if !listed || l.nodes[i].rates[r.Dimension] == nil || len(v) < 2 {
			return false
		}
		s := l.nodes[i].rates[r.Dimension]
		if len(v) >= 8 { // it was not listed then
			resumeRate(s, l.now, v)
			return true
		}
		s.Assured.Tat, s.Ceiling.Tat = v[0], v[1]
		if s.Forgive(l.now, len(v) < 3); len(v) >= 4 {
			s.Reported.Tat = v[3]
		}
		return true
	}
	b := l.bookOf(r)
	if b == nil || !b.restore(r) {
		return false
	}
	b.replace()
	b.riper()
	b.family.reckoned = 0
	return true
}

// restore sets what had been used of a budget; false: that was in another period.
func (b *budget) restore(r *coordinator.QuotaBefore) bool {
	v := r.Values
	if len(v) <= rowUsedBefore || !b.restorePeriod(r) {
		return false
	}
	b.used, b.spent, b.lent, b.borrowed, b.lentOut, b.borrowedIn, b.credits = v[rowUsed], v[rowSpent], v[rowLent],
		v[rowBorrowed],
		v[rowLentOut], v[rowBorrowedIn], v[rowCredits]
	b.nominal, b.share = max(0, b.base+v[rowNominal]), max(0, b.baseShare+v[rowShare])
	b.owes, b.alerted, b.before.used = v[rowOwes], v[rowAlerted], v[rowUsedBefore]
	if len(v) > rowOwnCredits { // not in older ones
		b.ownCredits = v[rowOwnCredits]
	}
	if len(v) > rowBeyond {
		b.told, b.beyond = v[rowTold], v[rowBeyond]
	}
	b.family.repays = b.family.repays || b.owes > 0 || v[rowNominal] != 0
	return true
}

// restorePeriod reports whether what was used of a budget in the period of a row counts in the present one. By the
// rule of a reload
// (see inherit) it does if the period is as long, and the two overlap: in another time zone days begin at
// other times, and what was used today stays used. The loans are then worked out anew, at the next Install.
func (b *budget) restorePeriod(r *coordinator.QuotaBefore) bool {
	f := b.family
	if len(r.Values) <= rowLengthBefore { // from before these were written
		return r.Start == f.span.Start
	}
	span := calendar.Span{Start: r.Start, End: endOf(r)}
	if periodOf(r) != f.period || !span.Meets(f.span) {
		return false
	}
	f.ended.Start = r.Start - r.Values[rowLengthBefore]
	f.moved = f.moved || span != f.span
	return true
}
