package service

import (
	"context"
	"fmt"
	"testing"
	"time"

	"taskbus/coordinator/bus"
	"taskbus/coordinator/service/internal/outbox"
	"taskbus/tests/support/membus"
)

// What was published without an answer goes the same way again, marked.
func TestUnknownOutcomeIsRepeatedToTheSameAgent(t *testing.T) {
	inRig(t, fleet, func(r *rig) {
		r.heartbeat("a1", 0)
		r.heartbeat("a2", 0)
		r.broker.SetConfirm(func(p bus.Publication) membus.Reply {
			if p.Type == "task.dispatch" {
				return membus.Withhold // it arrives, but the answer does not
			}
			return membus.Answer
		})
		r.task("t-1", "build", "")
		queue := "agent.a1"
		if len(r.in(queue)) == 0 {
			queue = "agent.a2"
		}
		if r.broker.Unacked(bus.QueueAssign) != 1 {
			t.Fatal("the task was acknowledged before its dispatch was confirmed")
		}
		r.broker.SetConfirm(nil)
		r.broker.Cut()
		r.pass(20 * time.Second) // beyond the longest back-off
		r.connect()
		got := r.in(queue)
		if len(got) != 2 {
			t.Fatalf("%s holds %d messages, want the dispatch and its repetition; log:\n%s", queue, len(got), r.log)
		}
		if got[1].MessageID != got[0].MessageID || got[1].Headers["x-taskbus-maybe-duplicate"] != true {
			t.Errorf("the repetition: id %s, headers %v", got[1].MessageID, got[1].Headers)
		}
		r.empty(bus.QueueAssign)
	})
}

// TestRepetitionIsRefused: while the first copy may be with its agent the task goes to
// no other because the broker refuses the second for a moment, as a cluster does that has
// lost a node; for ever it does not wait for a full queue.
func TestRepetitionIsRefused(t *testing.T) {
	for _, c := range []struct {
		refusing time.Duration
		want     string
	}{
		{3 * time.Second, "t-1.1 t-1.1"},
		{2 * againFor, "t-1.1 t-1.2"},
	} {
		t.Run(c.refusing.String(), func(t *testing.T) {
			inRig(t, fleet, func(r *rig) {
				reply := membus.Withhold
				r.broker.SetConfirm(func(p bus.Publication) membus.Reply {
					if p.Type == "task.dispatch" && (reply == membus.Withhold || p.Key == "agent.a1") {
						return reply
					}
					return membus.Answer
				})
				r.heartbeat("a1", 0)
				r.task("t-1", "build", "")
				if n := len(r.in("agent.a1")); n != 1 {
					t.Fatalf("a1 has %d messages, want its dispatch", n)
				}
				reply = membus.Nack
				r.broker.Cut()
				r.pass(time.Second) // the first back-off is at most 250 ms
				r.connect()
				for passed := time.Duration(0); passed < 2*againFor; passed += time.Second {
					if passed >= c.refusing {
						r.broker.SetConfirm(nil)
					}
					r.heartbeat("a1", 1)
					r.heartbeat("a2", 0)
					r.pass(time.Second)
				}
				got := ""
				for _, m := range append(r.in("agent.a1"), r.in("agent.a2")...) {
					got += " " + attemptID(m.MessageID)
				}
				if got != " "+c.want {
					t.Errorf("the agents have%s, want %s; log:\n%s", got, c.want, r.log)
				}
			})
		})
	}
}

// A dispatch that reached its agent, but not its confirm, must not make the task
// fail because the agent is busy with it.
func TestUnknownOutcomeAtABusyAgentIsRepeatedToIt(t *testing.T) {
	inRig(t, fleet, func(r *rig) {
		r.heartbeat("a2", 0)
		r.broker.SetConfirm(func(p bus.Publication) membus.Reply {
			if p.Type == "task.dispatch" {
				return membus.Withhold
			}
			return membus.Answer
		})
		r.task("t-1", "train", "") // only a2 can
		r.pass(time.Second)
		r.heartbeat("a2", 1) // it runs t-1: its one slot is taken
		r.broker.SetConfirm(nil)
		r.broker.Cut()
		r.pass(20 * time.Second)
		r.connect()
		r.empty(bus.QueueFailed)
		got := r.in("agent.a2")
		if len(got) != 2 || got[1].MessageID != got[0].MessageID || got[1].Headers["x-taskbus-maybe-duplicate"] != true {
			t.Errorf("a2's queue: %d messages, want the dispatch and its marked repetition", len(got))
		}
	})
}

func TestReplyToGetsACopyOfTheFailure(t *testing.T) {
	inRig(t, fleet, func(r *rig) {
		s, err := r.broker.Open(context.Background(), bus.SessionSpec{Name: "producer", Topology: bus.Topology{
			Mode: bus.Declare, Queues: []bus.Queue{{Name: "my.replies", Kind: bus.Classic}},
		}})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close(context.Background())
		replyTo := func(queue string) func(*bus.Properties) {
			return func(p *bus.Properties) { p.ReplyTo = queue }
		}
		r.task("t-1", "paint", "", replyTo("my.replies"))
		r.task("t-2", "paint", "", replyTo("no.such.queue")) // its loss costs nothing else
		if m := r.only("my.replies"); m.text("task_id") != "t-1" {
			t.Errorf("copy %s", m.Body)
		}
		if n := len(r.in(bus.QueueFailed)); n != 2 {
			t.Errorf("%d failures in %s, want both", n, bus.QueueFailed)
		}
		r.empty(bus.QueueAssign)
	})
}

// No producer can have Taskbus write into queues that are not its own.
func TestReplyToIntoOurQueuesIsRefused(t *testing.T) {
	inRig(t, fleet, func(r *rig) {
		for i, queue := range []string{"agent.a1", bus.QueueAssign, bus.StreamStatus, bus.QueueDead} {
			r.task(fmt.Sprint("t-", i), "paint", "", func(p *bus.Properties) { p.ReplyTo = queue })
		}
		if n := len(r.in(bus.QueueFailed)); n != 4 {
			t.Errorf("%d failures, want 4", n)
		}
		r.empty("agent.a1")
		r.empty(bus.QueueDead)
	})
}

// A producer's full reply queue is the producer's business alone.
func TestFullReplyQueueStopsNobody(t *testing.T) {
	inRig(t, fleet, func(r *rig) {
		s, err := r.broker.Open(context.Background(), bus.SessionSpec{Name: "producer", Topology: bus.Topology{
			Mode: bus.Declare, Queues: []bus.Queue{{Name: "my.replies", Kind: bus.Quorum, DeliveryLimit: 5, MaxLength: 1}},
		}})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close(context.Background())
		for _, id := range []string{"t-1", "t-2", "t-3"} {
			r.task(id, "paint", "", func(p *bus.Properties) { p.ReplyTo = "my.replies" })
		}
		r.pass(time.Minute)
		if n := len(r.in(bus.QueueFailed)); n != 3 {
			t.Errorf("%d failures, want 3", n)
		}
		if n := r.service.sessions.Load(); n != 1 {
			t.Errorf("%d sessions, want the first to go on", n)
		}
		r.empty(bus.QueueAssign)
	})
}

// When assignment.failed is gone it is declared again, and the failure gets there,
// within the same session.
func TestFailureThatCannotBePublishedIsNotLost(t *testing.T) {
	inRig(t, fleet, func(r *rig) {
		r.broker.DeleteQueue(bus.QueueFailed)
		r.task("t-1", "paint", "")
		r.pass(outbox.NoticePause)
		if m := r.only(bus.QueueFailed); m.text("task_id") != "t-1" {
			t.Errorf("%s", m.Body)
		}
		r.empty(bus.QueueAssign)
		if n := r.service.sessions.Load(); n != 1 {
			t.Errorf("%d sessions, want the first to go on", n)
		}
	})
}
