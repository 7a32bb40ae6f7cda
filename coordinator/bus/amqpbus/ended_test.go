package amqpbus

import (
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"taskbus/coordinator/bus"
	"taskbus/tests/support/brokertest"
)

// The broker closes a channel whose consumer holds a message for too long; an
// unknown tag, which the session itself never sends, has the same effect at once.
// For a consumer with OnEnded that is its end, and no more.
func TestClosedChannelEndsItsConsumerAlone(t *testing.T) {
	t.Parallel()
	s, consumer, got, ended := openWithConsumer(t)
	d := receive(t, "the delivery", got) // first: what comes as the channel is closed is not handed out
	if err := consumer.channel.Ack(9999, false); err != nil {
		t.Fatal(err)
	}
	if err := receive(t, "OnEnded", ended); err == nil || !strings.Contains(err.Error(), "406") {
		t.Errorf("OnEnded was told %v, want the broker's answer 406", err)
	}
	s.Ack(d.Tag) // too late, and harmless
	if stopped, err := s.Unsubscribe(t.Context(), "q"); stopped || err != nil {
		t.Errorf("Unsubscribe = %v, %v; want false, nil", stopped, err)
	}
	wantHeldAgain(t, s)
}

// One that was unsubscribed leaves without a word when it loses its channel.
func TestClosedChannelOfALeavingConsumer(t *testing.T) {
	t.Parallel()
	s, consumer, got, ended := openWithConsumer(t)
	receive(t, "the delivery", got)
	if stopped, err := s.Unsubscribe(t.Context(), "q"); !stopped || err != nil {
		t.Fatalf("Unsubscribe = %v, %v; want true, nil", stopped, err)
	}
	if err := consumer.channel.Ack(9999, false); err != nil {
		t.Fatal(err)
	}
	receive(t, "the consumer to leave", consumer.done)
	wantHeldAgain(t, s)
	if len(ended) != 0 {
		t.Error("OnEnded was called after Unsubscribe")
	}
}

// The broker closes the channel, and Unsubscribe may find out before the consumer
// does: nothing is left to be stopped then, and OnEnded may have been called or not.
func TestUnsubscribeMeetsAClosedChannel(t *testing.T) {
	t.Parallel()
	for range 5 {
		s, consumer, _, ended := openWithConsumer(t)
		if err := consumer.channel.Ack(9999, false); err != nil {
			t.Fatal(err)
		}
		stopped, err := s.Unsubscribe(t.Context(), "q")
		if err != nil {
			t.Fatalf("Unsubscribe: %v", err)
		}
		receive(t, "the consumer to leave", consumer.done)
		wantHeldAgain(t, s)
		select {
		case reason := <-ended:
			if stopped || reason == nil {
				t.Errorf("Unsubscribe = %v, and OnEnded was told %v", stopped, reason)
			}
		default:
		}
	}
}

// openWithConsumer is a session that consumes the queue q, which holds one message.
func openWithConsumer(t *testing.T) (*session, *consumer, chan bus.Delivery, chan error) {
	t.Helper()
	settled := make(chan bus.Outcome, 16)
	opened, err := New(Config{URL: brokertest.Vhost(t).URL, Logger: zerolog.Nop()}).Open(t.Context(), bus.SessionSpec{
		Name:      "t",
		Topology:  bus.Topology{Mode: bus.Declare, Queues: []bus.Queue{{Name: "q", Kind: bus.Quorum, DeliveryLimit: 100}}},
		OnSettled: func(_ uint64, o bus.Outcome) { settled <- o },
	})
	if err != nil {
		t.Fatal(err)
	}
	s := opened.(*session)
	t.Cleanup(func() { _ = s.Close(t.Context()) })
	if err := s.Publish(bus.Publication{Key: "q", Body: []byte("x")}); err != nil {
		t.Fatal(err)
	}
	if o := receive(t, "the confirm", settled); o != bus.Confirmed {
		t.Fatalf("publication is %v", o)
	}
	got, ended := make(chan bus.Delivery, 16), make(chan error, 16)
	err = s.Subscribe(t.Context(), bus.Subscription{
		Queue: "q", Prefetch: 1,
		Handle:  func(d bus.Delivery) { got <- d },
		OnEnded: func(err error) { ended <- err },
	})
	if err != nil {
		t.Fatal(err)
	}
	return s, (*s.consumers.Load())[0], got, ended
}

// wantHeldAgain consumes the queue with another consumer of the same session: the
// message is the broker's again, and the session lives.
func wantHeldAgain(t *testing.T, s *session) {
	t.Helper()
	got := make(chan bus.Delivery, 16)
	err := s.Subscribe(t.Context(), bus.Subscription{Queue: "q", Prefetch: 1, Handle: func(d bus.Delivery) { got <- d }})
	if err != nil {
		t.Fatal(err)
	}
	d := receive(t, "the message again", got)
	if string(d.Body) != "x" {
		t.Errorf("got %q, want x", d.Body)
	}
	s.Ack(d.Tag)
	if s.isEnding() {
		t.Errorf("the session ends: %v", s.err)
	}
}

func receive[T any](t *testing.T, what string, from <-chan T) T {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-time.After(20 * time.Second):
		t.Fatalf("waited 20 s for %s", what)
		panic("unreachable")
	}
}
