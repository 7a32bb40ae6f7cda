package bustest

import (
	"errors"

	"taskbus/coordinator/bus"
)

// Temporary queues.

// Others may publish to it and that is all. It ends with its session.
func temporaryQueue(r *rig) {
	other := r.open(bus.Topology{Mode: bus.Declare, Exchanges: []bus.Exchange{{Name: "x", Kind: bus.Topic}}})
	for _, mode := range []bus.Mode{bus.Declare, bus.Verify, bus.Off} {
		name := "mine." + string(mode)
		owner := r.open(bus.Topology{Mode: mode, Queues: []bus.Queue{{Name: name, Temporary: true}}})
		in := owner.read(name, 1)
		other.store(name, "hello")
		owner.Ack(in.bodies("hello")[0].Tag)
		sub := bus.Subscription{Queue: name, Prefetch: 1, Handle: func(bus.Delivery) {}}
		if err := r.open(declare()).Subscribe(r.ctx(), sub); err == nil {
			r.t.Errorf("%s: another session was let in", name)
		}
		owner.close()
		waitUnroutable(other, name)
	}

	for _, mode := range []bus.Mode{bus.Declare, bus.Verify, bus.Off} {
		name := "bound." + string(mode)
		bound := r.open(bus.Topology{
			Mode:     mode,
			Queues:   []bus.Queue{{Name: name, Temporary: true}},
			Bindings: []bus.Binding{{Exchange: "x", Queue: name, Key: "event.#"}},
		})
		in := bound.read(name, 1)
		other.storePub(bus.Publication{Exchange: "x", Key: "event.1", Body: []byte("event")})
		in.bodies("event")
	}
	wantTopologyError(r, bus.Topology{
		Mode:     bus.Off,
		Queues:   []bus.Queue{{Name: "unbound", Temporary: true}},
		Bindings: []bus.Binding{{Exchange: "nowhere", Queue: "unbound", Key: "k"}},
	}, "nowhere")
}

// As when a second agent is started under the same id. It gets in once the first
// has gone.
func temporaryQueueInUse(r *rig) {
	mine := []bus.Queue{{Name: "mine", Temporary: true}}
	other := r.open(declare())
	for _, mode := range []bus.Mode{bus.Declare, bus.Verify, bus.Off} {
		owner := r.open(declare(mine...))
		in := owner.read("mine", 1)
		spec := bus.SessionSpec{Topology: bus.Topology{Mode: mode, Queues: mine}}
		if _, err := r.tryOpen(r.ctx(), spec); !errors.Is(err, bus.ErrInUse) || errors.Is(err, bus.ErrAccess) {
			r.t.Errorf("%s: Open gives %v, want ErrInUse and not ErrAccess", mode, err)
		}
		if _, err := other.EnsureQueue(r.ctx(), mine[0]); !errors.Is(err, bus.ErrInUse) {
			r.t.Errorf("%s: EnsureQueue gives %v, want ErrInUse", mode, err)
		}
		if ok, err := owner.EnsureQueue(r.ctx(), mine[0]); !ok || err != nil {
			r.t.Errorf("%s: EnsureQueue by its owner = %v, %v; want true, nil", mode, ok, err)
		}
		other.store("mine", "to the first") // nothing was taken from it
		in.bodies("to the first")
		owner.close()
		waitUnroutable(other, "mine")
		r.openSpec(spec).close()
		waitUnroutable(other, "mine")
	}
}

// The exchange is deleted, and declared anew by another: without bindings. Only the
// owner of a temporary queue can make them.
func temporaryQueueBoundAgain(r *rig) {
	exchange := bus.Topology{Mode: bus.Declare, Exchanges: []bus.Exchange{{Name: "x", Kind: bus.Topic}}}
	for _, mode := range []bus.Mode{bus.Declare, bus.Verify, bus.Off} {
		r.open(exchange)
		mine := bus.Queue{Name: "mine." + string(mode), Temporary: true}
		owner := r.open(bus.Topology{
			Mode: mode, Queues: []bus.Queue{mine},
			Bindings: []bus.Binding{{Exchange: "x", Queue: mine.Name, Key: "event.*"},
				{Exchange: "x", Queue: mine.Name, Key: "other"}},
		})
		in := owner.read(mine.Name, 10)
		r.harness.DeleteExchange(r.t, r.bus, "x")
		for range 2 { // the refusal harms nothing
			var missing *bus.TopologyError
			if _, err := owner.EnsureQueue(r.ctx(), mine); !errors.As(err, &missing) || missing.Object != "x" {
				r.t.Fatalf("%s: EnsureQueue without the exchange gives %v, want a *TopologyError about x", mode, err)
			}
		}
		outside := r.open(exchange)
		event := bus.Publication{Exchange: "x", Key: "event.1", Body: []byte("event")}
		if got := outside.outcome(event); got != bus.Unroutable {
			r.t.Errorf("%s: a publication before EnsureQueue is %v, want unroutable", mode, got)
		}
		for range 2 { // the second time there is nothing to do
			if ok, err := owner.EnsureQueue(r.ctx(), mine); !ok || err != nil {
				r.t.Fatalf("%s: EnsureQueue = %v, %v; want true, nil", mode, ok, err)
			}
		}
		outside.storePub(event)
		outside.storePub(bus.Publication{Exchange: "x", Key: "other", Body: []byte("other")})
		outside.store(mine.Name, "last")
		in.bodies("event", "other", "last") // each once
		owner.close()
	}
}

func temporaryQueueLasting(r *rig) {
	r.open(declare(bus.Queue{Name: "q", Kind: bus.Classic}))
	c := r.open(declare(bus.Queue{Name: "q", Temporary: true}))
	wantFinding(r, c, "q")
	in := c.read("q", 1)
	c.store("q", "x")
	in.bodies("x")
}

func temporaryQueueCut(r *rig) {
	owner := r.open(declare(bus.Queue{Name: "mine", Temporary: true}))
	owner.read("mine", 1)
	r.cut()
	_ = owner.waitEnd()
	waitUnroutable(r.open(declare()), "mine")
}
