package fairshare

import (
	"cmp"
	"slices"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/fairshare/arith"
	"taskbus/coordinator/heap"
)

// newEnding files reservations by when they end.
func newEnding() heap.Heap[*reservation] {
	return heap.Heap[*reservation]{
		Before: func(a, b *reservation) bool {
			if a.until != b.until {
				return a.until < b.until
			}
			return a.key[0] < b.key[0] || a.key[0] == b.key[0] && a.key[1] < b.key[1]
		},
		Place: func(r *reservation, i int) { r.place = i },
	}
}

// Expire ends a reservation without a report of its end: what it held is free again. What was used may still
// be reported, for the time of a tombstone.
func (l *Ledger) Expire(now time.Time, key coordinator.TaskKey) bool {
	l.advance(now.UnixNano())
	r := l.open[key]
	if r == nil || r.state != resOpen {
		return false
	}
	l.settle(r, coordinator.Amounts{})
	l.end(r, resExpired, true)
	return true
}

// mostTold is how many calls that have ended are remembered, and toldFor for how long: so that the report
// of an end may be repeated when its answer was lost. mostLapsed is how many others are, for the time of a
// tombstone: those that have expired, so that their usage may be reported yet, and those that were charged
// by one report without a reservation, which are not repeated for long. Of more the oldest are forgotten:
// else reservations without an end would fill the memory. At 600 bytes each that is 80 MB.
const (
	mostTold   = 1 << 16
	mostLapsed = 1 << 16
	toldFor    = time.Minute
)

// soon returns when what is set aside now is thought to be back: reservations end then by themselves, if any do.
func (l *Ledger) soon() int64 {
	if l.Quotas() == nil || l.Quotas().ReservationTTL <= 0 {
		return unknown
	}
	return arith.Add(l.now, int64(l.Quotas().ReservationTTL))
}

// mostEnds is of how many reservations the ends are looked at: 512 cost about 20 µs.
const mostEnds = 512

// SoonestEnd has a refusal say (RetryAt) when reservations end by themselves that have enough of the budget for
// so much; if these are not among those that are looked at, because tasks have it or there are many, when the
// next of all ends, or reservation_ttl from now.
func (l *Ledger) SoonestEnd(v *Verdict, asked int64) {
	if v.OK || !v.Ends {
		return
	}
	b := l.nodes[v.at].budgets[v.Dimension]
	missing := max(1, asked-min(b.left(), b.room()+b.agentsLeft()))
	if len(b.kids) > 0 { // what its children have of it they give back to it
		missing = max(1, asked-b.left())
	}
	at := l.soon()
	var ends []*reservation
	for _, r := range l.ending.Items[:min(mostEnds, l.ending.Len())] {
		if r.state == resOpen && r.until < v.RetryAt.UnixNano() {
			at = min(at, max(r.until, l.now))
			if r.holds(b) > 0 {
				ends = append(ends, r)
			}
		}
	}
	slices.SortFunc(ends, func(a, b *reservation) int { return cmp.Compare(a.until, b.until) })
	for _, r := range ends {
		if missing -= r.holds(b); missing <= 0 {
			at = r.until
			break
		}
	}
	if t := timeOf(at); t.Before(v.RetryAt) {
		v.RetryAt = t
	}
}

// holds returns how much of a budget, in its period, a reservation has.
func (r *reservation) holds(b *budget) (all int64) {
	for part := r; part != nil; part = part.later {
		if part.at >= b.family.span.Start && slices.Contains(part.path.Nodes(), b.node) {
			all += part.charge.Amounts[b.dim]
		}
	}
	return all
}

// NextDue returns when the next reservation expires, or is forgotten; false: none does. (Calls that
// have ended are forgotten in passing.)
func (l *Ledger) NextDue() (time.Time, bool) {
	if l.ending.Len() == 0 {
		return time.Time{}, false
	}
	return timeOf(l.ending.Items[0].until), true
}

// Due forgets what has been remembered for long enough, and gives the key of one
// reservation that is to expire now; false: none is.
func (l *Ledger) Due(now time.Time) (coordinator.TaskKey, bool) {
	l.advance(now.UnixNano())
	l.forgetCalls()
	for l.ending.Len() > 0 {
		r := l.ending.Items[0]
		switch {
		case r.until > l.now:
			return coordinator.TaskKey{}, false
		case r.state == resOpen:
			return r.key, true
		}
		l.forget(r)
	}
	return coordinator.TaskKey{}, false
}

// forgetCalls forgets calls that need not be remembered any longer, and those beyond as many as are remembered.
func (l *Ledger) forgetCalls() {
	l.forgetOf(&l.told, mostTold)
	l.forgetOf(&l.lapsed, mostLapsed)
}

func (l *Ledger) forgetOf(calls *heap.Heap[*reservation], most int) {
	for calls.Len() > 0 && (calls.Items[0].until <= l.now || calls.Len() > most) {
		l.forget(calls.Items[0])
	}
}

// end notes that a reservation has ended.
func (l *Ledger) end(r *reservation, state resState, keep bool) {
	l.countOpen(r, -1)
	if r.state = state; !keep {
		l.forget(r)
		return
	}
	remembered := l.tombstone()
	if l.fileOf(r) == &l.told {
		remembered = min(toldFor, remembered)
	}
	l.endAt(r, time.Unix(0, l.now).Add(remembered))
	l.forgetCalls()
}

// MostOpen is how many calls may be open, MostOpenOf how many of one agent's: far more than can run, so
// that reservations without an end do not fill the memory.
const (
	MostOpen   = 1 << 18
	MostOpenOf = 1 << 16
)

// Crowded reports whether an agent, or all of them, have as many calls open as may be. of is how many
// that is.
func (l *Ledger) Crowded(agent coordinator.AgentID) (of int, crowded bool) {
	switch {
	case l.opened[agent] >= MostOpenOf:
		return MostOpenOf, true
	case l.openCalls >= MostOpen:
		return MostOpen, true
	}
	return 0, false
}

// countOpen counts a reservation that is open, if it is a call's.
func (l *Ledger) countOpen(r *reservation, by int) {
	if !r.charge.Call || r.state != resOpen {
		return
	}
	l.openCalls += by
	if l.opened[r.charge.Agent] += by; l.opened[r.charge.Agent] == 0 {
		delete(l.opened, r.charge.Agent)
	}
}

// fileOf returns where a reservation is filed by when it ends, or is forgotten.
func (l *Ledger) fileOf(r *reservation) *heap.Heap[*reservation] {
	switch {
	case !r.charge.Call || r.state == resOpen:
		return &l.ending
	case r.state == resEnded:
		return &l.told
	default:
		return &l.lapsed
	}
}

func (l *Ledger) tombstone() time.Duration {
	if l.Quotas() == nil {
		return time.Hour
	}
	return l.Quotas().TombstoneTTL
}

// endAt sets when a reservation ends, or is forgotten; zero: not by itself.
func (l *Ledger) endAt(r *reservation, at time.Time) {
	l.unfile(r)
	if r.until = 0; at.IsZero() {
		return
	}
	r.until = at.UnixNano()
	r.file = l.fileOf(r)
	r.file.Push(r)
}

// unfile takes it out of those that end by themselves.
func (l *Ledger) unfile(r *reservation) {
	if r.place >= 0 {
		r.file.Remove(r.place)
	}
}

func (l *Ledger) forget(r *reservation) {
	l.unfile(r)
	delete(l.open, r.key)
	for part := r; part != nil; {
		later := part.later
		l.drop(part)
		part = later
	}
}

// make returns an empty reservation, drop takes one that is done with.
func (l *Ledger) make() *reservation {
	if n := len(l.spare); n > 0 {
		r := l.spare[n-1]
		l.spare = l.spare[:n-1]
		return r
	}
	return &reservation{place: -1}
}

func (l *Ledger) drop(r *reservation) {
	if len(l.spare) < 1024 {
		*r = reservation{place: -1, loans: r.loans[:0], uses: r.uses[:0]}
		l.spare = append(l.spare, r)
	}
}
