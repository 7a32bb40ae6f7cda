package engine_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"taskbus/coordinator"
)

// What a reload adds is given by turns, whichever has waited longest and whichever agents it takes: of
// 18 more seats a and b have 9 each, though all of a's tasks are older. (What a had before b began to
// wait is not made up for.)
func TestQuotaReloadGoesByTurns(t *testing.T) {
	for _, needs := range [][2]string{{"x", "x"}, {"x", "y"}} {
		r := ready(t, patient(policyOf(worker("x").can("x").slots(100), worker("y").can("y").slots(100)).
			quotas(quotasOf().pool(seats(2)).group("a", 1, nil).group("b", 1, nil))))
		for k, g := range []string{"a", "b"} {
			for i := range 40 {
				r.assign(job(coordinator.TaskID(fmt.Sprint(g, i))).of(g).needs(needs[k]))
			}
			r.pass(time.Second)
		}
		n := make(map[string]int)
		dispatchedOf(n, r.reload(quotasOf().pool(seats(20)).group("a", 1, nil).group("b", 1, nil)))
		if n["a"] != 9 || n["b"] != 9 {
			t.Errorf("needs %v: of 18 more seats %v", needs, n)
		}
	}
}

// What is offered before it is given goes by turns, too, though its class is another: the seat that a
// reload adds is b's to be offered, however many of a's have waited longer for one.
func TestQuotaReloadOffersByTurns(t *testing.T) {
	tree := func(n int64) *quotaTree { return quotasOf().pool(seats(n)).group("a", 1, nil).group("b", 1, nil) }
	r := ready(t, patient(policyOf(worker("x").slots(100)).quotas(tree(2)).market(everybody)))
	for i := range 4 {
		r.assign(job(coordinator.TaskID(fmt.Sprint("a", i))).of("a").by("least_loaded"))
	}
	r.pass(time.Second)
	r.assign(job("b0").of("b"))
	want(t, r.reload(tree(3)), "offer b0.1 x", "dispatch a2.1 x")
}

// A reload under which fewer may wait serves what it can before it counts them: of 8 that wait 3 go
// to the seats that it adds, 3 may wait, and the last 2 fail.
func TestQuotaReloadServesBeforeItCounts(t *testing.T) {
	r := ready(t, patient(policyOf(worker("x").slots(100)).quotas(quotasOf().pool(seats(2)))))
	r.flood(10, 1, 1, "a")
	p := patient(policyOf(worker("x").slots(100)).quotas(quotasOf().pool(seats(5)))).
		set(func(s *coordinator.Settings) { s.MaxQueueSize = 3 })
	got := r.apply(coordinator.PolicyChanged{Policy: &p.Policy})
	for i, line := range got {
		got[i], _, _ = strings.Cut(line, " ")
	}
	if !slices.Equal(got, []string{"dispatch", "dispatch", "dispatch", "fail", "fail"}) || r.Backlog() != 3 {
		t.Errorf("%v, and %d wait", got, r.Backlog())
	}
	if last := r.failures[len(r.failures)-1].Failure.Reason; last != coordinator.ReasonBacklogFull {
		t.Errorf("they fail for %v", last)
	}
}

// What a reload makes impossible fails, though others of its class go before it.
func TestQuotaReloadFailsTheImpossible(t *testing.T) {
	r := ready(t, patient(policyOf(worker("x").slots(100)).quotas(quotasOf().group("a", 1, daily(100)))))
	r.assign(job("a0").of("a").tokens(40, 10))
	r.assign(job("a1").of("a").tokens(41, 10)) // 50 are left
	r.assign(job("a2").of("a").tokens(81, 10))
	want(t, r.reload(quotasOf().group("a", 1, daily(90))), "fail a2 exceeds_quota")
	if r.reload(quotasOf().group("a", 1, daily(101))); r.latest().Task.ID != "a1" { // 50 + 51
		t.Error("a1 waits")
	}
}
