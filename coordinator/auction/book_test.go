package auction

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"taskbus/coordinator"
)

var (
	opened   = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	notGiven = math.NaN()
)

const window = 500 * time.Millisecond

// after is d after the opening.
func after(d time.Duration) time.Time { return opened.Add(d) }

// ids are the agents "a", "b", …
func ids(n int) []coordinator.AgentID {
	list := make([]coordinator.AgentID, n)
	for i := range list {
		list[i] = coordinator.AgentID(rune('a' + i))
	}
	return list
}

// order is the bidders, the winner first.
func order(b *Book) string {
	text := ""
	for _, r := range b.Ranked(nil) {
		text += string(r.Agent)
	}
	return text
}

func TestRanking(t *testing.T) {
	for _, c := range []struct {
		name string
		bids []Bid
		want string
	}{
		{"nobody bid", nil, ""},
		{"the fitter, though busier and slower", []Bid{
			{Agent: "a", Fitness: 0.8}, {Agent: "b", Fitness: 0.9, Active: 7, Duration: time.Hour}}, "ba"},
		{"then fewer active tasks, though slower", []Bid{
			{Agent: "a", Fitness: 0.8, Active: 2, Duration: time.Second},
			{Agent: "b", Fitness: 0.8, Active: 1, Duration: time.Hour}}, "ba"},
		{"then the shorter duration", []Bid{
			{Agent: "a", Fitness: 0.8, Active: 1, Duration: 2 * time.Second},
			{Agent: "b", Fitness: 0.8, Active: 1, Duration: time.Second}}, "ba"},
		{"all three after each other", []Bid{
			{Agent: "a", Fitness: 0.5}, {Agent: "b", Fitness: 1, Active: 1, Duration: 2},
			{Agent: "c", Fitness: 1, Active: 1, Duration: 1}, {Agent: "d", Fitness: 1, Active: 0, Duration: 9}}, "dcba"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := Open("task", 1, ids(5), opened, window, nil)
			for _, bid := range c.bids {
				if r := b.Bid(opened, bid); r != coordinator.BidCounts {
					t.Fatalf("the bid of %s is refused: %s", bid.Agent, r)
				}
			}
			if got := order(b); got != c.want {
				t.Errorf("ranked %q, want %q", got, c.want)
			}
			if best, ok := b.Best(); ok != (c.want != "") || ok && string(best.Agent) != c.want[:1] {
				t.Errorf("best is %q, %v", best.Agent, ok)
			}
		})
	}
}

// TestNoConstantFavourite: of five equal bids each wins a fifth of 1,000 tasks, 200;
// the standard deviation is √(1000·0.2·0.8) = 12.6, and 150 to 250 is four of them.
func TestNoConstantFavourite(t *testing.T) {
	wins := map[coordinator.AgentID]int{}
	for task := range 1000 {
		b := Open(coordinator.TaskID(fmt.Sprint("task ", task)), 7, ids(5), opened, window, nil)
		for _, agent := range ids(5) {
			b.Bid(opened, Bid{Agent: agent, Fitness: 1})
		}
		best, _ := b.Best()
		wins[best.Agent]++
	}
	for _, agent := range ids(5) {
		if wins[agent] < 150 || wins[agent] > 250 {
			t.Errorf("%s won %d of 1000", agent, wins[agent])
		}
	}
}

func TestRefusals(t *testing.T) {
	good := Bid{Agent: "a", Fitness: 0.5, Active: 1, Duration: time.Second, Relevance: notGiven}
	with := func(change func(*Bid)) Bid { b := good; change(&b); return b }
	for _, c := range []struct {
		name string
		at   time.Duration
		bid  Bid
		want coordinator.BidRefusal
	}{
		{"a good one", 0, good, coordinator.BidCounts},
		{"the last instant", window - 1, good, coordinator.BidCounts},
		{"the window is over", window, good, coordinator.BidLate},
		{"not asked", 0, with(func(b *Bid) { b.Agent = "z" }), coordinator.BidNotInvited},
		{"not asked, and late: it is not told when the auction closed", window, with(func(b *Bid) { b.Agent = "z" }),
			coordinator.BidNotInvited},
		{"fitness NaN", 0, with(func(b *Bid) { b.Fitness = math.NaN() }), coordinator.BidInvalid},
		{"fitness infinite", 0, with(func(b *Bid) { b.Fitness = math.Inf(1) }), coordinator.BidInvalid},
		{"fitness negative", 0, with(func(b *Bid) { b.Fitness = -0.001 }), coordinator.BidInvalid},
		{"fitness above 1", 0, with(func(b *Bid) { b.Fitness = 1.001 }), coordinator.BidInvalid},
		{"fitness 0 and 1 are in range", 0, with(func(b *Bid) { b.Fitness = 1 }), coordinator.BidCounts},
		{"active negative", 0, with(func(b *Bid) { b.Active = -1 }), coordinator.BidInvalid},
		{"duration negative", 0, with(func(b *Bid) { b.Duration = -1 }), coordinator.BidInvalid},
		{"relevance not given", 0, with(func(b *Bid) { b.Relevance = -1 }), coordinator.BidCounts},
		{"relevance above 1", 0, with(func(b *Bid) { b.Relevance = 1.5 }), coordinator.BidInvalid},
		{"relevance −∞", 0, with(func(b *Bid) { b.Relevance = math.Inf(-1) }), coordinator.BidInvalid},
		{"late comes before invalid", window, with(func(b *Bid) { b.Active = -1 }), coordinator.BidLate},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := Open("task", 1, ids(3), opened, window, nil)
			if got := b.Bid(after(c.at), c.bid); got != c.want {
				t.Errorf("refused as %q, want %q", got, c.want)
			}
			if want := c.want == coordinator.BidCounts; (b.counted == 1) != want || (order(b) != "") != want {
				t.Errorf("%d bids, ranked %q", b.counted, order(b))
			}
		})
	}
}

// TestLastBidCounts: of an agent's bids the last one before the close counts, once.
func TestLastBidCounts(t *testing.T) {
	b := Open("task", 1, []coordinator.AgentID{"b", "a", "b", "c"}, opened, window, nil)
	if takingPart(b) != 3 {
		t.Fatalf("%d invited: b was named twice, and is asked once", takingPart(b))
	}
	steps := []struct {
		name         string
		at           time.Duration
		bid          Bid
		refusal      coordinator.BidRefusal
		order        string
		waiting, all int
	}{
		{"a bids", 1, Bid{Agent: "a", Fitness: 0.9}, coordinator.BidCounts, "a", 2, 1},
		{"b bids less", 2, Bid{Agent: "b", Fitness: 0.8}, coordinator.BidCounts, "ab", 1, 2},
		{"a's bid is delivered again", 3, Bid{Agent: "a", Fitness: 0.9}, coordinator.BidDuplicate, "ab", 1, 2},
		{"a thinks again: its second bid replaces the first, which was the best", 4, Bid{Agent: "a", Fitness: 0.7},
			coordinator.BidCounts, "ba", 1, 2},
		{"what a says wrongly leaves its bid", 5, Bid{Agent: "a", Fitness: 7}, coordinator.BidInvalid, "ba", 1, 2},
		{"c has answered, if with nonsense", 6, Bid{Agent: "c", Fitness: math.NaN()}, coordinator.BidInvalid, "ba", 0, 2},
		{"and may correct it", 7, Bid{Agent: "c", Fitness: 0.75}, coordinator.BidCounts, "bca", 0, 3},
		{"but not after the close", window, Bid{Agent: "c", Fitness: 1}, coordinator.BidLate, "bca", 0, 3},
	}
	for _, s := range steps {
		if got := b.Bid(after(s.at), s.bid); got != s.refusal {
			t.Errorf("%s: refused as %q, want %q", s.name, got, s.refusal)
		}
		if order(b) != s.order || b.Waiting() != s.waiting || b.counted != s.all {
			t.Errorf("%s: ranked %q, %d waited for, %d bids; want %q, %d, %d", s.name, order(b), b.Waiting(), b.counted, s.order,
				s.waiting, s.all)
		}
	}
	if r := b.Ranked(nil)[0]; r.At != after(2) || r.Bid.Relevance != 0 {
		t.Errorf("the winner's bid is %+v", r.Bid)
	}
}

func TestWithdraw(t *testing.T) {
	b := Open("task", 1, ids(3), opened, window, nil)
	b.Bid(opened, Bid{Agent: "a", Fitness: 1})
	b.Bid(opened, Bid{Agent: "b", Fitness: 0.5})
	if !b.Withdraw("a") || b.Withdraw("a") || b.Withdraw("z") {
		t.Error("only who takes part can be withdrawn, and once")
	}
	if order(b) != "b" || takingPart(b) != 2 || b.Waiting() != 1 || b.counted != 1 {
		t.Errorf("ranked %q, %d invited, %d waited for, %d bids", order(b), takingPart(b), b.Waiting(), b.counted)
	}
	if r := b.Bid(opened, Bid{Agent: "a", Fitness: 1}); r != coordinator.BidNotInvited {
		t.Errorf("who was withdrawn bids: %q", r)
	}
	if !b.Withdraw("c") || b.Waiting() != 0 {
		t.Error("who never answered is still waited for")
	}
}

// drawBid makes bids of few values, so that many are equal, and some that are wrong.
func drawBid(t *rapid.T) Bid {
	return Bid{
		Agent:     rapid.SampledFrom(ids(8)).Draw(t, "agent"),
		Fitness:   rapid.SampledFrom([]float64{0, 0.5, 1, math.NaN(), 2}).Draw(t, "fitness"),
		Active:    rapid.IntRange(-1, 1).Draw(t, "active"),
		Duration:  time.Duration(rapid.IntRange(-1, 2).Draw(t, "duration")),
		Relevance: rapid.SampledFrom([]float64{-1, math.NaN(), 0.5, 2}).Draw(t, "relevance"),
	}
}

// TestBookNever holds after any history of bids and withdrawals what must never be
// otherwise: what is ranked is exactly the last bid of each agent that was not
// refused; the best is the first of them; the counts are right.
func TestBookNever(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		invited := ids(rapid.IntRange(0, 6).Draw(t, "invited")) // g and h never are
		b := Open("task", 3, invited, opened, window, nil)
		counts := map[coordinator.AgentID]Bid{}
		answered, gone := map[coordinator.AgentID]bool{}, map[coordinator.AgentID]bool{}
		for range rapid.IntRange(0, 40).Draw(t, "steps") {
			bid := drawBid(t)
			if rapid.IntRange(0, 9).Draw(t, "what") == 0 {
				if b.Withdraw(bid.Agent) {
					gone[bid.Agent] = true
					delete(counts, bid.Agent)
				}
				continue
			}
			now := after(time.Duration(rapid.SampledFrom([]int{-1, 0, 1, int(window)}).Draw(t, "at")))
			refusal := b.Bid(now, bid)
			if refusal != coordinator.BidNotInvited && refusal != coordinator.BidLate {
				answered[bid.Agent] = true
			}
			if refusal == coordinator.BidCounts {
				if !now.Before(b.Closes()) || !slices.Contains(invited, bid.Agent) || gone[bid.Agent] || !bid.valid() {
					t.Fatalf("%+v at %v was taken", bid, now)
				}
				if bid.At = now; !(bid.Relevance >= 0) {
					bid.Relevance = notGiven
				}
				counts[bid.Agent] = bid
			}
		}
		ranked := b.Ranked(nil)
		if len(ranked) != len(counts) || b.counted != len(counts) {
			t.Fatalf("%d ranked, %d bids, %d were taken", len(ranked), b.counted, len(counts))
		}
		for i, r := range ranked {
			if want := counts[r.Agent]; !same(&r.Bid, &want) || !r.At.Equal(want.At) {
				t.Fatalf("ranked %+v, taken %+v", r.Bid, want)
			}
			if i > 0 && compare(&ranked[i-1], &r) >= 0 {
				t.Fatalf("%+v is ranked before %+v", ranked[i-1], r)
			}
		}
		if best, ok := b.Best(); ok != (len(ranked) > 0) || ok && best.Agent != ranked[0].Agent {
			t.Fatalf("best is %q, ranked %v", best.Agent, ranked)
		}
		waiting := 0
		for _, agent := range invited {
			if !answered[agent] && !gone[agent] {
				waiting++
			}
		}
		if b.Waiting() != waiting || takingPart(b) != len(invited)-len(gone) {
			t.Fatalf("%d waited for of %d, want %d of %d", b.Waiting(), takingPart(b), waiting, len(invited)-len(gone))
		}
	})
}

// TestArrivalOrder: the same bids in any order of arrival rank alike, and the order is
// total: antisymmetric, and only a bid itself is equal to itself.
func TestArrivalOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		bids := rapid.SliceOfNDistinct(rapid.Custom(drawBid), 0, 8, func(b Bid) coordinator.AgentID { return b.Agent }).
			Draw(t, "bids")
		seed := rapid.Uint64().Draw(t, "seed")
		enter := func(bids []Bid) *Book {
			b := Open("task", seed, ids(8), opened, window, nil)
			for i, bid := range bids {
				b.Bid(after(time.Duration(i)), bid)
			}
			return b
		}
		first, second := enter(bids), enter(rapid.Permutation(bids).Draw(t, "shuffled"))
		if order(first) != order(second) {
			t.Fatalf("%q or %q, as they come", order(first), order(second))
		}
		ranked := first.Ranked(nil)
		for i := range ranked {
			for k := range ranked {
				if got := compare(&ranked[i], &ranked[k]); (got == 0) != (i == k) || (got < 0) != (i < k) {
					t.Fatalf("%d against %d: %d", i, k, got)
				}
			}
		}
	})
}

// TestBidAllocates: a bid, its appraisal and the question whether to wait on allocate
// nothing.
func TestBidAllocates(t *testing.T) {
	var c Calibration
	b := Open("task", 1, ids(20), opened, window, func(bid Bid) Appraisal {
		return Appraise(Appraised, Merit{Coverage: 1, Success: 0.9, Depth: 1}, &c, bid)
	})
	agents, n := ids(20), 0
	if got := testing.AllocsPerRun(200, func() {
		n++
		b.Bid(opened, Bid{Agent: agents[n%20], Fitness: 0.5, Active: n})
		b.Closing(opened, Patience{Possible: Appraisal{Fitness: 1}})
	}); got != 0 {
		t.Errorf("%v allocations for each bid", got)
	}
}

// BenchmarkAuction is one auction with 50 bidders: opened, 50 bids, ranked.
func BenchmarkAuction(b *testing.B) {
	agents := make([]coordinator.AgentID, 50)
	for i := range agents {
		agents[i] = coordinator.AgentID(fmt.Sprint("agent-", i))
	}
	var ranked []Ranked
	b.ReportAllocs()
	for b.Loop() {
		book := Open("task", 1, agents, opened, window, nil)
		for i, agent := range agents {
			book.Bid(opened, Bid{Agent: agent, Fitness: float64(i%10) / 10})
			book.Closing(opened, Patience{Possible: Appraisal{Fitness: 1}})
		}
		ranked = book.Ranked(ranked[:0])
	}
}

// takingPart returns how many agents do, without those withdrawn.
func takingPart(b *Book) (n int) {
	for i := range b.places {
		if b.places[i].standing != withdrawn {
			n++
		}
	}
	return n
}
