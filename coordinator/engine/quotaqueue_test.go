package engine_test

import (
	"fmt"
	"testing"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/engine"
)

// A seat that was kept for a task that then turns out to lack something else is given to what
// was refused because of that. b2 is tried first (its turn), and a1 after it lacks tokens, too.
func TestQuotaKeptSeatIsGivenOn(t *testing.T) {
	both := func(n *coordinator.QuotaNode) { seats(2)(n); daily(100)(n) }
	q := quotasOf().pool(seats(3)).group("a", 1, both).group("b", 1, seats(1))
	r := ready(t, patient(policyOf(worker("x").can("x").slots(10), worker("y").can("y").slots(50)).quotas(q)))
	r.assign(job("a0").needs("x").of("a").tokens(80, 10))
	for i := range 6 {
		r.assign(job(coordinator.TaskID(fmt.Sprint("b", i))).needs("y").of("b").tokens(1, 1))
	}
	r.assign(job("a1").needs("x").of("a").tokens(80, 10)) // lacks a seat, and 80 tokens until midnight
	r.tell(says("y", "b0").used(1, 1))
	r.pass(time.Minute)
	if r.latest().Task.ID != "b2" {
		t.Errorf("a seat is idle, and b2 waits for one: kept %v, although it is affordable: %v", r.KeptFrom(r.open("b2")),
			r.Affordable(r.now, r.open("b2"), "y"))
	}
}

// The same in a nested tree, when what it was kept for is cancelled: it waits behind the pool,
// the others behind the department.
func TestQuotaKeptSeatOfADepartment(t *testing.T) {
	q := quotasOf().pool(seats(3)).group("d", 1, seats(2)).in("d", "a", 1, seats(1)).in("d", "b", 1, seats(1)).
		group("o", 1, seats(1))
	r := ready(t, patient(policyOf(worker("x").can("x").slots(1), worker("y").can("y").slots(50)).quotas(q)))
	for i := range 5 {
		r.assign(job(coordinator.TaskID(fmt.Sprint("b", i))).needs("y").of("b"))
	}
	r.assign(job("a0").needs("x").of("a"))
	r.hear(beat("x").status(coordinator.StatusOffline))
	r.tell(says("y", "b0")) // kept for a0
	r.withdraw("a0")
	r.pass(time.Minute)
	if r.latest().Task.ID != "b3" {
		t.Errorf("a seat is idle; b3 waits for one, affordable: %v", r.Affordable(r.now, r.open("b3"), "y"))
	}
}

// A seat is not kept for a group none of whose agents could take its task.
func TestQuotaSeatIsKeptForNobody(t *testing.T) {
	q := quotasOf().pool(seats(3)).group("a", 1, seats(2)).group("b", 1, seats(1))
	r := ready(t, patient(policyOf(worker("x").can("x").slots(1), worker("y").can("y").slots(50)).quotas(q)))
	for i := range 10 {
		r.assign(job(coordinator.TaskID(fmt.Sprint("b", i))).needs("y").of("b"))
	}
	want(t, r.assign(job("a0").needs("x").of("a")))
	r.hear(beat("x").status(coordinator.StatusOffline))
	want(t, r.tell(says("y", "b0")), "completed b0.1 y succeeded", "dispatch b3.1 y")
}

// A low priority has its 1 of 65 of a rate and of seats, too: of 200 calls 3, the 33rd, the 98th and the 163rd.
func TestQuotaLowPriorityHasItsShareOfWhatComesBack(t *testing.T) {
	for name, c := range map[string]struct {
		pool, part func(*coordinator.QuotaNode)
		needs      [2]string
	}{
		"rate, divided":                       {requests(1, 1), partOfRequests(0), [2]string{"x", "x"}},
		"rate, divided, two classes":          {requests(1, 1), partOfRequests(0), [2]string{"x", "y"}},
		"rate of the pool alone, two classes": {requests(1, 1), nil, [2]string{"x", "y"}},
		"seats of the pool, two classes":      {seats(1), nil, [2]string{"x", "y"}},
	} {
		t.Run(name, func(t *testing.T) {
			q := quotasOf().pool(c.pool).group("h", 1, c.part).group("l", 1, c.part)
			r := ready(t, patient(policyOf(worker("x").can("x").slots(1000), worker("y").can("y").slots(1000)).quotas(q)))
			for i := range 300 {
				r.assign(job(coordinator.TaskID(fmt.Sprint("h", i))).of("h").needs(c.needs[0]).prio(coordinator.PriorityCritical))
				r.assign(job(coordinator.TaskID(fmt.Sprint("l", i))).of("l").needs(c.needs[1]).prio(coordinator.PriorityLow))
			}
			n := make(map[string]int)
			for range 200 {
				d := r.latest()
				dispatchedOf(n, r.tell(says(d.Agent, d.Task.ID)))
				dispatchedOf(n, r.pass(time.Second))
			}
			if n["l"] < 3 {
				t.Errorf("of 200 calls %v", n)
			}
		})
	}
}

// A higher priority that needs less goes although its group waits for quota (as in
// TestQuotaLackParksTheGroupAlone), also if no agent was ready when it came.
func TestQuotaOvertakingItsGroup(t *testing.T) {
	q := quotasOf().group("poor", 1, daily(104)).group("rich", 1, daily(1e6))
	r := ready(t, patient(policyOf(worker("a").slots(2)).quotas(q)))
	r.assign(job("p1").of("poor").tokens(90, 10))
	r.assign(job("p2").of("poor").tokens(90, 10)) // 4 are left: it waits until midnight
	r.assign(job("r1").of("rich").tokens(90, 10)) // both slots are taken
	r.assign(job("p3").of("poor").prio(coordinator.PriorityCritical).tokens(1, 1))
	want(t, r.tell(says("a", "r1").used(90, 10)), "completed r1.1 a succeeded", "dispatch p3.1 a")
}

// The same of a class that waits as a whole: c is of another group than the one that waits.
func TestQuotaOvertakingAnotherGroup(t *testing.T) {
	q := quotasOf().pool(daily(104)).group("a", 1, nil).group("b", 1, nil)
	r := ready(t, patient(policyOf(worker("x").slots(3)).quotas(q)))
	r.assign(job("a1").of("a").tokens(90, 10))
	r.assign(job("a2").of("a").tokens(90, 10)) // 4 are left: it waits until midnight
	r.hear(beat("x").status(coordinator.StatusOffline))
	r.assign(job("c").of("b").prio(coordinator.PriorityCritical).tokens(1, 1))
	if r.hear(beat("x")); r.latest().Task.ID != "c" {
		t.Error("c waits until midnight")
	}
}

// One task for which a pool's budget has not enough keeps none from what is left.
func TestQuotaLargeTaskLeavesWhatIsLeft(t *testing.T) {
	q := quotasOf().pool(daily(1000)).group("a", 1, nil).group("hog", 1, nil).group("b", 1, nil)
	r := ready(t, patient(policyOf(worker("x").slots(10)).quotas(q)))
	r.assign(job("a1").of("a").tokens(400, 100))
	want(t, r.assign(job("hog").of("hog").tokens(500, 100))) // 500 are left
	want(t, r.assign(job("b1").of("b").tokens(5, 5)), "dispatch b1.1 x")
}

// Small tasks that come one by one do not keep a large one from a rate for ever: 30 of 100
// tokens are left, 10 come in a second, so it could go after 7 s.
func TestQuotaSmallArrivalsWaitBehindALargeOne(t *testing.T) {
	tokens := func(n *coordinator.QuotaNode) {
		n.Rates[coordinator.DimTotalTokens] = &coordinator.QuotaLimit{Nominal: 10, Per: time.Second, Burst: 100}
	}
	q := quotasOf().pool(tokens).group("a", 1, nil).group("b", 1, nil)
	r := ready(t, patient(policyOf(worker("x").can("x").slots(10), worker("y").can("y").slots(10)).quotas(q)))
	r.assign(job("b0").needs("y").of("b").tokens(50, 20))
	r.tell(says("y", "b0").used(50, 20))
	want(t, r.assign(job("a0").needs("x").of("a").tokens(80, 20)))
	n := make(map[string]int)
	for i := range 3600 {
		dispatchedOf(n, r.pass(time.Second))
		id := coordinator.TaskID(fmt.Sprint("b", i+1))
		dispatchedOf(n, r.assign(job(id).needs("y").of("b").tokens(5, 5)))
		r.tell(says("y", id).used(5, 5))
	}
	if n["a"] == 0 {
		t.Errorf("in an hour %v", n)
	}
}

// A call that may not borrow does not keep those of its group from borrowing that may.
func TestQuotaWhoMayNotBorrowKeepsNobody(t *testing.T) {
	q := quotasOf().pool(daily(2000)).group("a", 1, daily(1000)).group("b", 1, daily(1000))
	r := ready(t, patient(policyOf(worker("x").slots(100)).quotas(q)))
	r.assign(job("a0").of("a").tokens(990, 10))
	own := job("a1").of("a").tokens(90, 10)
	own.NoBorrowing = true
	want(t, r.assign(own))
	r.assign(job("a2").of("a").tokens(90, 10)) // may borrow of b's 500
	if r.latest().Task.ID != "a2" {
		t.Error("a2 waits until midnight")
	}
}

// TestQuotaRefusalsOfOneEvent: no event tries more than admission.MaxRefused each time that it serves: at its
// begin, when an agent wakes, and at its end.
func TestQuotaRefusalsOfOneEvent(t *testing.T) {
	r := borrowersRig(t, 1000)
	r.assign(job("z0").of("z").tokens(1, 1))
	before := r.refusals()
	r.tell(says("x", "z0").used(1, 0))
	if n := r.refusals() - before; n > 3*engine.MostRefused {
		t.Errorf("%d refusals in one event", n)
	}
}
