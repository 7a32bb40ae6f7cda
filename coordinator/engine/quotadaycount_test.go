package engine_test

import (
	"math"
	"testing"
	"time"

	"taskbus/coordinator"
)

// A task that names no group takes the quota of its agent's group, and counts on the day for the same
// nodes: else an agent that works for no group would pass for idle, and lose its weight.
func TestDaysCountTasksOfNoGroup(t *testing.T) {
	r := ruledRig(t)
	r.until(midnightAfter(r.now).Add(time.Second))
	r.works("a", "", 750, time.Second) // all that is a's own
	for _, node := range []string{"pool/x/a", "pool/x"} {
		if used := r.DayUse()[node]; used.Used[coordinator.DimTotalTokens] != 750 {
			t.Errorf("%s has used %+v on this day, want 750 tokens", node, used)
		}
		if v, _ := r.Ledger().Node(r.now, node); v.Budgets[0].Used != 750 {
			t.Errorf("the books of %s say %d", node, v.Budgets[0].Used)
		}
	}
}

// While no rule is in force nothing is counted. A leader that takes over and finds rules again must not take the
// day for a whole one of which the leader before has counted a part: b, which has worked all the time but
// for the first hour, would pass for idle.
func TestDaysThatWereNotCountedToTheirEnd(t *testing.T) {
	r := ruledRig(t)
	r.until(midnightAfter(r.now).Add(time.Hour))
	off := ruled()
	off.Adjustment = coordinator.Adjustment{}
	r.reload(off)
	r.pass(5 * time.Hour)
	p := *r.Policy() // the next leader finds the rules in its file again
	p.Quotas = &ruled().Quotas
	r.SetPolicy(&p)
	for how, heir := range heirs(r.rig) {
		heir.apply(coordinator.Tick{})
		if !heir.DayStart().Equal(r.now) {
			t.Errorf("%s: the heir goes on with a day that began at %v, want %v", how, heir.DayStart(), r.now)
		}
	}
}

// What agents tell may be as much as their messages can say: 1,000,000,000,000,000 dollars, in
// 1,000,000,000,000 ms, ten times a day. More than the numbers of a day can hold is as much as they can.
func TestDaysHoldWhateverIsTold(t *testing.T) {
	r := ruledRig(t)
	for range 10 {
		r.works("a", "y", 1e15, 1e12*time.Millisecond)
	}
	u := r.DayUse()["pool/y"]
	if u.Answers != 10 || u.Took != math.MaxInt64 { // 10 · 10¹⁸ ns are more than 2⁶³
		t.Errorf("%+v, want %v", u, time.Duration(math.MaxInt64))
	}
	for d, n := range u.Used {
		if n < 0 {
			t.Errorf("%d %s were used", n, coordinator.Dimension(d))
		}
	}
}
