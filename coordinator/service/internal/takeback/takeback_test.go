package takeback

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/bus"
	"taskbus/messages"
)

// broker keeps, or refuses, what is subscribed to, and keeps what is given back.
type broker struct {
	refusal  error
	last     bus.Subscription
	requeued []bus.Tag
}

func (b *broker) Subscribe(_ context.Context, sub bus.Subscription) error {
	b.last = sub
	return b.refusal
}

func (b *broker) Unsubscribe(context.Context, string) (bool, error) { return true, nil }
func (b *broker) Requeue(tag bus.Tag)                               { b.requeued = append(b.requeued, tag) }
func (b *broker) Done() <-chan struct{}                             { return nil }

// lines keeps of which queues it was said that they hold what is not ours.
type lines struct{ foreign []string }

func (l *lines) TakeBack(coordinator.AgentID, string, error) {}
func (l *lines) Foreign(_ coordinator.AgentID, queue string) { l.foreign = append(l.foreign, queue) }

// rig has consumers on a broker of the test; what they say is kept.
type rig struct {
	*Consumers
	broker
	lines
	now    time.Time
	listed bool
	holds  map[int]bool
	posted []coordinator.Event
	taken  []bus.Delivery
}

func newRig() *rig {
	r := &rig{listed: true, holds: make(map[int]bool), now: time.Unix(1000, 0)}
	r.Consumers = New(Options{
		Bus: &r.broker, Now: func() time.Time { return r.now }, Log: &r.lines, Prefetch: Prefetch,
		Listed:  func(string) bool { return r.listed },
		Handle:  func(d bus.Delivery) { r.taken = append(r.taken, d) },
		Holding: func(string) map[int]bool { return r.holds },
		Post:    func(evs ...coordinator.Event) { r.posted = append(r.posted, evs...) },
		Fault:   func(error) {},
	})
	return r
}

// carriesOut does what is ordered for the queue.
func (r *rig) carriesOut(queue string) {
	list := r.list(queue)
	for o, ok := list.Take(); ok; o, ok = list.Take() {
		r.carryOut(o)
	}
}

// The engine hears of every taking back that did not begin, or that the broker has
// ended; not of one that it has ended itself.
func TestTakeBackEnded(t *testing.T) {
	for name, c := range map[string]struct {
		refusal error
		after   func(r *rig, ended func(error))
		want    bool
	}{
		"refused":             {bus.ErrNoQueue, func(*rig, func(error)) {}, true},
		"the session is over": {bus.ErrClosed, func(*rig, func(error)) {}, false},
		"goes on":             {nil, func(*rig, func(error)) {}, false},
		"ended by the broker": {nil, func(_ *rig, ended func(error)) { ended(bus.ErrNoQueue) }, true},
		"ended by both": {nil, func(r *rig, ended func(error)) {
			r.turn("a1", "q", true)
			r.turn("a1", "q", false)
			ended(bus.ErrNoQueue)
		}, false},
		"ended and begun anew": {nil, func(r *rig, ended func(error)) {
			ended(bus.ErrNoQueue)
			r.turn("a1", "q", false)
			r.turn("a1", "q", true)
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig()
			r.refusal = c.refusal
			r.Begin("a1", "q")
			r.carriesOut("q")
			if sub := r.last; sub.Queue != "q" || sub.Prefetch != 100 || sub.Priority <= 0 || sub.OnEnded == nil {
				t.Errorf("subscribed to %+v; want to come before the agent's own consumer, and to be dispensable", sub)
			}
			c.after(r, r.last.OnEnded)
			r.carriesOut("q")
			if told := slices.Contains(r.posted, coordinator.Event(coordinator.TakeBackEnded{Agent: "a1"})); told != c.want ||
				len(r.posted) > 1 {
				t.Errorf("the engine hears %v, want TakeBackEnded: %v", r.posted, c.want)
			}
		})
	}
}

// A consumer is ours while it takes back, and after its end while it holds something: RabbitMQ counts it until its
// last message is settled. While the broker is asked to begin or end one it is not known, which an odd turn says.
func TestOwnConsumersAreCounted(t *testing.T) {
	for name, c := range map[string]struct {
		before func(*rig)
		holds  []int
		count  int
		known  bool
	}{
		"none": {func(*rig) {}, nil, 0, true},
		"one":  {func(r *rig) { r.turn("a1", "q", false); r.turn("a1", "q", true) }, nil, 1, true},
		"one, and it holds some": {func(r *rig) {
			r.turn("a1", "q", false)
			r.turn("a1", "q", true)
			r.came("q", 3)
		}, []int{3}, 1, true},
		"it has ended and holds some": {func(r *rig) {
			for _, on := range []bool{false, true, true, false} {
				r.turn("a1", "q", on)
			}
		}, []int{3}, 1, true},
		"one is to come": {func(r *rig) { r.turn("a1", "q", false) }, nil, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig()
			for _, n := range c.holds {
				r.holds[n] = true
			}
			c.before(r)
			if got, turn := r.Count("q"), r.Turn("q"); (turn%2 == 0) != c.known || c.known && got != c.count {
				t.Errorf("%d of ours in turn %d, want %d", got, turn, c.count)
			}
		})
	}
}

// What is no dispatch in a queue that agents.yaml does not list goes back when our consumer has ended, is told of
// once, and keeps us away from the queue, twice as long each time.
func TestForeignMessages(t *testing.T) {
	r := newRig()
	r.listed = false
	dispatch := bus.Delivery{Queue: "q", Properties: bus.Properties{Headers: map[string]any{messages.HeaderTask: "{}"}}}
	tag := func(n uint64) bus.Tag { return bus.Tag{Delivery: n} }
	for i, pause := range []time.Duration{foreignPause, 2 * foreignPause, 4 * foreignPause} {
		r.Begin("a1", "q")
		r.carriesOut("q")
		r.last.Handle(dispatch)
		for n := range uint64(2) {
			r.last.Handle(bus.Delivery{Queue: "q", Tag: tag(n)})
		}
		if len(r.taken) != i+1 || len(r.requeued) != 0 {
			t.Fatalf("%d: %d taken, %v given back while the consumer is there", i, len(r.taken), r.requeued)
		}
		r.carriesOut("q")
		r.last.Handle(bus.Delivery{Queue: "q", Tag: tag(2)}) // was on its way
		if fmt.Sprint(r.requeued) != fmt.Sprint([]bus.Tag{tag(0), tag(1), tag(2)}) {
			t.Errorf("%d: given back %v", i, r.requeued)
		}
		ended := len(r.posted)
		r.now = r.now.Add(pause - time.Second)
		r.Begin("a1", "q")
		r.carriesOut("q")
		if r.state("q").on || len(r.posted) != ended+1 {
			t.Errorf("%d: the queue is not left alone, or the engine does not hear of it: %v", i, r.posted)
		}
		r.now, r.requeued = r.now.Add(time.Second), nil
	}
	if len(r.foreign) != 1 {
		t.Errorf("told of %v, want once", r.foreign)
	}
}

// After LeaveAll nothing is taken, and no consumer begins.
func TestLeaveAll(t *testing.T) {
	r := newRig()
	r.Begin("a1", "q")
	r.carriesOut("q")
	r.LeaveAll()
	r.last.Handle(bus.Delivery{Queue: "q"})
	r.carriesOut("q")
	r.Begin("a1", "q")
	r.carriesOut("q")
	if q := r.state("q"); q.on || q.turn != 4 || len(r.taken) != 0 {
		t.Errorf("consumed: %v, turn %d; taken %v", q.on, q.turn, r.taken)
	}
}
