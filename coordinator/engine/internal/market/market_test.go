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
	f.Install(bounds(floor, ceiling))
	for _, a := range agents {
		f.bidders[a] = &bidder{Agent: a, ID: coordinator.AgentID(a)}
	}
	return f
}

// bounds are strategies without, and with a market of such auctions.
func bounds(floor, ceiling time.Duration) []coordinator.Strategy {
	return []coordinator.Strategy{{}, {Market: &coordinator.Market{Floor: floor, Ceiling: ceiling}}}
}

// offer opens a lot for half a second. What these agents are known for is all the same.
func (f *fair) offer(now time.Time, agents ...string) *lot {
	f.lots++
	t := Terms[string, string]{
		Task: fmt.Sprint("t", f.lots), Arrival: f.lots, Class: &f.class, Reported: true, Window: ceiling,
	}
	t.Of = &coordinator.Task{ID: coordinator.TaskID(t.Task), Carried: coordinator.Carried{CorrelationID: "trace"}}
	for _, a := range agents {
		t.Asked = append(t.Asked, f.bidders[a])
	}
	l, _ := f.Offer(now, t, slotsOf{})
	return l
}

// bid is a bid of that fitness.
func (f *fair) bid(now time.Time, l *lot, agent string, fitness float64, free bool) (coordinator.BidRefusal, bool) {
	ev := coordinator.BidReceived{
		Agent: coordinator.AgentID(agent), Fitness: fitness, Duration: time.Second, Relevance: math.NaN(),
	}
	v := slotsOf{}
	if free {
		v.free = map[coordinator.AgentID]int{ev.Agent: 1}
	}
	answer, held := f.Bid(now, l, f.bidders[agent], &ev, v)
	return answer.Reason, held
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
	if why, _ := f.Look(opened, l, slotsOf{}); why != auction.NotYet {
		t.Errorf("b is waited for: %v", why)
	}
	f.Withdraw(l, f.bidders["b"])
	if why, _ := f.Look(opened, l, slotsOf{}); why != auction.AllAnswered {
		t.Errorf("no agent is left: %v", why)
	}
	f.check(t)
}

// TestLookWaitsForASlotInDoubt: a has one slot, held for the first lot; its better bid for the second
// waits for the end of the first, or until another slot is free.
func TestLookWaitsForASlotInDoubt(t *testing.T) {
	f := newFair("a", "b")
	l1, l2 := f.offer(opened, "a", "b"), f.offer(opened, "a", "b")
	f.bid(opened, l1, "a", 0.5, true)
	f.bid(opened, l2, "b", 0.1, true)
	f.bid(opened, l2, "a", 0.9, false)
	if why, next := f.Look(opened, l2, slotsOf{}); why != auction.NotYet || !next.Equal(opened.Add(ceiling)) {
		t.Errorf("%v until %v", why, next)
	}
	if why, _ := f.Look(opened, l2, slotsOf{free: map[coordinator.AgentID]int{"a": 1}}); why != auction.AllAnswered {
		t.Errorf("a has a slot free: %v", why)
	}
	if got := f.together(opened, l2); !slices.Equal(got, []*lot{l2}) {
		t.Errorf("%d lots are as good as over, l1 waits for b", len(got))
	}
	f.bid(opened, l1, "b", 0.2, false)
	if why, _ := f.Look(opened, l2, slotsOf{}); why != auction.AllAnswered {
		t.Errorf("l1 waits for no agent any more: %v", why)
	}
	if got := f.together(opened, l2); !slices.Equal(got, []*lot{l1, l2}) {
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
	if f.Length() != ceiling {
		t.Errorf("nothing is known: %v", f.Length())
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
		f.bid(opened.Add(400*time.Millisecond), l, "a", 1, true)
	}
	if f.Length() != 300*time.Millisecond { // 1 of 21 replies is slower than the p95
		t.Errorf("one late answer: %v", f.Length())
	}
	f.bid(opened.Add(400*time.Millisecond), l, "b", 1, true)
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
		checkClosed := func(c *Closed[string, string]) {
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
					f.Move(l, &other, slotsOf{})
				} else {
					f.Move(l, &f.class, slotsOf{})
				}
			},
			"together": func(rt *rapid.T) {
				for _, c := range f.Conclude(now, open(), auction.WindowOver, slotsOf{}) {
					checkClosed(&c)
				}
			},
			"close": func(rt *rapid.T) {
				c := f.Close(now, open(), auction.NotYet)
				checkClosed(&c)
			},
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

// TestInvite: for how long bids are taken of which agents, or why there is no auction.
func TestInvite(t *testing.T) {
	f := newFair("a", "b")
	both := []*bidder{f.bidders["a"], f.bidders["b"]}
	for _, tt := range []struct {
		wait   time.Duration
		can    []*bidder
		window time.Duration
		why    coordinator.AuctionOutcome
	}{
		{2*floor - 1, both, 0, coordinator.AuctionNoTime},
		{0, nil, 0, coordinator.AuctionNoTime},
		{time.Second, nil, 0, coordinator.AuctionUnheard},
		{800 * time.Millisecond, both, 400 * time.Millisecond, coordinator.AuctionNone}, // half of the wait
		{time.Hour, both, ceiling, coordinator.AuctionNone},
	} {
		window, asked, why := f.Invite(tt.wait, tt.can, true, "t", 1, nil)
		if window != tt.window || why != tt.why || (why == coordinator.AuctionNone) != (len(asked) == 2) {
			t.Errorf("%v for %d: %v, %d asked, %v", tt.wait, len(tt.can), window, len(asked), why)
		}
	}
}

// TestBidsThatDoNotCount: what is answered to a bid for a lot that is not open, or that there is not.
func TestBidsThatDoNotCount(t *testing.T) {
	f := newFair("a")
	l := f.offer(opened, "a")
	f.Close(opened, l, auction.WindowOver)
	for _, tt := range []struct {
		lot     *lot
		by      *bidder
		auction string
		why     coordinator.BidRefusal
	}{
		{l, f.bidders["a"], l.ID, coordinator.BidLate},
		{nil, f.bidders["a"], "", coordinator.BidLate},
		{l, nil, "", coordinator.BidNotInvited},
	} {
		ev := coordinator.BidReceived{Agent: "a", Task: "t1", TraceID: "trace"}
		got, held := f.Bid(opened, tt.lot, tt.by, &ev, slotsOf{})
		want := coordinator.RejectBid{
			Agent: "a", Task: "t1", AuctionID: tt.auction, TraceID: "trace", Reason: tt.why,
		}
		if got != want || held {
			t.Errorf("%+v, want %+v; it holds a slot: %v", got, want, held)
		}
	}
}

// TestMoveToAnotherFleet: b has left, and held the slot that the lot had found, which now seeks one; a lot without a
// class there stays where it was.
func TestMoveToAnotherFleet(t *testing.T) {
	for _, to := range []*Class{nil, {}} {
		f := newFair("a", "b")
		l := f.offer(opened, "a", "b")
		f.bid(opened, l, "b", 0.5, true)
		f.Move(l, to, slotsOf{gone: []coordinator.AgentID{"b"}})
		if len(l.Asked()) != 1 || f.bidders["b"].Takes() {
			t.Errorf("%d are asked, b takes part: %v", len(l.Asked()), f.bidders["b"].Takes())
		}
		counted := f.class
		if to != nil {
			counted = *to
			if f.class.Open() != 0 || f.class.Seeking() != 0 {
				t.Errorf("before: %+v", f.class)
			}
		}
		if counted.Open() != 1 || counted.Seeking() != 1 {
			t.Errorf("%+v", counted)
		}
	}
}
