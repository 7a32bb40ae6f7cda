package replay

import (
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/heap"
)

// moment is something that happens in the modelled world at its time.
type moment struct {
	at     time.Time
	number uint64 // of two at the same time the one that was scheduled first comes first
	what   func()
}

// moments are those to come.
type moments struct {
	heap.Heap[moment]
	made uint64
}

func newMoments() moments {
	return moments{Heap: heap.Heap[moment]{
		Before: func(a, b moment) bool {
			if c := a.at.Compare(b.at); c != 0 {
				return c < 0
			}
			return a.number < b.number
		},
		Place: func(moment, int) {},
	}}
}

// schedule has something happen.
func (m *moments) schedule(at time.Time, what func()) {
	m.made++
	m.Push(moment{at, m.made, what})
}

// next takes the earliest moment that is not after at.
func (m *moments) next(at time.Time) (moment, bool) {
	if m.Len() == 0 || m.Items[0].at.After(at) {
		return moment{}, false
	}
	return m.Remove(0), true
}

// delivery is a message that the broker has given to the coordinator, which has not
// acknowledged it: a TaskReceived or TaskReturned.
type delivery struct {
	handle coordinator.Handle
	event  coordinator.Event
}

// under is the delivery's event with a handle.
func (d *delivery) under(h coordinator.Handle) coordinator.Event {
	switch ev := d.event.(type) {
	case coordinator.TaskReceived:
		ev.Handle = h
		return ev
	case coordinator.TaskReturned:
		ev.Handle = h
		return ev
	default:
		return d.event
	}
}

// again is the delivery's event as the broker repeats it.
func (d *delivery) again() coordinator.Event {
	switch ev := d.event.(type) {
	case coordinator.TaskReceived:
		ev.Redelivered = true
		return ev
	case coordinator.TaskReturned:
		ev.Redelivered = true
		return ev
	default:
		return d.event
	}
}
