package integration

import (
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"taskbus/coordinator/bus"
	"taskbus/coordinator/view"
)

// quartet is four equal agents that are stale after three seconds of silence.
const quartet = `
agents:
  a1: {capabilities: [code], max_concurrent_tasks: 2, health_check_interval: 1}
  a2: {capabilities: [code], max_concurrent_tasks: 2, health_check_interval: 1}
  a3: {capabilities: [code], max_concurrent_tasks: 2, health_check_interval: 1}
  a4: {capabilities: [code], max_concurrent_tasks: 2, health_check_interval: 1}
task_routing:
  build: {required_capabilities: [code]}
global_settings:
  assignment_timeout_seconds: 60
  stale_agent_threshold_seconds: 3
  max_retry_attempts: 5
`

var quartetIDs = []string{"a1", "a2", "a3", "a4"}

// pair is quartet with two of its agents.
func pair(t *testing.T) string {
	return replaced(t, quartet,
		"  a3: {capabilities: [code], max_concurrent_tasks: 2, health_check_interval: 1}\n  a4: {capabilities: [code], "+
			"max_concurrent_tasks: 2, health_check_interval: 1}\n", "")
}

// SIGKILL of an agent in mid-task: what it held completes elsewhere, once, within
// seconds and not at the end of its threshold.
func TestAgentKilledInMidTask(t *testing.T) {
	t.Parallel()
	r := newRig(t, replaced(t, pair(t), "stale_agent_threshold_seconds: 3", "stale_agent_threshold_seconds: 60"))
	b := r.open()
	c := r.start()
	all := r.agents(c, b, 2, "a1", "a2")
	b.offer(r.client, task("t-1", "build").doing(deedHold), task("t-2", "build").doing(deedHold))
	victim := all[b.runs(t, "t-1", 1).agent]
	other := all["a1"]
	if other == victim {
		other = all["a2"]
	}
	b.runs(t, "t-2", 1)
	c.awaitWorking(victim.id)
	victim.kill()
	died := time.Now()
	second := b.runs(t, "t-1", 2)
	took := time.Since(died)
	if second.agent != other.id || attemptID(second.dispatchID) != "t-1.2" {
		t.Errorf("after the death of %s t-1 was begun by %+v", victim.id, second)
	}
	// The broker closes the connection at once; its consumers are counted each second.
	if took > 5*time.Second {
		t.Errorf("begun elsewhere after %v, want within 5 s", took)
	}
	t.Logf("begun elsewhere %v after SIGKILL", took)
	if a := c.agent(victim.id); a.State != "gone" || a.Leased != 0 {
		t.Errorf("the victim: %+v", a)
	}
	other.letGo("t-1", "t-2")
	if e := b.end(t, "t-1"); e.Agent != other.id || e.Attempt != 2 || e.Late {
		t.Errorf("t-1 ended: %+v", e)
	}
	b.allEnd(t, patience)
	other.retire()
	r.close(c, b, nil)
}

// awaitWorking waits until an agent's reports list what it runs, and for one more:
// by then the broker has been asked for its consumer, too.
func (c *process) awaitWorking(id string) {
	c.t.Helper()
	c.awaitAgent(id, "reports its work", func(a view.Agent) bool { return a.InFlight > 0 && a.Uncovered == 0 })
	listed := c.agent(id).LastHeartbeat
	c.awaitAgent(id, "reports again", func(a view.Agent) bool { return a.LastHeartbeat.Sub(listed) > time.Second/2 })
}

// SIGSTOP of an agent for longer than its threshold: its work moves, and when it
// comes back with its result there is one outcome all the same.
func TestAgentStoppedBeyondItsThreshold(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		// first is whose result comes first.
		first string
	}{
		{"its result comes when the other is done", "the other"},
		{"its result comes while the other works", "the stopped one"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, pair(t))
			b := r.open()
			c := r.start()
			all := map[string]*agentProcess{}
			for _, id := range []string{"a1", "a2"} {
				// What it holds comes back when the broker misses its AMQP heartbeats.
				all[id] = r.agent(b, agentSpec{ID: id, Slots: 2, Silence: 2 * time.Second})
			}
			c.awaitEligible("a1", "a2")
			b.offer(r.client, task("t-1", "build").doing(deedHold))
			stopped := all[b.runs(t, "t-1", 1).agent]
			other := all["a1"]
			if other == stopped {
				other = all["a2"]
			}
			stopped.signal(syscall.SIGSTOP)
			c.awaitAgent(stopped.id, "is stale or gone", func(a view.Agent) bool {
				return a.State == "stale" ||
					a.State == "gone"
			})
			if second := b.runs(t, "t-1", 2); second.agent != other.id || attemptID(second.dispatchID) != "t-1.2" {
				t.Errorf("moved to %+v", second)
			}
			late := func() {
				stopped.signal(syscall.SIGCONT)
				stopped.letGo("t-1")
			}
			if tt.first == "the other" {
				other.letGo("t-1")
				if e := b.end(t, "t-1"); e.Agent != other.id || e.Attempt != 2 || e.Late {
					t.Errorf("t-1 ended: %+v", e)
				}
				late()
				// Its dispatch is over, and another agent's result was the first.
				c.awaitStatus("its late result is counted",
					func(s view.Status) bool { return s.Counters.ResultsRefused["late"] == 1 })
				if n := c.status().Counters.LateResults; n != 0 {
					t.Errorf("%d late results counted as outcomes, want none", n)
				}
			} else {
				late()
				if e := b.end(t, "t-1"); e.Agent != stopped.id || e.Attempt != 1 || !e.Late || e.What != "succeeded" {
					t.Errorf("t-1 ended: %+v", e)
				}
				// The other is told to stop; that it was is no outcome of the task.
				c.awaitStatus("the other has stopped", func(s view.Status) bool {
					return s.Counters.LateResults == 1 && s.Counters.ResultsRefused["late"]+s.Counters.ResultsRefused["duplicate"] == 1
				})
			}
			c.awaitEligible("a1", "a2")
			for _, id := range []string{"a1", "a2"} {
				c.awaitAgent(id, "is idle", func(a view.Agent) bool { return a.FreeSlots == 2 && a.Leased == 0 })
			}
			other.retire()
			stopped.retire()
			r.close(c, b, nil)
		})
	}
}

// A task whose handler panics wherever it comes ends in task.dead after the third
// agent; everybody else's work goes on.
func TestPoisonedTaskPanics(t *testing.T) {
	t.Parallel()
	r := newRig(t, quartet)
	b := r.open()
	c := r.start()
	all := r.agents(c, b, 2, quartetIDs...)
	b.offer(r.client, task("t-bad", "build").doing(deedPanic))
	for i := range 40 {
		b.offer(r.client, task(fmt.Sprint("t-", i), "build"))
	}
	e := b.end(t, "t-bad")
	if e.What != "poisoned" || e.Attempts != 3 || !strings.Contains(e.Reason, "3 different agents") {
		t.Errorf("t-bad ended: %+v", e)
	}
	r.checkPoisoned(b, "t-bad")
	b.allEnd(t, patience)
	for _, a := range all {
		a.alive() // a panic is the handler's end, not the agent's
		a.retire()
	}
	r.close(c, b, map[string]string{"t-bad": "poisoned"})
}

// checkPoisoned looks at the agents that had a poisoned task, and at what is parked.
func (r *rig) checkPoisoned(b *books, id string) {
	r.t.Helper()
	b.runs(r.t, id, 3) // what agents say comes another way than the end
	had := slices.Compact(slices.Sorted(slices.Values(b.begunBy(id))))
	if len(had) != 3 {
		r.t.Errorf("%s was begun by %v, want three agents", id, had)
	}
	r.holds(bus.QueueDead, 1)
	var seen int
	r.peek(bus.QueueDead, func(body []byte, headers map[string]any) {
		seen++
		if headers["x-taskbus-reason-code"] != "poisoned" || !strings.Contains(string(body), `"`+id+`"`) {
			r.t.Errorf("task.dead holds %s with %v", body, headers)
		}
	})
	if seen != 1 {
		r.t.Errorf("%d messages in task.dead", seen)
	}
}

// peek looks at what is ready in a queue and leaves it there.
func (r *rig) peek(queue string, look func(body []byte, headers map[string]any)) {
	r.t.Helper()
	channel, err := r.conn.Channel()
	if err != nil {
		r.t.Fatal(err)
	}
	for {
		d, some, err := channel.Get(queue, false)
		if err != nil {
			r.t.Fatal(err)
		}
		if !some {
			break
		}
		look(d.Body, d.Headers)
	}
	if err := channel.Close(); err != nil { // what was got goes back
		r.t.Fatal(err)
	}
}

// A handler that hangs costs its agent a slot, and says so; its task fails in time,
// once, and the other slot goes on working.
func TestHandlerHangs(t *testing.T) {
	t.Parallel()
	r := newRig(t, replaced(t, quartet, "stale_agent_threshold_seconds: 3", "stale_agent_threshold_seconds: 60"))
	b := r.open()
	c := r.start()
	a1 := r.agents(c, b, 2, "a1")["a1"]
	b.offer(r.client, task("t-hang", "build").doing(deedHang).within(time.Second))
	b.runs(t, "t-hang", 1)
	begun := time.Now()
	e := b.end(t, "t-hang")
	// The agent itself notices: after 1 s and the half second that a handler has.
	if took := time.Since(begun); e.What != "failed" || !strings.Contains(e.Error, "ran out of time") ||
		took > 10*time.Second {
		t.Errorf("after %v: %+v", took, e)
	}
	for i := range 10 {
		b.offer(r.client, task(fmt.Sprint("t-", i), "build"))
	}
	b.allEnd(t, patience)
	c.awaitAgent("a1", "reports the slot as taken", func(a view.Agent) bool {
		return a.FreeSlots == 1 &&
			a.InFlight == 1
	})
	a1.letGo("t-hang")
	c.awaitAgent("a1", "has its slot back", func(a view.Agent) bool { return a.FreeSlots == 2 && a.InFlight == 0 })
	a1.retire()
	r.close(c, b, map[string]string{"t-hang": "failed"})
}

// A task that takes down every process that begins it is poisoned in the end,
// although no agent ever reports anything; a supervisor starts the agents again, and
// everything else is done.
func TestPoisonedTaskEndsProcesses(t *testing.T) {
	t.Parallel()
	r := newRig(t, quartet)
	b := r.open()
	c := r.start()
	all := r.agents(c, b, 2, quartetIDs...)
	b.offer(r.client, task("t-bad", "build").doing(deedEndTheWorld))
	for i := range 60 {
		b.offer(r.client, task(fmt.Sprint("t-", i), "build"))
	}
	eventually(t, 60*time.Second, "every task ends, the poisoned one too", func() (bool, string) {
		r.restartEnded(b, all)
		b.mu.Lock()
		defer b.mu.Unlock()
		return len(b.ends) == 61, fmt.Sprintf("%d have ended; t-bad was begun %+v", len(b.ends), b.dispatched["t-bad"])
	})
	if e := b.end(t, "t-bad"); e.What != "poisoned" || !strings.Contains(e.Reason, "3 different agents") {
		t.Errorf("t-bad ended: %+v", e)
	}
	r.checkPoisoned(b, "t-bad")
	t.Logf("%d processes ended by one task: %v", len(b.begunBy("t-bad")), b.begunBy("t-bad"))
	r.restartEnded(b, all)
	for _, a := range all {
		a.log.await(t, "takes tasks") // before that there is nothing to retire from
		a.retire()
	}
	r.close(c, b, map[string]string{"t-bad": "poisoned"})
}

// restartEnded starts those agents again whose processes a task has ended, as a
// supervisor would.
func (r *rig) restartEnded(b *books, all map[string]*agentProcess) {
	r.t.Helper()
	for id, a := range all {
		select {
		case <-a.exited:
			if a.code != 3 {
				r.t.Errorf("%s ended with exit code %d, want 3", a.name, a.code)
			}
			all[id] = r.agent(b, agentSpec{ID: id, Slots: 2})
		default:
		}
	}
}
