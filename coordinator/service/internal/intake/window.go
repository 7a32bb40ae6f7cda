package intake

import (
	"sync"

	"taskbus/coordinator"
)

// Window bounds the tasks held unacknowledged from task.assign: in number by
// `window`, in bytes by `window_bytes`; and those from task.reassign, which has a
// window of its own, so that what waits there for an agent, or may not be tried again
// yet, does not keep others from being seen. RabbitMQ knows only numbers, so the
// number follows the sizes seen: it begins with what fits if every task is as
// large as it may be, and grows as the tasks prove smaller.
//
// A prefetch is fixed for a consumer's life and, on some brokers, at most 2,000
// for a quorum queue; the window is therefore read by several consumers that
// come and go.
type Window struct {
	tasks   int           // the configured bound
	bytes   int64         // the configured bound
	largest int           // max_message_bytes
	look    chan struct{} // capacity 1: look whether the window fits

	mu      sync.Mutex
	seen    int     // deliveries so far
	average float64 // of their sizes, exponentially weighted over about 64
	sizes   []int   // prefetches of the consumers, the oldest first
	more    int     // by how much it is to grow beside these, one consumer after the other
}

// Bounds of one consumer's prefetch and of the adaptation.
const (
	maxPrefetch   = 2000
	windowSamples = 64 // deliveries between two looks at the sizes
	sizeAllowance = 2  // expected size = allowance × average
	growAtLeastTo = 1.5
	shrinkBelow   = 0.5
	// LeastReturns is how many of task.reassign may be held at least.
	LeastReturns = 128
)

// NewWindow returns one of so many tasks and bytes, of messages of at most largest bytes.
func NewWindow(tasks int, bytes int64, largest int) *Window {
	return &Window{tasks: tasks, bytes: bytes, largest: largest, look: make(chan struct{}, 1)}
}

// ReturnsWindow is that of task.reassign: a quarter as many tasks as of task.assign, because all that wait
// share max_queue_size and the room that lanes leave, and half as many bytes.
func ReturnsWindow(tasks int, bytes int64, largest int) *Window {
	return NewWindow(max(LeastReturns, tasks/4), max(bytes/2, int64(largest)), largest)
}

// First returns the prefetch that is safe whatever the sizes: at least 1.
func (w *Window) First(most int) int {
	return max(1, min(most, maxPrefetch, int(w.bytes/int64(w.largest))))
}

// Open returns the prefetch of the first consumer.
func (w *Window) Open() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	first := w.First(w.tasks)
	w.sizes = []int{first}
	return first
}

// Observe learns the size of a delivery, and has the window looked at when it is time to adapt it.
func (w *Window) Observe(size int) {
	if w.learn(size) {
		select {
		case w.look <- struct{}{}:
		default: // it is about to be looked at anyway
		}
	}
}

// learn learns one size and reports whether it is time to adapt: now and then, and as soon as what was safe
// at first is full, so that it does not wait for more that cannot come.
func (w *Window) learn(size int) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seen++
	if w.seen == 1 {
		w.average = float64(size)
	}
	w.average += (float64(size) - w.average) / windowSamples
	return w.seen%windowSamples == 0 || len(w.sizes) > 0 && w.seen == w.sizes[0]
}

// Adapt answers with the prefetch of a consumer to add (positive), −1 to end the
// newest, or 0. heldBytes is what is held now.
func (w *Window) Adapt(heldBytes int64) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	have := 0
	for _, n := range w.sizes {
		have += n
	}
	expected := min(float64(w.largest), max(1, sizeAllowance*w.average))
	want := min(w.tasks, int(float64(w.bytes)/expected))
	w.more = 0
	switch {
	case len(w.sizes) > 1 && (heldBytes > w.bytes || float64(want) < shrinkBelow*float64(have)):
		w.sizes = w.sizes[:len(w.sizes)-1]
		return -1
	case heldBytes > w.bytes/2: // whatever comes next is small: what is held is not
		return 0
	case float64(want) >= growAtLeastTo*float64(have) || want == w.tasks && want > have:
		grow := min(want-have, maxPrefetch)
		w.sizes, w.more = append(w.sizes, grow), want-have-grow
		return grow
	}
	return 0
}

// Total returns how many tasks all consumers hold at most, those to come included.
func (w *Window) Total() (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n = w.more
	for _, size := range w.sizes {
		n += size
	}
	return n
}

// lanesReadAtOnce is how many lanes the engine may have read at once: among so many half of
// window_bytes is shared, beside what the window itself may hold.
const lanesReadAtOnce = 64

// Look says when the window is to be looked at, and adapted.
func (w *Window) Look() <-chan struct{} { return w.look }

// Lane returns the prefetch of a lane of which so many tasks should be held. What is held out of
// coordinator.LaneHeld is part of the window: the engine says how much of it.
func (w *Window) Lane(lane string, most int) int {
	if lane == coordinator.LaneHeld {
		return min(most, maxPrefetch)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	expected := float64(w.largest)
	if w.seen >= windowSamples {
		expected = min(expected, max(1, sizeAllowance*w.average))
	}
	return max(1, min(most, int(float64(w.bytes)/2/lanesReadAtOnce/expected)))
}
