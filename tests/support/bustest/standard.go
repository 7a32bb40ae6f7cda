package bustest

import (
	"time"

	"taskbus/coordinator/bus"
)

// What the coordinator and its agents build on, with the queues they really use.
func standardCases() []testCase {
	return []testCase{
		{name: "an agent hears the control exchange while it is there", run: controlReachesAgent},
		{name: "statuses and results of the past can be read", run: standardStreams},
		{name: "an agent's queue gives back to task.reassign", run: agentGivesBack},
		{name: "what an agent lost is redelivered to who takes it back", run: takenBackIsRedelivered},
	}
}

func openStandard(r *rig) *client {
	r.t.Helper()
	return r.open(bus.Standard(bus.Declare, bus.ProfileQuorum, []string{"agent.a1"}))
}

func controlReachesAgent(r *rig) {
	coordinator := openStandard(r)
	p := bus.Publication{Exchange: bus.ExchangeControl, Key: "a1", Body: []byte("cancel")}
	if got := coordinator.outcome(p); got != bus.Unroutable {
		r.t.Errorf("before the agent is there: %v, want unroutable", got)
	}
	agent := r.open(bus.Topology{
		Mode:     bus.Verify,
		Queues:   []bus.Queue{{Name: "agent.a1.control", Temporary: true}},
		Bindings: []bus.Binding{{Exchange: bus.ExchangeControl, Queue: "agent.a1.control", Key: "a1"}},
	})
	in := agent.read("agent.a1.control", 10)
	coordinator.storePub(p)
	d := in.bodies("cancel")[0]
	agent.Ack(d.Tag)
	if d.Exchange != bus.ExchangeControl || d.RoutingKey != "a1" {
		r.t.Errorf("delivered from exchange %q with key %q, want %q and a1", d.Exchange, d.RoutingKey, bus.ExchangeControl)
	}
	p.Key = "a2"
	if got := coordinator.outcome(p); got != bus.Unroutable {
		r.t.Errorf("to another agent: %v, want unroutable", got)
	}
	agent.close()
	p.Key = "a1"
	eventually(r.t, "the agent's control queue to be gone",
		func() bool { return coordinator.outcome(p) == bus.Unroutable })
}

func standardStreams(r *rig) {
	coordinator := openStandard(r)
	for stream, p := range map[string]bus.Publication{
		bus.StreamStatus: {Exchange: bus.ExchangeIn, Key: "agent.status.a1"},
		bus.StreamResult: {Exchange: bus.ExchangeIn, Key: "task.result.a1"},
	} {
		p.Body = []byte("by the exchange")
		coordinator.storePub(p)
		coordinator.store(stream, "by its name")
		for range 2 {
			in := coordinator.readFrom(stream, 10, bus.Ago(time.Minute))
			in.bodies("by the exchange", "by its name")
		}
		next := r.open(bus.Topology{Mode: bus.Off}) // knows nothing of the kinds of queues
		next.readFrom(stream, 10, bus.Ago(time.Minute)).bodies("by the exchange", "by its name")
	}
}

func agentGivesBack(r *rig) {
	coordinator := openStandard(r)
	back := coordinator.read(bus.QueueReassign, 10)
	agent := r.open(declare())
	in := agent.read("agent.a1", 1)
	dispatch := func(body string, expiration time.Duration) {
		p := text("agent.a1", body)
		p.Type, p.MessageID, p.Expiration = "task.dispatch", "t1.1", expiration
		p.Headers = map[string]any{"x-taskbus-task": `{"task_id":"t1"}`, "x-taskbus-tried": `{"agents":[]}`}
		coordinator.storePub(p)
	}
	dispatch("refused", time.Minute)
	agent.Reject(in.bodies("refused")[0].Tag)
	dispatch("held", time.Minute)
	held := in.bodies("held")[0]
	dispatch("late", 50*time.Millisecond) // there is no room for it
	for i, d := range back.bodies("refused", "late") {
		checkDeath(r, d, "agent.a1", []string{"rejected", "expired"}[i])
		if d.Redelivered || d.Type != "task.dispatch" || d.MessageID != "t1.1" ||
			d.Headers["x-taskbus-task"] != `{"task_id":"t1"}` || d.Headers["x-taskbus-tried"] != `{"agents":[]}` {
			r.t.Errorf("%s: came back changed: redelivered %v, %+v", d.Body, d.Redelivered, d.Properties)
		}
	}
	agent.Ack(held.Tag)
	agent.close()
	coordinator.waitDepth("agent.a1", bus.Depth{})
	if extra := len(back.got); extra != 0 {
		r.t.Errorf("%d messages too many came back", extra)
	}
}

// The coordinator takes back what is ready in the queue of an agent that is gone:
// what the agent had had in hand is marked, what it never saw is not.
func takenBackIsRedelivered(r *rig) {
	coordinator := openStandard(r)
	agent := r.open(declare())
	in := agent.read("agent.a1", 1)
	coordinator.store("agent.a1", "in hand")
	coordinator.store("agent.a1", "waiting")
	in.bodies("in hand")
	agent.close()
	coordinator.waitDepth("agent.a1", bus.Depth{Ready: 2})
	w := coordinator.readEnding("agent.a1", 10)
	for _, d := range w.bodies("in hand", "waiting") {
		if want := string(d.Body) == "in hand"; d.Redelivered != want {
			r.t.Errorf("%s: redelivered %v, want %v", d.Body, d.Redelivered, want)
		}
		coordinator.Ack(d.Tag)
	}
	if stopped, err := coordinator.Unsubscribe(r.ctx(), "agent.a1"); !stopped || err != nil {
		r.t.Errorf("Unsubscribe = %v, %v; want true, nil", stopped, err)
	}
	coordinator.waitDepth("agent.a1", bus.Depth{})
}
