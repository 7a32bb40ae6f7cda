package membus_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"taskbus/coordinator/bus"
	"taskbus/tests/support/membus"
)

// Hours pass at once in a bubble. The head of a queue alone expires.
func TestExpiryInVirtualTime(t *testing.T) {
	for _, test := range []struct {
		name        string
		ttl         time.Duration   // of the queue
		expirations []time.Duration // of the messages, in order
		deadAfter   []int           // dead letters after 1 h, 2 h, 3 h
	}{
		{"own expiration", 0, []time.Duration{time.Hour, 2 * time.Hour}, []int{1, 2, 2}},
		{"the head holds up what expired behind it", 0, []time.Duration{2 * time.Hour, time.Hour}, []int{0, 2, 2}},
		{"a head without expiration holds up all", 0, []time.Duration{0, time.Hour}, []int{0, 0, 0}},
		{"the shorter of queue and message", 2 * time.Hour, []time.Duration{time.Hour, 3 * time.Hour, 0}, []int{1, 3, 3}},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := membus.New()
				q := quorum("q", "dead")
				q.TTL = test.ttl
				s, _ := open(t, b, quorum("dead", ""), q)
				for i, expiration := range test.expirations {
					p := body("q", fmt.Sprint(i))
					p.Expiration = expiration
					publish(t, s, p)
				}
				time.Sleep(time.Hour - time.Nanosecond)
				synctest.Wait()
				if n := len(b.Messages("dead")); n != 0 {
					t.Errorf("%d dead letters a nanosecond before the first hour is over", n)
				}
				time.Sleep(time.Nanosecond)
				for hour, want := range test.deadAfter {
					synctest.Wait()
					if got := len(b.Messages("dead")); got != want {
						t.Errorf("%d dead letters after %d h, want %d", got, hour+1, want)
					}
					time.Sleep(time.Hour)
				}
			})
		})
	}
}

func TestDeadLetterWaitsForItsQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := membus.New()
		q := quorum("q", "dead")
		q.MaxLength, q.DropHead = 1, true
		s, _ := open(t, b, q)
		publish(t, s, body("q", "1"), body("q", "2"))
		synctest.Wait()
		if ok, err := s.EnsureQueue(context.Background(), quorum("dead", "")); !ok || err != nil {
			t.Fatalf("EnsureQueue = %v, %v", ok, err)
		}
		// It is not looked for at once.
		synctest.Wait()
		if n := len(b.Messages("dead")); n != 0 {
			t.Errorf("%d dead letters as soon as their queue is there", n)
		}
		time.Sleep(3 * time.Minute)
		synctest.Wait()
		dead := b.Messages("dead")
		if !slices.Equal(bodies(dead), []string{"1"}) || dead[0].Headers["x-first-death-reason"] != "maxlen" {
			t.Errorf("dead letters %+v, want the oldest, as maxlen", dead)
		}
	})
}

// RabbitMQ drops a message that comes back to where it died, unless a client
// rejected it on the way.
func TestDeadLetterCycles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := membus.New()
		there, back := quorum("there", "back"), quorum("back", "there")
		there.TTL, back.TTL = time.Second, time.Second
		s, _ := open(t, b, there, back)
		publish(t, s, body("there", "x"))
		time.Sleep(time.Minute)
		if n := len(b.Messages("there")) + len(b.Messages("back")); n != 0 {
			t.Errorf("%d messages still go round", n)
		}
	})
}

func TestUserIDIsThePublishers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := membus.New()
		s, _ := open(t, b, quorum("q", ""))
		p := body("q", "x")
		p.UserID = "agent-1"
		publish(t, s, p)
		synctest.Wait()
		if got := b.Messages("q")[0].UserID; got != "agent-1" {
			t.Errorf("user id %q, want agent-1", got)
		}
	})
}

func TestMissingExchangeEndsTheSession(t *testing.T) {
	b := membus.New()
	var settled outcomes
	s, err := b.Open(context.Background(), bus.SessionSpec{OnSettled: settled.settle, Topology: bus.Topology{
		Mode: bus.Declare, Exchanges: []bus.Exchange{{Name: "x", Kind: bus.Topic}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	b.DeleteExchange("x")
	publish(t, s, bus.Publication{Exchange: "x", Key: "k"})
	<-s.Done()
	if s.Err() == nil || !slices.Equal(settled, outcomes{bus.Unknown}) {
		t.Errorf("ended with %v, settled %v; want a cause and unknown", s.Err(), settled)
	}
}

func TestSecondAckEndsTheSession(t *testing.T) {
	b := membus.New()
	s, _ := open(t, b, quorum("q", ""))
	publish(t, s, body("q", "x"))
	err := s.Subscribe(context.Background(), bus.Subscription{Queue: "q", Prefetch: 1, Handle: func(d bus.Delivery) {
		s.Ack(d.Tag)
		s.Ack(d.Tag)
	}})
	if err != nil && !errors.Is(err, bus.ErrClosed) { // it may have ended before it is told that it consumes
		t.Fatal(err)
	}
	<-s.Done()
	if s.Err() == nil {
		t.Error("no cause")
	}
}

// Deliveries and publications share no memory with what the queue keeps.
func TestMessagesAreCopies(t *testing.T) {
	b := membus.New()
	s, _ := open(t, b, quorum("q", ""))
	p := body("q", "abc")
	p.Headers = map[string]any{"table": map[string]any{"list": []any{"a"}}, "bytes": []byte("b")}
	publish(t, s, p)
	has(t, b, "q", 1) // until then they are the broker's
	spoil := func(body []byte, headers map[string]any) {
		body[0] = 'x'
		headers["bytes"].([]byte)[0] = 'x'
		headers["table"].(map[string]any)["list"].([]any)[0] = "x"
	}
	spoil(p.Body, p.Headers)
	got := has(t, b, "q", 1)[0]
	spoil(got.Body, got.Headers)
	kept := b.Messages("q")[0]
	if text := fmt.Sprintf("%s %s %v", kept.Body, kept.Headers["bytes"],
		kept.Headers["table"]); text != "abc b map[list:[a]]" {
		t.Errorf("the queue keeps %s", text)
	}
}

// Whatever consumers acknowledge, reject, or lose by a cut, and however sessions
// end: every confirmed message is in exactly one place until it is acknowledged.
func TestNothingIsLostOrDoubled(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		steps := rapid.SliceOf(rapid.SampledFrom([]string{"publish", "publish", "ack", "reject", "cut", "close"})).
			Draw(rt, "steps")
		fault := ""
		synctest.Test(t, func(t *testing.T) { fault = lostOrDoubled(t, steps) })
		if fault != "" {
			rt.Fatal(fault)
		}
	})
}

// lostOrDoubled takes these steps and says what is wrong after one of them; empty: nothing.
func lostOrDoubled(t *testing.T, steps []string) string {
	b := membus.New()
	topology := bus.Topology{Mode: bus.Declare, Queues: []bus.Queue{
		{Name: "dead", Kind: bus.Quorum}, {Name: "q", Kind: bus.Quorum, DeliveryLimit: 2, DeadLetter: "dead"},
	}}
	var s bus.Session
	var held chan bus.Delivery
	reopen := func() {
		var err error
		if s, err = b.Open(context.Background(), bus.SessionSpec{Topology: topology}); err != nil {
			t.Fatal(err)
		}
		held = make(chan bus.Delivery, 1_000)
		got := held
		err = s.Subscribe(context.Background(),
			bus.Subscription{Queue: "q", Prefetch: 3, Handle: func(d bus.Delivery) { got <- d }})
		if err != nil {
			t.Fatal(err)
		}
	}
	reopen()
	defer func() { _ = s.Close(context.Background()) }()

	published, acked := 0, 0
	for _, step := range steps {
		switch step {
		case "publish":
			if err := s.Publish(bus.Publication{Key: "q", Body: fmt.Append(nil, published)}); err != nil {
				t.Fatal(err)
			}
			published++
		case "ack", "reject":
			if b.Unacked("q") == 0 {
				continue
			}
			d := <-held
			if step == "ack" {
				s.Ack(d.Tag)
				acked++
			} else {
				s.Reject(d.Tag)
			}
		case "cut":
			b.Cut()
			reopen()
		case "close":
			if err := s.Close(context.Background()); err != nil {
				t.Fatal(err)
			}
			reopen()
		}
		synctest.Wait()
		ready, unacked, dead := len(b.Messages("q")), b.Unacked("q"), len(b.Messages("dead"))
		if sum := ready + unacked + dead + acked; sum != published {
			return fmt.Sprintf("after %s: %d ready + %d held + %d dead + %d acknowledged = %d, published %d",
				step, ready, unacked, dead, acked, sum, published)
		}
		if unacked > 3 || ready > 0 && unacked < 3 {
			return fmt.Sprintf("after %s: %d held and %d ready with a prefetch of 3", step, unacked, ready)
		}
	}
	return ""
}
