package reading

import (
	"sync"

	"taskbus/coordinator"
	"taskbus/coordinator/bus"
	"taskbus/coordinator/view"
)

// Watched are the queues of which the depth is watched.
var Watched = []string{
	bus.QueueAssign, bus.QueueAssignHigh, bus.QueueReassign, bus.QueueFailed, bus.QueueDead,
}

// Depths are what the broker last said of the watched queues. They are safe for concurrent use.
type Depths struct {
	mu   sync.Mutex
	last map[string]view.Queue
}

// Set notes what the broker says of a queue, or why it says nothing.
func (d *Depths) Set(queue string, depth bus.Depth, err error) {
	q := view.Queue{Name: queue, Ready: depth.Ready, Consumers: depth.Consumers}
	if err != nil {
		q.Error = err.Error()
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.last == nil {
		d.last = make(map[string]view.Queue)
	}
	d.last[queue] = q
}

// Forget drops what was said of all queues: it does not hold any more.
func (d *Depths) Forget() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.last = nil
}

// Queues returns what was said of each.
func (d *Depths) Queues() (all []view.Queue) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, name := range Watched {
		q, said := d.last[name]
		if !said {
			q = view.Queue{Name: name, Error: "not read yet"}
		}
		all = append(all, q)
	}
	return all
}

// Ready returns how many messages are ready, by queue, in those of which that is known.
func (d *Depths) Ready() map[string]int {
	ready := make(map[string]int)
	for _, q := range d.Queues() {
		if q.Error == "" {
			ready[q.Name] = q.Ready
		}
	}
	return ready
}

// Unread returns how many tasks lie in task.assign, task.assign.high and lanes.
func (d *Depths) Unread(snap *coordinator.Snapshot) int {
	ready := d.Ready()
	n := ready[bus.QueueAssign] + ready[bus.QueueAssignHigh]
	for _, l := range snap.Lanes {
		n += l.Ready
	}
	return n
}
