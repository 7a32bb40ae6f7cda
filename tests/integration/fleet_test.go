package integration

import (
	"slices"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"taskbus/coordinator/bus"
	"taskbus/coordinator/view"
)

// Orders to an agent that works: a cordoned one keeps what it has, a drained one
// finishes what it runs, what waits in its queue goes elsewhere, and it leaves
// without a lost task.
func TestCordonAndDrain(t *testing.T) {
	t.Parallel()
	r := newRig(t, replaced(t, quartet, "stale_agent_threshold_seconds: 3", "stale_agent_threshold_seconds: 60"))
	b := r.open()
	c := r.start(withToken)
	r.reported(c, tracked("a1", 2))
	h := r.hand("a1", 1) // takes one at a time: the other waits in its queue
	b.offer(r.client, task("t-1", "build"), task("t-2", "build"))
	inHand := h.take()
	b.enter(inHand)
	r.holds("agent.a1", 1)
	r.reported(c, tracked("a1", 2, string(inHand.TaskID)))

	if out, errors, code := c.command(adminToken, "agents", "cordon", "a1"); code != 0 {
		t.Fatalf("cordon: exit code %d, %s%s", code, out, errors)
	}
	a2 := r.agents(c, b, 2, "a2")["a2"]
	b.offer(r.client, task("t-3", "build"))
	if e := b.end(t, "t-3"); e.Agent != "a2" {
		t.Errorf("t-3 went to %s, which is cordoned", e.Agent)
	}
	if a := c.agent("a1"); !a.Cordoned || a.Draining || a.WhyNot != "cordoned" || a.Leased != 2 {
		t.Errorf("cordoned: %+v", a)
	}
	r.holds("agent.a1", 1)

	t.Log("drained: what waits goes elsewhere, what runs is finished")
	waited := make(chan int)
	go func() {
		_, _, code := c.command(adminToken, "agents", "drain", "a1", "--wait", "--timeout", "30s")
		waited <- code
	}()
	c.awaitAgent("a1", "keeps only what it runs", func(a view.Agent) bool {
		return a.Draining && !a.Drained &&
			a.Leased == 1
	})
	waiting := map[string]string{"t-1": "t-2", "t-2": "t-1"}[string(inHand.TaskID)]
	if e := b.end(t, waiting); e.Agent != "a2" || e.What != "succeeded" {
		t.Errorf("what waited in the queue: %+v", e)
	}
	select {
	case code := <-waited:
		t.Errorf("drain --wait ended with exit code %d although the agent still works", code)
	default:
	}
	h.complete(inHand)
	r.reported(c, tracked("a1", 2))
	if code := <-waited; code != 0 {
		t.Errorf("drain --wait: exit code %d when the agent had finished", code)
	}
	if a := c.agent("a1"); !a.Drained || a.Leased != 0 {
		t.Errorf("drained: %+v", a)
	}
	if e := b.end(t, string(inHand.TaskID)); e.Agent != "a1" || e.Attempt != 1 {
		t.Errorf("what it had in hand: %+v", e)
	}
	if n := c.status().Counters.TakenBack; n != 1 {
		t.Errorf("%d taken back, want the one that waited", n)
	}

	t.Log("uncordoned, it gets work again")
	if out, errors, code := c.command(adminToken, "agents", "uncordon", "a1"); code != 0 {
		t.Fatalf("uncordon: exit code %d, %s%s", code, out, errors)
	}
	c.awaitEligible("a1")
	if _, _, code := c.command(adminToken, "agents", "drain", "a2", "--wait", "--timeout", "30s"); code != 0 {
		t.Errorf("drain --wait of an idle agent: exit code %d", code)
	}
	a2.retire() // without a lost task
	b.offer(r.client, task("t-4", "build"))
	last := h.take()
	b.enter(last)
	h.complete(last)
	if e := b.end(t, "t-4"); e.Agent != "a1" {
		t.Errorf("%+v", e)
	}
	if out, _, code := c.command(adminToken, "agents", "drain", "a99"); code != 1 || out != "" {
		t.Errorf("an order to an agent that is none: exit code %d, %q", code, out)
	}
	r.close(c, b, nil)
}

// discovering admits workers that search or translate.
const discovering = `
discovery:
  enabled: true
  agents: ["worker-*"]
  capabilities: [search, translate]
  queues: ["work.{id}"]
  max_agents: 3
  max_concurrent_tasks: 2
  forget_after_seconds: 1
  health_check_interval: 1
agents:
  a1: {capabilities: [code], max_concurrent_tasks: 1, health_check_interval: 1}
task_routing:
  search: {required_capabilities: [search]}
  translate: {required_capabilities: [translate]}
global_settings:
  assignment_timeout_seconds: 60
  stale_agent_threshold_seconds: 60
`

// Agents come and go without a change of the configuration; one that is not admitted
// gets nothing.
func TestDiscovery(t *testing.T) {
	t.Parallel()
	r := newRig(t, discovering)
	b := r.open()
	c := r.start()
	before := c.status().Config.Version
	one := r.agent(b, agentSpec{ID: "worker-1", Slots: 5, Capabilities: []string{"search"}})
	c.awaitStatus("it has joined", func(s view.Status) bool { return len(s.Agents) == 2 })
	if a := c.agent("worker-1"); !a.Discovered || a.MaxConcurrent != 2 {
		t.Errorf("it announces five slots, of which two are admitted: %+v", a)
	}
	c.awaitEligible("worker-1")

	t.Log("who is not admitted")
	for _, tt := range []struct {
		name  string
		alter func(*heartbeat)
	}{
		{"another id", func(h *heartbeat) { h.AgentID = "intruder" }},
		{"a capability that is not allowed", func(h *heartbeat) { h.Capabilities = []string{"search", "root"} }},
		{"no capability", func(h *heartbeat) { h.Capabilities = nil }},
		{"the coordinator's own queue", func(h *heartbeat) { h.Queue = bus.QueueAssign }},
		{"another agent's queue", func(h *heartbeat) { h.Queue = "agent.a1" }},
		{"the queue of one that may still come", func(h *heartbeat) { h.Queue = "work.worker-1" }},
		{"a queue of somebody else", func(h *heartbeat) { h.Queue = "billing.invoices" }},
	} {
		h := beat("worker-9", 0, 1)
		h.Capabilities, h.Queue = []string{"search"}, "agent.worker-9"
		tt.alter(&h)
		refused := func(s view.Status) uint64 {
			return s.Counters.StatusRefused["not_admitted"] + s.Counters.StatusRefused["unknown_agent"]
		}
		n := refused(c.status())
		r.report(h)
		c.awaitStatus(tt.name+" is refused", func(s view.Status) bool { return refused(s) == n+1 })
		if got := len(c.status().Agents); got != 2 {
			t.Errorf("%s: %d agents", tt.name, got)
		}
	}
	if r.broker.QueueInfo(t, "agent.worker-9").Exists {
		t.Error("a queue was declared for an agent that is not admitted")
	}

	t.Log("agents come and go")
	two := r.agent(b, agentSpec{ID: "worker-2", Slots: 1, Capabilities: []string{"translate"}})
	c.awaitEligible("worker-1", "worker-2")
	b.offer(r.client, task("t-1", "search"), task("t-2", "translate"))
	if e := b.end(t, "t-2"); e.Agent != "worker-2" {
		t.Errorf("%+v", e)
	}
	b.allEnd(t, patience)
	one.retire()
	c.awaitStatus("it has left", func(s view.Status) bool { return len(s.Agents) == 2 })
	one = r.agent(b, agentSpec{ID: "worker-1", Slots: 1, Capabilities: []string{"search"}})
	c.awaitEligible("worker-1")
	b.offer(r.client, task("t-3", "search"))
	if e := b.end(t, "t-3"); e.Agent != "worker-1" {
		t.Errorf("%+v", e)
	}
	if got := c.status().Config.Version; got != before {
		t.Error("the configuration has changed")
	}
	one.retire()
	two.retire()
	c.awaitStatus("both have left", func(s view.Status) bool { return len(s.Agents) == 1 })
	r.close(c, b, nil)
}

// An agent that joins and goes must not take other messages with it: a queue that
// is not allowed is never consumed, and out of one that is, dispatches alone are taken.
func TestDiscoveryTakesNobodysMessages(t *testing.T) {
	t.Parallel()
	r := newRig(t, discovering)
	const invoices, stray = "billing.invoices", "work.worker-2"
	bodies := []string{`{"invoice":1}`, `{"invoice":2}`}
	for _, queue := range []string{invoices, stray} {
		r.broker.DeclareQueue(t, queue, amqp.Table{"x-queue-type": "quorum"})
		for _, body := range bodies {
			r.publish(queue, amqp.Publishing{DeliveryMode: amqp.Persistent, Body: []byte(body)})
		}
	}
	c := r.start()
	announce := func(id, queue, status string) {
		h := beat(id, 0, 2)
		h.Capabilities, h.Queue, h.Status = []string{"search"}, queue, status
		r.report(h)
	}
	state := func(id, want string) {
		t.Helper()
		c.awaitStatus(id+" is "+want, func(s view.Status) bool {
			return slices.ContainsFunc(s.Agents, func(a view.Agent) bool { return a.ID == id && a.State == want })
		})
	}
	announce("worker-1", invoices, "ready")
	c.awaitStatus("it is refused", func(s view.Status) bool { return s.Counters.StatusRefused["not_admitted"] == 1 })
	announce("worker-1", "", "offline")

	announce("worker-2", stray, "ready")
	state("worker-2", "online")
	r.assign(task("t-1", "search"))
	r.holds(stray, len(bodies)+1) // the task behind the invoices
	announce("worker-2", stray, "offline")
	c.log.await(t,
		"the queue that this agent announced holds messages that are no dispatches; they stay there, and nothing is taken "+
			"back from it for a while: "+
			"see whose queue it is, and let discovery.queues admit only queues that are the agents' own (said once for each "+
			"queue and session)")
	r.holds(stray, len(bodies))
	announce("worker-3", "", "ready")
	c.awaitEligible("worker-3")
	if d := r.dispatches("worker-3", 1)[0]; d.TaskID != "t-1" {
		t.Errorf("worker-3 got %s", d.TaskID)
	}
	for _, queue := range []string{invoices, stray} {
		r.holds(queue, len(bodies))
		// What has looked for dispatches in it goes a moment after it has said what it found.
		eventually(t, patience, "nobody consumes "+queue, func() (bool, string) {
			n := r.broker.QueueInfo(t, queue).Consumers
			return n == 0, plural(n, "consumer")
		})
		for i, want := range bodies {
			if d := receive(t, r.client, queue); string(d.Body) != want || d.Redelivered != (queue == stray) {
				t.Errorf("%s: message %d is %s, redelivered: %t", queue, i, d.Body, d.Redelivered)
			}
		}
	}
	if s := c.status(); s.Counters.TakenBack != 1 || s.Counters.Parked != 0 || s.Broker.Sessions != 1 {
		t.Errorf("counters %+v, %d sessions", s.Counters, s.Broker.Sessions)
	}
	r.finish(c)
	r.empty(bus.QueueDead, bus.QueueFailed)
}
