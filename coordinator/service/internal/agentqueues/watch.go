package agentqueues

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/bus"
	"taskbus/coordinator/service/internal/background"
)

// How the agents' queues are watched.
const (
	watchPeriod = 500 * time.Millisecond // the engine names a queue each second or less often, or at once again
	watchMost   = 500                    // queues in one round
	lookTimeout = 10 * time.Second
	looksMost   = time.Second           // that the first looks may keep tasks waiting
	slowLook    = 50 * time.Millisecond // after such a look what has been seen goes to the engine at once
)

// Watch looks about twice a second at the agents' queues that the engine
// names, and at all that it names first before AwaitLooks returns. It runs on a goroutine of its own until the session
// ends.
func (q *Queues) Watch() {
	n, again := q.round()
	for again && n == watchMost {
		n, again = q.round()
	}
	close(q.looked)
	if again {
		background.Every(q.Bus.Done(), watchPeriod, func() bool {
			_, again := q.round()
			return again
		})
	}
}

// AwaitLooks waits, not for long, until every queue has been looked at: an agent that was
// killed before this session gets no task.
func (q *Queues) AwaitLooks(ctx context.Context) {
	enough := time.NewTimer(looksMost)
	defer enough.Stop()
	select {
	case <-q.looked:
	case <-enough.C:
	case <-q.Bus.Done():
	case <-ctx.Done():
	}
}

// round looks at the queues that the engine names, several at a time, and returns how many there
// were; again is false when that was the last round.
func (q *Queues) round() (n int, again bool) {
	list := q.watched()
	var next atomic.Int64
	var last atomic.Bool
	var looking sync.WaitGroup
	for range min(bus.DepthsAtOnce, len(list)) {
		looking.Go(func() {
			var seen []coordinator.Event
			// Posted together, for the engine would wake up for each, but not behind a queue that does not answer.
			defer func() { q.Post(seen...) }()
			for i := next.Add(1) - 1; i < int64(len(list)); i = next.Add(1) - 1 {
				begun := time.Now()
				ev, open := q.look(list[i])
				if !open || q.left.Load() {
					last.Store(true)
					return
				}
				if ev != nil {
					seen = append(seen, ev)
				}
				if time.Since(begun) > slowLook {
					q.Post(seen...)
					seen = nil
				}
			}
		})
	}
	looking.Wait()
	return len(list), !last.Load()
}

// watched asks the engine at which queues to look: none while the loop is busy, or ends.
func (q *Queues) watched() []coordinator.QueueWatch {
	ctx, cancel := context.WithTimeout(context.Background(), lookTimeout)
	defer cancel()
	list, err := q.Watched(ctx, watchMost)
	if err != nil {
		return nil // the next round tries again
	}
	return list
}

// look asks the broker about one queue. It returns what to report to the engine, nil when that is not
// known; open is false when the session has ended.
func (q *Queues) look(w coordinator.QueueWatch) (ev coordinator.Event, open bool) {
	ctx, cancel := context.WithTimeout(context.Background(), lookTimeout)
	defer cancel()
	before := q.Own.Turn(w.Queue)
	d, err := q.Bus.Depth(ctx, w.Queue)
	after := q.Own.Turn(w.Queue)
	switch {
	case errors.Is(err, bus.ErrClosed):
		return nil, false
	case errors.Is(err, bus.ErrNoQueue):
		// As empty and left as can be. Its agent gets no work from now on, so that
		// no dispatch would show that it is missing; and the agent cannot come back
		// to a queue that is not there.
		q.Check(coordinator.EnsureQueue(w))
	case err != nil, before != after, before%2 == 1:
		return nil, true // not known, or not clear which consumers are ours: the next round tries again
	}
	return coordinator.QueueSeen{
		Agent: w.Agent, Ready: d.Ready, Consumers: max(0, d.Consumers-q.Own.Count(w.Queue)),
	}, true
}
