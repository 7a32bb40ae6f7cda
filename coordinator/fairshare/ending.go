package fairshare

import (
	"time"

	"taskbus/coordinator"
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

// Expire ends a reservation of which nobody has told how it went: what it held is free
// again. What was used may still be told, for the time of a tombstone.
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

// MostTold is how many calls that have ended are remembered, and ToldFor for how long: so that
// the end of one may be told again by who did not hear the answer. MostLapsed is how many others
// are, for the time of a tombstone: those that have expired, so that what they have used may be
// told yet, and those that were told in one word, which who could ask nobody tells again for long.
// Of more the oldest are forgotten: else whoever reserves and never tells would fill the memory. At
// 600 bytes each that is 80 MB.
const (
	MostTold   = 1 << 16
	MostLapsed = 1 << 16
	ToldFor    = time.Minute
)

// NextDue is when the next reservation expires, or is forgotten; false: none does. (Calls that
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

// forgetCalls forgets calls whose time is over, and those beyond as many as are remembered.
func (l *Ledger) forgetCalls() {
	l.forgetOf(&l.told, MostTold)
	l.forgetOf(&l.lapsed, MostLapsed)
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
		remembered = min(ToldFor, remembered)
	}
	l.endAt(r, time.Unix(0, l.now).Add(remembered))
	l.forgetCalls()
}

// MostOpen is how many calls may be open, MostOpenOf how many of one agent's: far more than can
// run, so that whoever reserves and never tells does not fill the memory.
const (
	MostOpen   = 1 << 18
	MostOpenOf = 1 << 16
)

// Crowded tells whether an agent, or all of them, have as many calls open as may be. of is how many
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

// fileOf is where a reservation is filed by when it ends, or is forgotten.
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
	if l.quotas == nil {
		return time.Hour
	}
	return l.quotas.TombstoneTTL
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

// make gives an empty reservation, drop takes one that is done with.
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
