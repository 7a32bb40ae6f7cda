package bustest

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"taskbus/coordinator/bus"
)

// patience is how long a case waits for what must happen. It is generous: a
// loaded machine is not a broken transport.
const patience = 15 * time.Second

// rig is one case's broker and the means to use it.
type rig struct {
	t       *testing.T
	harness Harness
	bus     bus.Bus
}

func (r *rig) cut()                 { r.t.Helper(); r.harness.Cut(r.t, r.bus) }
func (r *rig) deleteQueue(q string) { r.t.Helper(); r.harness.DeleteQueue(r.t, r.bus, q) }
func (r *rig) block(on bool)        { r.t.Helper(); r.harness.Block(r.t, r.bus, on) }
func (r *rig) ctx() context.Context { return deadline(r.t) }
func (r *rig) open(t bus.Topology) *client {
	r.t.Helper()
	return r.openSpec(bus.SessionSpec{Topology: t})
}

// openSpec opens a session that is closed with the case. OnSettled is the
// client's own.
func (r *rig) openSpec(spec bus.SessionSpec) *client {
	r.t.Helper()
	c, err := r.tryOpen(r.ctx(), spec)
	if err != nil {
		r.t.Fatalf("Open: %v", err)
	}
	return c
}

func (r *rig) tryOpen(ctx context.Context, spec bus.SessionSpec) (*client, error) {
	c := &client{t: r.t, arrived: make(chan settlement, 1<<16)}
	spec.OnSettled = c.settle
	if spec.Name == "" {
		spec.Name = "bustest"
	}
	s, err := r.bus.Open(ctx, spec)
	if err != nil {
		return nil, err
	}
	c.Session = s
	r.t.Cleanup(c.closeAndAudit)
	return c, nil
}

// settlement is one call of OnSettled.
type settlement struct {
	token   uint64
	outcome bus.Outcome
}

// client is a session together with what was published and what was settled.
// When its case ends it checks that the two agree: every accepted publication
// settled exactly once, in order.
type client struct {
	bus.Session
	t         *testing.T
	published []uint64
	arrived   chan settlement

	mu     sync.Mutex
	record []settlement
}

func (c *client) settle(token uint64, outcome bus.Outcome) {
	c.mu.Lock()
	c.record = append(c.record, settlement{token, outcome})
	c.mu.Unlock()
	c.arrived <- settlement{token, outcome}
}

// settlements returns what OnSettled has been told so far.
func (c *client) settlements() []settlement {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]settlement(nil), c.record...)
}

// send publishes under a token of its own and returns it.
func (c *client) send(p bus.Publication) uint64 {
	c.t.Helper()
	// Tokens are the owner's choice: neither consecutive nor from zero.
	p.Token = 1_000 + 7*uint64(len(c.published))
	if err := c.Publish(p); err != nil {
		c.t.Fatalf("Publish: %v", err)
	}
	c.published = append(c.published, p.Token)
	return p.Token
}

// settled waits for the next call of OnSettled.
func (c *client) settled() settlement {
	c.t.Helper()
	return receive(c.t, "a publication to be settled", c.arrived)
}

// outcome publishes p and waits for what becomes of it. Nothing else may be
// unsettled.
func (c *client) outcome(p bus.Publication) bus.Outcome {
	c.t.Helper()
	token := c.send(p)
	s := c.settled()
	if s.token != token {
		c.t.Fatalf("OnSettled came for token %d, want %d", s.token, token)
	}
	return s.outcome
}

// store publishes to a queue through the default exchange and requires the
// broker's confirm.
func (c *client) store(queue, body string) {
	c.t.Helper()
	c.storePub(text(queue, body))
}

func (c *client) storePub(p bus.Publication) {
	c.t.Helper()
	if got := c.outcome(p); got != bus.Confirmed {
		c.t.Fatalf("publication to %q %q is %v, want confirmed", p.Exchange, p.Key, got)
	}
}

// read starts a consumer that keeps what it is given and acknowledges nothing.
func (c *client) read(queue string, prefetch int) inbox {
	c.t.Helper()
	return c.readFrom(queue, prefetch, bus.Position{})
}

func (c *client) readFrom(queue string, prefetch int, from bus.Position) inbox {
	c.t.Helper()
	in := inbox{t: c.t, got: make(chan bus.Delivery, 1<<12)}
	c.subscribe(bus.Subscription{
		Queue: queue, Prefetch: prefetch, From: from,
		Handle: func(d bus.Delivery) { in.got <- d },
	})
	return in
}

func (c *client) subscribe(sub bus.Subscription) {
	c.t.Helper()
	if err := c.Subscribe(deadline(c.t), sub); err != nil {
		c.t.Fatalf("Subscribe to %q: %v", sub.Queue, err)
	}
}

// waitDepth waits until the broker counts this much in a queue; its counters
// may lag behind by a moment.
func (c *client) waitDepth(queue string, want bus.Depth) {
	c.t.Helper()
	var got bus.Depth
	var err error
	defer func() {
		if c.t.Failed() {
			c.t.Logf("last Depth of %q: %+v, %v", queue, got, err)
		}
	}()
	eventually(c.t, fmt.Sprintf("depth of %q to be %+v", queue, want), func() bool {
		got, err = c.Depth(deadline(c.t), queue)
		return err == nil && got == want
	})
}

// waitEnd waits for the session's end and returns its cause.
func (c *client) waitEnd() error {
	c.t.Helper()
	receive(c.t, "the session to end", c.Done())
	return c.Err()
}

// close ends the session in good order.
func (c *client) close() {
	c.t.Helper()
	if err := c.Close(deadline(c.t)); err != nil {
		c.t.Fatalf("Close: %v", err)
	}
}

func (c *client) closeAndAudit() {
	if err := c.Close(deadline(c.t)); err != nil && !c.t.Failed() {
		c.t.Errorf("Close at the end of the case: %v", err)
	}
	receiveOr(c.t.Errorf, "Done after Close", c.Done())
	record := c.settlements()
	if len(record) != len(c.published) {
		c.t.Errorf("%d publications were accepted and %d settled", len(c.published), len(record))
		return
	}
	for i, s := range record {
		if s.token != c.published[i] {
			c.t.Errorf("settlement %d is for token %d, want %d", i, s.token, c.published[i])
			return
		}
	}
}

// inbox is what a consumer was given, in order.
type inbox struct {
	t   *testing.T
	got chan bus.Delivery
}

func (in inbox) next() bus.Delivery {
	in.t.Helper()
	return receive(in.t, "a delivery", in.got)
}

// take waits for n deliveries.
func (in inbox) take(n int) []bus.Delivery {
	in.t.Helper()
	ds := make([]bus.Delivery, n)
	for i := range ds {
		ds[i] = in.next()
	}
	return ds
}

// bodies waits for as many deliveries as there are wanted bodies and compares.
func (in inbox) bodies(want ...string) []bus.Delivery {
	in.t.Helper()
	ds := in.take(len(want))
	for i, d := range ds {
		if string(d.Body) != want[i] {
			in.t.Fatalf("delivery %d is %q, want %q", i, d.Body, want[i])
		}
	}
	return ds
}

func receive[T any](t *testing.T, what string, from <-chan T) T {
	t.Helper()
	return receiveOr(t.Fatalf, what, from)
}

func receiveOr[T any](fail func(string, ...any), what string, from <-chan T) T {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case v := <-from:
		return v
	case <-timer.C:
		fail("waited %v for %s", patience, what)
		var none T
		return none
	}
}

// eventually polls what the broker alone knows and cannot tell by an event.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(patience); !holds(); <-tick.C {
		if time.Now().After(end) {
			t.Fatalf("waited %v for %s", patience, what)
		}
	}
}

// deadline is a context that ends with the test or its patience.
func deadline(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

// declare is a topology of queues alone.
func declare(queues ...bus.Queue) bus.Topology {
	return bus.Topology{Mode: bus.Declare, Queues: queues}
}

func quorum(name string) bus.Queue {
	return bus.Queue{Name: name, Kind: bus.Quorum, DeliveryLimit: 100}
}

func stream(name string) bus.Queue {
	return bus.Queue{Name: name, Kind: bus.Stream, MaxAge: time.Hour, MaxBytes: 100_000_000, SegmentBytes: 10_000_000}
}

// text is a publication to a queue through the default exchange.
func text(queue, body string) bus.Publication {
	return bus.Publication{Key: queue, Body: []byte(body)}
}
