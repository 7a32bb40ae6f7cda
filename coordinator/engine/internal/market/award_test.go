package market

import (
	"fmt"
	"slices"
	"testing"

	"taskbus/coordinator"
	"taskbus/coordinator/auction"
)

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

// slotsOf is what a test's agents have free, by agent; broke have no quota, gone have left, and late are tasks.
type slotsOf struct {
	free  map[coordinator.AgentID]int
	broke []coordinator.AgentID
	gone  []coordinator.AgentID
	late  []string
}

func (f slotsOf) Merit(string, string) (m auction.Merit) { return m }
func (f slotsOf) Slots(a string) int                     { return f.free[coordinator.AgentID(a)] }
func (f slotsOf) Late(task string) bool                  { return slices.Contains(f.late, task) }
func (f slotsOf) Agent(id coordinator.AgentID) *coordinator.AgentView {
	if slices.Contains(f.gone, id) {
		return nil
	}
	return &coordinator.AgentView{ID: id, Load: 0.5, Free: f.free[id]}
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
	winners, without := make([]*auction.Ranked, len(lots)), false
	for _, x := range m.Match(lots, slotsOf{free: free}, 1) {
		if without = without || x.matched == nil; without && x.matched != nil {
			panic("one with a match comes after one without")
		}
		at := slices.IndexFunc(lots, func(c Closed[string, string]) bool { return c.Lot == x.Lot })
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
		{"the match has no quota", bids, &bids[0], slotsOf{free: slots{"a": 1, "c": 1}, broke: []coordinator.AgentID{"a"}}, 3,
			coordinator.AuctionAwarded, "c", []coordinator.AgentID{"a", "b"}, coordinator.BidLost, "a"},
		{"no quota for any that is free", bids, nil, slotsOf{free: slots{"a": 1}, broke: []coordinator.AgentID{"a"}}, 3,
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
			why := coordinator.BidLost
			for _, r := range a.Rejected {
				losers, why = append(losers, r.Agent), r.Reason
				if r.Task != "t1" || r.AuctionID != closed.Lot.ID || r.TraceID != "trace" {
					t.Errorf("rejected: %+v", r)
				}
			}
			var winner, next coordinator.AgentID
			if a.Winner != nil {
				winner = a.Winner.Agent
			}
			if r := closed.Lot.Next("t", c.fleet); r != nil {
				next = r.Agent
			}
			if a.Ended.Outcome != c.outcome || winner != c.winner || !slices.Equal(losers, c.losers) || why != c.why ||
				next != c.next || a.Ended.Winner != winner || a.Ended.Bids != len(c.bids) {
				t.Errorf("%+v to %q, %v get %v, next %q", a.Ended, winner, losers, why, next)
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
	if a := f.Award(&c, slotsOf{}, 1); a.Ended.Outcome != coordinator.AuctionUnheard {
		t.Errorf("no agent was left: %v", a.Ended.Outcome)
	}
}

// TestAwardOfNoTask: of a lot that is abandoned, or late, all bids are rejected, whatever is free.
func TestAwardOfNoTask(t *testing.T) {
	for _, late := range []bool{true, false} {
		f := newFair("x")
		c := f.Close(opened, f.offer(opened, "x"), auction.WindowOver)
		c.Ranked, c.Late, c.Abandoned = ranked("a", "b"), late, !late
		a := f.Award(&c, slotsOf{free: map[coordinator.AgentID]int{"a": 1, "b": 1}}, 1)
		if a.Winner != nil || a.Ended.Outcome != coordinator.AuctionAbandoned || len(a.Rejected) != 2 {
			t.Errorf("late: %v: %+v, %d rejected", late, a.Ended, len(a.Rejected))
		}
	}
}

// TestTakeNext: a bid that was next is not next again, and was one of all that did not win.
func TestTakeNext(t *testing.T) {
	f, fleet := newFair("x"), slotsOf{free: map[coordinator.AgentID]int{"a": 1, "c": 1}}
	c := f.Close(opened, f.offer(opened, "x"), auction.WindowOver)
	c.Ranked = ranked("a", "b", "c")
	f.Award(&c, fleet, 3)
	// Of b and c b is full.
	if next, of := c.Lot.TakeNext("t", fleet); next.Agent != "c" || len(of) != 2 || of[0].Agent != "b" {
		t.Errorf("%q of %d", next.Agent, len(of))
	}
	if again, _ := c.Lot.TakeNext("t", fleet); again != nil {
		t.Errorf("%q is next again", again.Agent)
	}
	var none *lot
	if none.Next("t", fleet) != nil {
		t.Error("a task without a lot has no bids")
	}
}

// TestConclude: t1 and t2 contend for the one slot of a, and t3, which goes to b, for that of c; the deadline of t2 has
// passed. All are closed in the order of their tasks; the late one is awarded first and goes to no bidder.
func TestConclude(t *testing.T) {
	f := newFair("a", "b", "c")
	l1, l2, l3 := f.offer(opened, "a"), f.offer(opened, "a"), f.offer(opened, "b", "c")
	f.bid(opened, l1, "a", 0.5, true)
	f.bid(opened, l2, "a", 0.9, false)
	f.bid(opened, l3, "b", 0.4, true)
	f.bid(opened, l3, "c", 0.3, false)
	v := slotsOf{free: map[coordinator.AgentID]int{"a": 1, "b": 1}, late: []string{"t2"}}
	over := f.Conclude(opened, l1, auction.AllAnswered, v)
	var closed, awarded []string
	for _, c := range over {
		closed = append(closed, fmt.Sprint(c.Lot.Task, " ", c.Why, " ", c.Late))
	}
	for _, c := range f.Match(over, v, 1) {
		a := f.Award(c, v, 3)
		awarded = append(awarded, fmt.Sprint(c.Lot.Task, " ", a.Ended.Outcome, " ", a.Ended.Winner))
	}
	if want := []string{
		fmt.Sprint("t1 ", auction.AllAnswered, " false"), fmt.Sprint("t2 ", auction.WindowOver, " true"),
		fmt.Sprint("t3 ", auction.AllAnswered, " false"),
	}; !slices.Equal(closed, want) {
		t.Errorf("closed: %q, want %q", closed, want)
	}
	if want := []string{
		fmt.Sprint("t2 ", coordinator.AuctionAbandoned, " "), fmt.Sprint("t1 ", coordinator.AuctionAwarded, " a"),
		fmt.Sprint("t3 ", coordinator.AuctionAwarded, " b"),
	}; !slices.Equal(awarded, want) {
		t.Errorf("awarded: %q, want %q", awarded, want)
	}
	f.check(t)
}

// TestCandidates: the winner first, at most as many as a decision shows, none that has left.
func TestCandidates(t *testing.T) {
	bids := ranked("a", "b", "c", "d", "e", "f")
	v := slotsOf{gone: []coordinator.AgentID{"b"}}
	var got []coordinator.AgentID
	for _, c := range Candidates(&bids[2], bids, View[string, string](v)) {
		got = append(got, c.Agent)
		if c.Load != 0.5 {
			t.Errorf("%+v", c)
		}
	}
	want := []coordinator.AgentID{"c", "a", "d", "e", "f"}
	if want = want[:min(len(want), coordinator.MaxCandidates)]; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
