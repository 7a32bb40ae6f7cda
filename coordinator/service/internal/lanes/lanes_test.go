package lanes

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"taskbus/coordinator"
	"taskbus/coordinator/bus"
)

// broker answers as the test says, and keeps what is asked of it.
type broker struct {
	refusal   error // of Subscribe
	missing   bool  // queues cannot be made
	depth     bus.Depth
	depthErr  error
	holds     bool
	holdsErr  error
	sub       bus.Subscription // the latest
	asked     []string
	unsettled error // of Unsubscribe
}

func (b *broker) Subscribe(_ context.Context, sub bus.Subscription) error {
	b.sub = sub
	b.asked = append(b.asked, "read "+sub.Queue)
	return b.refusal
}

func (b *broker) Unsubscribe(_ context.Context, queue string) (bool, error) {
	b.asked = append(b.asked, "leave "+queue)
	return true, b.unsettled
}

func (b *broker) EnsureQueue(_ context.Context, q bus.Queue) (bool, error) {
	b.asked = append(b.asked, "make "+q.Name)
	return !b.missing, nil
}

func (b *broker) DropQueue(_ context.Context, queue string) (bool, error) {
	b.asked = append(b.asked, "drop "+queue)
	return true, nil
}

func (b *broker) Depth(context.Context, string) (bus.Depth, error) { return b.depth, b.depthErr }
func (b *broker) Holds(context.Context, string) (bool, error)      { return b.holds, b.holdsErr }
func (b *broker) Done() <-chan struct{}                            { return nil }
func (b *broker) LaneMissing(lane string, _ error)                 { b.asked = append(b.asked, "missing "+lane) }
func (b *broker) LaneUnread(lane string, _ error)                  { b.asked = append(b.asked, "unread "+lane) }
func (b *broker) LaneDropped(lane string, _ error)                 { b.asked = append(b.asked, "dropped "+lane) }

// rig has queues on a broker of the test; what they say is kept.
type rig struct {
	*Queues
	broker
	posted []coordinator.Event
	moved  []coordinator.Handle
	faults []error
}

func newRig() *rig {
	r := &rig{}
	r.Queues = New(Options{
		Bus: &r.broker, Log: &r.broker, Prefetch: func(_ string, most int) int { return most },
		Handle: func(bus.Delivery) {},
		Move:   func(m *coordinator.MoveToLane) { r.moved = append(r.moved, m.Handle) },
		Post:   func(evs ...coordinator.Event) { r.posted = append(r.posted, evs...) },
		Fault:  func(err error) { r.faults = append(r.faults, err) },
	})
	return r
}

// does has effects carried out, and all that is ordered.
func (r *rig) does(effects ...coordinator.Effect) {
	for _, f := range effects {
		r.Perform(f)
	}
	for o, ok := r.orders.Take(); ok; o, ok = r.orders.Take() {
		r.carryOut(o)
	}
}

// The queue of a lane is made before the first task is moved there, once; and again after it was found missing, or was
// deleted. Where it cannot be made the task stays.
func TestLaneIsMadeForItsFirstTask(t *testing.T) {
	r := newRig()
	move := func(handle coordinator.Handle) { r.does(coordinator.MoveToLane{Handle: handle, Lane: "g"}) }
	move(1)
	move(2)
	r.Missing("g")
	move(3)
	r.does(coordinator.DropLane{Lane: "g"})
	move(4)
	r.Missing("g")
	r.missing = true
	move(5)
	const queue = "task.lane.g"
	want := []string{"make " + queue, "make " + queue, "drop " + queue, "dropped g", "make " + queue, "make " + queue,
		"missing g"}
	if !slices.Equal(r.asked, want) || fmt.Sprint(r.moved) != "[1 2 3 4]" {
		t.Errorf("asked for %q, moved %v", r.asked, r.moved)
	}
	events := []coordinator.Event{coordinator.LaneSeen{Lane: "g", Missing: true, Dropped: true},
		coordinator.LaneMoved{Handle: 5, Outcome: coordinator.PublishUnroutable}}
	if !slices.Equal(r.posted, events) {
		t.Errorf("the engine hears %+v", r.posted)
	}
}

// The engine hears that a lane is not read any more if it did not end that itself.
func TestReadingEnds(t *testing.T) {
	begin, end := coordinator.ReadLane{Lane: "g", Window: 5}, coordinator.ReadLane{Lane: "g"}
	for name, c := range map[string]struct {
		refusal error
		then    func(r *rig)
		want    bool
	}{
		"goes on":             {nil, func(*rig) {}, false},
		"refused":             {bus.ErrNoQueue, func(*rig) {}, true},
		"ended by the engine": {nil, func(r *rig) { r.does(end) }, false},
		"ended by the broker": {nil, func(r *rig) { r.sub.OnEnded(bus.ErrNoQueue); r.does() }, true},
		"ended by both": {nil, func(r *rig) {
			ended := r.sub.OnEnded
			r.does(end)
			ended(bus.ErrNoQueue)
			r.does()
		}, false},
		"ended, begun anew, and told late": {nil, func(r *rig) {
			ended := r.sub.OnEnded
			r.does(end, begin)
			ended(bus.ErrNoQueue)
			r.does()
		}, false},
		"asked for twice": {nil, func(r *rig) { r.does(begin) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig()
			r.refusal = c.refusal
			r.does(begin)
			if r.sub.Prefetch != 5 || r.sub.OnEnded == nil {
				t.Errorf("subscribed to %+v; want it to be dispensable", r.sub)
			}
			c.then(r)
			if told := slices.Contains(r.posted, coordinator.Event(coordinator.LaneEnded{Lane: "g"})); told != c.want {
				t.Errorf("the engine hears %v, want LaneEnded: %v", r.posted, c.want)
			}
		})
	}
}

// After LeaveAll no lane is read, and none begins to be.
func TestLeaveAll(t *testing.T) {
	r := newRig()
	r.does(coordinator.ReadLane{Lane: "g", Window: 5})
	r.LeaveAll()
	r.does(coordinator.ReadLane{Lane: "h", Window: 5})
	if want := []string{"read task.lane.g", "leave task.lane.g"}; !slices.Equal(r.asked, want) {
		t.Errorf("asked for %q, want %q", r.asked, want)
	}
	r = newRig()
	r.unsettled = errors.New("no")
	r.does(coordinator.ReadLane{Lane: "g", Window: 5}, coordinator.ReadLane{Lane: "g"})
	if len(r.faults) != 1 {
		t.Errorf("a reading that cannot be ended: %v", r.faults)
	}
}

// A lane of which the broker says that it is empty is asked itself: RabbitMQ also says so when it does not know.
func TestLooks(t *testing.T) {
	for name, c := range map[string]struct {
		b    broker
		want coordinator.Event // nil: nothing is known
		goes bool
	}{
		"some":        {broker{depth: bus.Depth{Ready: 3}}, coordinator.LaneSeen{Lane: "g", Ready: 3}, true},
		"empty":       {broker{}, coordinator.LaneSeen{Lane: "g"}, true},
		"said empty":  {broker{holds: true}, coordinator.LaneSeen{Lane: "g", Ready: 1}, true},
		"mute":        {broker{holdsErr: bus.ErrUnanswered}, nil, true},
		"missing":     {broker{depthErr: bus.ErrNoQueue}, coordinator.LaneSeen{Lane: "g", Missing: true}, true},
		"not known":   {broker{depthErr: context.DeadlineExceeded}, nil, true},
		"the end":     {broker{depthErr: bus.ErrClosed}, nil, false},
		"an end late": {broker{holdsErr: bus.ErrClosed}, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig()
			r.broker = c.b
			goes := r.look("g")
			if goes != c.goes || len(r.posted) > 1 || (c.want != nil) != (len(r.posted) == 1) || c.want != nil &&
				r.posted[0] != c.want {
				t.Errorf("the engine hears %+v, and it goes on: %v", r.posted, goes)
			}
		})
	}
}
