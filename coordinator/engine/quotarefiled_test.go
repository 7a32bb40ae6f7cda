package engine_test

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"taskbus/coordinator"
)

// A task that waits for tokens behind one node may be refused first by one and then by another on its way
// to the root. It waits once all the time, and is served once.
func TestQuotaRefusedByAnotherNode(t *testing.T) {
	r := lendingRig(t, quotasOf().pool(hundredSeconds(1000)).group("a", 1, partOf).group("b", 1, partOf).
		group("c", 1, partOf))
	assign := func(id coordinator.TaskID) []string {
		return keepDispatches(r.assign(job(id).of(string(id[:1])).tokens(80, 20)))
	}
	tell := func(id coordinator.TaskID, in float64) []string {
		return keepDispatches(r.tell(says("x", id).used(in, 10)))
	}
	// a third each, and 100 are left
	for _, id := range []coordinator.TaskID{"a1", "a2", "a3", "b1", "b2", "b3", "c1", "c2", "c3"} {
		want(t, assign(id), "dispatch "+string(id)+".1 x")
	}
	want(t, assign("a4")) // 400 > 333, and nothing has accrued yet of which a could borrow
	want(t, assign("b4"))
	want(t, assign("c4"))
	want(t, tell("b1", 74))                    // b has used 84: 84 + 200 + 100 > 333
	want(t, tell("a1", 13), "dispatch a4.1 x") // 23 + 200 + 100; of the pool 1000 - 84 - 23 - 800 = 93 are left
	want(t, tell("c1", 38))                    // 48 + 200 + 100 > 333, though 145 are left
	want(t, tell("c2", 0), "dispatch c4.1 x")  // 58 + 100 + 100
	want(t, tell("b2", 0), "dispatch b4.1 x")  // 94 + 100 + 100
	r.used("pool", 84+23+48+2*10, 700)
}

// Whatever comes of few tokens for many, what waits is found where what it lacks comes back.
func TestQuotaTightBooks(t *testing.T) {
	groups := []string{"a", "b", "c"}
	rapid.Check(t, func(rt *rapid.T) {
		r := lendingRig(t, quotasOf().pool(hundredSeconds(1000)).group("a", 1, partOf).group("b", 2, partOf).
			group("c", 1, partOf))
		r.pass(time.Duration(rapid.IntRange(0, 99).Draw(rt, "s of the period")) * time.Second)
		told := 0
		for i := range rapid.IntRange(10, 60).Draw(rt, "steps") {
			if told < len(r.dispatches) && rapid.IntRange(0, 2).Draw(rt, "tells at 0") == 0 {
				id := r.dispatches[told].Task.ID
				told++
				r.tell(says("x", id).used(float64(rapid.IntRange(0, 90).Draw(rt, "used")), 10))
			} else {
				g := rapid.SampledFrom(groups).Draw(rt, "group")
				r.assign(job(coordinator.TaskID(fmt.Sprint(g, i))).of(g).tokens(80, 20))
			}
			if found := r.Audit(r.now); len(found) > 0 {
				rt.Fatalf("after step %d: %+v", i, found)
			}
		}
	})
}
