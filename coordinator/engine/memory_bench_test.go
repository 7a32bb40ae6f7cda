package engine

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"taskbus/coordinator"
)

// epoch is when the tests of parts begin.
var epoch = time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)

// keyNo makes the key of a task, spread as those of real ids are.
func keyNo(i int) coordinator.TaskKey {
	mix := func(x uint64) uint64 { // the finalizer of splitmix64
		x += 0x9e3779b97f4a7c15
		x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
		x = (x ^ x>>27) * 0x94d049bb133111eb
		return x ^ x>>31
	}
	return coordinator.TaskKey{mix(uint64(2 * i)), mix(uint64(2*i + 1))}
}

// recallingEngine is one of which only the memory is used.
func recallingEngine(window time.Duration, most int) *Engine {
	e := New()
	e.policy = &coordinator.Policy{Settings: coordinator.Settings{DedupeWindow: window, DedupeMaxIDs: most}}
	return e
}

// BenchmarkMemory: one operation is a task that was never seen before, in a memory that
// holds so many ids: each drops the oldest.
func BenchmarkMemory(b *testing.B) {
	for _, ids := range []int{20_000, 100_000, 1_000_000} {
		b.Run(fmt.Sprint("ids=", ids), func(b *testing.B) {
			e, now, next := recallingEngine(time.Hour, ids), epoch, 0
			see := func() {
				now, next = now.Add(time.Microsecond), next+1
				key := keyNo(next)
				if e.recall(now, key) == nil {
					e.memory.remember(now, key, 1, coordinator.FateSucceeded, 1)
				}
			}
			for range ids {
				see()
			}
			b.ReportAllocs()
			b.ResetTimer()
			for range b.N {
				see()
			}
		})
	}
}

// BenchmarkMemoryGrowth: one operation is a memory that grows to a million ids. It
// reports the time of an id, and the longest that any of them took: of each the best
// of all operations, because others disturb them, so that there should be a few.
func BenchmarkMemoryGrowth(b *testing.B) {
	const ids = 1_000_000
	best := make([]time.Duration, ids)
	for n := range b.N {
		e := recallingEngine(time.Hour, 2*ids)
		for i := range best {
			begun, key := time.Now(), keyNo(i)
			if e.recall(epoch, key) == nil {
				e.memory.remember(epoch, key, 1, coordinator.FateSucceeded, 1)
			}
			if took := time.Since(begun); n == 0 || took < best[i] {
				best[i] = took
			}
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/ids, "ns/id")
	b.ReportMetric(float64(slices.Max(best).Microseconds()), "longest-µs")
}
