package service

import (
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/bus"
)

// heldDelivery is a delivery that is not acknowledged yet.
type heldDelivery struct {
	handle   coordinator.Handle
	delivery bus.Delivery
	// task and payload are nil for a message that could not be read. payload is a
	// part of the delivery's body: the producer's bytes.
	task    *coordinator.Task
	payload []byte
	arrived time.Time
	// dispatch is the latest dispatch published for it; nil before the first.
	dispatch *coordinator.Dispatch

	returned bool // it came back from an agent, or was taken back
	// What follows is guarded by the books' lock.
	outcome outcome
	telling bool      // what is to be said of it is with the transport
	adrift  time.Time // since when an audit finds no owner of it; zero: it has one
}

// held is every delivery of one session that is not acknowledged yet. It is
// safe for concurrent use; a *heldDelivery belongs to one stage at a time, in
// the order ingest, loop, outbox, settle.
type held struct {
	*books // its lock guards all of this
	next   coordinator.Handle
	items  map[coordinator.Handle]*heldDelivery
	bytes  int64
	closed bool
}

func newHeld(b *books) *held {
	return &held{books: b, items: make(map[coordinator.Handle]*heldDelivery)}
}

// add takes a delivery in and gives it its handle; false when the session is
// over and the delivery the broker's again.
func (h *held) add(d *heldDelivery) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.arrived(d)
	if h.closed {
		h.concluded(d, outcomeAbandoned)
		return false
	}
	h.next++
	d.handle = h.next
	h.items[d.handle] = d
	h.bytes += int64(len(d.delivery.Body))
	return true
}

// consumersOf returns the numbers of the consumers by which messages of the queue came
// that are held still.
func (h *held) consumersOf(queue string) map[int]bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	of := make(map[int]bool)
	for _, d := range h.items {
		if d.delivery.Queue == queue {
			of[d.delivery.Tag.Consumer] = true
		}
	}
	return of
}

// close refuses deliveries from now on; those that are held are the broker's again.
func (h *held) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	for _, d := range h.items { // order does not matter: they are counted
		if d.outcome == outcomeNone {
			h.concluded(d, outcomeAbandoned)
		}
	}
}

// conclude notes the outcome of a delivery that is about to be settled.
func (h *held) conclude(handle coordinator.Handle, o outcome) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if d := h.items[handle]; d != nil && !h.closed {
		h.concluded(d, o)
	}
}

// tell notes that what is to be announced of a delivery is with the transport.
func (h *held) tell(d *heldDelivery) {
	h.mu.Lock()
	defer h.mu.Unlock()
	d.telling = true
}

func (h *held) get(handle coordinator.Handle) *heldDelivery {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.items[handle]
}

// take removes a delivery to be settled, with its outcome if it has none yet; nil
// when it is not there (any more), or the session is over.
func (h *held) take(handle coordinator.Handle, o outcome) *heldDelivery {
	h.mu.Lock()
	defer h.mu.Unlock()
	d := h.items[handle]
	if d == nil || h.closed {
		return nil
	}
	if o != outcomeNone {
		h.concluded(d, o)
	}
	h.ended(d)
	delete(h.items, handle)
	h.bytes -= int64(len(d.delivery.Body))
	return d
}

// totalBytes returns the size of all bodies held.
func (h *held) totalBytes() int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.bytes
}

// returnedBytes returns the size of those that came out of task.reassign.
func (h *held) returnedBytes() (n int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, d := range h.items { // order does not matter: it is a sum
		if d.delivery.Queue == bus.QueueReassign {
			n += int64(len(d.delivery.Body))
		}
	}
	return n
}
