package integration

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"taskbus/coordinator/bus"
	"taskbus/coordinator/view"
	"taskbus/tests/support/brokertest"
)

// generalist is the fleet of the agent in examples/python.
const generalist = `
agents:
  generalist-1: {capabilities: [code], max_concurrent_tasks: 5, health_check_interval: 5}
  other-1: {capabilities: [code], max_concurrent_tasks: 5, health_check_interval: 5}
task_routing:
  build: {required_capabilities: [code]}
global_settings:
  assignment_timeout_seconds: 60
  stale_agent_threshold_seconds: 60
`

// pythonAgent runs the agent of examples/python with these arguments of the interpreter, as a user of its own, so that
// its connections alone can be closed.
func (r *rig) pythonAgent(c *process, user brokertest.Broker, args ...string) *process {
	p := &process{r.t, &running{name: "the agent in Python", log: newLogBook(), exited: make(chan struct{})}}
	p.cmd = exec.Command(brokertest.Python, args...)
	p.cmd.Env = append(os.Environ(), "RABBITMQ_URL="+user.URL, "PYTHONUNBUFFERED=1",
		"PYTHONPATH=../../examples/python", "PYTHONDONTWRITEBYTECODE=1")
	p.cmd.Stdout, p.cmd.Stderr = p.log, p.log
	p.begin()
	r.t.Cleanup(func() { p.end(syscall.SIGKILL) })
	c.awaitEligible("generalist-1")
	return p
}

// workedOn is how often the agent in Python has begun a task.
func (c *process) workedOn(id string) int {
	return strings.Count(c.log.String(), "trace-"+id+": working on")
}

// worksOn waits until it has done so n times.
func (c *process) worksOn(id string, n int) {
	c.t.Helper()
	eventually(c.t, patience, fmt.Sprintf("%s is worked on (%d)", id, n),
		func() (bool, string) { return c.workedOn(id) == n, c.log.tail(5) })
}

// pythonRig is a coordinator with the fleet of the agent in Python.
func pythonRig(t *testing.T) (r *rig, b *books, c *process, user brokertest.Broker) {
	t.Parallel()
	brokertest.NeedsPika(t)
	r = newRig(t, generalist)
	user = r.broker.AddUser(t, pythonUser(r))
	r.broker.SetPermissions(t, pythonUser(r), "", `^amq\.default$`, `^agent\.generalist-1$`)
	return r, r.open(), r.start(), user
}

func pythonUser(r *rig) string { return "python-" + r.broker.VHost }

const agentPy = "../../examples/python/agent.py"

// The agent in Python reports what it runs and what became of it; what it has in hand when it is killed is done by
// another.
func TestPythonAgent(t *testing.T) {
	r, b, c, user := pythonRig(t)
	p := r.pythonAgent(c, user, agentPy)
	var all []request
	for i := range 8 { // it works on each for a second, five at a time
		all = append(all, task(fmt.Sprint("t-", i), "build").within(5*time.Second))
	}
	b.offer(r.client, all...)
	b.allEnd(t, patience)
	c.awaitAgent("generalist-1", "is idle again", func(a view.Agent) bool { return a.FreeSlots == 5 && a.Leased == 0 })
	if s := c.status(); s.Counters.Results["succeeded"] != 8 || s.Counters.Dispatched != 8 {
		t.Errorf("counters %+v", s.Counters)
	}

	t.Log("killed in mid-task")
	b.offer(r.client, task("t-last", "build"))
	p.worksOn("t-last", 1)
	p.kill()
	other := r.hand("other-1", 5)
	r.reported(c, beat("other-1", 0, 5))
	d := other.take()
	if d.TaskID != "t-last" || d.Attempt != 2 {
		t.Errorf("the other got %s, attempt %d", d.TaskID, d.Attempt)
	}
	b.enter(d)
	other.ack(d)
	r.upToDate(b)
	r.finish(c)
	r.empty("agent.generalist-1", "agent.other-1", bus.QueueFailed, bus.QueueDead)
}

// When its connection ends it connects again, begins nothing twice, and sends the results of what it had in hand.
// SIGTERM ends it when that is done.
func TestPythonAgentConnectsAgainAndDrains(t *testing.T) {
	r, b, c, user := pythonRig(t)
	p := r.pythonAgent(c, user, agentPy)
	b.offer(r.client, task("t-1", "build"))
	p.worksOn("t-1", 1)
	r.broker.CloseConnectionsOf(t, pythonUser(r))
	if e := b.end(t, "t-1"); e.What != "succeeded" || e.Agent != "generalist-1" || p.workedOn("t-1") != 1 {
		t.Errorf("t-1 has ended as %+v, begun %d times", e, p.workedOn("t-1"))
	}
	if !strings.Contains(p.log.String(), "no connection (ConnectionClosedByBroker)") {
		t.Errorf("its connection was closed, and it says: %s", p.log.tail(5))
	}

	b.offer(r.client, task("t-2", "build"))
	p.worksOn("t-2", 1)
	if code := p.end(syscall.SIGTERM); code != 0 {
		t.Errorf("SIGTERM ends it with %d: %s", code, p.log.tail(20))
	}
	if e := b.end(t, "t-2"); e.What != "succeeded" || e.Agent != "generalist-1" {
		t.Errorf("t-2 has ended as %+v", e)
	}
	c.awaitAgent("generalist-1", "is offline", func(a view.Agent) bool { return a.State == "offline" })
	r.finish(c)
	r.empty("agent.generalist-1", bus.QueueFailed, bus.QueueDead)
}

// A task that meets a rate limit is given back with the time that the provider has named, and comes again no sooner.
// One whose work fails otherwise is tried again.
func TestPythonAgentGivesBack(t *testing.T) {
	r, b, c, user := pythonRig(t)
	p := r.pythonAgent(c, user, "-c", `
import agent
plain, seen = agent.work, set()
def work(task):
    if task["task_id"] not in seen:
        seen.add(task["task_id"])
        raise agent.RateLimited(3) if task["task_id"] == "t-limited" else KeyError("secret")
    return plain(task)
agent.work = work
agent.main()
`)
	begun := time.Now()
	b.offer(r.client, task("t-limited", "build"), task("t-broken", "build"))
	b.allEnd(t, patience)
	if took := time.Since(begun); took < 4*time.Second { // 3 s, and 1 s of work
		t.Errorf("the task that met a rate limit of 3 s has ended after %v", took)
	}
	for _, id := range []string{"t-limited", "t-broken"} {
		if e := b.end(t, id); e.What != "succeeded" || p.workedOn(id) != 1 || e.Attempt != 2 {
			t.Errorf("%s has ended as %+v, and was worked on %d times", id, e, p.workedOn(id))
		}
	}
	if s := c.status(); s.Counters.Results["rejected"] != 2 || strings.Contains(c.log.String(), "secret") {
		t.Errorf("counters %+v", s.Counters)
	}
	r.finish(c)
	r.empty("agent.generalist-1", bus.QueueFailed, bus.QueueDead)
}

// observed runs small_agent.py and prints when the pool's thread begins a task: nothing else of it sleeps there.
const observed = `
import runpy, threading, time
plain = time.sleep
def sleep(seconds):
    if threading.current_thread() is not threading.main_thread():
        print("trace-any: working on", flush=True)
    plain(seconds)
time.sleep = sleep
runpy.run_path("../../examples/python/small_agent.py")
`

// The smallest agent in Python reports results one by one, and begins nothing twice when its connection ends.
func TestSmallPythonAgent(t *testing.T) {
	r, b, c, user := pythonRig(t)
	p := r.pythonAgent(c, user, "-c", observed)
	b.offer(r.client, task("t-1", "build"))
	p.worksOn("any", 1)
	r.broker.CloseConnectionsOf(t, pythonUser(r))
	b.offer(r.client, task("t-2", "build"), task("t-3", "build"))
	b.allEnd(t, patience)
	for _, id := range []string{"t-1", "t-2", "t-3"} {
		if e := b.end(t, id); e.What != "succeeded" || e.Agent != "generalist-1" {
			t.Errorf("%s has ended as %+v", id, e)
		}
	}
	if n := p.workedOn("any"); n != 3 || !strings.Contains(p.log.String(), "no connection (ConnectionClosedByBroker)") {
		t.Errorf("it has begun %d tasks, want 3: %s", n, p.log.tail(5))
	}
	p.kill()
	r.finish(c)
	r.empty("agent.generalist-1", bus.QueueFailed, bus.QueueDead)
}
