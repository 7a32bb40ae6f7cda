package dead

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"taskbus/coordinator/bus"
	"taskbus/coordinator/view"
	"taskbus/messages"
	"taskbus/schemas"
)

// queueOf is a session with a task.dead of so many tasks, t-0 and so on. What is given back is in requeued.
type queueOf struct {
	tasks  int
	answer func(bus.Publication) (bus.Outcome, bool) // false: none comes
	heldUp string

	sent            []string
	acked, requeued []bus.Tag
	done            chan struct{}
}

func (q *queueOf) Depth(context.Context, string) (bus.Depth, error) {
	return bus.Depth{Ready: q.tasks}, nil
}

func (q *queueOf) Subscribe(_ context.Context, s bus.Subscription) error {
	for i := range q.tasks {
		d := bus.Delivery{Tag: bus.Tag{Delivery: uint64(i)}, Queue: s.Queue}
		d.Body = fmt.Appendf(nil, `{"message_type":"task.assign","task_id":"t-%d","task_type":"build","payload":{}}`, i)
		d.Headers = map[string]any{messages.HeaderSourceQueue: bus.QueueAssign}
		s.Handle(d)
	}
	return nil
}

func (q *queueOf) Unsubscribe(context.Context, string) (bool, error) { return true, nil }
func (q *queueOf) Ack(t bus.Tag)                                     { q.acked = append(q.acked, t) }
func (q *queueOf) Requeue(t bus.Tag)                                 { q.requeued = append(q.requeued, t) }
func (q *queueOf) Done() <-chan struct{}                             { return q.done }
func (q *queueOf) HeldUp() string                                    { return q.heldUp }

func (q *queueOf) Send(p bus.Publication) (<-chan bus.Outcome, error) {
	q.sent = append(q.sent, p.Key)
	answer := make(chan bus.Outcome, 1)
	if outcome, comes := q.answer(p); comes {
		answer <- outcome
	}
	return answer, nil
}

func newQueue(t *testing.T) *Queue {
	t.Helper()
	set, err := schemas.Compile()
	if err != nil {
		t.Fatal(err)
	}
	return New(messages.NewDecoder(set, messages.Limits{MaxBytes: 1 << 20}))
}

// keysOf lists what is there.
func keysOf(t *testing.T, q *Queue, in Session) (keys []string) {
	t.Helper()
	l, err := q.List(t.Context(), in, view.DeadFilter{Limit: 100})
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range l.Messages {
		keys = append(keys, m.Key)
	}
	return keys
}

// A message leaves task.dead when the broker has confirmed its copy, and no other: not where the copy is refused, nor
// where no answer comes in time.
func TestOnlyWhatIsConfirmedLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t)
		in := &queueOf{tasks: 4, done: make(chan struct{})}
		keys := keysOf(t, q, in)
		if len(keys) != 4 || len(in.acked) != 0 || len(in.requeued) != 4 {
			t.Fatalf("%d listed, %d acknowledged, %d given back; want 4, none, 4", len(keys), len(in.acked), len(in.requeued))
		}
		in.requeued = nil
		in.answer = func(p bus.Publication) (bus.Outcome, bool) {
			switch {
			case strings.Contains(string(p.Body), "t-0"):
				return bus.Confirmed, true
			case strings.Contains(string(p.Body), "t-1"):
				return bus.Rejected, true
			}
			return 0, false // t-2; t-3 is not asked for
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		done, err := q.Resend(ctx, in, keys[:3])
		if err != nil || !slices.Equal(done.Done, keys[:1]) || len(done.Kept) != 2 ||
			!strings.Contains(done.Kept[0].Why, "did not take it") || !strings.Contains(done.Kept[1].Why, "may be a copy") {
			t.Errorf("%+v, %v", done, err)
		}
		if len(in.acked) != 1 || in.acked[0].Delivery != 0 || len(in.requeued) != 3 || len(in.sent) != 3 {
			t.Errorf("acknowledged %v, given back %v, sent to %v", in.acked, in.requeued, in.sent)
		}
	})
}

// While one request has the messages in hand another waits, and gives up with its context; nothing is asked of a broker
// that holds up publishers.
func TestOneRequestAtATime(t *testing.T) {
	q := newQueue(t)
	in := &queueOf{tasks: 1, done: make(chan struct{})}
	q.inHand <- struct{}{}
	ended, end := context.WithCancel(t.Context())
	end()
	if _, err := q.List(ended, in, view.DeadFilter{}); err == nil || !strings.Contains(err.Error(), "in hand") {
		t.Errorf("%v, want that another has them in hand", err)
	}
	<-q.inHand
	in.heldUp = "the broker holds up publishers"
	if _, err := q.Drop(t.Context(), in, nil); err == nil || !strings.Contains(err.Error(), in.heldUp) {
		t.Errorf("%v, want that the broker holds up publishers", err)
	}
	in.heldUp = ""
	if keys := keysOf(t, q, in); len(keys) != 1 {
		t.Errorf("afterwards %v", keys)
	}
}
