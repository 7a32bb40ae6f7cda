package amqpbus_test

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"taskbus/coordinator/bus"
	"taskbus/tests/support/brokertest"
)

// eventually polls what only the broker or the runtime can tell.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !holds(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited %v for %s", patience, what)
		}
	}
}

// openChannels counts the channels in the broker's virtual host.
func openChannels(t *testing.T, broker brokertest.Broker) int {
	t.Helper()
	n := 0
	for line := range strings.Lines(broker.Ctl(t, "-q", "list_connections", "vhost", "channels")) {
		fields := strings.Fields(line)
		if len(fields) != 2 || fields[0] != broker.VHost {
			continue
		}
		channels, err := strconv.Atoi(fields[1])
		if err != nil {
			t.Fatalf("list_connections: %v", err)
		}
		n += channels
	}
	return n
}

func publishAll(t *testing.T, s bus.Session, queue string, from, to int) {
	t.Helper()
	for i := from; i < to; i++ {
		if err := s.Publish(bus.Publication{Key: queue, Body: []byte(fmt.Sprint(i))}); err != nil {
			t.Fatal(err)
		}
	}
}

// Not parallel: it counts goroutines.
func TestStoppedConsumersLeaveNothingBehind(t *testing.T) {
	const cycles, each = 200, 3
	broker := brokertest.Vhost(t)
	s := open(t, config(t, broker.URL), bus.SessionSpec{Name: "t", Topology: quorum("q")})
	channels := openChannels(t, broker) // no consumer yet
	if channels == 0 {
		t.Fatal("the session has no channels: the count shows nothing")
	}
	before := goleak.IgnoreCurrent()

	got := make(chan bus.Delivery, cycles*each)
	sub := bus.Subscription{Queue: "q", Prefetch: each, Handle: func(d bus.Delivery) { got <- d }}
	seen := map[string]int{}
	var first bus.Tag
	for i := range cycles {
		publishAll(t, s, "q", i*each, (i+1)*each)
		if err := s.Subscribe(t.Context(), sub); err != nil {
			t.Fatal(err)
		}
		d := within(t, "a delivery", got)
		if i == 0 {
			first = d.Tag
		}
		if ended, err := s.Unsubscribe(t.Context(), "q"); !ended || err != nil {
			t.Fatalf("Unsubscribe = %v, %v", ended, err)
		}
		seen[string(d.Body)]++
		s.Ack(d.Tag) // the others it was given, if any, in a later cycle
	}
	// As many as there are messages: 200 × 3. What came and what is ready changes
	// hands until the last consumer has had it.
	if err := s.Subscribe(t.Context(), sub); err != nil {
		t.Fatal(err)
	}
	for n := cycles; n < cycles*each; n++ {
		d := within(t, "a delivery", got)
		seen[string(d.Body)]++
		s.Ack(d.Tag)
	}
	if len(seen) != cycles*each || len(got) != 0 {
		t.Errorf("%d different messages were handled and %d are left, want %d and 0", len(seen), len(got), cycles*each)
	}
	if _, err := s.Unsubscribe(t.Context(), "q"); err != nil {
		t.Fatal(err)
	}

	eventually(t, "goroutines to end", func() bool { return goleak.Find(before) == nil })
	eventually(t, fmt.Sprintf("%d channels", channels), func() bool { return openChannels(t, broker) == channels })

	// A late tag of a consumer that has left must not count for another whose
	// delivery has the same number.
	publishAll(t, s, "q", 1000, 1001)
	if err := s.Subscribe(t.Context(), sub); err != nil {
		t.Fatal(err)
	}
	held := within(t, "a delivery", got)
	if held.Tag.Delivery != first.Delivery {
		t.Fatalf("delivery %d, want %d: the test shows nothing", held.Tag.Delivery, first.Delivery)
	}
	s.Ack(first)
	s.Reject(first)
	if n := s.StaleAcks(); n != 0 {
		t.Errorf("StaleAcks = %d, want 0: the tag is this session's own", n)
	}
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if left := broker.Drain(t, "q"); len(left) != 1 || string(left[0].Body) != "1000" {
		t.Errorf("%d messages are left, want the one that was held", len(left))
	}
}

// RabbitMQ keeps acknowledgements back while more than 32 are under way to a
// quorum queue, and forgets them if the channel is closed meanwhile. Eight queues
// at once keep it busy.
func TestNoAcknowledgementIsLostAtTheEnd(t *testing.T) {
	t.Parallel()
	queues := []string{"q1", "q2", "q3", "q4", "q5", "q6", "q7", "q8"}
	for name, test := range map[string]struct {
		before func(*testing.T, bus.Session) // the last acknowledgements
		after  func(*testing.T, bus.Session, brokertest.Broker, int)
	}{
		"of a consumer": {
			before: func(t *testing.T, s bus.Session) {
				for _, queue := range queues {
					if _, err := s.Unsubscribe(t.Context(), queue); err != nil {
						t.Fatal(err)
					}
				}
			},
			after: func(t *testing.T, _ bus.Session, broker brokertest.Broker, channels int) {
				eventually(t, "the consumers' channels to be closed", func() bool {
					return openChannels(t, broker) == channels-len(queues)
				})
			},
		},
		"of a session": {
			before: func(*testing.T, bus.Session) {},
			after: func(t *testing.T, s bus.Session, broker brokertest.Broker, _ int) {
				if err := s.Close(t.Context()); err != nil {
					t.Error(err)
				}
				eventually(t, "the connections to be closed", func() bool { return openChannels(t, broker) == 0 })
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			broker := brokertest.Vhost(t)
			s := open(t, config(t, broker.URL), bus.SessionSpec{Name: "t", Topology: quorum(queues...)})
			var held []bus.Tag
			for _, queue := range queues {
				held = append(held, holdInGaps(t, s, queue)...)
			}
			channels := openChannels(t, broker)
			test.before(t, s)
			for _, tag := range held {
				s.Ack(tag)
			}
			test.after(t, s, broker, channels)
			for _, queue := range queues {
				if back := broker.Drain(t, queue); len(back) != 0 {
					t.Errorf("%d acknowledged messages of %s came back", len(back), queue)
				}
			}
		})
	}
}

// holdInGaps consumes a queue and returns 2,000 deliveries that will be
// acknowledged one by one: every other of 2,000 was acknowledged, which 1,000
// more in their place prove to have arrived.
func holdInGaps(t *testing.T, s bus.Session, queue string) (held []bus.Tag) {
	t.Helper()
	const prefetch, all = 2000, 3000
	publishAll(t, s, queue, 0, all)
	got := make(chan bus.Delivery, all)
	sub := bus.Subscription{Queue: queue, Prefetch: prefetch, Handle: func(d bus.Delivery) { got <- d }}
	if err := s.Subscribe(t.Context(), sub); err != nil {
		t.Fatal(err)
	}
	for i := range all {
		if tag := within(t, "a delivery", got).Tag; i < prefetch && i%2 == 1 {
			s.Ack(tag)
		} else {
			held = append(held, tag)
		}
	}
	return held
}

// As when hundreds of agents vanish and their queues with them. Not parallel: it
// counts goroutines.
func TestEndedConsumersLeaveNothingBehind(t *testing.T) {
	const cycles, missing = 200, 50
	broker := brokertest.Vhost(t)
	s := open(t, config(t, broker.URL), bus.SessionSpec{Name: "t", Topology: quorum("other")})
	if _, err := s.Depth(t.Context(), "other"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.EnsureQueue(t.Context(), quorum("other").Queues[0]); err != nil { // by another channel
		t.Fatal(err)
	}
	if _, err := s.Holds(t.Context(), "other"); err != nil { // by a connection that stays
		t.Fatal(err)
	}
	channels := openChannels(t, broker)
	if channels == 0 {
		t.Fatal("the session has no channels: the count shows nothing")
	}
	before := goleak.IgnoreCurrent()
	got, ended := make(chan bus.Delivery, cycles), make(chan error, cycles)
	sub := bus.Subscription{
		Queue: "q", Prefetch: 10,
		Handle:  func(d bus.Delivery) { got <- d },
		OnEnded: func(err error) { ended <- err },
	}
	for i := range cycles {
		if _, err := s.EnsureQueue(t.Context(), bus.Queue{Name: "q", Kind: bus.Classic}); err != nil {
			t.Fatal(err)
		}
		if err := s.Subscribe(t.Context(), sub); err != nil {
			t.Fatal(err)
		}
		publishAll(t, s, "q", i, i+1)
		d := within(t, "a delivery", got)
		broker.DeleteQueue(t, "q")
		if i%2 == 0 {
			s.Ack(d.Tag) // meets the end of the channel, or what is left of it
		}
		if err := within(t, "OnEnded", ended); err == nil || !strings.Contains(err.Error(), `"q"`) {
			t.Errorf("OnEnded was told %v, want the queue's name", err)
		}
	}
	for range missing {
		if err := s.Subscribe(t.Context(), sub); !errors.Is(err, bus.ErrNoQueue) {
			t.Fatalf("Subscribe gives %v, want ErrNoQueue", err)
		}
		if _, err := s.Depth(t.Context(), "q"); !errors.Is(err, bus.ErrNoQueue) {
			t.Fatalf("Depth gives %v, want ErrNoQueue", err)
		}
	}
	if _, err := s.Depth(t.Context(), "other"); err != nil { // the channel for looks is there again
		t.Fatal(err)
	}
	eventually(t, "goroutines to end", func() bool { return goleak.Find(before) == nil })
	eventually(t, fmt.Sprintf("%d channels", channels), func() bool { return openChannels(t, broker) == channels })
	if len(ended)+len(got) != 0 {
		t.Errorf("%d calls of OnEnded and %d deliveries too many", len(ended), len(got))
	}
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
}
