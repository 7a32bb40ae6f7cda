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
	"taskbus/coordinator/httpapi"
)

// An agent that says ready and offline in turn, twenty times a second: the world
// hears little of it, everybody else's work goes on, and no task is lost.
func TestFlappingAgent(t *testing.T) {
	t.Parallel()
	const flips, tasks = 100, 100 // five seconds of 20 a second
	r := newRig(t, replaced(t, quartet, "stale_agent_threshold_seconds: 3", "stale_agent_threshold_seconds: 60"))
	b := r.open()
	c := r.start()
	steady := r.agents(c, b, 2, "a2")["a2"]
	h := r.hand("a1", 2)
	h.serve(b.ledger, func(d dispatch) error {
		h.tryPublish(bus.StreamResult, h.result(string(d.TaskID), d.DispatchID, "succeeded").message())
		return d.amqp.Ack(false)
	})
	sent := make(chan struct{})
	go func() { // a task after each flip
		defer close(sent)
		ticks := time.NewTicker(time.Second / 20)
		defer ticks.Stop()
		for i := range flips {
			<-ticks.C
			flip := tracked("a1", 2)
			flip.Status = []string{"ready", "offline"}[i%2]
			h.tryPublish(bus.StreamStatus, flip.message())
			b.offer(r.client, task(fmt.Sprint("t-", i), "build"))
		}
	}()
	<-sent
	b.allEnd(t, patience)
	c.awaitStatus("every heartbeat is read", func(s httpapi.Status) bool { return s.Counters.StatusReceived >= flips })
	// Two departures are free; from the third on the world hears nothing until it is
	// steady. So: online, offline, online, offline, online, offline at most, and
	// perhaps a last word when it has been steady.
	if n := b.heard("agent.online.a1") + b.heard("agent.offline.a1"); n < 2 || n > 8 {
		t.Errorf("%d announcements of %d flips, want a handful", n, flips)
	}
	if n := strings.Count(c.log.String(), `"agent_id":"a1","state"`); n > 8 {
		t.Errorf("%d log lines of %d flips, want a handful", n, flips)
	}
	if a := c.agent("a1"); a.Eligible {
		t.Errorf("a1 after %d flips: %+v", flips, a)
	}
	if a := c.agent("a2"); a.State != "online" || !a.Eligible {
		t.Errorf("a2, which never flipped: %+v", a)
	}
	t.Logf("%d flips: %d announcements; a1 did %v", flips, b.heard("agent.online.a1")+b.heard("agent.offline.a1"), c.agent("a1").Assigned)
	steady.retire()
	r.close(c, b, nil)
}

// vanishing is how many agents go silent at the same moment. Each has a queue of
// its own; one process reports for all of them.
const vanishing = 500

// multitude is a fleet of the vanishing, two slots each, and two survivors. It is
// stale after four seconds. Its 500 quorum queues are declared within three seconds
// on a machine of two cores, and cost the broker some 100 MB.
func multitude() string {
	var b strings.Builder
	b.WriteString("agents:\n")
	for i := range vanishing {
		fmt.Fprintf(&b, "  v%d: {capabilities: [code], max_concurrent_tasks: 2, health_check_interval: 1, priority: 1}\n", i)
	}
	for _, id := range []string{"s1", "s2"} {
		fmt.Fprintf(&b, "  %s: {capabilities: [code], max_concurrent_tasks: 1000, health_check_interval: 1, priority: 2}\n", id)
	}
	return b.String() + `
task_routing:
  build: {required_capabilities: [code]}
global_settings:
  assignment_timeout_seconds: 60
  stale_agent_threshold_seconds: 4
`
}

// redistributed is what may pass, from the moment an agent's threshold passes, until
// all that waits in its queue is with others. The race detector makes the coordinator
// several times slower (up to 7 s were seen on two cores, beside 2 to 4 s without it),
// and scripts/test.sh runs it beside the tests of other packages.
const (
	redistributed     = 5 * time.Second
	redistributedRace = 4 * redistributed
)

// 500 agents vanish at once, with two tasks in each of their queues: the survivors
// get all of them, in bounded time, and none is lost. It is about a time, and does
// not run beside other tests.
func TestFiveHundredAgentsVanish(t *testing.T) {
	const tasks = 2 * vanishing
	r := newRig(t, multitude())
	c := r.start()
	l := newLedger()

	reporter := connect(t, r.broker)
	vanish, silent := make(chan struct{}), make(chan time.Time)
	go func() {
		beats := time.NewTicker(time.Second)
		defer beats.Stop()
		for {
			last := time.Now()
			all := make([]heartbeat, vanishing)
			for i := range all {
				all[i] = beat(fmt.Sprint("v", i), 0, 2)
			}
			reporter.tryPublish(bus.StreamStatus, inAMQP(all)...)
			select {
			case <-vanish:
				silent <- last
				return
			case <-beats.C:
			}
		}
	}()
	c.awaitStatus("all are online", func(s httpapi.Status) bool {
		online := 0
		for _, a := range s.Agents {
			if a.State == "online" {
				online++
			}
		}
		return online == vanishing
	})
	<-r.stream(l, "t", tasks)
	c.awaitStatus("every task is in a queue", func(s httpapi.Status) bool { return s.Counters.Dispatched >= tasks && s.Pending.Total == 0 })
	close(vanish)
	silence := <-silent
	r.work(l, "s1", 1000)
	r.work(l, "s2", 1000)
	l.drained(t, 60*time.Second)
	took := time.Since(silence)
	limit := redistributed
	if raceDetector {
		limit = redistributedRace
	}
	if late := took - 4*time.Second; late > limit { // the threshold is 4 s
		t.Errorf("all %d tasks were with the survivors %v after the threshold had passed, want within %v", tasks, late, limit)
	}
	// The agents become stale one after the other, and what is taken from the first
	// may go to the last before it is stale, too.
	if n := c.status().Counters.TakenBack; n < tasks || n > 2*tasks {
		t.Errorf("%d taken back, want %d and perhaps some twice", n, tasks)
	}
	t.Logf("%d tasks out of %d queues were with the survivors %v after the threshold of 4 s", tasks, vanishing, took-4*time.Second)
	r.finish(c)
	if duplicated, recovered := r.balance(l); duplicated != 0 || recovered != 0 {
		t.Errorf("%d duplicates, %d recovered", duplicated, recovered)
	}
}

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

// The agent in Python sends heartbeats and acknowledges, as COORDINATOR has it, and
// knows nothing else: it works, its tasks do not time out, and what it leaves behind
// when it is killed is done by another.
func TestPlainPythonAgent(t *testing.T) {
	t.Parallel()
	needPika(t)
	r := newRig(t, generalist)
	b := r.open()
	c := r.start()
	witness := &process{t, &running{name: "the agent in Python", log: newLogBook(), exited: make(chan struct{})}}
	witness.cmd = exec.Command(python, "../../examples/python/agent.py")
	witness.cmd.Env = append(os.Environ(), "RABBITMQ_URL="+r.broker.URL, "PYTHONUNBUFFERED=1")
	witness.cmd.Stdout, witness.cmd.Stderr = witness.log, witness.log
	witness.begin()
	t.Cleanup(func() { witness.end(syscall.SIGKILL) })
	c.awaitEligible("generalist-1")

	worked := func(id string) bool { return strings.Contains(witness.log.String(), "trace-"+id+": working on") }
	var all []request
	for i := range 8 { // it works on each for a second, five at a time
		all = append(all, task(fmt.Sprint("t-", i), "build").within(500*time.Millisecond))
	}
	b.offer(r.client, all...)
	for _, q := range all {
		eventually(t, patience, q.TaskID+" is worked on", func() (bool, string) { return worked(q.TaskID), witness.log.tail(5) })
	}
	// It reports whenever one is done: the last a second after it was begun. (What an
	// earlier report says of slots may be wrong, see docs/messages.md on agent.status.)
	last := time.Now().Add(900 * time.Millisecond)
	c.awaitAgent("generalist-1", "is idle again", func(a httpapi.Agent) bool {
		return a.LastHeartbeat.After(last) && a.FreeSlots == 5 && a.Leased == 0
	})
	if s := c.status(); s.Counters.TimedOut != 0 || s.Counters.Failed != 0 || s.Counters.Dispatched != 8 {
		t.Errorf("counters %+v", s.Counters)
	}

	t.Log("killed in mid-task")
	b.offer(r.client, task("t-last", "build"))
	eventually(t, patience, "t-last is worked on", func() (bool, string) { return worked("t-last"), witness.log.tail(5) })
	witness.kill()
	other := r.hand("other-1", 5)
	r.reported(c, beat("other-1", 0, 5))
	d := other.take()
	if d.TaskID != "t-last" || d.Attempt != 2 {
		t.Errorf("the other got %s, attempt %d", d.TaskID, d.Attempt)
	}
	b.enter(d)
	other.ack(d)
	r.upToDate(b)
	if len(b.ends) != 0 {
		t.Errorf("nobody said how a task ended, and it was announced: %+v", b.ends)
	}
	r.finish(c)
	r.empty("agent.generalist-1", "agent.other-1", bus.QueueFailed, bus.QueueDead)
}
