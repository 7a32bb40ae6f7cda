package integration

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"taskbus/agent"
	"taskbus/coordinator/bus"
	"taskbus/coordinator/view"
)

// solo is one agent that alone can do the work.
const solo = `
agents:
  a1: {capabilities: [code], max_concurrent_tasks: 2, health_check_interval: 1}
task_routing:
  build: {required_capabilities: [code]}
global_settings:
  assignment_timeout_seconds: 10
  stale_agent_threshold_seconds: 60
  max_retry_attempts: 2
`

// The only agent that can do a task gives it back: it has it again after the back-off, and the failure after the last
// try says in its words why. So after a restart of the coordinator.
func TestOnlyAgentTriesAgain(t *testing.T) {
	t.Parallel()
	r := newRig(t, solo)
	b := r.open()
	c := r.start()
	begun := make(chan time.Time, 2)
	limited := r.member(b, agent.Config{ID: "a1", Slots: 2}, func(context.Context, *agent.Task) (agent.Result, error) {
		begun <- time.Now()
		return agent.Result{}, agent.Retry(errors.New("429 rate limit"))
	})
	c.awaitEligible("a1")
	r.publish(bus.QueueAssign, task("t-1", "build").message())
	first := <-begun
	eventually(t, patience, "t-1 to wait", func() (bool, string) { s := c.task("t-1").State; return s == "pending", s })
	c.stop()
	c = r.start()
	if waited := (<-begun).Sub(first); waited < time.Second { // of the second coordinator's own back-off at least
		t.Errorf("it was tried again after %v", waited)
	}
	f := r.failures(1)[0]
	if f.ReasonCode != "retries_exhausted" || f.Attempts != 2 ||
		!strings.Contains(f.Reason, `its agent says: "429 rate limit"`) {
		t.Errorf("%s", f.amqp.Body)
	}
	var explained struct {
		Attempts []struct {
			Agent, Outcome, Detail string
		}
	}
	c.read("/tasks/t-1/explain", &explained)
	if len(explained.Attempts) != 2 ||
		slices.ContainsFunc(explained.Attempts, func(a struct{ Agent, Outcome, Detail string }) bool {
			return a.Outcome != "rejected" || a.Detail != "429 rate limit"
		}) {
		t.Errorf("attempts %+v", explained.Attempts)
	}
	limited.retire()
	c.stop()
}

// Two processes run under one id: that is seen where a person looks, and the goodbye of one does not take the
// work from the other.
func TestTwoProcessesUnderOneID(t *testing.T) {
	t.Parallel()
	r := newRig(t, solo)
	c := r.start()
	says := func(instance, status string) {
		h := beat("a1", 0, 2)
		h.Instance, h.Status = instance, status
		r.report(h)
	}
	// Both report all the time, else the one that is silent is gone after three heartbeats.
	report := func(instances ...string) (stop func()) {
		done, ended := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(ended)
			for {
				for _, instance := range instances {
					says(instance, "ready")
				}
				select {
				case <-done:
					return
				case <-time.After(200 * time.Millisecond):
				}
			}
		}()
		return func() { close(done); <-ended }
	}
	both := report("one", "two")
	c.awaitAgent("a1", "two processes", func(a view.Agent) bool { return a.Instances == 2 })
	if h := fmt.Sprint(c.health()); !strings.Contains(h,
		"several processes report as a1 (2): give each its own agent_id") {
		t.Errorf("/health says nothing of them: %s", h)
	}
	if _, found := r.doctor(r.broker.URL, c.base); !slices.ContainsFunc(found,
		func(d diagnosis) bool { return strings.Contains(d.Text, "several processes report as a1 (2)") }) {
		t.Errorf("the doctor says nothing of them: %+v", found)
	}
	both()
	says("two", "offline")
	one := report("one")
	c.awaitAgent("a1", "one process", func(a view.Agent) bool { return a.Instances == 0 })
	r.publish(bus.QueueAssign, task("t-1", "build").message())
	r.dispatches("a1", 1)
	one()
	says("one", "offline")
	c.awaitAgent("a1", "its end", func(a view.Agent) bool { return a.State == "offline" })
	c.stop()
}
