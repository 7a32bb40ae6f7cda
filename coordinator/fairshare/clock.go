package fairshare

import (
	"cmp"
	"slices"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/fairshare/rates"
)

// A leader's clock may be ahead, by years. It begins the periods of that time and closes the books of
// those that go on. Nothing in the ledger can know that then: a clock that leaps forwards may be right,
// because there was no leader for so long. So the books of periods that have ended are kept for a while,
// and a leader at a time before the present ones (see NotAfter) finds them again.

// A time that is less than clockSlack ahead is waited for. Of each budget the latest mostClosed periods
// are kept in which it was used: while a leader runs, the true time goes on as well, so that each leap
// costs one. leastKept is how long they are at least: of shorter ones nothing is left to find when a
// leader has been replaced.
const (
	clockSlack = int64(10 * time.Minute)
	mostClosed = 2
	leastKept  = int64(time.Hour)
)

// close keeps a record of each used budget of a family at the end of the family's period.
func (l *Ledger) close(f *budget) {
	if f.span.End-f.span.Start < leastKept {
		return
	}
	f.each(func(b *budget) {
		if b.used|b.lent|b.borrowed|b.lentOut|b.borrowedIn|b.told|b.beyond|b.alerted != 0 {
			l.keepClosed(b.export(l.nodes[b.node].spec.ID))
		}
	})
}

// closed reports whether a record of a snapshot is of a closed period.
func closed(r *coordinator.QuotaBefore) bool { return !r.Rate && len(r.Values) == rowClosed+1 }

// keepClosed keeps the books of one budget's period, and forgets the oldest beyond so many.
func (l *Ledger) keepClosed(r *coordinator.QuotaBefore) {
	if !closed(r) {
		r = wide(r, rowClosed+1)
		r.Values[rowClosed] = 1
	}
	key := closedKey{r.Node, r.Dimension}
	rows := l.closed[key]
	if n := len(rows); n > 0 && rows[n-1].Start == r.Start { // reopened, and closed once more
		rows = rows[:n-1]
	}
	rows = append(rows, r)
	l.closed[key] = rows[max(0, len(rows)-mostClosed):]
}

// dropClosed drops those of a budget that are not kept any more.
func (l *Ledger) dropClosed(key closedKey, over func(*coordinator.QuotaBefore) bool) {
	if l.closed[key] = slices.DeleteFunc(l.closed[key], over); len(l.closed[key]) == 0 {
		delete(l.closed, key)
	}
}

type closedKey struct {
	node string
	dim  coordinator.Dimension
}

// exportClosed adds the books that are kept.
func (l *Ledger) exportClosed(all []coordinator.Record) []coordinator.Record {
	keys := make([]closedKey, 0, len(l.closed))
	for k := range l.closed { // order does not matter: they are sorted
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(a, b closedKey) int {
		return cmp.Or(cmp.Compare(a.node, b.node), cmp.Compare(a.dim, b.dim))
	})
	for _, k := range keys {
		for _, r := range l.closed[k] {
			all = append(all, r)
		}
	}
	return all
}

// NotAfter sets the time to now, whatever records have said: the leader before may have had a clock that
// was ahead. What it has charged in periods that have not begun was used now; the periods that it closed
// and that go on have their books again; what it gave time for from then has it from now.
func (l *Ledger) NotAfter(now time.Time) {
	at, was := inTime(now.UnixNano()), l.now
	if was-at <= clockSlack {
		return
	}
	l.now, l.nextPeriod = at, 0
	back := func(x int64) int64 { // of what was set by the clock that was ahead, or would be over by it
		if x <= at {
			return x
		}
		return max(at, x-(was-at))
	}
	for i := range l.nodes {
		nd := &l.nodes[i]
		for _, s := range nd.rates {
			if s != nil {
				for _, r := range [...]*rates.Bucket{&s.Assured, &s.Ceiling, &s.Reported} {
					r.Tat = back(r.Tat)
				}
			}
		}
		nd.health.Shift(back)
	}
	l.reservationsNotAfter(at, was)
	l.formerNotAfter(at, back)
	for _, f := range l.roots {
		if f.span.Start > at {
			l.reopen(f)
		}
	}
	l.Install(now, l.Quotas()) // puts right what is set aside and lent
}

// reservationsNotAfter has those that were made in the future made now. None lasts longer than it would
// have by the clock that was ahead.
func (l *Ledger) reservationsNotAfter(at, was int64) {
	for _, r := range l.open {
		until, ahead := r.until, was-at
		switch {
		case until > was:
			until -= ahead
		case r.at > at && until > at:
			until = max(at, until-ahead)
		}
		for part := r; part != nil; part = part.later {
			part.at = min(part.at, at)
		}
		if r.until != 0 && until != r.until {
			l.endAt(r, time.Unix(0, until))
		}
	}
}

// formerNotAfter does for what is not listed what is done for what is: of budgets the books that were closed
// count again, and what has been used in periods that have not begun; rates are back in time.
func (l *Ledger) formerNotAfter(at int64, back func(int64) int64) {
	var all, ahead []*coordinator.QuotaBefore
	take := func(r *coordinator.QuotaBefore) bool {
		switch {
		case r.Start > at:
			ahead = append(ahead, r)
		case endOf(r) > at:
			all = append(all, r)
		default:
			return false
		}
		return true
	}
	for _, r := range l.former {
		if r.Rate {
			of := *r
			of.Values = slices.Clone(r.Values)
			of.Values[0], of.Values[1] = back(of.Values[0]), back(of.Values[1])
			all = append(all, &of)
		} else {
			take(r)
		}
	}
	for _, r := range l.exportClosed(nil) {
		r := r.(*coordinator.QuotaBefore)
		if key := (closedKey{r.Node, r.Dimension}); l.budgetOf(r.Node, r.Dimension) == nil && take(r) {
			l.dropClosed(key, func(x *coordinator.QuotaBefore) bool { return x == r })
		}
	}
	l.former = nil
	for _, r := range slices.Concat(all, ahead) {
		l.former.usedNow(at, r)
	}
}

// reopen makes the family's period that in which it is now, with the books that were closed of it, and
// what has been used in the one that has not begun.
func (l *Ledger) reopen(f *budget) {
	type use struct{ used, spent, told, beyond, alerted int64 }
	var ahead []use
	f.each(func(b *budget) { ahead = append(ahead, use{b.used, b.spent, b.told, b.beyond, b.alerted}) })
	f.repays, f.moved = false, false
	f.each(func(b *budget) { b.nominal, b.share, b.owes = b.base, b.baseShare, 0 })
	f.set(l.now)
	f.each(func(b *budget) {
		key := closedKey{l.nodes[b.node].spec.ID, b.dim}
		x := ahead[0]
		ahead = ahead[1:]
		l.dropClosed(key, func(r *coordinator.QuotaBefore) bool {
			if v := r.Values; r.Start > l.now {
				x = use{x.used + v[rowUsed], x.spent + v[rowSpent], x.told + v[rowTold], x.beyond + v[rowBeyond],
					max(x.alerted, v[rowAlerted])}
				return true
			}
			return endOf(r) > l.now && b.restore(r)
		})
		b.used, b.spent = min(b.used+x.used, mostUsed), min(b.spent+x.spent, mostUsed)
		b.told, b.beyond = min(b.told+x.told, mostUsed), min(b.beyond+x.beyond, mostUsed)
		b.alerted = max(b.alerted, x.alerted) // of the same use
	})
	f.moved = true
}
