package bustest

import (
	"fmt"

	"taskbus/coordinator/bus"
)

func routeCases() []testCase {
	return []testCase{
		{name: "topic keys", run: topicKeys},
		{name: "direct keys", run: directKeys},
		{name: "two bindings to one queue give one copy", run: oneCopy},
		{name: "optional to nobody is confirmed", run: optionalToNobody},
	}
}

func topicKeys(r *rig) {
	c := r.open(bus.Topology{
		Mode:      bus.Declare,
		Exchanges: []bus.Exchange{{Name: "x", Kind: bus.Topic}},
		Queues:    []bus.Queue{stream("agent.status"), quorum("one"), quorum("middle")},
		Bindings: []bus.Binding{
			{Exchange: "x", Queue: "agent.status", Key: "agent.status.#"},
			{Exchange: "x", Queue: "one", Key: "event.*"},
			{Exchange: "x", Queue: "middle", Key: "a.#.z.*"},
		},
	})
	for _, test := range []struct {
		key   string
		queue string // empty: none
	}{
		{"agent.status", "agent.status"}, // # stands for no word as well
		{"agent.status.a1", "agent.status"},
		{"agent.status.a1.b.c", "agent.status"},
		{"agent.statusx", ""},
		{"agent", ""},
		{"event.a", "one"},
		{"event", ""},
		{"event.a.b", ""},
		{"a.z.1", "middle"},
		{"a.b.c.z.1", "middle"},
		{"a.z.z.1", "middle"},
		{"a.z", ""},
		{"z.1", ""},
		{"", ""},
	} {
		want := bus.Confirmed
		if test.queue == "" {
			want = bus.Unroutable
		}
		got := c.outcome(bus.Publication{Exchange: "x", Key: test.key, Body: []byte(test.key)})
		if got != want {
			r.t.Errorf("key %q is %v, want %v", test.key, got, want)
		}
	}
	in := c.read("middle", 10)
	for _, d := range in.bodies("a.z.1", "a.b.c.z.1", "a.z.z.1") {
		if d.Exchange != "x" || d.RoutingKey != string(d.Body) || d.Queue != "middle" {
			r.t.Errorf("delivered from exchange %q, key %q, queue %q; want x, %q, middle", d.Exchange, d.RoutingKey, d.Queue,
				d.Body)
		}
	}
	c.read("one", 10).bodies("event.a")
	c.readFrom("agent.status", 10, bus.First()).bodies("agent.status", "agent.status.a1", "agent.status.a1.b.c")
}

func directKeys(r *rig) {
	c := r.open(bus.Topology{
		Mode:      bus.Declare,
		Exchanges: []bus.Exchange{{Name: "x", Kind: bus.Direct}},
		Queues:    []bus.Queue{quorum("a"), quorum("b")},
		Bindings: []bus.Binding{
			{Exchange: "x", Queue: "a", Key: "agent-1"},
			{Exchange: "x", Queue: "b", Key: "agent-1"},
			{Exchange: "x", Queue: "b", Key: "agent-2.#"},
		},
	})
	for key, want := range map[string]bus.Outcome{
		"agent-1":   bus.Confirmed,
		"agent-2.#": bus.Confirmed, // no wildcards in a direct exchange
		"agent-2":   bus.Unroutable,
		"a":         bus.Unroutable, // only the default exchange goes by the queue's name
	} {
		if got := c.outcome(bus.Publication{Exchange: "x", Key: key, Body: []byte(key)}); got != want {
			r.t.Errorf("key %q is %v, want %v", key, got, want)
		}
	}
	c.waitDepth("a", bus.Depth{Ready: 1})
	c.waitDepth("b", bus.Depth{Ready: 2})
}

func oneCopy(r *rig) {
	c := r.open(bus.Topology{
		Mode:      bus.Declare,
		Exchanges: []bus.Exchange{{Name: "x", Kind: bus.Topic}},
		Queues:    []bus.Queue{quorum("q")},
		Bindings:  []bus.Binding{{Exchange: "x", Queue: "q", Key: "a.#"}, {Exchange: "x", Queue: "q", Key: "a.*"}},
	})
	for i := range 2 {
		c.storePub(bus.Publication{Exchange: "x", Key: "a.b", Body: fmt.Append(nil, i)})
	}
	c.read("q", 10).bodies("0", "1")
	c.waitDepth("q", bus.Depth{Ready: 0, Consumers: 1})
}

func optionalToNobody(r *rig) {
	c := r.open(bus.Topology{Mode: bus.Declare, Exchanges: []bus.Exchange{{Name: "x", Kind: bus.Topic}}})
	for optional, want := range map[bool]bus.Outcome{true: bus.Confirmed, false: bus.Unroutable} {
		got := c.outcome(bus.Publication{Exchange: "x", Key: "event", Optional: optional})
		if got != want {
			r.t.Errorf("optional %v: %v, want %v", optional, got, want)
		}
	}
}
