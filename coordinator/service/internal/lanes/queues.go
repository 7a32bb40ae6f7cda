package lanes

import (
	"context"
	"errors"
	"sync"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/bus"
	"taskbus/coordinator/service/internal/background"
)

// timeout is for the broker to let a consumer begin or end, or make a queue.
const timeout = 10 * time.Second

// Broker is what is used of a session (see bus.Session).
type Broker interface {
	Subscribe(ctx context.Context, sub bus.Subscription) error
	Unsubscribe(ctx context.Context, queue string) (bool, error)
	EnsureQueue(ctx context.Context, q bus.Queue) (bool, error)
	DropQueue(ctx context.Context, queue string) (bool, error)
	Depth(ctx context.Context, queue string) (bus.Depth, error)
	Holds(ctx context.Context, queue string) (bool, error)
	Done() <-chan struct{}
}

// Log hears of queues that cannot be made or read, and of those that are deleted.
type Log interface {
	LaneMissing(lane string, err error)
	LaneUnread(lane string, err error)
	LaneDropped(lane string, err error)
}

// Options are what the queues are given.
type Options struct {
	Bus Broker
	Log Log
	// Prefetch of a lane of which so many tasks should be held.
	Prefetch func(lane string, most int) int
	// Handle takes what is read.
	Handle func(bus.Delivery)
	// Move publishes a task into its lane, which exists.
	Move func(*coordinator.MoveToLane)
	// Watched asks the engine at which lanes to look.
	Watched func(ctx context.Context) ([]string, error)
	// Post tells the engine, Fault ends the session.
	Post  func(...coordinator.Event)
	Fault func(error)
}

// Queues are those of lanes, as far as one session has to do with them.
type Queues struct {
	Options
	orders *background.Queue[order]

	mu    sync.Mutex
	left  bool              // none is read any more
	exist map[string]bool   // those that were seen to
	read  map[string]uint64 // those that are read: the number of the reading
	last  uint64            // reading
}

// order is an effect of the engine, or the news that the broker has ended a reading.
type order struct {
	effect  coordinator.Effect
	ended   string
	reading uint64
}

// New returns none.
func New(o Options) *Queues {
	return &Queues{Options: o, orders: background.NewQueue[order](), exist: make(map[string]bool),
		read: make(map[string]uint64)}
}

// Perform carries out an effect that concerns a lane; a move to one that is known to
// exist is published at once. It never blocks.
func (q *Queues) Perform(effect coordinator.Effect) {
	switch f := effect.(type) {
	case coordinator.MoveToLane:
		if q.exists(f.Lane) {
			q.Move(&f)
			return
		}
	case coordinator.DropLane:
		q.Missing(f.Lane) // what is moved there later waits for its end
	}
	q.orders.Add(order{effect: effect})
}

// Missing notes that a lane has no queue.
func (q *Queues) Missing(lane string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.exist, lane)
}

// LeaveAll orders the end of all reading; no other begins.
func (q *Queues) LeaveAll() {
	q.mu.Lock()
	q.left = true
	var all []string
	for lane := range q.read { // order does not matter
		all = append(all, lane)
	}
	q.mu.Unlock()
	for _, lane := range all {
		q.orders.Add(order{effect: coordinator.ReadLane{Lane: lane}})
	}
}

// Work waits for the broker until the session ends. It runs on a goroutine of its own.
func (q *Queues) Work() { q.orders.Each(q.Bus.Done(), q.carryOut) }

func (q *Queues) exists(lane string) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.exist[lane]
}

func (q *Queues) leaving() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.left
}

// begins numbers a reading; false: the lane is read already, or no lane is to be.
func (q *Queues) begins(lane string) (reading uint64, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.left || q.read[lane] != 0 {
		return 0, false
	}
	q.last++
	q.read[lane] = q.last
	return q.last, true
}

// ends reports whether the lane was read: by that reading, or by any (0).
func (q *Queues) ends(lane string, reading uint64) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := q.read[lane]
	if now == 0 || reading != 0 && reading != now {
		return false
	}
	delete(q.read, lane)
	return true
}

func (q *Queues) carryOut(o order) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	switch f := o.effect.(type) {
	case coordinator.MoveToLane:
		q.move(ctx, &f)
	case coordinator.ReadLane:
		if f.Window > 0 {
			q.begin(ctx, f)
		} else if q.ends(f.Lane, 0) {
			_, err := q.Bus.Unsubscribe(ctx, bus.LaneQueue(f.Lane).Name) // false: the broker was faster
			if err != nil && !errors.Is(err, bus.ErrClosed) {
				q.Fault(err)
			}
		}
	case coordinator.DropLane:
		gone, err := q.Bus.DropQueue(ctx, bus.LaneQueue(f.Lane).Name)
		if gone {
			q.Log.LaneDropped(f.Lane, err)
		}
		q.Post(coordinator.LaneSeen{Lane: f.Lane, Missing: gone, Dropped: true})
	default:
		if q.ends(o.ended, o.reading) {
			q.Post(coordinator.LaneEnded{Lane: o.ended})
		}
	}
}

// move makes the queue of the lane, where it is not known to exist, and moves the task there.
func (q *Queues) move(ctx context.Context, f *coordinator.MoveToLane) {
	if !q.exists(f.Lane) {
		exists, err := q.Bus.EnsureQueue(ctx, bus.LaneQueue(f.Lane))
		if err != nil || !exists {
			q.Log.LaneMissing(f.Lane, err)
			q.Post(coordinator.LaneMoved{Handle: f.Handle, Outcome: coordinator.PublishUnroutable})
			return
		}
		q.mu.Lock()
		q.exist[f.Lane] = true
		q.mu.Unlock()
	}
	q.Move(f)
}

// begin begins to read a lane.
func (q *Queues) begin(ctx context.Context, f coordinator.ReadLane) {
	reading, ok := q.begins(f.Lane)
	if !ok {
		return
	}
	err := q.Bus.Subscribe(ctx, bus.Subscription{
		Queue: bus.LaneQueue(f.Lane).Name, Prefetch: q.Prefetch(f.Lane, f.Window), Handle: q.Handle,
		OnEnded: func(error) { q.orders.Add(order{ended: f.Lane, reading: reading}) },
	})
	if err != nil {
		q.ends(f.Lane, reading)
		q.Log.LaneUnread(f.Lane, err)
		q.Post(coordinator.LaneEnded{Lane: f.Lane})
		return
	}
	q.look(f.Lane)
}
