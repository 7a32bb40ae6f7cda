package service

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/bus"
	"taskbus/coordinator/engine"
)

// How the agents' queues are watched.
const (
	watchPeriod = 500 * time.Millisecond // the engine names a queue each second or less often, or at once again
	watchMost   = 500                    // queues in one round
	lookTimeout = 10 * time.Second
	looksMost   = time.Second           // that the first looks may keep tasks waiting
	slowLook    = 50 * time.Millisecond // after such a look what has been seen goes to the engine at once
)

// every does something again and again until it says that it is enough, or the session has ended. A
// round that takes longer puts the next one off; they never overlap.
func (r *session) every(period time.Duration, round func() (again bool)) {
	ticker := time.NewTicker(period)
	defer ticker.Stop()
	for {
		select {
		case <-r.bus.Done():
			return
		case <-ticker.C:
		}
		if !round() {
			return
		}
	}
}

// watchQueues looks about twice a second at the agents' queues that the engine
// names, and at all that it names first before it lets tasks be taken.
func (r *session) watchQueues() {
	n, again := r.lookRound()
	for again && n == watchMost {
		n, again = r.lookRound()
	}
	close(r.looked)
	if again {
		r.every(watchPeriod, func() bool {
			_, again := r.lookRound()
			return again
		})
	}
}

// lookRound looks at the queues that the engine names, several at a time, and returns how many there
// were; again is false when that was the last round.
func (r *session) lookRound() (n int, again bool) {
	list := r.watched()
	var next atomic.Int64
	var last atomic.Bool
	var looking sync.WaitGroup
	for range min(bus.DepthsAtOnce, len(list)) {
		looking.Go(func() {
			var seen []coordinator.Event
			// Posted together, for the engine would wake up for each, but not behind a queue that does not answer.
			defer func() { r.s.loop.post(r.number, seen...) }()
			for i := next.Add(1) - 1; i < int64(len(list)); i = next.Add(1) - 1 {
				begun := time.Now()
				ev, open := r.look(list[i])
				if !open || r.draining.Load() {
					last.Store(true)
					return
				}
				if ev != nil {
					seen = append(seen, ev)
				}
				if time.Since(begun) > slowLook {
					r.s.loop.post(r.number, seen...)
					seen = nil
				}
			}
		})
	}
	looking.Wait()
	return len(list), !last.Load()
}

// awaitLooks waits, not for long, until every queue has been looked at: an agent that was
// killed before this session gets no task.
func (r *session) awaitLooks(ctx context.Context) {
	enough := time.NewTimer(looksMost)
	defer enough.Stop()
	select {
	case <-r.looked:
	case <-enough.C:
	case <-r.bus.Done():
	case <-ctx.Done():
	}
}

// watched asks the engine at which queues to look.
func (r *session) watched() (list []coordinator.QueueWatch) {
	ctx, cancel := context.WithTimeout(context.Background(), lookTimeout)
	defer cancel()
	err := r.s.loop.query(ctx, func(now time.Time, e *engine.Engine) { list = e.Watched(now, watchMost) })
	if err != nil {
		return nil // the loop is busy, or ends: the next round tries again
	}
	return list
}

// look asks the broker about one queue. It returns what to report to the engine, nil when that is not
// known; open is false when the session has ended.
func (r *session) look(w coordinator.QueueWatch) (ev coordinator.Event, open bool) {
	ctx, cancel := context.WithTimeout(context.Background(), lookTimeout)
	defer cancel()
	_, before := r.takeBacks.own(w.Queue)
	d, err := r.bus.Depth(ctx, w.Queue)
	_, after := r.takeBacks.own(w.Queue)
	switch {
	case errors.Is(err, bus.ErrClosed):
		return nil, false
	case errors.Is(err, bus.ErrNoQueue):
		// As empty and left as can be. Its agent gets no work from now on, so that
		// no dispatch would show that it is missing; and the agent cannot come back
		// to a queue that is not there.
		r.ensure(coordinator.EnsureQueue(w))
	case err != nil, before != after, before%2 == 1:
		return nil, true // not known, or not clear which consumers are ours: the next round tries again
	}
	return coordinator.QueueSeen{
		Agent: w.Agent, Ready: d.Ready, Consumers: max(0, d.Consumers-r.ownConsumers(w.Queue)),
	}, true
}

// ownConsumers returns how many of a queue's consumers are ours: the one that takes back,
// and those that have ended but hold messages yet, which RabbitMQ goes on counting.
func (r *session) ownConsumers(queue string) int {
	number, now, ever := r.takeBacks.consumer(queue)
	if !ever {
		return 0 // as nearly always: no need to go through what is held
	}
	own := r.held.ConsumersOf(queue)
	if now {
		own[number] = true
	}
	return len(own)
}
