package amqpbus

import (
	"context"
	"fmt"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"taskbus/coordinator/bus"
)

// TakeLock implements [bus.Session]. An exclusive queue belongs to one connection
// and goes with it: it is declared on the publishing one, so that a session that loses it cannot publish
// any more.
func (s *session) TakeLock(ctx context.Context, queue string, waiting func()) error {
	doing := fmt.Sprintf("take the lock %q", queue)
	if s.isEnding() {
		return s.endedWhile(doing)
	}
	c := campaign{session: s, queue: queue, held: make(chan struct{}), over: make(chan error)}
	go c.run(ctx)
	for {
		select {
		case <-c.held:
			if waiting != nil {
				waiting()
			}
			// A standby has nothing to do that would be urgent.
			defer s.consuming.wire.CalmDown()()
		case err := <-c.over:
			if err != nil && s.publishing.conn.IsClosed() {
				<-s.ending // the session finds that out by itself
			}
			switch {
			case err == nil:
				return nil
			case s.isEnding():
				return s.endedWhile(doing)
			}
			return explain(s.target, doing, err)
		case <-ctx.Done():
			return fmt.Errorf("%s: %w", doing, ctx.Err())
		case <-s.ending:
			return s.endedWhile(doing)
		}
	}
}

// endedWhile is the error of what a session that is ending cannot finish.
func (s *session) endedWhile(doing string) error {
	if s.err == nil {
		return bus.ErrClosed
	}
	return fmt.Errorf("%s: %w: %w", doing, bus.ErrClosed, s.err)
}

// campaign is one TakeLock. It has a goroutine of its own, because the broker may
// leave a request unanswered for as long as an alarm lasts, and the caller may give up meanwhile.
type campaign struct {
	session *session
	queue   string
	held    chan struct{} // sent once: another session has the lock
	over    chan error    // how it ended; not read after the end of the context

	probe   *amqp.Channel
	returns chan amqp.Return
}

func (c *campaign) run(ctx context.Context) {
	taken, err := c.await(ctx)
	select {
	case c.over <- err:
	case <-c.session.ending:
	case <-ctx.Done():
		if taken { // too late: the caller has gone
			c.giveBack()
		}
	}
	if c.probe != nil {
		// An error is the end of the connection, which the session reports.
		_ = c.session.publishing.within("close a channel", c.probe.Close)
	}
}

// await tries until the session has the lock; taken reports that this is its doing.
func (c *campaign) await(ctx context.Context) (taken bool, err error) {
	ticker := time.NewTicker(c.session.bus.cfg.LockProbe)
	defer ticker.Stop()
	tell := c.held
	for {
		if c.session.holdsLock(c.queue) {
			return false, nil
		}
		if taken, err := c.try(ctx); taken || err != nil {
			return taken, err
		}
		for due := false; !due; {
			select {
			case tell <- struct{}{}:
				tell = nil // once
			case <-ticker.C:
				due = true
			case <-ctx.Done():
				return false, ctx.Err()
			case <-c.session.ending:
				return false, bus.ErrClosed
			}
		}
	}
}

// try takes the lock if it is free.
func (c *campaign) try(ctx context.Context) (taken bool, err error) {
	if free, err := c.free(ctx); !free || err != nil {
		return false, err
	}
	if taken, err = c.declare(); !taken || err != nil {
		return false, err
	}
	c.session.setLock(c.queue, true)
	if err := c.guard(); err != nil {
		return false, err // of the connection, and the lock with it
	}
	return true, nil
}

// free reports whether the lock queue is missing, by publishing to it. Trying to
// declare it would work as well, but fills the broker's log with errors. It waits
// for the answer as long as it takes: during an alarm there is none.
func (c *campaign) free(ctx context.Context) (bool, error) {
	link := c.session.publishing
	if c.probe == nil {
		channel, err := link.channel()
		if err != nil {
			return false, err
		}
		c.probe, c.returns = channel, channel.NotifyReturn(make(chan amqp.Return, 1))
		if err := link.within("switch on publisher confirms", func() error { return channel.Confirm(false) }); err != nil {
			return false, err
		}
	}
	confirm, err := c.probe.PublishWithDeferredConfirm("", c.queue, true, false,
		amqp.Publishing{DeliveryMode: amqp.Transient})
	if err != nil {
		return false, err
	}
	if _, err := confirm.WaitContext(ctx); err != nil {
		return false, err
	}
	if c.probe.IsClosed() {
		return false, amqp.ErrClosed
	}
	select {
	case <-c.returns:
		return true, nil
	default:
		return false, nil
	}
}

// declare reports whether this connection has the lock now.
func (c *campaign) declare() (bool, error) {
	link := c.session.publishing
	channel, err := link.channel()
	if err != nil {
		return false, err
	}
	err = link.within("declare the lock queue", func() error {
		_, err := channel.QueueDeclare(c.queue, false, false, true, false, lockArgs)
		return err
	})
	switch {
	case err == nil:
		return true, link.within("close a channel", channel.Close)
	case refusal(err, amqp.ResourceLocked) != nil:
		return false, nil // another session was faster
	}
	if reply := refusal(err, amqp.AccessRefused); reply != nil {
		return false, accessFor(c.session.target, "declare the lock queue", "configure", c.queue, reply)
	}
	return false, err
}

// guard consumes the lock queue, because that is how one hears that it was
// deleted. What it delivers are the probes of others.
func (c *campaign) guard() error {
	s, link := c.session, c.session.publishing
	channel, err := link.channel()
	if err != nil {
		return err
	}
	var probes <-chan amqp.Delivery
	err = link.within("watch the lock queue", func() (err error) {
		probes, err = channel.Consume(c.queue, "", true, true, false, false, nil)
		return err
	})
	if err != nil {
		return explain(s.target, "watch the lock queue", err)
	}
	go func() {
		for range probes {
		}
		if s.holdsLock(c.queue) && !link.conn.IsClosed() {
			s.fail(errLockLost(c.queue))
		}
	}()
	return nil
}

// giveBack lets go of a lock that came too late. If that fails the session must
// not live on with it.
func (c *campaign) giveBack() {
	s, link := c.session, c.session.publishing
	s.setLock(c.queue, false)
	channel, err := link.channel()
	if err == nil {
		err = link.within("give back the lock", func() error {
			_, err := channel.QueueDelete(c.queue, false, false, false)
			return err
		})
	}
	if err == nil {
		err = link.within("close a channel", channel.Close)
	}
	if err != nil {
		s.fail(explain(s.target, fmt.Sprintf("give back the lock %q", c.queue), err))
	}
}

func (s *session) holdsLock(queue string) bool {
	s.locking.Lock()
	defer s.locking.Unlock()
	return s.locks[queue]
}

func (s *session) setLock(queue string, held bool) {
	s.locking.Lock()
	defer s.locking.Unlock()
	s.locks[queue] = held
}

// lockArgs keep at most one message in the lock queue: what others publish to it
// to see whether it is there.
var lockArgs = amqp.Table{"x-max-length": int32(1)}

func errLockLost(lock string) error {
	return fmt.Errorf("the lock %q was lost: its queue was deleted", lock)
}
