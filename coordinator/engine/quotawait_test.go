package engine_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"taskbus/coordinator"
)

// seats is how much may run at one time.
func seats(n int64) func(*coordinator.QuotaNode) {
	return func(q *coordinator.QuotaNode) { q.Seats = &coordinator.QuotaLimit{Nominal: n} }
}

// partOfRequests is a group's part, by weight, of its pool's calls for each second.
func partOfRequests(priority int) func(*coordinator.QuotaNode) {
	return func(n *coordinator.QuotaNode) {
		n.Rates[coordinator.DimRequests] = &coordinator.QuotaLimit{Nominal: coordinator.ByWeight, Per: time.Second}
		n.Borrowing.Priority = priority
	}
}

func (q *quotaTree) pool(change func(*coordinator.QuotaNode)) *quotaTree {
	change(&q.Nodes[0])
	return q
}

// patient lets tasks wait for a day.
func patient(b *policyBuilder) *policyBuilder {
	return b.set(func(s *coordinator.Settings) {
		s.AssignmentTimeout, s.StaleAfter, s.MaxQueueSize, s.DedupeMaxIDs = 24*time.Hour, 1000*time.Hour, 100_000, 1_000_000
	})
}

// dispatchedOf counts the dispatches among effects by the first letter of the task's id.
func dispatchedOf(n map[string]int, effects []string) {
	for _, line := range effects {
		if id, is := strings.CutPrefix(line, "dispatch "); is {
			n[id[:1]]++
		}
	}
}

// Groups whose tasks need different agents share a seat, or a rate, by turns.
func TestQuotaTurnsAcrossClasses(t *testing.T) {
	two := []*specBuilder{worker("x").can("x").slots(2), worker("y").can("y").slots(2)}
	for _, part := range []func(*coordinator.QuotaNode){nil, seats(1)} {
		r := ready(t, patient(policyOf(two...).quotas(quotasOf().pool(seats(2)).group("a", 1, part).group("b", 1, part))))
		for i := range 30 {
			r.assign(job(coordinator.TaskID(fmt.Sprint("a", i))).needs("x").of("a"))
		}
		r.assign(job("b0").needs("y").of("b"))
		// a has had both seats, b none: the first that comes free is b's.
		want(t, r.tell(says("x", "a0")), "completed a0.1 x succeeded", "dispatch b0.1 y")
	}
	for _, part := range []func(*coordinator.QuotaNode){nil, partOfRequests(0)} {
		r := ready(t, patient(policyOf(worker("x").can("x").slots(100), worker("y").can("y").slots(100)).
			quotas(quotasOf().pool(requests(1, 1)).group("a", 1, part).group("b", 1, part))))
		for i := range 60 {
			r.assign(job(coordinator.TaskID(fmt.Sprint("a", i))).needs("x").of("a"))
			r.assign(job(coordinator.TaskID(fmt.Sprint("b", i))).needs("y").of("b"))
		}
		n := make(map[string]int)
		for range 40 {
			dispatchedOf(n, r.pass(time.Second))
		}
		if n["a"] != 20 || n["b"] != 20 { // 1 in a second, of which each has half
			t.Errorf("in 40 s %v", n)
		}
	}
}

// A group below its part of the seats gets those that come free, one after another, whichever
// agents its tasks need: b has borrowed all 10 when a comes back, whose part is 8. What comes
// free after that is b's again, which is at its part of 2.
func TestQuotaSeatsComeBackByAttrition(t *testing.T) {
	for _, needs := range [][2]string{{"x", "x"}, {"x", "y"}} {
		r := ready(t, patient(policyOf(worker("x").can("x").slots(50), worker("y").can("y").slots(50)).
			quotas(quotasOf().pool(seats(10)).group("a", 1, seats(8)).group("b", 1, seats(2)))))
		for k, g := range []string{"b", "a"} {
			for i := range 40 {
				r.assign(job(coordinator.TaskID(fmt.Sprint(g, i))).needs(needs[k]).of(g))
			}
		}
		got := ""
		for i := range 12 {
			r.tell(says(coordinator.AgentID(needs[0]), coordinator.TaskID(fmt.Sprint("b", i))))
			got += r.latest().Task.Group
		}
		if got != "aaaaaaaabbbb" {
			t.Errorf("needs %v: seats that come free go to %s", needs, got)
		}
	}
}

// A seat that comes free goes to a group that waits for one, however many wait for what does not come
// back so soon.
func TestQuotaFreeSeatIsNotIdle(t *testing.T) {
	q := quotasOf().pool(seats(1))
	for i := range 200 {
		q.group(fmt.Sprint("g", i), 1, daily(1000))
	}
	r := ready(t, patient(policyOf(worker("x").slots(100)).quotas(q.group("h", 1, nil).group("v", 1, nil))))
	for i := range 200 {
		g := fmt.Sprint("g", i)
		r.assign(job(coordinator.TaskID(g+"-0")).of(g).tokens(999, 1))
		r.tell(says("x", coordinator.TaskID(g+"-0")).used(999, 1))
		r.assign(job(coordinator.TaskID(g+"-1")).of(g).tokens(999, 1))
	}
	want(t, r.assign(job("h0").of("h").tokens(1, 1)), "dispatch h0.1 x")
	want(t, r.assign(job("v0").of("v").tokens(1, 1)))
	want(t, r.tell(says("x", "h0").used(1, 1)), "completed h0.1 x succeeded", "dispatch v0.1 x")
}

// Of those that wait for something to borrow the higher priority has it.
func TestQuotaBorrowingPriority(t *testing.T) {
	q := quotasOf().pool(requests(1, 1)).group("a", 1, partOfRequests(0)).group("b", 1, partOfRequests(10)).
		group("idle", 8, partOfRequests(0))
	r := ready(t, patient(policyOf(worker("x").slots(100)).quotas(q)))
	for i := range 60 {
		r.assign(job(coordinator.TaskID(fmt.Sprint("a", i))).of("a"))
		r.assign(job(coordinator.TaskID(fmt.Sprint("b", i))).of("b"))
	}
	n := make(map[string]int)
	for range 40 {
		dispatchedOf(n, r.pass(time.Second))
	}
	if n["a"] != 0 || n["b"] != 40 { // all that idle leaves
		t.Errorf("in 40 s %v", n)
	}
}

// Of those that wait for something to borrow the lender has it before the borrower, whichever
// turn it is. At noon half of the 10 calls of each of the day have accrued: c is using its 5, so
// that a has borrowed 5 of b, and b, which is left 5 of its own, now waits for c to give some back.
// By weight it would be a's turn: 15/100 against 5/1.
func TestQuotaCreditsRankBorrowers(t *testing.T) {
	ten := func(n *coordinator.QuotaNode) {
		n.Budgets[coordinator.DimRequests] = &coordinator.QuotaLimit{Nominal: 10,
			Period: coordinator.Period{Unit: coordinator.PerDay}}
	}
	thirty := func(n *coordinator.QuotaNode) { ten(n); n.Budgets[coordinator.DimRequests].Nominal = 30 }
	q := quotasOf().pool(thirty).group("a", 100, ten).group("b", 1, ten).group("c", 1, ten)
	r := ready(t, patient(policyOf(worker("x").slots(100)).quotas(q)))
	n := make(map[string]int)
	for _, g := range []struct {
		name  string
		tasks int
	}{{"c", 5}, {"a", 18}, {"b", 8}} {
		for i := range g.tasks {
			dispatchedOf(n, r.assign(job(coordinator.TaskID(fmt.Sprint(g.name, i))).of(g.name)))
		}
	}
	if n["a"] != 15 || n["b"] != 5 || n["c"] != 5 {
		t.Fatalf("dispatched %v", n)
	}
	for i, want := range []string{"b5", "b6", "b7", "a15"} { // c gives back, one after another
		r.tell(says("x", coordinator.TaskID(fmt.Sprint("c", i))).but(coordinator.OutcomeRejected))
		if got := r.latest().Task.ID; got != coordinator.TaskID(want) {
			t.Errorf("what c gives back goes to %s, not to %s", got, want)
		}
	}
}

// herdRig has so many groups that wait for a pool's 100 calls in a second, divided among them.
func herdRig(t testing.TB, groups, each int) *rig {
	q := quotasOf().pool(requests(100, 1))
	for i := range groups {
		q.group(fmt.Sprint("g", i), 1, partOfRequests(0))
	}
	r := ready(t, patient(policyOf(worker("x").slots(1_000_000)).quotas(q)))
	for k := range each {
		for i := range groups {
			r.assign(job(coordinator.TaskID(fmt.Sprint("t", i, "-", k))).of(fmt.Sprint("g", i)))
		}
	}
	return r
}

// refusals counts all.
func (r *rig) refusals() uint64 { return r.AllRefusals() }

// However many wait for a rate, a token costs no more than three refusals besides the one that
// has it: of its next task, and of the one that is tried then, behind which the others wait.
func TestQuotaTokenDoesNotWakeTheHerd(t *testing.T) {
	r := herdRig(t, 500, 2)
	before, n := r.refusals(), make(map[string]int)
	for range 100 {
		dispatchedOf(n, r.pass(10*time.Millisecond))
	}
	if tries := r.refusals() - before; n["t"] < 99 || tries > 3*uint64(n["t"]) {
		t.Errorf("%d dispatches, and %d refusals", n["t"], tries)
	}
}

// Arrivals behind a group that has used up its quota do not look at all of its agents.
func TestQuotaArrivalLooksAtNoAgents(t *testing.T) {
	q, all := quotasOf().group("team", 1, daily(1000)), []*specBuilder(nil)
	for i := range 300 {
		id := fmt.Sprintf("w%03d", i)
		all = append(all, worker(coordinator.AgentID(id)).slots(4))
		q.agent(id, "team", func(n *coordinator.QuotaNode) {
			n.Budgets[coordinator.DimTotalTokens] = &coordinator.QuotaLimit{Nominal: coordinator.ByWeight}
		})
	}
	r := ready(t, patient(policyOf(all...).quotas(q)))
	r.assign(job("first").of("team").tokens(999, 1))
	r.assign(job("second").of("team").tokens(999, 1)) // waits
	task := r.open("second")
	if got := testing.AllocsPerRun(100, func() { r.ExceedsQuota(r.now, task) }); got > 0 {
		t.Errorf("%v allocations", got) // each look at all of them makes a set of agents
	}
}

// BenchmarkQuotaHerd: a dispatch while 10,000 groups wait for a rate.
func BenchmarkQuotaHerd(b *testing.B) {
	for _, groups := range []int{100, 10_000} {
		b.Run(fmt.Sprint(groups), func(b *testing.B) {
			r := herdRig(b, groups, max(2, 2*10_000/groups))
			b.ResetTimer()
			for i := 0; i < b.N && i < 9_000; i++ {
				r.pass(10 * time.Millisecond)
			}
		})
	}
}
