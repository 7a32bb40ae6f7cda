package agent_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"taskbus/coordinator/bus"
	"taskbus/messages"
	"taskbus/tests/support/membus"
)

// newBareRig is a broker that no coordinator has prepared. A test that goes on
// must set outside.
func newBareRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{t: t, broker: membus.New(), log: &lockedBuffer{}}
	r.broker.SetUser("a1")
	var err error
	if r.decoder, err = standardDecoder(); err != nil {
		t.Fatal(err)
	}
	return r
}

// prepare does to the broker what a coordinator would, or a part of it.
func (r *rig) prepare(topology bus.Topology) {
	r.t.Helper()
	session, err := r.broker.Open(context.Background(), bus.SessionSpec{Name: "coordinator", Topology: topology})
	if err != nil {
		r.t.Fatal(err)
	}
	if err := session.Close(context.Background()); err != nil {
		r.t.Error(err)
	}
	if r.outside != nil {
		return
	}
	// What comes later it may publish to as well.
	spec := bus.SessionSpec{Name: "coordinator", Topology: bus.Standard(bus.Off, bus.ProfileQuorum, nil)}
	if r.outside, err = r.broker.Open(context.Background(), spec); err != nil {
		r.t.Fatal(err)
	}
}

// Before any coordinator has been here there is nothing to report to: the agent
// waits, does not hurry, and says what for. It takes no tasks either, because it
// could not say what becomes of them.
//
// Pauses double from 250 ms to 15 s, half of that on average: within a minute
// 0.125 + 0.25 + … + 4 s = 7.9 s for six, then 7.5 s each, in all 13. Chance may
// make it 6 to 40.
func TestWaitsForTheFirstCoordinator(t *testing.T) {
	for _, tt := range []struct {
		name  string
		there bus.Topology
	}{
		{"an empty broker", bus.Topology{Mode: bus.Declare}},
		{"its queue has a task, and the exchange is missing", bus.Topology{
			Mode: bus.Declare, Queues: []bus.Queue{bus.AgentQueue(bus.ProfileQuorum, "agent.a1")},
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newBareRig(t)
				defer r.close()
				r.prepare(tt.there)
				queued := len(tt.there.Queues) > 0
				if queued {
					r.give("before")
				}
				r.run(1, work(0))
				r.pass(time.Minute)
				const says = "the exchange taskbus.agents, by which agents report, does not exist yet; waiting for a coordinator"
				if n := countLog(r, says); n < 6 || n > 40 {
					t.Errorf("%d log lines in a minute, want 6 to 40:\n%s", n, r.log)
				}
				r.expectLog("connected to the broker", 0)
				if queued {
					r.settled(1, 0)
				}
				r.prepare(bus.Standard(bus.Declare, bus.ProfileQuorum, []string{"agent.a1"}))
				r.pass(15 * time.Second) // the longest pause
				r.give("t")
				if want := "t succeeded"; queued {
					r.expect("before succeeded, " + want)
				} else {
					r.expect(want)
				}
				r.withdraw(messages.TaskCancel{TaskID: "u"}) // it has a control queue: this is routed
				r.expectLog("no control queue", 0)
			})
		})
	}
}

// The exchange is there and leads nowhere: topology off with bindings forgotten, or
// a coordinator that is about to make them. What is returned is not taken for sent.
func TestExchangeWithoutBindings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newBareRig(t)
		defer r.close()
		whole := bus.Standard(bus.Declare, bus.ProfileQuorum, []string{"agent.a1"})
		unbound := whole
		unbound.Bindings = nil
		r.prepare(unbound)
		r.run(1, work(0))
		r.give("t")
		r.pass(10*time.Second + 500*time.Millisecond)
		r.settled(0, 1) // neither acknowledged nor given back
		r.expect("")
		r.expectActive("none")
		r.expectLog("are the streams agent.status and task.result bound to the exchange taskbus.agents?", 1)
		r.prepare(whole)
		r.pass(time.Second) // retryRefused
		r.expect("t succeeded")
		r.settled(0, 0)
		r.expectActive("ready []") // a second later, not with the next interval
		r.expectLog("connected to the broker", 1)
	})
}
