package service

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"taskbus/coordinator/bus"
	"taskbus/coordinator/service/internal/intake"
	"taskbus/coordinator/service/internal/outbox"
	"taskbus/schemas"
	"taskbus/tests/support/membus"
)

// TestEndIsToldInTheNextSession: the broker loses an announcement together with the
// connection. The result is no news when the stream is read again, so that only we
// can tell of it: once, in the next session.
func TestEndIsToldInTheNextSession(t *testing.T) {
	for name, reply := range map[string]membus.Reply{"lost with the session": membus.Lose,
		"confirmed too late": membus.Withhold} {
		t.Run(name, func(t *testing.T) {
			inRig(t, wide, func(r *rig) {
				bindAll(r)
				r.reportTasks("a1")
				r.task("t-1", "build", "")
				r.pass(time.Second)
				d := r.only("agent.a1")
				r.broker.SetConfirm(func(p bus.Publication) membus.Reply {
					if p.Type == schemas.TaskCompleted {
						return reply
					}
					return membus.Answer
				})
				r.result("a1", "t-1", "succeeded", fmt.Sprintf(`,"dispatch_id":%q`, d.MessageID))
				r.pass(time.Second)
				before := len(r.events(schemas.TaskCompleted))
				r.broker.SetConfirm(nil)
				r.broker.Cut()
				r.pass(30 * time.Second)
				r.connect()
				r.pass(time.Second)
				if got := len(r.events(schemas.TaskCompleted)) - before; got != 1 {
					t.Errorf("%d announcements in the next session, want 1\n%s", got, r.log)
				}
				r.broker.Cut()
				r.pass(30 * time.Second)
				r.connect()
				if got := len(r.events(schemas.TaskCompleted)) - before; got != 1 {
					t.Errorf("%d announcements after one more session, want 1 still", got)
				}
			})
		})
	}
}

// TestEndIsToldThatAStoppingBrokerRefused: a broker that stops refuses what it cannot take any more, takes
// other messages for a moment, and ends the session. The refused end is told in the next one.
func TestEndIsToldThatAStoppingBrokerRefused(t *testing.T) {
	inRig(t, wide, func(r *rig) {
		bindAll(r)
		r.reportTasks("a1")
		r.task("t-1", "build", "")
		r.pass(time.Second)
		r.broker.SetConfirm(func(p bus.Publication) membus.Reply {
			if p.Type == schemas.TaskCompleted {
				return membus.Nack
			}
			return membus.Answer
		})
		r.result("a1", "t-1", "succeeded", "")
		r.pass(time.Second)
		before := len(r.events(schemas.TaskCompleted))
		r.task("t-2", "build", "") // the journal goes on, and says how far results have been dealt with
		r.pass(time.Second)
		r.broker.SetConfirm(nil)
		r.broker.Cut()
		r.pass(30 * time.Second)
		r.connect()
		r.pass(time.Second)
		if got := len(r.events(schemas.TaskCompleted)) - before; got != 1 {
			t.Errorf("%d announcements in the next session, want 1\n%s", got, r.log)
		}
		if n := r.value("taskbus_events_dropped_total"); n != 0 {
			t.Errorf("%v events dropped, want none", n)
		}
	})
}

// TestRefusedAnnouncementIsDropped: a listener's full queue costs that listener the event, and no other
// anything.
func TestRefusedAnnouncementIsDropped(t *testing.T) {
	inRig(t, wide, func(r *rig) {
		r.reportTasks("a1")
		r.broker.SetConfirm(func(p bus.Publication) membus.Reply {
			if p.Type == schemas.TaskCompleted {
				return membus.Nack
			}
			return membus.Answer
		})
		for i := range 3 {
			id := fmt.Sprint("t-", i)
			r.task(id, "build", "")
			r.pass(time.Second)
			r.result("a1", id, "succeeded", "")
			r.pass(time.Second)
		}
		r.pass(refusedFor)
		if n := r.value("taskbus_events_dropped_total"); n != 3 {
			t.Errorf("%v events dropped, want 3", n)
		}
	})
}

// TestFenceIsNotReadBack: tasks are taken all the same, and what was read counts.
func TestFenceIsNotReadBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, wide)
		r.broker.SetConfirm(func(p bus.Publication) membus.Reply {
			if p.Type == intake.TypeFence && p.Key == bus.StreamResult {
				return membus.Nack
			}
			return membus.Answer
		})
		r.start()
		bindAll(r)
		r.reportTasks("a1", "t-1") // what it lists is adopted from a coordinator before
		r.result("a1", "t-1", "succeeded", `,"dispatch_id":"t-1.1"`)
		if n := r.status().Readiness.State; n != stateConnecting {
			t.Errorf("it is %s while the past is being read", n)
		}
		r.pass(fencePatience + fenceTimeout)
		if n := r.status().Readiness.State; n != stateActive {
			t.Errorf("it is %s, want it to go on without the mark", n)
		}
		if n := len(r.events(schemas.TaskCompleted)); n != 1 {
			t.Errorf("%d ends announced, want 1", n)
		}
		r.close()
	})
}

// endingSession is a broker session that ends, and goes on delivering for a moment.
type endingSession struct {
	bus.Session
	done  chan struct{}
	acked int
}

func (e *endingSession) Ack(bus.Tag) { e.acked++ }

func (e *endingSession) Done() <-chan struct{} { return e.done }

// TestNothingIsReadBehindAnUnreadResult: a result that finds no room when the session ends is left to the
// next one. What is delivered behind it, when there is room again, must not move on where that begins to
// read; and a queue keeps it.
func TestNothingIsReadBehindAnUnreadResult(t *testing.T) {
	for name, offsets := range map[string][3]int64{"stream": {5, 6, 7}, "queue": {-1, -1, -1}} {
		t.Run(name, func(t *testing.T) {
			r := resultSession(t)
			ending := &endingSession{done: make(chan struct{})}
			r.bus = ending
			for range outbox.Most {
				r.outbox.Add(func() {})
			}
			close(ending.done)
			before := len(r.s.loop.inbox)
			body := func(id string) []byte { return []byte(resultBody("a1", id, "succeeded", "")) }
			r.onResult(bus.Delivery{Queue: bus.StreamResult, Body: body("t-1"), Offset: offsets[0]})
			for range outbox.Most {
				r.outbox.Published()
			}
			r.onResult(bus.Delivery{Queue: bus.StreamResult, Body: body("t-2"), Offset: offsets[1]})
			r.onResult(bus.Delivery{Queue: bus.StreamResult, Properties: bus.Properties{Type: intake.TypeFence},
				Offset: offsets[2]})
			if n := len(r.s.loop.inbox) - before; n != 0 || ending.acked != 0 {
				t.Errorf("%d events and %d acknowledgements in a session that has ended, want none", n, ending.acked)
			}
		})
	}
}

// value is that of a counter or gauge without labels.
func (r *rig) value(name string) float64 {
	r.t.Helper()
	families, err := r.service.options.Registry.Gather()
	if err != nil {
		r.t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == name {
			m := f.GetMetric()[0]
			return m.GetCounter().GetValue() + m.GetGauge().GetValue() // the one that it is not is 0
		}
	}
	r.t.Fatalf("no metric %s", name)
	return 0
}
