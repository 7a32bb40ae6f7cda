package service

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"taskbus/coordinator/bus"
	"taskbus/coordinator/service/internal/journaling"
	"taskbus/coordinator/service/internal/recent"
	"taskbus/messages"
	"taskbus/schemas"
	"taskbus/tests/support/membus"
)

// withStandby runs a test with two coordinators of which the first leads.
func withStandby(t *testing.T, agentsYAML string, test func(first, second *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		first := newRig(t, agentsYAML)
		first.start()
		second := newRig(t, agentsYAML)
		second.broker = first.broker
		second.service.options.Bus, second.service.options.Instance = first.broker, "taskbus@second"
		second.start()
		test(first, second)
	})
}

// A standby knows the fleet and what the leader does, and answers questions.
func TestStandbyAnswers(t *testing.T) {
	withStandby(t, fleet, func(first, second *rig) {
		a1 := first.worker("a1", true)
		first.task("t-1", "build", "")
		a1.finish("succeeded", "")
		first.task("t-2", "build", "")
		ctx := context.Background()
		st := second.status()
		if st.Readiness.Ready || st.Readiness.State != stateStandby ||
			!strings.Contains(st.Readiness.Detail, "taskbus@test leads") {
			t.Errorf("readiness %+v, want a standby that names the leader", st.Readiness)
		}
		if st.Leader == nil || st.Leader.Instance != "taskbus@test" || st.Leader.Epoch != 1 {
			t.Errorf("leader %+v in the status of the one that stands by", st.Leader)
		}
		if a := second.agent("a1"); a.State != "online" || a.Leased != 1 || a.Assigned != 2 {
			t.Errorf("a1 at the one that stands by: %+v, want it online with t-2, after two assignments", a)
		}
		for id, want := range map[string]string{"t-1": recent.Succeeded, "t-2": recent.Dispatched} {
			if task, ok := second.service.Task(ctx, id); !ok || task.State != want || task.Agent != "a1" {
				t.Errorf("%s: %+v, want it %s", id, task, want)
			}
		}
		if _, err := second.service.WhatIf(ctx, []byte(taskBody("t-3", "build", ""))); err != nil {
			t.Errorf("a question to the one that stands by: %v", err)
		}
		if _, err := second.service.Order(ctx, "a1", 0); err == nil {
			t.Error("the one that stands by takes an order")
		}
		if n := second.value("taskbus_tasks_dispatched_total"); n != 0 {
			t.Errorf("the one that stands by counts %v dispatches as its own", n)
		}
		first.close()
		second.pass(time.Second)
		second.close()
	})
}

// The next leader knows which agent each task was given to, and which ids were seen.
func TestTakeOverKnowsEverything(t *testing.T) {
	withStandby(t, fleet, func(first, second *rig) {
		bindAll(first)
		a1 := first.worker("a1", true)
		first.task("t-1", "build", "")
		a1.finish("succeeded", "")
		first.task("t-2", "build", "")
		if _, err := first.service.Order(context.Background(), "a2", 0); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		first.close()
		second.pass(time.Second)
		if st := second.status(); st.Readiness.State != stateActive || st.Pending.Leased != 1 || st.Leader.Epoch != 2 {
			t.Fatalf("after the take-over: %+v, %d leased, want it active with t-2 leased", st.Readiness, st.Pending.Leased)
		}
		if !second.agent("a2").Cordoned {
			t.Error("a2 was cordoned, and is not any more")
		}
		if a := second.info("a1"); a.Outcomes < 0.9 || a.SuccessRate < 0.9 {
			t.Errorf("a1 succeeded once before the take-over: %+v", a)
		}
		second.task("t-1", "build", "") // a copy, an hour too early to be new
		second.task("t-1", "build", `,"priority":3`)
		c := second.status().Counters
		if c.Duplicates != 1 || c.FailedByReason["duplicate_task"] != 1 {
			t.Errorf("%d duplicates, %v failed; want the copy dropped and the other content refused", c.Duplicates,
				c.FailedByReason)
		}
		second.publish(bus.StreamResult, resultBody("a1", "t-2", "succeeded", `,"dispatch_id":"t-2.1"`))
		if n := second.status().Pending.Leased; n != 0 {
			t.Errorf("%d leased after the result of t-2", n)
		}
		if n := len(second.events(schemas.TaskCompleted)); n != 2 {
			t.Errorf("%d task.completed, want one for each task", n)
		}
		second.close()
	})
}

// A task that was decided and not acknowledged when its leader died goes to the same
// agent under the same dispatch id, marked, whatever came of the first copy; one that
// was not decided is decided anew.
func TestRedeliveredTaskKeepsItsDispatch(t *testing.T) {
	for name, c := range map[string]struct {
		key    string // whose confirm is not given
		same   bool
		marked bool
	}{
		"decided, not confirmed":              {"agent.a1", true, true},
		"decided, and the journal has not it": {bus.StreamJournal, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			inRig(t, fleet, func(r *rig) {
				r.heartbeat("a1", 0)
				r.broker.SetConfirm(func(p bus.Publication) membus.Reply {
					if p.Key == c.key {
						return membus.Lose
					}
					return membus.Answer
				})
				r.task("t-1", "build", "")
				if n := len(r.in("agent.a1")); n != 0 {
					t.Fatalf("%d dispatches arrived, want none", n)
				}
				r.broker.SetConfirm(nil)
				r.heartbeat("a2", 0) // is as good, and idle
				r.broker.Cut()
				r.pass(5 * time.Second)
				r.connect()
				all := append(r.in("agent.a1"), r.in("agent.a2")...)
				if len(all) != 1 {
					t.Fatalf("%d dispatches, want 1; log:\n%s", len(all), r.log)
				}
				d := all[0]
				if attemptID(d.MessageID) != "t-1.1" || c.same && d.Queue != "agent.a1" ||
					d.Headers[messages.HeaderMaybeDuplicate] == nil == c.marked {
					t.Errorf("%s in %s, headers %v", d.MessageID, d.Queue, d.Headers)
				}
			})
		})
	}
}

// What the journal does not have has not happened: no agent is given anything before.
func TestNothingFollowsBeforeTheJournal(t *testing.T) {
	inRig(t, fleet, func(r *rig) {
		r.heartbeat("a1", 0)
		r.broker.SetConfirm(func(p bus.Publication) membus.Reply {
			if p.Key == bus.StreamJournal {
				return membus.Withhold
			}
			return membus.Answer
		})
		r.task("t-1", "build", "")
		r.task("t-2", "nonsense", "")
		r.pass(time.Minute)
		if n, failed := len(r.in("agent.a1")), len(r.in(bus.QueueFailed)); n != 0 || failed != 0 {
			t.Errorf("%d dispatches and %d failures before the journal had them", n, failed)
		}
		r.broker.SetConfirm(nil)
		r.broker.Cut()
		r.pass(backoffMax)
		r.connect()
		r.only("agent.a1")
		r.only(bus.QueueFailed)
	})
}

// A snapshot bounds what a start has to read: it begins there.
func TestSnapshotIsWhereAStartBegins(t *testing.T) {
	inRig(t, wide, func(r *rig) {
		r.reportTasks("a1")
		for i := range 20 {
			r.task(fmt.Sprint("t-", i), "build", "")
			r.result("a1", fmt.Sprint("t-", i), "succeeded", "")
		}
		r.reportTasks("a1")
		r.pass(journaling.SnapshotEvery + 2*time.Second)
		st := r.status()
		if st.Journal == nil || st.Journal.SnapshotOffset <= 0 {
			t.Fatalf("journal %+v, want a complete snapshot", st.Journal)
		}
		r.broker.Trim(bus.StreamJournal, st.Journal.SnapshotOffset)
		r.broker.Cut()
		r.pass(backoffMax)
		r.connect()
		if a := r.info("a1"); a.Outcomes < 10 {
			t.Errorf("a1 after the start: %+v, want 20 outcomes, somewhat faded", a)
		}
		r.task("t-3", "build", "")
		if c := r.status().Counters; c.Duplicates != 1 {
			t.Errorf("%d duplicates, want t-3 known", c.Duplicates)
		}
	})
}
