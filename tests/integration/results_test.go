package integration

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"taskbus/coordinator/bus"
	"taskbus/coordinator/view"
	"taskbus/tests/support/brokertest"
)

// What is wrong with a result stays with the result: the first right one counts,
// once, whatever surrounds it, and every other is counted by what is wrong with it.
func TestWrongResultsChangeNothing(t *testing.T) {
	t.Parallel()
	const copies = 1_000
	r := newRig(t, fleet)
	b := r.open()
	c := r.start()
	r.online(c, "a1", "a2")
	a1, a2 := r.hand("a1", 1), r.hand("a2", 1)
	b.offer(r.client, task("t-1", "train")) // a2 alone has a GPU
	d := a2.take()
	b.enter(d)

	right := a2.result("t-1", d.DispatchID, "succeeded")
	forged, negative, future := right, right, right
	forged.AgentID = "a1"
	negative.DurationMS = -1.5
	future.DispatchID = "t-1.7"
	longAgo := a1.result("of-long-ago", "of-long-ago.1", "succeeded")
	longAgo.Timestamp = "2019-01-01T00:00:00Z"
	elsewhere := a1.result("t-1", "t-2.1", "succeeded")
	nobody := right
	nobody.AgentID = "a99"
	r.say(forged, forged, nobody, negative, future, longAgo, elsewhere)
	r.publish(bus.StreamResult, amqp.Publishing{Body: []byte("null")},
		amqp.Publishing{Body: []byte(`{"message_type":"task.result"`)},
		amqp.Publishing{Body: right.message().Body, ContentEncoding: "gzip"})
	c.awaitStatus("every wrong one is counted", func(s view.Status) bool {
		n := s.Counters.ResultsRefused
		return n["wrong_agent"]+n["unknown"]+n["invalid"]+n["late"] == 10
	})
	// By cause: forged twice, the agent that is none, and an attempt that was never
	// made = 4; a task of which nothing is known, and a dispatch id that is not the
	// task's = 2; a negative duration, and three that are no results = 4.
	n := c.status().Counters.ResultsRefused
	if n["wrong_agent"] != 4 || n["unknown"] != 2 || n["invalid"] != 4 || n["late"] != 0 {
		t.Errorf("refused: %v", n)
	}
	if v := c.task("t-1"); v.State != "dispatched" {
		t.Errorf("t-1 after wrong results: %+v", v)
	}
	if a := c.agent("a2"); a.Leased != 1 || a.InFlight != 1 || a.FreeSlots != 2 {
		t.Errorf("a2 after wrong results: %+v", a)
	}

	t.Log("the right one, 1,000 times")
	r.say(slices.Repeat([]result{right}, copies)...)
	a2.ack(d)
	c.awaitStatus("every copy is counted",
		func(s view.Status) bool { return s.Counters.ResultsRefused["duplicate"] == copies-1 })
	if got := c.status().Counters.Results["succeeded"]; got != 1 {
		t.Errorf("%d results counted, want 1", got)
	}
	if v := c.task("t-1"); v.State != "succeeded" || v.WorkMS != 1.5 {
		t.Errorf("t-1 after its result: %+v", v)
	}
	if got := c.metric(`taskbus_results_refused_total{refusal="duplicate"}`); got != copies-1 {
		t.Errorf("the metric counts %v duplicates, want %d", got, copies-1)
	}
	if lines := strings.Count(c.log.String(), "\n"); lines > 60 {
		t.Errorf("%d log lines: what is repeated must not be", lines)
	}

	t.Log("and work goes on, for both")
	b.offer(r.client, task("t-2", "train"))
	second := a2.take()
	b.enter(second)
	a2.complete(second)
	b.allEnd(t, patience)
	if a := c.agent("a1"); a.FreeSlots != 2 {
		t.Errorf("a1, which had nothing: %+v", a)
	}
	if sessions := c.status().Broker.Sessions; sessions != 1 {
		t.Errorf("%d sessions: one of the results cost the connection", sessions)
	}
	r.close(c, b, nil)
	if got := b.heard("task.completed."); got != 2 {
		t.Errorf("%d times task.completed for two tasks", got)
	}
}

// agents.auth: strict holds for results as for heartbeats.
func TestStrictAuthenticationOfResults(t *testing.T) {
	t.Parallel()
	vhost := brokertest.Vhost(t) // user names belong to the whole broker
	id := "a-" + vhost.VHost[len(vhost.VHost)-8:]
	r := rigOn(t, vhost, replaced(t, fleet, "  a1:", "  auth: strict\n  "+id+":"))
	mine := r.broker.AddUser(t, id)
	r.broker.SetPermissions(t, id, ".*", ".*", ".*")
	b := r.open()
	c := r.start()

	agent := &rig{t: t, broker: mine, config: r.config, client: connect(t, mine)}
	own := beat(id, 0, 2).message()
	own.UserId = id
	agent.publish(bus.StreamStatus, own)
	c.awaitEligible(id)
	h := agent.hand(id, 1)
	b.offer(r.client, task("t-1", "build"))
	d := h.take()
	b.enter(d)

	right := h.result("t-1", d.DispatchID, "succeeded")
	r.say(right) // by the broker's own user, without user_id
	refused := h.result("t-1", d.DispatchID, "succeeded")
	refused.AgentID = "a2"
	forOther := refused.message()
	forOther.UserId = id
	agent.publish(bus.StreamResult, forOther) // as itself, for another
	c.awaitStatus("both are refused",
		func(s view.Status) bool { return s.Counters.ResultsRefused["wrong_sender"] == 2 })
	if v := c.task("t-1"); v.State != "dispatched" {
		t.Errorf("t-1 after forged results: %+v", v)
	}
	signed := right.message()
	signed.UserId = id
	agent.publish(bus.StreamResult, signed)
	h.ack(d)
	b.end(t, "t-1")
	r.close(c, b, nil)
}

// sparse is an agent of one slot that reports every 30 s only.
const sparse = `
agents:
  a1: {capabilities: [code], max_concurrent_tasks: 1, health_check_interval: 30}
task_routing:
  build: {required_capabilities: [code]}
global_settings:
  assignment_timeout_seconds: 60
  stale_agent_threshold_seconds: 120
`

// A result frees its slot at once: twenty tasks in a row, of which each needs the
// one slot, take seconds. By heartbeats they would take 20 × 30 s.
func TestResultsFreeSlotsBeforeTheNextHeartbeat(t *testing.T) {
	t.Parallel()
	r := newRig(t, sparse)
	b := r.open()
	c := r.start()
	a1 := r.agent(b, agentSpec{ID: "a1", Slots: 1, Interval: 30 * time.Second})
	c.awaitEligible("a1")
	begun := time.Now()
	for i := range 20 {
		b.offer(r.client, task(fmt.Sprint("t-", i), "build"))
	}
	b.allEnd(t, patience)
	took := time.Since(begun)
	if took > 10*time.Second {
		t.Errorf("twenty tasks in a row took %v", took)
	}
	t.Logf("20 tasks through one slot in %v", took)
	if a := c.agent("a1"); a.FreeSlots != 1 || a.Leased != 0 {
		t.Errorf("a1 at rest: %+v", a)
	}
	a1.retire()
	r.close(c, b, nil)
}

// An agent that only sends heartbeats is served as ever: nothing is expected of it,
// and nothing times out.
func TestAgentWithoutResultsNeverTimesOut(t *testing.T) {
	t.Parallel()
	r := newRig(t, fleet)
	b := r.open()
	c := r.start()
	r.online(c, "a2")
	h := r.hand("a2", 3)
	b.offer(r.client, task("t-1", "train").within(time.Second))
	d := h.take()
	b.enter(d)
	confirmed := time.Now()
	h.beats(func() heartbeat { return beat("a2", 1, 3) })
	// Its time-out and the margin are 2 s: it works for twice as long.
	eventually(t, patience, "it works far beyond its time", func() (bool, string) {
		return time.Since(confirmed) > 4*time.Second, time.Since(confirmed).String()
	})
	if a := c.agent("a2"); a.InFlight != 1 || a.FreeSlots != 2 || !a.Eligible {
		t.Errorf("a2 at work: %+v", a)
	}
	h.ack(d)
	r.upToDate(b)
	if s := c.status(); s.Counters.TimedOut != 0 || s.Counters.Failed != 0 || len(b.ends) != 0 {
		t.Errorf("counters %+v, ends %+v", s.Counters, b.ends)
	}
	r.finish(c)
	if duplicated, _ := r.balance(b.ledger); duplicated != 0 {
		t.Errorf("%d duplicates", duplicated)
	}
}

// tracked is an agent that lists what it runs, and whose tasks therefore have
// deadlines.
func tracked(id string, slots int, running ...string) heartbeat {
	h := beat(id, len(running), slots)
	h.ActiveIDs = append([]string{}, running...)
	return h
}

// A tracked agent that never answers: the task fails in time, the agent is told to
// stop, and its slot is taken until its own report says otherwise.
func TestTimeout(t *testing.T) {
	t.Parallel()
	r := newRig(t, fleet)
	b := r.open()
	c := r.start()
	h := r.hand("a2", 3)
	control := h.control()
	r.reported(c, tracked("a2", 3))
	b.offer(r.client, task("t-1", "train").within(time.Second))
	d := h.take()
	b.enter(d)
	listed := time.Now()
	r.reported(c, tracked("a2", 3, "t-1"))
	e := b.end(t, "t-1")
	// Anew from the report that first lists it: 1 s, and 1 s for the agent itself.
	if took := time.Since(listed); e.What != "task_timeout" || e.Attempts != 1 || took < 2*time.Second || took > patience {
		t.Errorf("after %v: %+v", took, e)
	}
	told := receive(t, h.client, control)
	cancel, refusal := newDecoder(t).DecodeTaskCancel(told.Body)
	if refusal != nil || cancel.TaskID != "t-1" || cancel.DispatchID != d.DispatchID ||
		cancel.CorrelationID != "trace-t-1" || cancel.Reason != "task_timeout" {
		t.Errorf("told to stop: %s", told.Body)
	}
	r.reported(c, tracked("a2", 3, "t-1"))
	if a := c.agent("a2"); a.FreeSlots != 2 || a.InFlight != 1 {
		t.Errorf("a2 still runs it: %+v", a)
	}
	r.reported(c, tracked("a2", 3))
	if a := c.agent("a2"); a.FreeSlots != 3 || a.Leased != 0 {
		t.Errorf("a2 runs it no longer: %+v", a)
	}

	t.Log("what it says then comes too late")
	h.complete(d)
	c.awaitStatus("the late result is counted",
		func(s view.Status) bool { return s.Counters.ResultsRefused["late"] == 1 })
	if s := c.status(); s.Counters.TimedOut != 1 || s.Counters.Results["succeeded"] != 0 {
		t.Errorf("counters %+v", s.Counters)
	}
	r.close(c, b, map[string]string{"t-1": "task_timeout"})
}
