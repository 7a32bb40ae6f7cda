package fairshare

import (
	"slices"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/fairshare/billing"
	"taskbus/coordinator/heap"
)

// reservation is what is set aside for one call or task. It ends once: settled at what was
// used, released, or expired; after that it is remembered for a while, so that what comes
// twice changes nothing, and what comes late still counts.
type reservation struct {
	key    coordinator.TaskKey
	charge Charge // with the amounts reserved
	path   Path
	// at is when it was made: it is settled in the periods of that moment.
	at    int64
	until int64 // 0: it does not end by itself
	state resState
	loans []loan
	uses  []rateUse
	file  *heap.Heap[*reservation] // where it is, unless place is below 0
	place int
	// later is what it was extended by where that belongs to another period, or is served by
	// other rates: of that only charge, path, at, loans, uses and later count.
	later *reservation
}

type resState uint8

const (
	resOpen    resState = iota
	resExpired          // what was used may still be reported
	resEnded
	resCounted // a call that was charged by the report that first named it
)

// Reserve sets aside what the charge asks for, in all nodes that it concerns or in none. A
// reservation of that key that stands, or has ended, is left as it is (Known). Zero as until:
// it does not end by itself. What no quota concerns is admitted, and not remembered.
func (l *Ledger) Reserve(now time.Time, key coordinator.TaskKey, c *Charge, until time.Time) Verdict {
	return l.setAside(now, key, c, until, false)
}

// Charge reserves what has been used already, whatever the limits: what is beyond a share is a
// debt. It is to be settled at once.
func (l *Ledger) Charge(now time.Time, key coordinator.TaskKey, c *Charge) Verdict {
	return l.setAside(now, key, c, time.Time{}, true)
}

// setAside reserves what the charge asks for; beyond: whatever the limits.
func (l *Ledger) setAside(now time.Time, key coordinator.TaskKey, c *Charge, until time.Time, beyond bool) Verdict {
	l.advance(now.UnixNano())
	if r := l.find(key); r != nil {
		return Verdict{OK: r.state == resOpen, Known: true}
	}
	p := l.PathOf(c)
	if p.Empty() {
		return Verdict{OK: true}
	}
	asked := *c
	billing.Tidy(&asked.Amounts)
	return l.reserve(key, &asked, &p, until, beyond)
}

// find looks up a reservation; one that has been remembered for long enough is forgotten.
func (l *Ledger) find(key coordinator.TaskKey) *reservation {
	r := l.open[key]
	if r != nil && r.state != resOpen && r.until <= l.now {
		l.forget(r)
		return nil
	}
	return r
}

// Forget drops what is remembered of a reservation that has ended, because its key stands
// for something else from now on. One that is open stays.
func (l *Ledger) Forget(key coordinator.TaskKey) {
	if r := l.open[key]; r != nil && r.state != resOpen {
		l.forget(r)
	}
}

// reserve checks and charges; force charges in any case.
func (l *Ledger) reserve(key coordinator.TaskKey, c *Charge, p *Path, until time.Time, force bool) Verdict {
	r := l.make()
	if force { // it borrows what there is, whatever was refused before
		l.forgetKnown(p)
	}
	l.forced = force
	var v Verdict
	v, r.uses = l.check(p, c, r.uses)
	l.keep()
	l.forced = false
	if !v.OK && !force {
		l.undo()
		l.drop(r)
		return l.finish(&v)
	}
	l.commit(p, &c.Amounts, r.uses)
	l.fresh = false
	r.key, r.charge, r.path, r.at = key, *c, *p, l.now
	r.loans = append(r.loans, l.loans...)
	l.loans = l.loans[:0]
	l.open[key] = r
	l.countOpen(r, 1)
	l.endAt(r, until)
	v.OK, v.Charged = true, true
	return v
}

// Extend reserves more for a call that goes on, or for longer: a zero time leaves its end.
// The answer is Known, and nothing has changed, if there is no such reservation (any more).
func (l *Ledger) Extend(now time.Time, key coordinator.TaskKey, more coordinator.Amounts, until time.Time) Verdict {
	l.advance(now.UnixNano())
	r := l.find(key)
	if r == nil || r.state != resOpen {
		return Verdict{Known: true}
	}
	return l.extend(r, more, until, false)
}

// extend checks and charges; force charges in any case.
func (l *Ledger) extend(r *reservation, more coordinator.Amounts, until time.Time, force bool) Verdict {
	c, whole := r.charge, r.whole()
	bigger := whole.With(&more)
	for d := range c.Amounts {
		c.Amounts[d] = bigger.Amounts[d] - whole.Amounts[d]
	}
	l.forced = force
	v, uses := l.check(&r.path, &c, l.uses[:0])
	l.keep()
	l.uses, l.forced = uses, false
	if !v.OK && !force {
		l.undo()
		return l.finish(&v)
	}
	if c.Amounts != (coordinator.Amounts{}) {
		l.commit(&r.path, &c.Amounts, uses)
		part := l.partFor(r, uses)
		for d := range more {
			part.charge.Amounts[d] += c.Amounts[d]
		}
		part.loans = append(part.loans, l.loans...)
		l.loans = l.loans[:0]
	}
	if !until.IsZero() {
		l.endAt(r, until)
	}
	v.OK = true
	return v
}

// partFor finds the part of a reservation to which more may be added that these rates serve
// now, or adds one.
func (l *Ledger) partFor(r *reservation, uses []rateUse) *reservation {
	last := r
	for part := r; part != nil; last, part = part, part.later {
		if slices.Equal(part.uses, uses) && l.current(part) {
			return part
		}
	}
	last.later = l.make()
	part := last.later
	part.charge, part.path, part.at = r.charge, r.path, l.now
	part.charge.Amounts = coordinator.Amounts{}
	part.uses = append(part.uses, uses...)
	return part
}

// whole returns the charge with all that it was extended by.
func (r *reservation) whole() Charge {
	c := r.charge
	for part := r.later; part != nil; part = part.later {
		for d, amount := range part.charge.Amounts {
			c.Amounts[d] = min(c.Amounts[d]+amount, billing.Most)
		}
	}
	return c
}

// current reports whether none of its budgets has begun anew since it was made.
func (l *Ledger) current(part *reservation) bool {
	for _, n := range part.path.Nodes() {
		for _, b := range l.nodes[n].budgets {
			if b != nil && b.family.span.Start > part.at {
				return false
			}
		}
	}
	return true
}

// Ended is how a settlement went.
type Ended struct {
	// Known is false when there is no such reservation (any more).
	Known bool
	// Again: it had ended before, and nothing has changed. Late: it had expired; what was
	// used is charged all the same.
	Again, Late bool
	// Begun is when it was made.
	Begun time.Time
	// Excess, if any, of what was used over what was reserved.
	Excess Excess
}

// Settle ends a reservation at what was really used, which may be more than was reserved:
// what is spent is spent, and what is beyond its share is a debt. keep: it is remembered
// for a while, because the report may be repeated.
func (l *Ledger) Settle(now time.Time, key coordinator.TaskKey, used coordinator.Amounts, keep bool) Ended {
	return l.SettleBy(now, key, used, keep, coordinator.WordBelieved)
}

// SettleBy is Settle by a report: what an agent reports of itself is counted for as long as it may be
// doubted (see Doubted).
func (l *Ledger) SettleBy(now time.Time, key coordinator.TaskKey, used coordinator.Amounts, keep bool,
	word coordinator.QuotaWord) Ended {
	l.advance(now.UnixNano())
	r := l.find(key)
	switch {
	case r == nil:
		return Ended{}
	case r.state >= resEnded:
		return Ended{Known: true, Again: true}
	}
	late, ends := r.state == resExpired, resEnded
	if r.charge.Call && !late && r.until == 0 {
		ends = resCounted
	}
	billing.Tidy(&used)
	reserved := r.whole().Amounts
	if word != coordinator.WordBelieved {
		l.countReported(l.reportedOf(r, &used, word))
	}
	l.settle(r, used)
	begun := timeOf(r.at)
	l.end(r, ends, keep)
	return Ended{Known: true, Late: late, Begun: begun, Excess: excessOf(&reserved, &used)}
}

// Counted reports whether a call of that key was charged by the report that first named it.
func (l *Ledger) Counted(key coordinator.TaskKey) bool {
	r := l.find(key)
	return r != nil && r.state == resCounted
}

// End ends a reservation as the record of its end says.
func (l *Ledger) End(r *coordinator.QuotaEnded) Ended {
	switch r.How {
	case coordinator.QuotaExpired:
		return Ended{Known: l.Expire(r.At, r.Key)}
	case coordinator.QuotaReleased:
		return l.Release(r.At, r.Key, r.Keep)
	}
	return l.SettleBy(r.At, r.Key, r.Used, r.Keep, r.Word)
}

// Release ends a reservation of which nothing was used.
func (l *Ledger) Release(now time.Time, key coordinator.TaskKey, keep bool) Ended {
	l.advance(now.UnixNano())
	r := l.find(key)
	if r == nil {
		return Ended{}
	}
	if r.state != resOpen {
		return Ended{Known: true, Again: true}
	}
	l.settle(r, coordinator.Amounts{})
	l.end(r, resEnded, keep)
	return Ended{Known: true}
}
