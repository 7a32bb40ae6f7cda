package bustest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"go.uber.org/goleak"

	"taskbus/coordinator/bus"
)

func lifecycleCases() []testCase {
	return []testCase{
		{name: "Close settles what was published", run: closeSettles},
		{name: "a session knows its broker's product", run: knowsBroker},
		{name: "a closed session does nothing more", run: closedDoesNothing},
		{name: "a cut settles everything before Done", run: cutSettles},
		{name: "a queue deleted under its consumer ends the session", run: deletedQueueEnds},
		{name: "Subscribe to a missing queue is an error", run: subscribeMissing},
		{name: "no goroutine is left behind", run: noLeak},
	}
}

func closeSettles(r *rig) {
	c := r.open(declare(quorum("q")))
	const n = 100
	for i := range n {
		c.send(text("q", fmt.Sprint(i)))
	}
	c.close()
	record := c.settlements()
	if len(record) != n {
		r.t.Fatalf("%d of %d publications were settled when Close returned", len(record), n)
	}
	for _, s := range record {
		if s.outcome != bus.Confirmed {
			r.t.Errorf("token %d is %v, want confirmed", s.token, s.outcome)
		}
	}
}

func knowsBroker(r *rig) {
	c := r.open(declare())
	open := c.Broker()
	c.close()
	if open.Product == "" || c.Broker() != open {
		r.t.Errorf("Broker = %+v while open, %+v after; want the same, with a product", open, c.Broker())
	}
}

func closedDoesNothing(r *rig) {
	c := r.open(declare(quorum("q")))
	c.store("q", "held")
	tag := c.read("q", 1).next().Tag
	c.close()
	receive(r.t, "Done", c.Done())
	if err := c.Err(); err != nil {
		r.t.Errorf("Err after Close is %v, want nil", err)
	}
	c.close() // a second time
	c.Ack(tag)
	c.Reject(tag)
	if err := c.Publish(text("q", "late")); !errors.Is(err, bus.ErrClosed) {
		r.t.Errorf("Publish gives %v, want ErrClosed", err)
	}
	sub := bus.Subscription{Queue: "q", Prefetch: 1, Handle: func(bus.Delivery) {}}
	if err := c.Subscribe(r.ctx(), sub); !errors.Is(err, bus.ErrClosed) {
		r.t.Errorf("Subscribe gives %v, want ErrClosed", err)
	}
	if _, err := c.EnsureQueue(r.ctx(), quorum("q")); !errors.Is(err, bus.ErrClosed) {
		r.t.Errorf("EnsureQueue gives %v, want ErrClosed", err)
	}
	if _, err := c.Depth(r.ctx(), "q"); !errors.Is(err, bus.ErrClosed) {
		r.t.Errorf("Depth gives %v, want ErrClosed", err)
	}
	r.open(declare()).read("q", 2).bodies("held")
}

// The publisher goes on until it is refused, so that the cut meets publications
// on their way. What was confirmed is in the queue whatever happened.
func cutSettles(r *rig) {
	var mu sync.Mutex
	var outcomes []bus.Outcome // by token, which counts from 0
	started := make(chan struct{})
	s, err := r.bus.Open(r.ctx(), bus.SessionSpec{
		Name: "bustest", Topology: declare(quorum("q")), Window: 256,
		OnSettled: func(token uint64, outcome bus.Outcome) {
			mu.Lock()
			defer mu.Unlock()
			if token != uint64(len(outcomes)) {
				r.t.Errorf("settlement %d is for token %d", len(outcomes), token)
			}
			if outcomes = append(outcomes, outcome); len(outcomes) == 50 {
				close(started)
			}
		},
	})
	if err != nil {
		r.t.Fatalf("Open: %v", err)
	}
	defer func() { _ = s.Close(r.ctx()) }()
	accepted, stopped := 0, make(chan error, 1)
	go func() {
		for {
			p := text("q", "x")
			p.Token = uint64(accepted)
			if err := s.Publish(p); err != nil {
				stopped <- err
				return
			}
			accepted++
		}
	}()
	receive(r.t, "the first publications to be settled", started)
	r.cut()
	receive(r.t, "Done", s.Done())
	if err := receive(r.t, "Publish to be refused", stopped); !errors.Is(err, bus.ErrClosed) {
		r.t.Errorf("Publish on a cut session gives %v, want ErrClosed", err)
	}
	if s.Err() == nil {
		r.t.Error("Err is nil after a cut, want its cause")
	}
	mu.Lock()
	defer mu.Unlock()
	if len(outcomes) != accepted {
		r.t.Errorf("%d publications accepted, %d settled when Done was closed", accepted, len(outcomes))
	}
	confirmed := slices.Index(outcomes, bus.Unknown)
	if confirmed < 0 {
		confirmed = len(outcomes)
	}
	for token, outcome := range outcomes {
		if want := token >= confirmed; (outcome == bus.Unknown) != want || !want && outcome != bus.Confirmed {
			r.t.Fatalf("token %d is %v; want %d confirmed, then unknown to the end", token, outcome, confirmed)
		}
	}
	next := r.open(declare())
	eventually(r.t, "the broker to count what it confirmed", func() bool {
		depth, err := next.Depth(r.ctx(), "q")
		return err == nil && depth.Ready >= confirmed && depth.Ready <= accepted
	})
}

func deletedQueueEnds(r *rig) {
	c := r.open(declare(quorum("q")))
	c.store("q", "x")
	c.read("q", 1).next()
	r.deleteQueue("q")
	if err := c.waitEnd(); err == nil {
		r.t.Error("Err is nil, want what happened to the queue")
	}
}

func subscribeMissing(r *rig) {
	c := r.open(declare())
	sub := bus.Subscription{Queue: "missing", Prefetch: 1, Handle: func(bus.Delivery) {}}
	if err := c.Subscribe(r.ctx(), sub); err == nil {
		r.t.Error("Subscribe to a missing queue succeeded")
	}
}

// Hooks of the harness must leave no goroutine behind either.
func noLeak(r *rig) {
	before := goleak.IgnoreCurrent()
	busy := func() *client {
		r.t.Helper()
		c := r.open(declare(quorum("q"), stream("s")))
		c.readFrom("s", 10, bus.First())
		in := c.read("q", 10)
		c.store("q", "x")
		c.Ack(in.next().Tag)
		return c
	}
	busy().close()

	holder, hasty := r.open(declare()), r.open(declare())
	holder.lead()
	ctx, giveUp := context.WithCancel(r.ctx())
	hopes := hasty.wait(ctx)
	giveUp()
	if err := receive(r.t, "TakeLock to give up", hopes.over); !errors.Is(err, context.Canceled) {
		r.t.Errorf("TakeLock gives %v, want context.Canceled", err)
	}
	holder.close()
	hasty.lead()
	hasty.close()

	ended := busy()
	w := ended.readEnding("q", 10)
	if err := ended.Subscribe(r.ctx(), w.subscription("missing", 1)); !errors.Is(err, bus.ErrNoQueue) {
		r.t.Errorf("Subscribe gives %v, want ErrNoQueue", err)
	}
	if stopped, err := ended.Unsubscribe(r.ctx(), "q"); !stopped || err != nil {
		r.t.Errorf("Unsubscribe = %v, %v; want true, nil", stopped, err)
	}
	if _, err := ended.EnsureQueue(r.ctx(), quorum("e")); err != nil {
		r.t.Error(err)
	}
	w = ended.readEnding("e", 10)
	ended.store("e", "held")
	w.bodies("held")
	r.deleteQueue("e")
	w.waitEnded()
	ended.close()

	cut := busy()
	cut.readEnding("q", 10)
	r.cut()
	_ = cut.waitEnd()

	t := declare(quorum("missing"))
	t.Mode = bus.Verify
	wantTopologyError(r, t, "missing")

	goleak.VerifyNone(r.t, before)
}
