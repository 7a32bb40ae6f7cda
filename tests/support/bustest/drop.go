package bustest

import (
	"context"
	"errors"
	"sync"

	"taskbus/coordinator/bus"
)

// madeReadAndDropped: what is held of a queue stays held when its consumer ends, and the
// queue stays while anything is ready in it or it has a consumer.
func madeReadAndDropped(r *rig) {
	c := r.open(declare(quorum("other")))
	if ok, err := c.EnsureQueue(r.ctx(), quorum("q")); !ok || err != nil {
		r.t.Fatalf("EnsureQueue = %v, %v; want true, nil", ok, err)
	}
	c.store("q", "a")
	c.store("q", "b")
	wantDropped(c, "q", false) // two are ready
	w := c.readEnding("q", 2)
	held := w.bodies("a", "b")
	wantDropped(c, "q", false) // it has a consumer
	if ok, err := c.Unsubscribe(deadline(r.t), "q"); !ok || err != nil {
		r.t.Fatalf("Unsubscribe = %v, %v; want true, nil", ok, err)
	}
	again := c.readEnding("q", 2)
	c.Ack(held[0].Tag)
	c.Ack(held[1].Tag)
	c.store("q", "c")
	c.Ack(again.bodies("c")[0].Tag)
	if ok, err := c.Unsubscribe(deadline(r.t), "q"); !ok || err != nil {
		r.t.Fatalf("Unsubscribe = %v, %v; want true, nil", ok, err)
	}
	c.waitDepth("q", bus.Depth{})
	wantDropped(c, "q", true)
	wantDropped(c, "q", true) // there is none
	wantNoQueue(r, c, "q")
	if c.Matches("q") {
		r.t.Error("a queue that was dropped matches")
	}
	if n := len(w.ended) + len(again.ended); n != 0 {
		r.t.Errorf("OnEnded was called %d times, want none: nobody's consumer was ended", n)
	}
	wantAlive(c, "other", c.read("other", 1))
}

// dropNeedsDeclare: a user that may not declare queues deletes none.
func dropNeedsDeclare(r *rig) {
	r.open(declare(quorum("q"))).close()
	c := r.open(bus.Topology{Mode: bus.Verify, Queues: []bus.Queue{quorum("q")}})
	wantDropped(c, "q", false)
	if _, err := c.Depth(deadline(r.t), "q"); err != nil {
		r.t.Errorf("the queue is gone: %v", err)
	}
}

func wantDropped(c *client, queue string, want bool) {
	c.t.Helper()
	if gone, err := c.DropQueue(deadline(c.t), queue); gone != want || err != nil {
		c.t.Fatalf("DropQueue = %v, %v; want %v, nil", gone, err, want)
	}
}

// holdsGivesBack: Holds asks the queue; what is in it stays there, as new as before, but for other sessions.
func holdsGivesBack(r *rig) {
	c := r.open(declare(quorum("q")))
	holds := func(want bool) {
		r.t.Helper()
		if some, err := c.Holds(deadline(r.t), "q"); some != want || err != nil {
			r.t.Fatalf("Holds = %v, %v; want %v, nil", some, err, want)
		}
	}
	holds(false)
	next := func(c *client, body string, redelivered bool) *client {
		r.t.Helper()
		if d := c.read("q", 10).next(); string(d.Body) != body || d.Redelivered != redelivered {
			r.t.Errorf("%s, redelivered %v; want %s, %v", d.Body, d.Redelivered, body, redelivered)
		}
		return c
	}
	c.store("q", "m1")
	holds(true)
	holds(true)
	next(c, "m1", false)
	holds(false) // it is handed out
	c.close()
	// What a consumer has had is redelivered, whatever gives it back meanwhile.
	c = r.open(declare(quorum("q")))
	holds(true)
	next(c, "m1", true).close()
	// To another session what was given back is redelivered.
	c = r.open(declare(quorum("p")))
	c.store("p", "m2")
	if some, err := c.Holds(deadline(r.t), "p"); !some || err != nil {
		r.t.Fatalf("Holds = %v, %v; want true, nil", some, err)
	}
	if d := r.open(declare(quorum("p"))).read("p", 10).next(); string(d.Body) != "m2" || !d.Redelivered {
		r.t.Errorf("%s, redelivered %v; want m2, true", d.Body, d.Redelivered)
	}
	if _, err := c.Holds(deadline(r.t), "nowhere"); !errors.Is(err, bus.ErrNoQueue) {
		r.t.Errorf("of a queue that does not exist: %v, want ErrNoQueue", err)
	}
}

// onDrop has f called, once, between the look at q and its deletion, by a session that it opens.
func (r *rig) onDrop(f func()) *client {
	var once sync.Once
	r.harness.Between(r.t, r.bus, func(step string) {
		if step == "drop q" {
			once.Do(f)
		}
	})
	return r.open(declare(quorum("q")))
}

// dropLooksFirst: it does not look and delete in one. A publisher meanwhile has the broker's
// word for a message that is nowhere.
func dropLooksFirst(r *rig) {
	other := r.open(declare())
	c := r.onDrop(func() {
		other.store("q", "lost") // confirmed
		other.waitDepth("q", bus.Depth{Ready: 1})
	})
	if gone, err := c.DropQueue(r.ctx(), "q"); !gone || !errors.Is(err, bus.ErrNotEmpty) {
		r.t.Errorf("DropQueue = %v, %v; want true, ErrNotEmpty", gone, err)
	}
	wantNoQueue(r, c, "q")
	if ok, err := c.EnsureQueue(r.ctx(), quorum("q")); !ok || err != nil {
		r.t.Fatalf("EnsureQueue = %v, %v; want true, nil", ok, err)
	}
	c.store("q", "next")
	c.read("q", 10).bodies("next")
	c.waitDepth("q", bus.Depth{Consumers: 1})
}

func dropEndsConsumer(r *rig) {
	other := r.open(declare())
	var w watched
	c := r.onDrop(func() {
		w = other.readEnding("q", 1)
		other.waitDepth("q", bus.Depth{Consumers: 1})
	})
	wantDropped(c, "q", true)
	w.waitEnded()
	wantNoQueue(r, c, "q")
}

// dropGivenUp: the deletion is not made, or comes before what the session asks for later.
func dropGivenUp(r *rig) {
	for range 20 {
		ctx, cancel := context.WithCancel(r.ctx())
		c := r.onDrop(func() { go cancel() })
		if _, err := c.DropQueue(ctx, "q"); err != nil && !errors.Is(err, context.Canceled) {
			r.t.Errorf("DropQueue gives %v, want context.Canceled", err)
		}
		if ok, err := c.EnsureQueue(r.ctx(), quorum("q")); !ok || err != nil {
			r.t.Fatalf("EnsureQueue = %v, %v; want true, nil", ok, err)
		}
		c.store("q", "x")
		in := c.read("q", 1)
		c.Ack(in.bodies("x")[0].Tag)
		c.close()
		r.deleteQueue("q")
	}
}

// dropBesidePublications: whatever meets what, every publication is settled, and what is not
// confirmed is nowhere.
func dropBesidePublications(r *rig) {
	for range 10 {
		c := r.open(declare(quorum("q")))
		var beside sync.WaitGroup
		var gone bool
		var dropErr error
		beside.Go(func() { gone, dropErr = c.DropQueue(r.ctx(), "q") })
		outcome := c.outcome(text("q", "x"))
		beside.Wait()
		r.t.Logf("the publication is %v; DropQueue = %v, %v", outcome, gone, dropErr)
		switch {
		case outcome == bus.Unknown:
			receive(r.t, "the session to end", c.Done())
			c = r.open(declare())
		case dropErr != nil && !errors.Is(dropErr, bus.ErrNotEmpty):
			r.t.Fatalf("DropQueue gives %v", dropErr)
		case outcome == bus.Confirmed && !gone:
			c.waitDepth("q", bus.Depth{Ready: 1})
		case outcome != bus.Confirmed && !gone:
			c.waitDepth("q", bus.Depth{})
		}
		if gone {
			wantNoQueue(r, c, "q")
		}
		if _, err := c.Depth(r.ctx(), "q"); err == nil {
			r.deleteQueue("q")
		}
	}
}
