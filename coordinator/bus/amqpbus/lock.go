package amqpbus

import (
	"context"
	"fmt"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// takeLock waits until this session holds the exclusive queue spec.Lock. An
// exclusive queue belongs to one connection and goes with it: it is declared on
// the publishing one, so that whoever loses it cannot publish any more.
func (s *session) takeLock(ctx context.Context) error {
	doing := fmt.Sprintf("take the lock %q", s.spec.Lock)
	probe, err := s.openProbe()
	if err != nil {
		return explain(s.target, doing, err)
	}
	ticker := time.NewTicker(s.bus.cfg.LockProbe)
	defer ticker.Stop()
	for waiting := false; ; waiting = true {
		free, err := probe.free(ctx)
		if err == nil && free {
			var taken bool
			taken, err = s.declareLock()
			if taken {
				return s.guardLock()
			}
		}
		if err != nil {
			return explain(s.target, doing, err)
		}
		if !waiting && s.spec.OnStandby != nil {
			s.spec.OnStandby()
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: %w", doing, ctx.Err())
		case reply := <-s.publishing.closes:
			return s.publishing.fault(reply)
		case <-ticker.C:
		}
	}
}

// lockProbe tells whether the lock queue exists, by publishing to it. Trying to
// declare it would work as well, but fills the broker's log with errors.
type lockProbe struct {
	session *session
	channel *amqp.Channel
	returns chan amqp.Return
}

func (s *session) openProbe() (*lockProbe, error) {
	channel, err := s.publishing.channel()
	if err != nil {
		return nil, err
	}
	p := &lockProbe{session: s, channel: channel, returns: channel.NotifyReturn(make(chan amqp.Return, 1))}
	err = s.publishing.within("switch on publisher confirms", func() error { return channel.Confirm(false) })
	return p, err
}

// free waits for the answer as long as it takes: during an alarm there is none.
func (p *lockProbe) free(ctx context.Context) (bool, error) {
	confirm, err := p.channel.PublishWithDeferredConfirm("", p.session.spec.Lock, true, false, amqp.Publishing{DeliveryMode: amqp.Transient})
	if err != nil {
		return false, err
	}
	if _, err := confirm.WaitContext(ctx); err != nil {
		return false, err
	}
	if p.channel.IsClosed() {
		return false, amqp.ErrClosed
	}
	select {
	case <-p.returns:
		return true, nil
	default:
		return false, nil
	}
}

// declareLock tells whether this connection has the lock now.
func (s *session) declareLock() (bool, error) {
	channel, err := s.publishing.channel()
	if err != nil {
		return false, err
	}
	err = s.publishing.within("declare the lock queue", func() error {
		_, err := channel.QueueDeclare(s.spec.Lock, false, false, true, false, lockArgs)
		return err
	})
	switch {
	case err == nil:
		return true, s.publishing.within("close a channel", channel.Close)
	case refusal(err, amqp.ResourceLocked) != nil:
		return false, nil // somebody was faster
	}
	if reply := refusal(err, amqp.AccessRefused); reply != nil {
		return false, accessFor(s.target, "declare the lock queue", "configure", s.spec.Lock, reply)
	}
	return false, err
}

// guardLock consumes the lock queue, because that is how one hears that it was
// deleted. What it delivers are the probes of others.
func (s *session) guardLock() error {
	channel, err := s.publishing.channel()
	if err != nil {
		return err
	}
	var probes <-chan amqp.Delivery
	err = s.publishing.within("watch the lock queue", func() (err error) {
		probes, err = channel.Consume(s.spec.Lock, "", true, true, false, false, nil)
		return err
	})
	if err != nil {
		return explain(s.target, "watch the lock queue", err)
	}
	go func() {
		for range probes {
		}
		if !s.publishing.conn.IsClosed() {
			s.fail(errLockLost(s.spec.Lock))
		}
	}()
	return nil
}

// lockArgs keep at most one message in the lock queue: what others publish to it
// to see whether it is there.
var lockArgs = amqp.Table{"x-max-length": int32(1)}

func errLockLost(lock string) error {
	return fmt.Errorf("the lock %q was lost: its queue was deleted", lock)
}
