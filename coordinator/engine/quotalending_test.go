package engine

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
	r := ready(t, patient(policyOf(worker("x").slots(100_000)).quotas(q)).set(func(s *coordinator.Settings) { s.MaxQueueSize = 1_000_000 }))
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
	r := lendingRig(t, quotasOf().pool(hundredSeconds(3000)).group("a", 1, partOf).group("b", 1, partOf).group("c", 1, partOf))
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
	if n, _ := r.quotas.ledger.Node(r.now, "pool"); n.Budgets[0].Reserved > 3000 {
		t.Errorf("%d set aside of 3,000", n.Budgets[0].Reserved)
	}
}

// TestQuotaSeatsStory is Kueue's third story of hierarchical fair sharing (algorithms.md 1.5), with
// tasks: 300 seats by halves, one of which is divided 1:1:3. x1 alone has all 300. Then everybody
// wants all, and every seat that comes free goes to who is below its part: 150, 30, 30 and 90.
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
// part is: of a rate, of a budget by the end of its period, and of seats.
func TestQuotaLoneTenant(t *testing.T) {
	for name, lonely := range map[string]int64{"one of four": 1, "of weight 0": 0} {
		t.Run(name, func(t *testing.T) {
			tree := func(whole, part func(*coordinator.QuotaNode)) *quotaTree {
				return quotasOf().pool(whole).group("lone", lonely, part).group("b", 1, part).group("c", 1, part).group("d", 1, part)
			}
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
