package service

import (
	"context"
	"errors"
	"sync"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/bus"
	"taskbus/coordinator/engine"
)

// The lanes: queues to which tasks that wait are moved, and out of which they are taken
// again.

const (
	laneTimeout   = 10 * time.Second // for the broker to let a consumer begin or end, or make a queue
	lanesPerRound = 100              // lanes looked at in one round
)

// laneQueues are the queues of lanes as far as this session has to do with them.
type laneQueues struct {
	orders[laneOrder]
	mu    sync.Mutex
	exist map[string]bool   // those that were seen to
	read  map[string]uint64 // those that are read: the number of the reading
	last  uint64            // reading
}

// laneOrder is an effect of the engine, or the news that the broker has ended a reading.
type laneOrder struct {
	effect  coordinator.Effect
	ended   string
	reading uint64
}

func newLaneQueues() *laneQueues {
	return &laneQueues{orders: newOrders[laneOrder](), exist: make(map[string]bool), read: make(map[string]uint64)}
}

func (q *laneQueues) exists(lane string) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.exist[lane]
}

func (q *laneQueues) setExists(lane string, does bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if does {
		q.exist[lane] = true
	} else {
		delete(q.exist, lane)
	}
}

// begins numbers a reading; false: the lane is read already.
func (q *laneQueues) begins(lane string) (reading uint64, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.read[lane] != 0 {
		return 0, false
	}
	q.last++
	q.read[lane] = q.last
	return q.last, true
}

// ends reports whether the lane was read: by that reading, or by any (0).
func (q *laneQueues) ends(lane string, reading uint64) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := q.read[lane]
	if now == 0 || reading != 0 && reading != now {
		return false
	}
	delete(q.read, lane)
	return true
}

// leaveAll orders the end of all reading.
func (q *laneQueues) leaveAll() {
	q.mu.Lock()
	var all []string
	for lane := range q.read { // order does not matter
		all = append(all, lane)
	}
	q.mu.Unlock()
	for _, lane := range all {
		q.order(laneOrder{effect: coordinator.ReadLane{Lane: lane}})
	}
}

// performLane carries out an effect that concerns a lane; a move to one that is known to
// exist goes the way of everything that is published.
func (r *session) performLane(effect coordinator.Effect) {
	if m, ok := effect.(coordinator.MoveToLane); ok && r.lanes.exists(m.Lane) {
		r.outbox.Add(outgoing{move: &m})
		return
	}
	if d, ok := effect.(coordinator.DropLane); ok {
		r.lanes.setExists(d.Lane, false) // what is moved there later waits for its end
	}
	r.lanes.order(laneOrder{effect: effect})
}

// carryOutLanes is the goroutine that waits for the broker.
func (r *session) carryOutLanes() { r.lanes.carryOut(r.bus.Done(), r.carryOutLane) }

func (r *session) carryOutLane(o laneOrder) {
	ctx, cancel := context.WithTimeout(context.Background(), laneTimeout)
	defer cancel()
	switch f := o.effect.(type) {
	case coordinator.MoveToLane:
		if !r.lanes.exists(f.Lane) {
			exists, err := r.bus.EnsureQueue(ctx, bus.LaneQueue(f.Lane))
			if err != nil || !exists {
				r.s.observe.LaneMissing(f.Lane, err)
				r.s.loop.post(r.number, coordinator.LaneMoved{Handle: f.Handle, Outcome: coordinator.PublishUnroutable})
				return
			}
			r.lanes.setExists(f.Lane, true)
		}
		r.outbox.Add(outgoing{move: &f})
	case coordinator.ReadLane:
		if f.Window > 0 {
			r.beginLane(ctx, f)
		} else if r.lanes.ends(f.Lane, 0) {
			_, err := r.bus.Unsubscribe(ctx, bus.LaneQueue(f.Lane).Name) // false: the broker was faster
			if err != nil && !errors.Is(err, bus.ErrClosed) {
				r.fault(err)
			}
		}
	case coordinator.DropLane:
		gone, err := r.bus.DropQueue(ctx, bus.LaneQueue(f.Lane).Name)
		if gone {
			r.s.observe.LaneDropped(f.Lane, err)
		}
		r.s.loop.post(r.number, coordinator.LaneSeen{Lane: f.Lane, Missing: gone, Dropped: true})
	default:
		if r.lanes.ends(o.ended, o.reading) {
			r.s.loop.post(r.number, coordinator.LaneEnded{Lane: o.ended})
		}
	}
}

// beginLane begins to read a lane.
func (r *session) beginLane(ctx context.Context, f coordinator.ReadLane) {
	if r.draining.Load() {
		return
	}
	reading, ok := r.lanes.begins(f.Lane)
	if !ok {
		return
	}
	err := r.bus.Subscribe(ctx, bus.Subscription{
		Queue: bus.LaneQueue(f.Lane).Name, Prefetch: r.window.Lane(f.Lane, f.Window), Handle: r.onTask,
		OnEnded: func(error) { r.lanes.order(laneOrder{ended: f.Lane, reading: reading}) },
	})
	if err != nil {
		r.lanes.ends(f.Lane, reading)
		r.s.observe.LaneUnread(f.Lane, err)
		r.s.loop.post(r.number, coordinator.LaneEnded{Lane: f.Lane})
		return
	}
	r.lookAtLane(f.Lane)
}

// watchLanes looks at the lanes that the engine names until the session ends.
func (r *session) watchLanes() {
	r.every(watchPeriod, func() bool {
		var keys []string
		ctx, cancel := context.WithTimeout(context.Background(), lookTimeout)
		defer cancel()
		err := r.s.loop.query(ctx, func(now time.Time, e *engine.Engine) { keys = e.LanesWatched(now, lanesPerRound) })
		if err != nil {
			return true // the loop is busy, or ends: the next round tries again
		}
		for _, key := range keys {
			if r.draining.Load() || !r.lookAtLane(key) {
				return false
			}
		}
		return true
	})
}

// lookAtLane asks the broker about one lane and reports to the engine; false when the session
// has ended.
func (r *session) lookAtLane(lane string) bool {
	ctx, cancel := context.WithTimeout(context.Background(), lookTimeout)
	defer cancel()
	d, err := r.bus.Depth(ctx, bus.LaneQueue(lane).Name)
	missing := errors.Is(err, bus.ErrNoQueue)
	switch {
	case missing:
		r.lanes.setExists(lane, false)
	case err == nil && d == (bus.Depth{}):
		// So the broker also says when it does not know. A lane that is forgotten is not looked at any more.
		var some bool
		if some, err = r.bus.Holds(ctx, bus.LaneQueue(lane).Name); some {
			d.Ready = 1
		}
	}
	if err != nil && !missing {
		return !errors.Is(err, bus.ErrClosed)
	}
	r.s.loop.post(r.number, coordinator.LaneSeen{Lane: lane, Ready: d.Ready, Missing: missing})
	return true
}
