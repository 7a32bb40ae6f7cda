package integration

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"taskbus/coordinator/view"
	"taskbus/tests/support/brokertest"
)

// What an agent refuses, and what it had begun and gave up, is done by another.
func TestAgentGivesBack(t *testing.T) {
	t.Parallel()
	r := newRig(t, quartet)
	b := r.open()
	c := r.start()
	all := r.agents(c, b, 2, quartetIDs...)
	for _, what := range []deed{deedRejectOnce, deedRetryOnce} {
		id := "t-" + string(what)
		b.offer(r.client, task(id, "build").doing(what))
		if e := b.end(t, id); e.What != "succeeded" || e.Attempt != 2 || attemptID(e.Dispatch) != id+".2" {
			t.Errorf("%s: %+v", what, e)
		}
		b.runs(t, id, 2) // what agents say comes another way than the end
		if by := b.begunBy(id); len(by) != 2 || by[0] == by[1] {
			t.Errorf("%s: begun by %v, want two agents", what, by)
		}
	}
	b.offer(r.client, task("t-fail", "build").doing(deedFail))
	if e := b.end(t, "t-fail"); e.What != "failed" || e.Error != "this cannot be done" || e.Attempt != 1 {
		t.Errorf("a failure is final: %+v", e)
	}
	if n := c.status().Counters; n.Results["rejected"] != 2 || n.Returned != 2 || n.Results["failed"] != 1 {
		t.Errorf("counters %+v", n)
	}
	for _, a := range all {
		a.retire()
	}
	r.close(c, b, map[string]string{"t-fail": "failed"})
}

// The same by bare AMQP: first the result, confirmed, then basic.reject.
func TestRejectedByMessageThenByBroker(t *testing.T) {
	t.Parallel()
	r := newRig(t, quartet)
	b := r.open()
	c := r.start()
	r.online(c, "a1")
	h := r.hand("a1", 2)
	b.offer(r.client, task("t-1", "build"))
	d := h.take()
	b.enter(d)
	said := h.result("t-1", d.DispatchID, "rejected")
	said.Attempted = true
	h.say(said)
	c.awaitAgent("a1", "has its slot back before the message is", func(a view.Agent) bool { return a.FreeSlots == 2 })
	if err := d.amqp.Reject(false); err != nil {
		t.Fatal(err)
	}
	a2 := r.agents(c, b, 2, "a2")["a2"]
	if e := b.end(t, "t-1"); e.Agent != "a2" || e.Attempt != 2 {
		t.Errorf("%+v", e)
	}
	a2.retire()
	r.close(c, b, nil)
}

// hasty is pair with an accept timeout of one second.
func hasty(t *testing.T) string {
	return replaced(t, replaced(t, pair(t), "a1: {", "a1: {accept_timeout_seconds: 1, "), "a2: {",
		"a2: {accept_timeout_seconds: 1, ")
}

// A dispatch that is not taken in time goes to another agent.
func TestNotTakenInTime(t *testing.T) {
	t.Parallel()
	r := newRig(t, replaced(t, hasty(t), "stale_agent_threshold_seconds: 3", "stale_agent_threshold_seconds: 60"))
	b := r.open()
	c := r.start()
	r.reported(c, tracked("a1", 2)) // online, and its queue has no consumer
	b.offer(r.client, task("t-1", "build"))
	r.awaitAttempt(c, "t-1", 1)
	a2 := r.agents(c, b, 2, "a2")["a2"]
	if e := b.end(t, "t-1"); e.Agent != "a2" || e.Attempt != 2 {
		t.Errorf("%+v", e)
	}
	if n := c.metric(`taskbus_returned_total{cause="expired"}`); n != 1 {
		t.Errorf("%v expired dispatches counted, want 1", n)
	}
	a2.retire()
	r.close(c, b, nil)
}

// An agent that loses its connection while it works on what has outlived its accept
// timeout keeps the work: it is given the same dispatch again, and carries on.
//
// If connecting again takes half a second or more, the agent may count as gone, and the
// dispatch goes elsewhere, rightly. Then it is tried again.
func TestChannelLostWhileWorking(t *testing.T) {
	brokertest.Needs(t, "a broker")
	const tries = 5
	for i := range tries {
		inTime := false
		t.Run(fmt.Sprint("try ", i+1), func(t *testing.T) { inTime = channelLostWhileWorking(t) })
		if inTime || t.Failed() {
			return
		}
	}
	t.Errorf("in none of %d tries the agent was back before it counted as gone", tries)
}

// channelLostWhileWorking plays it once; inTime: the agent did not count as gone.
func channelLostWhileWorking(t *testing.T) (inTime bool) {
	r := newRig(t, hasty(t))
	b := r.open()
	c := r.start()
	user := "agent-" + r.broker.VHost // so that its connection alone can be closed
	mine := r.broker.AddUser(t, user)
	r.broker.SetPermissions(t, user, ".*", ".*", ".*")
	a1 := r.agentAt(mine.URL, b, agentSpec{ID: "a1", Slots: 2})
	c.awaitEligible("a1")
	b.offer(r.client, task("t-1", "build").doing(deedHold))
	b.runs(t, "t-1", 1)
	a2 := r.agents(c, b, 2, "a2")["a2"] // might have it, if it came back for good
	c.awaitWorking("a1")
	taken := time.Now()
	eventually(t, patience, "it has outlived its accept timeout", func() (bool, string) {
		return time.Since(taken) > time.Second, ""
	})
	r.broker.CloseConnectionsOf(t, user)
	c.awaitStatus("it came back as expired", func(view.Status) bool {
		return c.metric(`taskbus_returned_total{cause="expired"}`) == 1
	})
	eventually(t, patience, "the agent takes tasks again", func() (bool, string) {
		n := strings.Count(a1.log.String(), `"message":"takes tasks"`)
		return n == 2, fmt.Sprint(n)
	})
	if c.log.Has("agent is gone") {
		a1.letGo("t-1")
		a1.retire()
		a2.retire()
		return false
	}
	c.awaitStatus("and went out again", func(s view.Status) bool { return s.Counters.Dispatched == 2 })
	if v := c.task("t-1"); v.Agent != "a1" || attemptID(v.DispatchID) != "t-1.1" || v.Attempt != 1 {
		t.Errorf("it is with %+v, want the same dispatch with a1", v)
	}
	r.empty("agent.a1") // the agent has it, again
	a1.letGo("t-1")
	if e := b.end(t, "t-1"); e.Agent != "a1" || e.Attempt != 1 || e.What != "succeeded" || e.Late {
		t.Errorf("%+v", e)
	}
	if by := b.begunBy("t-1"); len(by) != 1 {
		t.Errorf("begun by %v, want once", by)
	}
	a1.retire()
	a2.retire()
	r.close(c, b, nil)
	return true
}
