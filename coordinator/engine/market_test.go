package engine_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/engine"
)

// market makes the policy's strategy `market`, with these settings.
func (b *policyBuilder) market(change func(*coordinator.Market)) *policyBuilder {
	for i := range b.Strategies {
		if m := b.Strategies[i].Market; m != nil {
			own := *m
			if change != nil {
				change(&own)
			}
			b.Strategies = slices.Clone(b.Strategies)
			b.Strategies[i].Market = &own
			b.Strategy = b.Strategies[i].Name
		}
	}
	return b
}

// everybody is ADR-004's literal protocol: all are asked, and taken at their word.
func everybody(m *coordinator.Market) { m.InviteAll, m.Reported = true, true }

// bidBuilder describes a bid: bid("a", "t1").fit(0.9).busy(1).lasts(time.Second).
type bidBuilder struct{ coordinator.BidReceived }

func bid(agent coordinator.AgentID, task coordinator.TaskID) *bidBuilder {
	return &bidBuilder{coordinator.BidReceived{
		Agent: agent, Task: task, Fitness: 1, Duration: time.Second, Relevance: math.NaN(),
	}}
}

func (b *bidBuilder) fit(f float64) *bidBuilder         { b.Fitness = f; return b }
func (b *bidBuilder) busy(n int) *bidBuilder            { b.Active = n; return b }
func (b *bidBuilder) lasts(d time.Duration) *bidBuilder { b.Duration = d; return b }
func (b *bidBuilder) inAuction(id string) *bidBuilder   { b.AuctionID = id; return b }
func (r *rig) bid(b *bidBuilder) []string {
	if b.AuctionID == "" { // the latest
		b.AuctionID = r.auctions[b.Task]
	}
	return r.apply(b.BidReceived)
}

func (r *rig) unheardBy(id coordinator.AgentID) []string {
	return r.apply(coordinator.OfferUnheard{Agent: id})
}
func offers(id string, agents ...string) (lines []string) {
	for _, a := range agents {
		lines = append(lines, "offer "+id+" "+a)
	}
	return lines
}

func TestMarketBestBidWins(t *testing.T) {
	for _, c := range []struct {
		name   string
		bids   []*bidBuilder
		winner string
	}{
		{"the fittest", []*bidBuilder{bid("a", "t").fit(0.7), bid("b", "t").fit(0.9).busy(3), bid("c", "t").fit(0.8)}, "b"},
		{"of equals the least busy", []*bidBuilder{bid("a", "t").busy(2), bid("b", "t").busy(1).lasts(time.Hour),
			bid("c", "t").busy(3)}, "b"},
		{"of those the quickest", []*bidBuilder{bid("a", "t").lasts(3 * time.Second), bid("b", "t").lasts(2 * time.Second),
			bid("c", "t").lasts(time.Second)}, "c"},
		{"in whatever order they come", []*bidBuilder{bid("c", "t").fit(0.1), bid("b", "t").fit(0.2), bid("a", "t").fit(0.3)},
			"a"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := ready(t, policyOf(worker("a").slots(4), worker("b").slots(4), worker("c").slots(4)).market(everybody))
			want(t, r.assign(job("t")), offers("t.1", "a", "b", "c")...)
			want(t, r.bid(c.bids[0]))
			want(t, r.bid(c.bids[1]))
			lines := r.bid(c.bids[2]) // all have answered: none is waited for
			want(t, lines[:3], "auction of t awarded by all_answered", "award t.1 "+c.winner, "dispatch t.1 "+c.winner)
			if got := strings.Count(strings.Join(lines[3:], ","), ": lost"); len(lines) != 5 || got != 2 {
				t.Errorf("%v, want the two others to hear that they lost", lines[3:])
			}
			d := r.latest().Decision
			if d.Strategy != "market" || d.Eligible != 3 || len(d.Candidates) != 3 ||
				string(d.Candidates[0].Agent) != c.winner || d.Terms[0] != "fitness" {
				t.Errorf("the decision says %+v", d)
			}
			r.slots(coordinator.AgentID(c.winner), 1, 3)
			want(t, r.confirm(1), "ack 1")
		})
	}
}

// TestMarketHasNoFavourite: of three that always bid the same none gets more than its
// third by more than chance allows: 300 tasks, 100 each; χ² with 2 degrees of freedom
// is above 13.8 in one case of a thousand.
func TestMarketHasNoFavourite(t *testing.T) {
	r := ready(t, policyOf(worker("a").slots(400), worker("b").slots(400), worker("c").slots(400)).market(everybody).
		set(func(s *coordinator.Settings) { s.MaxLoad = 2 }))
	for i := range 300 {
		id := coordinator.TaskID(numbered(i))
		r.assign(job(id))
		for _, a := range []coordinator.AgentID{"a", "b", "c"} {
			r.bid(bid(a, id))
		}
		r.confirm(r.latest().Handle)
	}
	got := map[coordinator.AgentID]float64{}
	for _, d := range r.dispatches {
		got[d.Agent]++
	}
	chi := 0.0
	for _, n := range got {
		chi += (n - 100) * (n - 100) / 100
	}
	if len(r.dispatches) != 300 || chi > 13.8 {
		t.Errorf("%v of %d, χ² = %.1f", got, len(r.dispatches), chi)
	}
}

// TestMarketWindow: bids are taken for the ceiling while nothing is known of the fleet;
// then the best so far wins.
func TestMarketWindow(t *testing.T) {
	r := ready(t, policyOf(worker("a"), worker("b")).market(everybody))
	r.assign(job("t"))
	want(t, r.bid(bid("b", "t").fit(0.2)))
	want(t, r.pass(500*time.Millisecond-1))
	want(t, r.pass(1), "auction of t awarded by window", "award t.1 b", "dispatch t.1 b")
	want(t, r.bid(bid("a", "t")), "bid of a for t: late")
}

func TestMarketWithoutBids(t *testing.T) {
	for _, c := range []struct {
		name    string
		literal bool
		want    string
	}{
		{"the strategy decides", false, "b"}, // a has a task already
		{"the first match", true, "a"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := ready(t, policyOf(worker("a").slots(2), worker("b").slots(2), worker("full")).
				market(func(m *coordinator.Market) {
					m.InviteAll, m.FirstMatch = true, c.literal
				}))
			r.hear(beat("full").active(1))
			r.give(job("before").by("least_loaded").not("b", "full"))
			want(t, r.assign(job("t")), offers("t.1", "a", "b")...)
			if d, _, _ := r.Explain(r.now, &job("next").Task); d.Offers != 2 || string(d.Agent) != c.want ||
				d.First != c.literal {
				t.Errorf("another would be %q", d.Text())
			}
			want(t, r.pass(500*time.Millisecond), "auction of t no_bids by window", "dispatch t.1 "+c.want)
			if d := r.dispatches[len(r.dispatches)-1].Decision; d.Auction != coordinator.AuctionNoBids || d.First != c.literal {
				t.Errorf("explained as %q", d.Text())
			}
		})
	}
}

// TestMarketWaitsForSlots: a task is offered only while more slots are free than are
// being sought.
func TestMarketWaitsForSlots(t *testing.T) {
	r := ready(t, policyOf(worker("a"), worker("b")).market(everybody))
	want(t, r.assign(job("t1")), offers("t1.1", "a", "b")...)
	want(t, r.assign(job("t2")), offers("t2.1", "a", "b")...)
	want(t, r.assign(job("t3"))) // two slots, two auctions
	r.bid(bid("a", "t1"))
	r.bid(bid("b", "t2"))
	want(t, r.pass(500*time.Millisecond), "auction of t1 awarded by window", "award t1.1 a", "dispatch t1.1 a",
		"auction of t2 awarded by window", "award t2.1 b", "dispatch t2.1 b")
	r.confirm(1)
	want(t, r.tell(says("a", "t1")), "completed t1.1 a succeeded", "offer t3.1 a")
	engine.CheckIndexes(t, r.Engine)
}

func TestMarketUnheard(t *testing.T) {
	r := ready(t, policyOf(worker("a"), worker("b")).market(everybody))
	r.assign(job("t1"))
	want(t, r.unheardBy("a"))
	want(t, r.unheardBy("b"), "auction of t1 unheard by all_answered", "dispatch t1.1 a")
	want(t, r.assign(job("t2")), "no auction of t2: unheard", "dispatch t2.1 b") // no agent can be asked
	r.hear(beat("b"))
	r.confirm(1)
	r.confirm(2)
	r.tell(says("b", "t2"))
	want(t, r.assign(job("t3")), offers("t3.1", "b")...)
}

// TestMarketNextBest: a winner that does not take the task in time.
func TestMarketNextBest(t *testing.T) {
	r := ready(t, policyOf(worker("a"), worker("b"), worker("c")).market(everybody))
	r.assign(job("t"))
	r.bid(bid("a", "t").fit(0.9))
	r.bid(bid("b", "t").fit(0.2))
	r.bid(bid("c", "t").fit(0.5))
	r.confirm(1)
	d := r.latest()
	if d.Agent != "a" {
		t.Fatalf("%s won, want a", d.Agent)
	}
	r.pass(time.Minute)
	for _, id := range []coordinator.AgentID{"b", "c"} {
		r.hear(beat(id))
	}
	want(t, r.returns(d, coordinator.ReturnExpired, false))
	want(t, r.pass(engine.BackoffFirst), "award t.2 c", "dispatch t.2 c again?")
	r.confirm(2)
	want(t, r.returns(r.latest(), coordinator.ReturnExpired, false))
	want(t, r.pass(2*engine.BackoffFirst), "award t.3 b", "dispatch t.3 b again?")
}

func TestMarketEndsWithItsTask(t *testing.T) {
	begin := func(t *testing.T) *rig {
		r := ready(t, policyOf(worker("a"), worker("b")).market(everybody))
		r.assign(job("t"))
		r.bid(bid("a", "t"))
		return r
	}
	ended := []string{"auction of t abandoned by window", "bid of a for t: lost"}
	t.Run("cancelled", func(t *testing.T) {
		r := begin(t)
		want(t, r.withdraw("t"), append(ended, "fail t cancelled", "cancel t: done")...)
		r.slots("a", 0, 1)
	})
	t.Run("session lost", func(t *testing.T) {
		r := begin(t)
		want(t, r.apply(coordinator.SessionLost{}))
		r.slots("a", 0, 1)
		r.apply(coordinator.SessionOpened{})
		want(t, r.bid(bid("b", "t")), "bid of b for t: late")
		want(t, r.redeliver(job("t")), offers("t.1", "a", "b")...)
	})
	t.Run("another policy", func(t *testing.T) {
		r := begin(t)
		old := bid("a", "t").inAuction(r.auctions["t"])
		want(t, r.apply(coordinator.PolicyChanged{Policy: &policyOf(worker("a"), worker("b")).by("least_loaded").Policy}),
			append(ended, "dispatch t.1 a")...)
		want(t, r.bid(old), "bid of a for t: late")
	})
	t.Run("another fleet", func(t *testing.T) { // an agent that has left is out of it
		r := begin(t)
		want(t, r.apply(coordinator.PolicyChanged{Policy: &policyOf(worker("b"), worker("c")).market(everybody).Policy}))
		engine.CheckIndexes(t, r.Engine)
		want(t, r.bid(bid("b", "t").fit(0.1)), "auction of t awarded by all_answered", "award t.1 b", "dispatch t.1 b")
	})
	t.Run("what was bid in another auction does not count", func(t *testing.T) {
		r := begin(t)
		old := bid("b", "t").inAuction(r.auctions["t"])
		r.apply(coordinator.SessionLost{})
		r.apply(coordinator.SessionOpened{})
		r.redeliver(job("t"))
		want(t, r.bid(old), "bid of b for t: late")
	})
	t.Run("its deadline passes while nothing is decided", func(t *testing.T) {
		r := ready(t, policyOf(worker("a"), worker("b")).market(everybody))
		j := job("t")
		j.Deadline = r.now.Add(3 * time.Second)
		r.assign(j)
		r.bid(bid("a", "t"))
		r.now = r.now.Add(20 * time.Second) // the coordinator was held up
		want(t, r.apply(coordinator.Tick{}), append(ended, "fail t deadline_exceeded")...)
		r.slots("a", 0, 1)
		engine.CheckIndexes(t, r.Engine)
	})
	t.Run("agents that leave are not waited for", func(t *testing.T) {
		r := begin(t)
		want(t, r.hear(beat("b").status(coordinator.StatusOffline)),
			"auction of t awarded by all_answered", "award t.1 a", "dispatch t.1 a", "agent b offline", "take back agent.b")
		engine.CheckIndexes(t, r.Engine)
	})
}

// TestMarketOfTasksThatCannotWait: bids are taken for half of the time that is left at most,
// and not at all for less than the shortest window, 100 ms.
func TestMarketOfTasksThatCannotWait(t *testing.T) {
	for _, c := range []struct {
		name     string
		deadline time.Duration // from now; 0: none
		timeout  time.Duration
		window   time.Duration // 0: it is not offered
	}{
		{"time enough", time.Second, 30 * time.Second, 500 * time.Millisecond},
		{"half of the time to the deadline", 600 * time.Millisecond, 30 * time.Second, 300 * time.Millisecond},
		{"half of the waiting time", 0, 400 * time.Millisecond, 200 * time.Millisecond},
		{"the shorter of both", 600 * time.Millisecond, 400 * time.Millisecond, 200 * time.Millisecond},
		{"the shortest window", 200 * time.Millisecond, 30 * time.Second, 100 * time.Millisecond},
		{"too little", 199 * time.Millisecond, 30 * time.Second, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := policyOf(worker("a"), worker("b")).market(everybody)
			p.Policy.Settings.AssignmentTimeout = c.timeout
			r := ready(t, p)
			urgent := job("t")
			if c.deadline > 0 {
				urgent.Deadline = r.now.Add(c.deadline)
			}
			d, _, _ := r.Explain(r.now, &urgent.Task)
			if c.window == 0 {
				if d.Offers != 0 || d.Auction != coordinator.AuctionNoTime {
					t.Errorf("explained as %q", d.Text())
				}
				want(t, r.assign(urgent), "no auction of t: no_time", "dispatch t.1 a")
				return
			}
			if d.Offers != 2 || d.Window != c.window {
				t.Errorf("explained as %q", d.Text())
			}
			want(t, r.assign(urgent), offers("t.1", "a", "b")...)
			want(t, r.pass(c.window-1))
			want(t, r.pass(1), "auction of t no_bids by window", "dispatch t.1 a")
		})
	}
}

// TestMarketTaskIsNotStarved: a critical task of the market and low ones that are pushed
// want the one slot of an agent. The agent bids while its slot is taken; as soon as it is
// free the task goes there by that bid, before any other.
func TestMarketTaskIsNotStarved(t *testing.T) {
	r := ready(t, policyOf(worker("a")).market(everybody))
	want(t, r.assign(job("p0").by("least_loaded")), "dispatch p0.1 a")
	r.confirm(1)
	want(t, r.assign(job("m").prio(coordinator.PriorityCritical)))
	for i := 1; i < 5; i++ {
		r.assign(job(coordinator.TaskID(fmt.Sprint("p", i))).by("least_loaded").prio(coordinator.PriorityLow))
	}
	want(t, r.tell(says("a", "p0")), "completed p0.1 a succeeded", "offer m.1 a", "dispatch p1.1 a")
	want(t, r.bid(bid("a", "m")), "auction of m all_full by all_answered", "bid of a for m: full")
	r.confirm(r.latest().Handle)
	want(t, r.tell(says("a", "p1")), "completed p1.1 a succeeded", "award m.1 a", "dispatch m.1 a")
}

// TestJoinsLeaveAuctionsAlone: a fleet that grows all the time decides all the same.
func TestJoinsLeaveAuctionsAlone(t *testing.T) {
	crew := []*specBuilder{worker("a"), worker("b")}
	r := ready(t, policyOf(crew...).market(everybody))
	want(t, r.assign(job("t")), offers("t.1", "a", "b")...)
	for i := range 4 {
		want(t, r.pass(100*time.Millisecond))
		crew = append(crew, worker(coordinator.AgentID(fmt.Sprint("new", i))))
		want(t, r.apply(coordinator.PolicyChanged{Policy: &policyOf(crew...).market(everybody).Policy}))
		engine.CheckIndexes(t, r.Engine)
	}
	want(t, r.bid(bid("b", "t")))
	want(t, r.pass(100*time.Millisecond), "auction of t awarded by window", "award t.1 b", "dispatch t.1 b")
}

// TestNothingGoesToWhoLeaves: the only agent that could have two tasks is offered both,
// and goes away without a word to either.
func TestNothingGoesToWhoLeaves(t *testing.T) {
	r := ready(t, policyOf(worker("a").slots(2)).market(everybody))
	r.assign(job("t1"))
	r.assign(job("t2"))
	want(t, r.hear(beat("a").status(coordinator.StatusOffline)), "auction of t1 unheard by all_answered",
		"auction of t2 unheard by all_answered",
		"agent a offline", "take back agent.a")
	engine.CheckIndexes(t, r.Engine)
	want(t, r.hear(beat("a")), "agent a online", "leave agent.a", "offer t1.1 a", "offer t2.1 a")
}

// TestPolicyThatEndsAuctionsAndAgents: the market is taken off a task in the same moment
// in which the last agent that was asked turns out to be silent for too long.
func TestPolicyThatEndsAuctionsAndAgents(t *testing.T) {
	r := ready(t, policyOf(worker("a"), worker("b")).market(everybody))
	r.assign(job("t").not("b"))
	r.now = r.now.Add(400 * time.Millisecond)
	r.hear(beat("b"))
	p := policyOf(worker("a"), worker("b")).by("least_loaded").
		set(func(s *coordinator.Settings) { s.StaleAfter = 300 * time.Millisecond })
	want(t, r.apply(coordinator.PolicyChanged{Policy: &p.Policy}), "auction of t abandoned by window", "agent a stale",
		"take back agent.a")
	engine.CheckIndexes(t, r.Engine)
}

// TestBidAfterFleetGrew: a bid is appraised by the fleet of now, not by that in which its auction was opened.
func TestBidAfterFleetGrew(t *testing.T) {
	policy := func(ids ...coordinator.AgentID) *policyBuilder {
		var crew []*specBuilder
		for _, id := range ids {
			crew = append(crew, worker(id).rate(0.5)) // stated rates lie by the numbers of agents
		}
		return policyOf(crew...).market(everybodyAppraised)
	}
	r := ready(t, policy("x", "y"))
	r.assign(job("t1"))
	want(t, r.apply(coordinator.PolicyChanged{Policy: &policy("a", "b", "x", "y").Policy})) // x is number 2 now
	want(t, r.bid(bid("x", "t1").lasts(2*time.Second)))
	want(t, r.bid(bid("y", "t1")), "auction of t1 awarded by all_answered", "award t1.1 y", "dispatch t1.1 y",
		"bid of x for t1: lost")
}
