package membus

import "taskbus/coordinator/bus"

// publication is a message on its way from a session to the broker and back as
// an outcome. All but its first fields are guarded by the broker's lock.
type publication struct {
	session *session
	lane    *lane
	sent    bus.Publication // its body and headers are its owner's, and must not change until it is settled
	reply   Reply

	answered bool
	outcome  bus.Outcome
}

// lane is an order of publications, in which none is settled before those ahead of it.
type lane struct {
	window    chan struct{}  // holds a token for every unsettled publication
	unsettled []*publication // in the order of publishing; guarded by the broker's lock
	sent      []*publication // of them, not with the broker yet
	carrier   chan struct{}  // wakes the goroutine that takes them there
}

// The lanes of a session.
const (
	laneMandatory = iota
	laneOptional
	laneApart
	lanes
)

func newLanes(window int) (all [lanes]lane) {
	for i := range all {
		all[i].window = make(chan struct{}, window)
		all[i].carrier = make(chan struct{}, 1)
	}
	all[laneApart].window = make(chan struct{}, min(window, bus.WindowApart))
	return all
}

func (s *session) laneOf(p *bus.Publication) *lane {
	switch {
	case p.Optional:
		return &s.lanes[laneOptional]
	case p.Apart:
		return &s.lanes[laneApart]
	default:
		return &s.lanes[laneMandatory]
	}
}

// answer settles the publication as far as the broker is concerned; the session
// tells its owner in the order of publishing. A second answer changes nothing.
func (p *publication) answer(outcome bus.Outcome) {
	if p.answered {
		return
	}
	p.answered, p.outcome = true, outcome
	signal(p.session.settler)
}

// Publish implements bus.Session.
func (s *session) Publish(p bus.Publication) error {
	if err := s.edge.Check(&p); err != nil {
		return err
	}
	lane := s.laneOf(&p)
	select {
	case lane.window <- struct{}{}:
	case <-s.refused:
		return bus.ErrClosed
	}
	for held := s.heldUp(); held != nil; held = s.heldUp() {
		select {
		case <-held:
		case <-s.refused:
		}
	}
	if !s.broker.accept(&publication{session: s, lane: lane, sent: p, reply: s.broker.replyTo(p)}) {
		<-lane.window
		return bus.ErrClosed
	}
	return nil
}

// heldUp is what to wait for before publishing; nil: nothing.
func (s *session) heldUp() <-chan struct{} {
	s.broker.mu.Lock()
	defer s.broker.mu.Unlock()
	if s.closing || s.goOn == nil {
		return nil
	}
	return s.goOn
}

// replyTo asks the test how to answer, without the lock.
func (b *Broker) replyTo(p bus.Publication) Reply {
	b.mu.Lock()
	reply := b.control.confirm
	b.mu.Unlock()
	if reply == nil {
		return Answer
	}
	return reply(p)
}

// accept puts a publication in its session's order, unless the session takes no more.
func (b *Broker) accept(p *publication) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if p.session.closing {
		return false
	}
	p.lane.unsettled = append(p.lane.unsettled, p)
	p.lane.sent = append(p.lane.sent, p)
	signal(p.lane.carrier)
	if b.alarm.on {
		signal(p.session.alarmed)
	}
	return true
}

// carry takes what is sent in a lane to the broker, in order, until the session is over.
func (s *session) carry(l *lane) {
	for {
		s.carrySent(l)
		select {
		case <-l.carrier:
		case <-s.ended:
			return
		}
	}
}

func (s *session) carrySent(l *lane) {
	s.broker.mu.Lock()
	defer s.broker.mu.Unlock()
	for len(l.sent) > 0 && !s.over && !s.broker.alarm.on {
		p := l.sent[0]
		l.sent[0] = nil // lets go of it
		l.sent = l.sent[1:]
		s.broker.take(p)
	}
}

// take does with a publication what its reply says. The lock is held, and let go between
// finding its queues and storing it there.
func (b *Broker) take(p *publication) {
	switch p.reply {
	case Nack:
		p.answer(bus.Rejected)
		return
	case Return:
		p.answer(bus.Unroutable)
		return
	case Lose:
		return
	}
	outcome, err := b.fabric.publish(newMessage(p.sent), p.sent.Optional)
	if err == nil {
		b.between("confirm " + p.sent.Key) // others may have it by now, or the session may be over
	}
	switch {
	case p.session.over: // it is answered
	case err != nil:
		p.session.end(err)
	case p.reply == Withhold:
		p.outcome = outcome
		b.control.withheld = append(b.control.withheld, p)
	default:
		p.answer(outcome)
	}
}

// settle tells the owner every outcome in the order of its lane. It is the
// goroutine that closes Done.
func (s *session) settle() {
	defer close(s.done)
	for {
		p, over := s.nextSettled()
		if over {
			return
		}
		if p == nil {
			<-s.settler
			continue
		}
		if s.spec.OnSettled != nil {
			s.spec.OnSettled(p.sent.Token, p.outcome)
		}
		<-p.lane.window // only now: until its owner knows, it is unsettled
	}
}

// nextSettled takes the oldest publication of a lane if it is answered. The session
// that is closing is over when there is none left.
func (s *session) nextSettled() (p *publication, over bool) {
	s.broker.mu.Lock()
	defer s.broker.mu.Unlock()
	left := 0
	for i := range s.lanes {
		l := &s.lanes[i]
		if len(l.unsettled) > 0 && l.unsettled[0].answered {
			p = l.unsettled[0]
			l.unsettled[0] = nil // lets go of it
			l.unsettled = l.unsettled[1:]
			return p, false
		}
		left += len(l.unsettled)
	}
	if left == 0 && s.closing {
		s.end(nil)
	}
	return nil, left == 0 && s.over
}
