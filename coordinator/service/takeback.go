package service

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/cespare/xxhash/v2"

	"taskbus/coordinator"
	"taskbus/coordinator/bus"
)

// The consumers by which dispatches are taken back. They come before an agent's
// own, which has the broker's default priority: one that is being drained still
// consumes.
const (
	prefetchTakenBack = 100
	priorityTakeBack  = 10
	takeBackTimeout   = 10 * time.Second // for the broker to let a consumer begin or end
	// takeBacksAtOnce is how many queues the broker is asked about at a time: a consumer takes it three
	// round trips, and agents go away by the hundred, with their machine or their part of the network.
	takeBacksAtOnce = 8
)

// takeBacks are the consumers of ours on the queues of agents that are gone or
// drained.
type takeBacks struct {
	// orders of one queue are always in the same list, and so carried out in order.
	orders [takeBacksAtOnce]orders[takeBackOrder]
	mu     sync.Mutex
	queues map[string]*takeBackOfQueue // never more than there were agents' queues
}

// takeBackOrder is to begin or end a consumer, or the news that the broker has
// ended the one of that turn.
type takeBackOrder struct {
	what  takeBackStep
	agent coordinator.AgentID
	queue string
	turn  uint64
	err   error
}

type takeBackStep uint8

const (
	takeBackBegins takeBackStep = iota
	takeBackEnds
	takeBackBroken
	takeBackForeign // something was met that is not ours to take
)

// takeBackOfQueue is the state of one queue.
type takeBackOfQueue struct {
	agent coordinator.AgentID
	on    bool
	// consumer is the number of the consumer by which the latest message came; 0:
	// none has come in this turn.
	consumer int
	// turn counts the changes: odd while the broker is asked for one, and it is not known whether a
	// consumer of ours is among those it counts.
	turn uint64
	// foreign is what the present consumer has met that is not ours; nil where all is.
	foreign *foreignMessages
	// pause is how long the queue was left alone the last time, until is its end.
	pause time.Duration
	until time.Time
}

func newTakeBacks() *takeBacks {
	t := &takeBacks{queues: make(map[string]*takeBackOfQueue)}
	for i := range t.orders {
		t.orders[i] = newOrders[takeBackOrder]()
	}
	return t
}

// list returns the list with the orders of the queue.
func (t *takeBacks) list(queue string) *orders[takeBackOrder] {
	return &t.orders[xxhash.Sum64String(queue)%takeBacksAtOnce]
}

func (t *takeBacks) order(o takeBackOrder) { t.list(o.queue).order(o) }

// leaveAll orders the end of every consumer that there is or will be.
func (t *takeBacks) leaveAll() {
	t.mu.Lock()
	var all []takeBackOrder
	for queue, q := range t.queues {
		all = append(all, takeBackOrder{what: takeBackEnds, agent: q.agent, queue: queue})
	}
	t.mu.Unlock()
	for _, o := range all {
		t.order(o)
	}
}

// own reports whether we consume the queue, and the number of the latest change.
func (t *takeBacks) own(queue string) (on bool, turn uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if q := t.queues[queue]; q != nil {
		return q.on, q.turn
	}
	return false, 0
}

// turn begins a change (to an odd number) or ends it.
func (t *takeBacks) turn(agent coordinator.AgentID, queue string, on bool) uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	q := t.of(agent, queue)
	q.on, q.turn = on, q.turn+1
	if on && q.turn%2 == 0 {
		q.consumer = 0
	}
	return q.turn
}

// came notes by which consumer a message came.
func (t *takeBacks) came(queue string, consumer int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if q := t.queues[queue]; q != nil {
		q.consumer = consumer
	}
}

// consumer returns the number of the consumer by which messages of the queue come (0 when
// none has come) and whether there is one now; ever, whether there has been any in
// this session.
func (t *takeBacks) consumer(queue string) (number int, now, ever bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if q := t.queues[queue]; q != nil {
		return q.consumer, q.on, true
	}
	return 0, false, false
}

// of returns the state of a queue. t.mu is held.
func (t *takeBacks) of(agent coordinator.AgentID, queue string) *takeBackOfQueue {
	q := t.queues[queue]
	if q == nil {
		q = &takeBackOfQueue{agent: agent}
		t.queues[queue] = q
	}
	return q
}

// carryOutTakeBacks is a goroutine that waits for the broker, on behalf of the queues of one list.
func (r *session) carryOutTakeBacks(list *orders[takeBackOrder]) {
	list.carryOut(r.bus.Done(), func(o takeBackOrder) {
		switch o.what {
		case takeBackBegins:
			r.beginTakeBack(o)
		case takeBackEnds:
			r.endTakeBack(o)
		case takeBackForeign:
			r.leaveForeign(o)
		default:
			r.takeBackBroke(o)
		}
	})
}

func (r *session) beginTakeBack(o takeBackOrder) {
	if on, _ := r.takeBacks.own(o.queue); on || r.draining.Load() {
		return
	}
	listed := r.listed(o.queue)
	if !listed && r.takeBacks.barred(o.queue, r.s.now()) {
		r.s.loop.post(r.number, coordinator.TakeBackEnded{Agent: o.agent})
		return
	}
	changing := r.takeBacks.turn(o.agent, o.queue, false)
	handle := r.onTakenBack
	if !listed {
		handle = r.sparingForeign(takeBackOrder{what: takeBackForeign, agent: o.agent, queue: o.queue, turn: changing + 1})
	}
	ctx, cancel := context.WithTimeout(context.Background(), takeBackTimeout)
	defer cancel()
	err := r.bus.Subscribe(ctx, bus.Subscription{
		Queue: o.queue, Prefetch: r.window.First(prefetchTakenBack), Priority: priorityTakeBack,
		OnEnded: func(err error) {
			r.takeBacks.order(takeBackOrder{what: takeBackBroken, agent: o.agent, queue: o.queue, turn: changing + 1, err: err})
		},
		Handle: handle,
	})
	r.takeBacks.turn(o.agent, o.queue, err == nil)
	r.s.observe.TakeBack(o.agent, o.queue, err)
	if err != nil && !errors.Is(err, bus.ErrClosed) {
		r.s.loop.post(r.number, coordinator.TakeBackEnded{Agent: o.agent})
	}
}

func (r *session) endTakeBack(o takeBackOrder) {
	if on, _ := r.takeBacks.own(o.queue); !on {
		return
	}
	r.takeBacks.turn(o.agent, o.queue, true)
	ctx, cancel := context.WithTimeout(context.Background(), takeBackTimeout)
	defer cancel()
	_, err := r.bus.Unsubscribe(ctx, o.queue) // false: the broker was faster
	r.giveForeignBack(o.queue)
	r.takeBacks.turn(o.agent, o.queue, false)
	if err != nil && !errors.Is(err, bus.ErrClosed) {
		// A consumer that cannot be ended would go on taking an agent's work.
		r.fault(err)
	}
}

// takeBackBroke hears that the broker has ended the consumer: its queue was
// deleted.
func (r *session) takeBackBroke(o takeBackOrder) {
	if on, turn := r.takeBacks.own(o.queue); !on || turn != o.turn {
		return // it was to end anyway, or another has begun since
	}
	r.takeBacks.turn(o.agent, o.queue, false)
	r.takeBacks.turn(o.agent, o.queue, false)
	r.giveForeignBack(o.queue)
	r.s.observe.TakeBack(o.agent, o.queue, o.err)
	r.s.loop.post(r.number, coordinator.TakeBackEnded{Agent: o.agent})
}

// onTakenBack takes a delivery out of the queue of an agent that is gone or
// drained.
func (r *session) onTakenBack(d bus.Delivery) {
	if r.draining.Load() {
		return
	}
	r.takeBacks.came(d.Queue, d.Tag.Consumer)
	r.s.observe.TakenBack()
	r.takeReturn(d, coordinator.ReturnTakenBack)
}
