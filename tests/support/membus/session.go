package membus

import (
	"context"
	"errors"
	"fmt"
	"math"
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
// closing: nothing new is published, confirms are awaited, everything else goes on. over: it
// does nothing more, and what it held goes back to the queues. done: every publication is settled.
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
	cause         error         // why it is over
	goOn          chan struct{} // while an alarm holds up publishers, as far as the session knows: closed at its end
	probing       bool          // goes for a lock, which takes a publication
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
	signal(s.alarmed) // there may be an alarm already
	go s.tellAlarms()
}

// step lets others in between two steps of what the session does. The error is that the session is
// over. The lock is held, and let go meanwhile.
func (s *session) step(name string) error {
	s.broker.between(name)
	return s.closed()
}

// closed is ErrClosed, with the cause, of a session that is over. The lock is held.
func (s *session) closed() error {
	switch {
	case !s.over:
		return nil
	case s.cause == nil:
		return bus.ErrClosed
	default:
		return fmt.Errorf("%w: %w", bus.ErrClosed, s.cause)
	}
}

// Subscribe implements bus.Session.
func (s *session) Subscribe(ctx context.Context, sub bus.Subscription) error {
	if sub.Prefetch <= 0 || sub.Prefetch > math.MaxUint16 || sub.Handle == nil {
		return fmt.Errorf("subscribe to %q: needs a handler and a prefetch of 1 to 65535, got %d", sub.Queue, sub.Prefetch)
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("subscribe to %q: %w", sub.Queue, err)
	}
	s.broker.mu.Lock()
	defer s.broker.mu.Unlock()
	if err := s.closed(); err != nil {
		return err
	}
	q, err := s.broker.fabric.find(sub.Queue, s)
	if err == nil {
		// A quorum queue lets in every consumer (RabbitMQ 3.10).
		if others := q.consumers(); q.definition().Kind == bus.Classic && len(others) > 0 &&
			(sub.Exclusive || others[0].sub.Exclusive) {
			err = fmt.Errorf("%w: it has a consumer, and one of the two wants it alone", bus.ErrInUse)
		}
	}
	if err != nil {
		return refused(sub, err)
	}
	c := &consumer{
		session: s, number: len(s.consumers), queue: q, sub: sub,
		wake: make(chan struct{}, 1), left: make(chan struct{}),
		unacked: map[uint64]*message{}, settling: map[uint64]bool{},
	}
	s.consumers = append(s.consumers, c)
	q.attach(c)
	go c.run()
	return s.step("consume " + sub.Queue) // it may have been given something before it is told that it is one
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
	if err := s.closed(); err != nil {
		return false, err
	}
	for _, c := range slices.Backward(s.consumers) {
		if c.sub.Queue == queue && !c.leaving && !c.stopped {
			c.leaving = true
			if err := s.step("stop " + queue); err != nil { // it may be given something until then
				return false, err
			}
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

// finish sends what becomes of a delivery; that it has arrived shows in nothing but its effect. A tag
// that this session never gave, or that is settled already, is a fault of the caller that ends the
// session, as RabbitMQ closes the channel.
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
	if tag.Consumer < 0 || tag.Consumer >= len(s.consumers) {
		s.end(fmt.Errorf("acknowledge delivery %d: unknown consumer %d", tag.Delivery, tag.Consumer))
		return
	}
	c := s.consumers[tag.Consumer]
	if c.void {
		return
	}
	if c.unacked[tag.Delivery] == nil || c.settling[tag.Delivery] {
		s.end(fmt.Errorf("acknowledge delivery %d of %q: unknown delivery tag", tag.Delivery, c.sub.Queue))
		return
	}
	c.settling[tag.Delivery] = true
	s.acks = append(s.acks, ack{tag, how})
	signal(s.acked)
}

// carryAcks takes acknowledgements to the broker until the session is over.
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

// nextAck takes out what goes next of what is on its way. Acknowledgements wait for others to go
// with: what is rejected overtakes them, and what is requeued.
func (s *session) nextAck() ack {
	next := 0
	for i, a := range s.acks {
		if a.how == rejected {
			next = i
			break
		}
		if a.how == requeued && s.acks[next].how != requeued {
			next = i
		}
	}
	a := s.acks[next]
	s.acks = slices.Delete(s.acks, next, next+1)
	return a
}

// arrive settles the delivery whose acknowledgement is next. The lock is held.
func (s *session) arrive() {
	if len(s.acks) == 0 || s.over {
		return
	}
	a := s.nextAck()
	c := s.consumers[a.tag.Consumer]
	if c.void {
		return
	}
	m := c.unacked[a.tag.Delivery]
	delete(c.unacked, a.tag.Delivery)
	delete(c.settling, a.tag.Delivery)
	c.queue.settle(m, a.how)
	c.leaveIfDone()
}

// EnsureQueue implements bus.Session.
func (s *session) EnsureQueue(ctx context.Context, q bus.Queue) (bool, error) {
	if err := ctx.Err(); err != nil {
		return false, fmt.Errorf("ensure queue %q: %w", q.Name, err)
	}
	s.broker.mu.Lock()
	defer s.broker.mu.Unlock()
	if err := s.closed(); err != nil {
		return false, err
	}
	exists, err := s.broker.fabric.ensure(q, s)
	if err == nil && q.Temporary {
		err = s.broker.fabric.bindAgain(s.spec.Topology, s, q.Name)
	}
	if err == nil {
		err = ctx.Err() // what is asked for is done all the same
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
	if err := s.closed(); err != nil {
		return false, err
	}
	q, err := s.broker.fabric.find(name, s)
	switch {
	case errors.Is(err, bus.ErrNoQueue):
		return true, nil
	case err != nil:
		return false, fmt.Errorf("drop queue %q: %w", name, err)
	case s.spec.Topology.Mode != bus.Declare, s.broker.seen(q) != bus.Depth{}, q.peek(s):
		return false, nil
	}
	if err := s.step("drop " + name); err != nil {
		return false, err
	}
	lost := 0
	if q, err := s.broker.fabric.find(name, s); errors.Is(err, bus.ErrInUse) {
		return false, fmt.Errorf("drop queue %q: %w", name, err)
	} else if err == nil {
		lost = q.depth()
	}
	// The broker counts before it deletes.
	if err := s.step("delete " + name); err != nil {
		return false, err
	}
	s.broker.deleteQueue(name)
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
func (s *session) Depth(ctx context.Context, name string) (d bus.Depth, err error) {
	err = s.look(ctx, "depth of", name, func(q queue) { d = s.broker.seen(q) })
	return d, err
}

// Holds implements bus.Session.
func (s *session) Holds(ctx context.Context, name string) (some bool, err error) {
	err = s.look(ctx, "look for a message in", name, func(q queue) { some = q.peek(s) })
	return some, err
}

// look does something with a queue that the session may inspect. The broker's lock is held for it.
func (s *session) look(ctx context.Context, doing, name string, do func(queue)) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%s %q: %w", doing, name, err)
	}
	s.broker.mu.Lock()
	defer s.broker.mu.Unlock()
	if err := s.closed(); err != nil {
		return err
	}
	q, err := s.broker.fabric.find(name, s)
	if err != nil {
		return fmt.Errorf("%s %q: %w", doing, name, err)
	}
	do(q)
	return nil
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
