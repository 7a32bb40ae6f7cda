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
	"taskbus/coordinator/bus/membus"
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
			name: "withheld holds up those behind it", publish: []string{"answer", "withhold", "nack"}, stored: []string{"answer", "withhold"},
			before: outcomes{bus.Confirmed},
			after:  outcomes{bus.Confirmed, bus.Confirmed, bus.Rejected},
			closed: outcomes{bus.Confirmed, bus.Confirmed, bus.Rejected},
		},
		{
			name: "lost is unknown when the session ends", publish: []string{"answer", "lose", "answer"}, stored: []string{"answer", "answer"},
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
	b.SkipOffsets("s", 10)
	store(3, 6) // at 3+10 = 13, 14, 15
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
	if left := b.Messages("s"); len(left) != 1 || left[0].Offset != 16 {
		t.Errorf("%+v after everything was forgotten, want one message at 16", left)
	}
}

func TestWithheldIsUnknownAfterCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := membus.New()
		s, settled := open(t, b, quorum("q", ""))
		b.SetConfirm(func(bus.Publication) membus.Reply { return membus.Withhold })
		publish(t, s, body("q", "x"))
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
	if err := s.Subscribe(context.Background(), bus.Subscription{Queue: "q", Prefetch: 1, Handle: func(d bus.Delivery) { got <- d }}); err != nil {
		t.Fatal(err)
	}
	<-got
	if n, ready := b.Unacked("q"), bodies(b.Messages("q")); n != 1 || !slices.Equal(ready, []string{"ready"}) {
		t.Errorf("%d unacknowledged and %v ready, want 1 and [ready]", n, ready)
	}
	if b.Messages("missing") != nil {
		t.Error("a missing queue has messages")
	}
}
