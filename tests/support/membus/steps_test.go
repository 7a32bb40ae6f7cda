package membus_test

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"taskbus/coordinator/bus"
	"taskbus/tests/support/membus"
)

// What only this broker can be stopped at: between two of its steps.

// at has f called once, at that step, which must come.
func at(t *testing.T, b *membus.Broker, step string, f func()) {
	t.Helper()
	var reached atomic.Bool
	b.SetBetween(func(now string) {
		if now == step && reached.CompareAndSwap(false, true) {
			f()
		}
	})
	t.Cleanup(func() {
		if !reached.Load() {
			t.Errorf("step %q was not reached", step)
		}
	})
}

// subscribe collects deliveries and settles none.
func subscribe(t *testing.T, s bus.Session, queue string, prefetch int) *[]bus.Delivery {
	t.Helper()
	var got []bus.Delivery
	err := s.Subscribe(context.Background(), bus.Subscription{
		Queue: queue, Prefetch: prefetch, OnEnded: func(error) {}, Handle: func(d bus.Delivery) { got = append(got, d) },
	})
	if err != nil {
		t.Fatal(err)
	}
	return &got
}

func take(s bus.Session) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	return s.TakeLock(ctx, "leader", nil)
}

// A session that gets the lock of a session that is lost may look at the queues before they have back what it held.
func TestLockIsFreeBeforeDeliveriesAreBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := membus.New()
		s, _ := open(t, b, quorum("q", ""))
		next, _ := open(t, b)
		if err := take(s); err != nil {
			t.Fatal(err)
		}
		publish(t, s, body("q", "held"))
		subscribe(t, s, "q", 1)
		synctest.Wait()
		at(t, b, "hand back q", func() {
			if err := take(next); err != nil {
				t.Errorf("TakeLock: %v", err)
			}
			if d, err := next.Depth(context.Background(), "q"); err != nil || d.Ready != 0 {
				t.Errorf("Depth = %+v, %v; want nothing ready yet", d, err)
			}
		})
		if err := s.Close(context.Background()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if d, err := next.Depth(context.Background(), "q"); err != nil || d.Ready != 1 {
			t.Errorf("Depth = %+v, %v; want what was held", d, err)
		}
	})
}

// Between the deletion of a queue and the end of its consumers nothing that they settle has an effect.
func TestSettledAfterItsQueueIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := membus.New()
		s, _ := open(t, b, quorum("dead", ""), quorum("q", "dead"))
		publish(t, s, body("q", "a"), body("q", "b"))
		got := subscribe(t, s, "q", 2)
		synctest.Wait()
		at(t, b, "cancel q", func() {
			s.Reject((*got)[0].Tag)
			s.Requeue((*got)[1].Tag)
			synctest.Wait()
		})
		b.DeleteQueue("q")
		synctest.Wait()
		if n := len(b.Messages("dead")); n != 0 {
			t.Errorf("%d dead letters of a queue that is gone", n)
		}
	})
}

// A session that is being opened is cut, and misses a queue that goes after others were seen.
func TestOpenInSteps(t *testing.T) {
	topology := bus.Topology{Mode: bus.Verify, Queues: []bus.Queue{quorum("a", ""), quorum("b", "")}}
	for name, test := range map[string]struct {
		happens func(*membus.Broker, context.CancelFunc)
		missing bool
		want    error
	}{
		"cut":      {happens: func(b *membus.Broker, _ context.CancelFunc) { b.Cut() }},
		"deleted":  {happens: func(b *membus.Broker, _ context.CancelFunc) { b.DeleteQueue("b") }, missing: true},
		"given up": {happens: func(_ *membus.Broker, cancel context.CancelFunc) { cancel() }, want: context.Canceled},
	} {
		t.Run(name, func(t *testing.T) {
			b := membus.New()
			open(t, b, topology.Queues...)
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			at(t, b, "declare b", func() { test.happens(b, cancel) })
			_, err := b.Open(ctx, bus.SessionSpec{Topology: topology})
			var missing *bus.TopologyError
			if err == nil || errors.As(err, &missing) != test.missing || test.want != nil && !errors.Is(err, test.want) {
				t.Errorf("Open gives %v", err)
			}
		})
	}
}

// Close waits for confirms, and meanwhile deliveries come.
func TestDeliveriesGoOnWhileCloseWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := membus.New()
		s, _ := open(t, b, quorum("q", ""))
		other, _ := open(t, b)
		got := subscribe(t, s, "q", 10)
		b.SetConfirm(func(p bus.Publication) membus.Reply { return membus.Withhold })
		publish(t, s, body("q", "own"))
		closed := make(chan error)
		go func() { closed <- s.Close(context.Background()) }()
		synctest.Wait()
		publish(t, other, body("q", "late"))
		synctest.Wait()
		if len(*got) != 2 {
			t.Errorf("%d deliveries while Close waits, want 2", len(*got))
		}
		if err := s.Publish(body("q", "x")); !errors.Is(err, bus.ErrClosed) {
			t.Errorf("Publish gives %v, want ErrClosed", err)
		}
		b.ReleaseConfirms()
		if err := <-closed; err != nil {
			t.Error(err)
		}
	})
}

// What is acknowledged waits for company, and what is rejected does not.
func TestRejectionsOvertakeAcknowledgements(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := membus.New()
		s, _ := open(t, b, quorum("dead", ""), quorum("q", "dead"))
		publish(t, s, body("q", "acknowledged"), body("q", "requeued"), body("q", "rejected"))
		got := subscribe(t, s, "q", 3)
		synctest.Wait()
		arrived := make(chan struct{})
		n := 0
		b.SetBetween(func(step string) {
			if step == "ack" {
				if n++; n == 1 {
					<-arrived
				} else if n == 3 {
					b.SetBetween(nil)
					b.Cut() // the first two have arrived
				}
			}
		})
		s.Ack((*got)[0].Tag)
		s.Requeue((*got)[1].Tag)
		s.Reject((*got)[2].Tag)
		close(arrived)
		<-s.Done()
		synctest.Wait()
		if left := bodies(b.Messages("q")); !slices.Equal(left, []string{"acknowledged", "requeued"}) {
			t.Errorf("%q are ready, want both: the acknowledgement was lost with the session", left)
		}
		if dead := bodies(b.Messages("dead")); !slices.Equal(dead, []string{"rejected"}) {
			t.Errorf("dead letters %q, want what was rejected", dead)
		}
	})
}

// A body is the broker's until it is settled.
func TestBodyIsReadWhenItIsSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := membus.New()
		s, _ := open(t, b, quorum("q", ""))
		b.Block(true)
		p := body("q", "early")
		publish(t, s, p)
		copy(p.Body, "later")
		b.Block(false)
		synctest.Wait()
		if got := bodies(b.Messages("q")); !slices.Equal(got, []string{"later"}) {
			t.Errorf("stored %q, want what the body was when it was sent", got)
		}
	})
}

// The broker counts what is in a queue before it deletes it.
func TestDropLosesUntold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := membus.New()
		s, _ := open(t, b, quorum("q", ""))
		other, settled := open(t, b)
		at(t, b, "delete q", func() {
			publish(t, other, body("q", "lost"))
			synctest.Wait()
		})
		if gone, err := s.DropQueue(context.Background(), "q"); !gone || err != nil {
			t.Errorf("DropQueue = %v, %v; want true, nil", gone, err)
		}
		if !slices.Equal(*settled, outcomes{bus.Confirmed}) {
			t.Errorf("settled %v, want confirmed", *settled)
		}
	})
}

// A lock that an operator deletes ends the session that holds it, and is free.
func TestDeletedLockEndsItsSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := membus.New()
		s, _ := open(t, b)
		next, _ := open(t, b)
		if err := take(s); err != nil {
			t.Fatal(err)
		}
		taken := make(chan error)
		at(t, b, "cancel leader", func() {
			go func() { taken <- take(next) }()
			synctest.Wait() // there are two that think that they have it
			select {
			case <-s.Done():
				t.Error("the first has ended already")
			default:
			}
		})
		b.DeleteQueue("leader")
		<-s.Done()
		if err := <-taken; err != nil || s.Err() == nil {
			t.Errorf("TakeLock: %v; the first ended with %v, want a cause", err, s.Err())
		}
	})
}

// OnEnded is not called for a consumer whose queue goes while Unsubscribe is on its way.
func TestQueueGoesWhileItsConsumerLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := membus.New()
		s, _ := open(t, b, quorum("q", ""))
		told := 0
		sub := bus.Subscription{Queue: "q", Prefetch: 1, Handle: func(bus.Delivery) {}, OnEnded: func(error) { told++ }}
		if err := s.Subscribe(context.Background(), sub); err != nil {
			t.Fatal(err)
		}
		at(t, b, "stop q", func() { b.DeleteQueue("q") })
		if ended, err := s.Unsubscribe(context.Background(), "q"); !ended || err != nil {
			t.Errorf("Unsubscribe = %v, %v; want true, nil", ended, err)
		}
		synctest.Wait()
		if told != 0 {
			t.Errorf("OnEnded was called %d times", told)
		}
	})
}

// A message may be handled before it is confirmed, and its confirm be lost with the session.
func TestHandledBeforeItIsConfirmed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := membus.New()
		s, settled := open(t, b, quorum("q", ""))
		other, _ := open(t, b)
		got := subscribe(t, other, "q", 1)
		at(t, b, "confirm q", func() {
			synctest.Wait()
			if len(*got) != 1 || len(*settled) != 0 {
				t.Errorf("%d handled, settled %v; want the message before its confirm", len(*got), *settled)
			}
			go b.Cut()
			synctest.Wait()
		})
		publish(t, s, body("q", "x"))
		<-s.Done()
		if !slices.Equal(*settled, outcomes{bus.Unknown}) {
			t.Errorf("settled %v, want unknown", *settled)
		}
	})
}
