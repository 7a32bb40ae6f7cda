package service

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"taskbus/coordinator"
	"taskbus/coordinator/bus"
)

// window bounds the tasks held unacknowledged from task.assign: in number by
// `window`, in bytes by `window_bytes`; and those from task.reassign, which has a
// window of its own, so that what waits there for an agent, or may not be tried again
// yet, does not keep others from being seen. RabbitMQ knows only numbers, so the
// number follows the sizes seen: it begins with what fits if every task is as
// large as it may be, and grows as the tasks prove smaller.
//
// A prefetch is fixed for a consumer's life and, on some brokers, at most 2,000
// for a quorum queue; the window is therefore read by several consumers that
// come and go.
type window struct {
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
	maxPrefetch    = 2000
	windowSamples  = 64 // deliveries between two looks at the sizes
	sizeAllowance  = 2  // expected size = allowance × average
	growAtLeastTo  = 1.5
	shrinkBelow    = 0.5
	prefetchOthers = 128 // task.assign.high; of task.reassign at least
	// prefetchRequest leaves bids, of which thousands come at once and none is held, room
	// beside the cancels that are.
	prefetchRequest = 1000
	prefetchStatus  = 1000
	prefetchResult  = 2000
)

func newWindow(tasks int, bytes int64, largest int) *window {
	return &window{tasks: tasks, bytes: bytes, largest: largest, look: make(chan struct{}, 1)}
}

// returnsWindow is that of task.reassign: a quarter as many tasks as of task.assign, because all that wait
// share max_queue_size and the room that lanes leave, and half as many bytes.
func returnsWindow(tasks int, bytes int64, largest int) *window {
	return newWindow(max(prefetchOthers, tasks/4), max(bytes/2, int64(largest)), largest)
}

// first returns the prefetch that is safe whatever the sizes: at least 1.
func (w *window) first(most int) int {
	return max(1, min(most, maxPrefetch, int(w.bytes/int64(w.largest))))
}

// open returns the prefetch of the first consumer.
func (w *window) open() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	first := w.first(w.tasks)
	w.sizes = []int{first}
	return first
}

// observe learns the size of a delivery, and has the window looked at when it is time to adapt it.
func (w *window) observe(size int) {
	if w.learn(size) {
		select {
		case w.look <- struct{}{}:
		default: // it is about to be looked at anyway
		}
	}
}

// learn learns one size and reports whether it is time to adapt: now and then, and as soon as what was safe
// at first is full, so that it does not wait for more that cannot come.
func (w *window) learn(size int) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seen++
	if w.seen == 1 {
		w.average = float64(size)
	}
	w.average += (float64(size) - w.average) / windowSamples
	return w.seen%windowSamples == 0 || len(w.sizes) > 0 && w.seen == w.sizes[0]
}

// adapt answers with the prefetch of a consumer to add (positive), −1 to end the
// newest, or 0. heldBytes is what is held now.
func (w *window) adapt(heldBytes int64) int {
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

// total returns how many tasks all consumers hold at most, those to come included.
func (w *window) total() (n int) {
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

// lane returns the prefetch of a lane of which so many tasks should be held. What is held out of
// coordinator.LaneHeld is part of the window: the engine says how much of it.
func (w *window) lane(lane string, most int) int {
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

// intake is a queue out of which tasks are taken by a window.
type intake struct {
	queue string
	*window
	handle func(bus.Delivery)
	held   func() int64 // how many bytes of what counts for the window are held
	told   func(n int)  // may be nil
}

// openWindow begins to take tasks and keeps the window fit until the session ends. told is called with the width
// once the sizes of some tasks are known: the first window is small because none is, and not full of what
// waits; to move that to lanes would make hundreds of queues at each start.
func (r *session) openWindow(ctx context.Context, in intake) error {
	if err := r.consumeTasks(ctx, in.queue, in.open(), in.handle); err != nil {
		return err
	}
	r.lasting("adapts the window of "+in.queue, func() { r.adaptWindow(in) })
	return nil
}

// adaptWindow adds or ends one consumer at a time, at most one for each look at
// the sizes, until the session ends.
func (r *session) adaptWindow(in intake) {
	for told := 0; ; {
		select {
		case <-r.bus.Done():
			return
		case <-in.look:
		}
		if r.draining.Load() {
			continue
		}
		change := in.adapt(in.held())
		var err error
		switch {
		case change > 0:
			err = r.consumeTasks(context.Background(), in.queue, change, in.handle)
		case change < 0:
			if _, err = r.bus.Unsubscribe(context.Background(), in.queue); err != nil {
				err = fmt.Errorf("narrow the window on %s: %w", in.queue, err)
			}
		}
		if err != nil {
			r.fault(err)
		}
		if n := in.total(); n != told && in.told != nil {
			told = n
			in.told(n)
		}
	}
}

func (r *session) consumeTasks(ctx context.Context, queue string, prefetch int, handle func(bus.Delivery)) error {
	err := r.bus.Subscribe(ctx, bus.Subscription{Queue: queue, Prefetch: prefetch, Handle: handle})
	if err != nil {
		return fmt.Errorf("subscribe to %s: %w", queue, err)
	}
	return nil
}

// stopTaking ends the consumers of tasks.
func (r *session) stopTaking(ctx context.Context) {
	r.draining.Store(true)
	r.takeBacks.leaveAll()
	r.lanes.leaveAll()
	for _, queue := range []string{bus.QueueAssign, bus.QueueAssignHigh, bus.QueueReassign, bus.QueueRequest} {
		for more := true; more; {
			var err error
			if more, err = r.bus.Unsubscribe(ctx, queue); errors.Is(err, bus.ErrClosed) {
				return // nothing is taken any more
			} else if err != nil {
				r.s.log.Warn().Err(err).Str("queue", queue).
					Msg("a consumer could not be ended; what it brings is left to the broker")
				break // of the others it says nothing
			}
		}
	}
}
