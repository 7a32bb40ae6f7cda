package amqpbus

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func deliverTo(t *ackTracker, n int) {
	for tag := range n {
		t.deliver(uint64(tag) + 1)
	}
}

func TestAckTrackerOrders(t *testing.T) {
	start := time.Unix(1000, 0)
	for _, test := range []struct {
		name      string
		delivered int
		ack       []uint64
		reject    []uint64
		requeue   []uint64
		after     time.Duration // of a first look at start
		want      orders
		again     time.Duration
	}{
		{name: "nothing settled", delivered: 3},
		{name: "a prefix goes out as one", delivered: 5, ack: []uint64{2, 1, 3}, want: orders{upTo: 3}},
		{name: "behind a held one: not yet", delivered: 3, ack: []uint64{2, 3},
			after: ackStuck - time.Millisecond, again: time.Millisecond},
		{name: "behind a held one: singly after 50 ms", delivered: 4, ack: []uint64{2, 4},
			after: ackStuck, want: orders{single: []uint64{2, 4}}},
		{name: "a rejected tag must not stand for a prefix", delivered: 3, ack: []uint64{1}, reject: []uint64{2},
			want: orders{reject: []uint64{2}, upTo: 1}},
		{name: "a rejection alone", delivered: 2, reject: []uint64{1}, want: orders{reject: []uint64{1}}},
		{name: "requeued, and not rejected", delivered: 3, ack: []uint64{1}, reject: []uint64{2}, requeue: []uint64{3, 2},
			want: orders{reject: []uint64{2}, requeue: []uint64{3}, upTo: 1}},
		{name: "twice, never delivered, and zero are ignored", delivered: 2, ack: []uint64{1, 1, 7, 0},
			want: orders{upTo: 1}},
		{name: "acknowledged after it was rejected", delivered: 1, reject: []uint64{1}, ack: []uint64{1},
			want: orders{reject: []uint64{1}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			tracker := newAckTracker(ackBatch)
			deliverTo(tracker, test.delivered)
			for _, tag := range test.reject {
				tracker.reject(tag)
			}
			for _, tag := range test.requeue {
				tracker.requeue(tag)
			}
			for _, tag := range test.ack {
				tracker.ack(tag)
			}
			var got orders
			again := tracker.take(start, false, &got)
			if test.after > 0 {
				again = tracker.take(start.Add(test.after), false, &got)
			}
			if !slices.Equal(got.reject, test.want.reject) || !slices.Equal(got.requeue, test.want.requeue) ||
				!slices.Equal(got.single, test.want.single) ||
				got.upTo != test.want.upTo || again != test.again {
				t.Errorf("orders %+v again %v; want %+v again %v", got, again, test.want, test.again)
			}
		})
	}
}

// While one delivery is held nothing may go out as a prefix; when it is settled
// prefixes are used again.
func TestAckTrackerStray(t *testing.T) {
	tracker := newAckTracker(ackBatch)
	now := time.Unix(1000, 0)
	var out orders
	step := func(what string, want orders) {
		t.Helper()
		tracker.take(now, false, &out)
		if !slices.Equal(out.single, want.single) || out.upTo != want.upTo {
			t.Errorf("%s: %+v, want %+v", what, out, want)
		}
	}
	deliverTo(tracker, 4)
	tracker.ack(2)
	step("2 waits for 1", orders{})
	now = now.Add(ackStuck)
	step("2 goes alone, 1 is a stray", orders{single: []uint64{2}})
	tracker.ack(3)
	step("3 would take 1 along in a prefix", orders{single: []uint64{3}})
	tracker.ack(1)
	tracker.ack(4)
	step("the stray is settled", orders{single: []uint64{1}, upTo: 4})
}

func TestAckTrackerWakesForABatchOnce(t *testing.T) {
	tracker := newAckTracker(ackBatch)
	deliverTo(tracker, 200)
	var got []string
	for tag := uint64(1); tag <= 130; tag++ {
		if w := tracker.ack(tag); w != wakeNot {
			got = append(got, fmt.Sprintf("%d:%d", tag, w))
		}
	}
	// The first asks for a flush within 5 ms, the 64th for one at once; the
	// others need not ask again.
	if want := []string{"1:1", "64:2"}; !slices.Equal(got, want) {
		t.Errorf("woken at %v, want %v", got, want)
	}
}

// broker is a naive model of what RabbitMQ does with acknowledgements.
type modelBroker struct {
	held     map[uint64]bool // delivered and unsettled there
	acked    map[uint64]bool
	rejected map[uint64]bool
	requeued map[uint64]bool
}

func (m *modelBroker) apply(t *rapid.T, out *orders, settled map[uint64]bool) {
	drop := func(tag uint64, to map[uint64]bool) {
		if !m.held[tag] {
			t.Fatalf("tag %d is unknown to the broker: it closes the channel", tag)
		}
		delete(m.held, tag)
		to[tag] = true
	}
	for _, tag := range out.reject {
		drop(tag, m.rejected)
	}
	for _, tag := range out.requeue {
		drop(tag, m.requeued)
	}
	for _, tag := range out.single {
		drop(tag, m.acked)
	}
	if out.upTo == 0 {
		return
	}
	if !m.held[out.upTo] {
		t.Fatalf("tag %d is unknown to the broker: it closes the channel", out.upTo)
	}
	for tag := range m.held {
		if tag > out.upTo {
			continue
		}
		if !settled[tag] {
			t.Fatalf("acknowledging up to %d loses %d, which is still at work", out.upTo, tag)
		}
		drop(tag, m.acked)
	}
}

func TestAckTrackerNeverLosesOrForgets(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tracker := newAckTracker(ackBatch)
		model := &modelBroker{held: map[uint64]bool{}, acked: map[uint64]bool{}, rejected: map[uint64]bool{},
			requeued: map[uint64]bool{}}
		wantAcked, wantRejected, wantRequeued := map[uint64]bool{}, map[uint64]bool{}, map[uint64]bool{}
		var open []uint64 // delivered, not settled
		var next uint64
		var out orders
		now := time.Unix(1000, 0)
		settle := func(to map[uint64]bool, do func(uint64) wakeup) {
			if len(open) == 0 {
				return
			}
			// Mostly the oldest, as in life; sometimes any.
			i := max(0, rapid.IntRange(-4*len(open), len(open)-1).Draw(t, "which"))
			tag := open[i]
			open = slices.Delete(open, i, i+1)
			to[tag] = true
			do(tag)
			do(tag) // a second time does nothing
		}
		t.Repeat(map[string]func(*rapid.T){
			"": func(t *rapid.T) {
				if idle := tracker.idle(); idle != (len(model.held) == 0) {
					t.Fatalf("idle is %v while the broker holds %d", idle, len(model.held))
				}
			},
			"deliver": func(t *rapid.T) {
				for range rapid.IntRange(1, 300).Draw(t, "n") {
					next++
					tracker.deliver(next)
					model.held[next] = true
					open = append(open, next)
				}
			},
			"ack": func(*rapid.T) { settle(wantAcked, tracker.ack) },
			"acks": func(*rapid.T) {
				for range 50 {
					settle(wantAcked, tracker.ack)
				}
			},
			"reject":  func(*rapid.T) { settle(wantRejected, tracker.reject) },
			"requeue": func(*rapid.T) { settle(wantRequeued, tracker.requeue) },
			"flush": func(t *rapid.T) {
				now = now.Add(time.Duration(rapid.IntRange(0, 60).Draw(t, "ms")) * time.Millisecond)
				tracker.take(now, false, &out)
				model.apply(t, &out, wantAcked)
			},
		})
		tracker.take(now, true, &out)
		model.apply(t, &out, wantAcked)
		if len(model.acked) != len(wantAcked) || len(model.rejected) != len(wantRejected) ||
			len(model.requeued) != len(wantRequeued) || len(model.held) != len(open) {
			t.Fatalf("broker: %d acked, %d rejected, %d requeued, %d held; want %d, %d, %d, %d",
				len(model.acked), len(model.rejected), len(model.requeued), len(model.held),
				len(wantAcked), len(wantRejected), len(wantRequeued), len(open))
		}
	})
}
