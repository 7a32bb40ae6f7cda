package integration

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"taskbus/coordinator/view"
	"taskbus/tests/support/brokertest"
)

// octetOf is eight equal agents that must take a task within two seconds: rabbitmqctl
// may take several, and a task must be able to wander until an alarm stands.
func octetOf(ids []string) string {
	var b strings.Builder
	b.WriteString("agents:\n")
	for _, id := range ids {
		fmt.Fprintf(&b,
			"  %s: {capabilities: [code], max_concurrent_tasks: 1000, health_check_interval: 1, accept_timeout_seconds: 2}\n",
			id)
	}
	return b.String() + `
task_routing:
  build: {required_capabilities: [code]}
global_settings:
  assignment_timeout_seconds: 60
  stale_agent_threshold_seconds: 600
  max_retry_attempts: 20
`
}

// octetIDs are eight agents of that name. Each fault has its own, which never had a consumer before:
// those that had one count as gone without it, one after the other, in less time than rabbitmqctl may
// take.
func octetIDs(name string) (ids []string) {
	for i := range 8 {
		ids = append(ids, fmt.Sprint(name, i+1))
	}
	return ids
}

// TestNodeFaults does to a whole broker what can be done to one. A node takes
// seconds to start: one serves all, one coordinator lives through all, and the
// parts run one after the other.
func TestNodeFaults(t *testing.T) {
	t.Parallel()
	node := brokertest.Private(t, brokertest.Options{})
	r := rigOn(t, node.Broker, octetOf(octetIDs("m")))
	c := r.start()

	t.Run("memory alarm", func(t *testing.T) {
		r.on(t).alarm(c.on(t), octetIDs("m"), "memory", []string{"set_vm_memory_high_watermark", "0.000001"},
			[]string{"set_vm_memory_high_watermark", "0.4"})
	})
	t.Run("disk alarm", func(t *testing.T) {
		r, c := r.on(t), c.on(t)
		r.alarm(c, r.replaceFleet(c, octetIDs("d"), 2), "disk", []string{"set_disk_free_limit", "999GB"},
			[]string{"set_disk_free_limit", "50MB"})
	})
	// In an outage no agent takes anything: expiring would only be in the way.
	// A node that is killed a moment after a queue was declared may not know it well: those of the
	// second outage are there before the first.
	const never = 600
	r.replaceFleet(c, append(octetIDs("s"), octetIDs("k")...), never)
	t.Run("the broker stops and starts in order", func(t *testing.T) {
		r.on(t).outage(c.on(t), octetIDs("s"), "stopped", func() { node.Ctl(t, "stop_app") },
			func() { node.Ctl(t, "start_app") })
	})
	t.Run("the broker is killed", func(t *testing.T) {
		r, c := r.on(t), c.on(t)
		r.outage(c, r.replaceFleet(c, octetIDs("k"), never), "killed", func() { node.Kill9(t) }, func() { node.Start(t) })
	})
	t.Run("a second SIGTERM ends a drain that cannot end", func(t *testing.T) {
		r, c := r.on(t), c.on(t)
		r.stuckDispatch(c, r.replaceFleet(c, octetIDs("b"), 2), "stuck",
			func() { r.broker.Ctl(t, "set_vm_memory_high_watermark", "0.000001") })
		c.signal(syscall.SIGTERM)
		c.log.await(t, "draining: no new tasks; settling what is in flight")
		select {
		case <-c.exited:
			t.Fatalf("it ended with exit code %d although a dispatch was not settled", c.code)
		case <-time.After(500 * time.Millisecond): // nothing must happen: there is nothing to wait for
		}
		begun := time.Now()
		if code := c.end(syscall.SIGTERM); code != 1 || time.Since(begun) > 5*time.Second {
			t.Errorf("exit code %d after %v, want 1 at once", code, time.Since(begun))
		}
		r.broker.Ctl(t, "set_vm_memory_high_watermark", "0.4")
		last := octetIDs("l")
		r.writeConfig(octetOf(last))
		next := r.start()
		r.client = connect(t, r.broker)
		l := newLedger()
		l.offered["stuck"] = payloadHash(task("stuck", "build"))
		l.acknowledged["stuck"] = true
		r.workAll(l, last)
		// The first copy may be with the broker yet, and comes back through
		// task.reassign when its accept timeout of 2 s is over: only then is all done.
		<-time.After(3 * time.Second)
		l.drained(t, patience)
		r.finish(next)
		r.balance(l)
	})
}

// replaceFleet puts these agents in the place of those before, with that accept timeout.
func (r *rig) replaceFleet(c *process, ids []string, acceptSeconds int) []string {
	r.t.Helper()
	r.reload(c, strings.ReplaceAll(octetOf(ids), "accept_timeout_seconds: 2",
		fmt.Sprint("accept_timeout_seconds: ", acceptSeconds)))
	c.awaitStatus("they are known", func(s view.Status) bool {
		return len(s.Agents) == len(ids) &&
			slices.ContainsFunc(s.Agents, func(a view.Agent) bool { return a.ID == ids[0] })
	})
	return ids
}

// workAll starts the agents.
func (r *rig) workAll(l *ledger, ids []string) {
	r.t.Helper()
	for _, id := range ids {
		r.work(l, id, 1000)
	}
}

// reload puts another configuration in force.
func (r *rig) reload(c *process, config string) {
	r.t.Helper()
	before := c.status().Config.Version
	r.writeConfig(config)
	c.awaitStatus("the new configuration is in force", func(s view.Status) bool { return s.Config.Version != before })
}

// alarm makes the broker hold up publishers while a dispatch is on its way: no
// session is lost, nothing is sent twice, and all goes on by itself.
func (r *rig) alarm(c *process, agents []string, name string, raise, clear []string) {
	t := r.t
	t.Helper()
	before := c.status().Broker.Sessions
	id := "alarm-" + name
	r.stuckDispatch(c, agents, id, func() { r.broker.Ctl(t, raise...) })
	s := c.status()
	if !s.Broker.Blocked || s.Readiness.State != "blocked" || s.Health.Checks["broker"].Status != view.Degraded ||
		!strings.Contains(s.Broker.BlockReason, name) {
		t.Errorf("in the alarm: broker %+v, readiness %+v", s.Broker, s.Readiness)
	}
	if v := c.metric("taskbus_amqp_blocked"); v != 1 {
		t.Errorf("taskbus_amqp_blocked is %v", v)
	}
	if code, _ := c.get("/livez"); code != 200 {
		t.Errorf("/livez answers %d in an alarm", code)
	}

	r.broker.Ctl(t, clear...)
	c.awaitReady()
	if v := c.metric("taskbus_amqp_blocked"); v != 0 {
		t.Errorf("taskbus_amqp_blocked is %v after the alarm", v)
	}
	l := newLedger()
	l.offered[id], l.acknowledged[id] = payloadHash(task(id, "build")), true
	r.client = connect(t, r.broker)
	l.offer(r.client, task(id+"-after", "build"))
	r.workAll(l, agents)
	l.drained(t, patience)
	if duplicated, _ := r.balance(l); duplicated != 0 {
		t.Errorf("%d duplicates: %+v", duplicated, l.dispatched)
	}
	if v := c.task(id); v.Attempt < 2 {
		t.Errorf("%s: attempt %d: it was not on its way in the alarm", id, v.Attempt)
	}
	if n := c.status().Broker.Sessions; n != before {
		t.Errorf("%d sessions, %d before: an alarm is no reason to connect again", n, before)
	}
}

// stuckDispatch raises an alarm and brings the coordinator to publish in it: a
// dispatch that no agent takes expires, returns, and is sent to another agent.
// (No producer can publish a new task in an alarm.)
func (r *rig) stuckDispatch(c *process, agents []string, id string, raise func()) {
	t := r.t
	t.Helper()
	r.online(c, agents...)
	r.assign(task(id, "build"))
	c.awaitStatus("it is dispatched", func(s view.Status) bool { return c.task(id).Attempt > 0 })
	raise()
	c.awaitState("blocked")
	c.awaitStatus("a dispatch waits for its confirm", func(s view.Status) bool { return s.Pending.Dispatching >= 1 })
}

// outage takes the broker away in the middle of a stream of tasks.
func (r *rig) outage(c *process, agents []string, name string, down, up func()) {
	t := r.t
	t.Helper()
	begin := c.status()
	before := begin.Broker.Sessions
	l := newLedger()
	r.online(c, agents...)
	_, ended := r.flow(l, name, math.MaxInt, 100*time.Millisecond) // its producer gives up when the connection ends
	c.awaitStatus("it is in full swing",
		func(s view.Status) bool { return s.Counters.Dispatched > begin.Counters.Dispatched+300 })
	down()
	c.awaitState("connecting")
	if code, _ := c.get("/readyz"); code != 503 {
		t.Errorf("/readyz answers %d without a broker", code)
	}
	<-ended
	up()
	begun := time.Now()
	c.awaitReady()
	// L1: 5 s and the back-off's bound.
	if took := time.Since(begun); took > 20*time.Second {
		t.Errorf("taking tasks %v after the broker came back", took)
	}
	r.client = connect(t, r.broker)
	l.offer(r.client, task(name+"-after", "build"))
	r.workAll(l, agents)
	l.drained(t, 60*time.Second)
	duplicated, recovered := r.balance(l)
	_, acknowledged := l.accounted()
	if acknowledged < 2 || c.status().Broker.Sessions <= before {
		t.Error("the fault did not fire in mid-stream")
	}
	t.Logf("%s: %d acknowledged, lost 0, duplicated %d, recovered %d, %d sessions tried",
		name, acknowledged, duplicated, recovered, c.status().Broker.Sessions-before)
}
