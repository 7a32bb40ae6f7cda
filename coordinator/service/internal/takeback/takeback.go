package takeback

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/cespare/xxhash/v2"

	"taskbus/coordinator"
	"taskbus/coordinator/bus"
	"taskbus/coordinator/service/internal/background"
)

// The consumers by which dispatches are taken back. They come before an agent's
// own, which has the broker's default priority: one that is being drained still
// consumes.
const (
	Prefetch = 100
	priority = 10
	timeout  = 10 * time.Second // for the broker to let a consumer begin or end
	// atOnce is how many queues the broker is asked about at a time: a consumer takes it three
	// round trips, and agents go away by the hundred, with their machine or their part of the network.
	atOnce = 8
)

// Broker is what is used of a session (see bus.Session).
type Broker interface {
	Subscribe(ctx context.Context, sub bus.Subscription) error
	Unsubscribe(ctx context.Context, queue string) (bool, error)
	Requeue(tag bus.Tag)
	Done() <-chan struct{}
}

// Log hears of consumers that have begun or cannot, and of queues that hold what is not ours.
type Log interface {
	TakeBack(agent coordinator.AgentID, queue string, err error)
	Foreign(agent coordinator.AgentID, queue string)
}

// Options are what the consumers are given.
type Options struct {
	Bus      Broker
	Now      func() time.Time
	Log      Log
	Prefetch int
	// Listed reports whether agents.yaml says that the queue is an agent's.
	Listed func(queue string) bool
	// Handle takes what is taken back.
	Handle func(bus.Delivery)
	// Holding returns the numbers of the consumers by which messages of the queue came that are not settled yet.
	Holding func(queue string) map[int]bool
	// Post tells the engine, Fault ends the session.
	Post  func(...coordinator.Event)
	Fault func(error)
}

// Consumers are ours on the queues of agents that are gone or drained.
type Consumers struct {
	Options
	// orders of one queue are always in the same list, and so carried out in order.
	orders [atOnce]*background.Queue[order]

	mu     sync.Mutex
	left   bool                 // no other begins
	queues map[string]*consumed // never more than there were agents' queues
}

// order is to begin or end a consumer, or the news that the broker has
// ended the one of that turn.
type order struct {
	what  step
	agent coordinator.AgentID
	queue string
	turn  uint64
	err   error
}

type step uint8

const (
	begins step = iota
	ends
	broken
	foreign // something was met that is not ours to take
)

// consumed is the state of one queue.
type consumed struct {
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

// New returns none.
func New(o Options) *Consumers {
	c := &Consumers{Options: o, queues: make(map[string]*consumed)}
	for i := range c.orders {
		c.orders[i] = background.NewQueue[order]()
	}
	return c
}

// Begin orders a consumer, which takes back what waits in the queue of an agent.
func (c *Consumers) Begin(agent coordinator.AgentID, queue string) {
	c.order(order{what: begins, agent: agent, queue: queue})
}

// End orders the end of a consumer.
func (c *Consumers) End(agent coordinator.AgentID, queue string) {
	c.order(order{what: ends, agent: agent, queue: queue})
}

// LeaveAll orders the end of every consumer that there is; no other begins.
func (c *Consumers) LeaveAll() {
	c.mu.Lock()
	c.left = true
	var all []order
	for queue, q := range c.queues {
		all = append(all, order{what: ends, agent: q.agent, queue: queue})
	}
	c.mu.Unlock()
	for _, o := range all {
		c.order(o)
	}
}

// Turn returns the number of the latest change of our consumer of a queue: odd while one is under way.
func (c *Consumers) Turn(queue string) uint64 { return c.state(queue).turn }

// Count returns how many of a queue's consumers are ours: the one that takes back,
// and those that have ended but hold messages yet, which RabbitMQ goes on counting.
func (c *Consumers) Count(queue string) int {
	q := c.state(queue)
	if q.turn == 0 {
		return 0 // as nearly always: no need to go through what is held
	}
	own := c.Holding(queue)
	if q.on {
		own[q.consumer] = true
	}
	return len(own)
}

// Workers are goroutines that wait for the broker, each on behalf of some of the queues, until the session ends.
func (c *Consumers) Workers() (all []func()) {
	for _, list := range c.orders {
		all = append(all, func() { list.Each(c.Bus.Done(), c.carryOut) })
	}
	return all
}

// list returns the list with the orders of the queue.
func (c *Consumers) list(queue string) *background.Queue[order] {
	return c.orders[xxhash.Sum64String(queue)%atOnce]
}

func (c *Consumers) order(o order) { c.list(o.queue).Add(o) }

// state returns a copy of what is known of a queue.
func (c *Consumers) state(queue string) consumed {
	c.mu.Lock()
	defer c.mu.Unlock()
	if q := c.queues[queue]; q != nil {
		return *q
	}
	return consumed{}
}

// turn begins a change (to an odd number) or ends it.
func (c *Consumers) turn(agent coordinator.AgentID, queue string, on bool) uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	q := c.queues[queue]
	if q == nil {
		q = &consumed{agent: agent}
		c.queues[queue] = q
	}
	q.on, q.turn = on, q.turn+1
	if on && q.turn%2 == 0 {
		q.consumer = 0
	}
	return q.turn
}

// came notes by which consumer a message came.
func (c *Consumers) came(queue string, consumer int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if q := c.queues[queue]; q != nil {
		q.consumer = consumer
	}
}

func (c *Consumers) leaving() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.left
}

func (c *Consumers) carryOut(o order) {
	switch o.what {
	case begins:
		c.begin(o)
	case ends:
		c.end(o)
	case foreign:
		c.leaveForeign(o)
	default:
		c.broke(o)
	}
}

func (c *Consumers) begin(o order) {
	if c.leaving() || c.state(o.queue).on {
		return
	}
	listed := c.Listed(o.queue)
	if !listed && c.Now().Before(c.state(o.queue).until) { // it is left alone for a while
		c.Post(coordinator.TakeBackEnded{Agent: o.agent})
		return
	}
	began := c.turn(o.agent, o.queue, false) + 1
	handle := c.take
	if !listed {
		handle = c.sparingForeign(order{what: foreign, agent: o.agent, queue: o.queue, turn: began})
	}
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	err := c.Bus.Subscribe(ctx, bus.Subscription{
		Queue: o.queue, Prefetch: c.Prefetch, Priority: priority, Handle: handle,
		OnEnded: func(err error) {
			c.order(order{what: broken, agent: o.agent, queue: o.queue, turn: began, err: err})
		},
	})
	c.turn(o.agent, o.queue, err == nil)
	c.Log.TakeBack(o.agent, o.queue, err)
	if err != nil && !errors.Is(err, bus.ErrClosed) {
		c.Post(coordinator.TakeBackEnded{Agent: o.agent})
	}
}

func (c *Consumers) end(o order) {
	if !c.state(o.queue).on {
		return
	}
	c.turn(o.agent, o.queue, true)
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	_, err := c.Bus.Unsubscribe(ctx, o.queue) // false: the broker was faster
	c.giveForeignBack(o.queue)
	c.turn(o.agent, o.queue, false)
	if err != nil && !errors.Is(err, bus.ErrClosed) {
		// A consumer that cannot be ended would go on taking an agent's work.
		c.Fault(err)
	}
}

// broke hears that the broker has ended the consumer: its queue was
// deleted.
func (c *Consumers) broke(o order) {
	if q := c.state(o.queue); !q.on || q.turn != o.turn {
		return // it was to end anyway, or another has begun since
	}
	c.turn(o.agent, o.queue, false)
	c.turn(o.agent, o.queue, false)
	c.giveForeignBack(o.queue)
	c.Log.TakeBack(o.agent, o.queue, o.err)
	c.Post(coordinator.TakeBackEnded{Agent: o.agent})
}

// take takes a delivery out of the queue of an agent that is gone or
// drained.
func (c *Consumers) take(d bus.Delivery) {
	if c.leaving() {
		return
	}
	c.came(d.Queue, d.Tag.Consumer)
	c.Handle(d)
}
