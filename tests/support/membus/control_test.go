package membus_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"taskbus/coordinator/bus"
	"taskbus/tests/support/membus"
)

// outcomes collects what OnSettled is told, in order.
type outcomes []bus.Outcome

func (o *outcomes) settle(_ uint64, outcome bus.Outcome) { *o = append(*o, outcome) }

func open(t *testing.T, b *membus.Broker, queues ...bus.Queue) (bus.Session, *outcomes) {
	t.Helper()
	var settled outcomes
	s, err := b.Open(context.Background(), bus.SessionSpec{
		Name: "test", OnSettled: settled.settle,
		Topology: bus.Topology{Mode: bus.Declare, Queues: queues},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close(context.Background()) })
	return s, &settled
}

func publish(t *testing.T, s bus.Session, ps ...bus.Publication) {
	t.Helper()
	for _, p := range ps {
		if err := s.Publish(p); err != nil {
			t.Fatal(err)
		}
	}
}

// has waits until so many messages are in a queue: the broker takes its own time.
func has(t *testing.T, b *membus.Broker, queue string, n int) []bus.Delivery {
	t.Helper()
	for end := time.Now().Add(15 * time.Second); len(b.Messages(queue)) != n; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d messages in %s, want %d", len(b.Messages(queue)), queue, n)
		}
	}
	return b.Messages(queue)
}

func bodies(ds []bus.Delivery) []string {
	var all []string
	for _, d := range ds {
		all = append(all, string(d.Body))
	}
	return all
}

func quorum(name, deadLetter string) bus.Queue {
	return bus.Queue{Name: name, Kind: bus.Quorum, DeliveryLimit: 5, DeadLetter: deadLetter}
}

func body(queue, text string) bus.Publication { return bus.Publication{Key: queue, Body: []byte(text)} }

// Each publication's body is its reply; what is stored and what is settled
// follow from it.
func TestSetConfirm(t *testing.T) {
	replies := map[string]membus.Reply{
		"answer": membus.Answer, "nack": membus.Nack, "return": membus.Return,
		"withhold": membus.Withhold, "lose": membus.Lose,
	}
	for _, test := range []struct {
		name    string
		publish []string
		stored  []string
		before  outcomes // settled at once
		after   outcomes // settled after ReleaseConfirms
		closed  outcomes // settled after Cut
	}{
		{
			name: "nack and return", publish: []string{"nack", "answer", "return"}, stored: []string{"answer"},
			before: outcomes{bus.Rejected, bus.Confirmed, bus.Unroutable},
			after:  outcomes{bus.Rejected, bus.Confirmed, bus.Unroutable},
			closed: outcomes{bus.Rejected, bus.Confirmed, bus.Unroutable},
		},
		{
			name: "withheld holds up those behind it", publish: []string{"answer", "withhold", "nack"},
			stored: []string{"answer", "withhold"},
			before: outcomes{bus.Confirmed},
			after:  outcomes{bus.Confirmed, bus.Confirmed, bus.Rejected},
			closed: outcomes{bus.Confirmed, bus.Confirmed, bus.Rejected},
		},
		{
			name: "lost is unknown when the session ends", publish: []string{"answer", "lose", "answer"},
			stored: []string{"answer", "answer"},
			before: outcomes{bus.Confirmed},
			after:  outcomes{bus.Confirmed},
			// The third was answered before the end, only not yet told.
			closed: outcomes{bus.Confirmed, bus.Unknown, bus.Confirmed},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := membus.New()
				s, settled := open(t, b, quorum("q", ""))
				b.SetConfirm(func(p bus.Publication) membus.Reply { return replies[string(p.Body)] })
				for _, reply := range test.publish {
					publish(t, s, body("q", reply))
				}
				step := func(when string, want outcomes) {
					t.Helper()
					synctest.Wait()
					if !slices.Equal(*settled, want) {
						t.Errorf("%s: settled %v, want %v", when, *settled, want)
					}
				}
				step("at once", test.before)
				if got := bodies(b.Messages("q")); !slices.Equal(got, test.stored) {
					t.Errorf("stored %v, want %v", got, test.stored)
				}
				b.ReleaseConfirms()
				step("after ReleaseConfirms", test.after)
				b.Cut()
				<-s.Done()
				step("after Cut", test.closed)
			})
		})
	}
}

// A journal whose confirms are late holds up no dispatch, nor the other way round.
func TestWithheldHoldsUpItsOwnOrderAlone(t *testing.T) {
	for _, test := range []struct {
		withheld string
		want     []uint64 // settled at once
	}{
		{"apart", []uint64{1, 2, 3, 4}},
		{"mandatory", []uint64{3, 4, 5, 6}},
		{"optional", []uint64{1, 2, 5, 6}},
	} {
		t.Run(test.withheld, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := membus.New()
				var settled []uint64
				s, err := b.Open(context.Background(), bus.SessionSpec{
					OnSettled: func(token uint64, _ bus.Outcome) { settled = append(settled, token) },
					Topology:  bus.Topology{Mode: bus.Declare, Queues: []bus.Queue{quorum("q", "")}},
				})
				if err != nil {
					t.Fatal(err)
				}
				b.SetConfirm(func(p bus.Publication) membus.Reply {
					if string(p.Body) == test.withheld {
						return membus.Withhold
					}
					return membus.Answer
				})
				for token, kind := range []string{1: "mandatory", 3: "optional", 5: "apart"} {
					if kind == "" {
						continue
					}
					p := body("q", kind)
					p.Optional, p.Apart = kind == "optional", kind == "apart"
					for i := range 2 { // the second waits behind the first, or does not
						p.Token = uint64(token + i)
						publish(t, s, p)
						p.Body = nil
					}
				}
				synctest.Wait()
				slices.Sort(settled)
				if !slices.Equal(settled, test.want) {
					t.Errorf("settled %v, want %v", settled, test.want)
				}
				b.ReleaseConfirms()
				synctest.Wait()
				if len(settled) != 6 {
					t.Errorf("settled %v in the end, want all 6", settled)
				}
				if err := s.Close(context.Background()); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// What retention and a broker's own numbers do to the offsets of a stream.
func TestOffsetsWithGapsAndABeginningThatIsGone(t *testing.T) {
	b := membus.New()
	s, _ := open(t, b, bus.Queue{Name: "s", Kind: bus.Stream})
	store := func(from, to int) {
		for i := from; i < to; i++ {
			publish(t, s, body("s", fmt.Sprint(i)))
		}
	}
	store(0, 3) // at 0, 1, 2
	has(t, b, "s", 3)
	b.SkipOffsets("s", 10)
	store(3, 6) // at 3+10 = 13, 14, 15
	has(t, b, "s", 6)
	b.Trim("s", 2)
	for _, test := range []struct {
		from bus.Position
		want []int64
	}{
		{bus.First(), []int64{2, 13, 14, 15}},
		{bus.At(0), []int64{2, 13, 14, 15}},
		{bus.At(2), []int64{2, 13, 14, 15}},
		{bus.At(3), []int64{13, 14, 15}},
		{bus.At(14), []int64{14, 15}},
		{bus.Last(), []int64{15}},
		{bus.Ago(time.Hour), []int64{2, 13, 14, 15}},
		{bus.At(16), nil},
		{bus.Position{}, nil},
	} {
		var got []int64
		r, _ := open(t, b)
		arrived := make(chan int64, 10)
		err := r.Subscribe(context.Background(), bus.Subscription{
			Queue: "s", Prefetch: 10, From: test.from, Handle: func(d bus.Delivery) { arrived <- d.Offset },
		})
		if err != nil {
			t.Fatal(err)
		}
		for range b.Unacked("s") {
			got = append(got, <-arrived)
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("from %+v: offsets %v, want %v", test.from, got, test.want)
		}
		if err := r.Close(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	b.Trim("s", 1000)
	if left := b.Messages("s"); len(left) != 0 {
		t.Errorf("%d messages are left", len(left))
	}
	store(6, 7)
	if left := has(t, b, "s", 1); left[0].Offset != 16 {
		t.Errorf("%+v after everything was forgotten, want one message at 16", left)
	}
}

func TestWithheldIsUnknownAfterCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := membus.New()
		s, settled := open(t, b, quorum("q", ""))
		b.SetConfirm(func(bus.Publication) membus.Reply { return membus.Withhold })
		publish(t, s, body("q", "x"))
		synctest.Wait()
		b.Cut()
		<-s.Done()
		b.ReleaseConfirms() // too late
		if want := (outcomes{bus.Unknown}); !slices.Equal(*settled, want) {
			t.Errorf("settled %v, want %v", *settled, want)
		}
		if got := b.Messages("q"); len(got) != 1 {
			t.Errorf("%d messages stored, want the one whose confirm was lost", len(got))
		}
	})
}

func TestAlarmKeepsPublicationsOutOfTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := membus.New()
		lost, lostSettled := open(t, b, quorum("q", ""))
		kept, keptSettled := open(t, b)
		b.Block(true)
		publish(t, lost, body("q", "lost"))
		publish(t, kept, body("q", "kept"))
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := lost.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Close during an alarm gives %v, want the deadline", err)
		}
		b.Block(false)
		synctest.Wait()
		if want := (outcomes{bus.Unknown}); !slices.Equal(*lostSettled, want) {
			t.Errorf("session closed in the alarm settled %v, want %v", *lostSettled, want)
		}
		if want := (outcomes{bus.Confirmed}); !slices.Equal(*keptSettled, want) {
			t.Errorf("other session settled %v, want %v", *keptSettled, want)
		}
		if got, want := bodies(b.Messages("q")), []string{"kept"}; !slices.Equal(got, want) {
			t.Errorf("stored %v, want %v", got, want)
		}
	})
}

func TestSetOpenError(t *testing.T) {
	b := membus.New()
	b.SetOpenError(bus.ErrAccess)
	if _, err := b.Open(context.Background(), bus.SessionSpec{}); !errors.Is(err, bus.ErrAccess) {
		t.Errorf("Open gives %v, want ErrAccess", err)
	}
	b.SetOpenError(nil)
	open(t, b)
}

func TestUnackedAndMessages(t *testing.T) {
	b := membus.New()
	s, _ := open(t, b, quorum("q", ""))
	publish(t, s, body("q", "held"), body("q", "ready"))
	got := make(chan bus.Delivery, 2)
	if err := s.Subscribe(context.Background(),
		bus.Subscription{Queue: "q", Prefetch: 1, Handle: func(d bus.Delivery) { got <- d }}); err != nil {
		t.Fatal(err)
	}
	<-got
	if n, ready := b.Unacked("q"), bodies(has(t, b, "q", 1)); n != 1 || !slices.Equal(ready, []string{"ready"}) {
		t.Errorf("%d unacknowledged and %v ready, want 1 and [ready]", n, ready)
	}
	if b.Messages("missing") != nil {
		t.Error("a missing queue has messages")
	}
}

// between opens a session with a queue q and a message in it, and has f called at the step.
func between(t *testing.T, b *membus.Broker, step string, f func()) (bus.Session, *outcomes) {
	t.Helper()
	b.SetBetween(func(at string) {
		if at == step {
			b.SetBetween(nil)
			f()
		}
	})
	return open(t, b, quorum("q", ""))
}

// A queue is deleted between finding it for a message and storing that there.
func TestQueueGoesWhileAMessageComes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := membus.New()
		sent := make(chan struct{})
		s, settled := between(t, b, "store q", func() {
			<-sent // else the session may have ended before the second is published
			b.DeleteQueue("q")
		})
		publish(t, s, body("q", "x"), body("q", "y"))
		close(sent)
		<-s.Done()
		if want := (outcomes{bus.Unknown, bus.Unknown}); s.Err() == nil || !slices.Equal(*settled, want) {
			t.Errorf("ended with %v, settled %v; want a cause and %v", s.Err(), *settled, want)
		}
	})
}

// Acknowledgements on their way are lost with the connection, and none at a Close.
func TestAcksOnTheirWay(t *testing.T) {
	for name, left := range map[string]int{"cut": 2, "close": 0} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := membus.New()
				var s bus.Session
				acked := make(chan struct{})
				s, _ = between(t, b, "ack", func() {
					<-acked // else the second may come to a session that closes
					if name == "cut" {
						b.Cut()
					} else {
						go func() { _ = s.Close(context.Background()) }()
						time.Sleep(time.Second)
					}
				})
				publish(t, s, body("q", "a"), body("q", "b"))
				var tags []bus.Tag
				err := s.Subscribe(context.Background(),
					bus.Subscription{Queue: "q", Prefetch: 2, Handle: func(d bus.Delivery) { tags = append(tags, d.Tag) }})
				if err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				for _, tag := range tags {
					s.Ack(tag)
				}
				close(acked)
				<-s.Done()
				time.Sleep(time.Minute) // until what was held is back, and the one in between goes on
				if got := b.Messages("q"); len(got) != left {
					t.Errorf("%d are ready again, want %d", len(got), left)
				}
			})
		})
	}
}

// A dead letter is ready in neither queue while it is on its way, and lost with the queue it comes from.
func TestDeadLetterOnItsWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := membus.New()
		open(t, b, quorum("dead", ""))
		on, goOn := make(chan struct{}), make(chan struct{})
		b.SetBetween(func(step string) {
			if step == "dead-letter q" {
				close(on)
				<-goOn
			}
		})
		q := quorum("q", "dead")
		q.TTL = time.Second
		s, _ := open(t, b, q)
		publish(t, s, body("q", "x"))
		<-on
		if n := len(b.Messages("q")) + len(b.Messages("dead")); n != 0 {
			t.Errorf("%d are ready, want none", n)
		}
		close(goOn)
		synctest.Wait()
		if n := len(b.Messages("dead")); n != 1 {
			t.Errorf("%d dead letters, want 1", n)
		}
	})
}
