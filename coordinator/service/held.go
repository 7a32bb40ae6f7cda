package service

import (
	"sync"
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
}

// held is every delivery of one session that is not acknowledged yet. It is
// safe for concurrent use; a *heldDelivery belongs to one stage at a time, in
// the order ingest, loop, outbox, settle.
type held struct {
	mu     sync.Mutex
	next   coordinator.Handle
	items  map[coordinator.Handle]*heldDelivery
	bytes  int64
	closed bool
}

func newHeld() *held { return &held{items: make(map[coordinator.Handle]*heldDelivery)} }

// add takes a delivery in and gives it its handle; false when the session is
// over and the delivery the broker's again.
func (h *held) add(d *heldDelivery) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return false
	}
	h.next++
	d.handle = h.next
	h.items[d.handle] = d
	h.bytes += int64(len(d.delivery.Body))
	return true
}

// consumersOf gives the numbers of the consumers by which messages of the queue came
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

// close refuses deliveries from now on and returns how many are held.
func (h *held) close() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	return len(h.items)
}

func (h *held) get(handle coordinator.Handle) *heldDelivery {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.items[handle]
}

// take removes the delivery; nil when it is not there (any more).
func (h *held) take(handle coordinator.Handle) *heldDelivery {
	h.mu.Lock()
	defer h.mu.Unlock()
	d := h.items[handle]
	if d != nil {
		delete(h.items, handle)
		h.bytes -= int64(len(d.delivery.Body))
	}
	return d
}

// totalBytes is the size of all bodies held.
func (h *held) totalBytes() int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.bytes
}

func (h *held) size() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.items)
}
