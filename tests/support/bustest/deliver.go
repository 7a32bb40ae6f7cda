package bustest

import (
	"fmt"

	"taskbus/coordinator/bus"
)

func deliverCases() []testCase {
	return []testCase{
		{name: "prefetch bounds what is unacknowledged", run: prefetchBounds},
		{name: "a handler that blocks holds up its own consumer alone", run: blockedHandler},
		{name: "acknowledging out of order leaves the others", run: acksOutOfOrder},
		{name: "what was not acknowledged comes back after a cut", run: redeliveredAfterCut},
		{name: "what was not acknowledged comes back after Close", run: redeliveredAfterClose},
		{name: "an acknowledgement of a dead session is ignored and counted", run: staleAcks},
		{name: "what is requeued is ready again", run: requeued},
		{name: "what is requeued after Unsubscribe is for others", run: requeuedAfterUnsubscribe},
		{name: "consumers of one session share a queue", run: sharedQueue},
		{name: "consumers of several queues begin at the same time", run: subscribedAtOnce},
		{name: "an exclusive consumer is alone", run: exclusiveConsumer},
		{name: "the highest priority that has room gets the message", run: consumerPriority},
		{name: "Unsubscribe ends the newest consumer and no delivery", run: unsubscribe},
		{name: "consumers that come and go lose and repeat nothing", run: comeAndGo},
		{name: "Depth counts what is ready and who consumes", run: depthCounts},
		{name: "Depth of a missing queue is ErrNoQueue", run: depthOfMissing},
	}
}

func prefetchBounds(r *rig) {
	const prefetch, n = 3, 10
	c := r.open(declare(quorum("q")))
	for i := range n {
		c.store("q", fmt.Sprint(i))
	}
	in := c.read("q", prefetch)
	first := in.bodies("0", "1", "2")
	c.waitDepth("q", bus.Depth{Ready: n - prefetch, Consumers: 1}) // 10 − 3 = 7
	if extra := len(in.got); extra != 0 {
		r.t.Fatalf("%d deliveries beyond the prefetch of %d", extra, prefetch)
	}
	c.Ack(first[1].Tag)
	in.bodies("3")
	c.waitDepth("q", bus.Depth{Ready: n - prefetch - 1, Consumers: 1}) // 10 − 3 − 1 = 6
	if extra := len(in.got); extra != 0 {
		r.t.Fatalf("one acknowledgement gave %d deliveries too many", extra)
	}
}

func blockedHandler(r *rig) {
	c := r.open(declare(quorum("slow"), quorum("quick")))
	gate, entered := make(chan struct{}), make(chan struct{}, 1)
	defer close(gate) // before the session is closed
	c.subscribe(bus.Subscription{Queue: "slow", Prefetch: 2, Handle: func(bus.Delivery) {
		select {
		case entered <- struct{}{}:
		default:
		}
		<-gate
	}})
	for range 4 {
		c.store("slow", "x")
	}
	receive(r.t, "the slow consumer to block", entered)

	in := c.read("quick", 1)
	for i := range 50 { // acknowledgements and confirms flow as well
		c.store("quick", fmt.Sprint(i))
		d := in.bodies(fmt.Sprint(i))[0]
		c.Ack(d.Tag)
	}
}

func acksOutOfOrder(r *rig) {
	c := r.open(declare(quorum("q")))
	for i := range 6 {
		c.store("q", fmt.Sprint(i))
	}
	got := c.read("q", 10).bodies("0", "1", "2", "3", "4", "5")
	c.Ack(got[4].Tag)
	c.Ack(got[0].Tag)
	c.Ack(got[2].Tag)
	c.close()

	left := map[string]bool{}
	next := r.open(declare())
	in := next.read("q", 10)
	for _, d := range in.take(3) {
		left[string(d.Body)] = d.Redelivered
	}
	for _, body := range []string{"1", "3", "5"} {
		if !left[body] {
			r.t.Errorf("%q was not redelivered, only %v", body, left)
		}
	}
	next.waitDepth("q", bus.Depth{Ready: 0, Consumers: 1})
}

func redeliveredAfterCut(r *rig) {
	c := r.open(declare(quorum("q")))
	c.store("q", "held")
	if d := c.read("q", 1).next(); d.Redelivered || deliveryCount(d) != 0 {
		r.t.Errorf("first delivery: redelivered %v, x-delivery-count %d; want false and 0", d.Redelivered, deliveryCount(d))
	}
	r.cut()
	if err := c.waitEnd(); err == nil {
		r.t.Error("Err is nil after a cut, want its cause")
	}
	d := r.open(declare()).read("q", 1).bodies("held")[0]
	if !d.Redelivered || deliveryCount(d) != 1 {
		r.t.Errorf("second delivery: redelivered %v, x-delivery-count %d; want true and 1", d.Redelivered, deliveryCount(d))
	}
}

// deliveryCount is how often a quorum queue got the message back. The header may
// be missing as long as that is 0.
func deliveryCount(d bus.Delivery) int64 {
	switch count := d.Headers["x-delivery-count"].(type) {
	case nil:
		return 0
	case int64:
		return count
	default:
		return -1 // another type than package bus allows
	}
}

func redeliveredAfterClose(r *rig) {
	c := r.open(declare(quorum("q")))
	c.store("q", "acked")
	c.store("q", "held")
	c.store("q", "waiting")
	got := c.read("q", 2).bodies("acked", "held")
	c.Ack(got[0].Tag) // on its way when Close is called: must be flushed
	c.close()

	next := r.open(declare())
	in := next.read("q", 3)
	seen := map[string]bool{}
	for _, d := range in.take(2) {
		seen[string(d.Body)] = d.Redelivered
	}
	// "waiting" may have been handed out once "acked" made room for it.
	if held, ok := seen["held"]; !ok || !held {
		r.t.Errorf("got %v (body: redelivered), want \"held\" redelivered", seen)
	}
	if _, ok := seen["waiting"]; !ok {
		r.t.Errorf("got %v (body: redelivered), want \"waiting\" among them", seen)
	}
	next.waitDepth("q", bus.Depth{Ready: 0, Consumers: 1})
	if len(in.got) != 0 {
		r.t.Errorf("the acknowledged message came back: %q", in.next().Body)
	}
}

// The old tag has the same delivery number as the new one: only the session
// tells them apart.
func staleAcks(r *rig) {
	old := r.open(declare(quorum("q")))
	old.store("q", "held")
	tag := old.read("q", 1).next().Tag
	r.cut()
	_ = old.waitEnd()
	old.Ack(tag)
	old.Reject(tag)

	now := r.open(declare())
	now.read("q", 1).bodies("held")
	if got := now.StaleAcks(); got != 0 {
		r.t.Errorf("StaleAcks = %d before any, want 0", got)
	}
	now.Ack(tag)
	if got := now.StaleAcks(); got != 1 {
		r.t.Errorf("StaleAcks = %d after one, want 1", got)
	}
	now.Reject(tag)
	now.close() // flushes what should not have been acknowledged

	r.open(declare()).read("q", 1).bodies("held")
}

func requeued(r *rig) {
	c := r.open(declare(quorum("q")))
	c.store("q", "back")
	in := c.read("q", 1)
	first := in.bodies("back")[0]
	if first.Redelivered {
		r.t.Error("a first delivery is marked as redelivered")
	}
	c.Requeue(first.Tag)
	again := in.bodies("back")[0] // the only consumer has it again
	if !again.Redelivered {
		r.t.Error("what was requeued is not marked as redelivered")
	}
	c.Ack(again.Tag)
	c.waitDepth("q", bus.Depth{Ready: 0, Consumers: 1})
}

// Settlements of every kind, mixed: each goes where it belongs.
func requeuedAfterUnsubscribe(r *rig) {
	c := r.open(declare(quorum("q")))
	for _, body := range []string{"0", "1", "2"} {
		c.store("q", body)
	}
	held := c.read("q", 3).bodies("0", "1", "2")
	if ended, err := c.Unsubscribe(r.ctx(), "q"); !ended || err != nil {
		r.t.Fatalf("Unsubscribe: %v, %v", ended, err)
	}
	c.Requeue(held[0].Tag)
	c.Ack(held[1].Tag)
	c.Requeue(held[2].Tag)
	c.waitDepth("q", bus.Depth{Ready: 2, Consumers: 0})
	for _, d := range c.read("q", 3).bodies("0", "2") {
		if !d.Redelivered {
			r.t.Errorf("%s is not marked as redelivered", d.Body)
		}
	}
}
