package integration

import (
	"encoding/json"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"taskbus/coordinator/bus"
	"taskbus/coordinator/view"
	"taskbus/tests/support/brokertest"
)

// SIGTERM: the agent takes nothing more, finishes what it can, gives back what it
// cannot, and ends with exit code 0. No task is lost, none is done twice.
func TestAgentDrainsOnSIGTERM(t *testing.T) {
	t.Parallel()
	r := newRig(t, quartet)
	b := r.open()
	c := r.start()
	// Long enough for all that happens before t-slow is given back, on a busy machine.
	a1 := r.agent(b, agentSpec{ID: "a1", Slots: 2, Drain: 6 * time.Second})
	c.awaitEligible("a1")
	b.offer(r.client, task("t-quick", "build").doing(deedHold), task("t-slow", "build").doing(deedHold))
	b.runs(t, "t-quick", 1)
	b.runs(t, "t-slow", 1)
	a2 := r.agents(c, b, 2, "a2")["a2"]
	a1.signal(syscall.SIGTERM)
	c.awaitAgent("a1", "says that it goes", func(a view.Agent) bool { return a.State == "offline" })
	b.offer(r.client, task("t-new", "build"))
	if e := b.end(t, "t-new"); e.Agent != "a2" {
		t.Errorf("given to an agent that goes: %+v", e)
	}
	a1.letGo("t-quick")
	if e := b.end(t, "t-quick"); e.Agent != "a1" || e.What != "succeeded" || e.Attempt != 1 {
		t.Errorf("finished while it drains: %+v", e)
	}
	if second := b.runs(t, "t-slow", 2); second.agent != "a2" {
		t.Errorf("given back: %+v", second)
	}
	if code := a1.wait(patience); code != 0 {
		t.Errorf("exit code %d after SIGTERM, want 0", code)
	}
	a2.letGo("t-slow")
	if e := b.end(t, "t-slow"); e.Agent != "a2" || e.Attempt != 2 || e.Late {
		t.Errorf("given back: %+v", e)
	}
	a2.retire()
	r.close(c, b, nil)
	if n := len(b.begunBy("t-quick")) + len(b.begunBy("t-new")); n != 2 {
		t.Errorf("%d runs of two tasks", n)
	}
}

// An operator closes the agent's connection under a running handler: the work goes
// on, its result is sent in the next session, and the message is acknowledged.
func TestAgentLosesItsConnection(t *testing.T) {
	t.Parallel()
	const closings = 3 // the fifth return of one message would be its last
	r := newRig(t, replaced(t, quartet, "stale_agent_threshold_seconds: 3", "stale_agent_threshold_seconds: 60"))
	b := r.open()
	c := r.start()
	user := "agent-" + r.broker.VHost
	mine := r.broker.AddUser(t, user)
	r.broker.SetPermissions(t, user, ".*", ".*", ".*")
	a1 := r.agentAt(mine.URL, b, agentSpec{ID: "a1", Slots: 2})
	c.awaitEligible("a1")
	b.offer(r.client, task("t-1", "build").doing(deedHold))
	b.runs(t, "t-1", 1)
	c.awaitWorking("a1")
	for i := range closings {
		r.broker.CloseConnectionsOf(t, user)
		eventually(t, patience, "it is back", func() (bool, string) {
			n := len(a1.log.find("takes tasks"))
			return n == i+2, a1.log.tail(3)
		})
	}
	a1.letGo("t-1")
	if e := b.end(t, "t-1"); e.What != "succeeded" || e.Agent != "a1" || e.Attempt != 1 {
		t.Errorf("%+v", e)
	}
	if by := b.begunBy("t-1"); len(by) != 1 {
		t.Errorf("begun by %v, want once", by)
	}
	c.awaitAgent("a1", "is idle", func(a view.Agent) bool { return a.FreeSlots == 2 && a.Leased == 0 })
	a1.retire()
	r.close(c, b, nil)
}

// deployed makes a user with the permissions of one in deploy/rabbitmq/definitions.json,
// under another name: user names belong to the whole broker.
func (r *rig) deployed(role, name string) brokertest.Broker {
	r.t.Helper()
	text, err := os.ReadFile("../../deploy/rabbitmq/definitions.json")
	if err != nil {
		r.t.Fatal(err)
	}
	var all struct {
		Permissions []struct{ User, Configure, Write, Read string }
		Topics      []struct{ User, Exchange, Write, Read string } `json:"topic_permissions"`
	}
	if err := json.Unmarshal(text, &all); err != nil {
		r.t.Fatal(err)
	}
	user, found := r.broker.AddUser(r.t, name), false
	mine := strings.NewReplacer(`agent\.`+role, `agent\.`+name, `answers\.`+role, `answers\.`+name)
	for _, p := range all.Permissions {
		if p.User == role {
			r.broker.SetPermissions(r.t, name, mine.Replace(p.Configure), mine.Replace(p.Write), mine.Replace(p.Read))
			found = true
		}
	}
	for _, p := range all.Topics {
		if p.User == role {
			r.broker.SetTopicPermissions(r.t, name, p.Exchange, p.Write, p.Read)
		}
	}
	if !found {
		r.t.Fatalf("deploy/rabbitmq/definitions.json has no permissions for %s", role)
	}
	return user
}

// Everybody has no more than deploy/rabbitmq/definitions.json gives, and agents.auth
// is strict: tasks are submitted, done, given back and withdrawn all the same.
func TestLeastPermissions(t *testing.T) {
	t.Parallel()
	vhost := brokertest.Vhost(t)
	suffix := vhost.VHost[len(vhost.VHost)-8:]
	one, two, producer := "least1-"+suffix, "least2-"+suffix, "producer-"+suffix
	r := rigOn(t, vhost, replaced(t, replaced(t, pair(t), "  a1:", "  auth: strict\n  "+one+":"), "  a2:", "  "+two+":"))
	b := r.open()
	coordinator := r.deployed("taskbus", "taskbus-"+suffix)
	c := r.launch(coordinator.URL)
	c.awaitReady()
	all := map[string]*agentProcess{}
	for _, id := range []string{one, two} {
		all[id] = r.agentAt(r.deployed("a1", id).URL, b, agentSpec{ID: id, Slots: 2})
	}
	c.awaitEligible(one, two)

	shop := r.deployed("producer", producer)
	submit := func(key string, q request) {
		t.Helper()
		b.mu.Lock()
		b.offered[q.TaskID], b.acknowledged[q.TaskID] = payloadHash(q), true
		b.mu.Unlock()
		shop.Publish(t, bus.ExchangeIn, key, q.message())
	}
	submit("task.assign", task("t-done", "build"))
	submit("task.assign.high", task("t-back", "build").doing(deedRetryOnce))
	submit("task.assign", task("t-recalled", "build").doing(deedHold))
	if e := b.end(t, "t-done"); e.What != "succeeded" {
		t.Errorf("t-done: %+v", e)
	}
	if e := b.end(t, "t-back"); e.What != "succeeded" || e.Attempt != 2 {
		t.Errorf("t-back, which its first agent gave up: %+v", e)
	}
	b.runs(t, "t-recalled", 1)
	shop.Publish(t, bus.ExchangeIn, "task.request."+producer, amqp.Publishing{
		UserId: producer,
		Body:   []byte(`{"message_type": "task.cancel", "task_id": "t-recalled", "reason": "no longer wanted"}`),
	})
	if e := b.end(t, "t-recalled"); e.What != "cancelled" || !e.ByAgent {
		t.Errorf("t-recalled: %+v", e)
	}
	if n := c.status().Counters; n.StatusRefused["wrong_sender"]+n.ResultsRefused["wrong_sender"] != 0 {
		t.Errorf("refused as forged: %v, %v", n.StatusRefused, n.ResultsRefused)
	}
	for id, a := range all {
		if strings.Contains(a.log.String(), `"level":"WARN"`) {
			t.Errorf("the log of %s warns:\n%s", id, a.log.tail(20))
		}
		a.retire()
	}
	r.close(c, b, map[string]string{"t-recalled": "cancelled"})
}

// The agents are started first, on a broker that is not prepared: they say what
// they wait for, and work when there is a coordinator.
func TestAgentsBeforeTheFirstCoordinator(t *testing.T) {
	t.Parallel()
	r := newRig(t, pair(t))
	b := r.open()
	a1 := r.agent(b, agentSpec{ID: "a1", Slots: 2})
	a1.log.await(t,
		"the exchange taskbus.agents, by which agents report, does not exist yet; waiting for a coordinator to declare it "+
			"(or for taskbus topology apply)")
	c := r.start()
	c.awaitEligible("a1")
	b.offer(r.client, task("t-1", "build"))
	if e := b.end(t, "t-1"); e.What != "succeeded" {
		t.Errorf("%+v", e)
	}
	a1.retire()
	r.close(c, b, nil)
}

// SIGKILL of the coordinator in a stream that agents with the SDK work on. What the next
// one has not heard of it dispatches again, and is told that it is done: no task waits
// for a word of its agent until it is a task_timeout. An end may be announced twice, by
// the one that was killed and by the next, and is the same then.
func TestAgentsTellTheNextCoordinatorWhatIsDone(t *testing.T) {
	t.Parallel()
	const ahead = 1_000 // each has six seconds, and is behind no more than these
	r := newRig(t, strings.ReplaceAll(crowd, "health_check_interval: 1", "health_check_interval: 1, timeout_seconds: 6"))
	b := r.open()
	c := r.start()
	all := r.agents(c, b, 400, "a1", "a2", "a3", "a4")
	stop, _ := r.flow(b.ledger, "t", ahead, 5*time.Millisecond)
	c.awaitStatus("it is in full swing", func(s view.Status) bool { return s.Counters.Dispatched > 800 })
	if b.open() == 0 {
		t.Fatal("nothing was on its way at the kill")
	}
	c.kill()
	c = r.start()
	c.awaitStatus("it goes on", func(s view.Status) bool { return s.Counters.Dispatched > 800 })
	stop()
	b.allEnd(t, 60*time.Second)
	time.Sleep(6*time.Second + 1*time.Second) // timeout_seconds, and the margin of a lease: nothing more may come
	told := 0
	for _, a := range all {
		told += len(a.log.find("a copy of a dispatch that has ended"))
		a.retire()
	}
	r.finish(c)
	r.upToDate(b)
	b.mu.Lock()
	defer b.mu.Unlock()
	twice := 0
	for id := range b.acknowledged {
		ends := b.ends[id]
		for _, e := range ends {
			if e.What != "succeeded" || e.Dispatch != ends[0].Dispatch || e.Agent != ends[0].Agent {
				t.Errorf("%s, begun %+v, ended %+v", id, b.dispatched[id], ends)
				break
			}
		}
		if len(ends) > 1 {
			twice++
		}
		byDispatch := map[string]int{}
		for _, o := range b.dispatched[id] {
			if byDispatch[o.agent+" "+o.dispatchID]++; byDispatch[o.agent+" "+o.dispatchID] > 1 {
				t.Errorf("%s was begun twice by the process of %s", o.dispatchID, o.agent)
			}
		}
	}
	t.Logf("%d tasks: announced twice %d, told again %d", len(b.acknowledged), twice, told)
}
