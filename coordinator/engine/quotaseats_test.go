package engine_test

import (
	"fmt"
	"slices"
	"testing"

	"taskbus/coordinator"
	"taskbus/coordinator/fairshare"
)

// Twenty groups share 40 seats and all want more. A seat that comes back is kept for the group that
// has one less than its part, and those that have theirs are not asked about it, each time and in
// turn: that was 9 refusals for each seat, and is 2.2.
func TestQuotaSeatsAskTheirOwn(t *testing.T) {
	const groups, running, told = 20, 40, 200
	q := quotasOf().pool(seats(running))
	for i := range groups {
		q.group(fmt.Sprint("g", i), 1, seats(coordinator.ByWeight))
	}
	r := lendingRig(t, q)
	for i := range running + told {
		r.assign(job(coordinator.TaskID(fmt.Sprint("t", i))).of(fmt.Sprint("g", i%groups)))
	}
	refusals := func() int64 { return r.Refusals(fairshare.LimitSeats, coordinator.DimConcurrency) }
	before, has := refusals(), make(map[string]int)
	var now []coordinator.TaskID // with the agent
	for seen, i := 0, 0; i < told; i++ {
		for ; seen < len(r.dispatches); seen++ {
			now = append(now, r.dispatches[seen].Task.ID)
		}
		k := i * 17 % len(now)
		r.tell(says("x", now[k]))
		now = slices.Delete(now, k, k+1)
	}
	for _, d := range r.dispatches {
		has[d.Task.Group]++
	}
	if n := float64(refusals()-before) / told; n > 3 {
		t.Errorf("%.1f refusals for each seat that came back, want no more than 3", n)
	}
	for g, n := range has {
		if n != (running+told)/groups {
			t.Errorf("%s had %d of its 12 tasks dispatched", g, n)
		}
	}
}

// A group that was passed over for the sake of one below its part has its turn when that has its seat and
// wants no more. One seat: it is b's by its part, a and z borrow it by turns.
func TestQuotaSeatsAfterTheirOwn(t *testing.T) {
	r := lendingRig(t, quotasOf().pool(seats(1)).group("a", 1, seats(0)).group("b", 1, seats(1)).group("z", 1, seats(0)))
	want(t, keepDispatches(r.assign(job("z1").of("z"))), "dispatch z1.1 x")
	for _, id := range []coordinator.TaskID{"a1", "z2", "z3", "b1"} {
		want(t, keepDispatches(r.assign(job(id).of(string(id[:1])))))
	}
	want(t, keepDispatches(r.tell(says("x", "z1"))), "dispatch b1.1 x")
	want(t, keepDispatches(r.tell(says("x", "b1"))), "dispatch a1.1 x") // z had one
}

// None is passed over for the sake of one that has no agent: all seats are b's by its part, and its
// agent can have one task.
func TestQuotaSeatsForThoseWithAgents(t *testing.T) {
	r := ready(t, patient(policyOf(worker("x").can("x").slots(1), worker("y").can("y").slots(9)).
		quotas(quotasOf().pool(seats(4)).group("a", 1, seats(0)).group("b", 1, seats(4)).group("c", 1, seats(0)))))
	for _, id := range []coordinator.TaskID{"c1", "c2", "c3", "c4"} {
		want(t, keepDispatches(r.assign(job(id).needs("y").of("c"))), "dispatch "+string(id)+".1 y")
	}
	want(t, keepDispatches(r.assign(job("a1").needs("y").of("a"))))
	want(t, keepDispatches(r.assign(job("a2").needs("y").of("a"))))
	want(t, keepDispatches(r.assign(job("b1").needs("x").of("b"))))
	want(t, keepDispatches(r.assign(job("b2").needs("x").of("b"))))
	want(t, keepDispatches(r.tell(says("y", "c1"))), "dispatch b1.1 x") // which takes x's only slot
	want(t, keepDispatches(r.tell(says("y", "c2"))), "dispatch a1.1 y")
	want(t, keepDispatches(r.tell(says("y", "c3"))), "dispatch a2.1 y")
}
