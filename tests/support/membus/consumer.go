package membus

import (
	"maps"
	"slices"

	"taskbus/coordinator/bus"
)

// consumer is one subscription of a session. Everything but run, next and toTell
// is called with the broker's lock held.
type consumer struct {
	session *session
	number  int
	queue   queue
	sub     bus.Subscription
	wake    chan struct{} // a delivery may be in the inbox

	unacked  map[uint64]*message // by delivery tag
	settling map[uint64]bool     // of them, those whose settlement is on its way
	lastTag  uint64
	inbox    []bus.Delivery // handed out by the broker, not yet handled
	cursor   int64          // of a stream: the offset read next
	leaving  bool           // Unsubscribe is on its way: OnEnded is not to be called
	stopped  bool           // unsubscribed or ended: gets nothing more
	left     chan struct{}  // closed when it is stopped and everything is settled
	void     bool           // its queue is gone: tags settle nothing any more
	reason   error          // for OnEnded; nil when that is not to be called
}

func (c *consumer) hasCredit() bool {
	return !c.session.over && !c.stopped && len(c.unacked) < c.sub.Prefetch
}

func (c *consumer) push(m *message) {
	c.lastTag++
	c.unacked[c.lastTag] = m
	d := m.deliver(c.sub.Queue)
	d.Redelivered = d.Redelivered && m.givenBack != c.session
	m.givenBack = nil
	d.Tag = bus.Tag{Session: c.session.number, Consumer: c.number, Delivery: c.lastTag}
	c.inbox = append(c.inbox, d)
	signal(c.wake)
}

// handBack gives up everything unacknowledged, in the order of delivery.
func (c *consumer) handBack() []*message {
	var held []*message
	for _, tag := range slices.Sorted(maps.Keys(c.unacked)) {
		held = append(held, c.unacked[tag])
	}
	c.unacked, c.inbox = nil, nil
	return held
}

// leaveIfDone ends a stopped consumer that holds nothing any more. Late settlements
// find nothing to settle.
func (c *consumer) leaveIfDone() {
	if !c.stopped || len(c.unacked) > 0 {
		return
	}
	select {
	case <-c.left: // already
	default:
		c.queue.detach(c)
		close(c.left)
	}
}

// end tells the consumer that its queue is gone, and with it what it held.
func (c *consumer) end(reason error) {
	c.handBack()
	c.void = true
	switch {
	case c.stopped: // it was leaving already
	case c.sub.OnEnded == nil:
		c.session.end(reason)
	case c.leaving:
		c.stopped = true
	default:
		c.stopped, c.reason = true, reason
	}
	c.leaveIfDone()
}

// run calls Handle until the session is over or the consumer has left.
func (c *consumer) run() {
	for {
		if d, ok := c.next(); ok {
			c.sub.Handle(d)
			continue
		}
		select {
		case <-c.wake:
		case <-c.session.ended:
			return
		case <-c.left:
			if reason := c.toTell(); reason != nil {
				c.sub.OnEnded(reason)
			}
			return
		}
	}
}

// toTell is what OnEnded is to be told; nil: nothing.
func (c *consumer) toTell() error {
	c.session.broker.mu.Lock()
	defer c.session.broker.mu.Unlock()
	if c.session.over {
		return nil
	}
	return c.reason
}

func (c *consumer) next() (bus.Delivery, bool) {
	c.session.broker.mu.Lock()
	defer c.session.broker.mu.Unlock()
	if len(c.inbox) == 0 || c.session.over {
		return bus.Delivery{}, false
	}
	d := c.inbox[0]
	c.inbox[0] = bus.Delivery{} // lets go of it
	c.inbox = c.inbox[1:]
	return d, true
}

// signal wakes the one goroutine that waits on a channel of capacity one.
func signal(wake chan struct{}) {
	select {
	case wake <- struct{}{}:
	default:
	}
}
