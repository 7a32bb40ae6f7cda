package bustest

import (
	"errors"

	"taskbus/coordinator/bus"
)

func topologyCases() []testCase {
	return []testCase{
		{name: "Standard can be declared and declared again", run: declareStandard},
		{name: "Verify accepts what is complete", run: verifyComplete},
		{name: "Verify names the missing queue", run: verifyMissingQueue},
		{name: "Verify names the missing exchange", run: verifyMissingExchange},
		{name: "Off touches nothing", run: offTouchesNothing},
		{name: "a queue of another kind is used as it is", run: otherKinds},
		{name: "an exchange of another kind is used as it is", run: otherExchange},
		{name: "Matches tells what is exactly as described", run: matchesDeclared},
		{name: "Matches under Verify compares and creates nothing", run: matchesVerified},
		{name: "Matches is false where nobody looked", run: matchesOff},
		{name: "Matches follows EnsureQueue both ways", run: matchesFollows},
		{name: "EnsureQueue declares a deleted queue again", run: ensureDeclares},
		{name: "EnsureQueue under Verify only looks", run: ensureVerifies},
		{name: "EnsureQueue takes a queue of another kind", run: ensureOtherKind},
		{name: "a temporary queue is its session's alone", run: temporaryQueue},
		{name: "a temporary queue ends with a cut", run: temporaryQueueCut},
		{name: "a temporary queue of another session is ErrInUse", run: temporaryQueueInUse},
		{name: "EnsureQueue binds a temporary queue again", run: temporaryQueueBoundAgain},
		{name: "a lasting queue in place of a temporary one is used as it is", run: temporaryQueueLasting},
	}
}

func declareStandard(r *rig) {
	for range 2 {
		c := r.open(bus.Standard(bus.Declare, bus.ProfileQuorum, []string{"agent.a1"}))
		if found := c.Findings(); len(found) != 0 {
			r.t.Errorf("findings on a topology of our own: %+v", found)
		}
		c.store(bus.QueueAssign, "task")
		c.storePub(bus.Publication{Exchange: bus.ExchangeIn, Key: "agent.status.a1"})
		c.close()
	}
	// The other profile afterwards: every queue that differs is named.
	c := r.open(bus.Standard(bus.Declare, bus.ProfileClassic, []string{"agent.a1"}))
	for _, queue := range []string{bus.QueueAssign, bus.QueueFailed, bus.StreamStatus, bus.StreamResult, "agent.a1"} {
		wantFinding(r, c, queue)
	}
}

func verifyComplete(r *rig) {
	t := declare(quorum("q"), stream("s"))
	t.Exchanges = []bus.Exchange{{Name: "x", Kind: bus.Topic}}
	t.Bindings = []bus.Binding{{Exchange: "x", Queue: "q", Key: "#"}}
	r.open(t)
	t.Mode = bus.Verify
	c := r.open(t)
	c.storePub(bus.Publication{Exchange: "x", Key: "any"})
	if found := c.Findings(); len(found) != 0 {
		r.t.Errorf("findings on a complete topology: %+v", found)
	}
}

func verifyMissingQueue(r *rig) {
	first := r.open(declare(quorum("there")))
	t := declare(quorum("there"), quorum("missing"))
	t.Mode = bus.Verify
	wantTopologyError(r, t, "missing")
	wantNoQueue(r, first, "missing")
}

func verifyMissingExchange(r *rig) {
	wantTopologyError(r, bus.Topology{
		Mode: bus.Verify, Exchanges: []bus.Exchange{{Name: "nowhere", Kind: bus.Topic}},
	}, "nowhere")
}

func offTouchesNothing(r *rig) {
	t := bus.Standard(bus.Off, bus.ProfileQuorum, []string{"agent.a1"})
	c := r.open(t)
	for _, q := range t.Queues {
		wantNoQueue(r, c, q.Name)
	}
	if ok, err := c.EnsureQueue(r.ctx(), quorum("q")); ok || err != nil {
		r.t.Errorf("EnsureQueue of a missing queue = %v, %v; want false, nil", ok, err)
	}
	wantNoQueue(r, c, "q")
}

// A second session finds a queue of another kind and works with it.
func otherKinds(r *rig) {
	classic := func(name string) bus.Queue { return bus.Queue{Name: name, Kind: bus.Classic} }
	r.open(declare(classic("classic first"), quorum("quorum first"), classic("no stream"), stream("stream first")))

	c := r.open(declare(quorum("classic first"), classic("quorum first"), stream("no stream"), classic("stream first")))
	for _, queue := range []string{"classic first", "quorum first", "no stream", "stream first"} {
		wantFinding(r, c, queue)
		in := c.readFrom(queue, 10, bus.First())
		c.store(queue, queue)
		c.Ack(in.bodies(queue)[0].Tag)
	}
	if n := len(c.Findings()); n != 4 {
		r.t.Errorf("%d findings, want one for each of the 4 queues: %+v", n, c.Findings())
	}
}

func otherExchange(r *rig) {
	with := func(kind bus.ExchangeKind) bus.Topology {
		return bus.Topology{
			Mode:      bus.Declare,
			Exchanges: []bus.Exchange{{Name: "x", Kind: kind}},
			Queues:    []bus.Queue{quorum("q")},
			Bindings:  []bus.Binding{{Exchange: "x", Queue: "q", Key: "key"}},
		}
	}
	r.open(with(bus.Direct))
	c := r.open(with(bus.Topic))
	wantFinding(r, c, "x")
	c.storePub(bus.Publication{Exchange: "x", Key: "key"})
}

func ensureDeclares(r *rig) {
	c := r.open(declare(quorum("q")))
	r.deleteQueue("q")
	if got := c.outcome(text("q", "x")); got != bus.Unroutable {
		r.t.Errorf("publication to a deleted queue is %v, want unroutable", got)
	}
	for range 2 { // again and again
		if ok, err := c.EnsureQueue(r.ctx(), quorum("q")); !ok || err != nil {
			r.t.Fatalf("EnsureQueue = %v, %v; want true, nil", ok, err)
		}
	}
	c.store("q", "x")
}

func ensureVerifies(r *rig) {
	r.open(declare(quorum("q")))
	t := declare(quorum("q"))
	t.Mode = bus.Verify
	c := r.open(t)
	if ok, err := c.EnsureQueue(r.ctx(), quorum("q")); !ok || err != nil {
		r.t.Errorf("EnsureQueue of an existing queue = %v, %v; want true, nil", ok, err)
	}
	r.deleteQueue("q")
	if ok, err := c.EnsureQueue(r.ctx(), quorum("q")); ok || err != nil {
		r.t.Errorf("EnsureQueue of a deleted queue = %v, %v; want false, nil", ok, err)
	}
	if got := c.outcome(text("q", "x")); got != bus.Unroutable {
		r.t.Errorf("publication after EnsureQueue is %v, want unroutable", got)
	}
}

func ensureOtherKind(r *rig) {
	r.open(declare(bus.Queue{Name: "q", Kind: bus.Classic}))
	c := r.open(declare())
	if ok, err := c.EnsureQueue(r.ctx(), quorum("q")); !ok || err != nil {
		r.t.Errorf("EnsureQueue of a queue of another kind = %v, %v; want true, nil", ok, err)
	}
	wantFinding(r, c, "q")
	c.store("q", "x")
}

// waitUnroutable waits until a queue is gone: a broker removes it a moment after
// its connection.
func waitUnroutable(c *client, queue string) {
	c.t.Helper()
	eventually(c.t, "queue "+queue+" to be gone", func() bool {
		return c.outcome(text(queue, "anybody?")) == bus.Unroutable
	})
}

func wantFinding(r *rig, c *client, object string) {
	r.t.Helper()
	for _, f := range c.Findings() {
		if f.Object == object && f.Text != "" {
			return
		}
	}
	r.t.Errorf("no finding with a text about %q in %+v", object, c.Findings())
}

func wantTopologyError(r *rig, t bus.Topology, object string) {
	r.t.Helper()
	_, err := r.tryOpen(r.ctx(), bus.SessionSpec{Topology: t})
	var missing *bus.TopologyError
	if !errors.As(err, &missing) || missing.Object != object || missing.Reason == "" {
		r.t.Errorf("Open gives %v, want a *TopologyError about %q with a reason", err, object)
	}
}

func wantNoQueue(r *rig, c *client, queue string) {
	r.t.Helper()
	if _, err := c.Depth(r.ctx(), queue); !errors.Is(err, bus.ErrNoQueue) {
		r.t.Errorf("Depth of %q gives %v, want ErrNoQueue", queue, err)
	}
}
