package replay

import (
	"container/heap"
	"time"

	"taskbus/coordinator"
)

// moment is something that happens in the modelled world at its time.
type moment struct {
	at     time.Time
	number uint64 // of two at the same time the one that was scheduled first comes first
	what   func()
}

// moments is a heap of them.
type moments struct {
	items []moment
	made  uint64
}

func (m *moments) Len() int { return len(m.items) }
func (m *moments) Less(i, j int) bool {
	a, b := &m.items[i], &m.items[j]
	if c := a.at.Compare(b.at); c != 0 {
		return c < 0
	}
	return a.number < b.number
}
func (m *moments) Swap(i, j int) { m.items[i], m.items[j] = m.items[j], m.items[i] }
func (m *moments) Push(x any)    { m.items = append(m.items, x.(moment)) }
func (m *moments) Pop() any {
	n := len(m.items) - 1
	x := m.items[n]
	m.items[n] = moment{}
	m.items = m.items[:n]
	return x
}

// schedule has something happen.
func (m *moments) schedule(at time.Time, what func()) {
	m.made++
	heap.Push(m, moment{at, m.made, what})
}

// next takes the earliest moment that is not after at.
func (m *moments) next(at time.Time) (moment, bool) {
	if len(m.items) == 0 || m.items[0].at.After(at) {
		return moment{}, false
	}
	return heap.Pop(m).(moment), true
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
