package engine_test

import (
	"maps"
	"testing"
	"time"

	"taskbus/coordinator"
)

// What is lent and comes back, of rates, budgets and seats, with tasks that wait for it.

// partOf is a group's part, by weight, of its pool's tokens for each 100 s.
func partOf(n *coordinator.QuotaNode) { hundredSeconds(coordinator.ByWeight)(n) }

// hundredSeconds is a budget of total tokens for each 100 s.
func hundredSeconds(tokens int64) func(*coordinator.QuotaNode) {
	return func(n *coordinator.QuotaNode) {
		n.Budgets[coordinator.DimTotalTokens] = &coordinator.QuotaLimit{
			Nominal: tokens, Period: coordinator.Period{Unit: coordinator.PerInterval, Interval: 100 * time.Second},
		}
	}
}

// partOfSeats is a group's part, by weight, of what may run at one time.
func partOfSeats(n *coordinator.QuotaNode) { seats(coordinator.ByWeight)(n) }

// lendingRig has one agent with slots for all, and begins with a period of 100 s.
func lendingRig(t *testing.T, q *quotaTree) *rig {
	r := ready(t, patient(policyOf(worker("x").slots(100_000)).quotas(q)).
		set(func(s *coordinator.Settings) { s.MaxQueueSize = 1_000_000 }))
	r.hear(beat("x").available(100_000))
	r.pass(100*time.Second - r.now.Sub(epoch)) // 2030-01-01 12:00:00 is 18,936,288 times 100 s
	return r
}

// goesOut counts the dispatches of the next so long, by group.
func (r *rig) goesOut(d time.Duration) map[string]int {
	r.t.Helper()
	before, n := len(r.dispatches), make(map[string]int)
	r.pass(d)
	for _, x := range r.dispatches[before:] {
		n[x.Task.Group]++
	}
	return n
}

// TestQuotaOwnerOfARateReturns: of 10 calls a second half are a's and half b's. While a is idle b
// has all 10. When a comes back with a flood it has its burst of 5 and its 5 a second, from the
// first on, though hundreds of b's wait; b has the other 5. When a has no more, b has all again.
func TestQuotaOwnerOfARateReturns(t *testing.T) {
	r := lendingRig(t, quotasOf().pool(requests(10, 10)).group("a", 1, partOfRequests(0)).group("b", 1, partOfRequests(0)))
	r.flood(2000, 1, 1, "b")
	r.goesOut(time.Second)
	if n := r.goesOut(30 * time.Second); n["b"] < 297 || n["b"] > 300 { // 99 % of 10 · 30
		t.Errorf("alone b has %v of 300", n)
	}
	before := len(r.dispatches)
	r.flood(55, 1, 1, "a")
	if got := len(r.dispatches) - before; got != 5 {
		t.Errorf("%d of its burst of 5 go at once", got)
	}
	for s := range 10 {
		if n := r.goesOut(time.Second); n["a"] != 5 || n["b"] < 4 || n["b"] > 6 {
			t.Errorf("in second %d: %v, want 5 each", s+1, n)
		}
	}
	r.goesOut(time.Second)
	if n := r.goesOut(10 * time.Second); n["b"] < 99 || n["a"] != 0 {
		t.Errorf("alone again: %v", n)
	}
}

// TestQuotaOwnerOfABudgetReturns: a, b and c have 1,000 tokens each for 100 s. Until 40 s a takes
// what it can get: its 1,000, and 400 each that have accrued to the others: 900 tasks of two
// tokens. Then b comes back: it has the 600 that are yet to accrue to it, 10 in each second, and
// every one of its tasks goes at once, before the flood of a's, which goes on with what accrues to
// c: 10 a second, too.
func TestQuotaOwnerOfABudgetReturns(t *testing.T) {
	r := lendingRig(t, quotasOf().pool(hundredSeconds(3000)).group("a", 1, partOf).group("b", 1, partOf).
		group("c", 1, partOf))
	before := len(r.dispatches)
	r.flood(2000, 1, 1, "a")
	r.pass(40 * time.Second)
	if got := len(r.dispatches) - before; got != 900 {
		t.Errorf("a has %d, want (1,000 + 2·400) / 2", got)
	}
	a := 0
	for s := 41; s < 100; s++ {
		a += r.goesOut(time.Second)["a"]
		before := len(r.dispatches)
		r.flood(5, 1, 1, "b")
		if got := len(r.dispatches) - before; got != 5 {
			t.Fatalf("second %d: %d of b's 5 go at once", s, got)
		}
	}
	// In the 59 s since then 590 have accrued to c, and 10 to b in the first of them, when it had
	// not come back: a has them all. What accrues to b while it asks for it is its own.
	if a != 300 {
		t.Errorf("a goes on with %d, want (590 + 10) / 2", a)
	}
	if n, _ := r.Ledger().Node(r.now, "pool"); n.Budgets[0].Reserved > 3000 {
		t.Errorf("%d set aside of 3,000", n.Budgets[0].Reserved)
	}
}

// TestQuotaOwnerHearsOfALoanGivenBack: at noon 500 of b's 1,000 tokens of the day have accrued, and c
// has borrowed 499 of them. b, which borrows nothing itself, has set aside 491, and its next task of
// 100 waits for more than the 10 that are left of its own. When c's agent refuses the task, what was
// lent is b's again, though c never was on its way: the task goes.
func TestQuotaOwnerHearsOfALoanGivenBack(t *testing.T) {
	never := func(n *coordinator.QuotaNode) { daily(1000)(n); n.Borrowing.Rule = coordinator.BorrowNever }
	r := ready(t, patient(policyOf(worker("x").slots(100)).quotas(quotasOf().pool(daily(2000)).group("b", 1, never).
		group("c", 1, daily(1000)))))
	r.assign(job("c0").of("c").tokens(1400, 99))
	r.assign(job("b0").of("b").tokens(490, 1))
	want(t, r.assign(job("b1").of("b").tokens(90, 10)))
	r.tell(says("x", "c0").but(coordinator.OutcomeRejected))
	if got := r.latest().Task.ID; got != "b1" {
		t.Errorf("what c gives back goes to %s", got)
	}
}

// TestQuotaSeatsStory is Kueue's third story of hierarchical fair sharing (algorithms.md 1.5), with
// tasks: 300 seats by halves, one of which is divided 1:1:3. x1 alone has all 300. Then everybody
// wants all, and every seat that comes free goes to a group below its part: 150, 30, 30 and 90.
func TestQuotaSeatsStory(t *testing.T) {
	r := lendingRig(t, quotasOf().pool(seats(300)).group("x", 1, partOfSeats).group("y", 1, partOfSeats).
		in("x", "x1", 1, partOfSeats).in("x", "x2", 1, partOfSeats).in("x", "x3", 3, partOfSeats))
	r.flood(700, 1, 1, "x1")
	if len(r.dispatches) != 300 {
		t.Fatalf("alone it has %d of 300", len(r.dispatches))
	}
	r.flood(400, 1, 1, "y", "x2", "x3")
	running := map[string]int{"x1": 300}
	for i := range 300 { // always the oldest ends, all of them x1's
		d := r.dispatches[i]
		r.tell(says("x", d.Task.ID))
		if len(r.dispatches) != 301+i {
			t.Fatalf("%d go for one that ends", len(r.dispatches)-300-i)
		}
		running[d.Task.Group]--
		running[r.latest().Task.Group]++
		// After 270 what is left of x1's is its own part, and what ends from then on is its again.
		if want := map[string]int{"y": 150, "x1": 30, "x2": 30, "x3": 90}; i >= 269 && !maps.Equal(running, want) {
			t.Fatalf("after %d: %v, want %v", i+1, running, want)
		}
	}
}

// TestQuotaLoneTenant: a group that is alone has 99 % and more of the whole pool, whatever its own
// part is, and wherever in the tree it is: of a rate, of a budget by the end of its period, and of
// seats.
func TestQuotaLoneTenant(t *testing.T) {
	type part = func(*coordinator.QuotaNode)
	for name, tree := range map[string]func(whole, part part) *quotaTree{
		"one of four": func(whole, part part) *quotaTree {
			return quotasOf().pool(whole).group("lone", 1, part).group("b", 1, part).group("c", 1, part).group("d", 1, part)
		},
		"of weight 0": func(whole, part part) *quotaTree {
			return quotasOf().pool(whole).group("lone", 0, part).group("b", 1, part).group("c", 1, part)
		},
		"in a group in a group": func(whole, part part) *quotaTree {
			return quotasOf().pool(whole).group("x", 1, part).group("y", 2, part).in("x", "z", 1, part).in("x", "b", 1, part).
				in("z", "lone", 1, part).in("z", "c", 3, part)
		},
		"whose agent has a part": func(whole, part part) *quotaTree {
			return quotasOf().pool(whole).group("lone", 1, part).group("b", 1, part).agent("x", "lone", part).
				agent("other", "lone", part)
		},
	} {
		t.Run(name, func(t *testing.T) {
			// 100 a second for a minute: 6,000, and the burst.
			r := lendingRig(t, tree(requests(100, 10), partOfRequests(0)))
			r.flood(7000, 1, 1, "lone")
			if n := r.goesOut(time.Minute); n["lone"] < 5940 || n["lone"] > 6010 {
				t.Errorf("of 6,000 calls it has %d", n["lone"])
			}
			// 10,000 tokens for 100 s, by tasks of 10: all but what accrues in the last hundredth.
			r = lendingRig(t, tree(hundredSeconds(10_000), partOf))
			before := len(r.dispatches)
			r.flood(1200, 5, 5, "lone")
			r.pass(99900 * time.Millisecond)
			if n := len(r.dispatches) - before; n < 990 || n > 1000 {
				t.Errorf("of 1,000 tasks' tokens it has %d", n)
			}
			r = lendingRig(t, tree(seats(100), partOfSeats))
			r.flood(200, 1, 1, "lone")
			if n := len(r.dispatches); n != 100 {
				t.Errorf("of 100 seats it has %d", n)
			}
		})
	}
}

// TestQuotaOfAGroupThatIsAllDivided: of the 1,000 tokens of a team its two subgroups have 500 each,
// by weight; there is nothing left for tasks of the team itself. They have what has accrued to the
// others and is not used: nothing at the beginning, 500 after half of the period. A group with an
// amount leaves the rest to the team: 400 of its own, from the first moment on.
func TestQuotaOfAGroupThatIsAllDivided(t *testing.T) {
	r := lendingRig(t, quotasOf().group("team", 1, hundredSeconds(1000)).in("team", "a", 1, partOf).
		in("team", "b", 1, partOf))
	r.flood(20, 50, 50, "team")
	if len(r.dispatches) != 0 {
		t.Errorf("%d go at once", len(r.dispatches))
	}
	if n := r.goesOut(50 * time.Second); n["team"] != 5 {
		t.Errorf("after 50 s %v have gone, want 500 tokens' worth", n)
	}
	r = lendingRig(t, quotasOf().group("team", 1, hundredSeconds(1000)).in("team", "a", 1, hundredSeconds(300)).
		in("team", "b", 1, hundredSeconds(300)))
	r.flood(20, 50, 50, "team")
	if len(r.dispatches) != 4 {
		t.Errorf("%d go at once, want 400 tokens' worth", len(r.dispatches))
	}
}

// TestQuotaNewWeightsActOnWhatWaits: of 10 calls a second and 10 seats a and b have half each, and
// tasks that wait for theirs. With new weights the next second is divided by these, 8 to 2, and so
// are the seats that come free.
func TestQuotaNewWeightsActOnWhatWaits(t *testing.T) {
	tree := func(whole, part func(*coordinator.QuotaNode), a int64) *quotaTree {
		return quotasOf().pool(whole).group("a", a, part).group("b", 1, part)
	}
	r := lendingRig(t, tree(requests(10, 10), partOfRequests(0), 1))
	r.flood(500, 1, 1, "a", "b")
	r.goesOut(2 * time.Second)
	if n := r.goesOut(10 * time.Second); n["a"] != 50 || n["b"] != 50 {
		t.Errorf("by 1:1 %v", n)
	}
	r.reload(tree(requests(10, 10), partOfRequests(0), 4))
	if n := r.goesOut(10 * time.Second); n["a"] < 79 || n["a"] > 81 || n["b"] < 19 || n["b"] > 21 {
		t.Errorf("by 4:1 %v, want 80 and 20", n)
	}

	r = lendingRig(t, tree(seats(10), partOfSeats, 1))
	r.flood(50, 1, 1, "a", "b")
	running := map[string]int{}
	for _, d := range r.dispatches {
		running[d.Task.Group]++
	}
	if running["a"] != 5 || running["b"] != 5 {
		t.Errorf("by 1:1 %v", running)
	}
	r.reload(tree(seats(10), partOfSeats, 4))
	for i := range 10 {
		running[r.dispatches[i].Task.Group]--
		r.tell(says("x", r.dispatches[i].Task.ID))
		running[r.latest().Task.Group]++
	}
	if running["a"] != 8 || running["b"] != 2 {
		t.Errorf("by 4:1 %v", running)
	}
}
