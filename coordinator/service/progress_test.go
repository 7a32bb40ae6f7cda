package service

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"taskbus/coordinator/bus"
	"taskbus/coordinator/service/internal/journaling"
	"taskbus/coordinator/service/internal/stalls"
	"taskbus/tests/support/membus"
)

// onceBus lets one session in.
type onceBus struct {
	bus.Bus
	opened atomic.Bool
}

func (o *onceBus) Open(ctx context.Context, spec bus.SessionSpec) (bus.Session, error) {
	if o.opened.Swap(true) {
		return nil, errors.New("once")
	}
	return o.Bus.Open(ctx, spec)
}

// TestStandbyTakesOverFromOneThatCannotGoOn: a leader that cannot write its journal is not ready and says
// why, gives up, and another leads.
func TestStandbyTakesOverFromOneThatCannotGoOn(t *testing.T) {
	for _, c := range []struct {
		name   string
		breaks func(r *rig)
		within time.Duration
		says   string
		stalls bool
	}{
		{"a message that can never be sent", func(r *rig) {
			r.service.current.Load().ledger.Inputs(make([]byte, bus.MaxBody+1))
		}, time.Second, "write to the journal: message cannot be encoded", false},
		{"a broker that confirms nothing of the journal", func(r *rig) {
			r.broker.SetConfirm(func(p bus.Publication) membus.Reply {
				if p.Key == bus.StreamJournal && r.service.current.Load() != nil {
					return membus.Withhold
				}
				return membus.Answer
			})
			r.send(bus.QueueAssign, taskBody("t-1", "build", ""))
		}, stalls.Ends + 3*stalls.Period, "the broker has confirmed nothing of what was written to the journal", true},
		{"a goroutine that ends for what is not the session's end", func(r *rig) {
			r.service.current.Load().lasting("does something", func() {})
		}, endsWithin, "what does something has ended, and the session has not", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				first, second := newRig(t, fleet), newRig(t, fleet)
				first.service.options.Bus = &onceBus{Bus: first.broker}
				first.start()
				second.broker, second.service.options.Bus = first.broker, first.broker
				second.start()
				second.heartbeat("a1", 0)
				second.heartbeat("a2", 0)
				first.pass(time.Second)
				if ready := first.service.Ready(context.Background()); !ready.Ready {
					t.Fatalf("at first: %+v", ready)
				}
				c.breaks(first)
				if c.stalls {
					first.pass(stalls.Said + 3*stalls.Period)
					if ready := first.service.Ready(context.Background()); ready.Ready || ready.State != stateStalled ||
						!strings.Contains(ready.Detail, c.says) {
						t.Errorf("while it stalls: %+v", ready)
					}
					if !strings.Contains(first.log.String(), `"level":"error","commits":1`) {
						t.Errorf("the log does not say it:\n%s", first.log)
					}
				}
				first.pass(c.within)
				if ready := first.service.Ready(context.Background()); ready.Ready ||
					!strings.Contains(first.log.String(), c.says) {
					t.Errorf("the first: %+v\n%s", ready, first.log)
				}
				first.broker.SetConfirm(nil)
				first.broker.ReleaseConfirms() // of what the second had to say before the first was gone
				second.pass(2 * time.Second)
				if ready := second.service.Ready(context.Background()); !ready.Ready {
					t.Errorf("the second: %+v\n%s", ready, second.log)
				}
				second.heartbeat("a1", 0)
				second.task("t-2", "build", "")
				second.pass(time.Second)
				if n := len(second.in("agent.a1")) + len(second.in("agent.a2")); n == 0 {
					t.Errorf("nothing is dispatched:\n%s", second.log)
				}
				first.spoilt = true // its session ended with a task in hand
				first.close()
				second.close()
			})
		})
	}
}

// TestSlowIsNotStalled: what goes on, however slowly, and what waits for a broker that holds up
// publishers, goes on.
func TestSlowIsNotStalled(t *testing.T) {
	inRig(t, fleet, func(r *rig) {
		r.heartbeat("a1", 0)
		r.broker.Block(true)
		r.send(bus.QueueAssign, taskBody("t-0", "build", ""))
		r.pass(10 * stalls.Ends)
		r.broker.Block(false)
		r.pass(time.Second)
		r.broker.SetConfirm(func(p bus.Publication) membus.Reply {
			if p.Key == bus.StreamJournal {
				return membus.Withhold
			}
			return membus.Answer
		})
		for range 20 {
			r.send(bus.QueueAssign, taskBody("t-"+journaling.RandomID(), "nonsense", ""))
			r.pass(stalls.Said - 2*stalls.Period)
			r.broker.ReleaseConfirms()
		}
		r.broker.SetConfirm(nil)
		r.broker.ReleaseConfirms()
		r.pass(time.Second)
		if n := r.service.sessions.Load(); n != 1 || strings.Contains(r.log.String(), "work waits") {
			t.Errorf("%d sessions; log:\n%s", n, r.log)
		}
	})
}
