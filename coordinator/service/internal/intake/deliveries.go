package intake

import (
	"slices"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/bus"
	"taskbus/coordinator/invariant"
)

// Delivery is one that is not acknowledged yet.
type Delivery struct {
	Handle  coordinator.Handle
	Message bus.Delivery
	// Task and Payload are nil for a message that could not be read. Payload is a
	// part of the delivery's body: the producer's bytes.
	Task    *coordinator.Task
	Payload []byte
	Arrived time.Time
	// Dispatch is the latest dispatch published for it; nil before the first.
	Dispatch *coordinator.Dispatch

	Returned bool // it came back from an agent, or was taken back
	// What follows is guarded by the books' lock.
	outcome Outcome
	telling bool      // what is to be said of it is with the transport
	adrift  time.Time // since when an audit finds no owner of it; zero: it has one
}

// Deliveries are all of one session that are not acknowledged yet. They are
// safe for concurrent use; a *Delivery belongs to one stage at a time, in
// the order ingest, loop, outbox, settle.
type Deliveries struct {
	books  *Books // its lock guards all of this
	next   coordinator.Handle
	items  map[coordinator.Handle]*Delivery
	bytes  int64
	closed bool
}

// NewDeliveries returns none. b accounts for all that come.
func NewDeliveries(b *Books) *Deliveries {
	return &Deliveries{books: b, items: make(map[coordinator.Handle]*Delivery)}
}

// Add takes a delivery in and gives it its handle; false when the session is
// over and the delivery the broker's again.
func (h *Deliveries) Add(d *Delivery) bool {
	h.books.mu.Lock()
	defer h.books.mu.Unlock()
	h.books.arrived(d)
	if h.closed {
		h.books.concluded(d, Abandoned)
		return false
	}
	h.next++
	d.Handle = h.next
	h.items[d.Handle] = d
	h.bytes += int64(len(d.Message.Body))
	return true
}

// ConsumersOf returns the numbers of the consumers by which messages of the queue came
// that are held still.
func (h *Deliveries) ConsumersOf(queue string) map[int]bool {
	h.books.mu.Lock()
	defer h.books.mu.Unlock()
	of := make(map[int]bool)
	for _, d := range h.items {
		if d.Message.Queue == queue {
			of[d.Message.Tag.Consumer] = true
		}
	}
	return of
}

// Close refuses deliveries from now on; those that are held are the broker's again.
func (h *Deliveries) Close() {
	h.books.mu.Lock()
	defer h.books.mu.Unlock()
	h.closed = true
	for _, d := range h.items { // order does not matter: they are counted
		if d.outcome == None {
			h.books.concluded(d, Abandoned)
		}
	}
}

// Conclude notes the outcome of a delivery that is about to be settled.
func (h *Deliveries) Conclude(handle coordinator.Handle, o Outcome) {
	h.books.mu.Lock()
	defer h.books.mu.Unlock()
	if d := h.items[handle]; d != nil && !h.closed {
		h.books.concluded(d, o)
	}
}

// Tell notes that what is to be announced of a delivery is with the transport.
func (h *Deliveries) Tell(d *Delivery) {
	h.books.mu.Lock()
	defer h.books.mu.Unlock()
	d.telling = true
}

// Get returns one that is held; nil: it is not.
func (h *Deliveries) Get(handle coordinator.Handle) *Delivery {
	h.books.mu.Lock()
	defer h.books.mu.Unlock()
	return h.items[handle]
}

// Take removes a delivery to be settled, with its outcome if it has none yet; nil
// when it is not there (any more), or the session is over.
func (h *Deliveries) Take(handle coordinator.Handle, o Outcome) *Delivery {
	h.books.mu.Lock()
	defer h.books.mu.Unlock()
	d := h.items[handle]
	if d == nil || h.closed {
		return nil
	}
	if o != None {
		h.books.concluded(d, o)
	}
	h.books.ended(d)
	delete(h.items, handle)
	h.bytes -= int64(len(d.Message.Body))
	return d
}

// Moved reports whether the broker has it in its lane.
func (d *Delivery) Moved() bool { return d.outcome == Moved }

// TotalBytes returns the size of all bodies held.
func (h *Deliveries) TotalBytes() int64 {
	h.books.mu.Lock()
	defer h.books.mu.Unlock()
	return h.bytes
}

// ReturnedBytes returns the size of those that came out of task.reassign.
func (h *Deliveries) ReturnedBytes() (n int64) {
	h.books.mu.Lock()
	defer h.books.mu.Unlock()
	for _, d := range h.items { // order does not matter: it is a sum
		if d.Message.Queue == bus.QueueReassign {
			n += int64(len(d.Message.Body))
		}
	}
	return n
}

// AdriftAfter is how long a delivery may be held without an owner before that counts: what is on its
// way between the engine and the broker is confirmed within half a minute, or the session ends.
const AdriftAfter = 2 * time.Minute

// Holder is an engine, of which every open task has a delivery here.
type Holder interface {
	Holds(coordinator.Handle) bool
	Held(func(coordinator.Handle, coordinator.TaskID))
}

// Audit compares the deliveries that are held here with those that the engine holds. It
// is for the goroutine that owns the engine. While the broker holds up publishers everything may
// take its time.
func (h *Deliveries) Audit(now time.Time, e Holder, blocked bool) []invariant.Violation {
	h.books.mu.Lock()
	defer h.books.mu.Unlock()
	if h.closed {
		return nil
	}
	unknown := invariant.Violation{Invariant: invariant.Held,
		Text: "the engine holds a task whose delivery is settled"}
	e.Held(func(handle coordinator.Handle, task coordinator.TaskID) {
		if h.items[handle] == nil {
			unknown.Count++
			unknown.IDs = append(unknown.IDs, string(task))
		}
	})
	adrift := invariant.Violation{Invariant: invariant.Held,
		Text: "a delivery is held without an owner: the engine does not know it, and its outcome is not on its way"}
	for handle, d := range h.items {
		switch {
		case blocked, d.telling, d.outcome == None && e.Holds(handle):
			d.adrift = time.Time{}
		case d.adrift.IsZero():
			d.adrift = now
		case now.Sub(d.adrift) >= AdriftAfter:
			adrift.Count++
			if d.Task != nil {
				adrift.IDs = append(adrift.IDs, string(d.Task.ID))
			}
		}
	}
	var found []invariant.Violation
	for _, v := range []invariant.Violation{unknown, adrift} {
		if v.Count > 0 {
			slices.Sort(v.IDs)
			v.IDs = v.IDs[:min(len(v.IDs), invariant.MaxIDs)]
			found = append(found, v)
		}
	}
	return found
}
