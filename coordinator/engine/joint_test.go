package engine_test

import (
	"testing"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/engine"
)

// TestMarketDecidesJointly: x is best for both and has one slot; y is nearly as good for
// the first, and bad for the second. Greedily the first gets x, and the second y:
// 0.9 + 0.2 = 1.1; together 0.8 + 0.9 = 1.7.
func TestMarketDecidesJointly(t *testing.T) {
	r := ready(t, policyOf(worker("x"), worker("y")).market(everybody))
	r.assign(job("t1"))
	r.now = r.now.Add(3 * time.Millisecond)
	r.assign(job("t2"))
	want(t, r.bid(bid("x", "t1").fit(0.9)))
	want(t, r.bid(bid("x", "t2").fit(0.9)))
	want(t, r.bid(bid("y", "t2").fit(0.2))) // all have answered; but the slot of x is held for t1
	want(t, r.bid(bid("y", "t1").fit(0.8)),
		"auction of t1 awarded by all_answered", "award t1.1 y", "dispatch t1.1 y", "bid of x for t1: lost",
		"auction of t2 awarded by all_answered", "award t2.1 x", "dispatch t2.1 x", "bid of y for t2: lost")
	engine.CheckIndexes(t, r.Engine)
}

// TestUnheardWhileAuctionsContend: the auctions are decided together while the agent is
// being taken out of them.
func TestUnheardWhileAuctionsContend(t *testing.T) {
	r := ready(t, policyOf(worker("a"), worker("x"), worker("y")).market(everybody))
	r.assign(job("t1"))
	r.now = r.now.Add(3 * time.Millisecond)
	r.assign(job("t2"))
	r.bid(bid("x", "t1"))
	r.bid(bid("x", "t2"))
	r.bid(bid("y", "t1"))
	r.now = r.now.Add(496 * time.Millisecond)
	r.unheardBy("a")
	engine.CheckIndexes(t, r.Engine)
}

// TestOnTrialGetsOne: an agent that is tried again after it has failed too often gets one
// task, whatever it bids for or claims.
func TestOnTrialGetsOne(t *testing.T) {
	crew := func(mode coordinator.PullMode) *policyBuilder {
		return policyOf(worker("a0").can("go").slots(3).pulls(mode), worker("a1").can("go")).route("go", "go")
	}
	failed := func(t *testing.T, p *policyBuilder) *rig {
		r := ready(t, crew(coordinator.PullOff))
		r.give(job("busy").kind("go").prefers("a1"))
		r.fails("a0", "go", 5)
		r.apply(coordinator.PolicyChanged{Policy: &p.Policy})
		r.pass(30 * time.Second)
		return r
	}
	t.Run("by a claim", func(t *testing.T) {
		r := failed(t, crew(coordinator.PullShared))
		for _, id := range []coordinator.TaskID{"t1", "t2", "t3"} {
			want(t, r.assign(job(id).kind("go")))
		}
		want(t, r.claim(claim("a0", 3).rate(10)), "dispatch t1.1 a0", "granted 1 to a0 agent_unavailable")
	})
	t.Run("by bids", func(t *testing.T) {
		r := failed(t, crew(coordinator.PullOff).market(everybody))
		for _, id := range []coordinator.TaskID{"m1", "m2", "m3"} {
			r.assign(job(id).kind("go"))
			r.bid(bid("a0", id))
		}
		r.pass(500 * time.Millisecond)
		n := 0
		for _, d := range r.dispatches {
			if d.Agent == "a0" && d.Task.ID[0] == 'm' {
				n++
			}
		}
		if n != 1 {
			t.Errorf("a0 got %d tasks while it is on trial, want 1", n)
		}
	})
}

// TestContendingAuctionsAreNotCutShort: that one of them is over ends the other only if
// nothing better can come for that, too.
func TestContendingAuctionsAreNotCutShort(t *testing.T) {
	r := ready(t, policyOf(worker("x"), worker("y").can("go"), worker("z").can("go")).route("go", "go").market(everybody))
	want(t, r.assign(job("t1").not("y", "z")), offers("t1.1", "x")...)
	r.assign(job("t2").not("z"))
	want(t, r.bid(bid("x", "t2").fit(0.5))) // holds the slot of x
	want(t, r.bid(bid("x", "t1")))          // waits for what becomes of t2
	want(t, r.pass(100*time.Millisecond))
	r.now = r.now.Add(time.Millisecond)
	want(t, r.bid(bid("y", "t2").fit(0.9)),
		"auction of t1 awarded by all_answered", "award t1.1 x", "dispatch t1.1 x",
		"auction of t2 awarded by all_answered", "award t2.1 y", "dispatch t2.1 y", "bid of x for t2: lost")
}

// TestAuctionGoesOnBesideOneThatEnds: x and y have bid for more than their slots. When the
// window of the first is over the second, opened 100 ms later, still takes bids.
func TestAuctionGoesOnBesideOneThatEnds(t *testing.T) {
	r := ready(t, policyOf(worker("x"), worker("y"), worker("z")).market(everybody))
	r.assign(job("t1"))
	r.pass(100 * time.Millisecond)
	r.assign(job("t2"))
	r.bid(bid("x", "t1").fit(0.9))
	r.bid(bid("x", "t2").fit(0.9))
	want(t, r.pass(400*time.Millisecond), "auction of t1 awarded by window", "award t1.1 x", "dispatch t1.1 x")
	want(t, r.bid(bid("y", "t2").fit(0.2)))
	want(t, r.pass(100*time.Millisecond), "auction of t2 awarded by window", "award t2.1 y", "dispatch t2.1 y",
		"bid of x for t2: lost")
}
