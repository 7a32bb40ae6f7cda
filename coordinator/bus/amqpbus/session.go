package amqpbus

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"taskbus/coordinator/bus"
)

// session implements [bus.Session].
//
// Its end, in order: fail or Close closes ending (no more publishing, no more
// handing out); flushing lets consumers send their last acknowledgements; the
// connections are closed, the consuming one not before the broker has had time
// for a burst of acknowledgements; gone reports that no confirm will come; the publishers
// answer for the rest; done.
type session struct {
	number     uint64
	bus        *Bus
	target     *target
	spec       bus.SessionSpec
	publishing *link
	consuming  *link
	publishers publishers
	topology   *topology

	subscribing  sync.RWMutex                // read by Subscribe, so that several may wait for the broker at once
	tags         atomic.Int64                // consumer tags that were given out
	listing      sync.Mutex                  // held to replace consumers
	lastConsumer int                         // number of the newest; guarded by listing
	consumers    atomic.Pointer[[]*consumer] // by number
	stale        atomic.Uint64

	locking sync.Mutex
	locks   map[string]bool // those held

	ended    sync.Once
	err      error         // written before ending closes
	closeBy  time.Time     // likewise; for the goodbye
	ending   chan struct{} // the session ends: by a fault or by Close
	flushing chan struct{}
	gone     chan struct{}
	done     chan struct{}
}

var _ bus.Session = (*session)(nil)

func errNoConfirm(limit time.Duration) error {
	return fmt.Errorf("no publisher confirm within %s: the broker is overloaded, or a queue has lost its quorum", limit)
}

// start runs the session; everything is connected.
func (s *session) start() {
	go s.watch()
	go s.finish()
	s.publishers.watch(s.bus.cfg.ConfirmTimeout, s.ending)
}

// watch turns the end of either connection or of the publishing channel into the
// end of the session.
func (s *session) watch() {
	select {
	case reply := <-s.publishing.closes:
		s.fail(s.publishing.fault(reply))
	case reply := <-s.consuming.closes:
		s.fail(s.consuming.fault(reply))
	case reply := <-s.publishers.closes:
		if reply == nil || !reply.Server || s.publishing.conn.IsClosed() {
			s.fail(s.publishing.fault(<-s.publishing.closes))
			return
		}
		if reply.Code == amqp.AccessRefused {
			s.fail(accessFor(s.target, "publish", "write", "the exchange", reply))
			return
		}
		s.fail(explain(s.target, "the channel that publishes was closed", reply))
	case <-s.ending:
	}
}

// fail ends the session for the given reason; the first counts.
func (s *session) fail(reason error) {
	s.end(reason, time.Now().Add(s.bus.cfg.CloseTimeout))
}

func (s *session) end(reason error, by time.Time) {
	s.ended.Do(func() {
		s.err, s.closeBy = reason, by
		close(s.ending)
	})
}

func (s *session) isEnding() bool {
	select {
	case <-s.ending:
		return true
	default:
		return false
	}
}

// finish brings the session to its end once it has begun to end.
func (s *session) finish() {
	settledAll := make(chan struct{})
	go func() {
		defer close(settledAll)
		s.publishers.settle(s.gone)
	}()
	<-s.ending
	s.publishers.close()
	late := time.AfterFunc(time.Until(s.closeBy), func() {
		s.publishing.wire.Kill(context.DeadlineExceeded)
		s.consuming.wire.Kill(context.DeadlineExceeded)
	})
	defer late.Stop()

	// A Subscribe under way sees ending, or is waited for and flushed with the rest.
	s.subscribing.Lock()
	close(s.flushing)
	var quiet time.Time // when no consumer's acknowledgements are under way any more
	for _, c := range *s.consumers.Load() {
		<-c.done
		if at := c.pace.quiet(); at.After(quiet) {
			quiet = at
		}
	}
	s.subscribing.Unlock()

	var closed sync.WaitGroup
	closed.Go(func() { s.publishing.close(s.closeBy) })
	closed.Go(func() { s.topology.prober.close(s.closeBy) })
	closed.Go(func() {
		if latest := s.closeBy.Add(-goodbyeAtLeast); quiet.After(latest) {
			quiet = latest
		}
		if s.err == nil { // after a fault do not wait for a broker that may be gone
			time.Sleep(time.Until(quiet))
		}
		s.consuming.close(s.closeBy)
	})
	closed.Wait()
	close(s.gone)
	<-settledAll
	close(s.done)
}

// Publish implements [bus.Session].
func (s *session) Publish(p bus.Publication) error { return s.publishers.publish(&p) }

// EnsureQueue implements [bus.Session].
func (s *session) EnsureQueue(ctx context.Context, q bus.Queue) (bool, error) {
	if s.isEnding() {
		return false, bus.ErrClosed
	}
	if q.Temporary {
		return s.topology.ensureBound(ctx, q, s.spec.Topology.Bindings)
	}
	return s.topology.ensure(ctx, q)
}

// Matches implements [bus.Session].
func (s *session) Matches(queue string) bool { return s.topology.matches(queue) }

// User implements [bus.Session].
func (s *session) User() string { return s.target.user }

// Broker implements [bus.Session].
func (s *session) Broker() bus.Broker {
	say := func(property string) string {
		text, _ := s.publishing.conn.Properties[property].(string)
		return text
	}
	return bus.Broker{Product: say("product"), Version: say("version"), ClusterName: say("cluster_name"),
		Node: say("node")}
}

// Depth implements [bus.Session].
func (s *session) Depth(ctx context.Context, queue string) (bus.Depth, error) {
	if s.isEnding() {
		return bus.Depth{}, bus.ErrClosed
	}
	return s.topology.depth(ctx, queue)
}

// Holds implements [bus.Session].
func (s *session) Holds(ctx context.Context, queue string) (bool, error) {
	if s.isEnding() {
		return false, bus.ErrClosed
	}
	return s.topology.holds(ctx, queue)
}

// DropQueue implements [bus.Session].
func (s *session) DropQueue(ctx context.Context, queue string) (bool, error) {
	if s.isEnding() {
		return false, bus.ErrClosed
	}
	return s.topology.drop(ctx, queue)
}

// Findings implements [bus.Session].
func (s *session) Findings() []bus.Finding { return s.topology.list() }

// StaleAcks implements [bus.Session].
func (s *session) StaleAcks() uint64 { return s.stale.Load() }

// Done implements [bus.Session].
func (s *session) Done() <-chan struct{} { return s.done }

// Err implements [bus.Session].
func (s *session) Err() error {
	select {
	case <-s.done:
		return s.err
	default:
		return nil
	}
}

// goodbyeAtLeast is left for the last acknowledgements and the goodbye even when
// the context of Close has ended.
const goodbyeAtLeast = 250 * time.Millisecond

// Close implements [bus.Session]. It returns an error when publications were left unsettled, that of ctx or
// errUnanswered; that the session had ended by a fault is told by Err.
func (s *session) Close(ctx context.Context) error {
	select {
	case <-s.done:
		return nil // closed before, or by a fault that Err returns
	default:
	}
	s.publishers.close()
	abandoned := s.publishers.drained(ctx)
	now := time.Now()
	by := now.Add(s.bus.cfg.CloseTimeout)
	if limit, ok := ctx.Deadline(); ok && limit.Before(by) || ctx.Err() != nil {
		by = limit
	}
	if least := now.Add(goodbyeAtLeast); by.Before(least) {
		by = least
	}
	s.end(nil, by)
	<-s.done
	if s.err == nil && abandoned != nil {
		return fmt.Errorf("close the broker session: publications were left unsettled: %w", abandoned)
	}
	return nil
}

// isStream reports whether a queue is declared as a stream.
func (s *session) isStream(queue string) bool {
	q, declared := s.declared(queue)
	return declared && q.Kind == bus.Stream
}

// mayBeStream reports whether a queue may be a stream: it is declared as one, or
// nothing is known of it.
func (s *session) mayBeStream(queue string) bool {
	q, declared := s.declared(queue)
	return !declared || q.Kind == bus.Stream
}

// declared finds what the topology says of a queue.
func (s *session) declared(queue string) (bus.Queue, bool) {
	for _, q := range s.spec.Topology.Queues {
		if q.Name == queue {
			return q, true
		}
	}
	return bus.Queue{}, false
}
