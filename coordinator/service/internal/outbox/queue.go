package outbox

import "sync"

// Queue lets the loop hand over effects without ever waiting for the broker:
// it queues them, and one goroutine encodes and publishes them in order. Its
// length, with what waits for the journal, is bounded by the deliveries held and by
// Most.
type Queue[T any] struct {
	mu     sync.Mutex
	queue  []T
	open   int           // added and not yet published, or held back for the journal
	held   int           // of them, those held back
	sent   uint64        // with the transport
	signal chan struct{} // capacity 1
	room   chan struct{} // capacity 1: there is less than Most again
}

// Most is how many messages may wait to be published before no more results are read, and other
// announcements dropped: these are optional, and a broker that holds up publishers must not cost memory
// without bound.
const Most = 10_000

// NewQueue returns an empty one.
func NewQueue[T any]() *Queue[T] {
	return &Queue[T]{signal: make(chan struct{}, 1), room: make(chan struct{}, 1)}
}

// Add appends one.
func (o *Queue[T]) Add(item T) {
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

// Signal has something while items may be queued: one goroutine waits for it, and swaps.
func (o *Queue[T]) Signal() <-chan struct{} { return o.signal }

// Swap takes everything queued and leaves an empty slice in its place.
func (o *Queue[T]) Swap(empty []T) []T {
	o.mu.Lock()
	defer o.mu.Unlock()
	full := o.queue
	o.queue = empty
	return full
}

// Hold counts what waits for the journal before it may be added.
func (o *Queue[T]) Hold(n int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.open += n
	o.held += n
}

// Unhold is release for what was held back and comes to be added now.
func (o *Queue[T]) Unhold(n int) {
	o.mu.Lock()
	o.held -= n
	o.mu.Unlock()
	o.release(n)
}

// Published notes that one item is with the transport.
func (o *Queue[T]) Published() {
	o.mu.Lock()
	o.sent++
	o.mu.Unlock()
	o.release(1)
}

// Progress returns how many items are not with the transport yet, what the journal holds back apart, and how
// many ever were.
func (o *Queue[T]) Progress() (waiting int, sent uint64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.open - o.held, o.sent
}

// release takes n off.
func (o *Queue[T]) release(n int) {
	o.mu.Lock()
	full := o.open >= Most
	o.open -= n
	room := full && o.open < Most
	o.mu.Unlock()
	if room {
		select {
		case o.room <- struct{}{}:
		default:
		}
	}
}

// AwaitRoom returns when less than Most items wait: true; or when done is
// closed: false, from then on each time, with or without room: what is left undone after
// one false is followed by nothing that is done. Only one goroutine may call it.
func (o *Queue[T]) AwaitRoom(done <-chan struct{}) bool {
	for {
		select {
		case <-done:
			return false
		default:
		}
		if o.Waiting() < Most {
			return true
		}
		select {
		case <-o.room:
		case <-done:
		}
	}
}

// Waiting returns how many items are not with the transport yet.
func (o *Queue[T]) Waiting() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.open
}
