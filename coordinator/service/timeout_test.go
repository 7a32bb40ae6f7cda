package service

import (
	"context"
	"strings"
	"testing"
	"time"

	"taskbus/coordinator/bus"
	"taskbus/coordinator/service/internal/recent"
	"taskbus/coordinator/view"
	"taskbus/schemas"
	"taskbus/tests/support/membus"
)

// A task whose agent says nothing ends as task_timeout, and the agent is told. It
// counts neither as failed nor as held: its dispatch was confirmed long before.
func TestTaskTimeout(t *testing.T) {
	inRig(t, fleet, func(r *rig) {
		a1 := r.worker("a1", true)
		r.task("t-1", "build", `,"timeout_seconds":5`)
		for range 7 { // a lease is timeout_seconds + 1 s
			a1.report()
			r.pass(time.Second)
		}
		m := r.only(bus.QueueFailed)
		if m.text("reason_code") != "task_timeout" || m.fields["retry_possible"] != true {
			t.Errorf("assignment.failed %s", m.Body)
		}
		if told := a1.told(); len(told) != 1 || told[0].text("task_id") != "t-1" ||
			attemptID(told[0].text("dispatch_id")) != "t-1.1" {
			t.Errorf("a1 was told %v, want to stop t-1", told)
		}
		if c := r.status().Counters; c.TimedOut != 1 || c.Failed != 0 {
			t.Errorf("%d timed out, %d failed; want 1 and 0", c.TimedOut, c.Failed)
		}
		task, _ := r.service.Task(context.Background(), "t-1")
		if task.State != "failed" || task.ReasonCode != "task_timeout" || task.Explanation == nil {
			t.Errorf("in /tasks: %+v", task)
		}
	})
}

// assignment.failed of a task that no delivery stands behind is not lost with its
// session: the next one publishes it.
func TestTimeoutIsToldAcrossALostSession(t *testing.T) {
	inRig(t, fleet, func(r *rig) {
		a1 := r.worker("a1", true)
		r.task("t-1", "build", `,"timeout_seconds":5`)
		r.broker.SetConfirm(func(p bus.Publication) membus.Reply {
			if p.Type == schemas.AssignmentFailed {
				return membus.Lose
			}
			return membus.Answer
		})
		for range 7 {
			a1.report()
			r.pass(time.Second)
		}
		if n := r.status().Counters.TimedOut; n != 0 {
			t.Errorf("%d timed out before that was confirmed", n)
		}
		r.empty(bus.QueueFailed)
		r.broker.SetConfirm(nil)
		r.broker.Cut()
		r.pass(backoffMax + time.Second)
		if m := r.only(bus.QueueFailed); m.text("task_id") != "t-1" || m.text("reason_code") != "task_timeout" {
			t.Errorf("assignment.failed %s", m.Body)
		}
		if n := r.status().Counters.TimedOut; n != 1 {
			t.Errorf("%d timed out, want 1", n)
		}
		r.broker.Cut()
		r.pass(backoffMax + time.Second)
		r.connect()
		r.only(bus.QueueFailed) // not told again
	})
}

// A lease that runs out while there is no session at all is told of in the next one:
// the journal has kept it.
func TestTimeoutWithoutASessionIsTold(t *testing.T) {
	inRig(t, fleet, func(r *rig) {
		r.worker("a1", true)
		r.task("t-1", "build", `,"timeout_seconds":5`)
		r.broker.SetOpenError(bus.ErrAccess)
		r.broker.Cut()
		r.pass(30 * time.Second) // less than its accept timeout
		r.empty(bus.QueueFailed)
		r.broker.SetOpenError(nil)
		r.pass(backoffMax + 15*time.Second) // and the grace in which a result may still be read
		r.connect()
		if m := r.only(bus.QueueFailed); m.text("task_id") != "t-1" || m.text("reason_code") != "task_timeout" {
			t.Errorf("assignment.failed %s", m.Body)
		}
	})
}

// The dispatch of a task that has ended as overdue comes back when its agent is started
// anew: the task is not pending because of that, with the coordinator that has seen its end
// or another.
func TestWhatComesBackOfAnEndedTaskIsNotPending(t *testing.T) {
	for name, restart := range map[string]bool{"the same coordinator": false, "another": true} {
		t.Run(name, func(t *testing.T) {
			inRig(t, fleet, func(r *rig) {
				a1 := r.worker("a1", true)
				r.task("t-1", "build", `,"timeout_seconds":5`)
				for range 7 {
					a1.report("t-1")
					r.pass(time.Second)
				}
				r.only(bus.QueueFailed)
				if restart {
					r.forgets() // it knows of tasks what the journal has
				}
				a1.mu.Lock()
				d := a1.held[0]
				a1.mu.Unlock()
				a1.session.Reject(d.Tag)
				r.pass(time.Second)
				if list := r.service.Tasks(context.Background(), view.TaskFilter{State: recent.Pending}); len(list) > 0 {
					t.Errorf("pending: %+v", list)
				}
				if task, known := r.service.Task(context.Background(), "t-1"); !known || task.State != recent.Failed {
					t.Errorf("in /tasks: %+v", task)
				}
			})
		})
	}
}

// An agent whose handler goes on after it has said that time ran out takes a slot by nothing that it was given. That is
// told of when it has been so for a minute, and until its heartbeats say otherwise; of tasks that it has, never.
func TestSlotsTakenByNothingAreTold(t *testing.T) {
	inRig(t, fleet, func(r *rig) {
		a1 := r.worker("a1", true)
		strays := func() int { return r.agent("a1").Strays }
		r.task("t-1", "build", `,"timeout_seconds":300`)
		beats := func(n int, tasks ...string) {
			for range n {
				r.pass(5 * time.Second)
				a1.report(tasks...)
			}
		}
		beats(15, "t-1") // 75 s
		if n := strays(); n != 0 {
			t.Errorf("%d while it has the task, want 0", n)
		}
		a1.finish("failed", `,"error":"ran out of time after 75s: the handler has not returned"`)
		beats(12, "t-1") // the first of them begins the minute: 55 s
		if n := strays(); n != 0 {
			t.Errorf("%d within the minute, want 0", n)
		}
		beats(1, "t-1")
		c := r.service.Health(context.Background()).Checks["agents"]
		if n := strays(); n != 1 || c.Status != view.Degraded ||
			!strings.Contains(c.Detail, "nothing that was given to the agent at a1 (1 of 1)") ||
			!strings.Contains(c.Advice, "start these agents again") {
			t.Errorf("%d after a minute, want 1; agents: %+v", n, c)
		}
		if n := r.status().Counters.TimedOut; n != 0 {
			t.Errorf("%d timed out, want 0: the agent has told the end", n)
		}
		beats(1)
		if n := strays(); n != 0 {
			t.Errorf("%d when it runs nothing, want 0", n)
		}
	})
}
