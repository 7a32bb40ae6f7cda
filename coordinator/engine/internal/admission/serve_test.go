package admission

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"
	"weak"

	"taskbus/coordinator"
	"taskbus/coordinator/fairshare"
)

// Of two groups that wait for one rate each has its turn when some of it is back; the first of them is the
// head of the queue meanwhile, and the other is not asked for again.
func TestTurnsForARate(t *testing.T) {
	h := newHarness(t, func(n *coordinator.QuotaNode) {
		if n.Name == "pool" {
			n.Rates[coordinator.DimRequests] = &coordinator.QuotaLimit{Nominal: 60, Per: time.Minute, Burst: 1}
		}
	}, "x", "y")
	c := h.class(100)
	for range 4 {
		h.add(c, "x", coordinator.PriorityNormal, requests(1))
	}
	for range 4 {
		h.add(c, "y", coordinator.PriorityNormal, requests(1))
	}
	h.run()
	if got := h.order(0); got != "x" {
		t.Fatalf("served %q with a burst of 1", got)
	}
	// 60 in a minute: one each second, in turns.
	for i, want := range []string{"y", "x", "y", "x", "y", "x", "y"} {
		before := len(h.served)
		h.now = h.now.Add(time.Second)
		h.run()
		if got := h.order(before); got != want {
			t.Errorf("after %d s %q is served, want %q", i+1, got, want)
		}
	}
	if len(h.of) != 0 {
		t.Errorf("%d waits are left without tasks", len(h.of))
	}
}

// What comes one by one, and needs little, does not go before the head of a queue that needs much.
func TestAheadOfALateTask(t *testing.T) {
	h := newHarness(t, func(n *coordinator.QuotaNode) {
		if n.Name == "pool" {
			n.Rates[coordinator.DimRequests] = &coordinator.QuotaLimit{Nominal: 60, Per: time.Minute, Burst: 10}
		}
	}, "y", "x")
	c := h.class(100)
	h.add(c, "y", coordinator.PriorityNormal, requests(10))
	h.add(c, "x", coordinator.PriorityNormal, requests(10)) // x has had nothing: it is first in 10 s
	h.run()
	for range 9 { // there are 1, 2, ... 9 by then
		h.now = h.now.Add(time.Second)
		h.add(c, "y", coordinator.PriorityNormal, requests(1))
		h.run()
	}
	if got := h.order(0); got != "y" {
		t.Fatalf("served %q before the head of the queue", got)
	}
	h.now = h.now.Add(time.Second)
	h.run()
	if got := h.order(1); got != "x" {
		t.Errorf("served %q when the head has enough", got)
	}
	// A higher level does not stand behind it.
	h.add(c, "x", coordinator.PriorityNormal, requests(10))
	h.run()
	h.now = h.now.Add(time.Second)
	if _, is := h.Ahead(h.now, h.served[0].charge, int(coordinator.PriorityNormal)); is {
		t.Error("what the rate cannot serve at once stands behind another")
	}
	one := fairshare.Charge{Group: "y", Amounts: requests(1)}
	v, is := h.Ahead(h.now, one, int(coordinator.PriorityNormal))
	if !is || v.Behind != "pool" || v.Limit != fairshare.LimitRate || v.OK {
		t.Errorf("a charge of the head's level: %v, %+v", is, v)
	}
	if _, is := h.Ahead(h.now, one, int(coordinator.PriorityCritical)); is {
		t.Error("a charge of a higher level waits behind the head")
	}
}

// A wait whose task leaves tries again: the next task of its queue may need less.
func TestWaitWhoseTaskLeaves(t *testing.T) {
	h := newHarness(t, func(n *coordinator.QuotaNode) {
		if n.Name == "x" {
			n.Budgets[coordinator.DimRequests] = &coordinator.QuotaLimit{
				Nominal: 10, Period: coordinator.Period{Unit: coordinator.PerDay},
			}
		}
	}, "x", "y")
	c := h.class(100)
	h.add(c, "x", coordinator.PriorityNormal, requests(8))
	large := h.add(c, "x", coordinator.PriorityNormal, requests(5))
	small := h.add(c, "x", coordinator.PriorityNormal, requests(2))
	h.run()
	if got := h.order(0); got != "x" || h.Find(c, large.leaf) == nil || h.Find(c, large.leaf).Task != large {
		t.Fatalf("served %q, and %+v waits", got, h.Find(c, large.leaf))
	}
	if h.leave(large); !h.Pending() {
		t.Error("nothing is said to try again")
	}
	if h.run(); h.Pending() || len(h.served) != 2 || h.served[1] != small {
		t.Errorf("%d are served after the large one has left", len(h.served))
	}
}

// A class whose pool has nothing left waits as a whole: its tasks are neither parked nor tried one by one.
func TestWholeClassWaits(t *testing.T) {
	h := newHarness(t, limits(map[string]int64{"pool": 1}), "x", "y")
	c := h.class(100)
	for _, group := range []string{"x", "y", "x", "y"} {
		h.add(c, group, coordinator.PriorityNormal, seats(1))
	}
	h.run()
	if len(h.of) != 1 || c.Whole == nil || c.Whole.Leaf != -1 || h.refused != 1 || c.waiting.AnyParked() {
		t.Fatalf("%d waits, %+v, after %d refusals", len(h.of), c.Whole, h.refused)
	}
	for i, want := range []string{"y", "x", "y"} {
		h.end(h.served[i])
		h.run()
		if got := h.order(i + 1); got != want {
			t.Errorf("%q is served with the seat of task %d, want %q", got, i, want)
		}
	}
	if len(h.of) != 0 || h.refused > 3 {
		t.Errorf("%d waits are left, after %d refusals of 4 tasks", len(h.of), h.refused)
	}
}

// A round that refuses many pauses: the others try a moment later, so that no event takes long.
func TestRoundPauses(t *testing.T) {
	groups := []string{"owner"}
	for i := range 3 * MaxRefused {
		groups = append(groups, string(rune('A'+i/26))+string(rune('a'+i%26)))
	}
	h := newHarness(t, borrowed, groups...)
	c := h.class(1000)
	held := h.add(c, "owner", coordinator.PriorityNormal, requests(10))
	h.run()
	for _, group := range groups[1:] {
		h.add(c, group, coordinator.PriorityNormal, requests(6))
	}
	for h.run(); h.Paused(); h.run() {
		h.now = h.now.Add(roundPause)
	}
	h.end(held) // 10 are there to be borrowed, all want 6, and one has them
	before := h.blocked + h.refused
	for rounds := 1; ; rounds++ {
		h.run()
		if n := h.blocked + h.refused - before; n > rounds*MaxRefused {
			t.Fatalf("%d are refused in %d rounds", n, rounds)
		}
		if !h.Paused() {
			break
		}
		if at, ok := h.Due(); !ok || !at.Equal(h.now.Add(roundPause)) {
			t.Fatalf("the round goes on at %v, %v", at, ok)
		}
		h.now = h.now.Add(roundPause)
	}
	if n := h.blocked + h.refused - before; len(h.served) != 2 || n != 3*MaxRefused-1 {
		t.Errorf("%d are served and %d refused, want 2 and all others of %d", len(h.served), n, 3*MaxRefused)
	}
	if h.blocked == 0 {
		t.Error("every task was tried itself")
	}
}

// borrowed is a pool whose 10 requests a day are the owner's, and borrowed by the others.
func borrowed(n *coordinator.QuotaNode) {
	amount := map[string]int64{"pool": 10, "owner": 10}[n.Name]
	n.Budgets[coordinator.DimRequests] = &coordinator.QuotaLimit{
		Nominal: amount, Period: coordinator.Period{Unit: coordinator.PerDay},
	}
	n.Borrowing.Rule = coordinator.BorrowGroupRemaining
}

// One seat: it is b's by its share, a and z borrow it in turns. When it comes free it is kept for b, which
// waits; a, whose turn it is, is not asked before b has it and wants no more.
func TestSeatIsKept(t *testing.T) {
	h := newHarness(t, limits(map[string]int64{"pool": 1, "a": 0, "b": 1, "z": 0}), "a", "b", "z")
	c := h.class(9)
	for _, group := range []string{"z", "a", "z", "z", "b"} {
		h.add(c, group, coordinator.PriorityNormal, seats(1))
		h.run()
	}
	for i, want := range []string{"b", "a"} { // z had one
		h.end(h.served[i])
		h.run()
		if got := h.order(i + 1); got != want {
			t.Errorf("%q is served with the seat of task %d, want %q", got, i, want)
		}
	}
}

// No seat is kept for a task that has no agent: all four are b's by its share, and its class has one slot.
func TestSeatIsNotKeptWithoutAnAgent(t *testing.T) {
	h := newHarness(t, limits(map[string]int64{"pool": 4, "a": 0, "b": 4, "c": 0}), "a", "b", "c")
	one, many := h.class(1), h.class(9)
	for range 4 {
		h.add(many, "c", coordinator.PriorityNormal, seats(1))
	}
	h.run()
	for range 2 {
		h.add(many, "a", coordinator.PriorityNormal, seats(1))
		h.run()
		h.add(one, "b", coordinator.PriorityNormal, seats(1))
		h.run()
	}
	if got := h.order(0); got != "cccc" {
		t.Fatalf("served %q with four seats", got)
	}
	for i, want := range []string{"b", "a", "a"} { // b takes the only slot of its class
		h.end(h.served[i])
		h.run()
		if got := h.order(4 + i); got != want {
			t.Errorf("%q is served with the seat of task %d, want %q", got, i, want)
		}
	}
}

// Of two that wait for one budget the one of the higher borrowing priority has what can be borrowed, whosever
// turn it is.
func TestBorrowersByPriority(t *testing.T) {
	h := newHarness(t, func(n *coordinator.QuotaNode) {
		if borrowed(n); n.Name == "y" {
			n.Borrowing.Priority = 1
		}
	}, "x", "y", "owner")
	c := h.class(100)
	held := h.add(c, "owner", coordinator.PriorityNormal, requests(10))
	h.run()
	h.add(c, "x", coordinator.PriorityNormal, requests(6))
	h.add(c, "y", coordinator.PriorityNormal, requests(6))
	h.run()
	h.end(held) // 10 are there to be borrowed, and both want 6
	h.run()
	if got := h.order(1); got != "y" {
		t.Errorf("%q borrows, want y", got)
	}
}

// Whatever comes, ends and leaves: each round leaves nothing that may be served (checked by run), and in the
// end everything is served, once.
func TestEverythingIsServed(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 1))
		h := newHarness(t, func(n *coordinator.QuotaNode) {
			switch {
			case n.Name == "pool":
				n.Seats = &coordinator.QuotaLimit{Nominal: 3 + rng.Int64N(3)}
			case rng.IntN(3) > 0:
				n.Seats = &coordinator.QuotaLimit{Nominal: rng.Int64N(4) - 1} // by weight, or so many
			}
			if rng.IntN(2) == 0 {
				n.Rates[coordinator.DimRequests] = &coordinator.QuotaLimit{
					Nominal: 60 + rng.Int64N(600), Per: time.Minute, Burst: 5,
				}
			}
			if rng.IntN(3) == 0 {
				n.Budgets[coordinator.DimRequests] = &coordinator.QuotaLimit{
					Nominal: 5 + rng.Int64N(50), Period: coordinator.Period{Unit: coordinator.PerHour},
				}
				n.Borrowing.Priority = rng.IntN(3)
			}
		}, "a", "b", "c", "d")
		classes := []*testClass{h.class(rng.IntN(3)), h.class(4)}
		var open []*testTask
		left := make(map[*testTask]bool)
		step := func(adds bool) {
			t.Helper()
			before := len(h.served)
			switch n := rng.IntN(10); {
			case n < 5 && adds:
				a := requests(1 + rng.Int64N(5))
				a[coordinator.DimConcurrency] = 1 // as every task takes
				x := h.add(classes[rng.IntN(2)], string(rune('a'+rng.IntN(4))), coordinator.Priority(rng.IntN(4)), a)
				if rng.IntN(8) == 0 {
					h.run()
					if !serves(h, x) {
						left[x] = true
						h.leave(x)
					}
				}
			case n < 8 && len(open) > 0:
				i := rng.IntN(len(open))
				h.end(open[i])
				open = append(open[:i], open[i+1:]...)
			default:
				h.now = h.now.Add(time.Duration(rng.IntN(2000)) * time.Millisecond)
			}
			for h.run(); h.Pending(); h.run() {
			}
			open = append(open, h.served[before:]...)
		}
		for range 200 {
			step(true)
		}
		classes[0].slots++ // it may have had none
		for range 20_000 {
			if len(h.served)+len(left) == h.added {
				break
			}
			if step(false); len(open) == 0 {
				if at, ok := h.Due(); ok && at.After(h.now) {
					h.now = at
				}
			}
		}
		once := make(map[*testTask]bool)
		for _, x := range h.served {
			if once[x] || left[x] {
				t.Fatalf("seed %d: task %d is served twice, or has left", seed, x.seq)
			}
			once[x] = true
		}
		if len(h.served)+len(left) != h.added || len(h.of) != 0 {
			t.Fatalf("seed %d: of %d tasks %d are served and %d have left; %d waits",
				seed, h.added, len(h.served), len(left), len(h.of))
		}
	}
}

// serves reports whether the task was served.
func serves(h *harness, x *testTask) bool {
	for _, o := range h.served {
		if o == x {
			return true
		}
	}
	return false
}

// What waited, and has been served, is not kept in memory by the room that its Step took.
func TestServedWaitsAreLetGo(t *testing.T) {
	for _, groups := range []int{2, 2 * MaxRefused} {
		names := make([]string, groups)
		for i := range names {
			names[i] = fmt.Sprint("g", i)
		}
		h := newHarness(t, func(n *coordinator.QuotaNode) {
			if n.Kind == coordinator.QuotaGroup { // one a minute
				n.Rates[coordinator.DimRequests] = &coordinator.QuotaLimit{Nominal: 1, Per: time.Minute, Burst: 1}
			}
		}, names...)
		c := h.class(10 * groups)
		for _, name := range names {
			h.add(c, name, coordinator.PriorityNormal, requests(1))
			h.add(c, name, coordinator.PriorityNormal, requests(1))
		}
		for i := 0; i < 10; i++ {
			h.run()
			h.now = h.now.Add(time.Millisecond)
		}
		var waits []weak.Pointer[Wait]
		for _, w := range h.All() {
			waits = append(waits, weak.Make(w))
		}
		if len(waits) != groups {
			t.Fatalf("%d wait, want one of each of %d groups", len(waits), groups)
		}
		for h.now = h.now.Add(time.Minute); len(h.served) < 2*groups; h.now = h.now.Add(time.Millisecond) {
			h.run()
		}
		runtime.GC()
		kept := 0
		for _, w := range waits {
			if w.Value() != nil {
				kept++
			}
		}
		if runtime.KeepAlive(h); kept > 0 {
			t.Errorf("of %d waits that were served %d are still in memory", groups, kept)
		}
	}
}
