package bustest

import (
	"errors"
	"fmt"
	"math"
	"sync"

	"taskbus/coordinator/bus"
)

// stepCases are what happens between the steps of an operation, and directly before and
// behind them.
func stepCases() []testCase {
	return []testCase{
		{name: "an exchange that is gone ends the session of who publishes to it", run: exchangeGone},
		{name: "a lasting queue that goes beside publications", run: queueGoesBesidePublications},
		{name: "a temporary queue that goes beside publications harms nobody", run: temporaryGoesBesidePublications},
		{name: "a tag that is settled twice settles nothing else", run: settledTwice},
		{name: "a consumer that leaves counts until it holds nothing", run: leavingConsumerCounts},
		{name: "what several give back comes in the order of giving back", run: returnsInTheirOrder},
		{name: "a dead letter whose queue was missing holds up no other", run: deadLetterOvertakes},
		{name: "every return counts, handled or not", run: everyReturnCounts},
		{name: "what is requeued too often is a dead letter", run: requeuedTooOften},
		{name: "a queue of any kind ends its consumer as it goes", run: everyKindEndsItsConsumer},
		{name: "a queue goes with what is on its way to its dead-letter queue", run: goesWithDeadLetters},
		{name: "a lock is another's temporary queue", run: lockIsAQueue},
		{name: "another's temporary queue is in use for everything but publishing", run: temporaryInUse},
		{name: "further keys of a message are routed, too", run: furtherKeys},
		{name: "a prefetch that no broker has is refused", run: prefetchTooLarge},
		{name: "Requeue and Reject of a stream's delivery move its credit", run: streamSettled},
		{name: "a queue that goes between look and comparison comes back as described", run: goesBeforeComparison},
	}
}

func exchangeGone(r *rig) {
	c := r.open(bus.Topology{
		Mode: bus.Declare, Exchanges: []bus.Exchange{{Name: "x", Kind: bus.Topic}},
		Queues: []bus.Queue{quorum("q")},
	})
	c.store("q", "before")
	r.harness.DeleteExchange(r.t, r.bus, "x")
	if got := c.outcome(bus.Publication{Exchange: "x", Key: "k"}); got != bus.Unknown {
		r.t.Errorf("a publication to an exchange that is gone is %v, want unknown", got)
	}
	if err := c.waitEnd(); err == nil {
		r.t.Error("Err is nil, want what happened to the exchange")
	}
}

// storm publishes to a queue for as long as meanwhile takes, begun in the midst of it, and counts the
// outcomes once the session has ended.
func (r *rig) storm(queue string, topology bus.Topology, meanwhile func()) (outcomes map[bus.Outcome]int, cause error) {
	r.t.Helper()
	var mu sync.Mutex
	outcomes = map[bus.Outcome]int{}
	begun, told, accepted := make(chan struct{}), 0, 0
	s, err := r.bus.Open(r.ctx(), bus.SessionSpec{
		Name: "bustest", Topology: topology, Window: 64,
		OnSettled: func(_ uint64, outcome bus.Outcome) {
			mu.Lock()
			defer mu.Unlock()
			outcomes[outcome]++
			if told++; told == 50 {
				close(begun)
			}
		},
	})
	if err != nil {
		r.t.Fatalf("Open: %v", err)
	}
	over, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for ; ; accepted++ {
			select {
			case <-over:
				return
			default:
			}
			if s.Publish(text(queue, "x")) != nil {
				return
			}
		}
	}()
	receive(r.t, "the first publications", begun)
	meanwhile()
	close(over)
	closing := s.Close(r.ctx())
	receive(r.t, "Publish to return", stopped)
	receive(r.t, "Done", s.Done())
	mu.Lock()
	defer mu.Unlock()
	if told != accepted {
		r.t.Errorf("%d publications were accepted and %d settled", accepted, told)
	}
	return outcomes, errors.Join(s.Err(), closing)
}

// queueGoesBesidePublications: every publication is settled, and what is unknown is told as the end
// of the session. RabbitMQ 3.10 leaves what meets the deletion of a quorum queue or stream without
// an answer, as often as not.
func queueGoesBesidePublications(r *rig) {
	for _, q := range []bus.Queue{quorum("q"), {Name: "q", Kind: bus.Classic}, stream("q")} {
		outcomes, cause := r.storm("q", declare(q), func() { r.deleteQueue("q") })
		if (outcomes[bus.Unknown] > 0) != (cause != nil) || outcomes[bus.Rejected] > 0 {
			r.t.Errorf("%s: outcomes %v, and the session ended with %v", q.Kind, outcomes, cause)
		}
		if q.Kind == bus.Classic && cause != nil {
			r.t.Errorf("%s: the session ended with %v: such a queue answers to the end", q.Kind, cause)
		}
	}
}

func temporaryGoesBesidePublications(r *rig) {
	watch := r.open(declare())
	for range 5 {
		owner := r.open(declare(bus.Queue{Name: "mine", Temporary: true}))
		in := owner.read("mine", 10)
		outcomes, cause := r.storm("mine", declare(), func() {
			in.next()
			owner.close()
			waitUnroutable(watch, "mine")
		})
		if outcomes[bus.Unknown]+outcomes[bus.Rejected] > 0 || cause != nil {
			r.t.Errorf("outcomes %v, and the session ended with %v; want confirmed and unroutable alone", outcomes, cause)
		}
	}
}

// settledTwice: a fault of the caller, which may end the session; what was acknowledged may be there
// again then. Nothing else is settled.
func settledTwice(r *rig) {
	for _, again := range []func(bus.Session, bus.Tag){bus.Session.Ack, bus.Session.Reject, bus.Session.Requeue} {
		c := r.open(declare(quorum("q")))
		in := c.read("q", 2)
		c.store("q", "a")
		c.store("q", "b")
		held := in.bodies("a", "b")
		c.Ack(held[0].Tag)
		again(c, held[0].Tag)
		_ = c.Close(r.ctx())
		next := r.open(declare())
		left := next.read("q", 2)
		for d := left.next(); string(d.Body) != "b"; d = left.next() {
			if c.Err() == nil {
				r.t.Errorf("%q was acknowledged and is there again", d.Body)
			}
		}
		next.close()
		r.deleteQueue("q")
	}
}

// leavingConsumerCounts: a look, or a drop of the queue, sees it as a consumer. A classic queue and a
// stream forget it at once.
func leavingConsumerCounts(r *rig) {
	c := r.open(declare(quorum("quorum"), bus.Queue{Name: "classic", Kind: bus.Classic}, stream("stream")))
	for queue, consumers := range map[string]int{"quorum": 1, "classic": 0, "stream": 0} {
		c.store(queue, "x")
		d := c.readFrom(queue, 1, bus.First()).next()
		if ended, err := c.Unsubscribe(r.ctx(), queue); !ended || err != nil {
			r.t.Fatalf("%s: Unsubscribe: %v, %v; want true", queue, ended, err)
		}
		depth, err := c.Depth(r.ctx(), queue)
		if err != nil || depth.Consumers != consumers {
			r.t.Errorf("%s: Depth = %+v, %v; want %d consumers", queue, depth, err, consumers)
		}
		if queue == "quorum" {
			wantDropped(c, queue, false)
		}
		c.Ack(d.Tag)
		eventually(r.t, "the consumer to have left", func() bool {
			depth, err := c.Depth(r.ctx(), queue)
			return err == nil && depth.Consumers == 0
		})
	}
}

// returnsInTheirOrder: in front of what was never handed out; a classic queue puts each in its old place.
func returnsInTheirOrder(r *rig) {
	for _, test := range []struct {
		queue bus.Queue
		want  []string
	}{
		{quorum("quorum"), []string{"1", "0", "2", "3"}},
		{bus.Queue{Name: "classic", Kind: bus.Classic}, []string{"0", "1", "2", "3"}},
	} {
		queue := test.queue.Name
		c := r.open(declare(test.queue))
		c.counted(queue, 4)
		back := func(from *client, d bus.Delivery, ready int) {
			r.t.Helper()
			if ended, err := from.Unsubscribe(r.ctx(), queue); !ended || err != nil {
				r.t.Fatalf("Unsubscribe: %v, %v; want true", ended, err)
			}
			from.Requeue(d.Tag)
			eventually(r.t, "a message to be back", func() bool {
				depth, err := c.Depth(r.ctx(), queue)
				return err == nil && depth.Ready == ready
			})
		}
		a, b := r.open(declare()), r.open(declare())
		first, second := a.read(queue, 1).bodies("0")[0], b.read(queue, 1).bodies("1")[0]
		back(b, second, 3)
		back(a, first, 4)
		c.read(queue, 4).bodies(test.want...)
	}
}

// deadLetterOvertakes: one that has found no queue is tried again after three minutes (RabbitMQ),
// however soon the queue is there.
func deadLetterOvertakes(r *rig) {
	c := r.open(declare(withDead("q"))) // there is no queue "dead"
	in := c.read("q", 1)
	for _, body := range []string{"early", "late"} {
		c.store("q", body)
		c.Reject(in.bodies(body)[0].Tag)
		if _, err := c.EnsureQueue(r.ctx(), quorum("dead")); err != nil {
			r.t.Fatal(err)
		}
	}
	dead := c.read("dead", 2)
	if d := dead.next(); string(d.Body) == "early" { // it met the queue
		dead.bodies("late")
	}
}

func everyReturnCounts(r *rig) {
	c := r.open(declare(quorum("q"), bus.Queue{Name: "plain", Kind: bus.Classic}))
	for _, queue := range []string{"q", "plain"} {
		busy := r.open(declare())
		gate, entered := make(chan struct{}), make(chan struct{}, 1)
		busy.subscribe(bus.Subscription{Queue: queue, Prefetch: 2, Handle: func(bus.Delivery) {
			select {
			case entered <- struct{}{}:
			default:
			}
			<-gate
		}})
		c.store(queue, "handled")
		c.store(queue, "on its way")
		receive(r.t, "the first delivery", entered)
		c.waitDepth(queue, bus.Depth{Consumers: 1})
		close(gate)
		busy.close()
		in := r.open(declare()).read(queue, 2)
		for range 2 {
			d := in.next()
			want := int64(1)
			if queue == "plain" {
				want = 0
			}
			if !d.Redelivered || deliveryCount(d) != want {
				r.t.Errorf("%s: %q: redelivered %v, x-delivery-count %d; want true, %d", queue, d.Body, d.Redelivered,
					deliveryCount(d), want)
			}
		}
	}
}

func requeuedTooOften(r *rig) {
	const limit = 2
	q := withDead("q")
	q.DeliveryLimit = limit
	c := r.open(declare(quorum("dead"), q))
	in := c.read("q", 1)
	c.store("q", "poison")
	for i := range limit + 1 {
		d := in.bodies("poison")[0]
		if got := deliveryCount(d); got != int64(i) || d.Redelivered != (i > 0) {
			r.t.Errorf("delivery %d: x-delivery-count %d, redelivered %v; want %d, %v", i+1, got, d.Redelivered, i, i > 0)
		}
		c.Requeue(d.Tag)
	}
	d := c.read("dead", 1).bodies("poison")[0]
	checkDeath(r, d, "q", "delivery_limit")
	if d.Redelivered {
		r.t.Error("a dead letter is marked as redelivered")
	}
}

func everyKindEndsItsConsumer(r *rig) {
	c := r.open(declare(bus.Queue{Name: "classic", Kind: bus.Classic}, stream("stream"), quorum("quorum")))
	for _, queue := range []string{"classic", "stream", "quorum"} {
		w := c.readEnding(queue, 5)
		r.deleteQueue(queue)
		w.waitEnded()
		wantNoQueue(r, c, queue)
	}
}

func goesWithDeadLetters(r *rig) {
	c := r.open(declare(withDead("q"))) // there is no queue "dead"
	in := c.readEnding("q", 1)
	c.store("q", "x")
	c.Reject(in.bodies("x")[0].Tag)
	if ended, err := c.Unsubscribe(r.ctx(), "q"); !ended || err != nil {
		r.t.Fatalf("Unsubscribe: %v, %v; want true", ended, err)
	}
	c.waitDepth("q", bus.Depth{})
	wantDropped(c, "q", true) // and nothing tells that it was not empty
	if _, err := c.EnsureQueue(r.ctx(), quorum("dead")); err != nil {
		r.t.Fatal(err)
	}
	c.store("dead", "next")
	c.read("dead", 10).bodies("next")
}

func lockIsAQueue(r *rig) {
	c, other := r.open(declare()), r.open(declare())
	wantNoQueue(r, other, lockName)
	c.lead()
	if _, err := other.Depth(r.ctx(), lockName); !errors.Is(err, bus.ErrInUse) {
		r.t.Errorf("Depth gives %v, want ErrInUse", err)
	}
	other.store(lockName, "is somebody there?")
	c.close()
	waitUnroutable(other, lockName)

	lasting := r.open(declare(bus.Queue{Name: lockName, Kind: bus.Classic}))
	w := lasting.wait(r.ctx())
	r.deleteQueue(lockName)
	if err := receive(r.t, "the lock to be free", w.over); err != nil {
		r.t.Errorf("TakeLock: %v", err)
	}
}

func temporaryInUse(r *rig) {
	owner := r.open(declare(bus.Queue{Name: "mine", Temporary: true}))
	c := r.open(declare(quorum("other")))
	other := c.read("other", 1)
	if _, err := c.Depth(r.ctx(), "mine"); !errors.Is(err, bus.ErrInUse) {
		r.t.Errorf("Depth gives %v, want ErrInUse", err)
	}
	if gone, err := c.DropQueue(r.ctx(), "mine"); gone || !errors.Is(err, bus.ErrInUse) {
		r.t.Errorf("DropQueue = %v, %v; want false, ErrInUse", gone, err)
	}
	if ok, err := c.EnsureQueue(r.ctx(), quorum("mine")); !ok || err != nil {
		r.t.Errorf("EnsureQueue of a lasting queue = %v, %v; want true, nil", ok, err)
	}
	wantFinding(r, c, "mine")
	if c.Matches("mine") {
		r.t.Error("Matches is true for another's temporary queue")
	}
	c.store("mine", "x")
	owner.read("mine", 1).bodies("x")
	wantAlive(c, "other", other)
}

func furtherKeys(r *rig) {
	c := r.open(declare(quorum("q"), quorum("copy"), quorum("hidden"), quorum("dead"), withDead("letters")))
	p := text("q", "x")
	p.Headers = map[string]any{"CC": []any{"copy", "q", "nowhere"}, "BCC": []any{"hidden"}}
	c.storePub(p)
	for _, queue := range []string{"q", "copy", "hidden"} {
		d := c.read(queue, 2).bodies("x")[0]
		if d.Headers["BCC"] != nil || d.Headers["CC"] == nil || d.RoutingKey != "q" {
			r.t.Errorf("%s: headers %v, key %q; want CC alone, and q", queue, d.Headers, d.RoutingKey)
		}
		c.waitDepth(queue, bus.Depth{Consumers: 1})
	}
	p.Key, p.Headers = "nowhere", map[string]any{"BCC": []any{"hidden"}}
	c.storePub(p)

	// A dead letter goes where its queue sends it, and nowhere else.
	p.Key, p.Headers = "letters", map[string]any{"CC": []any{"nobody"}}
	c.storePub(p)
	c.Reject(c.read("letters", 1).next().Tag)
	if d := c.read("dead", 1).bodies("x")[0]; d.Headers["CC"] != nil {
		r.t.Errorf("a dead letter has further keys: %v", d.Headers["CC"])
	}
}

func prefetchTooLarge(r *rig) {
	c := r.open(declare(quorum("q")))
	err := c.Subscribe(r.ctx(), bus.Subscription{Queue: "q", Prefetch: math.MaxUint16 + 1, Handle: func(bus.Delivery) {}})
	if err == nil {
		r.t.Errorf("Subscribe took a prefetch of %d", math.MaxUint16+1)
	}
	wantAlive(c, "q", c.read("q", math.MaxUint16))
}

func streamSettled(r *rig) {
	const n = 12
	c := r.open(declare(stream("s")))
	c.counted("s", n)
	in := c.readFrom("s", 1, bus.First())
	for i := range n {
		d := in.bodies(fmt.Sprint(i))[0]
		if d.Redelivered || deliveryCount(d) != 0 {
			r.t.Errorf("message %d: redelivered %v, x-delivery-count %d; want false, 0", i, d.Redelivered, deliveryCount(d))
		}
		[]func(bus.Tag){c.Requeue, c.Reject, c.Ack}[i%3](d.Tag)
	}
	again := c.readFrom("s", n, bus.First())
	for i := range n {
		again.bodies(fmt.Sprint(i))
	}
}

func goesBeforeComparison(r *rig) {
	r.open(declare(quorum("q"))).store("q", "lost")
	var once sync.Once
	r.harness.Between(r.t, r.bus, func(step string) {
		if step == "compare q" {
			once.Do(func() { r.deleteQueue("q") })
		}
	})
	t := declare(quorum("q"))
	t.Mode = bus.Verify
	c := r.open(t)
	if !c.Matches("q") || len(c.Findings()) != 0 {
		r.t.Errorf("Matches %v, findings %v; want the queue as described", c.Matches("q"), c.Findings())
	}
	once.Do(func() { r.t.Error("there was no step between look and comparison") })
	c.waitDepth("q", bus.Depth{})
}
