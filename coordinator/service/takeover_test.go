package service

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"taskbus/coordinator/bus"
	"taskbus/coordinator/journal"
	"taskbus/coordinator/service/internal/journaling"
	"taskbus/coordinator/service/internal/outbox"
	"taskbus/messages"
	"taskbus/schemas"
	"taskbus/tests/support/membus"
)

// answers sets how the broker answers what is written to the journal.
func (r *rig) answers(reply membus.Reply) {
	r.broker.SetConfirm(func(p bus.Publication) membus.Reply {
		if p.Key == bus.StreamJournal {
			return reply
		}
		return membus.Answer
	})
}

// after runs a test with a coordinator that begins when another has ended, on the same
// broker; before is what the first one does, between what happens until the second.
func after(t *testing.T, agentsYAML string, before func(first *rig), test func(second *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		first := newRig(t, agentsYAML)
		first.start()
		before(first)
		first.close()
		second := newRig(t, agentsYAML)
		second.broker = first.broker
		second.service.options.Bus = first.broker
		second.connect()
		second.others = append(second.others, second.outside)
		test(second)
		second.close()
	})
}

// finishTasks has an agent do so many tasks, and the journal a snapshot behind them.
func (r *rig) finishTasks(n int) {
	r.t.Helper()
	r.reportTasks("a1")
	for i := range n {
		r.task(fmt.Sprint("t-", i), "build", "")
		r.result("a1", fmt.Sprint("t-", i), "succeeded", "")
	}
	r.reportTasks("a1")
	r.pass(journaling.SnapshotEvery + 2*time.Second)
}

// A leader that reads of a later epoch in the journal leads no more: its session ends at
// once. What it gives away after that it gives away in an epoch later still.
func TestLaterEpochEndsTheSession(t *testing.T) {
	inRig(t, fleet, func(r *rig) {
		r.heartbeat("a1", 0)
		claim := journal.AppendEpoch(nil,
			journal.Header{Epoch: 7, First: 1, At: time.Now(), ResultOffset: -1, SnapshotOffset: -1},
			journal.Epoch{Nonce: "other", Instance: "taskbus@other"})
		r.publish(bus.StreamJournal, string(claim))
		if !strings.Contains(r.log.String(), "another coordinator leads since epoch 7; this one led in epoch 1") {
			t.Fatalf("nothing is said of it in\n%s", r.log)
		}
		r.task("t-1", "build", "")
		if n := len(r.in("agent.a1")); n != 0 {
			t.Errorf("%d dispatches by a leader whose epoch is over", n)
		}
		r.pass(backoffMax)
		if st := r.status(); st.Leader == nil || st.Leader.Instance != "taskbus@test" || st.Leader.Epoch != 8 {
			t.Errorf("leader %+v, want itself in epoch 8", st.Leader)
		}
		r.only("agent.a1")
	})
}

// A stream of results that was deleted and declared anew ends before the offset at which
// the journal says that reading goes on. Its results are heard all the same.
func TestResultsAreReadFromAStreamDeclaredAnew(t *testing.T) {
	after(t, wide, func(first *rig) {
		first.finishTasks(20)
		if at := first.status().Journal.ResultOffset; at < 20 {
			t.Fatalf("results go on at offset %d, want it behind the twenty", at)
		}
	}, func(second *rig) {
		second.broker.DeleteQueue(bus.StreamResult)
		second.start()
		second.reportTasks("a1")
		second.pass(3 * fenceTimeout)
		if !strings.Contains(second.log.String(), "has the stream been declared anew?") {
			t.Errorf("nothing is said of it in\n%s", second.log)
		}
		second.task("n-1", "build", "")
		second.result("a1", "n-1", "succeeded", "")
		if n := second.status().Pending.Leased; n != 0 {
			t.Errorf("%d leased, want the result of n-1 heard", n)
		}
	})
}

// While the journal does not answer, no more is read of results than may wait: the
// stream has the rest.
func TestResultsWaitInTheirStreamForTheJournal(t *testing.T) {
	const lot, sent = 1000, 2 * outbox.Most
	inRig(t, wide, func(r *rig) {
		// what they list is theirs, whichever coordinator has given it to them
		agents, runs := []string{"a1", "a2"}, make([][]string, 2)
		for i := range sent {
			runs[i%2] = append(runs[i%2], fmt.Sprint("x-", i))
		}
		for i, agent := range agents {
			r.reportTasks(agent, runs[i]...)
		}
		r.answers(membus.Withhold)
		for i := range sent {
			body := resultBody(agents[i%2], fmt.Sprint("x-", i), "succeeded", fmt.Sprintf(`,"dispatch_id":"x-%d.1"`, i))
			if err := r.outside.Publish(bus.Publication{Key: bus.StreamResult, Body: []byte(body)}); err != nil {
				t.Fatal(err)
			}
			if i%lot == lot-1 {
				synctest.Wait() // so that no more than a lot is read beyond the bound
			}
		}
		if n := r.service.current.Load().pastRead.Load(); n == 0 || n > outbox.Most+lot {
			t.Errorf("%d results were read, want some, and at most %d of %d", n, outbox.Most+lot, sent)
		}
		r.broker.SetConfirm(nil)
		r.broker.ReleaseConfirms()
		r.settle()
		if n := r.service.current.Load().pastRead.Load(); n != sent {
			t.Errorf("%d results were read when the journal answered, want all %d", n, sent)
		}
	})
}

// An order is answered when it will survive: what is lost with the session was never
// promised.
func TestOrderIsAnsweredWhenTheJournalHasIt(t *testing.T) {
	for name, c := range map[string]struct {
		cut  bool
		want bool
	}{
		"the journal has it":     {false, true},
		"the session ends first": {true, false},
	} {
		t.Run(name, func(t *testing.T) {
			inRig(t, fleet, func(r *rig) {
				r.heartbeat("a1", 0)
				r.pass(time.Second)
				r.answers(membus.Withhold)
				answered := make(chan error, 1)
				go func() {
					_, err := r.service.Order(context.Background(), "a1", orderCordon)
					answered <- err
				}()
				synctest.Wait()
				select {
				case err := <-answered:
					t.Fatalf("answered with %v before the journal had it", err)
				default:
				}
				r.broker.SetConfirm(nil)
				if c.cut {
					r.broker.Cut()
				} else {
					r.broker.ReleaseConfirms()
				}
				if err := <-answered; (err == nil) != c.want {
					t.Errorf("answered with %v, want it carried out: %v", err, c.want)
				}
				if !c.cut && !r.agent("a1").Cordoned {
					t.Error("a1 is not cordoned")
				}
				if c.cut {
					r.pass(backoffMax)
					r.connect()
				}
			})
		})
	}
}

// What we hold of an agent's queue when our session ends was in our hands, not in its:
// it did not fail on it, and the agent may have it again.
func TestTakingBackIsNotTheAgentsFault(t *testing.T) {
	inRig(t, wide, func(r *rig) {
		r.reportTasks("a1") // it never fetches anything
		for i := range 3 {
			r.task(fmt.Sprint("t-", i), "build", "")
		}
		r.pass(time.Second)
		r.offline("a1")
		r.pass(2 * time.Second)
		if n := r.broker.Unacked("agent.a1"); n != 3 {
			t.Fatalf("%d are in our hands, want 3: no other consumer can have them", n)
		}
		r.broker.Cut()
		r.pass(3 * time.Second)
		r.connect()
		r.pass(2 * time.Second)
		r.reportTasks("a2")
		r.pass(2 * time.Second)
		all := r.in("agent.a2")
		if len(all) != 3 {
			t.Fatalf("a2 has %d, want 3; log:\n%s", len(all), r.log)
		}
		for _, m := range all {
			if tried := m.Headers[messages.HeaderTried]; tried != nil {
				t.Errorf("%s was tried on %v, want no agent", m.MessageID, tried)
			}
		}
	})
}

// After a restart an agent has as many slots as before: its last heartbeat speaks for
// the tasks that it lists.
func TestSlotsAreTheSameAfterARestart(t *testing.T) {
	inRig(t, wide, func(r *rig) {
		r.reportTasks("a1")
		r.task("t-1", "build", "")
		r.task("t-2", "build", "")
		r.pass(time.Second)
		r.reportTasks("a1", "t-1", "t-2")
		for range 10 {
			r.broker.Cut()
			r.pass(backoffMax + time.Second)
			if a := r.agent("a1"); a.FreeSlots != 2 || a.InFlight != 2 || a.Uncovered != 0 {
				t.Fatalf("a1: %d slots free, %d tasks, %d of them uncovered; want 2 of its 4, 2 and 0", a.FreeSlots, a.InFlight,
					a.Uncovered)
			}
			r.connect()
			r.reportTasks("a1", "t-1", "t-2")
		}
	})
}

// With --journal-skip-corrupt a journal whose last message is damaged, and whose beginning
// retention has taken away, is of use from its newest snapshot on.
func TestDamagedEndOfATrimmedJournal(t *testing.T) {
	after(t, wide, func(first *rig) {
		first.finishTasks(20)
		at := first.status().Journal.SnapshotOffset
		if at < 10 {
			t.Fatalf("the newest snapshot begins at offset %d, want something before it", at)
		}
		first.broker.Trim(bus.StreamJournal, at-5)
	}, func(second *rig) {
		all := second.broker.Messages(bus.StreamJournal)
		body := append([]byte(nil), all[len(all)-1].Body...)
		body[len(body)-1] ^= 0xff
		second.publish(bus.StreamJournal, string(body))
		second.service.options.SkipCorrupt = true
		second.start()
		if st := second.status().Readiness; !st.Ready {
			t.Fatalf("%+v, want it to lead; log:\n%s", st, second.log)
		}
		second.task("t-3", "build", "")
		if n := second.status().Counters.Duplicates; n != 1 {
			t.Errorf("%d duplicates, want t-3 known from the snapshot", n)
		}
	})
}

// With classic queues a standby reads none of what agents report: one message of
// a queue has one reader, and it would be missing to the leader.
func TestStandbyLeavesAClassicQueueAlone(t *testing.T) {
	withStandby(t, fleet+"queues: classic\n", func(first, second *rig) {
		for range 10 {
			first.heartbeat("a1", 0)
			first.pass(100 * time.Millisecond)
		}
		if a, b := first.status().Counters.StatusReceived, second.status().Counters.StatusReceived; a != 10 || b != 0 {
			t.Errorf("of 10 heartbeats the leader heard %d and the one that stands by %d", a, b)
		}
		first.close()
		second.pass(time.Second)
		if st := second.status().Readiness.State; st != stateActive {
			t.Errorf("the second is %s when the first has gone, want it active", st)
		}
		second.close()
	})
}

// With classic queues a result is taken out of its queue when the journal has what
// follows from it: a session that ends before leaves it there.
func TestClassicResultSurvivesTheSession(t *testing.T) {
	inRig(t, fleet+"queues: classic\n", func(r *rig) {
		bindAll(r)
		r.reportTasks("a1")
		r.task("t-1", "build", "")
		r.pass(time.Second)
		r.answers(membus.Lose)
		r.result("a1", "t-1", "succeeded", "")
		r.pass(time.Second)
		if n := r.broker.Unacked(bus.StreamResult); n != 1 {
			t.Errorf("%d results are held, want that of t-1", n)
		}
		r.broker.SetConfirm(nil)
		r.broker.Cut()
		r.pass(5 * time.Second)
		r.connect()
		r.reportTasks("a1")
		r.pass(10 * time.Minute)
		if n := len(r.events(schemas.TaskCompleted)); n != 1 {
			t.Errorf("%d task.completed, want that of t-1", n)
		}
		r.empty(bus.QueueFailed)
		r.empty(bus.StreamResult)
	})
}
