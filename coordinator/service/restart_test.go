package service

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"taskbus/coordinator/bus"
	"taskbus/coordinator/service/internal/journaling"
	"taskbus/coordinator/service/internal/recent"
	"taskbus/coordinator/service/internal/views"
	"taskbus/coordinator/view"
	"taskbus/tests/support/membus"
)

// asShown is what the lists and explain say of all tasks, with times to 0.1 s.
func (r *rig) asShown() []string {
	var lines []string
	for _, k := range r.service.Tasks(context.Background(), view.TaskFilter{}) {
		x, _ := r.service.Explain(context.Background(), k.ID)
		var attempts []string
		for _, a := range x.Attempts {
			attempts = append(attempts, fmt.Sprintf("%d %s %s", a.Number, a.Agent, a.Outcome))
		}
		tenths := func(ms float64) float64 { return math.Round(ms/100) / 10 }
		lines = append(lines, fmt.Sprintf("%s (%s) %s %s, waited %g s, worked %g s, %s %q; %s", k.ID, k.Type, k.State,
			k.Agent,
			tenths(k.DurationMS), tenths(k.WorkMS), k.ReasonCode, k.Reason, strings.Join(attempts, ", ")))
	}
	return lines
}

// forgets has no recent tasks be remembered.
func (r *rig) forgets() {
	r.service.history = recent.New(recent.Size)
	r.service.reading = r.service.newReader()
}

// begunAnew has the coordinator begin anew; forgets: as another process, which knows what the journal says.
func (r *rig) begunAnew(forgets bool) {
	if forgets {
		r.forgets()
	}
	r.broker.Cut()
	r.pass(backoffMax + time.Second)
	r.connect()
}

// stories are a task that succeeded after it had come back, one that its agent failed, one that was refused,
// one that timed out and was told of too late, and one that was withdrawn.
func (r *rig) stories() {
	a1 := r.worker("a1", true)
	r.task("bounced", "build", "")
	r.pass(2 * time.Second)
	a1.finish("rejected", "")
	a1.report()
	r.pass(3 * time.Second)
	a1.report()
	r.pass(20 * time.Second)
	a1.report()
	r.pass(2 * time.Second)
	a1.finish("succeeded", `,"duration_ms":2000`)
	r.task("broken", "build", "")
	r.pass(time.Second)
	a1.finish("failed", `,"duration_ms":1000,"error":"no disk"`)
	r.task("refused", "origami", "")
	r.task("late", "build", `,"timeout_seconds":5`)
	for range 10 {
		a1.report("late")
		r.pass(time.Second)
	}
	a1.finish("succeeded", "")
	r.pass(time.Second)
}

// What is shown of recent tasks is the same before and after a restart or a take-over, whether the journal has it as
// a snapshot or as the records of what happened; and a session that begins anew within a process counts nothing twice.
func TestTasksAreShownAfterARestartAsBefore(t *testing.T) {
	for _, c := range []struct {
		name            string
		snapshot, other bool
	}{
		{"records", false, true}, {"snapshot", true, true}, {"the same process", false, false},
		{"the same process, snapshot", true, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			inRig(t, fleet, func(r *rig) {
				r.stories()
				if c.snapshot {
					r.pass(journaling.SnapshotEvery + time.Minute)
					if r.status().Journal.SnapshotOffset <= 0 {
						t.Fatal("there is no snapshot")
					}
				}
				before := r.asShown()
				if len(before) != 4 {
					t.Fatalf("%d tasks: %q", len(before), before)
				}
				for range 2 {
					r.begunAnew(c.other)
					if after := r.asShown(); !slices.Equal(before, after) {
						t.Errorf("before\n  %s\nafter\n  %s", strings.Join(before, "\n  "), strings.Join(after, "\n  "))
					}
				}
			})
		})
	}
}

// Dispatches that no queue took are shown after a restart or a take-over as before, and so is what became of their
// tasks.
func TestDispatchesNotTakenAreShownAsBefore(t *testing.T) {
	for _, other := range []bool{true, false} {
		inRig(t, fleet, func(r *rig) {
			full := func(queues ...string) {
				r.broker.SetConfirm(func(p bus.Publication) membus.Reply {
					if slices.Contains(queues, p.Key) {
						return membus.Nack
					}
					return membus.Answer
				})
			}
			a1, a2 := r.worker("a1", true), r.worker("a2", true)
			full("agent.a1")
			r.task("elsewhere", "build", `,"preferred_agents":["a1"]`)
			r.pass(time.Second)
			a2.finish("succeeded", "")
			full("agent.a1", "agent.a2")
			r.task("nowhere", "build", "")
			for range 12 {
				r.pass(5 * time.Second)
				a1.report()
				a2.report()
			}
			before := r.asShown()
			for _, line := range before {
				if !strings.Contains(line, "1 a1 queue_full, 1 a2 ") {
					t.Errorf("before: %s", line)
				}
			}
			r.begunAnew(other)
			if after := r.asShown(); len(before) != 2 || !slices.Equal(before, after) {
				t.Errorf("before\n  %s\nafter\n  %s", strings.Join(before, "\n  "), strings.Join(after, "\n  "))
			}
		})
	}
}

// The time that a task waited is all that it spent waiting, over its attempts, without the work between them; a success
// that comes too late is told of.
func TestWhatIsShownOfStories(t *testing.T) {
	inRig(t, fleet, func(r *rig) {
		r.stories()
		// it came back after 2 s, and was tried again after 1 to 2 s
		bounced, _ := r.service.Task(context.Background(), "bounced")
		if bounced.DurationMS < 1000 || bounced.DurationMS > 2500 || bounced.WorkMS != 2000 {
			t.Errorf("it waited %g ms and was worked on for %g ms", bounced.DurationMS, bounced.WorkMS)
		}
		late, _ := r.service.Explain(context.Background(), "late")
		if !strings.Contains(late.Reason, "; its agent said succeeded, 4 s too late") ||
			late.Attempts[0].Detail != "succeeded, 4 s too late" {
			t.Errorf("%q, %+v", late.Reason, late.Attempts)
		}
	})
}

// Of a task that is not among the newest any more the duplicate check knows how it ended.
func TestEndedLongAgoIsNotUnknown(t *testing.T) {
	inRig(t, fleet, func(r *rig) {
		r.stories()
		r.forgets()
		for id, want := range map[string]string{"bounced": recent.Succeeded, "broken": recent.Failed, "late": recent.Failed,
			"never": ""} {
			x, known := r.service.Explain(context.Background(), id)
			if x.State != want || known && !strings.Contains(x.Reason, "taskbus journal show "+id) {
				t.Errorf("%s: %+v", id, x)
			}
		}
	})
}

// received counts the tasks that came in for the first time in the last minute.
func (r *rig) received() uint64 {
	n, _ := r.service.observe.LastMinute()
	return n[views.RecentReceived]
}

// A task that waits counts once: what a new session takes out of task.assign was ready there when it began. Nor is a
// delivery that comes once more a task that comes in.
func TestWaitingTasksCountOnceAfterARestart(t *testing.T) {
	const tasks = 25
	inRig(t, fleet, func(r *rig) {
		r.heartbeat("a1", 1)
		for i := range tasks {
			r.task(fmt.Sprint("t-", i), "build", "")
		}
		received := r.received()
		r.broker.Cut()
		waited := 0
		for range 100 {
			r.pass(100 * time.Millisecond)
			st := r.status()
			if st.Readiness.State != stateActive {
				continue
			}
			n := st.Pending.Total
			for _, q := range st.Queues {
				if q.Name == bus.QueueAssign {
					n += q.Ready
				}
			}
			if waited++; n > tasks {
				t.Fatalf("%d tasks wait, want %d: %d are here", n, tasks, st.Pending.Total)
			}
		}
		if again := r.received(); waited == 0 || received != tasks ||
			again != received {
			t.Errorf("%d came in, and %d after the restart; looked %d times", received, again, waited)
		}
	})
}

// How the tasks of an agent ended in the last ten minutes is known after a restart.
func TestResultsOfAgentsOutliveARestart(t *testing.T) {
	ended := view.AgentResults{Succeeded: 1, Failed: 1, Overdue: 1}
	for passes, want := range map[time.Duration]view.AgentResults{0: ended, 10 * time.Minute: {}} {
		after(t, fleet, func(first *rig) {
			first.stories()
			if got := first.agent("a1").Recent; got != ended {
				t.Fatalf("before: %+v", got)
			}
			first.pass(passes)
		}, func(second *rig) {
			second.start()
			second.settle()
			if got := second.agent("a1").Recent; got != want {
				t.Errorf("%s after they ended %+v, want %+v", passes, got, want)
			}
		})
	}
}
