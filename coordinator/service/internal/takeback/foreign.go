package takeback

import (
	"sync"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/bus"
	"taskbus/messages"
)

// The queue of an agent that joined by itself may hold what is not ours: discovery
// admits queues by patterns, and an agent may announce one that others use. A
// message there that is no dispatch ends the taking back of that queue. In the
// queues that agents.yaml lists it is parked like anything else that cannot be read:
// they are ours, and it would stand in the agent's way.

// foreignPause is how long such a queue is left alone after the first time, twice as
// long after the second, and so on. A message that is given back has been delivered
// once more, and RabbitMQ removes one that has been too often (since 4.0 after 20
// times unless the queue says otherwise): doubled from a minute, that is two years.
const (
	foreignPause    = time.Minute
	foreignPauseMax = 2 * 365 * 24 * time.Hour
)

// foreignMessages are those that a consumer of ours has met. They are held until it
// has ended: given back before, they would come to it again at once. At most as many
// as its prefetch.
type foreignMessages struct {
	mu    sync.Mutex
	held  []bus.Tag
	ended bool
}

// keep holds a message; first reports whether it is the first. false: the consumer has
// ended, and the message can go back at once.
func (f *foreignMessages) keep(tag bus.Tag) (first, kept bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ended {
		return false, false
	}
	f.held = append(f.held, tag)
	return len(f.held) == 1, true
}

// end hands over what is held; the consumer has ended.
func (f *foreignMessages) end() []bus.Tag {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ended = true
	return f.held
}

// bar leaves the queue alone for a while, longer each time.
func (c *Consumers) bar(queue string) (pause time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	q := c.queues[queue]
	q.pause = min(max(foreignPause, 2*q.pause), foreignPauseMax)
	q.until = c.Now().Add(q.pause)
	return q.pause
}

// sparingForeign begins the state of a consumer that takes dispatches and nothing
// else, and is its handler. met is the order to end it.
func (c *Consumers) sparingForeign(met order) func(bus.Delivery) {
	f := &foreignMessages{}
	c.mu.Lock()
	c.queues[met.queue].foreign = f
	c.mu.Unlock()
	return func(d bus.Delivery) {
		if messages.TextHeader(d.Headers, messages.HeaderTask) != "" || c.leaving() {
			c.take(d)
			return
		}
		first, kept := f.keep(d.Tag)
		switch {
		case !kept:
			c.Bus.Requeue(d.Tag)
		case first:
			if c.bar(met.queue) == foreignPause { // said once for each queue
				c.Log.Foreign(met.agent, met.queue)
			}
			c.order(met)
		}
	}
}

// leaveForeign ends the consumer that has met what is not ours.
func (c *Consumers) leaveForeign(o order) {
	if q := c.state(o.queue); !q.on || q.turn != o.turn {
		return // it has ended
	}
	c.end(o)
	c.Post(coordinator.TakeBackEnded{Agent: o.agent})
}

// giveForeignBack puts what is not ours back where it was: the consumer has ended.
func (c *Consumers) giveForeignBack(queue string) {
	c.mu.Lock()
	var f *foreignMessages
	if q := c.queues[queue]; q != nil {
		f, q.foreign = q.foreign, nil
	}
	c.mu.Unlock()
	if f == nil {
		return
	}
	for _, tag := range f.end() {
		c.Bus.Requeue(tag)
	}
}
