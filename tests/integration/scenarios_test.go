package integration

import (
	"fmt"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"taskbus/coordinator"
	"taskbus/coordinator/bus"
	"taskbus/coordinator/view"
)

// The five scenarios of COORDINATOR's integration tests, each with everything
// that an agent or a producer can see.

func TestSingleAssignment(t *testing.T) {
	t.Parallel()
	r := newRig(t, fleet)
	c := r.start()
	r.online(c, "a1", "a2")

	// Odd to look at, so that a payload taken apart and put together again would
	// show: white space, a number beyond float64, an escaped and a plain umlaut.
	const payload = "{ \"n\":12345678901234567890,\t\"s\" : \"\\u00fc\xc3\xbc\", \"e\":1.0e2}"
	r.publish(bus.QueueAssign, amqp.Publishing{
		Body: []byte(`{"message_type":"task.assign","task_id":"task_456","task_type":"train","payload":` + payload +
			`,"priority":2,"correlation_id":"trace_123","timeout_seconds":300}`),
		CorrelationId: "not-this-one", // the body's counts
		Headers: amqp.Table{"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
			"tracestate": "k=v", "x-own": "stays behind"},
	})

	d := r.dispatches("a2", 1)[0] // the only one with a GPU
	if d.TaskID != "task_456" || d.AssignedAgent != "a2" || d.CorrelationID != "trace_123" || d.Queue != "agent.a2" ||
		d.TaskType != "train" || d.Priority != 2 || d.TimeoutSeconds != 300 || attemptID(d.DispatchID) != "task_456.1" ||
		d.Attempt != 1 {
		t.Errorf("the dispatch's body: %s", d.amqp.Body)
	}
	if age := time.Since(d.AssignmentTime); age < 0 || age > time.Minute {
		t.Errorf("assignment_time is %v ago", age)
	}
	if string(d.Payload) != payload {
		t.Errorf("payload %s, want %s byte for byte", d.Payload, payload)
	}
	m := d.amqp
	if m.DeliveryMode != amqp.Persistent || m.ContentType != "application/json" || m.Type != "task.dispatch" ||
		m.AppId != "taskbus" ||
		attemptID(m.MessageId) != "task_456.1" || m.CorrelationId != "trace_123" || m.Expiration != "60000" ||
		time.Since(m.Timestamp) > time.Minute {
		t.Errorf("the dispatch's properties: %+v", m)
	}
	for name, want := range map[string]any{
		"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "tracestate": "k=v",
		"x-own": nil, "x-taskbus-maybe-duplicate": nil,
	} {
		if got := m.Headers[name]; got != want {
			t.Errorf("header %s is %v, want %v", name, got, want)
		}
	}

	line := c.log.await(t, "task assigned")
	if line["trace_id"] != "trace_123" || line["task_id"] != "task_456" || line["agent_id"] != "a2" ||
		line["level"] != "info" {
		t.Errorf("the log line: %v", line)
	}
	if v := c.task("task_456"); v.State != "dispatched" || v.Agent != "a2" || v.CorrelationID != "trace_123" ||
		v.Strategy != "capability_match" {
		t.Errorf("/tasks/task_456: %+v", v)
	}
	if n := c.metric(`taskbus_assignments_total{reason="",result="assigned",strategy="capability_match"}`); n != 1 {
		t.Errorf("%v assignments counted, want 1", n)
	}
	r.empty("agent.a1", bus.QueueFailed, bus.QueueDead)
	r.finish(c)
}

func TestFiveConcurrentAssignments(t *testing.T) {
	t.Parallel()
	r := newRig(t, fleet)
	c := r.start()
	r.online(c, "a1", "a2") // 2 + 3 slots

	start, confirmed := make(chan struct{}), make(chan int)
	for i := range 5 {
		producer := connect(t, r.broker)
		go func() {
			<-start
			confirmed <- count(producer.tryPublish(bus.QueueAssign, task(fmt.Sprint("t-", i), "build").message()))
		}()
	}
	close(start)
	for range 5 {
		if <-confirmed != 1 {
			t.Fatal("a task was not confirmed")
		}
	}

	// Five tasks and five slots: in any order, every slot is used once.
	seen := map[string]bool{}
	for _, d := range append(r.dispatches("a1", 2), r.dispatches("a2", 3)...) {
		id := string(d.TaskID)
		if seen[id] || d.CorrelationID != "trace-"+id || d.amqp.CorrelationId != "trace-"+id ||
			string(d.Payload) != fmt.Sprintf(`{"of":%q}`, id) {
			t.Errorf("dispatch %s, seen before: %t: %s", id, seen[id], d.amqp.Body)
		}
		seen[id] = true
	}
	r.empty("agent.a1", "agent.a2", bus.QueueFailed, bus.QueueDead)
	r.finish(c)
}

func TestNoEligibleAgent(t *testing.T) {
	t.Parallel()
	r := newRig(t, fleet)
	c := r.start()
	r.online(c, "a1") // a2, the one with the GPU, stays away
	replies, err := r.channel.QueueDeclare("", false, true, true, false, nil)
	if err != nil {
		t.Fatal(err)
	}

	for _, tt := range []struct {
		taskType, code string
		retry          bool
		reason         string
		missing        string
	}{
		// No agent of the fleet speaks French.
		{"translate", "no_eligible_agents", false, "0 of 2 agents eligible: 2 lack `french`", "french"},
		// a2 could, but was never heard; a1 lacks a GPU.
		{"train", "no_agents_online", true,
			"0 of 2 agents eligible: 1 lack `gpu`, 1 never reported; nearest: a2 (never reported)", "gpu"},
		// COORDINATOR's configuration error.
		{"paint", "unknown_task_type", false,
			`task type "paint" is not in task_routing and the task names no required_capabilities`, ""},
	} {
		id := "t-" + tt.taskType
		m := task(id, tt.taskType).message()
		m.ReplyTo = replies.Name
		r.publish(bus.QueueAssign, m)
		f := r.failures(1)[0]
		if string(f.TaskID) != id || f.CorrelationID != "trace-"+id || f.ReasonCode != tt.code ||
			f.RetryPossible != tt.retry ||
			f.Reason != tt.reason || f.SuggestedAction == "" || f.Attempts != 0 || time.Since(f.FailedAt) > time.Minute {
			t.Errorf("%s: %s", tt.taskType, f.amqp.Body)
		}
		if tt.missing != "" && (f.Candidates == nil || f.Candidates.Fleet != 2 ||
			f.Candidates.MissingCapabilities[tt.missing] == 0) {
			t.Errorf("%s: candidates %+v", tt.taskType, f.Candidates)
		}
		if p := f.amqp; p.Exchange != bus.ExchangeEvents || p.RoutingKey != "assignment.failed."+tt.code ||
			p.Type != "assignment.failed" ||
			p.DeliveryMode != amqp.Persistent || p.CorrelationId != "trace-"+id || p.AppId != "taskbus" ||
			p.MessageId != id+".failed" {
			t.Errorf("%s: properties %+v", tt.taskType, p)
		}
		reply := receive(t, r.client, replies.Name)
		if string(reply.Body) != string(f.amqp.Body) || reply.CorrelationId != "trace-"+id {
			t.Errorf("%s: the copy for the producer's reply_to: %s", tt.taskType, reply.Body)
		}
		if v := c.task(id); v.State != "failed" || v.ReasonCode != tt.code {
			t.Errorf("/tasks/%s: %+v", id, v)
		}
	}
	for _, e := range c.log.find("task failed") {
		if e["level"] != "error" || !strings.HasPrefix(fmt.Sprint(e["trace_id"]), "trace-t-") {
			t.Errorf("log line %v", e)
		}
	}
	r.empty("agent.a1", "agent.a2", bus.QueueDead)
	r.finish(c)
}

// receive takes the next message of a queue of the client's own.
func receive(t *testing.T, c *client, queue string) (got amqp.Delivery) {
	t.Helper()
	eventually(t, patience, "a message in "+queue, func() (bool, string) {
		var ok bool
		var err error
		if got, ok, err = c.channel.Get(queue, true); err != nil {
			t.Fatal(err)
		}
		return ok, "nothing"
	})
	return got
}

func TestAllAgentsAtCapacity(t *testing.T) {
	t.Parallel()
	r := newRig(t, literally(t, fleet))
	c := r.start()
	r.online(c, "a2") // 3 slots, and the only GPU
	r.assign(task("t-1", "train"), task("t-2", "train"), task("t-3", "train"))
	r.holds("agent.a2", 3)

	r.assign(task("t-4", "train"))
	f := r.failures(1)[0] // after assignment_timeout_seconds
	if f.TaskID != "t-4" || f.CorrelationID != "trace-t-4" || f.ReasonCode != "all_agents_at_capacity" ||
		!f.RetryPossible ||
		f.Reason != "0 of 2 agents eligible: 1 lack `gpu`, 1 full; nearest: a2 (full)" {
		t.Errorf("the fourth task for three slots: %s", f.amqp.Body)
	}
	if n := f.Candidates.Nearest; n == nil || n.AgentID != "a2" || n.Why != "full" {
		t.Errorf("nearest: %+v", n)
	}
	if waited := time.Duration(c.task("t-4").DurationMS * float64(time.Millisecond)); waited < time.Second ||
		waited > patience {
		t.Errorf("it waited %v, want assignment_timeout_seconds (1 s)", waited)
	}

	// One that waits gets the slot as soon as it is free, without a retry.
	r.assign(task("t-5", "train"))
	c.awaitStatus("t-5 waits", func(s view.Status) bool {
		return s.Pending.Total == 1 && s.Pending.ByReason["all_agents_at_capacity"] == 1
	})
	r.report(beat("a2", 2, 3)) // one of the three is done
	if d := r.dispatches("a2", 4)[3]; d.TaskID != "t-5" {
		t.Errorf("the fourth dispatch to a2 is %s", d.TaskID)
	}
	r.empty("agent.a1", bus.QueueFailed, bus.QueueDead)
	r.finish(c)
}

func TestPriorityAssignment(t *testing.T) {
	t.Parallel()
	r := newRig(t, replaced(t, fleet, "assignment_timeout_seconds: 1", "assignment_timeout_seconds: 30"))
	c := r.start()

	t.Log("what waits is served by priority, whatever the order of arrival")
	r.reported(c, beat("a2", 3, 3)) // busy with work of its own
	r.assign(task("low", "train").at(coordinator.PriorityLow), task("normal", "train"),
		task("critical", "train").at(coordinator.PriorityCritical), task("high", "train").at(coordinator.PriorityHigh))
	c.awaitStatus("all four wait", func(s view.Status) bool { return s.Pending.Total == 4 })
	for _, want := range []string{"critical", "high", "normal", "low"} {
		r.report(beat("a2", 2, 3)) // one slot is free, and then taken
		if d := r.dispatches("a2", 1)[0]; string(d.TaskID) != want {
			t.Errorf("got %s, want %s", d.TaskID, want)
		}
		// What the agent says before the coordinator has the broker's confirm says nothing of this task.
		c.awaitStatus("the dispatch is confirmed", func(s view.Status) bool { return s.Pending.Dispatching == 0 })
	}

	t.Log("priority_based: urgent work goes to the best rank, other work to the least loaded")
	r.reported(c, beat("a2", 0, 3))
	r.reported(c, beat("a1", 1, 2)) // rank 1, at half load
	urgent, plain := task("urgent", "build").at(coordinator.PriorityHigh), task("plain", "build")
	urgent.Strategy, plain.Strategy = "priority_based", "priority_based"
	r.assign(plain)
	if d := r.dispatches("a2", 1)[0]; d.TaskID != "plain" {
		t.Errorf("a2 got %s", d.TaskID)
	}
	r.assign(urgent)
	if d := r.dispatches("a1", 1)[0]; d.TaskID != "urgent" || c.task("urgent").Strategy != "priority_based" {
		t.Errorf("a1 got %s", d.TaskID)
	}
	r.empty("agent.a1", "agent.a2", bus.QueueFailed, bus.QueueDead)
	r.finish(c)
}

// task.assign.high is read beside a backlog in task.assign that fills the window.
func TestHighLaneAndExchange(t *testing.T) {
	t.Parallel()
	config := replaced(t, fleet, "assignment_timeout_seconds: 1",
		"assignment_timeout_seconds: 30\n  window: 2\n  lanes: false")
	r := newRig(t, config)
	c := r.start()
	r.reported(c, beat("a2", 2, 3)) // one slot
	// t-1 takes the slot, t-2 and t-3 fill the window, t-4 is not even seen.
	r.assign(task("t-1", "train"), task("t-2", "train"), task("t-3", "train"), task("t-4", "train"))
	// What the agent says before the coordinator has the broker's confirm says nothing of that task.
	c.awaitStatus("two wait, one is dispatched", func(s view.Status) bool {
		return s.Pending.Total == 2 &&
			s.Pending.Dispatching == 0
	})
	r.publish(bus.QueueAssignHigh, task("urgent", "train").at(coordinator.PriorityCritical).message())
	c.awaitStatus("the urgent one is seen", func(s view.Status) bool { return s.Pending.ByPriority["critical"] == 1 })
	if c.status().Counters.Received != 4 {
		t.Error("the window of two tasks did not hold the fourth back")
	}
	r.report(beat("a2", 2, 3))
	got := r.dispatches("a2", 2)
	if got[0].TaskID != "t-1" || got[1].TaskID != "urgent" {
		t.Errorf("a2 got %s, %s", got[0].TaskID, got[1].TaskID)
	}
	c.awaitStatus("both dispatches are confirmed", func(s view.Status) bool { return s.Pending.Dispatching == 0 })
	r.report(beat("a2", 0, 3))
	r.dispatches("a2", 3)

	r.broker.Publish(t, bus.ExchangeIn, "task.assign", task("t-5", "build").message())
	r.broker.Publish(t, bus.ExchangeIn, "agent.status.a1", beat("a1", 0, 2).message())
	if d := r.dispatches("a1", 1)[0]; d.TaskID != "t-5" {
		t.Errorf("through the exchange taskbus: a1 got %s", d.TaskID)
	}
	r.empty("agent.a1", "agent.a2", bus.QueueFailed, bus.QueueDead)
	r.finish(c)
}

// However many tasks wait, an agent's known work stays within its slots (S6), also
// across a lost session: what was dispatched before it still counts.
func TestFleetIsNeverOvershot(t *testing.T) {
	t.Parallel()
	r := newRig(t, replaced(t, fleet, "assignment_timeout_seconds: 1", "assignment_timeout_seconds: 60"))
	c := r.start()
	r.online(c, "a1", "a2") // 2 + 3 slots
	burst := make([]request, 60)
	for i := range burst {
		burst[i] = task(fmt.Sprint("t-", i), "build")
	}
	r.assign(burst...)
	full := func(what string, waiting int) {
		t.Helper()
		c.awaitStatus(what, func(s view.Status) bool { return s.Pending.Total == waiting && s.Pending.Dispatching == 0 })
		if a1, a2 := r.ready("agent.a1"), r.ready("agent.a2"); a1 != 2 || a2 != 3 {
			t.Errorf("%s: a1 has %d of 2, a2 %d of 3", what, a1, a2)
		}
	}
	full("five slots are taken", 55)
	r.dispatches("a1", 1)
	r.report(beat("a1", 1, 2)) // one of its two is done
	full("a freed slot is taken, once", 54)
	r.broker.CloseConnections(t)
	c.awaitStatus("a second session", func(s view.Status) bool { return s.Broker.Sessions >= 2 && s.Readiness.Ready })
	r.client = connect(t, r.broker)
	full("after a lost session", 54)
	r.dispatches("a2", 3)
	r.report(beat("a2", 0, 3))
	full("three freed slots are taken, once", 51)
	c.stop()
	r.holds(bus.QueueAssign, 51)
}
