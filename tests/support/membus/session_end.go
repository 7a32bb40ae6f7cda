package membus

import (
	"context"
	"fmt"

	"taskbus/coordinator/bus"
)

// How a session ends.

// Done implements bus.Session.
func (s *session) Done() <-chan struct{} { return s.done }

// Err implements bus.Session.
func (s *session) Err() error {
	s.broker.mu.Lock()
	defer s.broker.mu.Unlock()
	return s.cause
}

// Close implements bus.Session. It returns an error when ctx ended before every
// publication was settled; the session is closed all the same.
func (s *session) Close(ctx context.Context) error {
	s.broker.mu.Lock()
	s.refuse()
	s.broker.mu.Unlock()
	select {
	case <-s.done:
		return nil
	case <-ctx.Done():
	}
	s.broker.mu.Lock()
	lost := s.end(nil)
	s.broker.mu.Unlock()
	<-s.done
	if lost > 0 {
		return fmt.Errorf("close session %q: %d publications may or may not have arrived: %w", s.spec.Name, lost, ctx.Err())
	}
	return nil
}

// refuse begins the closing. The lock is held.
func (s *session) refuse() {
	if s.closing {
		return
	}
	s.closing = true
	close(s.refused)
	signal(s.settler)
}

// end makes the session over for the given cause, nil after Close, and returns
// how many publications that leaves unknown. Acknowledgements on their way are lost
// with it, but not after Close. The lock is held.
func (s *session) end(cause error) (lost int) {
	for cause == nil && !s.over && len(s.acks) > 0 {
		s.arrive()
	}
	lost = s.stop(cause)
	s.handBack()
	return lost
}

// stop is the first half of end: nothing goes in or out any more.
func (s *session) stop(cause error) (lost int) {
	if s.over {
		return 0
	}
	s.refuse()
	s.over, s.cause = true, cause
	s.setBlocked(false)
	for _, l := range s.lanes {
		for _, p := range l.unsettled {
			if !p.answered {
				p.answer(bus.Unknown)
				lost++
			}
		}
	}
	close(s.ended)
	signal(s.settler)
	return lost
}

// handBack is the second half of end: the lock and deliveries go to others, in steps. A session that gets the
// lock may look before the deliveries are back.
func (s *session) handBack() {
	consumers := s.consumers
	s.consumers = nil
	s.broker.leave(s)
	for _, c := range consumers {
		s.broker.between("hand back " + c.sub.Queue)
		c.queue.detach(c)
	}
}

// setBlocked holds up Publish, or lets it go on. The lock is held.
func (s *session) setBlocked(on bool) {
	switch {
	case on && s.goOn == nil:
		s.goOn = make(chan struct{})
	case !on && s.goOn != nil:
		close(s.goOn)
		s.goOn = nil
	}
}

// tellAlarms holds up publishers and calls OnBlocked at every change. As with RabbitMQ only a
// session that publishes while the alarm stands hears of it.
func (s *session) tellAlarms() {
	told := false
	for {
		select {
		case <-s.alarmed:
		case <-s.ended:
			return
		}
		s.broker.mu.Lock()
		on := s.broker.alarm.on && (told || s.sends())
		s.setBlocked(on && !s.over)
		s.broker.mu.Unlock()
		if on == told {
			continue
		}
		told = on
		if s.spec.OnBlocked == nil {
			continue
		}
		reason := ""
		if on {
			reason = "alarm raised by Broker.Block"
		}
		s.spec.OnBlocked(on, reason)
	}
}

// sends reports whether anything is on its way to the broker. The lock is held.
func (s *session) sends() bool {
	for i := range s.lanes {
		if len(s.lanes[i].sent) > 0 {
			return true
		}
	}
	return s.probing
}

// active counts the consumers that are not unsubscribed.
func active(consumers []*consumer) int {
	n := 0
	for _, c := range consumers {
		if !c.stopped {
			n++
		}
	}
	return n
}
