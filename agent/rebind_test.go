package agent_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"taskbus/agent/balance"
	"taskbus/coordinator/bus"
	"taskbus/messages"
)

// rebound is within which time the control queue is bound again.
const rebound = 30 * time.Second

const (
	saysGone  = "the exchange taskbus.control does not exist"
	saysBound = "the control queue is bound again"
)

// standard is what a coordinator declares.
func standard() bus.Topology {
	return bus.Standard(bus.Declare, bus.ProfileQuorum, []string{"agent.a1"})
}

// giveHour gives the agent a task that it may work on for an hour.
func (r *rig) giveHour(task string) {
	r.t.Helper()
	d := dispatch(task)
	d.Timeout = time.Hour
	r.send(d, nil)
}

// What the exchange was bound to is forgotten with it, however soon it is back. The
// agent hears the coordinator again, and what it works on meanwhile is not touched.
func TestControlExchangeComesAndGoes(t *testing.T) {
	for _, tt := range []struct {
		name string
		away time.Duration
		told int // times, that it is gone and that it is back
	}{
		{"back at once", 0, 0},
		{"away for five minutes: told once", 5 * time.Minute, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inRig(t, func(r *rig) {
				r.bidding(2, wantsAll, work(time.Hour))
				r.giveHour("t")
				r.broker.DeleteExchange(bus.ExchangeControl)
				r.pass(tt.away)
				r.prepare(standard())
				r.offer("unheard") // before the agent has bound its queue
				r.expectBids("")
				r.pass(rebound)
				r.expectLog(saysGone, tt.told)
				r.expectLog(saysBound, tt.told)
				r.offer("heard")
				r.expectBids("heard")
				r.expectActive("ready [t]")
				r.withdraw(messages.TaskCancel{TaskID: "t", Reason: "over"})
				r.expect("t cancelled")
				r.expectLog("connected to the broker", 1)
			})
		})
	}
}

// A claim without an answer is a reason to bind at once: the answer may have had no way.
// The first claim comes after 1 s ± 10 % and waits 5 s, no longer, because the agent works
// already; the next, at once, is answered.
func TestUnansweredClaimBindsAgain(t *testing.T) {
	inRig(t, func(r *rig) {
		c := r.config()
		c.Slots, c.Pull = 8, pullConfig(balance.ModeEqual, true)
		registry := prometheus.NewRegistry()
		c.Metrics = registry
		c.RebindWithin(24 * time.Hour)
		r.runWith(c, work(time.Hour))
		r.giveHour("t")
		r.broker.DeleteExchange(bus.ExchangeControl)
		r.prepare(standard())
		first := r.awaitClaim(1, 1100*time.Millisecond)
		r.grant(first.said.ClaimID, 1, 1) // no claim is left for it
		r.pass(5*time.Second + time.Millisecond)
		r.expectLog("a claim was not answered in time", 1)
		second := r.awaitClaim(2, time.Millisecond) // at once
		r.grant(second.said.ClaimID, 0, 1)
		got := values(t, registry)
		for outcome, want := range map[string]float64{"unanswered": 1, "empty": 1} {
			if n := got["taskbus_agent_claims_total "+outcome]; n != want {
				t.Errorf("%v claims %s, want %v", n, outcome, want)
			}
		}
	})
}

// The exchange is not there when the agent comes: it works without, and takes its control
// queue when it can have it; an agent that pulls begins to claim then.
func TestControlExchangeComesLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newBareRig(t)
		defer r.close()
		without := standard()
		without.Exchanges = slices.DeleteFunc(without.Exchanges,
			func(x bus.Exchange) bool { return x.Name == bus.ExchangeControl })
		r.prepare(without)
		r.readRequests()
		c := r.config()
		c.Slots, c.Pull = 2, pullConfig(balance.ModeEqual, true)
		r.runWith(c, work(time.Hour))
		r.giveHour("t")
		r.pass(2 * rebound)
		r.expectLog("no control queue until the exchange taskbus.control exists", 1)
		r.expectLog(saysGone, 1)
		r.expectNoClaims()
		r.prepare(standard())
		r.pass(rebound)
		r.expectLog("the agent has its control queue now", 1)
		r.withdraw(messages.TaskCancel{TaskID: "t", Reason: "over"})
		r.expect("t cancelled")
		if len(r.claims()) == 0 {
			t.Error("it claims nothing, though it could hear the answer")
		}
		r.expectLog("connected to the broker", 1)
	})
}
