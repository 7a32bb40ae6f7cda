package bustest

import (
	"time"

	"taskbus/coordinator/bus"
)

func deadLetterCases() []testCase {
	return []testCase{
		{name: "what is rejected", run: deadLetterRejected},
		{name: "what is rejected without a dead-letter queue is dropped", run: rejectedDropped},
		{name: "what expires in its queue", run: deadLetterExpired},
		{name: "what outlives the TTL of its queue", run: deadLetterTTL},
		{name: "what expires while a consumer that is lost holds it", run: deadLetterExpiredHeld},
		{name: "what is delivered too often", run: deadLetterDeliveryLimit},
	}
}

// withDead is a queue whose dead letters go to the queue "dead".
func withDead(name string) bus.Queue {
	q := quorum(name)
	q.DeadLetter = "dead"
	return q
}

func deadLetterRejected(r *rig) {
	c := r.open(declare(quorum("dead"), withDead("q")))
	p := text("q", "refused")
	p.MessageID, p.CorrelationID, p.Type = "t1.1", "trace-1", "task.dispatch"
	p.Expiration = time.Hour
	p.Headers = map[string]any{"x-taskbus-task": "kept"}
	c.storePub(p)
	in := c.read("q", 1)
	c.Reject(in.next().Tag)

	d := c.read("dead", 1).bodies("refused")[0]
	checkDeath(r, d, "q", "rejected")
	if d.MessageID != p.MessageID || d.CorrelationID != p.CorrelationID || d.Type != p.Type ||
		d.Headers["x-taskbus-task"] != "kept" {
		r.t.Errorf("the dead letter lost properties: %+v", d.Properties)
	}
	if d.Expiration != 0 {
		r.t.Errorf("the dead letter expires in %v, want never: it would be lost on its way back", d.Expiration)
	}
	if d.Queue != "dead" {
		r.t.Errorf("delivered from queue %q, want dead", d.Queue)
	}
	c.waitDepth("q", bus.Depth{Ready: 0, Consumers: 1})
}

func rejectedDropped(r *rig) {
	c := r.open(declare(quorum("q")))
	c.store("q", "refused")
	in := c.read("q", 1)
	c.Reject(in.next().Tag)
	c.store("q", "next")
	in.bodies("next")
	c.close()
	next := r.open(declare())
	next.read("q", 2).bodies("next")
	next.waitDepth("q", bus.Depth{Ready: 0, Consumers: 1})
}

func deadLetterExpired(r *rig) {
	c := r.open(declare(quorum("dead"), withDead("q")))
	p := text("q", "late")
	p.Expiration = 30 * time.Millisecond
	c.storePub(p)
	p = text("q", "later")
	p.Expiration = time.Nanosecond // rounded up to 1 ms; the head of the queue holds it up
	c.storePub(p)
	for _, d := range c.read("dead", 10).bodies("late", "later") {
		checkDeath(r, d, "q", "expired")
	}
	c.waitDepth("q", bus.Depth{})
}

func deadLetterTTL(r *rig) {
	q := withDead("q")
	q.TTL = 50 * time.Millisecond
	c := r.open(declare(quorum("dead"), q))
	p := text("q", "late")
	p.Expiration = time.Hour // the shorter of the two holds
	c.storePub(p)
	checkDeath(r, c.read("dead", 1).bodies("late")[0], "q", "expired")
}

// A held message does not expire while it is held. Once its consumer is gone it
// is not delivered again: it counts as expired.
func deadLetterExpiredHeld(r *rig) {
	c := r.open(declare(quorum("dead"), withDead("q"), withDead("clock")))
	const expiration = 300 * time.Millisecond
	agent := r.open(declare())
	in := agent.read("q", 1)
	held := text("q", "held")
	held.Expiration = expiration
	c.storePub(held)
	in.bodies("held")

	// The same expiration on a message that is not taken tells when it is over.
	clock := text("clock", "tick")
	clock.Expiration = expiration
	c.storePub(clock)
	dead := c.read("dead", 10)
	dead.bodies("tick")

	agent.close()
	d := dead.bodies("held")[0]
	checkDeath(r, d, "q", "expired")
	if count := deliveryCount(d); count != 0 {
		r.t.Errorf("x-delivery-count of a dead letter is %d, want 0: it counts for each queue anew", count)
	}
}

// A delivery limit of n allows n returns: the message is delivered n + 1 times.
func deadLetterDeliveryLimit(r *rig) {
	const limit = 2
	q := withDead("q")
	q.DeliveryLimit = limit
	watch := r.open(declare(quorum("dead"), q))
	watch.store("q", "poison")
	for i := range limit + 1 {
		agent := r.open(declare())
		d := agent.read("q", 1).bodies("poison")[0]
		if got := deliveryCount(d); got != int64(i) {
			r.t.Errorf("delivery %d has x-delivery-count %d, want %d", i+1, got, i)
		}
		agent.close()
	}
	checkDeath(r, watch.read("dead", 1).bodies("poison")[0], "q", "delivery_limit")
}

func checkDeath(r *rig, d bus.Delivery, queue, reason string) {
	r.t.Helper()
	if d.Headers["x-first-death-reason"] != reason || d.Headers["x-first-death-queue"] != queue {
		r.t.Errorf("dead letter %q: x-first-death-reason %v, x-first-death-queue %v; want %s, %s",
			d.Body, d.Headers["x-first-death-reason"], d.Headers["x-first-death-queue"], reason, queue)
	}
}
