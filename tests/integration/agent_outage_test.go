package integration

import (
	"testing"

	"taskbus/coordinator/view"
	"taskbus/tests/support/brokertest"
)

// The broker stops under a running handler and starts again: the work was done
// meanwhile, and has one end. The doctor tells a broker that has gone from one that
// refuses.
func TestAgentOutlivesTheBroker(t *testing.T) {
	t.Parallel()
	node := brokertest.Private(t, brokertest.Options{})
	r := rigOn(t, node.Broker, replaced(t, quartet, "stale_agent_threshold_seconds: 3",
		"stale_agent_threshold_seconds: 60"))
	code, found := r.doctor(node.URL, nobody)
	wants(t, code, found, 0, "broker", "ok", "connected")
	b := r.open()
	c := r.start()
	all := r.agents(c, b, 2, "a1", "a2")
	b.offer(r.client, task("t-1", "build").doing(deedHold), task("t-2", "build").doing(deedHold),
		task("t-3", "build").doing(deedHold))
	for _, id := range []string{"t-1", "t-2", "t-3"} {
		b.runs(t, id, 1)
	}
	node.Stop(t)
	for _, a := range all { // t-3 goes on until the broker is back
		a.letGo("t-1", "t-2")
	}
	code, found = r.doctor(node.URL, nobody)
	wants(t, code, found, 1, "broker", "problem", "check_running")
	node.Start(t)
	c.awaitReady()
	r.client = connect(t, r.broker)
	for _, id := range []string{"t-1", "t-2"} {
		if e := b.end(t, id); e.What != "succeeded" {
			t.Errorf("%s: %+v", id, e)
		}
	}
	for _, a := range all {
		a.letGo("t-3")
	}
	b.end(t, "t-3")
	c.awaitEligible("a1", "a2")
	b.offer(r.client, task("t-4", "build"))
	b.allEnd(t, patience)
	for _, id := range []string{"a1", "a2"} {
		c.awaitAgent(id, "is idle", func(a view.Agent) bool { return a.FreeSlots == 2 && a.Leased == 0 })
	}
	for _, a := range all {
		a.retire()
	}
	r.close(c, b, nil)
}
