package integration

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"taskbus/coordinator"
	"taskbus/coordinator/bus"
	"taskbus/coordinator/view"
	"taskbus/tests/support/brokertest"
)

// Faults that one virtual host can have by itself; those of a whole node are in
// alarms_and_outages_test.go, those of the process in kill_test.go.

// An operator closes every connection, in the middle of a stream of tasks.
func TestConnectionsClosedByOperator(t *testing.T) {
	t.Parallel()
	r := newRig(t, crowd)
	c := r.start()
	// The agents' and the producer's connections are closed as well, so the books
	// are kept without them: the tasks are in the broker before, and read after.
	l := newLedger()
	var all []request
	for i := range 2_000 {
		all = append(all, task(fmt.Sprint("t-", i), "build"))
	}
	l.offer(r.client, all...)
	r.online(c, "a1", "a2", "a3", "a4") // now 1,600 of them can go
	r.broker.CloseConnections(t)
	c.awaitStatus("a second session", func(s view.Status) bool { return s.Broker.Sessions >= 2 && s.Readiness.Ready })
	e := c.log.await(t, "no broker session; tasks stay in the broker; trying again")
	if text := fmt.Sprint(e["error"]); !strings.Contains(text, "320") && !strings.Contains(text, "closed by a test") {
		t.Errorf("why the session ended: %v", e)
	}
	r.client = connect(t, r.broker)
	r.workCrowd(l)
	l.drained(t, 30*time.Second)
	if n := c.status().Broker.Sessions; n > 4 {
		t.Errorf("%d sessions after one fault: a storm", n)
	}
	r.finish(c)
	duplicated, _ := r.balance(l)
	if duplicated > 2_000 {
		t.Errorf("%d duplicates of 2,000 tasks by one fault", duplicated)
	}
}

func TestTaskAssignDeletedUnderTheCoordinator(t *testing.T) {
	t.Parallel()
	r := newRig(t, fleet)
	c := r.start()
	r.online(c, "a1")
	r.broker.DeleteQueue(t, bus.QueueAssign)
	c.awaitStatus("the session is opened anew", func(s view.Status) bool {
		return s.Broker.Sessions >= 2 &&
			s.Readiness.Ready
	})
	if q := r.broker.QueueInfo(t, bus.QueueAssign); q.Type != "quorum" {
		t.Fatalf("task.assign was not declared again: %+v", q)
	}
	r.assign(task("t-1", "build"))
	r.dispatches("a1", 1)
	r.finish(c)
}

// The broker returns a dispatch for which there is no queue; the queue is declared
// again and the task goes there, or to another agent at once.
func TestAgentQueueDeleted(t *testing.T) {
	t.Parallel()
	// A broker that is busy may take seconds to declare a queue.
	r := newRig(t, replaced(t, fleet, "assignment_timeout_seconds: 1", "assignment_timeout_seconds: 60"))
	c := r.start()
	r.online(c, "a2")
	const there = "the agent's queue is there (again)"
	returned := func() float64 { return c.metric(`taskbus_publish_outcomes_total{outcome="unroutable"}`) }
	// A look at the queue in its turn may find the loss before the dispatch does: rarely twice.
	round := 0
	for returned() == 0 && round < 3 {
		round++
		id := fmt.Sprintf("gpu-%d", round)
		r.broker.DeleteQueue(t, "agent.a2")
		r.assign(task(id, "train")) // no other agent has a GPU
		// Until the broker has answered its declaration the queue can be seen, but a client that
		// reads from it loses its connection (INTERNAL_ERROR, noproc).
		eventually(t, patience, "the queue is declared again", func() (bool, string) {
			n := strings.Count(c.log.String(), there)
			return n >= round, fmt.Sprint(n)
		})
		if d := r.dispatches("a2", 1)[0]; d.TaskID != coordinator.TaskID(id) || d.Attempt != 1 {
			t.Errorf("a2 got %s, attempt %d", d.TaskID, d.Attempt)
		}
	}
	if returned() == 0 {
		t.Error("no dispatch was returned: the fault did not fire")
	}

	t.Log("with an alternative nobody waits")
	r.online(c, "a1", "a2")
	r.broker.DeleteQueue(t, "agent.a1")
	r.assign(task("t-2", "build"), task("t-3", "build"))
	c.awaitStatus("both are assigned", func(s view.Status) bool { return int(s.Counters.Dispatched) == round+2 })
	if sessions := c.status().Broker.Sessions; sessions != 1 {
		t.Errorf("%d sessions: a missing agent's queue must not cost the session", sessions)
	}
	r.finish(c)
}

// A full queue refuses the dispatch, and another agent gets the task; when there
// is no other, it fails with that reason.
func TestAgentQueueFull(t *testing.T) {
	t.Parallel()
	config := replaced(t, literally(t, fleet), "max_concurrent_tasks: 3", "max_concurrent_tasks: 20")
	r := newRig(t, replaced(t, config, "{required_capabilities: [code]}",
		"{required_capabilities: [code], preferred_agents: [a2]}"))
	c := r.start()
	r.broker.SetPolicy(t, "full", `^agent\.a2$`, map[string]any{"max-length": 1, "overflow": "reject-publish"})
	r.online(c, "a1", "a2")
	// A quorum queue may take a few too many before it refuses.
	sent := 0
	for c.metric(`taskbus_publish_outcomes_total{outcome="rejected"}`) == 0 {
		if sent++; sent > 10 {
			t.Fatal("none of ten dispatches to a queue for one was refused: the fault did not fire")
		}
		r.assign(task(fmt.Sprint("t-", sent), "build"))
		c.awaitStatus("it is assigned", func(s view.Status) bool { return s.Counters.Dispatched == uint64(sent) })
	}
	if d := r.dispatches("a1", 1)[0]; string(d.TaskID) != fmt.Sprint("t-", sent) || d.Attempt != 1 {
		t.Errorf("a1 got %s, attempt %d: want the one that was refused, and that was no attempt", d.TaskID, d.Attempt)
	}
	r.holds("agent.a2", sent-1)

	r.assign(task("t-gpu", "train"))
	f := r.failures(1)[0]
	if f.TaskID != "t-gpu" || f.ReasonCode != "all_agents_at_capacity" || f.Candidates.Refused["queue_full"] != 1 {
		t.Errorf("%s", f.amqp.Body)
	}
	if n := c.status().Broker.Sessions; n != 1 {
		t.Errorf("%d sessions: a full queue must not cost the session", n)
	}
	r.finish(c)
}

// Permissions are revoked and given back: the reason is visible, the broker is
// asked with growing pauses, and work goes on by itself.
func TestPermissionsRevokedAndRestored(t *testing.T) {
	t.Parallel()
	r := newRig(t, fleet)
	user := "revoked-" + r.broker.VHost
	mine := r.broker.AddUser(t, user)
	r.broker.SetPermissions(t, user, ".*", ".*", ".*")
	c := r.launch(mine.URL)
	c.awaitReady()
	r.online(c, "a1")
	before, begun := c.status().Broker.Sessions, time.Now()

	r.broker.SetPermissions(t, user, "", "", "")
	r.broker.CloseConnections(t) // the broker caches permissions for each channel
	r.client = connect(t, r.broker)
	var detail string
	eventually(t, patience, "/health says why", func() (bool, string) {
		detail = c.health().Checks["broker"].Detail
		// The session may have lost the permission to write first; the next one is refused what it declares.
		return strings.Contains(detail, "refused access") && strings.Contains(detail, "configure"), detail
	})
	if !strings.Contains(detail, "403") {
		t.Errorf("/health does not say 403: %s", detail)
	}
	if code, _ := c.get("/health"); code != 503 {
		t.Errorf("/health answers %d without a broker, want 503", code)
	}
	// No hot loop. The pauses are drawn from 0 to a bound that doubles from 250 ms:
	// even if every one were a tenth of its bound, six tries would take
	// 25+50+100+200+400+800 ms > 1.5 s.
	eventually(t, patience, "three more tries", func() (bool, string) {
		n := c.status().Broker.Sessions
		return n >= before+4, fmt.Sprint(n)
	})
	tries, took := c.status().Broker.Sessions-before, time.Since(begun)
	if limit := 6 + uint64(took/(250*time.Millisecond)); tries > limit {
		t.Errorf("%d tries in %v: a hot loop", tries, took)
	}

	r.assign(task("t-1", "build")) // waits in the broker meanwhile
	r.broker.SetPermissions(t, user, ".*", ".*", ".*")
	c.awaitReady()
	r.report(beat("a1", 0, 2))
	if d := r.dispatches("a1", 1)[0]; d.TaskID != "t-1" {
		t.Errorf("a1 got %s", d.TaskID)
	}
	r.finish(c)
}

// With a wrong password the coordinator says so, goes on trying, and ends only by
// a signal.
func TestWrongPasswordAtStart(t *testing.T) {
	t.Parallel()
	r := newRig(t, fleet)
	c := r.launch(r.broker.As(t, "nobody", "wr0ng-canary").URL)
	var detail string
	eventually(t, patience, "/health says why", func() (bool, string) {
		detail = c.health().Checks["broker"].Detail
		return strings.Contains(detail, "refused access"), detail
	})
	c.awaitStatus("it tries again", func(s view.Status) bool { return s.Broker.Sessions >= 3 && !s.Broker.Connected })
	c.alive()
	if code, _ := c.get("/livez"); code != 200 {
		t.Errorf("/livez answers %d: the process is alive whatever the broker does", code)
	}
	if code, body := c.get("/readyz"); code != 503 || !strings.Contains(body, "connecting") {
		t.Errorf("/readyz answers %d %s", code, body)
	}
	for _, path := range []string{"/health", "/status", "/metrics", "/readyz"} {
		if _, body := c.get(path); strings.Contains(body, "wr0ng-canary") {
			t.Errorf("%s shows the password", path)
		}
	}
	c.stop()
}

// Two coordinators: the second stands by and takes over.
func TestStandbyTakesOver(t *testing.T) {
	t.Parallel()
	const tasks = 6_000
	r := newRig(t, crowd)
	first := r.start()
	second := r.launch(r.broker.URL)
	second.awaitState("standby")
	if h := second.health(); h.Checks["broker"].Status != view.Healthy {
		t.Errorf("a standby's health: %+v", h)
	}
	l := newLedger()
	r.workCrowd(l)
	sent := r.stream(l, "t", tasks)
	first.awaitStatus("the first is in full swing", func(s view.Status) bool { return s.Counters.Dispatched > 500 })
	if n := second.status().Counters.Received; n != 0 {
		t.Errorf("the standby took %d tasks beside the leader", n)
	}
	first.kill()
	died := time.Now()
	second.awaitReady()
	// The lock is looked for every 500 ms, and the broker notices a killed process at once.
	if took := time.Since(died); took > 2*time.Second {
		t.Errorf("the take-over took %v, want at most 2 s", took)
	}
	third := r.launch(r.broker.URL)
	third.awaitState("standby")
	<-sent
	l.drained(t, 60*time.Second)
	r.finish(second) // and an orderly end hands over as well
	third.awaitReady()
	r.balance(l)
	r.finish(third)
}

// `topology: verify` refuses to work without what it needs and says what that is;
// once an operator has seen to it, work begins without a restart.
func TestTopologyVerifyAndOff(t *testing.T) {
	t.Parallel()
	r := newRig(t, "topology: verify"+fleet)
	c := r.launch(r.broker.URL)
	eventually(t, patience, "the missing exchange is named", func() (bool, string) {
		d := c.health().Checks["broker"].Detail
		return strings.Contains(d, `taskbus: the exchange does not exist; create it with: taskbus topology apply`), d
	})
	if n := c.metric(`taskbus_amqp_sessions_total{reason="topology"}`); n < 1 {
		t.Error("the session's end is not counted as one for want of topology")
	}
	if r.broker.QueueInfo(t, bus.QueueAssign).Exists {
		t.Error("verify declared a queue")
	}
	out := r.tool("topology", "apply", "--config", r.config)
	c.awaitReady()
	r.online(c, "a1")
	r.assign(task("t-1", "build"))
	r.dispatches("a1", 1)
	if !r.broker.QueueInfo(t, "agent.a2").Exists {
		t.Errorf("topology apply said %q and did not declare agent.a2", out)
	}
	r.finish(c)

	t.Log("off: nothing is looked at; what exists is used")
	r.writeConfig("topology: off" + fleet)
	c = r.start()
	r.online(c, "a1")
	r.broker.DeleteQueue(t, "agent.a2")
	r.assign(task("t-2", "build"))
	r.dispatches("a1", 1)
	if r.broker.QueueInfo(t, "agent.a2").Exists {
		t.Error("off declared a queue")
	}
	r.finish(c)
}

// agents.auth: strict with the least permissions that an agent needs.
func TestStrictAuthentication(t *testing.T) {
	t.Parallel()
	// User names belong to the whole broker: the agent's id must be this test's own.
	b := brokertest.Vhost(t)
	id := "a-" + b.VHost[len(b.VHost)-8:]
	r := rigOn(t, b, replaced(t, fleet, "  a1:", "  auth: strict\n  "+id+":"))
	agent := r.broker.AddUser(t, id)
	r.broker.SetPermissions(t, id, `^agent\.`+id+`\.control$`, `^(taskbus\.agents|agent\.`+id+`\.control)$`,
		`^(agent\.`+id+`|agent\.`+id+`\.control|taskbus\.control)$`)
	c := r.start()
	r.broker.SetTopicPermissions(t, id, bus.ExchangeAgents, `^(agent\.status|task\.result)\.{username}$`, "")

	forged := beat(id, 0, 2).message() // by the broker's own user, without user_id
	r.publish(bus.StreamStatus, forged)
	c.awaitStatus("the forged one is refused",
		func(s view.Status) bool { return s.Counters.StatusRefused["wrong_sender"] == 1 })
	if a := c.agent(id); a.State != "never_seen" {
		t.Errorf("after a forged heartbeat: %+v", a)
	}
	c.log.await(t,
		"message refused: the agent must publish it as its own user, with the property user_id (said once for each agent "+
			"and message type)")

	own := beat(id, 0, 2).message()
	own.UserId = id
	agent.Publish(t, bus.ExchangeAgents, "agent.status."+id, own)
	c.awaitAgent(id, "is online", func(a view.Agent) bool { return a.Eligible })
	r.assign(task("t-1", "build"))
	if d := agent.Get(t, "agent."+id, 1); len(d) != 1 {
		t.Error("the agent cannot read its own queue")
	}
	other := beat("a2", 0, 3).message()
	other.UserId = id
	r.refused(agent, "agent.status.a2", other) // the broker itself refuses the other's key
	own = beat("a2", 0, 3).message()
	own.UserId = id
	agent.Publish(t, bus.ExchangeAgents, "agent.status."+id, own) // by its own key, but for another
	c.awaitStatus("it is refused", func(s view.Status) bool { return s.Counters.StatusRefused["wrong_sender"] == 2 })
	if a := c.agent("a2"); a.State != "never_seen" {
		t.Errorf("a2 after %s spoke for it: %+v", id, a)
	}
	r.finish(c)
}

// refused publishes what the broker must refuse with 403.
func (r *rig) refused(b brokertest.Broker, key string, msg amqp.Publishing) {
	r.t.Helper()
	channel, err := b.Dial(r.t).Channel()
	if err != nil {
		r.t.Fatal(err)
	}
	closed := channel.NotifyClose(make(chan *amqp.Error, 1))
	if err := channel.Publish(bus.ExchangeAgents, key, false, false, msg); err != nil {
		r.t.Fatal(err)
	}
	select {
	case reason := <-closed:
		if reason == nil || reason.Code != amqp.AccessRefused {
			r.t.Errorf("publishing with the key %s: %v, want 403", key, reason)
		}
	case <-time.After(patience):
		r.t.Errorf("the broker let a message with the key %s through", key)
	}
}

// tool runs another command of the program, as an operator would.
func (r *rig) tool(args ...string) string {
	r.t.Helper()
	cmd := exec.Command(program, args...)
	cmd.Env = []string{"RABBITMQ_URL=" + r.broker.URL, "PATH=" + os.Getenv("PATH"), raceOptions}
	out, err := cmd.CombinedOutput()
	if err != nil {
		r.t.Fatalf("taskbus %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}
