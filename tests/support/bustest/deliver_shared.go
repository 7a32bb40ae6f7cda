package bustest

import (
	"fmt"
	"sync"

	"taskbus/coordinator/bus"
)

// Several consumers of a queue, and consumers that come and go.

func sharedQueue(r *rig) {
	const n = 8
	c := r.open(declare(quorum("q")))
	a, b := c.read("q", n/2), c.read("q", n/2)
	for i := range n {
		c.store("q", fmt.Sprint(i))
	}
	// Nothing is acknowledged, so each consumer gets exactly its prefetch.
	got := append(a.take(n/2), b.take(n/2)...)
	tags := map[bus.Tag]bool{}
	for _, d := range got {
		tags[d.Tag] = true
		c.Ack(d.Tag)
	}
	if len(tags) != n {
		r.t.Errorf("%d different tags for %d deliveries of two consumers", len(tags), n)
	}
	c.close()
	next := r.open(declare())
	next.waitDepth("q", bus.Depth{})
}

// Consumers begun at the same time by one session are as good as those begun one after the other: each has
// its own queue's messages, and what it was given is acknowledged on it.
func subscribedAtOnce(r *rig) {
	const n = 12
	var queues []bus.Queue
	for i := range n {
		queues = append(queues, quorum(fmt.Sprint("q", i)))
	}
	c := r.open(declare(queues...))
	got := make([]inbox, n)
	var begun sync.WaitGroup
	for i, q := range queues {
		c.store(q.Name, q.Name)
		in := inbox{t: r.t, got: make(chan bus.Delivery, 1)}
		got[i] = in
		begun.Go(func() {
			if err := c.Subscribe(r.ctx(),
				bus.Subscription{Queue: q.Name, Prefetch: 1, Handle: func(d bus.Delivery) { in.got <- d }}); err != nil {
				r.t.Errorf("subscribe to %s: %v", q.Name, err)
			}
		})
	}
	begun.Wait()
	numbers := map[int]bool{}
	for i, q := range queues {
		d := got[i].take(1)[0]
		if string(d.Body) != q.Name {
			r.t.Errorf("the consumer of %s was given %q", q.Name, d.Body)
		}
		numbers[d.Tag.Consumer] = true
		c.Ack(d.Tag)
	}
	if len(numbers) != n {
		r.t.Errorf("%d numbers for %d consumers", len(numbers), n)
	}
	for _, q := range queues {
		if ended, err := c.Unsubscribe(r.ctx(), q.Name); !ended || err != nil {
			r.t.Errorf("unsubscribe %s: %v, %v", q.Name, ended, err)
		}
		c.waitDepth(q.Name, bus.Depth{})
	}
}

// Only classic queues know exclusive consumers on every version of RabbitMQ.
func exclusiveConsumer(r *rig) {
	queue := bus.Queue{Name: "q", Kind: bus.Classic}
	first, second := r.open(declare(queue)), r.open(declare(queue))
	ignore := func(bus.Delivery) {}
	first.subscribe(bus.Subscription{Queue: "q", Prefetch: 1, Exclusive: true, Handle: ignore})
	if err := second.Subscribe(r.ctx(), bus.Subscription{Queue: "q", Prefetch: 1, Handle: ignore}); err == nil {
		r.t.Error("a second consumer was let in beside an exclusive one")
	}
}

// Two of the highest priority share what they have room for: 2 messages each.
func consumerPriority(r *rig) {
	c := r.open(declare(quorum("q"), stream("s")))
	reader := func(priority, prefetch int) inbox {
		in := inbox{t: r.t, got: make(chan bus.Delivery, 1<<12)}
		r.open(declare()).subscribe(bus.Subscription{
			Queue: "q", Prefetch: prefetch, Priority: priority, Handle: func(d bus.Delivery) { in.got <- d },
		})
		return in
	}
	low, plain := reader(-3, 10), reader(0, 1)
	high := []inbox{reader(7, 2), reader(7, 2)}
	c.waitDepth("q", bus.Depth{Consumers: 4})
	for range 4 {
		c.store("q", "high")
	}
	for _, in := range high {
		in.bodies("high", "high")
	}
	c.store("q", "plain")
	plain.bodies("plain")
	c.store("q", "low")
	low.bodies("low")

	own := inbox{t: r.t, got: make(chan bus.Delivery, 1<<12)}
	c.subscribe(bus.Subscription{Queue: "q", Prefetch: 1, Priority: 9, Handle: func(d bus.Delivery) { own.got <- d }})
	c.store("q", "own")
	held := own.bodies("own")[0]
	c.store("q", "low")
	low.bodies("low")
	c.Ack(held.Tag) // gives it room again, a moment later
	eventually(r.t, "the highest priority to be served again", func() bool {
		c.store("q", "x")
		return len(own.got) > 0
	})

	// A stream knows no priority.
	in := inbox{t: r.t, got: make(chan bus.Delivery, 1<<12)}
	c.store("s", "past")
	c.subscribe(bus.Subscription{Queue: "s", Prefetch: 1, Priority: 5, From: bus.First(),
		Handle: func(d bus.Delivery) { in.got <- d }})
	in.bodies("past")
	c.subscribe(bus.Subscription{Queue: "s", Prefetch: 10, Priority: 5, Handle: func(bus.Delivery) {}})
	c.store("s", "next")
}

func depthCounts(r *rig) {
	c := r.open(declare(quorum("q")))
	c.waitDepth("q", bus.Depth{})
	for range 3 {
		c.store("q", "x")
	}
	c.waitDepth("q", bus.Depth{Ready: 3})
	in := c.read("q", 2)
	got := in.take(2)
	c.waitDepth("q", bus.Depth{Ready: 1, Consumers: 1})
	c.Ack(got[0].Tag)
	c.Ack(got[1].Tag)
	in.next()
	c.waitDepth("q", bus.Depth{Ready: 0, Consumers: 1})
}

func depthOfMissing(r *rig) {
	c := r.open(declare(quorum("q")))
	for range 2 {
		wantNoQueue(r, c, "missing")
	}
	c.store("q", "the session goes on")
	c.waitDepth("q", bus.Depth{Ready: 1})
}

func unsubscribe(r *rig) {
	c := r.open(declare(quorum("q")))
	end := func(want bool) {
		r.t.Helper()
		if ended, err := c.Unsubscribe(r.ctx(), "q"); err != nil || ended != want {
			r.t.Fatalf("Unsubscribe: %v, %v; want %v", ended, err, want)
		}
	}
	first := c.read("q", 1)
	second := c.read("q", 1)
	c.waitDepth("q", bus.Depth{Ready: 0, Consumers: 2})
	end(true)
	c.waitDepth("q", bus.Depth{Ready: 0, Consumers: 1})
	for i := range 3 {
		c.store("q", fmt.Sprint(i))
	}
	held := first.bodies("0")[0]
	if n := len(second.got); n != 0 {
		r.t.Fatalf("the consumer that was unsubscribed got %d messages", n)
	}
	end(true)
	c.Ack(held.Tag) // still counts
	c.waitDepth("q", bus.Depth{Ready: 2, Consumers: 0})
	end(false) // no consumer is left
	in := c.read("q", 10)
	in.bodies("1", "2") // and not 0: it was acknowledged
}

// Each consumer is stopped while it holds a delivery and more may be on their
// way to it. All they were given is settled late, by when some have left.
func comeAndGo(r *rig) {
	const consumers, each = 20, 10
	c := r.open(declare(quorum("q")))
	in := inbox{t: r.t, got: make(chan bus.Delivery, consumers*each)}
	sub := bus.Subscription{Queue: "q", Prefetch: each, Handle: func(d bus.Delivery) { in.got <- d }}
	handled := map[string]int{}
	var held []bus.Delivery
	settle := func(d bus.Delivery) {
		handled[string(d.Body)]++
		c.Ack(d.Tag)
	}
	for i := range consumers {
		for j := range each {
			c.store("q", fmt.Sprint(i*each+j))
		}
		c.subscribe(sub)
		held = append(held, in.next())
		if ended, err := c.Unsubscribe(r.ctx(), "q"); err != nil || !ended {
			r.t.Fatalf("Unsubscribe: %v, %v; want true", ended, err)
		}
		if i >= consumers/2 {
			settle(held[0])
			held = held[1:]
		}
	}
	for _, d := range held {
		settle(d)
	}
	c.subscribe(sub)
	for range consumers*each - consumers { // one of each is settled by now
		settle(in.next())
	}
	c.waitDepth("q", bus.Depth{Consumers: 1})
	c.close() // what was not acknowledged would be there again
	r.open(declare()).waitDepth("q", bus.Depth{})
	if len(handled) != consumers*each {
		r.t.Errorf("%d different messages were handled, want %d × %d = %d", len(handled), consumers, each, consumers*each)
	}
	if extra := len(in.got); extra != 0 {
		r.t.Errorf("%d deliveries too many", extra)
	}
}
