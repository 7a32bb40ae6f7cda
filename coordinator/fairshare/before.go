package fairshare

import (
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/fairshare/calendar"
)

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

// export returns the record of a budget. Five values describe its period, with lengths instead of instants,
// which take less room; the two behind them, where there are any, hold what its agents reported themselves.
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
	if v := r.Values; len(v) >= 17 {
		return l.book(r.Node, r.Dimension, coordinator.Period{Unit: coordinator.PeriodUnit(v[13]),
			Interval: time.Duration(v[14])})
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
	if len(v) < 12 || !b.restorePeriod(r.Start, v[12:]) {
		return false
	}
	b.used, b.spent, b.lent, b.borrowed, b.lentOut, b.borrowedIn, b.credits = v[0], v[1], v[2], v[3], v[4], v[5], v[6]
	b.nominal, b.share, b.owes, b.alerted = max(0, b.base+v[7]), max(0, b.baseShare+v[8]), v[9], v[10]
	if b.before.used = v[11]; len(v) > 12 { // not in older ones
		b.ownCredits = v[12]
	}
	if len(v) >= 19 {
		b.told, b.beyond = v[17], v[18]
	}
	b.family.repays = b.family.repays || b.owes > 0 || v[7] != 0
	return true
}

// restorePeriod reports whether what was used of a budget in a period that began then counts in the
// present one; more is the values after the twelve that all versions write. By the rule of a reload
// (see inherit) it does if the period is as long, and the two overlap: in another time zone days begin at
// other times, and what was used today stays used. The loans are then worked out anew, at the next Install.
func (b *budget) restorePeriod(start int64, more []int64) bool {
	f := b.family
	if len(more) < 5 { // from before these were written
		return start == f.span.Start
	}
	was := coordinator.Period{Unit: coordinator.PeriodUnit(more[1]), Interval: time.Duration(more[2])}
	span := calendar.Span{Start: start, End: start + more[3]}
	if was != f.period || !span.Meets(f.span) {
		return false
	}
	f.ended.Start = start - more[4]
	f.moved = f.moved || span != f.span
	return true
}
