package engine

import (
	"fmt"
	"slices"
	"testing"

	"taskbus/coordinator"
	"taskbus/coordinator/fairshare"
)

// Twenty groups share 40 seats and all want more. A seat that comes back is kept for the group that
// has one less than its part, and those who have theirs are not asked about it, each time and in
// turn: that was 9 refusals for each seat, and is 2.2.
func TestQuotaSeatsAskTheirOwn(t *testing.T) {
	const groups, running, told = 20, 40, 200
	q := quotasOf().pool(seats(running))
	for i := range groups {
		q.group(fmt.Sprint("g", i), 1, func(n *coordinator.QuotaNode) { n.Seats = &coordinator.QuotaLimit{Nominal: coordinator.ByWeight} })
	}
	r := lendingRig(t, q)
	for i := range running + told {
		r.assign(job(coordinator.TaskID(fmt.Sprint("t", i))).of(fmt.Sprint("g", i%groups)))
	}
	refusals := func() int64 { return int64(r.quotas.flow.refused[fairshare.LimitSeats][coordinator.DimConcurrency]) }
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
