package engine_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/engine"
)

func TestMarketRefusesBids(t *testing.T) {
	r := ready(t, policyOf(worker("a"), worker("b"), worker("c").can("x"), worker("late")).market(everybody).
		route("x", "x"))
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
	want(t, r.bid(bid("b", "t").fit(0.4)), "auction of t awarded by all_answered", "award t.1 a", "dispatch t.1 a",
		"bid of b for t: lost")
}

// TestBidForTheTaskAlone: without the id of an auction a bid is for the one that the task has, and
// is refused with its id.
func TestBidForTheTaskAlone(t *testing.T) {
	r := ready(t, policyOf(worker("a"), worker("b"), worker("c").can("x")).market(everybody).route("x", "x"))
	r.assign(job("t").not("c"))
	alone := func(agent coordinator.AgentID, task coordinator.TaskID, fitness float64) []string {
		b := bid(agent, task).fit(fitness).BidReceived
		b.AuctionID = ""
		return r.apply(b)
	}
	want(t, alone("c", "t", 1), "bid of c for t: not_invited")
	want(t, alone("a", "unheard", 1), "bid of a for unheard: late")
	want(t, alone("a", "t", 0.3))
	want(t, r.bid(bid("a", "t").fit(0.3)), "bid of a for t: duplicate") // the same auction
	r.now = r.now.Add(time.Millisecond)
	effects := r.Apply(r.now, func() coordinator.Event {
		b := bid("b", "t").fit(0.9).BidReceived
		b.AuctionID = ""
		return b
	}(), nil)
	var refused, awarded []string
	for _, f := range effects {
		switch f := f.(type) {
		case coordinator.RejectBid:
			refused = append(refused, string(f.Agent)+" "+f.AuctionID)
		case coordinator.Award:
			awarded = append(awarded, string(f.Agent)+" "+f.AuctionID)
		}
	}
	if id := r.auctions["t"]; fmt.Sprint(awarded) != "[b "+id+"]" || fmt.Sprint(refused) != "[a "+id+"]" {
		t.Errorf("awarded %v, refused %v, in the auction %s", awarded, refused, id)
	}
	want(t, alone("a", "t", 1), "bid of a for t: late") // it is over
}

// TestMarketHoldsSlots: what an agent has bid for it is offered nothing else for, and is
// not given anything else; a loser has it back.
func TestMarketHoldsSlots(t *testing.T) {
	r := ready(t, policyOf(worker("a"), worker("b")).market(everybody))
	r.assign(job("t1"))
	want(t, r.bid(bid("a", "t1").fit(0.5)))
	r.slots("a", 0, 0)
	want(t, r.assign(job("t2")), offers("t2.1", "b")...)
	want(t, r.assign(job("push").by("least_loaded").not("b"))) // waits
	want(t, r.bid(bid("b", "t1")), "auction of t1 awarded by all_answered", "award t1.1 b", "dispatch t1.1 b",
		"bid of a for t1: lost",
		"dispatch push.1 a")
	r.slots("b", 1, 0)
	// b has no slot for what it was offered meanwhile; none has.
	want(t, r.bid(bid("b", "t2")), "auction of t2 all_full by all_answered", "bid of b for t2: full")
	r.confirm(r.dispatches[0].Handle)
	want(t, r.tell(says("b", "t1")), "completed t1.1 b succeeded", "award t2.1 b", "dispatch t2.1 b") // it has bid for it
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

// TestMarketEndsWhenNothingBetterCanCome: by what is known of those that have not answered.
func TestMarketEndsWhenNothingBetterCanCome(t *testing.T) {
	r := ready(t, policyOf(worker("good").rate(1), worker("bad").rate(0.3)).market(everybodyAppraised))
	r.assign(job("t1"))
	want(t, r.bid(bid("good", "t1")), "auction of t1 awarded by unbeatable", "award t1.1 good", "dispatch t1.1 good")
	r.confirm(1)
	r.tell(says("good", "t1"))
	r.assign(job("t2"))
	want(t, r.bid(bid("bad", "t2")))
	want(t, r.bid(bid("good", "t2")), "auction of t2 awarded by all_answered", "award t2.1 good", "dispatch t2.1 good",
		"bid of bad for t2: lost")
}

// TestMarketHearsLateBids: two of three take 200 ms. Once a window is shorter than that
// their late answers make it longer again: 1.5 × 200 = 300 ms.
func TestMarketHearsLateBids(t *testing.T) {
	r := ready(t, policyOf(worker("a").slots(100), worker("b").slots(100), worker("c").slots(100)).market(everybody).
		set(func(s *coordinator.Settings) { s.MaxLoad = 2 }))
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
			if w := r.AuctionWindow(); w != 100*time.Millisecond {
				t.Fatalf("the window of a quick fleet is %v, want the floor of 100 ms", w)
			}
		}
		r.tell(says(r.latest().Agent, id))
	}
	if w := r.AuctionWindow(); w != 300*time.Millisecond {
		t.Errorf("the window is %v, want 300 ms", w)
	}
}

// TestBidStorm: of 10,000 agents, min(n, max(8, 2·⌈log₂ n⌉)) = 28 are asked about a task,
// whether one auction is open or a thousand, and no agent is asked about more than one
// message of offers holds.
func TestBidStorm(t *testing.T) {
	const agents, auctions, invited = 10_000, 1_000, 28
	crew := make([]*specBuilder, agents)
	for i := range crew {
		crew[i] = worker(coordinator.AgentID(numbered(i)))
	}
	r := ready(t, policyOf(crew...).market(nil).
		set(func(s *coordinator.Settings) { s.MaxQueueSize, s.DedupeMaxIDs = 10_000, 100_000 }))
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
		if n > engine.MaxOffers {
			t.Errorf("%s is asked about %d tasks at once", id, n)
		}
	}
	r.pass(500 * time.Millisecond)
	if len(r.dispatches) != auctions || r.OpenAuctions() != 0 {
		t.Errorf("%d of %d dispatched, %d auctions open", len(r.dispatches), auctions, r.OpenAuctions())
	}
	t.Logf("%d auctions among %d agents: %d offers, opened in %v (%v each), all decided after %v", auctions, agents, total,
		opened.Round(time.Millisecond),
		(opened / auctions).Round(time.Microsecond), time.Since(began).Round(time.Millisecond))
	engine.CheckIndexes(t, r.Engine)
}
