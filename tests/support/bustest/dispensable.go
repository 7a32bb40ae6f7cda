package bustest

import (
	"errors"
	"fmt"
	"testing"

	"taskbus/coordinator/bus"
)

// Subscriptions with OnEnded: their end is no matter of the session's.
func dispensableCases() []testCase {
	return []testCase{
		{name: "a queue deleted under its consumer ends that consumer alone", run: deletedEndsConsumer},
		{name: "OnEnded comes after the last Handle", run: endedAfterHandle},
		{name: "OnEnded may subscribe again", run: endedSubscribesAgain},
		{name: "OnEnded is not called after Unsubscribe", run: notEndedAfterUnsubscribe},
		{name: "OnEnded is not called at the end of the session", run: notEndedWithSession},
		{name: "consumers that are ended again and again harm nobody", run: endedAgainAndAgain},
		{name: "a missing queue is ErrNoQueue and harms nobody", run: dispensableMissing},
		{name: "a queue that is made on the way is read, left and dropped", run: madeReadAndDropped},
		{name: "Holds takes the first message and gives it back", run: holdsGivesBack},
		{name: "DropQueue deletes what is declared by others only where it may", run: dropNeedsDeclare},
		{name: "DropQueue loses what comes between its look and the deletion", run: dropLooksFirst},
		{name: "DropQueue ends a consumer that comes between its look and the deletion", run: dropEndsConsumer},
		{name: "DropQueue that is given up comes before what is asked for later", run: dropGivenUp},
		{name: "DropQueue beside publications", run: dropBesidePublications},
		{name: "a queue that another has for itself is ErrAccess and harms nobody", run: dispensableInUse},
	}
}

// watched is a consumer with OnEnded.
type watched struct {
	inbox
	ended chan error // what OnEnded was told
}

func watch(t *testing.T) watched {
	return watched{inbox{t: t, got: make(chan bus.Delivery, 1<<12)}, make(chan error, 16)}
}

func (w watched) subscription(queue string, prefetch int) bus.Subscription {
	return bus.Subscription{
		Queue: queue, Prefetch: prefetch,
		Handle:  func(d bus.Delivery) { w.got <- d },
		OnEnded: func(err error) { w.ended <- err },
	}
}

// readEnding starts a consumer that the session can do without.
func (c *client) readEnding(queue string, prefetch int) watched {
	c.t.Helper()
	w := watch(c.t)
	c.subscribe(w.subscription(queue, prefetch))
	return w
}

// waitEnded waits for OnEnded, which must give a reason.
func (w watched) waitEnded() {
	w.t.Helper()
	if err := receive(w.t, "OnEnded", w.ended); err == nil {
		w.t.Error("OnEnded was told no reason")
	}
}

// wantAlive does a bit of everything on a session.
func wantAlive(c *client, queue string, in inbox) {
	c.t.Helper()
	c.store(queue, "alive")
	c.Ack(in.bodies("alive")[0].Tag)
	if _, err := c.Depth(deadline(c.t), queue); err != nil {
		c.t.Errorf("Depth: %v", err)
	}
	select {
	case <-c.Done():
		c.t.Fatalf("the session has ended: %v", c.Err())
	default:
	}
}

func deletedEndsConsumer(r *rig) {
	c := r.open(declare(quorum("q"), quorum("other")))
	other := c.read("other", 1)
	w := c.readEnding("q", 3)
	for i := range 4 {
		c.store("q", fmt.Sprint(i))
	}
	old := w.bodies("0", "1", "2")
	c.Ack(old[0].Tag) // on its way when the queue goes
	r.deleteQueue("q")
	w.waitEnded()
	c.Ack(old[1].Tag)
	c.Reject(old[2].Tag)
	wantAlive(c, "other", other)
	wantNoQueue(r, c, "q")

	// The same queue again: the numbers of its deliveries are those of the old ones.
	if ok, err := c.EnsureQueue(r.ctx(), quorum("q")); !ok || err != nil {
		r.t.Fatalf("EnsureQueue = %v, %v; want true, nil", ok, err)
	}
	again := c.readEnding("q", 3)
	c.store("q", "new")
	again.bodies("new")
	for _, d := range old {
		c.Ack(d.Tag)
	}
	wantAlive(c, "other", other)
	if n := c.StaleAcks(); n != 0 {
		r.t.Errorf("StaleAcks = %d, want 0: the tags are this session's own", n)
	}
	c.close()
	if n := len(w.ended) + len(again.ended); n != 0 {
		r.t.Errorf("OnEnded was called %d times too often", n)
	}
	if d := r.open(declare()).read("q", 3).bodies("new")[0]; !d.Redelivered {
		r.t.Error("what the second consumer held is not marked as redelivered")
	}
}

// A handler that is busy holds up OnEnded, and nothing else.
func endedAfterHandle(r *rig) {
	c := r.open(declare(quorum("q"), quorum("other")))
	other := c.read("other", 1)
	entered, gate := make(chan struct{}, 16), make(chan struct{})
	ended := make(chan int, 1) // how often Handle had been called by then
	handled := 0
	c.subscribe(bus.Subscription{
		Queue: "q", Prefetch: 5,
		Handle: func(bus.Delivery) {
			handled++
			entered <- struct{}{}
			<-gate
		},
		OnEnded: func(error) { ended <- handled },
	})
	for range 5 {
		c.store("q", "x")
	}
	receive(r.t, "Handle", entered)
	r.deleteQueue("q")
	for range 3 {
		wantAlive(c, "other", other)
	}
	if len(ended) != 0 {
		r.t.Error("OnEnded was called while Handle was busy")
	}
	close(gate)
	calls := receive(r.t, "OnEnded", ended)
	wantAlive(c, "other", other)
	c.close()
	if handled != calls {
		r.t.Errorf("Handle was called %d times, %d of them before OnEnded", handled, calls)
	}
}

func endedSubscribesAgain(r *rig) {
	c := r.open(declare(quorum("q")))
	w := watch(r.t)
	again := make(chan error, 1)
	sub := w.subscription("q", 1)
	sub.OnEnded = func(error) {
		_, err := c.EnsureQueue(r.ctx(), quorum("q"))
		again <- errors.Join(err, c.Subscribe(r.ctx(), w.subscription("q", 1)))
	}
	c.subscribe(sub)
	r.deleteQueue("q")
	if err := receive(r.t, "OnEnded", again); err != nil {
		r.t.Fatalf("declared and consumed again from OnEnded: %v", err)
	}
	wantAlive(c, "q", w.inbox)
}

// Each of them is deleted before a queue whose consumer is to be told: once it is,
// the others would have been, too.
func notEndedAfterUnsubscribe(r *rig) {
	c := r.open(declare(quorum("idle"), quorum("holding"), quorum("last")))
	idle, holding, last := c.readEnding("idle", 1), c.readEnding("holding", 1), c.readEnding("last", 1)
	c.store("holding", "x")
	d := holding.next()
	for _, queue := range []string{"idle", "holding"} {
		if stopped, err := c.Unsubscribe(r.ctx(), queue); !stopped || err != nil {
			r.t.Fatalf("Unsubscribe = %v, %v; want true, nil", stopped, err)
		}
		r.deleteQueue(queue)
	}
	r.deleteQueue("last")
	last.waitEnded()
	c.Ack(d.Tag)
	if n := len(idle.ended) + len(holding.ended); n != 0 {
		r.t.Errorf("OnEnded was called %d times", n)
	}
	if stopped, err := c.Unsubscribe(r.ctx(), "last"); stopped || err != nil {
		r.t.Errorf("Unsubscribe of a consumer that has ended = %v, %v; want false, nil", stopped, err)
	}
}

func notEndedWithSession(r *rig) {
	closed, cut := r.open(declare(quorum("q"))), r.open(declare())
	a, b := closed.readEnding("q", 1), cut.readEnding("q", 1)
	closed.close()
	r.cut()
	if err := cut.waitEnd(); err == nil {
		r.t.Error("Err is nil after a cut, want its cause")
	}
	r.open(declare()).store("q", "x")
	if n := len(a.ended) + len(b.ended); n != 0 {
		r.t.Errorf("OnEnded was called %d times", n)
	}
}

func endedAgainAndAgain(r *rig) {
	c := r.open(declare(quorum("other")))
	other := c.read("other", 1)
	for i := range 20 {
		if _, err := c.EnsureQueue(r.ctx(), quorum("q")); err != nil {
			r.t.Fatal(err)
		}
		w := c.readEnding("q", 2)
		c.store("q", fmt.Sprint(i))
		d := w.bodies(fmt.Sprint(i))[0]
		r.deleteQueue("q")
		if i%2 == 0 {
			c.Ack(d.Tag)
		}
		w.waitEnded()
	}
	wantAlive(c, "other", other)
}

func dispensableMissing(r *rig) {
	c := r.open(declare(quorum("other")))
	other := c.read("other", 1)
	w := watch(r.t)
	for range 3 {
		if err := c.Subscribe(r.ctx(), w.subscription("missing", 1)); !errors.Is(err, bus.ErrNoQueue) {
			r.t.Errorf("Subscribe gives %v, want ErrNoQueue", err)
		}
		wantAlive(c, "other", other)
	}
	if stopped, err := c.Unsubscribe(r.ctx(), "missing"); stopped || err != nil {
		r.t.Errorf("Unsubscribe of what never began = %v, %v; want false, nil", stopped, err)
	}
	c.close()
	if len(w.ended) != 0 {
		r.t.Error("OnEnded was called for a consumer that never began")
	}
}

// Only classic queues know exclusive consumers on every version of RabbitMQ.
func dispensableInUse(r *rig) {
	plain := bus.Queue{Name: "plain", Kind: bus.Classic}
	holder := r.open(declare(plain, bus.Queue{Name: "temporary", Temporary: true}))
	holder.subscribe(bus.Subscription{Queue: "plain", Prefetch: 1, Exclusive: true, Handle: func(bus.Delivery) {}})
	c := r.open(declare(quorum("other")))
	other := c.read("other", 1)
	w := watch(r.t)
	for _, queue := range []string{"plain", "temporary"} {
		err := c.Subscribe(r.ctx(), w.subscription(queue, 1))
		if !errors.Is(err, bus.ErrAccess) || !errors.Is(err, bus.ErrInUse) {
			r.t.Errorf("%s: Subscribe gives %v, want ErrAccess and ErrInUse", queue, err)
		}
		wantAlive(c, "other", other)
		// Nothing stops a session whose access is in order.
		err = c.Subscribe(r.ctx(), bus.Subscription{Queue: queue, Prefetch: 1, Handle: func(bus.Delivery) {}})
		if errors.Is(err, bus.ErrAccess) || !errors.Is(err, bus.ErrInUse) {
			r.t.Errorf("%s: Subscribe without OnEnded gives %v, want ErrInUse alone", queue, err)
		}
	}
	if ended, err := holder.Unsubscribe(r.ctx(), "plain"); !ended || err != nil {
		r.t.Fatalf("Unsubscribe = %v, %v; want true, nil", ended, err)
	}
	c.subscribe(w.subscription("plain", 1))
	wantAlive(c, "plain", w.inbox)
}
