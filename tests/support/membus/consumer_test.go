package membus_test

import (
	"context"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"taskbus/coordinator/bus"
	"taskbus/tests/support/membus"
)

// A queue takes what it held along, whatever its consumers were about.
func TestDeletedQueueIsGoneWithWhatItHeld(t *testing.T) {
	for _, test := range []struct {
		name        string
		dispensable bool // has OnEnded
		unsubscribe bool
		sessionEnds bool
		told        int // calls of OnEnded
	}{
		{"a consumer", false, false, true, 0},
		{"a consumer that is leaving", false, true, false, 0},
		{"a dispensable consumer", true, false, false, 1},
		{"a dispensable consumer that is leaving", true, true, false, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := membus.New()
				s, _ := open(t, b, quorum("dead", ""), quorum("q", "dead"))
				for _, text := range []string{"held", "ready"} {
					p := body("q", text)
					p.Expiration = time.Minute
					publish(t, s, p)
				}
				var held []bus.Delivery
				told := 0
				sub := bus.Subscription{Queue: "q", Prefetch: 1, Handle: func(d bus.Delivery) { held = append(held, d) }}
				if test.dispensable {
					sub.OnEnded = func(error) { told++ }
				}
				if err := s.Subscribe(context.Background(), sub); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				if test.unsubscribe {
					if ended, err := s.Unsubscribe(context.Background(), "q"); !ended || err != nil {
						t.Fatalf("Unsubscribe = %v, %v", ended, err)
					}
				}
				b.DeleteQueue("q")
				synctest.Wait()
				s.Ack(held[0].Tag)
				time.Sleep(time.Hour) // whatever could expire has expired
				synctest.Wait()
				select {
				case <-s.Done():
					if !test.sessionEnds {
						t.Errorf("the session has ended: %v", s.Err())
					}
				default:
					if test.sessionEnds {
						t.Error("the session goes on")
					}
				}
				if told != test.told {
					t.Errorf("OnEnded was called %d times, want %d", told, test.told)
				}
				if n := len(b.Messages("dead")); n != 0 {
					t.Errorf("%d messages of a deleted queue became dead letters", n)
				}
			})
		})
	}
}

// A message never goes to a consumer while another of a higher priority has room.
func TestPriorityIsNeverPassedOver(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := membus.New()
		s, err := b.Open(context.Background(), bus.SessionSpec{
			Topology: bus.Topology{Mode: bus.Declare, Queues: []bus.Queue{{Name: "q", Kind: bus.Quorum}}},
		})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = s.Close(context.Background()) }()
		type delivery struct {
			consumer int
			tag      bus.Tag
		}
		got := make(chan delivery, 1000)
		consumers := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) bus.Subscription {
			return bus.Subscription{Queue: "q", Priority: rapid.IntRange(-1, 1).Draw(t, "priority"),
				Prefetch: rapid.IntRange(1, 3).Draw(t, "prefetch")}
		}), 1, 5).Draw(t, "consumers")
		for i, sub := range consumers {
			sub.Handle = func(d bus.Delivery) { got <- delivery{i, d.Tag} }
			if err := s.Subscribe(context.Background(), sub); err != nil {
				t.Fatal(err)
			}
		}
		room := make([]int, len(consumers))
		for i, sub := range consumers {
			room[i] = sub.Prefetch
		}
		var held []delivery
		for _, publishes := range rapid.SliceOf(rapid.Bool()).Draw(t, "publish or acknowledge") {
			if !publishes {
				if len(held) > 0 {
					s.Ack(held[0].tag)
					room[held[0].consumer]++
					held = held[1:]
					for b.Unacked("q") > len(held) { // until it has arrived
						runtime.Gosched()
					}
				}
				continue
			}
			free := 0
			for _, n := range room {
				free += n
			}
			if free == 0 {
				continue // it would wait, and then there is no choice
			}
			if err := s.Publish(bus.Publication{Key: "q"}); err != nil {
				t.Fatal(err)
			}
			d := <-got
			for i, sub := range consumers {
				if sub.Priority > consumers[d.consumer].Priority && room[i] > 0 {
					t.Fatalf("consumer %d of priority %d got a message, %d of priority %d had room for %d",
						d.consumer, consumers[d.consumer].Priority, i, sub.Priority, room[i])
				}
			}
			room[d.consumer]--
			held = append(held, d)
		}
	})
}
