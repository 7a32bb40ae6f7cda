package service

import (
	"sync"

	"taskbus/coordinator"
	"taskbus/coordinator/bus"
	"taskbus/messages"
)

// Properties that everything published carries.
const (
	appID       = "taskbus"
	contentJSON = "application/json"
	typeFence   = "coordinator.fence"
	typePulse   = "coordinator.pulse"
)

// outgoing is one thing to publish: exactly one of its fields is set, but for
// held, which belongs to refused.
type outgoing struct {
	dispatch *coordinator.Dispatch
	fail     *coordinator.Fail
	refused  *messages.Refusal // an unreadable message: answered and parked
	held     *heldDelivery
	notice   *notice          // one that the broker did not take before
	event    *bus.Publication // something to announce

	completed  *coordinator.Completed // to announce; encoded only when its turn comes
	withdrawal *withdrawal            // for an agent's control queue
	relayed    *relayed               // what an agent reported over HTTP
	letter     *letter                // offers to an agent
	reply      coordinator.Effect     // the answer to an agent's bid or claim
	move       *coordinator.MoveToLane
}

// outbox lets the loop hand over effects without ever waiting for the broker:
// it queues them, and one goroutine encodes and publishes them in order. Its
// length, with what waits for the journal, is bounded by the deliveries held and by
// maxAnnounced.
type outbox struct {
	mu     sync.Mutex
	queue  []outgoing
	open   int           // added and not yet published, or held back for the journal
	held   int           // of them, those held back
	sent   uint64        // with the transport
	signal chan struct{} // capacity 1
	room   chan struct{} // capacity 1: there is less than maxAnnounced again
}

// maxAnnounced is how many messages may wait to be published before no more results are read, and other
// announcements dropped: these are optional, and a broker that holds up publishers must not cost memory
// without bound.
const maxAnnounced = 10_000

func newOutbox() *outbox {
	return &outbox{signal: make(chan struct{}, 1), room: make(chan struct{}, 1)}
}

func (o *outbox) add(item outgoing) {
	o.mu.Lock()
	o.queue = append(o.queue, item)
	o.open++
	first := len(o.queue) == 1
	o.mu.Unlock()
	if first {
		select {
		case o.signal <- struct{}{}:
		default:
		}
	}
}

// swap takes everything queued and leaves an empty slice in its place.
func (o *outbox) swap(empty []outgoing) []outgoing {
	o.mu.Lock()
	defer o.mu.Unlock()
	full := o.queue
	o.queue = empty
	return full
}

// hold counts what waits for the journal before it may be added.
func (o *outbox) hold(n int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.open += n
	o.held += n
}

// unhold is release for what was held back and comes to be added now.
func (o *outbox) unhold(n int) {
	o.mu.Lock()
	o.held -= n
	o.mu.Unlock()
	o.release(n)
}

// published notes that one item is with the transport.
func (o *outbox) published() {
	o.mu.Lock()
	o.sent++
	o.mu.Unlock()
	o.release(1)
}

// progress returns how many items are not with the transport yet, what the journal holds back apart, and how
// many ever were.
func (o *outbox) progress() (waiting int, sent uint64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.open - o.held, o.sent
}

// release takes n off.
func (o *outbox) release(n int) {
	o.mu.Lock()
	full := o.open >= maxAnnounced
	o.open -= n
	room := full && o.open < maxAnnounced
	o.mu.Unlock()
	if room {
		select {
		case o.room <- struct{}{}:
		default:
		}
	}
}

// awaitRoom returns when less than maxAnnounced items wait: true; or when done is
// closed: false, from then on each time, with or without room: what is left undone after
// one false is followed by nothing that is done. Only one goroutine may call it.
func (o *outbox) awaitRoom(done <-chan struct{}) bool {
	for {
		select {
		case <-done:
			return false
		default:
		}
		if o.waiting() < maxAnnounced {
			return true
		}
		select {
		case <-o.room:
		case <-done:
		}
	}
}

// waiting returns how many items are not with the transport yet.
func (o *outbox) waiting() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.open
}
