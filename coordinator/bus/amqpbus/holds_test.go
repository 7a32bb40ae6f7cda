package amqpbus_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"taskbus/coordinator/bus"
	"taskbus/tests/support/brokertest"
)

// toQueue evaluates an Erlang expression in which P is the process of a quorum queue.
func toQueue(t *testing.T, b brokertest.Broker, queue, expression string) {
	t.Helper()
	b.Ctl(t, "eval", fmt.Sprintf(`{ok, Q} = rabbit_amqqueue:lookup(rabbit_misc:r(<<"%s">>, queue, <<"%s">>)),
		{P, _} = amqqueue:get_pid(Q), %s.`, b.VHost, queue, expression))
}

// suspend has a queue's process answer nothing any more.
func suspend(t *testing.T, b brokertest.Broker, queue string) {
	t.Helper()
	toQueue(t, b, queue, "sys:suspend(P)")
}

// subscribing subscribes to the queue, as one that the session can do without, and returns what comes of it.
func subscribing(t *testing.T, s bus.Session, queue string) <-chan error {
	subscribed := make(chan error, 1)
	go func() {
		subscribed <- s.Subscribe(t.Context(), bus.Subscription{
			Queue: queue, Prefetch: 1, OnEnded: func(error) {}, Handle: func(bus.Delivery) {},
		})
	}()
	return subscribed
}

// TestCloseDoesNotWaitForQueueWithoutAnswer: a session that ends while Subscribe asks such a queue ends in its time,
// and so does what else changes its consumers.
func TestCloseDoesNotWaitForQueueWithoutAnswer(t *testing.T) {
	t.Parallel()
	b := brokertest.Vhost(t)
	s := open(t, config(t, b.URL), bus.SessionSpec{Name: "t", Topology: quorum("mute", "other")})
	suspend(t, b, "mute")
	subscribed := subscribing(t, s, "mute")
	time.Sleep(500 * time.Millisecond) // until it waits for the answer, which nothing shows
	at := time.Now()
	if _, err := s.Unsubscribe(t.Context(), "other"); err != nil {
		t.Error(err)
	}
	if took := time.Since(at); took > time.Second/2 {
		t.Errorf("Unsubscribe of another queue took %v", took)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	at = time.Now()
	_ = s.Close(ctx)
	if took := time.Since(at); took > time.Second {
		t.Errorf("Close took %v", took)
	}
	if err := within(t, "the end of Subscribe", subscribed); err == nil {
		t.Error("Subscribe has succeeded")
	}
}

// TestSubscribeToAnEmptyStreamAsksForNoMessage: the broker closes a connection over which a stream is asked for its
// first message, and with it all other requests, which are made again then.
func TestSubscribeToAnEmptyStreamAsksForNoMessage(t *testing.T) {
	t.Parallel()
	b := brokertest.Vhost(t)
	topology := quorum("mute")
	topology.Queues = append(topology.Queues, bus.Queue{Name: "s", Kind: bus.Stream})
	s := open(t, config(t, b.URL), bus.SessionSpec{Name: "t", Topology: topology})
	suspend(t, b, "mute")
	if _, err := s.Holds(t.Context(), "mute"); !errors.Is(err, bus.ErrUnanswered) {
		t.Fatalf("Holds: %v, want ErrUnanswered", err)
	}
	for _, from := range []bus.Position{{}, bus.First()} {
		if err := s.Subscribe(t.Context(), bus.Subscription{
			Queue: "s", Prefetch: 1, From: from, OnEnded: func(error) {}, Handle: func(bus.Delivery) {},
		}); err != nil {
			t.Fatal(err)
		}
	}
	at := time.Now()
	if _, err := s.Holds(t.Context(), "mute"); !errors.Is(err, bus.ErrUnanswered) || time.Since(at) > time.Second {
		t.Errorf("Holds: %v after %v, want ErrUnanswered at once: it owes an answer", err, time.Since(at))
	}
}

// TestQueueWithoutAnswerWhenTheConnectionEnds: that a connection ends over which a queue was asked is no answer.
func TestQueueWithoutAnswerWhenTheConnectionEnds(t *testing.T) {
	t.Parallel()
	b := brokertest.Vhost(t)
	cfg := config(t, b.URL)
	cfg.RequestTimeout = time.Second
	s := open(t, cfg, bus.SessionSpec{Name: "t", Topology: quorum("mute")})
	suspend(t, b, "mute")
	subscribed := subscribing(t, s, "mute")
	time.Sleep(200 * time.Millisecond) // until it waits for the answer, which nothing shows
	// A connection of another test may be about to begin, and has no properties, or be gone by now.
	b.Ctl(t, "eval", fmt.Sprintf(`[exit(P, kill) || P <- rabbit_networking:connections(),
		case catch rabbit_reader:info(P, [client_properties, vhost]) of
			[{client_properties, C}, {vhost, <<"%s">>}] when is_list(C) ->
				{_, _, N} = lists:keyfind(<<"connection_name">>, 1, C),
				binary:match(N, <<"look">>) =/= nomatch;
			_ -> false
		end].`, b.VHost))
	if err := within(t, "the end of Subscribe", subscribed); !errors.Is(err, bus.ErrUnanswered) {
		t.Errorf("Subscribe: %v, want ErrUnanswered", err)
	}
	select {
	case <-s.Done():
		t.Errorf("the session has ended: %v", s.Err())
	case <-time.After(2 * time.Second):
	}
}
