package engine_test

import (
	"fmt"
	"testing"
	"time"

	"taskbus/coordinator"
)

// idleGroups are so many groups with a rate of their own, whose quota is back, and whose only agent
// is offline.
func idleGroups(t testing.TB, groups int) *rig {
	q := quotasOf()
	for i := range groups {
		q.group(fmt.Sprint("g", i), 1, requests(1, 1))
	}
	r := ready(t, patient(policyOf(worker("x").slots(2*groups)).quotas(q)))
	r.hear(beat("x").available(1 << 20))
	for i := range groups {
		for k := range 2 {
			r.assign(job(coordinator.TaskID(fmt.Sprint("t", i, "-", k))).of(fmt.Sprint("g", i)))
		}
	}
	r.hear(beat("x").status(coordinator.StatusOffline))
	r.pass(2 * time.Second) // all rates are back
	return r
}

// BenchmarkQuotaIdleTick: what a tick takes while so many groups could go, and no agent is there.
func BenchmarkQuotaIdleTick(b *testing.B) {
	for _, groups := range []int{100, 1000, 10_000} {
		b.Run(fmt.Sprint(groups), func(b *testing.B) {
			r := idleGroups(b, groups)
			b.ResetTimer()
			for b.Loop() {
				r.apply(coordinator.Tick{})
			}
		})
	}
}

// BenchmarkQuotaAllServed: what a dispatch takes when the agent is back, and all go at once.
func BenchmarkQuotaAllServed(b *testing.B) {
	for _, groups := range []int{100, 1000, 10_000} {
		b.Run(fmt.Sprint(groups), func(b *testing.B) {
			r := idleGroups(b, groups)
			start := time.Now()
			n := len(r.dispatches)
			r.hear(beat("x").available(1 << 20))
			if len(r.dispatches)-n != groups {
				b.Fatal(len(r.dispatches) - n)
			}
			b.ReportMetric(float64(time.Since(start).Microseconds())/float64(groups), "µs/dispatch")
		})
	}
}

// borrowersRig has so many groups that have used what is theirs, and wait to borrow.
func borrowersRig(t testing.TB, groups int) *rig {
	q := quotasOf().pool(func(n *coordinator.QuotaNode) { daily(int64(1000 * (groups + 1)))(n) })
	for i := range groups {
		q.group(fmt.Sprint("g", i), 1, daily(1000))
	}
	q.group("z", 1, daily(1000))
	r := ready(t, patient(policyOf(worker("x").slots(2*groups+1000)).quotas(q)))
	r.hear(beat("x").available(1 << 20))
	for k := range 2 {
		for i := range groups {
			r.assign(job(coordinator.TaskID(fmt.Sprint("t", i, "-", k))).of(fmt.Sprint("g", i)).tokens(900, 100))
		}
	}
	return r
}

// BenchmarkQuotaBorrowersWoken: a second in which 20 calls give a little back that they all want.
func BenchmarkQuotaBorrowersWoken(b *testing.B) {
	for _, groups := range []int{100, 1000, 10_000} {
		b.Run(fmt.Sprint(groups), func(b *testing.B) {
			r := borrowersRig(b, groups)
			before, start, first, ticks := r.refusals(), time.Now(), time.Duration(0), 0
			const events = 20
			for i := range events { // z's calls settle at what was thought, 20 a second
				at := time.Now()
				id := coordinator.TaskID(fmt.Sprint("z", i))
				r.assign(job(id).of("z").tokens(1, 1))
				r.tell(says("x", id).used(1, 0))
				first = max(first, time.Since(at))
				end := r.now.Add(50 * time.Millisecond)
				for {
					d, ok := r.NextDeadline()
					if !ok || d.After(end) {
						break
					}
					r.now = d
					r.apply(coordinator.Tick{})
					ticks++
				}
				r.now = end
			}
			b.ReportMetric(float64(time.Since(start).Milliseconds()), "ms-cpu-per-s")
			b.ReportMetric(float64(first.Microseconds()), "µs-longest-event")
			b.ReportMetric(float64(r.refusals()-before)/events, "refusals/settle")
			b.ReportMetric(float64(ticks), "ticks")
		})
	}
}
