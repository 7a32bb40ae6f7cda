package engine

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"taskbus/coordinator"
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
		{"of equals the least busy", []*bidBuilder{bid("a", "t").busy(2), bid("b", "t").busy(1).lasts(time.Hour), bid("c", "t").busy(3)}, "b"},
		{"of those the quickest", []*bidBuilder{bid("a", "t").lasts(3 * time.Second), bid("b", "t").lasts(2 * time.Second), bid("c", "t").lasts(time.Second)}, "c"},
		{"in whatever order they come", []*bidBuilder{bid("c", "t").fit(0.1), bid("b", "t").fit(0.2), bid("a", "t").fit(0.3)}, "a"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := ready(t, policyOf(worker("a").slots(4), worker("b").slots(4), worker("c").slots(4)).market(everybody))
			want(t, r.assign(job("t")), offers("t.1", "a", "b", "c")...)
			want(t, r.bid(c.bids[0]))
			want(t, r.bid(c.bids[1]))
			lines := r.bid(c.bids[2]) // all have answered: nobody is waited for
			want(t, lines[:3], "auction of t awarded by all_answered", "award t.1 "+c.winner, "dispatch t.1 "+c.winner)
			if got := strings.Count(strings.Join(lines[3:], ","), ": lost"); len(lines) != 5 || got != 2 {
				t.Errorf("%v, want the two others to hear that they lost", lines[3:])
			}
			d := r.latest().Decision
			if d.Strategy != "market" || d.Eligible != 3 || len(d.Candidates) != 3 || string(d.Candidates[0].Agent) != c.winner || d.Terms[0] != "fitness" {
				t.Errorf("the decision says %+v", d)
			}
			r.slots(coordinator.AgentID(c.winner), 1, 3)
			want(t, r.confirm(1), "ack 1")
		})
	}
}

// TestMarketHasNoFavourite: of three who always bid the same none gets more than its
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
			r := ready(t, policyOf(worker("a").slots(2), worker("b").slots(2), worker("full")).market(func(m *coordinator.Market) {
				m.InviteAll, m.FirstMatch = true, c.literal
			}))
			r.hear(beat("full").active(1))
			r.give(job("before").by("least_loaded").not("b", "full"))
			want(t, r.assign(job("t")), offers("t.1", "a", "b")...)
			if d, _, _ := r.Explain(r.now, &job("next").Task); d.Offers != 2 || string(d.Agent) != c.want || d.First != c.literal {
				t.Errorf("another would be %q", d.Text())
			}
			want(t, r.pass(500*time.Millisecond), "auction of t no_bids by window", "dispatch t.1 "+c.want)
			if d := r.dispatches[len(r.dispatches)-1].Decision; d.Auction != coordinator.AuctionNoBids || d.First != c.literal {
				t.Errorf("explained as %q", d.Text())
			}
		})
	}
}

func TestMarketRefusesBids(t *testing.T) {
	r := ready(t, policyOf(worker("a"), worker("b"), worker("c").can("x"), worker("late")).market(everybody).route("x", "x"))
	r.assign(job("t").not("c", "late"))
	for _, c := range []struct {
		bid  *bidBuilder
		want string
	}{
		{bid("c", "t"), "bid of c for t: not_invited"},
		{bid("a", "t").inAuction("another"), "bid of a for t: late"},
		{bid("a", "u"), "bid of a for u: late"},
		{bid("a", "t").fit(math.NaN()), "bid of a for t: invalid"},
		{bid("a", "t").fit(1.01), "bid of a for t: invalid"},
		{bid("a", "t").busy(-1), "bid of a for t: invalid"},
	} {
		want(t, r.bid(c.bid), c.want)
	}
	want(t, r.bid(bid("stranger", "t")), "bid of stranger for t: not_invited")
	want(t, r.bid(bid("a", "t").fit(0.3))) // what was invalid is made good
	want(t, r.bid(bid("a", "t").fit(0.3)), "bid of a for t: duplicate")
	want(t, r.bid(bid("a", "t").fit(0.5))) // the last one counts
	r.slots("a", 0, 0)                     // and holds one slot
	want(t, r.bid(bid("b", "t").fit(0.4)), "auction of t awarded by all_answered", "award t.1 a", "dispatch t.1 a", "bid of b for t: lost")
}

// TestMarketHoldsSlots: what an agent has bid for it is offered nothing else for, and is
// not given anything else; who loses has it back.
func TestMarketHoldsSlots(t *testing.T) {
	r := ready(t, policyOf(worker("a"), worker("b")).market(everybody))
	r.assign(job("t1"))
	want(t, r.bid(bid("a", "t1").fit(0.5)))
	r.slots("a", 0, 0)
	want(t, r.assign(job("t2")), offers("t2.1", "b")...)
	want(t, r.assign(job("push").by("least_loaded").not("b"))) // waits
	want(t, r.bid(bid("b", "t1")), "auction of t1 awarded by all_answered", "award t1.1 b", "dispatch t1.1 b", "bid of a for t1: lost",
		"dispatch push.1 a")
	r.slots("b", 1, 0)
	// b has no slot for what it was offered meanwhile; nobody has.
	want(t, r.bid(bid("b", "t2")), "auction of t2 all_full by all_answered", "bid of b for t2: full")
	r.confirm(r.dispatches[0].Handle)
	want(t, r.tell(says("b", "t1")), "completed t1.1 b succeeded", "award t2.1 b", "dispatch t2.1 b") // it has bid for it
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
	checkIndexes(t, r.Engine)
}

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
	checkIndexes(t, r.Engine)
}

func TestMarketUnheard(t *testing.T) {
	r := ready(t, policyOf(worker("a"), worker("b")).market(everybody))
	r.assign(job("t1"))
	want(t, r.unheardBy("a"))
	want(t, r.unheardBy("b"), "auction of t1 unheard by all_answered", "dispatch t1.1 a")
	want(t, r.assign(job("t2")), "no auction of t2: unheard", "dispatch t2.1 b") // nobody can be asked
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
	want(t, r.pass(backoffFirst), "award t.2 c", "dispatch t.2 c")
	r.confirm(2)
	want(t, r.returns(r.latest(), coordinator.ReturnExpired, false))
	want(t, r.pass(2*backoffFirst), "award t.3 b", "dispatch t.3 b")
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
		want(t, r.apply(coordinator.PolicyChanged{Policy: &policyOf(worker("a"), worker("b")).by("least_loaded").Policy}), append(ended, "dispatch t.1 a")...)
		want(t, r.bid(old), "bid of a for t: late")
	})
	t.Run("another fleet", func(t *testing.T) { // whoever has left is out of it
		r := begin(t)
		want(t, r.apply(coordinator.PolicyChanged{Policy: &policyOf(worker("b"), worker("c")).market(everybody).Policy}))
		checkIndexes(t, r.Engine)
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
	t.Run("agents that leave are not waited for", func(t *testing.T) {
		r := begin(t)
		want(t, r.hear(beat("b").status(coordinator.StatusOffline)),
			"auction of t awarded by all_answered", "award t.1 a", "dispatch t.1 a", "agent b offline", "take back agent.b")
		checkIndexes(t, r.Engine)
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

// TestLiarLosesRank: ten agents have done forty tasks each, equally well and equally fast.
// They succeed with three
// of five. Then one of them bids 1.0 where the others say 0.6, and promises a tenth of the time
// that it takes. It gets the first tasks; of the second hundred it gets no more than is
// its due, a tenth and a little by chance (more than 20 of 100 at 0.1 is one case in a
// thousand).
func TestLiarLosesRank(t *testing.T) {
	var crew []*specBuilder
	for i := range 10 {
		crew = append(crew, worker(coordinator.AgentID(fmt.Sprint("a", i))).slots(2))
	}
	r := ready(t, policyOf(crew...).market(everybodyAppraised).set(func(s *coordinator.Settings) { s.Breaker.Off = true }))
	had := map[coordinator.AgentID]int{}
	do := func(d coordinator.Dispatch) {
		r.confirm(d.Handle)
		r.now = r.now.Add(10 * time.Second)
		for _, w := range crew {
			r.hear(beat(w.ID).running())
		}
		result := says(d.Agent, d.Task.ID).of(d.DispatchID).took(10 * time.Second)
		if had[d.Agent]++; had[d.Agent]%5 >= 3 { // each fails with two of five
			result.but(coordinator.OutcomeFailed)
		}
		r.tell(result)
	}
	for i := range 400 {
		d := r.give(job(coordinator.TaskID(fmt.Sprint("before", i))).by("least_loaded").prefers(crew[i%10].ID))
		do(d)
	}
	early, late := 0, 0
	for i := range 200 {
		id := coordinator.TaskID(numbered(i))
		r.assign(job(id))
		for _, w := range crew {
			b := bid(w.ID, id).fit(0.6).lasts(10 * time.Second)
			if w.ID == "a0" {
				b.fit(1).lasts(time.Second)
			}
			r.bid(b)
		}
		d := r.latest()
		if d.Task.ID != id {
			t.Fatalf("%s was not dispatched", id)
		}
		do(d)
		switch {
		case d.Agent != "a0":
		case i == 0:
			early++
		case i >= 100:
			late++
		}
	}
	if early != 1 || late > 20 {
		t.Errorf("the liar got %d of the first tasks, want 1, and %d of the last 100, its due is 10", early, late)
	}
	if c := r.seen("a0").Bidding; c.Ratio < 9 {
		t.Errorf("what is believed of it: %+v; it takes 10 times as long as it says", c)
	}
}

func everybodyAppraised(m *coordinator.Market) { m.InviteAll = true }

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

// TestMarketEndsWhenNothingBetterCanCome: by what is known of who has not answered.
func TestMarketEndsWhenNothingBetterCanCome(t *testing.T) {
	r := ready(t, policyOf(worker("good").rate(1), worker("bad").rate(0.3)).market(everybodyAppraised))
	r.assign(job("t1"))
	want(t, r.bid(bid("good", "t1")), "auction of t1 awarded by unbeatable", "award t1.1 good", "dispatch t1.1 good")
	r.confirm(1)
	r.tell(says("good", "t1"))
	r.assign(job("t2"))
	want(t, r.bid(bid("bad", "t2")))
	want(t, r.bid(bid("good", "t2")), "auction of t2 awarded by all_answered", "award t2.1 good", "dispatch t2.1 good", "bid of bad for t2: lost")
}

// TestMarketHearsLateBids: two of three take 200 ms. Once a window is shorter than that
// their late answers make it longer again: 1.5 × 200 = 300 ms.
func TestMarketHearsLateBids(t *testing.T) {
	r := ready(t, policyOf(worker("a").slots(100), worker("b").slots(100), worker("c").slots(100)).market(everybody).set(func(s *coordinator.Settings) { s.MaxLoad = 2 }))
	for i := range 100 {
		id := coordinator.TaskID(numbered(i))
		r.assign(job(id))
		answers := 20 * time.Millisecond
		if i >= 20 {
			answers = 200 * time.Millisecond
		}
		r.pass(20 * time.Millisecond)
		r.bid(bid("a", id))
		r.pass(answers - 20*time.Millisecond)
		r.bid(bid("b", id))
		r.bid(bid("c", id))
		if r.confirm(r.latest().Handle); i == 20 {
			if w := r.market.window.Length(); w != 100*time.Millisecond {
				t.Fatalf("the window of a quick fleet is %v, want the floor of 100 ms", w)
			}
		}
		r.tell(says(r.latest().Agent, id))
	}
	if w := r.market.window.Length(); w != 300*time.Millisecond {
		t.Errorf("the window is %v, want 300 ms", w)
	}
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
	checkIndexes(t, r.Engine)
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
		checkIndexes(t, r.Engine)
	}
	want(t, r.bid(bid("b", "t")))
	want(t, r.pass(100*time.Millisecond), "auction of t awarded by window", "award t.1 b", "dispatch t.1 b")
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

// TestBidStorm: of 10,000 agents, min(n, max(8, 2·⌈log₂ n⌉)) = 28 are asked about a task,
// whether one auction is open or a thousand, and nobody is asked about more than one
// message of offers holds.
func TestBidStorm(t *testing.T) {
	const agents, auctions, invited = 10_000, 1_000, 28
	crew := make([]*specBuilder, agents)
	for i := range crew {
		crew[i] = worker(coordinator.AgentID(numbered(i)))
	}
	r := ready(t, policyOf(crew...).market(nil).set(func(s *coordinator.Settings) { s.MaxQueueSize, s.DedupeMaxIDs = 10_000, 100_000 }))
	began, most, total := time.Now(), map[coordinator.AgentID]int{}, 0
	for i := range auctions {
		id := coordinator.TaskID(numbered(i))
		n := 0
		for _, f := range r.Apply(r.now, coordinator.TaskReceived{Handle: coordinator.Handle(i + 1), Task: &coordinator.Task{
			ID: id, Type: "any", Priority: coordinator.PriorityNormal, ContentHash: 1, AcceptedAt: r.now}}, nil) {
			if o, offer := f.(*coordinator.Offer); offer {
				n++
				most[o.Agent]++
			}
		}
		total += n
		if n != invited {
			t.Fatalf("%s is offered to %d agents, want %d", id, n, invited)
		}
	}
	opened := time.Since(began)
	for id, n := range most {
		if n > maxOffers {
			t.Errorf("%s is asked about %d tasks at once", id, n)
		}
	}
	r.pass(500 * time.Millisecond)
	if len(r.dispatches) != auctions || len(r.market.open) != 0 {
		t.Errorf("%d of %d dispatched, %d auctions open", len(r.dispatches), auctions, len(r.market.open))
	}
	t.Logf("%d auctions among %d agents: %d offers, opened in %v (%v each), all decided after %v", auctions, agents, total, opened.Round(time.Millisecond),
		(opened / auctions).Round(time.Microsecond), time.Since(began).Round(time.Millisecond))
	checkIndexes(t, r.Engine)
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
	want(t, r.pass(100*time.Millisecond), "auction of t2 awarded by window", "award t2.1 y", "dispatch t2.1 y", "bid of x for t2: lost")
}

// TestNothingGoesToWhoLeaves: the only agent that could have two tasks is offered both,
// and goes away without a word to either.
func TestNothingGoesToWhoLeaves(t *testing.T) {
	r := ready(t, policyOf(worker("a").slots(2)).market(everybody))
	r.assign(job("t1"))
	r.assign(job("t2"))
	want(t, r.hear(beat("a").status(coordinator.StatusOffline)), "auction of t1 unheard by all_answered", "auction of t2 unheard by all_answered",
		"agent a offline", "take back agent.a")
	checkIndexes(t, r.Engine)
	want(t, r.hear(beat("a")), "agent a online", "leave agent.a", "offer t1.1 a", "offer t2.1 a")
}

// TestPolicyThatEndsAuctionsAndAgents: the market is taken off a task in the same moment
// in which the last agent that was asked turns out to be silent for too long.
func TestPolicyThatEndsAuctionsAndAgents(t *testing.T) {
	r := ready(t, policyOf(worker("a"), worker("b")).market(everybody))
	r.assign(job("t").not("b"))
	r.now = r.now.Add(400 * time.Millisecond)
	r.hear(beat("b"))
	p := policyOf(worker("a"), worker("b")).by("least_loaded").set(func(s *coordinator.Settings) { s.StaleAfter = 300 * time.Millisecond })
	want(t, r.apply(coordinator.PolicyChanged{Policy: &p.Policy}), "auction of t abandoned by window", "agent a stale", "take back agent.a")
	checkIndexes(t, r.Engine)
}
