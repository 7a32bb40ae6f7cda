package market

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"taskbus/coordinator"
	"taskbus/coordinator/auction"
)

const (
	floor   = 100 * time.Millisecond
	ceiling = 500 * time.Millisecond
)

var opened = time.Unix(2_000_000_000, 0)

// The tests name tasks and agents by strings.
type (
	lot    = Lot[string, string]
	bidder = Bidder[string]
)

// fair is a market with bidders of these names, and one class of tasks.
type fair struct {
	Market[string, string]
	bidders map[string]*bidder
	class   Class
	lots    uint64
}

func newFair(agents ...string) *fair {
	f := &fair{bidders: make(map[string]*bidder)}
	f.SetBounds(floor, ceiling)
	for _, a := range agents {
		f.bidders[a] = &bidder{Agent: a, ID: coordinator.AgentID(a)}
	}
	return f
}

// offer opens a lot for half a second. What these agents are known for is all the same.
func (f *fair) offer(now time.Time, agents ...string) *lot {
	f.lots++
	t := Terms[string, string]{
		Task: fmt.Sprint("t", f.lots), Arrival: f.lots, Class: &f.class, Mode: auction.Reported, Window: ceiling,
		Merits: make([]auction.Merit, len(agents)),
	}
	t.ID = coordinator.TaskID(t.Task)
	for _, a := range agents {
		t.Asked = append(t.Asked, f.bidders[a])
	}
	l, _ := f.Offer(now, t)
	return l
}

// bid is a bid of that fitness.
func (f *fair) bid(now time.Time, l *lot, agent string, fitness float64, free bool) (coordinator.BidRefusal, bool) {
	b := auction.Bid{Agent: coordinator.AgentID(agent), Fitness: fitness, Duration: time.Second, Relevance: math.NaN()}
	return f.Bid(now, l, f.bidders[agent], b, auction.Merit{}, free)
}

// check recounts everything.
func (f *fair) check(t interface{ Fatal(...any) }) {
	bidders := func(yield func(*bidder) bool) {
		for _, b := range f.bidders {
			if !yield(b) {
				return
			}
		}
	}
	classes := func(yield func(*Class) bool) { yield(&f.class) }
	if err := f.Check(bidders, classes); err != nil {
		t.Fatal(err)
	}
}

// TestBidsHoldSlots: the first bid of an agent holds the slot that is free, and gives it back with the lot.
func TestBidsHoldSlots(t *testing.T) {
	f := newFair("a", "b")
	l1, l2 := f.offer(opened, "a", "b"), f.offer(opened, "a")
	if f.class.Open() != 2 || f.class.Seeking() != 2 || !f.bidders["a"].Takes() {
		t.Fatalf("2 lots are offered: %+v", f.class)
	}
	if refusal, held := f.bid(opened, l1, "a", 0.5, true); refusal != coordinator.BidCounts || !held {
		t.Fatalf("the first bid: %v, held %v", refusal, held)
	}
	if _, held := f.bid(opened, l1, "a", 0.6, true); held {
		t.Fatal("a bid that replaces another holds a second slot")
	}
	if _, held := f.bid(opened, l2, "a", 0.9, false); held || !f.Contended() {
		t.Fatal("a bid without a free slot contends, and holds none")
	}
	if f.bidders["a"].Held() != 1 || f.class.Seeking() != 1 {
		t.Fatalf("%d slots held, %d lots seek one", f.bidders["a"].Held(), f.class.Seeking())
	}
	f.check(t)
	c := f.Close(opened.Add(time.Millisecond), l1, auction.NotYet)
	if c.Why != auction.WindowOver || c.Took != time.Millisecond || len(c.Asked) != 2 || len(c.Ranked) != 1 ||
		c.Ranked[0].Bid.Fitness != 0.6 {
		t.Errorf("closed with %+v", c)
	}
	a, b := f.bidders["a"], f.bidders["b"]
	if !slices.Equal(c.Freed, []*bidder{a}) || a.Held() != 0 || l1.Open() || b.Takes() {
		t.Errorf("freed %v, a holds %d", c.Freed, a.Held())
	}
	f.check(t)
}

// TestWithdraw: an agent that leaves is not waited for, and its bid does not count.
func TestWithdraw(t *testing.T) {
	f := newFair("a", "b", "c")
	l := f.offer(opened, "a", "b")
	f.bid(opened, l, "a", 0.5, true)
	if in, freed := f.Withdraw(l, f.bidders["a"]); !in || !freed || f.class.Seeking() != 1 {
		t.Errorf("a was in it and held a slot: %v, %v; %d lots seek one", in, freed, f.class.Seeking())
	}
	if in, _ := f.Withdraw(l, f.bidders["c"]); in {
		t.Error("c was not asked")
	}
	if why, _, _ := f.Look(opened, l); why != auction.NotYet {
		t.Errorf("b is waited for: %v", why)
	}
	f.Withdraw(l, f.bidders["b"])
	if why, _, _ := f.Look(opened, l); why != auction.AllAnswered {
		t.Errorf("no agent is left: %v", why)
	}
	f.check(t)
}

// TestLookSaysWhoseSlotIsInDoubt: a has one slot, held for the first lot; its better bid for the second
// waits for the end of the first.
func TestLookSaysWhoseSlotIsInDoubt(t *testing.T) {
	f := newFair("a", "b")
	l1, l2 := f.offer(opened, "a", "b"), f.offer(opened, "a", "b")
	f.bid(opened, l1, "a", 0.5, true)
	f.bid(opened, l2, "b", 0.1, true)
	f.bid(opened, l2, "a", 0.9, false)
	why, next, doubt := f.Look(opened, l2)
	if why != auction.AllAnswered || doubt != f.bidders["a"] || !next.Equal(opened.Add(ceiling)) {
		t.Errorf("%v until %v, doubt %v", why, next, doubt)
	}
	if got := f.Together(opened, l2); !slices.Equal(got, []*lot{l2}) {
		t.Errorf("%d lots are as good as over, l1 waits for b", len(got))
	}
	f.bid(opened, l1, "b", 0.2, false)
	if why, _, doubt := f.Look(opened, l2); why != auction.AllAnswered || doubt != nil {
		t.Errorf("l1 waits for no agent any more: %v, doubt %v", why, doubt)
	}
	if got := f.Together(opened, l2); !slices.Equal(got, []*lot{l1, l2}) {
		t.Errorf("%d lots are decided together, want both in the order of their tasks", len(got))
	}
}

// TestWindow: it learns from 20 replies on, late ones too, and leaves time for the answers that are waited for.
func TestWindow(t *testing.T) {
	var none Market[string, string]
	if none.Length() != 0 {
		t.Errorf("no market yet: %v", none.Length())
	}
	f := newFair("a", "b")
	if f.Length() != ceiling || f.WindowFor(800*time.Millisecond) != 400*time.Millisecond || f.WindowFor(2*floor-2) != 0 {
		t.Errorf("length %v, %v of 800 ms, %v of less than twice the floor",
			f.Length(), f.WindowFor(800*time.Millisecond), f.WindowFor(2*floor-2))
	}
	for range 20 {
		l := f.offer(opened, "a")
		f.bid(opened.Add(200*time.Millisecond), l, "a", 1, true)
		f.Close(opened, l, auction.AllAnswered)
	}
	if f.Length() != 300*time.Millisecond { // 1.5 · p95
		t.Errorf("all have taken 200 ms: %v", f.Length())
	}
	l := f.offer(opened, "a", "b")
	if want := 300*time.Millisecond + 2*100*time.Microsecond; f.Length() != want {
		t.Errorf("two answers are waited for: %v, want %v", f.Length(), want)
	}
	f.Close(opened, l, auction.WindowOver)
	for range 2 { // the second time it is known already
		f.Late(opened.Add(400*time.Millisecond), l, "a")
	}
	if f.Length() != 300*time.Millisecond { // 1 of 21 replies is slower than the p95
		t.Errorf("one late answer: %v", f.Length())
	}
	f.Late(opened.Add(400*time.Millisecond), l, "b")
	if f.Length() != ceiling { // 2 of 22 are: 1.5 · 400 ms, at most the ceiling
		t.Errorf("two late answers: %v", f.Length())
	}
}

// TestMayAsk: at most 256 offers at once, and none without a control queue.
func TestMayAsk(t *testing.T) {
	f := newFair("a")
	a := f.bidders["a"]
	for range 255 {
		f.offer(opened, "a")
	}
	if !a.MayAsk() {
		t.Error("255 offers are open")
	}
	last := f.offer(opened, "a")
	if a.MayAsk() {
		t.Error("256 offers are open")
	}
	f.Close(opened, last, auction.WindowOver)
	if a.Unreachable = true; a.MayAsk() {
		t.Error("it cannot be told")
	}
}

// TestCounts: whatever is offered, bid, withdrawn, moved and closed, in any order, the counts agree with
// the lots that are open, and nothing is held when none is.
func TestCounts(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		names := []string{"a", "b", "c", "d"}
		f, now, other := newFair(names...), opened, Class{}
		moved := make(map[*lot]bool)
		free := make(map[string]int)
		for _, n := range names {
			free[n] = rapid.IntRange(0, 3).Draw(rt, "slots")
		}
		open := func() *lot {
			if len(f.Lots()) == 0 {
				rt.Skip("no lot is open")
			}
			return rapid.SampledFrom(f.Lots()).Draw(rt, "lot")
		}
		closeLot := func(l *lot) {
			c := f.Close(now, l, auction.NotYet)
			if len(c.Ranked) > len(c.Asked) || len(c.Freed) > len(c.Ranked) {
				rt.Fatalf("%d bids of %d agents, %d slots freed", len(c.Ranked), len(c.Asked), len(c.Freed))
			}
		}
		rt.Repeat(map[string]func(*rapid.T){
			"offer": func(rt *rapid.T) {
				asked := rapid.SliceOfNDistinct(rapid.SampledFrom(names), 1, 4, rapid.ID).Draw(rt, "asked")
				f.offer(now, asked...)
			},
			"bid": func(rt *rapid.T) {
				l, agent := open(), rapid.SampledFrom(names).Draw(rt, "agent")
				has := free[agent] > f.bidders[agent].Held()
				fitness := rapid.SampledFrom([]float64{0.1, 0.5, 1, 2}).Draw(rt, "fitness")
				if _, held := f.bid(now, l, agent, fitness, has); held && !has {
					rt.Fatal("holds a slot that it has not")
				}
			},
			"withdraw": func(rt *rapid.T) {
				l, agent := open(), f.bidders[rapid.SampledFrom(names).Draw(rt, "agent")]
				if in, _ := f.Withdraw(l, agent); in && slices.Contains(l.Asked(), agent) {
					rt.Fatal("is still asked")
				}
			},
			"move": func(rt *rapid.T) {
				l := open()
				if moved[l] = !moved[l]; moved[l] {
					f.Move(l, &other)
				} else {
					f.Move(l, &f.class)
				}
			},
			"together": func(rt *rapid.T) {
				lots := f.Together(now, open())
				for _, l := range lots {
					closeLot(l)
				}
			},
			"close": func(rt *rapid.T) { closeLot(open()) },
			"time": func(rt *rapid.T) {
				now = now.Add(time.Duration(rapid.IntRange(1, 200).Draw(rt, "ms")) * time.Millisecond)
			},
			"": func(rt *rapid.T) {
				bidders := func(yield func(*bidder) bool) {
					for _, n := range names {
						if !yield(f.bidders[n]) {
							return
						}
					}
				}
				classes := slices.Values([]*Class{&f.class, &other})
				if err := f.Check(bidders, classes); err != nil {
					rt.Fatal(err)
				}
				for _, n := range names {
					if b := f.bidders[n]; b.Held() > free[n] || len(f.Lots()) == 0 && (b.Takes() || f.Contended()) {
						rt.Fatalf("%s holds %d of %d slots, %d lots are open", n, b.Held(), free[n], len(f.Lots()))
					}
				}
			},
		})
	})
}

// ranked are bids of these agents, best first.
func ranked(agents ...coordinator.AgentID) (bids []auction.Ranked) {
	for i, a := range agents {
		worth := auction.Appraisal{Fitness: 1 - float64(i)/10}
		bids = append(bids, auction.Ranked{Bid: auction.Bid{Agent: a}, Appraisal: worth})
	}
	return bids
}

// TestMatch: as many lots as possible find an agent, and no agent gets more than its slots.
func TestMatch(t *testing.T) {
	type (
		lots  = [][]auction.Ranked
		slots = map[coordinator.AgentID]int
	)
	for _, c := range []struct {
		name string
		lots lots
		free slots
		want string
	}{
		{"the only bid goes before the best", lots{ranked("a", "b"), ranked("a")}, slots{"a": 1, "b": 1}, "[b a]"},
		{"a has two slots", lots{ranked("a", "b"), ranked("a")}, slots{"a": 2, "b": 1}, "[a a]"},
		{"one goes without", lots{ranked("a"), ranked("a", "b"), ranked("c", "a")}, slots{"a": 1, "b": 1}, "[a b -]"},
		{"no slot at all", lots{ranked("a"), ranked("b")}, nil, "[- -]"},
		{"no bids", lots{nil, nil}, slots{"a": 1}, "[- -]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var got []string
			for i, w := range matches(c.lots, c.free) {
				if got = append(got, "-"); w != nil {
					got[i] = string(w.Agent)
				}
			}
			if s := fmt.Sprint(got); s != c.want {
				t.Errorf("got %s, want %s", s, c.want)
			}
		})
	}
}

// slotsOf is what a test's agents have free, by agent; broke have no quota.
type slotsOf struct {
	free  map[coordinator.AgentID]int
	broke []coordinator.AgentID
}

func (f slotsOf) Free(_ string, a coordinator.AgentID) int     { return f.free[a] }
func (f slotsOf) Affords(_ string, a coordinator.AgentID) bool { return !slices.Contains(f.broke, a) }

// closedLots are lots with these bids.
func closedLots(bids [][]auction.Ranked) (all []Closed[string, string]) {
	f := newFair("x")
	for _, ranked := range bids {
		all = append(all, f.Close(opened, f.offer(opened, "x"), auction.WindowOver))
		all[len(all)-1].Ranked = ranked
	}
	return all
}

// matches are the bids that lots go to, in the order of the lots, if those are enough to tell them apart.
func matches(bids [][]auction.Ranked, free map[coordinator.AgentID]int) []*auction.Ranked {
	var m Market[string, string]
	lots := closedLots(bids)
	order := slices.Clone(lots)
	m.Match(lots, slotsOf{free: free}, 1)
	winners, without := make([]*auction.Ranked, len(lots)), false
	for _, x := range lots {
		if without = without || x.matched == nil; without && x.matched != nil {
			panic("one with a match comes after one without")
		}
		at := slices.IndexFunc(order, func(c Closed[string, string]) bool { return c.Lot == x.Lot })
		winners[at] = x.matched
	}
	return winners
}

// TestAward: the bid that was matched wins, else the best that can; the others are kept for later.
func TestAward(t *testing.T) {
	type slots = map[coordinator.AgentID]int
	bids := ranked("a", "b", "c")
	for _, c := range []struct {
		name    string
		bids    []auction.Ranked
		matched *auction.Ranked
		fleet   slotsOf
		keep    int
		outcome coordinator.AuctionOutcome
		winner  coordinator.AgentID
		losers  []coordinator.AgentID
		why     coordinator.BidRefusal
		next    coordinator.AgentID
	}{
		{"the best", bids, nil, slotsOf{free: slots{"a": 1, "b": 1, "c": 1}}, 2,
			coordinator.AuctionAwarded, "a", []coordinator.AgentID{"b", "c"}, coordinator.BidLost, "b"},
		{"the match", bids, &bids[1], slotsOf{free: slots{"a": 1, "b": 1, "c": 1}}, 1,
			coordinator.AuctionAwarded, "b", []coordinator.AgentID{"a", "c"}, coordinator.BidLost, "a"},
		{"the match is full", bids, &bids[1], slotsOf{free: slots{"c": 1}}, 1,
			coordinator.AuctionAwarded, "c", []coordinator.AgentID{"a", "b"}, coordinator.BidLost, ""},
		{"the match has no quota", bids, &bids[0], slotsOf{slots{"a": 1, "c": 1}, []coordinator.AgentID{"a"}}, 3,
			coordinator.AuctionAwarded, "c", []coordinator.AgentID{"a", "b"}, coordinator.BidLost, "a"},
		{"no quota for any that is free", bids, nil, slotsOf{slots{"a": 1}, []coordinator.AgentID{"a"}}, 3,
			coordinator.AuctionAbandoned, "", []coordinator.AgentID{"a", "b", "c"}, coordinator.BidLost, "a"},
		{"all full", bids, nil, slotsOf{}, 3,
			coordinator.AuctionAllFull, "", []coordinator.AgentID{"a", "b", "c"}, coordinator.BidFull, ""},
		{"no bids", nil, nil, slotsOf{free: slots{"x": 1}}, 3, coordinator.AuctionNoBids, "", nil, coordinator.BidLost, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFair("x")
			closed := f.Close(opened, f.offer(opened, "x"), auction.WindowOver)
			closed.Ranked, closed.matched = c.bids, c.matched
			a := f.Award(&closed, c.fleet, c.keep)
			var losers []coordinator.AgentID
			for _, r := range a.Losers {
				losers = append(losers, r.Agent)
			}
			var winner, next coordinator.AgentID
			if a.Winner != nil {
				winner = a.Winner.Agent
			}
			if r := closed.Lot.Next("t", c.fleet); r != nil {
				next = r.Agent
			}
			if a.Outcome != c.outcome || winner != c.winner || !slices.Equal(losers, c.losers) || a.Why != c.why ||
				next != c.next {
				t.Errorf("%v to %q, %v get %v, next %q", a.Outcome, winner, losers, a.Why, next)
			}
		})
	}
}

// TestAwardWithoutAgents: a lot that no agent was left for is unheard, and teaches nothing of reply times.
func TestAwardWithoutAgents(t *testing.T) {
	f := newFair("x")
	l := f.offer(opened, "x")
	f.Withdraw(l, f.bidders["x"])
	c := f.Close(opened, l, auction.WindowOver)
	if a := f.Award(&c, slotsOf{}, 1); a.Outcome != coordinator.AuctionUnheard {
		t.Errorf("no agent was left: %v", a.Outcome)
	}
}

// TestTakeNext: a bid that was next is not next again, and was one of all that did not win.
func TestTakeNext(t *testing.T) {
	f, fleet := newFair("x"), slotsOf{free: map[coordinator.AgentID]int{"a": 1, "c": 1}}
	c := f.Close(opened, f.offer(opened, "x"), auction.WindowOver)
	c.Ranked = ranked("a", "b", "c")
	f.Award(&c, fleet, 3)
	next := c.Lot.Next("t", fleet) // of b and c: b is full
	if of := c.Lot.TakeNext(next); next.Agent != "c" || len(of) != 2 || of[0].Agent != "b" {
		t.Errorf("%q of %d", next.Agent, len(of))
	}
	if again := c.Lot.Next("t", fleet); again != nil {
		t.Errorf("%q is next again", again.Agent)
	}
	var none *lot
	if none.Next("t", fleet) != nil {
		t.Error("a task without a lot has no bids")
	}
}
