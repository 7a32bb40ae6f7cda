package membus

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"taskbus/coordinator/bus"
)

const defaultWindow = 1024

// session implements bus.Session. Its fields from closing on are guarded by the
// broker's lock.
//
//	open ──► closing ──► over ──► done
//	  └── fault ──────────┘
//
// closing: nothing new is published or handled, confirms are awaited. over: what
// it held is back in the queues. done: every publication is settled.
type session struct {
	broker *Broker
	spec   bus.SessionSpec
	number uint64
	user   string
	edge   bus.Edge

	lanes   [lanes]lane
	settler chan struct{} // wakes the goroutine that settles
	alarmed chan struct{} // wakes the goroutine that tells of alarms
	refused chan struct{} // closed at closing: Publish is refused
	ended   chan struct{} // closed at over
	done    chan struct{} // closed at done

	closing, over bool
	cause         error // why it is over
	consumers     []*consumer
	findings      []bus.Finding
	matching      map[string]bool // queues found as described; no false entries
	staleAcks     uint64
	acks          []ack // on their way to the broker
	acked         chan struct{}
}

// ack is what becomes of a delivery.
type ack struct {
	tag bus.Tag
	how settlement
}

func newSession(b *Broker, spec bus.SessionSpec) *session {
	if spec.Window <= 0 {
		spec.Window = defaultWindow
	}
	return &session{
		broker: b, spec: spec, number: lastSession.Add(1),
		matching: map[string]bool{},
		lanes:    newLanes(spec.Window),
		acked:    make(chan struct{}, 1),
		settler:  make(chan struct{}, 1), alarmed: make(chan struct{}, 1),
		refused: make(chan struct{}), ended: make(chan struct{}), done: make(chan struct{}),
	}
}

// start runs the session's goroutines. They end by themselves after it is over.
func (s *session) start() {
	go s.settle()
	go s.carryAcks()
	for i := range s.lanes {
		go s.carry(&s.lanes[i])
	}
	if s.spec.OnBlocked != nil {
		signal(s.alarmed) // there may be an alarm already
		go s.tellAlarms()
	}
}

// Subscribe implements bus.Session.
func (s *session) Subscribe(ctx context.Context, sub bus.Subscription) error {
	if sub.Prefetch <= 0 || sub.Handle == nil {
		return fmt.Errorf("subscribe to %q: needs a positive prefetch and a handler", sub.Queue)
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("subscribe to %q: %w", sub.Queue, err)
	}
	s.broker.mu.Lock()
	defer s.broker.mu.Unlock()
	if s.closing {
		return bus.ErrClosed
	}
	q, err := s.broker.fabric.find(sub.Queue, s)
	if err == nil {
		if others := q.consumers(); len(others) > 0 && (sub.Exclusive || others[0].sub.Exclusive) {
			err = fmt.Errorf("%w: it has a consumer, and one of the two wants it alone", bus.ErrInUse)
		}
	}
	if err != nil {
		return refused(sub, err)
	}
	c := &consumer{
		session: s, number: len(s.consumers), queue: q, sub: sub,
		wake: make(chan struct{}, 1), left: make(chan struct{}), unacked: map[uint64]*message{},
	}
	s.consumers = append(s.consumers, c)
	q.attach(c)
	go c.run()
	return nil
}

// refused is a Subscribe's error in the terms of the contract.
func refused(sub bus.Subscription, err error) error {
	switch {
	case sub.OnEnded == nil && errors.Is(err, bus.ErrNoQueue):
		return &bus.TopologyError{Object: sub.Queue, Reason: "this queue does not exist: declare it before subscribing to it"}
	case sub.OnEnded != nil && errors.Is(err, bus.ErrInUse):
		return fmt.Errorf("%w: subscribe to %q: %w", bus.ErrAccess, sub.Queue, err)
	default:
		return fmt.Errorf("subscribe to %q: %w", sub.Queue, err)
	}
}

// Unsubscribe implements bus.Session.
func (s *session) Unsubscribe(_ context.Context, queue string) (bool, error) {
	s.broker.mu.Lock()
	defer s.broker.mu.Unlock()
	if s.closing {
		return false, bus.ErrClosed
	}
	for _, c := range slices.Backward(s.consumers) {
		if c.sub.Queue == queue && !c.stopped {
			c.stopped = true
			c.leaveIfDone()
			return true, nil
		}
	}
	return false, nil
}

// Ack implements bus.Session.
func (s *session) Ack(tag bus.Tag) { s.finish(tag, acknowledged) }

// Reject implements bus.Session.
func (s *session) Reject(tag bus.Tag) { s.finish(tag, rejected) }

// Requeue implements bus.Session.
func (s *session) Requeue(tag bus.Tag) { s.finish(tag, requeued) }

// finish sends what becomes of a delivery; that it has arrived shows in nothing but its effect.
func (s *session) finish(tag bus.Tag, how settlement) {
	s.broker.mu.Lock()
	defer s.broker.mu.Unlock()
	if s.over {
		return
	}
	if tag.Session != s.number {
		s.staleAcks++
		return
	}
	s.acks = append(s.acks, ack{tag, how})
	signal(s.acked)
}

// carryAcks takes acknowledgements to the broker, in order, until the session is over.
func (s *session) carryAcks() {
	for {
		s.broker.mu.Lock()
		for len(s.acks) > 0 && !s.over {
			s.broker.between("ack")
			s.arrive()
		}
		s.broker.mu.Unlock()
		select {
		case <-s.acked:
		case <-s.ended:
			return
		}
	}
}

// arrive settles the delivery whose acknowledgement is next. A tag that this session never gave, or
// that is settled already, is a fault of the caller that ends the session, as RabbitMQ closes
// the channel. The lock is held.
func (s *session) arrive() {
	if len(s.acks) == 0 || s.over {
		return
	}
	tag, how := s.acks[0].tag, s.acks[0].how
	s.acks = s.acks[1:]
	if tag.Consumer < 0 || tag.Consumer >= len(s.consumers) {
		s.end(fmt.Errorf("acknowledge delivery %d: unknown consumer %d", tag.Delivery, tag.Consumer))
		return
	}
	c := s.consumers[tag.Consumer]
	if c.void {
		return
	}
	m := c.unacked[tag.Delivery]
	if m == nil {
		s.end(fmt.Errorf("acknowledge delivery %d of %q: unknown delivery tag", tag.Delivery, c.sub.Queue))
		return
	}
	delete(c.unacked, tag.Delivery)
	c.queue.settle(m, how)
	c.leaveIfDone()
}

// EnsureQueue implements bus.Session.
func (s *session) EnsureQueue(ctx context.Context, q bus.Queue) (bool, error) {
	if err := ctx.Err(); err != nil {
		return false, fmt.Errorf("ensure queue %q: %w", q.Name, err)
	}
	s.broker.mu.Lock()
	defer s.broker.mu.Unlock()
	if s.closing {
		return false, bus.ErrClosed
	}
	exists, err := s.broker.fabric.ensure(q, s)
	if err == nil && q.Temporary {
		err = s.broker.fabric.bindAgain(s.spec.Topology, q.Name)
	}
	if err != nil {
		return exists, fmt.Errorf("ensure queue %q: %w", q.Name, err)
	}
	return exists, nil
}

// DropQueue implements bus.Session.
func (s *session) DropQueue(ctx context.Context, name string) (bool, error) {
	if err := ctx.Err(); err != nil {
		return false, fmt.Errorf("drop queue %q: %w", name, err)
	}
	s.broker.mu.Lock()
	defer s.broker.mu.Unlock()
	if s.closing {
		return false, bus.ErrClosed
	}
	q, err := s.broker.fabric.find(name, s)
	switch {
	case errors.Is(err, bus.ErrNoQueue):
		return true, nil
	case err != nil:
		return false, fmt.Errorf("drop queue %q: %w", name, err)
	case s.spec.Topology.Mode != bus.Declare, len(q.messages()) > 0, active(q.consumers()) > 0:
		return false, nil
	}
	s.broker.between("drop " + name)
	if s.over {
		return false, bus.ErrClosed
	}
	if _, err := s.broker.fabric.find(name, s); errors.Is(err, bus.ErrInUse) {
		return false, fmt.Errorf("drop queue %q: %w", name, err)
	}
	lost := s.broker.deleteQueue(name)
	delete(s.matching, name)
	if err := ctx.Err(); err != nil {
		return false, fmt.Errorf("drop queue %q: %w", name, err)
	}
	if lost > 0 {
		return true, fmt.Errorf("drop queue %q: %w: %d", name, bus.ErrNotEmpty, lost)
	}
	return true, nil
}

// Matches implements bus.Session.
func (s *session) Matches(queue string) bool {
	s.broker.mu.Lock()
	defer s.broker.mu.Unlock()
	return s.matching[queue]
}

// User implements bus.Session.
func (s *session) User() string { return s.user }

// Broker implements bus.Session.
func (s *session) Broker() bus.Broker { return bus.Broker{Product: "membus"} }

// record keeps a finding, once.
func (s *session) record(f bus.Finding) {
	if !slices.Contains(s.findings, f) {
		s.findings = append(s.findings, f)
	}
}

// Depth implements bus.Session.
func (s *session) Depth(ctx context.Context, name string) (bus.Depth, error) {
	if err := ctx.Err(); err != nil {
		return bus.Depth{}, fmt.Errorf("depth of %q: %w", name, err)
	}
	s.broker.mu.Lock()
	defer s.broker.mu.Unlock()
	if s.closing {
		return bus.Depth{}, bus.ErrClosed
	}
	q, err := s.broker.fabric.find(name, s)
	if err != nil {
		return bus.Depth{}, fmt.Errorf("depth of %q: %w", name, err)
	}
	return bus.Depth{Ready: len(q.messages()), Consumers: active(q.consumers())}, nil
}

// Findings implements bus.Session.
func (s *session) Findings() []bus.Finding {
	s.broker.mu.Lock()
	defer s.broker.mu.Unlock()
	return slices.Clone(s.findings)
}

// StaleAcks implements bus.Session.
func (s *session) StaleAcks() uint64 {
	s.broker.mu.Lock()
	defer s.broker.mu.Unlock()
	return s.staleAcks
}
