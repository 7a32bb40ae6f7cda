package agent_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"taskbus/agent"
	"taskbus/coordinator/bus"
	"taskbus/tests/support/membus"
)

// The coordinator declares the agent's queue; until then the agent waits, and lets
// itself be heard, because a coordinator may declare it for one that it discovers.
func TestWaitsForItsQueue(t *testing.T) {
	inRig(t, func(r *rig) {
		c := r.config()
		c.ID, c.Queue = "new", "agent.new"
		r.runWith(c, work(0))
		r.pass(time.Minute)
		r.expectLog("cannot consume its queue", 1)
		r.expectActive("ready []")
		if got := r.statuses()[0]; got.Queue != "agent.new" || got.AgentID != "new" {
			t.Errorf("heartbeat %+v", got.AgentStatus)
		}
		if _, err := r.outside.EnsureQueue(context.Background(), bus.AgentQueue(bus.ProfileQuorum, "agent.new")); err != nil {
			t.Fatal(err)
		}
		r.pass(5 * time.Second) // the longest pause between two looks
		d := dispatch("t")
		d.Agent, d.Queue = "new", "agent.new"
		r.send(d, nil)
		r.expect("t succeeded")
	})
}

func TestDeclaresItsQueueIfAskedTo(t *testing.T) {
	inRig(t, func(r *rig) {
		c := r.config()
		c.ID, c.Declare = "new", true
		r.runWith(c, work(0))
		if !r.outside.Matches("agent.new") {
			if ok, err := r.outside.EnsureQueue(context.Background(), bus.AgentQueue(bus.ProfileQuorum, "agent.new")); !ok ||
				err != nil {
				t.Fatal(ok, err)
			}
		}
		if found := r.outside.Findings(); len(found) != 0 {
			t.Errorf("it is not as the coordinator would declare it: %v", found)
		}
		d := dispatch("t")
		d.Agent, d.Queue = "new", "agent.new"
		r.send(d, nil)
		r.expect("t succeeded")
	})
}

// A queue that is deleted under the agent costs neither the session nor the work.
func TestQueueIsDeletedAndComesBack(t *testing.T) {
	inRig(t, func(r *rig) {
		r.run(1, work(3*time.Second))
		r.give("t")
		r.broker.DeleteQueue("agent.a1")
		r.pass(3 * time.Second)
		r.expect("t succeeded")
		if _, err := r.outside.EnsureQueue(context.Background(), bus.AgentQueue(bus.ProfileQuorum, "agent.a1")); err != nil {
			t.Fatal(err)
		}
		r.pass(5 * time.Second)
		r.give("u")
		r.pass(3 * time.Second)
		r.expect("t succeeded, u succeeded")
		r.expectLog("connected to the broker", 1)
	})
}

// What waits for a slot is the broker's again when the queue is deleted.
func TestWaitingDispatchIsForgottenWithItsQueue(t *testing.T) {
	inRig(t, func(r *rig) {
		var worked calls
		r.run(1, func(_ context.Context, task *agent.Task) (agent.Result, error) {
			worked.add(task.ID)
			time.Sleep(time.Minute)
			return agent.Result{}, nil
		})
		r.give("hung", "t")
		r.pass(11 * time.Second)
		r.broker.DeleteQueue("agent.a1")
		r.pass(2 * time.Minute)
		if worked.of("t") != 0 {
			t.Error("it began although its message is gone")
		}
	})
}

// A lasting queue under the name of the control queue is used, and told of: it may
// have other readers.
func TestControlQueueThatIsNoneOfItsOwn(t *testing.T) {
	inRig(t, func(r *rig) {
		if _, err := r.outside.EnsureQueue(context.Background(),
			bus.Queue{Name: "agent.a1.control", Kind: bus.Classic}); err != nil {
			t.Fatal(err)
		}
		r.run(1, work(0))
		r.give("t")
		r.expect("t succeeded")
		r.expectLog("object=agent.a1.control", 1)
		r.expectLog("level=WARN", 1)
	})
}

// refusing is a broker that does not let the agent have a control queue.
type refusing struct {
	*membus.Broker
	err error
}

func (b refusing) Open(ctx context.Context, spec bus.SessionSpec) (bus.Session, error) {
	if len(spec.Topology.Queues) > 0 {
		return nil, b.err
	}
	return b.Broker.Open(ctx, spec)
}

func TestGoesOnWithoutControlQueue(t *testing.T) {
	for name, err := range map[string]error{
		"not permitted":        fmt.Errorf("declare agent.a1.control: %w", bus.ErrAccess),
		"the exchange is gone": &bus.TopologyError{Object: "taskbus.control", Reason: "does not exist"},
	} {
		t.Run(name, func(t *testing.T) {
			inRig(t, func(r *rig) {
				c := r.config()
				c.Bus = refusing{r.broker, err}
				r.runWith(c, work(0))
				r.give("t")
				r.expect("t succeeded")
				r.expectLog("no control queue", 1)
			})
		})
	}
}

// Two processes under one id would share its slots without knowing.
func TestSecondProcessOfOneIdentityWaits(t *testing.T) {
	inRig(t, func(r *rig) {
		who := make(chan string, 10)
		handler := func(name string) agent.Handler {
			return func(context.Context, *agent.Task) (agent.Result, error) {
				who <- name
				return agent.Result{}, nil
			}
		}
		first := r.run(1, handler("first"))
		r.run(1, handler("second"))
		r.pass(time.Minute)
		r.give("a", "b")
		if x, y := <-who, <-who; x != "first" || y != "first" {
			t.Errorf("worked on by %s and %s, want the first alone", x, y)
		}
		if countLog(r, "another process works as this agent") == 0 {
			t.Error("the log does not say why the second waits")
		}
		first.stop()
		r.pass(16 * time.Second) // beyond the longest pause
		r.give("c")
		if x := <-who; x != "second" {
			t.Errorf("worked on by %s, want the second after the first has gone", x)
		}
	})
}
