package membus

import "taskbus/coordinator/bus"

// publication is a message on its way from a session to the broker and back as
// an outcome. All but its first fields are guarded by the broker's lock.
type publication struct {
	session  *session
	token    uint64
	optional bool
	reply    Reply
	message  *message

	answered bool
	outcome  bus.Outcome
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
	if err := checkEncodable(p); err != nil {
		return err
	}
	select {
	case s.window <- struct{}{}:
	case <-s.refused:
		return bus.ErrClosed
	}
	pub := &publication{
		session: s, token: p.Token, optional: p.Optional,
		reply: s.broker.replyTo(p), message: newMessage(p),
	}
	if !s.broker.accept(pub) {
		<-s.window
		return bus.ErrClosed
	}
	return nil
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

// accept puts a publication in its session's order and passes it on, unless the
// session takes no more.
func (b *Broker) accept(p *publication) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if p.session.closing {
		return false
	}
	p.session.unsettled = append(p.session.unsettled, p)
	if b.alarm.on {
		b.alarm.waiting = append(b.alarm.waiting, p)
	} else {
		b.take(p)
	}
	return true
}

// take does with a publication what its reply says. The lock is held.
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
	outcome, err := b.fabric.publish(p.message, p.optional)
	p.message = nil // the queues have it
	switch {
	case err != nil:
		p.session.end(err)
	case p.reply == Withhold:
		p.outcome = outcome
		b.control.withheld = append(b.control.withheld, p)
	default:
		p.answer(outcome)
	}
}

// settle tells the owner every outcome in the order of publishing. It is the
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
			s.spec.OnSettled(p.token, p.outcome)
		}
		<-s.window // only now: until its owner knows, it is unsettled
	}
}

// nextSettled takes the oldest publication if it is answered. The session that
// is closing is over when there is none left.
func (s *session) nextSettled() (p *publication, over bool) {
	s.broker.mu.Lock()
	defer s.broker.mu.Unlock()
	if len(s.unsettled) == 0 {
		if s.closing {
			s.end(nil)
		}
		return nil, s.over
	}
	if p = s.unsettled[0]; !p.answered {
		return nil, false
	}
	s.unsettled[0] = nil // lets go of it
	s.unsettled = s.unsettled[1:]
	return p, false
}
