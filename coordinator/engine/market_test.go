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
		Agent: agent, Task: task, AuctionID: string(task) + ".1", Fitness: 1, Duration: time.Second, Relevance: math.NaN(),
	}}
}

func (b *bidBuilder) fit(f float64) *bidBuilder         { b.Fitness = f; return b }
func (b *bidBuilder) busy(n int) *bidBuilder            { b.Active = n; return b }
func (b *bidBuilder) lasts(d time.Duration) *bidBuilder { b.Duration = d; return b }
func (b *bidBuilder) inAuction(id string) *bidBuilder   { b.AuctionID = id; return b }
func (r *rig) bid(b *bidBuilder) []string               { return r.apply(b.BidReceived) }
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
			want(t, lines[:3], "auction t.1 awarded by all_answered", "award t.1 "+c.winner, "dispatch t.1 "+c.winner)
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
	want(t, r.pass(1), "auction t.1 awarded by window", "award t.1 b", "dispatch t.1 b")
	want(t, r.bid(bid("a", "t")), "bid of a for t.1: late")
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
			want(t, r.pass(500*time.Millisecond), "auction t.1 no_bids by window", "dispatch t.1 "+c.want)
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
		{bid("c", "t"), "bid of c for t.1: not_invited"},
		{bid("a", "t").inAuction("t.2"), "bid of a for t.2: late"},
		{bid("a", "u"), "bid of a for u.1: late"},
		{bid("a", "t").fit(math.NaN()), "bid of a for t.1: invalid"},
		{bid("a", "t").fit(1.01), "bid of a for t.1: invalid"},
		{bid("a", "t").busy(-1), "bid of a for t.1: invalid"},
	} {
		want(t, r.bid(c.bid), c.want)
	}
	want(t, r.bid(bid("stranger", "t")))
	want(t, r.bid(bid("a", "t").fit(0.3))) // what was invalid is made good
	want(t, r.bid(bid("a", "t").fit(0.3)), "bid of a for t.1: duplicate")
	want(t, r.bid(bid("a", "t").fit(0.5))) // the last one counts
	r.slots("a", 0, 0)                     // and holds one slot
	want(t, r.bid(bid("b", "t").fit(0.4)), "auction t.1 awarded by all_answered", "award t.1 a", "dispatch t.1 a", "bid of b for t.1: lost")
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
	want(t, r.bid(bid("b", "t1")), "auction t1.1 awarded by all_answered", "award t1.1 b", "dispatch t1.1 b", "bid of a for t1.1: lost",
		"dispatch push.1 a")
	r.slots("b", 1, 0)
	// b has no slot for what it was offered meanwhile; nobody has.
	want(t, r.bid(bid("b", "t2")), "auction t2.1 all_full by all_answered", "bid of b for t2.1: full")
	r.confirm(r.dispatches[0].Handle)
	want(t, r.tell(says("b", "t1")), "completed t1.1 b succeeded", "offer t2.1 b")
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
	want(t, r.pass(500*time.Millisecond), "auction t1.1 awarded by window", "award t1.1 a", "dispatch t1.1 a",
		"auction t2.1 awarded by window", "award t2.1 b", "dispatch t2.1 b")
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
		"auction t1.1 awarded by all_answered", "award t1.1 y", "dispatch t1.1 y", "bid of x for t1.1: lost",
		"auction t2.1 awarded by all_answered", "award t2.1 x", "dispatch t2.1 x", "bid of y for t2.1: lost")
	checkIndexes(t, r.Engine)
}

func TestMarketUnheard(t *testing.T) {
	r := ready(t, policyOf(worker("a"), worker("b")).market(everybody))
	r.assign(job("t1"))
	want(t, r.unheardBy("a"))
	want(t, r.unheardBy("b"), "auction t1.1 unheard by all_answered", "dispatch t1.1 a")
	want(t, r.assign(job("t2")), "dispatch t2.1 b") // nobody can be asked
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
	ended := []string{"auction t.1 abandoned by window", "bid of a for t.1: lost"}
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
		want(t, r.bid(bid("b", "t")), "bid of b for t.1: late")
		want(t, r.redeliver(job("t")), offers("t.1", "a", "b")...)
	})
	t.Run("another policy", func(t *testing.T) {
		r := begin(t)
		want(t, r.apply(coordinator.PolicyChanged{Policy: &policyOf(worker("b")).market(everybody).Policy}), append(ended, "offer t.1 b")...)
		want(t, r.pass(500*time.Millisecond), "auction t.1 no_bids by window", "dispatch t.1 b")
	})
	t.Run("no time for it", func(t *testing.T) {
		r := ready(t, policyOf(worker("a")).market(everybody))
		urgent := job("t")
		urgent.Deadline = r.now.Add(999 * time.Millisecond) // less than two windows
		want(t, r.assign(urgent), "dispatch t.1 a")
	})
}

// TestLiarLosesRank: ten agents bid 1.0 for everything; one of them fails half of the
// time, and promises to be twice as quick as it is. Its share of the last hundred of
// three hundred tasks is no larger than its merit allows: a tenth.
func TestLiarLosesRank(t *testing.T) {
	var crew []*specBuilder
	for i := range 10 {
		crew = append(crew, worker(coordinator.AgentID(fmt.Sprint("a", i))).slots(2))
	}
	r := ready(t, policyOf(crew...).market(func(m *coordinator.Market) { m.InviteAll = true }))
	share := 0
	for i := range 300 {
		id := coordinator.TaskID(numbered(i))
		r.assign(job(id))
		for _, w := range crew {
			b := bid(w.ID, id).lasts(10 * time.Second)
			if w.ID != "a0" {
				b.fit(0.9)
			} else {
				b.lasts(time.Second)
			}
			r.bid(b)
		}
		d := r.latest()
		if d.Task.ID != id {
			t.Fatalf("%s was not dispatched", id)
		}
		r.confirm(d.Handle)
		r.now = r.now.Add(10 * time.Second)
		for _, w := range crew {
			r.hear(beat(w.ID).running())
		}
		result := says(d.Agent, id).of(d.DispatchID)
		result.Duration = 10 * time.Second
		if d.Agent == "a0" && i%2 == 0 {
			result.but(coordinator.OutcomeFailed)
		}
		r.tell(result)
		if d.Agent == "a0" && i >= 200 {
			share++
		}
	}
	if share > 10 {
		t.Errorf("the liar got %d of the last 100 tasks, its share would be 10", share)
	}
}
