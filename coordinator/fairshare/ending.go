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

// NextDue is when the next reservation expires, or is forgotten; false: none does.
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

// end notes that a reservation has ended.
func (l *Ledger) end(r *reservation, state resState, keep bool) {
	if !keep {
		l.forget(r)
		return
	}
	r.state = state
	l.endAt(r, time.Unix(0, l.now).Add(l.tombstone()))
}

func (l *Ledger) tombstone() time.Duration {
	if l.quotas == nil {
		return time.Hour
	}
	return l.quotas.TombstoneTTL
}

// endAt sets when a reservation ends, or is forgotten; zero: not by itself.
func (l *Ledger) endAt(r *reservation, at time.Time) {
	if r.place >= 0 {
		l.ending.Remove(r.place)
	}
	if r.until = 0; !at.IsZero() {
		r.until = at.UnixNano()
		l.ending.Push(r)
	}
}

func (l *Ledger) forget(r *reservation) {
	if r.place >= 0 {
		l.ending.Remove(r.place)
	}
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
