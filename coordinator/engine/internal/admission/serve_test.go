package admission

import (
	"math/rand/v2"
	"testing"
	"time"

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
	h := newHarness(t, func(n *coordinator.QuotaNode) {
		if n.Name == "pool" {
			n.Seats = &coordinator.QuotaLimit{Nominal: 1}
		}
	}, "x", "y")
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

// Whatever comes, ends and leaves: each round leaves nothing that may be served (checked by run), and in the
// end everything is served, once.
func TestEverythingIsServed(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 1))
		h := newHarness(t, func(n *coordinator.QuotaNode) {
			if rng.IntN(2) == 0 {
				n.Seats = &coordinator.QuotaLimit{Nominal: 2 + rng.Int64N(4)}
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
				a[coordinator.DimConcurrency] = 1 + rng.Int64N(2)
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
