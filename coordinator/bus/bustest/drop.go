package bustest

import (
	"taskbus/coordinator/bus"
)

// madeReadAndDropped: what is held of a queue stays held when its consumer ends, and the
// queue stays while anything is ready in it or anybody consumes it.
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

// dropNeedsDeclare: who may not declare queues does not delete any.
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
